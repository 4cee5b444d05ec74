//! Runs of a team whose models have random weights: every call is valid all the same.

use std::path::{Path, PathBuf};

use agents_core::validate;
use config::Team;
use journal::{Journal, Options};
use serde_json::{Value, json};
use tests::daemon::Daemon;
use tests::ledger::Ledger;
use wire::entry::{Body, Entry, FeedbackCode, Input, ModelOutcome, ReadCall, Reading};
use wire::{FinishReason, ModelRole, Name, SessionId};

use crate::NOT_JSON;
use crate::server::{Server, post};

/// Runs that are asked for, by turns of an agent with a thinker and of one without.
const RUNS: usize = 20;

/// How noise may end beside with an answer: by its steps or its tokens, and not by how it looks.
const ENDINGS: &[&str] = &["E4001", "E4002"];

/// What came of the actor models' turns.
#[derive(Debug, Default)]
struct Tally {
    calls: usize,
    finals: usize,
    cut: usize,
    not_json: usize,
    empty_answers: usize,
    thoughts: usize,
    empty_thoughts: usize,
}

/// Asks the server's chat endpoint.
const OPENAI: &str = r#"provider = "openai"
base_url = "SERVER/v1"
model = "tiny""#;

/// Asks the server to complete a prompt of ours, under its own grammar of the schema or ours.
const LLAMACPP: &str = r#"provider = "llamacpp"
base_url = "SERVER"
template = "chatml"
constrain = "CONSTRAIN""#;

#[tokio::test]
async fn random_weights_give_only_schema_valid_calls() {
    only_valid_calls_are_made(OPENAI).await;
}

#[tokio::test]
async fn so_they_do_completing_under_the_servers_grammar() {
    only_valid_calls_are_made(&LLAMACPP.replace("CONSTRAIN", "json_schema")).await;
}

#[tokio::test]
async fn so_they_do_completing_under_our_grammar() {
    only_valid_calls_are_made(&LLAMACPP.replace("CONSTRAIN", "grammar")).await;
}

async fn only_valid_calls_are_made(provider: &str) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let ledger = Ledger::start().await;
    let file = write_team(dir.path(), provider, &server.url, &ledger.url(""));
    let team = config::load(&file).unwrap_or_else(|report| panic!("{report:?}"));
    let data = dir.path().join("data");
    let args = [file.as_os_str(), "--data".as_ref(), data.as_os_str()];
    let mut daemon = Daemon::start(&args).await;

    let client = reqwest::Client::new();
    let (mut completed, mut sources, mut ended) = (0, 0, Vec::new());
    for number in 0..RUNS {
        let agent = if number % 2 == 0 { "lead" } else { "clerk" };
        let url = format!("{}/v1/teams/noise/agents/{agent}/runs", daemon.http);
        let request = json!({"input": format!("Order {number} of everything.")});
        let (status, reply) = post(&client, &url, &request).await;
        assert_eq!(status, 200, "run {number}: {reply}");
        if reply["status"] == "completed" {
            completed += 1;
        } else {
            let code = reply["error"]["code"].as_str().unwrap_or_default();
            assert!(ENDINGS.contains(&code), "run {number}: {reply}");
            ended.push(code.to_owned());
        }
        for source in reply["sources"].as_array().unwrap() {
            check_source(&team, agent, source);
            sources += 1;
        }
        assert!(daemon.is_running());
    }
    assert_eq!(daemon.terminate().await, Some(0));

    let tally = read_journal(&team, &data.join("noise"));
    println!(
        "{RUNS} runs, {completed} completed, others by {ended:?}, {sources} calls in replies; {tally:?}"
    );
    assert!(tally.calls >= RUNS, "there was little to check: {tally:?}");
    assert!(tally.finals >= completed, "{tally:?}");
}

fn write_team(dir: &Path, provider: &str, server: &str, ledger: &str) -> PathBuf {
    let text = include_str!("noise.toml").replace("PROVIDER", provider);
    let text = text.replace("SERVER", server).replace("LEDGER", ledger);
    let file = dir.join("noise.toml");
    std::fs::write(&file, text).unwrap();
    file
}

/// Checks a call that a reply tells of.
fn check_source(team: &Team, agent: &str, source: &Value) {
    let plan = &team.agents[&Name::new(agent).unwrap()];
    let offer = plan.offer(source["tool"].as_str().unwrap());
    let offer = offer.unwrap_or_else(|| panic!("{agent} is not offered {source}"));
    let faults = faults(&offer.spec.parameters, &source["arguments"]);
    assert!(faults.is_empty(), "{source}: {faults:?}");
}

/// Checks everything that models said, as the journal has it.
fn read_journal(team: &Team, dir: &Path) -> Tally {
    let (journal, report) = Journal::open(dir, Options::default()).unwrap();
    assert!(report.damage.is_empty(), "{report:?}");
    let mut tally = Tally::default();
    for session in journal.sessions() {
        read_session(team, &journal, &session, &mut tally);
    }
    tally
}

fn read_session(team: &Team, journal: &Journal, session: &SessionId, tally: &mut Tally) {
    let mut agent = None;
    for bytes in journal.read(session).unwrap() {
        let entry: Entry = serde_json::from_slice(&bytes).unwrap();
        let Body::Session(input) = entry.body else { continue };
        match input {
            Input::Submitted(submitted) => agent = Some(submitted.agent),
            Input::ModelReplied(replied) => {
                let agent = agent.as_ref().expect("a session begins with its agent");
                let ModelOutcome::Read { reading, turn, .. } = replied.outcome else {
                    panic!("a turn of {agent} failed: {:?}", replied.outcome);
                };
                check_reading(team, agent, &reading, turn.role, turn.finish, tally);
            }
            _ => {}
        }
    }
}

fn check_reading(
    team: &Team,
    agent: &Name,
    reading: &Reading,
    role: ModelRole,
    finish: FinishReason,
    tally: &mut Tally,
) {
    match (role, reading) {
        (ModelRole::Thinker, Reading::Thought { .. }) => tally.thoughts += 1,
        (ModelRole::Thinker, Reading::Fault { feedback, raw }) => {
            let expected = [FeedbackCode::EmptyReply, FeedbackCode::TruncatedReply];
            assert!(expected.contains(&feedback.code), "{feedback:?} on {raw}");
            tally.empty_thoughts += 1;
        }
        (ModelRole::Actor, Reading::Final { .. }) => tally.finals += 1,
        (ModelRole::Actor, Reading::Cut { .. }) => tally.cut += 1,
        (ModelRole::Actor, Reading::Calls { calls, .. }) => {
            let [call] = calls.as_slice() else { panic!("not one call: {calls:?}") };
            check_call(team, agent, call, tally);
        }
        (ModelRole::Actor, Reading::Fault { feedback, raw }) => match feedback.code {
            FeedbackCode::TruncatedReply if finish == FinishReason::Length => tally.cut += 1,
            FeedbackCode::MalformedReply if is_not_json(&feedback.faults) => {
                tally.not_json += 1;
            }
            _ => panic!("{finish:?}: {feedback:?} on {raw}"),
        },
        (role, reading) => panic!("{role:?} of {agent}: {reading:?}"),
    }
}

fn is_not_json(faults: &[String]) -> bool {
    let known = |fault: &String| NOT_JSON.iter().any(|word| fault.contains(word));
    !faults.is_empty() && faults.iter().all(known)
}

/// Checks a call as the model wrote it, before anything was mended.
fn check_call(team: &Team, agent: &Name, call: &ReadCall, tally: &mut Tally) {
    let written: Value = serde_json::from_str(&call.raw).unwrap();
    let Some(offer) = team.agents[agent].offer(&call.name) else {
        // The schema lets an answer be empty, the run does not.
        assert_eq!(call.name, "respond_to_user", "{agent} is not offered {call:?}");
        assert_eq!(written["answer"].as_str().map(str::trim), Some(""), "{call:?}");
        tally.empty_answers += 1;
        return;
    };
    let faults = faults(&offer.spec.parameters, &written);
    assert!(faults.is_empty(), "{call:?}: {faults:?}");
    assert!(call.fault.is_none(), "{call:?}");
    tally.calls += 1;
}

fn faults(schema: &Value, value: &Value) -> Vec<String> {
    validate::faults(&validate::validator(schema).unwrap(), value)
}
