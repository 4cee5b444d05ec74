//! One daemon process: opens the data of its teams, starts their actors, drains them at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bus::Bus;
use futures_util::future::join_all;
use journal::{DataLock, Holder, Journal, OnCommit, Options};
use model::Guards;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use store::Store;
use telemetry::{Exporter, Metrics};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::TaskTracker;
use tools::ToolKind;
use tools::cloudevent::replies::{HOLD, Replies};
use tools::command::Launcher;
use tools::mcp::Servers;
use tools::query::Databases;
use tracing::{info, warn};
use wire::entry::memory_session;
use wire::look::NodeStats;
use wire::{Event, Name, SessionId, Subjects, WireError};

use crate::admission::Places;
use crate::archive::{self, Archive};
use crate::clock;
use crate::context::{Shared, TeamContext};
use crate::error::Error;
use crate::event_replies::{self, RepliesOf};
use crate::feed::Feed;
use crate::keeper;
use crate::look::Look;
use crate::metrics::{self, Loads};
use crate::present::{Present, Refreshed};
use crate::projector::Projector;
use crate::room;
use crate::sessions::SessionsMsg;
use crate::stats::Counters;
use crate::team::{TeamArgs, TeamMsg, TeamSupervisor};

/// The folder of the databases below a team's directory. Unlike the store they cannot be rebuilt.
const DATABASES_DIR: &str = "databases";

/// What a team sets aside on its disk: the steps of some hundred runs in work.
pub const RESERVE_BYTES_DEFAULT: u64 = 32 << 20;

/// How often a drain looks whether the last run has ended.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// How long a team has at the end of a drain to say how much it has in work.
const BUSY_TIMEOUT_MS: u64 = 1000;

/// How long a team has to take a change of its tools; it starts an actor for each that is new.
const CHANGE_TIMEOUT_MS: u64 = 30_000;

/// How long the last answers and events may take to leave at the end of a drain; a bus that takes
/// longer is out of reach.
const LEAVE_MAX: Duration = Duration::from_millis(500);

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
}

/// One team of a running node, for look-ups.
#[derive(Clone)]
pub struct TeamHandle {
    context: Arc<TeamContext>,
    actor: ActorRef<TeamMsg>,
    sessions: ActorRef<SessionsMsg>,
    lock: Arc<Mutex<Option<DataLock>>>,
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
        let http = tools::client::HttpClient::new()
            .map_err(|error| Error::Prepare { what: "HTTP client".to_owned(), error })?;
        let guards = Arc::new(Guards::default());
        let shared = Shared::start(bus.clone());
        let mut node = Self {
            teams: BTreeMap::new(),
            bus: bus.clone(),
            supervisor: supervisor.clone(),
            fault,
            draining: AtomicBool::new(false),
            tasks: Vec::new(),
            shared: shared.clone(),
            subjects: options.subjects.clone(),
            looks: Mutex::default(),
        };
        for team in teams {
            for note in model::unenforced(&team, team.agents.values()) {
                warn!(team = %team.name, %note, "a part of a schema is not sent to the provider");
            }
            let opened = {
                let (bus, options, shared) = (bus.clone(), options.clone(), shared.clone());
                let http = http.clone();
                spawn_blocking(move || open_team(team, bus, options, shared, http.written()))
            };
            let opened = opened.await.map_err(|_| Error::Ending)??;
            let context = opened.context;
            let (journal, store) = (context.journal.clone(), context.projector.stopped());
            let stopped = fault_tx.clone();
            tokio::spawn(async move {
                let reason = tokio::select! {
                    why = journal.stopped() => format!("the journal cannot be written: {why}"),
                    () = store => "the store cannot be used".to_owned(),
                };
                stopped.send_replace(Some(reason));
            });
            node.tasks.push(tokio::spawn(room::watch(context.clone())).abort_handle());
            let (told, sessions) = oneshot::channel();
            let args = TeamArgs {
                context: context.clone(),
                http: http.clone(),
                guards: guards.clone(),
                unfinished: opened.unfinished,
                sessions: told,
                started: rfc3339(clock::now()),
            };
            let (actor, _) =
                TeamSupervisor::spawn_linked(None, TeamSupervisor, args, supervisor.get_cell())
                    .await?;
            let sessions = sessions.await.map_err(|_| Error::Ending)?;
            let keeping = keeper::keep(context.clone(), sessions.clone());
            node.tasks.push(tokio::spawn(keeping).abort_handle());
            let lock = Arc::new(Mutex::new(Some(opened.lock)));
            let name = context.team.name.clone();
            node.teams.insert(name, TeamHandle { context, actor, sessions, lock });
        }
        let looks = node.look().serve().await?;
        bus.flush().await?;
        Ok(Self { looks: Mutex::new(looks), ..node })
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
        join_all(servers.map(Servers::close)).await;
        // They hold the data of all teams.
        let looks = std::mem::take(&mut *self.looks.lock().unwrap_or_else(PoisonError::into_inner));
        join_all(looks.into_iter().map(Feed::end)).await;
        for TeamHandle { context, lock, .. } in self.teams.values() {
            context.projector.sync().await;
            let (exporter, metrics) = (context.exporter.clone(), context.metrics.clone());
            let (journal, store) = (context.journal.clone(), context.store.clone());
            let closed = spawn_blocking(move || {
                journal.close();
                if let Err(error) = store.flush() {
                    warn!(%error, "the store cannot be flushed; it is brought up at the next start");
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
    }
}

impl TeamHandle {
    pub(crate) fn context(&self) -> &Arc<TeamContext> {
        &self.context
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.context.is_draining()
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
    pub async fn session_of_run(&self, run: &wire::RunId) -> Result<Option<SessionId>, WireError> {
        self.context.session_of_run(run).await
    }

    /// Returns what became of the replies to the events that the team's tools sent, by their source.
    pub fn event_replies(&self) -> Vec<RepliesOf> {
        event_replies::counts(&self.context)
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
    /// a person.
    pub async fn sessions_busy(&self) -> usize {
        ractor::call_t!(self.sessions, SessionsMsg::Busy, BUSY_TIMEOUT_MS).unwrap_or_default()
    }

    /// Counts the turns and calls that the team's models and tools have under way on this node.
    pub fn work_under_way(&self) -> usize {
        self.context.work.len()
    }

    /// Returns what observers of a session were told after a position, from the journal.
    pub async fn events(
        &self,
        session: &SessionId,
        after: Option<(u64, u32)>,
    ) -> Result<Vec<Event>, WireError> {
        let (context, session) = (self.context.clone(), session.clone());
        let folded = spawn_blocking(move || {
            let TeamContext { team, journal, plans, .. } = &*context;
            archive::events(&team.name, &session, journal, plans, after)
        });
        folded.await.map_err(|_| Error::Ending.to_wire())?.map_err(|error| error.to_wire())
    }
}

pub(crate) struct OpenedTeam {
    pub(crate) context: Arc<TeamContext>,
    lock: DataLock,
    unfinished: Vec<SessionId>,
}

/// Opens journal and store of a team. Blocks on the disk.
pub(crate) fn open_team(
    team: config::Team,
    bus: Bus,
    options: NodeOptions,
    shared: Arc<Shared>,
    http: &reqwest::Client,
) -> Result<OpenedTeam, Error> {
    let service = telemetry::Service {
        name: "callboard".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: format!("{}-{}", team.name, options.holder.pid),
    };
    let metrics = Metrics::start(&team.name, &service, team.otlp_endpoint.as_deref())?;
    let metrics = Arc::new(metrics);
    let heard = metrics.clone();
    let on_commit = OnCommit::tell(move |commit| {
        heard.committed(commit.entries, commit.bytes, commit.sync);
    });
    let limits = Options { reserve_bytes: options.reserve_bytes, on_commit, ..Options::default() };
    let plans = team.agents.values();
    let trace_bytes_max = team.retention.trace_bytes_max;
    let NodeOptions { data, holder, .. } = &options;
    let opened = Archive::open_with(data, &team.name, holder, limits, trace_bytes_max, plans)?;
    let Archive { lock, journal, store, plans, damaged, results, .. } = opened;
    let unfinished =
        store.unfinished()?.into_iter().filter(|session| !damaged.contains(session)).collect();
    let exporter = match &team.otlp_endpoint {
        Some(endpoint) => Some(Arc::new(Exporter::start(endpoint, &service, &[])?)),
        None => None,
    };
    let databases = open_databases(&team, &options.data, http)?;
    let launcher = Arc::new(find_launcher(&team, &options.data)?);
    let name = team.name.clone();
    let memory_slot = journal.next_slot(&memory_session());
    let places = Places::new(name.clone(), team.runs_max, shared.places.clone());
    let team = Arc::new(team);
    let context = Arc::new(TeamContext {
        present: Present::new(team.clone()),
        changing: tokio::sync::Mutex::new(()),
        team,
        databases,
        launcher,
        results,
        servers: OnceLock::new(),
        event_replies: Replies::start(HOLD),
        subjects: options.subjects,
        bus,
        projector: Projector::start(name, store.clone(), journal.clone(), plans.clone())?,
        journal,
        store,
        plans,
        exporter,
        metrics,
        loads: Loads::default(),
        shared,
        places,
        counters: Counters::default(),
        work: Arc::default(),
        replies: TaskTracker::new(),
        requests: TaskTracker::new(),
        draining: AtomicBool::new(false),
        service: OnceLock::new(),
        memory_slot: tokio::sync::Mutex::new(memory_slot),
    });
    metrics::watch(&context);
    Ok(OpenedTeam { context, lock, unfinished })
}

/// Opens the databases of a team, and checks that its tools fit them. Blocks on the disk.
fn open_databases(
    team: &config::Team,
    data: &Path,
    http: &reqwest::Client,
) -> Result<Databases, Error> {
    let prepare = |error| Error::Prepare { what: "databases".to_owned(), error };
    let dir = team_dir(data, &team.name).join(DATABASES_DIR);
    let databases = Databases::open(&team.databases, &dir, http).map_err(prepare)?;
    for (name, tool) in &team.tools {
        if let ToolKind::Query(spec) = &tool.kind {
            databases.check(name, spec).map_err(prepare)?;
        }
    }
    Ok(databases)
}

/// Finds what starts the commands of a team, and checks that each of them can be started. Blocks.
fn find_launcher(team: &config::Team, data: &Path) -> Result<Launcher, Error> {
    let commands = team.tools.iter().filter_map(|(name, tool)| match &tool.kind {
        ToolKind::Command(spec) => Some((name, spec)),
        ToolKind::Builtin(_)
        | ToolKind::CloudEvent(_)
        | ToolKind::Mcp(_)
        | ToolKind::Http(_)
        | ToolKind::Model(_)
        | ToolKind::Nats(_)
        | ToolKind::Query(_) => None,
    });
    let mut commands = commands.peekable();
    if commands.peek().is_none() {
        return Ok(Launcher::default());
    }
    let launcher = Launcher::find(std::env::var_os("PATH").as_deref(), data);
    for (name, spec) in commands {
        launcher
            .check(name, spec)
            .map_err(|error| Error::Prepare { what: "commands".to_owned(), error })?;
    }
    Ok(launcher)
}

/// Returns the directory of a team below a data directory.
pub fn team_dir(data: &Path, team: &Name) -> PathBuf {
    data.join(team.as_str())
}

fn rfc3339(at: wire::Timestamp) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    chrono::DateTime::from_timestamp_micros(micros)
        .map(|time| time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
        .unwrap_or_default()
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
