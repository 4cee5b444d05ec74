//! A node whose data is open and whose runs are not taken up yet. A start may fail until the last of
//! it, and each run that it took up would have been begun again for nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::Holder;
use model::Guards;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;
use tools::client::HttpClient;
use tracing::warn;
use wire::SessionId;

use super::drain::{close, end_exports};
use super::{Node, NodeOptions};
use crate::clock;
use crate::context::TeamContext;
use crate::error::Error;
use crate::keeper;
use crate::metrics;
use crate::opening::{OpenedTeam, Unfinished, check_commands, open_team};
use crate::room;
use crate::team::TeamArgs;
use crate::team_handle::TeamHandle;

/// A node that holds the data of its teams and does not work on it yet.
///
/// It is to be [started](Self::start) or [closed](Self::close).
pub struct OpenedNode {
    node: Node,
    /// The teams that have no actors.
    teams: Vec<OpenedTeam>,
    http: HttpClient,
    fault: watch::Sender<Option<String>>,
}

impl OpenedNode {
    /// Opens the data of all teams, or of none.
    pub(super) async fn open(
        node: Node,
        teams: Vec<config::Team>,
        options: &NodeOptions,
        fault: watch::Sender<Option<String>>,
    ) -> Result<Self, Error> {
        let http = match HttpClient::new() {
            Ok(http) => http,
            Err(error) => {
                node.drain(Duration::ZERO).await;
                return Err(Error::Prepare { what: "HTTP client".to_owned(), error });
            }
        };
        let mut opened = Self { node, teams: Vec::new(), http, fault };
        if let Err(error) = opened.open_all(teams, options).await {
            opened.close().await;
            return Err(error);
        }
        Ok(opened)
    }

    async fn open_all(
        &mut self,
        teams: Vec<config::Team>,
        options: &NodeOptions,
    ) -> Result<(), Error> {
        let (shared, data) = (self.node.shared.clone(), options.data.clone());
        let measuring = move || {
            check_commands(&teams, &data)?;
            metrics::of_node(&shared, &teams).map(|of_node| (of_node, teams))
        };
        let (of_node, teams) = spawn_blocking(measuring).await.map_err(|_| Error::Ending)??;
        self.node.metrics = Some(Arc::new(of_node));
        for team in teams {
            for note in model::unenforced(&team, team.agents.values()) {
                warn!(team = %team.name, %note, "a part of a schema is not sent to the provider");
            }
            let (bus, options, shared) =
                (self.node.bus.clone(), options.clone(), self.node.shared.clone());
            let http = self.http.clone();
            let opening =
                spawn_blocking(move || open_team(team, bus, options, shared, http.written()));
            self.teams.push(opening.await.map_err(|_| Error::Ending)??);
        }
        Ok(())
    }

    /// Tells others who find the data directories in use where this node can be asked.
    pub fn announce(&self, holder: &Holder) -> Result<(), Error> {
        for team in &self.teams {
            team.lock.update(holder)?;
        }
        Ok(())
    }

    /// Leaves what is unfinished as it is, but for what a session has to do; requests take up what
    /// they ask for. Returns how many runs are left so that clients asked for.
    pub fn leave_unfinished(&mut self, but: Option<&SessionId>) -> usize {
        self.teams.iter_mut().map(|team| team.unfinished.leave(&team.context, but)).sum()
    }

    /// Starts all teams: first all actors, then the sessions that have work to do, each team's door,
    /// and the look-ups over all. What was opened is closed if that fails.
    pub async fn start(mut self) -> Result<Node, Error> {
        let mut waiting = VecDeque::new();
        match self.start_all(&mut waiting).await {
            Ok(()) => Ok(self.node),
            Err(error) => {
                // Nobody took them up, so they are as the process before left them.
                for (team, mut unfinished) in waiting {
                    unfinished.leave(&team.context, None);
                }
                self.close().await;
                Err(error)
            }
        }
    }

    /// Starts all teams, of which those whose sessions are not taken up yet are in `waiting`.
    async fn start_all(
        &mut self,
        waiting: &mut VecDeque<(TeamHandle, Unfinished)>,
    ) -> Result<(), Error> {
        let guards = Arc::new(Guards::default());
        while let Some(team) = self.teams.first() {
            let handle = self.spawn(team, &guards).await?;
            let OpenedTeam { lock, unfinished, .. } = self.teams.remove(0);
            *handle.lock.lock().unwrap_or_else(PoisonError::into_inner) = Some(lock);
            self.watch(&handle.context);
            waiting.push_back((handle.clone(), unfinished));
            let name = handle.context.team.name.clone();
            self.node.teams.insert(name, handle);
        }
        loop {
            // Sessions that were in work go on from here, so this is the last moment at which to
            // leave the team to a node that began at the same time.
            self.node.owners.check()?;
            let Some((team, unfinished)) = waiting.pop_front() else { break };
            team.open_door(unfinished).await?;
            let keeping = keeper::keep(team.context.clone(), team.sessions.clone());
            self.node.tasks.push(tokio::spawn(keeping).abort_handle());
        }
        let looks = self.node.look().serve().await?;
        *self.node.looks.lock().unwrap_or_else(PoisonError::into_inner) = looks;
        self.node.bus.flush().await?;
        Ok(())
    }

    /// Starts the actors of a team.
    async fn spawn(&self, team: &OpenedTeam, guards: &Arc<Guards>) -> Result<TeamHandle, Error> {
        let context = team.context.clone();
        let (told, sessions) = oneshot::channel();
        let args = TeamArgs {
            context: context.clone(),
            http: self.http.clone(),
            guards: guards.clone(),
            sessions: told,
            started: clock::rfc3339(clock::now()),
        };
        let actor = self.node.spawn(args).await?;
        let sessions = sessions.await.map_err(|_| Error::Ending)?;
        Ok(TeamHandle { context, actor, sessions, lock: Arc::new(Mutex::new(None)) })
    }

    /// Looks after the data of a team for as long as the node is there.
    fn watch(&mut self, context: &Arc<TeamContext>) {
        let (journal, store) = (context.journal.clone(), context.projector.stopped());
        let stopped = self.fault.clone();
        tokio::spawn(async move {
            let reason = tokio::select! {
                why = journal.stopped() => format!("the journal cannot be written: {why}"),
                () = store => "the store cannot be used".to_owned(),
            };
            stopped.send_replace(Some(reason));
        });
        self.node.tasks.push(tokio::spawn(room::watch(context.clone())).abort_handle());
    }

    /// Closes the data of all teams, as it was found unless some of them were started.
    pub async fn close(self) {
        self.node.drain(Duration::ZERO).await;
        let mut contexts = Vec::new();
        for OpenedTeam { context, lock, .. } in self.teams {
            close(&context).await;
            drop(lock);
            contexts.push(context);
        }
        end_exports(contexts.iter().map(|context| &**context), None).await;
    }
}
