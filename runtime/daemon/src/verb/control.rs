//! `callboard answer` and `cancel`: what is said to a run of a running daemon.

use serde_json::{Value, json};
use wire::run::{AnswerAction, AnswerRequest, RunState, RunView};
use wire::{ErrorCode, OpenKind, RunId};

use crate::args::{Answer, Cancel, Target};
use crate::client::{Client, LOOKUP_TIMEOUT};
use crate::failure::{Exit, Failure};
use crate::place::Place;
use crate::records::known;
use crate::screen;
use crate::text;

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
    let (call, question_id) = (args.call.clone(), args.question_id.clone());
    let body = AnswerRequest { call, question_id, action, text, content };
    let body = serde_json::to_value(body).unwrap_or_default();
    let view = tell(&args.target, &args.run, "answer", &body, place).await?;
    screen::note(&stands(&view));
    Ok(Exit::Done)
}

/// Ends a run.
pub(crate) async fn cancel(args: &Cancel, place: &Place) -> Result<Exit, Failure> {
    let view = tell(&args.target, &args.run, "cancel", &json!({}), place).await?;
    screen::note(&stands(&view));
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
    let mut clients = Vec::new();
    // Of several teams, one that cannot be asked says nothing of a run that another may have.
    let mut failed = Vec::new();
    match (&target.url, &target.team) {
        (Some(url), Some(team)) => clients.push((team.clone(), Client::new(url, place.token()?)?)),
        (_, named) => {
            for team in place.teams(named.as_ref())? {
                match Client::of_holder(place, &team) {
                    Ok(Some(client)) => clients.push((team, client)),
                    Ok(None) => {}
                    Err(failure) => failed.push(failure),
                }
            }
        }
    }
    if clients.is_empty() && failed.is_empty() {
        let text = "no daemon runs on this data directory; start one with `callboard serve`, or \
                    name it with --url and --team";
        return Err(Failure::new(ErrorCode::Unavailable, text));
    }
    // Teams give ids of runs without regard to each other, so all are asked before any is told.
    let mut having = Vec::new();
    for (team, client) in clients {
        let path = format!("/v1/teams/{team}/runs/{run}");
        match known(client.get::<RunView>(&path, &[]).await) {
            Ok(Some(_)) => having.push((team, client)),
            Ok(None) => {}
            Err(failure) => failed.push(failure),
        }
    }
    match having.as_slice() {
        [(team, client)] => {
            let path = format!("/v1/teams/{team}/runs/{run}/{verb}");
            client.post(&path, body, LOOKUP_TIMEOUT).await
        }
        [] => Err(failed.into_iter().next().unwrap_or_else(|| {
            Failure::new(ErrorCode::UnknownRun, format!("no run {run} is known"))
        })),
        several => {
            let teams: Vec<&str> = several.iter().map(|(team, _)| team.as_str()).collect();
            let teams = teams.join(", ");
            let text =
                format!("several teams have a run {run}: {teams}; name the team with --team");
            Err(Failure::new(ErrorCode::BadRequest, text))
        }
    }
}

/// Says in a line where a run stands.
pub(crate) fn stands(view: &RunView) -> String {
    format!("run {} {}\n", view.run, text::one_line(&state(&view.state)))
}

fn state(state: &RunState) -> String {
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

#[cfg(test)]
mod tests {
    use wire::{Name, TraceContext};

    use super::*;

    #[test]
    fn where_a_run_stands_is_told_in_one_harmless_line() {
        for (kind, expected) in [
            ("question", "run r1 waits for an answer to: [2Jsure? and with --call k2 to: ba\n"),
            ("approval", "run r1 waits for leave: [2Jsure? See `callboard calls show k1`\n"),
            ("unknown", "run r1 waits to be told what came of call k1: [2Jsure?\n"),
        ] {
            let run = RunId::new("r1").unwrap();
            let trace = TraceContext::root(&Name::new("t").unwrap(), &run);
            let view = json!({
                "run": run, "trace": trace, "session": "s", "agent": "a", "state": "waiting", "kind": kind,
                "call": "k1", "question": "\u{1b}[2Jsure?",
                "others": [{"call": "k2", "kind": "question", "question": "b\u{202e}a"}],
            });
            let view: RunView = serde_json::from_value(view).unwrap();
            assert_eq!(stands(&view), expected);
        }
    }
}
