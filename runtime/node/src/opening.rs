//! Opens what a team has on its disk and outside of the process, before its actors start.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bus::Bus;
use journal::{DataLock, OnCommit, Options};
use telemetry::{Exporter, Metrics};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tools::ToolKind;
use tools::cloudevent::replies::{HOLD, Replies};
use tools::command::{Launcher, Opening, check_openings};
use tools::mcp::Transport;
use tools::query::Databases;
use tools::secret::SecretRef;
use wire::entry::memory_session;
use wire::{Name, RunId, SessionId};

use crate::admission::Places;
use crate::archive::Archive;
use crate::context::{LOOKUPS_AT_ONCE_MAX, Shared, TeamContext};
use crate::drained::Drained;
use crate::error::Error;
use crate::metrics::{self, Loads};
use crate::node::NodeOptions;
use crate::pace::Paces;
use crate::present::Present;
use crate::projector::Projector;
use crate::retention::TooLarge;
use crate::stats::Counters;

/// The folder of the databases below a team's directory. Unlike the store they cannot be rebuilt.
const DATABASES_DIR: &str = "databases";

pub(crate) struct OpenedTeam {
    pub(crate) context: Arc<TeamContext>,
    pub(crate) lock: DataLock,
    pub(crate) unfinished: Unfinished,
}

/// What was in work when a team's node last ended.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    /// The sessions that have something to do.
    pub(crate) sessions: Vec<SessionId>,
    /// The runs among it that clients asked for, with their sessions.
    pub(crate) runs: Vec<(RunId, SessionId)>,
}

impl Unfinished {
    /// Leaves all sessions but one as they are, and returns how many runs that comes to.
    pub(crate) fn leave(&mut self, context: &TeamContext, but: Option<&SessionId>) -> usize {
        for session in self.sessions.extract_if(.., |session| Some(&*session) != but) {
            let slot = context.journal.next_slot(&session);
            context.drained.leave(session, slot);
        }
        self.runs.extract_if(.., |(_, session)| Some(&*session) != but).count()
    }
}

/// Opens journal and store of a team. Blocks on the disk.
pub(crate) fn open_team(
    team: config::Team,
    bus: Bus,
    options: NodeOptions,
    shared: Arc<Shared>,
    http: &reqwest::Client,
) -> Result<OpenedTeam, Error> {
    let service = metrics::service(format!("{}-{}", team.name, shared.node));
    let metrics = Metrics::start(Some(&team.name), &service, team.otlp_endpoint.as_deref())?;
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
    let Archive { lock, journal, store, plans, damaged, unread, results, .. } = opened;
    let unfinished = store.unfinished()?.into_iter().filter(|session| !damaged.contains(session));
    let mut unfinished: Vec<SessionId> = unfinished.collect();
    // The store may not know of their runs.
    let unread = unread.into_iter().filter(|session| *session != memory_session());
    unfinished.extend(unread);
    unfinished.sort();
    unfinished.dedup();
    let open_runs =
        store.open_runs(store::LIST_MAX)?.into_iter().map(|row| row.begun).filter(|begun| {
            let is_asked_for = begun.parent.is_none() && begun.joined.is_none();
            is_asked_for && unfinished.binary_search(&begun.session).is_ok()
        });
    let runs = open_runs.map(|begun| (begun.run, begun.session)).collect();
    let unfinished = Unfinished { sessions: unfinished, runs };
    let exporter = match &team.otlp_endpoint {
        Some(endpoint) => Some(Arc::new(Exporter::start(endpoint, &service, &[])?)),
        None => None,
    };
    let databases = open_databases(&team, &options.data, http)?;
    let launcher = Arc::new(find_launcher(&team, &options.data)?);
    let name = team.name.clone();
    let drained = Drained::read(&team_dir(&options.data, &name));
    let memory_slot = journal.next_slot(&memory_session());
    let places = Places::new(name.clone(), team.runs_max, shared.places.clone());
    let team = Arc::new(team);
    let context = Arc::new(TeamContext {
        paces: Paces::of(team.models.keys()),
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
        stopping: TaskTracker::new(),
        draining: AtomicBool::new(false),
        drained,
        lookups: Semaphore::new(LOOKUPS_AT_ONCE_MAX),
        service: OnceLock::new(),
        too_large: TooLarge::default(),
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

/// Checks that no command of the teams writes where another one, a program that is a server or the
/// daemon would meet what it put there, or where the data is. Blocks on the disk.
pub(crate) fn check_commands(teams: &[config::Team], data: &Path) -> Result<(), Error> {
    let mut openings = Vec::new();
    for team in teams {
        // What is read again while the daemon works.
        let secrets = team.secrets.iter().filter_map(|secret| match secret {
            SecretRef::File(path) => Some(path),
            SecretRef::Env(_) => None,
        });
        let events = team.events.values().map(|events| &events.path);
        openings.push(Opening {
            owner: format!("the daemon for team {}", team.name),
            paths: secrets.chain(events).cloned().collect(),
            writable: Vec::new(),
            is_free: true,
        });
        for (name, tool) in &team.tools {
            if let ToolKind::Command(spec) = &tool.kind {
                openings.push(Opening::of(format!("tool {name} of team {}", team.name), spec));
            }
        }
        for (name, server) in &team.servers {
            if let Transport::Process { command, directory, .. } = &server.spec.transport {
                let program = command.first().filter(|program| program.contains('/'));
                let program = program.map(|program| directory.join(program));
                openings.push(Opening {
                    owner: format!("MCP server {name} of team {}", team.name),
                    paths: std::iter::once(directory.clone()).chain(program).collect(),
                    writable: Vec::new(),
                    is_free: true,
                });
            }
        }
    }
    let prepare = |error| Error::Prepare { what: "commands".to_owned(), error };
    check_openings(&openings, data).map_err(prepare)
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
