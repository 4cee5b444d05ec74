//! How soon a daemon is ready that has many sessions to know of.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agents_core::session::SessionMachine;
use journal::{Journal, Options, Stored};
use tests::daemon::Daemon;
use tests::results::{self, Row};
use tests::trade;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::entry::{Body, Entry, ModelOutcome, ModelReplied, Reading, Submitted, TurnReport};
use wire::run::Budget;
use wire::{Digest, FinishReason, Input, ModelRole, Plan, RunId, SessionId, TraceContext, Usage};

use crate::setup::http_client;

/// Sessions in the journal, each with a run that has ended.
const SESSIONS: usize = 10_000;

/// Starts after a kill, of which the middle one counts.
const STARTS: usize = 5;

/// The longest time to be ready. An idle machine needs a fraction of it; what is tested is that
/// the work at start does not grow with the sessions of the past.
const READY_MAX: Duration = Duration::from_secs(10);

/// Returns the entries of a session in which one run has ended.
fn entries(session: &SessionId, plan: &Arc<Plan>, digest: Digest) -> Vec<Stored> {
    let run = RunId::new(&format!("run-{session}")).unwrap();
    let now = node::now();
    let submitted = Submitted {
        run: run.clone(),
        agent: plan.agent.clone(),
        plan: digest,
        text: "how many herons are there".to_owned(),
        body: Digest::of(session.as_str().as_bytes()),
        deadline: now.plus_ms(600_000),
        budget: Budget::default(),
        trace: TraceContext::root(&plan.agent, &run),
        caller_span: None,
        parent: None,
        begins: false,
    };
    let turn = TurnReport {
        role: ModelRole::Actor,
        usage: Usage::of_tokens(20, 5),
        finish: FinishReason::Stop,
        provider: "scripted".to_owned(),
        model: "main".to_owned(),
        attempts: 1,
        served_by: None,
        detail: wire::chat::TurnDetail::default(),
    };
    let reading = Reading::Final { text: "There are seven herons.".into() };
    let outcome =
        ModelOutcome::Read { reading, unread: None, reasoning: None, turn: Box::new(turn) };
    let inputs =
        [Input::Submitted(submitted), Input::ModelReplied(ModelReplied { run, turn: 0, outcome })];
    // Only what a session takes is one of its entries.
    let plans = HashMap::from([(digest, plan.clone())]);
    let mut machine = SessionMachine::new(plan.team.clone(), session.clone());
    let entry = |input: Input| {
        machine.apply(now, &input, &plans).unwrap();
        serde_json::to_vec(&Entry::new(now, Body::Session(input))).unwrap().into()
    };
    inputs.map(entry).to_vec()
}

/// Writes a journal with many sessions.
async fn fill(team_file: &Path, data: &Path) {
    let team = config::load(team_file).unwrap();
    let plan = Arc::new(team.agents[&team.entry].clone());
    let (digest, bytes) = plan.to_bytes().unwrap();
    let (journal, _) = Journal::open(&data.join(trade::TEAM), Options::default()).unwrap();
    assert_eq!(journal.put_blob(&bytes).unwrap(), digest);
    let mut appends = JoinSet::new();
    for number in 0..SESSIONS {
        let session = SessionId::new(&format!("s-{number}")).unwrap();
        let entries = entries(&session, &plan, digest);
        let journal = journal.clone();
        appends.spawn(async move { journal.append(&session, 0, entries).await.unwrap() });
        // The journal takes so many at once and no more.
        while appends.len() >= 4000 {
            appends.join_next().await.unwrap().unwrap();
        }
    }
    appends.join_all().await;
    journal.close();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_with_ten_thousand_sessions_is_soon_ready_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let team = trade::write(dir.path(), "http://127.0.0.1:9", 0);
    fill(&team, &data).await;
    let args = ["--data".into(), data, team];
    let began = Instant::now();
    let mut daemon = Daemon::start(&args).await;
    let rebuilt = began.elapsed();
    let mut ready = Vec::new();
    for _ in 0..STARTS {
        daemon.kill().await;
        let began = Instant::now();
        daemon = Daemon::start(&args).await;
        ready.push(began.elapsed());
    }
    let last = format!("{}/v1/teams/{}/sessions/s-{}", daemon.http, trade::TEAM, SESSIONS - 1);
    let last = http_client().get(last).send().await.unwrap().text().await.unwrap();
    assert!(last.contains("There are seven herons."), "{last}");
    ready.sort_unstable();
    let (middle, most) = (ready[STARTS / 2], ready[STARTS - 1]);
    let held = format!(
        "{SESSIONS} sessions: ready p50 {} ms, most {} ms after a kill; {} ms with the store to be \
         built from the journal",
        middle.as_millis(),
        most.as_millis(),
        rebuilt.as_millis()
    );
    println!("{held}");
    assert!(middle <= READY_MAX, "{held}");
    results::record(&Row {
        id: "T2, ready",
        what: "start after a kill with many sessions in the journal",
        held: &held,
        passes: "2 s",
        command: "cargo e2e ten_thousand_sessions -- --nocapture",
    });
}
