//! Rules of messages that join a run: none is swallowed, and none counts twice.

use std::collections::{HashMap, HashSet};

use wire::run::RunReply;
use wire::{EventKind, RunId, RunStatus, Usage};

use super::{Record, Violation};
use crate::effect::Effect;

/// What is known of a message that joined a run.
struct Message<'a> {
    /// The run that it joined.
    joined: &'a RunId,
    is_shown: bool,
}

/// Checks that a message which joined a run is shown to its models once, before a turn and never
/// between a call and its result; that it is answered as completed only if it was shown; and that
/// its reply is that of the run, whose tokens do not count again.
pub fn joined_are_heard(records: &[Record]) -> Result<(), Violation> {
    let mut messages: HashMap<&RunId, Message<'_>> = HashMap::new();
    let mut open: HashMap<&RunId, HashSet<&wire::CallKey>> = HashMap::new();
    let mut replies: HashMap<&RunId, &RunReply> = HashMap::new();
    for (slot, record) in records.iter().enumerate() {
        let broken = |run: &RunId| Violation::NotHeard { run: run.clone(), slot };
        let asks = |run: &RunId| {
            let asked = |effect: &Effect| matches!(effect, Effect::AskModel { run: asked, .. } if asked == run);
            record.effects.iter().any(asked)
        };
        for effect in &record.effects {
            match effect {
                Effect::Tell(event) => match &event.kind {
                    EventKind::RunJoined { joined } => {
                        messages.insert(&event.run, Message { joined, is_shown: false });
                    }
                    EventKind::CallStarted { call, .. } => {
                        open.entry(&event.run).or_default().insert(call);
                    }
                    EventKind::CallEnded { call, .. } => {
                        open.entry(&event.run).or_default().remove(call);
                    }
                    EventKind::Steered { by, .. } => {
                        let message = messages.get_mut(by).ok_or_else(|| broken(by))?;
                        let is_between = open.get(&event.run).is_some_and(|open| !open.is_empty());
                        let is_own = message.joined == &event.run;
                        if message.is_shown || is_between || !is_own || !asks(&event.run) {
                            return Err(broken(by));
                        }
                        message.is_shown = true;
                    }
                    _ => {}
                },
                Effect::Publish { reply } => {
                    replies.insert(&reply.run, reply);
                    let message = messages.get(&reply.run);
                    if message.map(|message| message.joined) != reply.joined.as_ref() {
                        return Err(broken(&reply.run));
                    }
                    let Some(message) = message else { continue };
                    let own = replies.get(message.joined);
                    let is_same = |own: &&RunReply| {
                        (own.status, &own.output, &own.error)
                            == (reply.status, &reply.output, &reply.error)
                    };
                    let completed = reply.status == RunStatus::Completed;
                    // An answer that does not know of the message is none to it.
                    let holds = |own: &&RunReply| {
                        is_same(own) || (own.status == RunStatus::Completed && !message.is_shown)
                    };
                    let fine = reply.usage == Usage::default()
                        && own.as_ref().map_or(!completed, |own| holds(own))
                        && (message.is_shown || !completed);
                    if !fine {
                        return Err(broken(&reply.run));
                    }
                }
                Effect::AskModel { .. }
                | Effect::Call(_)
                | Effect::Probe { .. }
                | Effect::Say { .. }
                | Effect::Expire { .. }
                | Effect::Opened(_)
                | Effect::Closed { .. }
                | Effect::Abort { .. }
                | Effect::SetTimer { .. }
                | Effect::Span(_) => {}
            }
        }
    }
    Ok(())
}
