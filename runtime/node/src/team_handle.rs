//! One team of a running node, for those who look things up.

use std::sync::{Arc, Mutex};

use journal::{DataLock, Journal, Since};
use ractor::{ActorRef, RactorErr};
use store::Store;
use tokio::task::spawn_blocking;
use wire::event::EventId;
use wire::open::OpenCallList;
use wire::run::Accepted;
use wire::{
    CallKey, Event, Name, OpenCall, OpenKind, RunId, RunRequest, SessionId, Subjects, WireError,
};

use crate::archive;
use crate::context::TeamContext;
use crate::error::Error;
use crate::event_replies::{self, RepliesOf};
use crate::opening::Unfinished;
use crate::present::Refreshed;
use crate::sessions::SessionsMsg;
use crate::team::TeamMsg;

/// How long a team has at the end of a drain to say how much it has in work.
const BUSY_TIMEOUT_MS: u64 = 1000;

/// How long a team has to take a change of its tools; it starts an actor for each that is new.
const CHANGE_TIMEOUT_MS: u64 = 30_000;

/// One team of a running node, for look-ups.
#[derive(Clone)]
pub struct TeamHandle {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) actor: ActorRef<TeamMsg>,
    pub(crate) sessions: ActorRef<SessionsMsg>,
    pub(crate) lock: Arc<Mutex<Option<DataLock>>>,
}

impl TeamHandle {
    pub(crate) fn context(&self) -> &Arc<TeamContext> {
        &self.context
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.context.is_draining()
    }

    /// Has sessions taken up that were in work when the node last ended, and opens the team's door.
    pub(crate) async fn open_door(&self, unfinished: Unfinished) -> Result<(), Error> {
        let opening = |told| TeamMsg::Open(unfinished, told);
        ractor::call!(self.actor, opening).map_err(|_| Error::Ending)?
    }

    /// Returns the team as it is at present.
    pub fn team(&self) -> Arc<config::Team> {
        self.context.present.team()
    }

    /// Says why the team is not as its sources are, if it is not.
    pub fn fault(&self) -> Option<String> {
        self.context.present.fault()
    }

    /// Notes why the team cannot be as its sources are; the next change of the team clears it.
    pub fn set_fault(&self, fault: String) {
        self.context.present.set_fault(Some(fault));
    }

    /// Puts the same team, made of the same text and of other sources, in place of the present one.
    ///
    /// New runs begin with its plans, in sessions that are there as well; runs in work keep theirs,
    /// and tools that are gone are served for as long as such a run can last. What does not come
    /// from sources stays as it was at the start, whatever the team says of it.
    pub async fn refresh(&self, team: config::Team) -> Result<Refreshed, Error> {
        let _one = self.context.changing.lock().await;
        let team = Arc::new(team);
        let changing = |told| TeamMsg::Change(team.clone(), told);
        let changed = ractor::call_t!(self.actor, changing, CHANGE_TIMEOUT_MS);
        let refreshed = changed.map_err(|_| Error::Ending)?;
        // New tools are there before anybody is offered them.
        let plans = self.context.plans.clone();
        let put = spawn_blocking(move || plans.replace(team.agents.values())).await;
        put.map_err(|_| Error::Ending)??;
        Ok(refreshed)
    }

    /// Returns the store, for look-ups off the async threads.
    pub fn store(&self) -> &Store {
        &self.context.store
    }

    /// Returns the journal, for look-ups off the async threads.
    pub fn journal(&self) -> &Journal {
        &self.context.journal
    }

    /// Returns the subjects.
    pub fn subjects(&self) -> &Subjects {
        &self.context.subjects
    }

    /// Returns the session in which a run began, if the run is known.
    pub async fn session_of_run(&self, run: &RunId) -> Result<Option<SessionId>, WireError> {
        self.context.session_of_run(run).await
    }

    /// Accepts a request for a run that is known, and that the same agent was asked for, which the
    /// team may not have any longer. Another request under its id is refused.
    pub async fn accepted_before(
        &self,
        agent: &Name,
        request: RunRequest,
    ) -> Result<Option<Accepted>, WireError> {
        self.context.accepted_before(agent, request).await
    }

    /// Returns what became of the replies to the events that the team's tools sent, by their source.
    pub fn event_replies(&self) -> Vec<RepliesOf> {
        event_replies::counts(&self.context)
    }

    /// Lists open calls, all or those of a kind, those for which a run waits before the others, each
    /// the oldest first.
    pub async fn open_calls(
        &self,
        kind: Option<OpenKind>,
        limit: usize,
    ) -> Result<OpenCallList, WireError> {
        self.context.open_calls(kind, limit).await
    }

    /// Returns a call that is open.
    pub async fn open_call(&self, call: CallKey) -> Result<Option<OpenCall>, WireError> {
        self.context.open_call(call).await
    }

    /// Waits until the store shows everything that was committed so far.
    pub async fn settle(&self) {
        self.context.projector.sync().await;
    }

    /// Counts the sessions in memory.
    pub async fn sessions_in_memory(&self) -> usize {
        ractor::call_t!(self.sessions, SessionsMsg::Count, 1000).unwrap_or_default()
    }

    /// Counts the sessions that have work to do by themselves, such as a run that does not wait for
    /// a person. While the team has not got to the question, it counts as one that has.
    pub async fn sessions_busy(&self) -> usize {
        busy_of(&self.sessions).await
    }

    /// Counts the turns and calls that the team's models and tools have under way on this node.
    pub fn work_under_way(&self) -> usize {
        self.context.work.len()
    }

    /// Returns what observers of a session were told after a position, from the journal.
    pub async fn events(
        &self,
        session: &SessionId,
        after: Option<EventId>,
    ) -> Result<Vec<Event>, WireError> {
        let (context, session) = (self.context.clone(), session.clone());
        let folded = spawn_blocking(move || {
            let TeamContext { team, journal, plans, .. } = &*context;
            archive::events(&team.name, &session, journal, plans, Since::Oldest, after)
        });
        folded.await.map_err(|_| Error::Ending.to_wire())?.map_err(|error| error.to_wire())
    }

    /// Hands over what observers of a session were told, from the journal, one by one. Blocks on the
    /// disk.
    pub fn each_event(
        &self,
        session: &SessionId,
        take: impl FnMut(Event),
    ) -> Result<(), WireError> {
        self.fold_events(session, Since::Oldest, take)
    }

    /// Hands over what observers of a run of a session were told, from the journal, one by one. Blocks
    /// on the disk.
    pub fn each_event_of(
        &self,
        session: &SessionId,
        run: &RunId,
        mut take: impl FnMut(Event),
    ) -> Result<(), WireError> {
        let since = archive::around(self.store(), run);
        let since = since.map_err(|error| Error::Store(error).to_wire())?;
        self.fold_events(session, since, |event| {
            if event.run == *run {
                take(event);
            }
        })
    }

    fn fold_events(
        &self,
        session: &SessionId,
        since: Since,
        take: impl FnMut(Event),
    ) -> Result<(), WireError> {
        let TeamContext { team, journal, plans, .. } = &*self.context;
        archive::each_event(&team.name, session, journal, plans, since, take)
            .map_err(|error| error.to_wire())
    }
}

async fn busy_of(sessions: &ActorRef<SessionsMsg>) -> usize {
    match ractor::call_t!(sessions, SessionsMsg::Busy, BUSY_TIMEOUT_MS) {
        Ok(busy) => busy,
        // Who has so much to do that no answer comes is not idle.
        Err(RactorErr::Timeout) => 1,
        // Without the supervisor there are no sessions.
        Err(RactorErr::Spawn(_) | RactorErr::Messaging(_) | RactorErr::Actor(_)) => 0,
    }
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr, RpcReplyPort};

    use super::*;

    /// Takes questions and keeps them, or answers all with the same number.
    struct Supervisor(Option<usize>);

    impl Actor for Supervisor {
        type Msg = SessionsMsg;
        type State = Vec<RpcReplyPort<usize>>;
        type Arguments = ();

        async fn pre_start(
            &self,
            _: ActorRef<SessionsMsg>,
            (): (),
        ) -> Result<Vec<RpcReplyPort<usize>>, ActorProcessingErr> {
            Ok(Vec::new())
        }

        async fn handle(
            &self,
            _: ActorRef<SessionsMsg>,
            msg: SessionsMsg,
            kept: &mut Vec<RpcReplyPort<usize>>,
        ) -> Result<(), ActorProcessingErr> {
            if let SessionsMsg::Busy(reply) = msg {
                match self.0 {
                    Some(busy) => reply.send(busy)?,
                    None => kept.push(reply),
                }
            }
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_team_that_does_not_answer_is_busy_and_one_that_is_gone_is_not() {
        for (answer, is_gone, busy) in
            [(Some(0), false, 0), (Some(3), false, 3), (None, false, 1), (None, true, 0)]
        {
            let (sessions, ended) = Supervisor::spawn(None, Supervisor(answer), ()).await.unwrap();
            if is_gone {
                sessions.stop(None);
                ended.await.unwrap();
                assert_eq!(busy_of(&sessions).await, busy, "{answer:?}, gone");
            } else {
                assert_eq!(busy_of(&sessions).await, busy, "{answer:?}");
                sessions.stop(None);
            }
        }
    }
}
