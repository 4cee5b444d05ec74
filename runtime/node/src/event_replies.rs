//! Takes events that answer calls, from the team's own subjects and from those that its file names.

use std::sync::Arc;

use bus::Message;
use serde::Serialize;
use tools::cloudevent::event::CloudEvent;
use tools::cloudevent::replies::{Counts, Taken};
use tools::cloudevent::{EventSource, ReplyWay};
use tracing::{debug, info};
use wire::{ErrorCode, Headers, Name, Scope, WireError};

use crate::context::TeamContext;
use crate::feed::{self, Feed};

/// When a reply for which there was no room may come again, in milliseconds: by then the calls of
/// an earlier process are waited for.
const FULL_RETRY_MS: u64 = 1000;

/// What whoever brings a reply is told.
#[derive(Serialize)]
struct Told {
    taken: Taken,
}

/// What became of the replies to the calls of a source of event types.
#[derive(Clone, Debug, Serialize)]
pub struct RepliesOf {
    /// The source.
    pub name: Name,
    /// How many there were.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Listens on all subjects on which replies come.
pub(crate) async fn listen(context: &Arc<TeamContext>) -> Result<Vec<Feed>, bus::Error> {
    let mut feeds = Vec::new();
    for (name, events) in &context.team.events {
        if events.source.reply != ReplyWay::Event {
            continue;
        }
        let own = context.subjects.event_reply(&context.team.name, name);
        for subject in events.reply_subject.iter().chain([&own]) {
            let (context, source) = (context.clone(), events.source.clone());
            // The call may wait on any node, so each of them hears every reply.
            let bus = context.bus.clone();
            let feed = bus.listen(subject, None, move |message| {
                let (context, source) = (context.clone(), source.clone());
                tokio::spawn(async move { on_message(&context, &source, &message).await });
            });
            feeds.push(feed.await?);
        }
    }
    Ok(feeds)
}

/// Returns what became of the replies to the calls of all sources whose replies are events.
pub(crate) fn counts(context: &TeamContext) -> Vec<RepliesOf> {
    let waiting = context.team.events.iter().filter(|(_, e)| e.source.reply == ReplyWay::Event);
    waiting
        .map(|(name, _)| RepliesOf {
            name: name.clone(),
            counts: context.event_replies.counts(name),
        })
        .collect()
}

async fn on_message(context: &TeamContext, source: &EventSource, message: &Message) {
    let done = take(context, source, message);
    match &done {
        Ok(Taken::Delivered | Taken::Held) => {}
        Ok(taken) => {
            info!(source = %source.name, reason = taken.as_str(), "reply to an event dropped");
        }
        Err(error) => debug!(source = %source.name, %error, "reply to an event not taken"),
    }
    // Messages of a stream name a subject for acknowledgements, which is not ours to use.
    if !message.reply.as_deref().is_some_and(wire::subject::is_inbox) {
        return;
    }
    match done {
        Ok(taken) => {
            feed::answer(&context.bus, message, Headers::new(), &Told { taken }).await;
        }
        Err(error) => feed::answer_error(&context.bus, message, &error).await,
    }
}

fn take(
    context: &TeamContext,
    source: &EventSource,
    message: &Message,
) -> Result<Taken, WireError> {
    let replies = &context.event_replies;
    let refuse = |text: String| {
        replies.count_unknown(&source.name);
        Err(WireError::new(ErrorCode::BadRequest, text))
    };
    let event = match CloudEvent::read(message.headers.iter(), &message.payload) {
        Ok(Some(event)) => event,
        Ok(None) => return refuse("this is no event of CloudEvents 1.0".to_owned()),
        Err(fault) => return refuse(format!("this is no whole event: {fault}")),
    };
    let attribute = &source.reply_attribute;
    let Some(id) = event.attribute(attribute).map(str::to_owned) else {
        return refuse(format!(
            "the event has no attribute {attribute:?}, by which it names the event that it answers"
        ));
    };
    match replies.take(&source.name, &id, event) {
        Taken::Full => {
            let text = "too many replies are held for calls that are about to be taken up again";
            Err(WireError::overloaded(Scope::Team, text, FULL_RETRY_MS))
        }
        taken @ (Taken::Delivered
        | Taken::Held
        | Taken::Duplicate
        | Taken::Late
        | Taken::Unknown) => Ok(taken),
    }
}
