//! What schedules have to come to: rules that are checked where nothing happens hold of nothing.

use std::collections::BTreeSet;

use agents_core::dialect::RESPOND_TO_USER;
use agents_core::effect::{Effect, Rejected};
use wire::entry::Body;
use wire::question::QuestionEnd;
use wire::{EventKind, Input, OpenKind};

use crate::world::World;

/// Returns the corners that some schedule has to reach.
pub(crate) fn all() -> BTreeSet<&'static str> {
    BTreeSet::from([
        "submitted by a client",
        "submitted at depth 1",
        "submitted at depth 2",
        "model replied",
        "call suspended",
        "call asked",
        "question answered",
        "question expired",
        "loses a question",
        "call settled",
        "call lost",
        "call probed",
        "call approved",
        "call denied",
        "approval expired",
        "call resolved",
        "makes a call again",
        "asks a probe",
        "asks for leave",
        "asks what came of a call",
        "keeps an unknown outcome",
        "resolves what is over",
        "cancel requested",
        "deadline passed",
        "cancel delivered",
        "resumed and asks a model again",
        "resumed and makes a call again",
        "resumed and gives a call up",
        "resumed and waits for a person",
        "drops its past",
        "aborts calls",
        "gives feedback",
        "plans a call",
        "plans the answer",
        "ends completed",
        "ends cancelled E4004",
        "ends deadline E1007",
        "ends failed E2002",
        "ends failed E2004",
        "ends failed E3009",
        "ends partial E4001",
        "ends budget E4002",
        "ends partial E4007",
        "call ended budget",
        "ends failed E4005",
        "call ended ok",
        "call ended error",
        "call ended unknown",
        "refused as repeated",
        "refused as conflict",
        "refused as queue full",
        "refused as busy",
        "joins a run",
        "is shown what joined",
        "answers what joined as completed",
        "answers what joined as failed",
        "answers what joined as cancelled",
        "interrupts a run",
        "refused as unknown run",
        "refused as unknown call",
        "refused as superseded",
        "refused as stale turn",
        "refused as out of place",
        "crashed 0 times",
        "crashed 1 times",
        "crashed 5 times",
    ])
}

/// Returns the corners that a world has reached.
pub(crate) fn of(world: &World) -> Vec<String> {
    let mut corners = vec![format!("crashed {} times", world.life)];
    corners.extend(world.refused.iter().map(|rejected| refused(rejected).to_owned()));
    for record in world.disk.values().flatten() {
        let Body::Session(input) = &record.entry.body else { continue };
        corners.push(taken(input, &record.effects));
        corners.extend(record.effects.iter().filter_map(done));
    }
    corners
}

fn taken(input: &Input, effects: &[Effect]) -> String {
    let has = |wanted: fn(&Effect) -> bool| effects.iter().any(wanted);
    match input {
        Input::Submitted(submitted) => match &submitted.parent {
            Some(parent) => return format!("submitted at depth {}", parent.depth),
            None => "submitted by a client",
        },
        Input::ModelReplied(_) => "model replied",
        Input::CallSuspended { .. } => "call suspended",
        Input::CallAsked { .. } => "call asked",
        Input::QuestionAnswered { .. } => "question answered",
        Input::QuestionExpired { .. } => "question expired",
        Input::CallSettled { .. } => "call settled",
        Input::CallLost { .. } => "call lost",
        Input::CallProbed { .. } => "call probed",
        Input::CallApproved { .. } => "call approved",
        Input::CallDenied { .. } => "call denied",
        Input::ApprovalExpired { .. } => "approval expired",
        Input::CallResolved { .. } if effects.len() == 1 => "resolves what is over",
        Input::CallResolved { .. } => "call resolved",
        Input::CancelRequested { .. } => "cancel requested",
        Input::DeadlinePassed { .. } => "deadline passed",
        Input::ReplyPublished { .. } => "reply published by an older program",
        Input::CancelDelivered { .. } => "cancel delivered",
        Input::Resumed { .. } if has(|effect| matches!(effect, Effect::Call(_))) => {
            "resumed and makes a call again"
        }
        Input::Resumed { .. } if has(ends_call) => "resumed and gives a call up",
        Input::Resumed { .. } if has(|effect| matches!(effect, Effect::AskModel { .. })) => {
            "resumed and asks a model again"
        }
        Input::Resumed { .. } => "resumed and waits for a person",
        Input::Snapshot(_) => "drops its past",
    }
    .to_owned()
}

fn ends_call(effect: &Effect) -> bool {
    matches!(effect, Effect::Tell(event) if matches!(event.kind, EventKind::CallEnded { .. }))
}

fn done(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Abort { calls, .. } if !calls.is_empty() => Some("aborts calls".to_owned()),
        Effect::Publish { reply } => {
            if reply.joined.is_some() {
                return Some(format!("answers what joined as {}", reply.status.as_str()));
            }
            let code = reply.error.as_ref().map(|error| format!(" {}", error.code));
            Some(format!("ends {}{}", reply.status.as_str(), code.unwrap_or_default()))
        }
        Effect::Tell(event) => match &event.kind {
            EventKind::RunJoined { .. } => Some("joins a run".to_owned()),
            EventKind::Steered { .. } => Some("is shown what joined".to_owned()),
            EventKind::RunEnded { error: Some(error), .. }
                if error.message.starts_with("interrupted by run") =>
            {
                Some("interrupts a run".to_owned())
            }
            EventKind::FeedbackGiven { .. } => Some("gives feedback".to_owned()),
            EventKind::Planned { tool, .. } if tool == RESPOND_TO_USER => {
                Some("plans the answer".to_owned())
            }
            EventKind::Planned { .. } => Some("plans a call".to_owned()),
            EventKind::QuestionEnded { end: QuestionEnd::Lost, .. } => {
                Some("loses a question".to_owned())
            }
            EventKind::CallEnded { status, .. } => Some(format!("call ended {status}")),
            _ => None,
        },
        Effect::Call(call) if call.attempt > 1 => Some("makes a call again".to_owned()),
        Effect::Probe { .. } => Some("asks a probe".to_owned()),
        Effect::Opened(open) => match (open.kind, open.waits) {
            (OpenKind::Approval, _) => Some("asks for leave".to_owned()),
            (OpenKind::Unknown, true) => Some("asks what came of a call".to_owned()),
            (OpenKind::Unknown, false) => Some("keeps an unknown outcome".to_owned()),
            (OpenKind::Question, _) => None,
        },
        Effect::Abort { .. }
        | Effect::AskModel { .. }
        | Effect::Call(_)
        | Effect::Say { .. }
        | Effect::Expire { .. }
        | Effect::Closed { .. }
        | Effect::SetTimer { .. }
        | Effect::Span(_) => None,
    }
}

const fn refused(rejected: &Rejected) -> &'static str {
    match rejected {
        Rejected::Repeated { .. } => "refused as repeated",
        Rejected::Conflict { .. } => "refused as conflict",
        Rejected::QueueFull { .. } => "refused as queue full",
        Rejected::Busy { .. } => "refused as busy",
        Rejected::PlanUnknown => "refused as without a plan",
        Rejected::UnknownRun { .. } => "refused as unknown run",
        Rejected::UnknownCall { .. } => "refused as unknown call",
        Rejected::Superseded { .. } => "refused as superseded",
        Rejected::StaleTurn { .. } => "refused as stale turn",
        Rejected::OutOfPlace => "refused as out of place",
    }
}
