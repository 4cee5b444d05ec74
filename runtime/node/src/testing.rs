//! A team that is opened for a test, without its actors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bus::Bus;
use journal::Holder;
use tokio::task::spawn_blocking;
use wire::entry::{Body, Entry, Input, Submitted};
use wire::run::{Budget, Parent};
use wire::{Digest, Name, RunId, SessionId, Subjects, Timestamp, TraceContext};

use crate::clock;
use crate::context::{Shared, TeamContext};
use crate::fold::fold_changes;
use crate::node::{Node, NodeOptions};
use crate::opening::{open_team, team_dir};

/// Opens the data of the quickstart team, on a bus of its own.
pub(crate) fn open(data: &Path) -> Arc<TeamContext> {
    open_on(data, Bus::local())
}

/// Opens the data of the quickstart team, as one of several nodes on a bus.
pub(crate) fn open_on(data: &Path, bus: Bus) -> Arc<TeamContext> {
    open_changed(data, bus, |_| {})
}

/// Opens the data of the quickstart team after a change.
pub(crate) fn open_changed(
    data: &Path,
    bus: Bus,
    change: impl FnOnce(&mut config::Team),
) -> Arc<TeamContext> {
    let shared = Shared::start(bus.clone());
    let http = tools::client::http_client().unwrap();
    open_team(quickstart(change), bus, options(data), shared, &http).unwrap().context
}

/// Starts a node with the quickstart team under several names, after a change of each.
pub(crate) async fn start(data: &Path, names: &[&str], change: impl Fn(&mut config::Team)) -> Node {
    let teams = names.iter().map(|name| {
        quickstart(|team| {
            team.name = Name::new(name).unwrap();
            change(team);
        })
    });
    Node::start(teams.collect(), Bus::local(), options(data)).await.unwrap()
}

fn quickstart(change: impl FnOnce(&mut config::Team)) -> config::Team {
    let teams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/teams");
    let mut team = config::load(&teams.join("quickstart.toml")).unwrap();
    change(&mut team);
    team
}

fn options(data: &Path) -> NodeOptions {
    NodeOptions {
        data: data.to_owned(),
        holder: holder(),
        subjects: Subjects::default(),
        reserve_bytes: 0,
    }
}

/// Names this process as the one that has data open.
pub(crate) fn holder() -> Holder {
    Holder::this_process("test", clock::now())
}

/// Begins a run of an agent that no team has.
pub(crate) fn message(run: &RunId, text: &str) -> Submitted {
    let agent = Name::new("a").unwrap();
    Submitted {
        run: run.clone(),
        plan: Digest::of(b"plan"),
        text: text.to_owned(),
        body: Digest::of(text.as_bytes()),
        deadline: Timestamp::default(),
        budget: Budget::default(),
        trace: TraceContext::root(&agent, run),
        caller_span: None,
        parent: None,
        begins: false,
        agent,
    }
}

/// Begins a run of the team's entry agent.
pub(crate) fn submitted(context: &TeamContext, run: &RunId, text: &str) -> Submitted {
    let agent = context.team.entry.clone();
    Submitted {
        plan: context.plans.current(&agent).unwrap().0,
        agent,
        deadline: clock::now().plus_ms(3_600_000),
        trace: TraceContext::root(&context.team.name, run),
        ..message(run, text)
    }
}

/// Journals a run of some days ago in a session of its own, and ends it by a cancel or leaves it in
/// work; the store knows of it.
pub(crate) async fn journal_run(
    context: &Arc<TeamContext>,
    id: &str,
    days: u64,
    parent: Option<Parent>,
    is_over: bool,
) -> SessionId {
    let (session, run) = (SessionId::new(id).unwrap(), RunId::new(id).unwrap());
    let at = Timestamp::from_micros(clock::now().as_micros() - days * 86_400_000_000);
    let deadline = at.plus_ms(1000);
    let begun = submitted(context, &run, &"x".repeat(1000));
    let mut inputs = vec![Input::Submitted(Submitted { deadline, parent, ..begun })];
    if is_over {
        let reason = "enough".to_owned();
        inputs.push(Input::CancelRequested { run, reason });
    }
    let entries = inputs.into_iter().map(|input| Entry::new(at, Body::Session(input)));
    let commit = context.append(&session, 0, &Arc::new(entries.collect())).await.unwrap();
    let (look, id) = (context.clone(), session.clone());
    let folded = spawn_blocking(move || {
        let TeamContext { team, journal, plans, .. } = &*look;
        fold_changes(&team.name, &id, journal, plans).unwrap()
    });
    commit.project_again(folded.await.unwrap()).await;
    session
}

/// A file that cannot be read, as on a disk with a passing fault, until this is dropped.
pub(crate) struct Unreadable {
    path: PathBuf,
    away: PathBuf,
}

impl Unreadable {
    pub(crate) fn file(path: PathBuf) -> Self {
        let away = path.with_extension("away");
        fs::rename(&path, &away).unwrap();
        fs::create_dir(&path).unwrap();
        Self { path, away }
    }

    /// Takes the file away altogether.
    pub(crate) fn remove(&self) {
        fs::remove_dir(&self.path).unwrap();
    }

    /// Makes a blob of the team unreadable.
    pub(crate) fn blob(data: &Path, context: &TeamContext, digest: &Digest) -> Self {
        let name = digest.to_string();
        let dir = team_dir(data, &context.team.name).join("blobs");
        Self::file(dir.join(format!("{name:.2}")).join(name))
    }
}

impl Drop for Unreadable {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.path));
        fs::rename(&self.away, &self.path).unwrap();
    }
}
