//! Takes events that answer calls, from the team's own subjects and from those that its file names.

use std::sync::Arc;

use bus::Message;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::Semaphore;
use tools::cloudevent::event::CloudEvent;
use tools::cloudevent::replies::{Counts, Taken};
use tools::cloudevent::{EventSource, ReplyWay};
use tracing::{debug, info};
use wire::{ErrorCode, Headers, Name, Scope, WireError};

use crate::context::TeamContext;
use crate::feed::{self, Feed};

/// Replies of a team that are taken at once. Each is a message as large as the bus takes, and is held
/// until its answer is on its way, for which a slow connection may let it wait.
const REPLIES_MAX: usize = 64;

/// When a reply that found no place may come again, in milliseconds.
const BUSY_RETRY_MS: u64 = 200;

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
    listen_with(context, REPLIES_MAX).await
}

/// Does what [`listen`] does, and takes so many replies at once.
async fn listen_with(
    context: &Arc<TeamContext>,
    replies_max: usize,
) -> Result<Vec<Feed>, bus::Error> {
    let places = Arc::new(Semaphore::new(replies_max));
    let mut feeds = Vec::new();
    for (name, events) in &context.team.events {
        if events.source.reply != ReplyWay::Event {
            continue;
        }
        let own = context.subjects.event_reply(&context.team.name, name);
        for subject in events.reply_subject.iter().chain([&own]) {
            let (context, source) = (context.clone(), events.source.clone());
            let places = places.clone();
            // The call may wait on any node, so each of them hears every reply.
            let bus = context.bus.clone();
            let feed = bus.listen(subject, None, move |mut message| {
                let (context, source) = (context.clone(), source.clone());
                let place = places.clone().try_acquire_owned();
                if place.is_err() {
                    // What is refused must not be held as well.
                    message.payload = Bytes::new();
                    if !wants_answer(&message) {
                        debug!(source = %source.name, "reply to an event dropped: too many came");
                        return;
                    }
                }
                tokio::spawn(async move {
                    let taken = if place.is_ok() {
                        take(&context, &source, &message)
                    } else {
                        let text = format!("{replies_max} replies are taken already");
                        Err(WireError::overloaded(Scope::Team, text, BUSY_RETRY_MS))
                    };
                    tell(&context, &source, &message, taken).await;
                    drop(place);
                });
            });
            feeds.push(feed.await?);
        }
    }
    Ok(feeds)
}

/// Tells whether whoever sent a reply is to hear what became of it. Messages of a stream name a subject
/// for acknowledgements, which is not ours to use.
fn wants_answer(message: &Message) -> bool {
    message.reply.as_deref().is_some_and(wire::subject::is_inbox)
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

/// Says what became of a reply, to the log and to whoever sent it.
async fn tell(
    context: &TeamContext,
    source: &EventSource,
    message: &Message,
    done: Result<Taken, WireError>,
) {
    match &done {
        Ok(Taken::Delivered | Taken::Held) => {}
        Ok(taken) => {
            info!(source = %source.name, reason = taken.as_str(), "reply to an event dropped");
        }
        Err(error) => debug!(source = %source.name, %error, "reply to an event not taken"),
    }
    if !wants_answer(message) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bus::Bus;
    use config::team::Events;
    use serde_json::Value;
    use tools::cloudevent::Sink;
    use tools::cloudevent::event::Mode;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn a_reply_that_finds_no_place_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let name = Name::new("k").unwrap();
        let source = Arc::new(EventSource {
            name: name.clone(),
            sink: Sink::Subject("events".to_owned()),
            mode: Mode::Binary,
            origin: "test".to_owned(),
            reply: ReplyWay::Event,
            reply_attribute: "responseid".to_owned(),
        });
        let context = testing::open_changed(data.path(), Bus::local(), |team| {
            let events = Events { source, path: "types".into(), reply_subject: None };
            team.events.insert(name.clone(), events);
        });
        let subject = context.subjects.event_reply(&context.team.name, &name);
        // With a place it is read, and is no event.
        for (places, expected) in [(0, "E1006"), (1, "E1001")] {
            let feeds = listen_with(&context, places).await.unwrap();
            let (body, wait) = (Bytes::from("{}"), Duration::from_secs(20));
            let answer = context.bus.request(&subject, Headers::new(), body, wait).await.unwrap();
            let told: Value = serde_json::from_slice(&answer.payload).unwrap();
            assert_eq!(told["error"]["code"], expected, "{places} places: {told}");
            drop(feeds);
        }
    }
}
