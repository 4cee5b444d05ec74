//! One daemon process: opens the data of its teams, starts their actors, drains them at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bus::Bus;
use futures_util::future::join_all;
use journal::Holder;
use model::Guards;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use tools::mcp::Servers;
use tracing::{info, warn};
use wire::look::NodeStats;
use wire::{Name, Subjects, WireError};

use crate::clock;
use crate::context::Shared;
use crate::error::Error;
use crate::feed::Feed;
use crate::keeper;
use crate::look::Look;
use crate::opening::open_team;
use crate::owner::{Owners, claim_of};
use crate::room;
use crate::team::{TeamArgs, TeamMsg, TeamSupervisor};
use crate::team_handle::TeamHandle;

/// What a team sets aside on its disk: the steps of some hundred runs in work.
pub const RESERVE_BYTES_DEFAULT: u64 = 32 << 20;

/// How often a drain looks whether the last run has ended.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// How long the last answers and events may take to leave at the end of a drain; a bus that takes
/// longer is out of reach.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// How long calls that were told to stop may put things in order at the end of a drain: longer than
/// any program needs to end, and well below what a service manager gives a daemon to stop.
const TIDY_MAX: Duration = Duration::from_secs(4);

/// How long the actors have to stop at the end of a drain.
const STOP_MAX: Duration = Duration::from_secs(1);

/// How long the last spans may take to leave at the end of a drain; the store has them as well.
const EXPORT_MAX: Duration = Duration::from_secs(1);

/// How a node is started.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The directory below which each team has its own.
    pub data: PathBuf,
    /// Names the process to those who find its data directory in use.
    pub holder: Holder,
    /// The subjects.
    pub subjects: Subjects,
    /// Bytes that each team sets aside on its disk, so that runs in work can end when it is full;
    /// [`RESERVE_BYTES_DEFAULT`] unless somebody knows better.
    pub reserve_bytes: u64,
}

/// A running node.
pub struct Node {
    teams: BTreeMap<Name, TeamHandle>,
    bus: Bus,
    supervisor: ActorRef<NodeMsg>,
    fault: watch::Receiver<Option<String>>,
    draining: AtomicBool,
    /// What looks after the data.
    tasks: Vec<AbortHandle>,
    shared: Arc<Shared>,
    subjects: Subjects,
    /// Answers those who ask all nodes.
    looks: Mutex<Vec<Feed>>,
    /// Keeps others from serving the teams.
    owners: Owners,
}

impl Node {
    /// Opens the data of all teams and starts them.
    pub async fn start(
        teams: Vec<config::Team>,
        bus: Bus,
        options: NodeOptions,
    ) -> Result<Self, Error> {
        let (fault_tx, fault) = watch::channel(None);
        let (supervisor, _) = Actor::spawn(None, NodeSupervisor, fault_tx.clone()).await?;
        let shared = Shared::start(bus.clone());
        // Before anything is opened, so that a node that is refused leaves nothing behind.
        let owners = own(&teams, &bus, &options, &shared).await?;
        let mut node = Self {
            teams: BTreeMap::new(),
            bus: bus.clone(),
            supervisor,
            fault,
            draining: AtomicBool::new(false),
            tasks: Vec::new(),
            shared,
            subjects: options.subjects.clone(),
            looks: Mutex::default(),
            owners,
        };
        if let Err(error) = node.open(teams, &options, &fault_tx).await {
            // The sessions of some teams may be at work already.
            node.drain(Duration::ZERO).await;
            return Err(error);
        }
        Ok(node)
    }

    /// Opens and starts all teams, then the look-ups over them.
    async fn open(
        &mut self,
        teams: Vec<config::Team>,
        options: &NodeOptions,
        fault: &watch::Sender<Option<String>>,
    ) -> Result<(), Error> {
        let http = tools::client::HttpClient::new()
            .map_err(|error| Error::Prepare { what: "HTTP client".to_owned(), error })?;
        let guards = Arc::new(Guards::default());
        for team in teams {
            for note in model::unenforced(&team, team.agents.values()) {
                warn!(team = %team.name, %note, "a part of a schema is not sent to the provider");
            }
            let opened = {
                let (bus, options, shared) =
                    (self.bus.clone(), options.clone(), self.shared.clone());
                let http = http.clone();
                spawn_blocking(move || open_team(team, bus, options, shared, http.written()))
            };
            let opened = opened.await.map_err(|_| Error::Ending)??;
            let context = opened.context;
            // Sessions that were in work go on with the actors, so this is the last moment at which
            // to leave the team to a node that began at the same time.
            self.owners.check()?;
            let (journal, store) = (context.journal.clone(), context.projector.stopped());
            let stopped = fault.clone();
            tokio::spawn(async move {
                let reason = tokio::select! {
                    why = journal.stopped() => format!("the journal cannot be written: {why}"),
                    () = store => "the store cannot be used".to_owned(),
                };
                stopped.send_replace(Some(reason));
            });
            self.tasks.push(tokio::spawn(room::watch(context.clone())).abort_handle());
            let (told, sessions) = oneshot::channel();
            let args = TeamArgs {
                context: context.clone(),
                http: http.clone(),
                guards: guards.clone(),
                unfinished: opened.unfinished,
                sessions: told,
                started: clock::rfc3339(clock::now()),
            };
            let (actor, _) = TeamSupervisor::spawn_linked(
                None,
                TeamSupervisor,
                args,
                self.supervisor.get_cell(),
            )
            .await?;
            let sessions = sessions.await.map_err(|_| Error::Ending)?;
            let keeping = keeper::keep(context.clone(), sessions.clone());
            self.tasks.push(tokio::spawn(keeping).abort_handle());
            let lock = Arc::new(Mutex::new(Some(opened.lock)));
            let name = context.team.name.clone();
            self.teams.insert(name, TeamHandle { context, actor, sessions, lock });
        }
        let looks = self.look().serve().await?;
        *self.looks.lock().unwrap_or_else(PoisonError::into_inner) = looks;
        self.bus.flush().await?;
        Ok(())
    }

    fn look(&self) -> Look {
        Look {
            bus: self.bus.clone(),
            subjects: self.subjects.clone(),
            shared: self.shared.clone(),
            teams: self.teams.values().cloned().collect(),
        }
    }

    /// Returns how the node fares.
    pub async fn stats(&self) -> Result<NodeStats, WireError> {
        self.look().stats().await
    }

    /// Returns the subjects.
    pub fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    /// Returns a team.
    pub fn team(&self, name: &str) -> Option<&TeamHandle> {
        self.teams.get(name)
    }

    /// Iterates over the teams.
    pub fn teams(&self) -> impl Iterator<Item = &TeamHandle> {
        self.teams.values()
    }

    /// Writes what all teams measure, in the text format of Prometheus. Blocks for a moment.
    pub fn metrics(&self) -> Result<String, Error> {
        let all = self.teams.values().map(|team| &*team.context.metrics);
        Ok(telemetry::metrics::text(all)?)
    }

    /// Returns the bus.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Tells whether runs are taken.
    pub fn is_ready(&self) -> bool {
        !self.draining.load(Ordering::Relaxed)
            && self.bus.is_connected()
            && self.fault.borrow().is_none()
            && self.owners.check().is_ok()
    }

    /// Tells whether the node is on its way to its end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Tells others who find the data directories in use where this node can be asked.
    pub fn announce(&self, holder: &Holder) -> Result<(), Error> {
        for team in self.teams.values() {
            if let Some(lock) = &*team.lock.lock().unwrap_or_else(PoisonError::into_inner) {
                lock.update(holder)?;
            }
        }
        Ok(())
    }

    /// Waits until the node cannot go on, and says why.
    pub async fn failed(&self) -> String {
        let mut fault = self.fault.clone();
        match fault.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the node's supervisor ended".to_owned(),
        }
    }

    /// Waits until another node is found to serve a team of this one since before, and says which.
    /// This node is to be drained then.
    pub async fn superseded(&self) -> WireError {
        self.owners.lost().await
    }

    /// Lets those go who still wait, and what is on its way to them.
    async fn leave(&self) {
        let left = async {
            for TeamHandle { context, .. } in self.teams.values() {
                context.work.stop_all();
                context.requests.close();
                context.requests.wait().await;
            }
            self.bus.flush().await
        };
        match timeout(LEAVE_MAX, left).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "bus not flushed"),
            Err(_) => warn!("the last answers were not sent in time"),
        }
        self.shared.herald.flush(LEAVE_MAX).await;
    }

    /// Waits until calls that were stopped have put things in order, so that no program of theirs
    /// outlives the process.
    async fn tidy(&self) {
        let tidied = self.teams.values().map(|TeamHandle { context, .. }| {
            context.stopping.close();
            context.stopping.wait()
        });
        if timeout(TIDY_MAX, join_all(tidied)).await.is_err() {
            warn!("a call that was stopped did not end in time");
        }
    }

    /// Counts the sessions that have work to do by themselves, and the replies on their way. What
    /// waits for a person does not count: it waits as well at the next start.
    async fn busy(&self) -> usize {
        let mut busy = 0;
        for team in self.teams.values() {
            busy += team.sessions_busy().await + team.context.replies.len();
        }
        busy
    }

    /// Counts the events that were dropped because the bus did not take them.
    pub fn events_lost(&self) -> u64 {
        self.shared.herald.lost()
    }

    /// Takes no new runs, gives those in work some time to end, and closes the data.
    ///
    /// A run that does not end in that time is not lost: it is taken up at the next start.
    pub async fn drain(&self, grace: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        self.owners.leave();
        let end = Instant::now() + grace;
        for team in self.teams.values() {
            team.context.draining.store(true, Ordering::Relaxed);
        }
        let mut left = self.busy().await;
        while left > 0 && Instant::now() < end {
            sleep(DRAIN_INTERVAL).await;
            left = self.busy().await;
        }
        if left > 0 {
            info!(sessions = left, "what is in work goes on at the next start");
        }
        for team in self.teams.values() {
            drop(team.actor.cast(TeamMsg::Close));
        }
        self.supervisor.stop_children_and_wait(None, Some(STOP_MAX)).await;
        self.supervisor.stop(None);
        self.tasks.iter().for_each(AbortHandle::abort);
        self.leave().await;
        let servers = self.teams.values().filter_map(|team| team.context.servers.get());
        tokio::join!(self.tidy(), join_all(servers.map(Servers::close)));
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for TeamHandle { context, lock, .. } in self.teams.values() {
            context.projector.sync().await;
            let (exporter, metrics) = (context.exporter.clone(), context.metrics.clone());
            let (journal, store) = (context.journal.clone(), context.store.clone());
            let closed = spawn_blocking(move || {
                journal.close();
                if let Err(error) = store.close() {
                    warn!(%error, "the store was not closed in order; it is mended at the next start");
                }
                if let Some(exporter) = exporter
                    && let Err(error) = exporter.shutdown(EXPORT_MAX)
                {
                    warn!(%error, "the last spans were not exported");
                }
                if let Err(error) = metrics.shutdown(EXPORT_MAX) {
                    warn!(%error, "what was measured last was not exported");
                }
            });
            closed.await.unwrap_or_default();
            drop(lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        self.owners.release().await;
    }
}

/// Claims the teams of a node. On the bus inside the process the lock on the data directory is all
/// that is needed.
async fn own(
    teams: &[config::Team],
    bus: &Bus,
    options: &NodeOptions,
    shared: &Shared,
) -> Result<Owners, Error> {
    let NodeOptions { data, holder, subjects, .. } = options;
    let claims = teams.iter().filter(|_| bus.is_shared()).map(|team| {
        (team.name.clone(), claim_of(&shared.node, shared.since, holder.pid, data, &team.name))
    });
    Owners::claim(bus, subjects, claims.collect()).await
}

struct NodeSupervisor;

enum NodeMsg {}

impl Actor for NodeSupervisor {
    type Msg = NodeMsg;
    type State = watch::Sender<Option<String>>;
    type Arguments = watch::Sender<Option<String>>;

    async fn pre_start(
        &self,
        _: ActorRef<NodeMsg>,
        fault: watch::Sender<Option<String>>,
    ) -> Result<watch::Sender<Option<String>>, ActorProcessingErr> {
        Ok(fault)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<NodeMsg>,
        event: SupervisionEvent,
        state: &mut watch::Sender<Option<String>>,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, fault) => {
                state.send_replace(Some(format!("a team cannot go on: {fault}")));
            }
            SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}
