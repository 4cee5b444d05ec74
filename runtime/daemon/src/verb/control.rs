//! `callboard answer` and `cancel`: what is said to a run of a running daemon.

use serde_json::{Value, json};
use wire::run::{AnswerAction, AnswerRequest, RunState, RunView};
use wire::{ErrorCode, Name, OpenKind, RunId};

use crate::args::{Answer, Cancel, Target};
use crate::client::{Client, LOOKUP_TIMEOUT};
use crate::failure::{Exit, Failure};
use crate::place::Place;
use crate::screen;

/// Answers a run that waits for a person.
pub(crate) async fn answer(args: &Answer, place: &Place) -> Result<Exit, Failure> {
    let action = match (args.decline, args.cancel) {
        (true, _) => AnswerAction::Decline,
        (false, true) => AnswerAction::Cancel,
        (false, false) => AnswerAction::Accept,
    };
    let content = args.content.as_deref().map(serde_json::from_str).transpose();
    let content = content.map_err(|error| {
        Failure::new(ErrorCode::BadRequest, format!("--content is not JSON: {error}"))
    })?;
    let text = (!args.text.is_empty()).then(|| args.text.join(" "));
    let body = AnswerRequest { call: args.call.clone(), action, text, content };
    let body = serde_json::to_value(body).unwrap_or_default();
    let view = tell(&args.target, &args.run, "answer", &body, place).await?;
    screen::note(&format!("run {} {}\n", view.run, state(&view.state)));
    Ok(Exit::Done)
}

/// Ends a run.
pub(crate) async fn cancel(args: &Cancel, place: &Place) -> Result<Exit, Failure> {
    let view = tell(&args.target, &args.run, "cancel", &json!({}), place).await?;
    screen::note(&format!("run {} {}\n", view.run, state(&view.state)));
    Ok(Exit::Done)
}

/// Tells a run something at the daemon that has it.
async fn tell(
    target: &Target,
    run: &RunId,
    verb: &str,
    body: &Value,
    place: &Place,
) -> Result<RunView, Failure> {
    let clients: Vec<(Name, Client)> = match (&target.url, &target.team) {
        (Some(url), Some(team)) => vec![(team.clone(), Client::new(url, place.token()?)?)],
        (_, named) => {
            let mut clients = Vec::new();
            for team in place.teams(named.as_ref())? {
                if let Some(client) = Client::of_holder(place, &team)? {
                    clients.push((team, client));
                }
            }
            clients
        }
    };
    if clients.is_empty() {
        let text = "no daemon runs on this data directory; start one with `callboard serve`, or \
                    name it with --url and --team";
        return Err(Failure::new(ErrorCode::Unavailable, text));
    }
    let mut unknown = None;
    for (team, client) in clients {
        let path = format!("/v1/teams/{team}/runs/{run}/{verb}");
        match client.post(&path, body, LOOKUP_TIMEOUT).await {
            Err(Failure::Error(error)) if error.code == ErrorCode::UnknownRun => {
                unknown = Some(error.into());
            }
            done => return done,
        }
    }
    Err(unknown
        .unwrap_or_else(|| Failure::new(ErrorCode::UnknownRun, format!("no run {run} is known"))))
}

pub(crate) fn state(state: &RunState) -> String {
    match state {
        RunState::Queued => "waits for its turn".to_owned(),
        RunState::Running { step, phase } => format!("is {phase} in step {step}"),
        RunState::Waiting { question, kind: OpenKind::Question, others, .. } => {
            let others = others
                .iter()
                .filter(|other| other.kind == OpenKind::Question)
                .map(|other| format!("\n  and with --call {} to: {}", other.call, other.question));
            format!("waits for an answer to: {question}{}", others.collect::<String>())
        }
        RunState::Waiting { call, question, kind: OpenKind::Approval, .. } => {
            format!("waits for leave: {question} See `callboard calls show {call}`")
        }
        RunState::Waiting { call, question, kind: OpenKind::Unknown, .. } => {
            format!("waits to be told what came of call {call}: {question}")
        }
        RunState::Ended { status } => format!("has ended: {}", status.as_str()),
    }
}
