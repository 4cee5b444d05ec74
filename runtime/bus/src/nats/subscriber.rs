//! One subscription on NATS: takes messages from the client at once, and bounds what waits, or gives
//! them to a handler, which does.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::bus;
use crate::error::Error;
use crate::local::warn_of_loss;
use crate::message::Message;
use crate::nats::keeper::Link;
use crate::nats::{Nats, OVERFLOW, SEND_WAIT_MAX, convert, not_sent};
use crate::router::Sink;
use crate::subscription::Subscription;

/// How long a drained subscription waits for the client to end it, which takes longer only while
/// there is no connection and nothing can arrive.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Takes the messages of one pattern.
struct Taker {
    nats: Arc<Nats>,
    pattern: String,
    queue: Option<String>,
    sink: Sink,
    lost: u64,
}

/// Subscribes and starts to fill the subscription.
pub(super) async fn start(
    nats: &Arc<Nats>,
    pattern: &str,
    queue: Option<&str>,
) -> Result<Subscription, Error> {
    let (sender, receiver) = mpsc::channel(nats.subscription_messages_max);
    take(nats, pattern, queue, Sink::Queue(sender)).await?;
    Ok(Subscription::new(receiver, None))
}

/// Subscribes and gives what is received to a sink, until that or what is returned is ended.
pub(super) async fn take(
    nats: &Arc<Nats>,
    pattern: &str,
    queue: Option<&str>,
    sink: Sink,
) -> Result<JoinHandle<()>, Error> {
    let taker = Taker {
        nats: nats.clone(),
        pattern: pattern.to_owned(),
        queue: queue.map(str::to_owned),
        sink,
        lost: 0,
    };
    let mut link = nats.links.receiving.borrow().clone();
    let subscribed = async {
        // What was published before is not received.
        nats.outbox.handed_over().await;
        loop {
            match taker.subscribe(&link).await {
                Ok(source) => return Ok(source),
                Err(error) => link = taker.replacement(&link).await.ok_or(error)?,
            }
        }
    };
    let source = tokio::time::timeout(SEND_WAIT_MAX, subscribed)
        .await
        .map_err(|_| not_sent(pattern, SEND_WAIT_MAX))??;
    Ok(nats.subscribers.spawn(taker.run(link, source)))
}

/// A subscription with one client.
struct Source {
    messages: Subscriber,
    /// Until this is dropped, nothing is sent with the client that comes next.
    _taken: TaskTrackerToken,
}

impl Taker {
    async fn subscribe(&self, link: &Link) -> Result<Source, Error> {
        let taken = link.takers.token();
        let pattern = self.pattern.clone();
        let messages = match &self.queue {
            Some(queue) => link.client.queue_subscribe(pattern, queue.clone()).await,
            None => link.client.subscribe(pattern).await,
        }
        .map_err(|source| Error::Nats { doing: "subscribe", source: source.into() })?;
        Ok(Source { messages, _taken: taken })
    }

    async fn run(mut self, mut link: Arc<Link>, mut source: Source) {
        let draining = self.nats.draining.clone();
        let mut drained = pin!(draining.cancelled());
        loop {
            tokio::select! {
                message = source.messages.next() => match message {
                    Some(message) => self.offer(message),
                    None => match self.subscribe_again(&link).await {
                        Some(again) => (link, source) = again,
                        None => return,
                    },
                },
                () = closed(&self.sink) => return,
                () = &mut drained => break,
            }
        }
        let rest = async {
            // What was published before is received.
            self.nats.outbox.handed_over().await;
            if source.messages.drain().await.is_ok() {
                while let Some(message) = source.messages.next().await {
                    self.offer(message);
                }
            }
        };
        if tokio::time::timeout(DRAIN_WAIT_MAX, rest).await.is_err() {
            tracing::debug!(pattern = self.pattern, "subscription dropped before it was drained");
        }
    }

    /// Subscribes with the client that takes the place of one that ended.
    async fn subscribe_again(&self, ended: &Arc<Link>) -> Option<(Arc<Link>, Source)> {
        let mut link = ended.clone();
        loop {
            link = tokio::select! {
                link = self.replacement(&link) => link?,
                () = closed(&self.sink) => return None,
                () = self.nats.draining.cancelled() => return None,
            };
            if let Ok(source) = self.subscribe(&link).await {
                return Some((link, source));
            }
        }
    }

    /// Waits for the client that takes the place of one that ended for those who receive; `None` if
    /// there will be none.
    async fn replacement(&self, ended: &Arc<Link>) -> Option<Arc<Link>> {
        let mut links = self.nats.links.receiving.clone();
        let link = links.wait_for(|link| !Arc::ptr_eq(link, ended)).await.ok()?;
        Some(link.clone())
    }

    fn offer(&mut self, message: async_nats::Message) {
        let sender = match &self.sink {
            Sink::Queue(sender) => sender,
            Sink::Handler(handler) => {
                if let Some(work) = handler(self.nats.parcel(message)) {
                    tokio::spawn(work);
                }
                return;
            }
        };
        match sender.try_send(convert::message_in(message)) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(message)) => {
                self.lost = self.lost.saturating_add(1);
                self.nats.dropped.fetch_add(1, Ordering::Relaxed);
                warn_of_loss(&message.subject, self.lost);
                self.refuse(message);
            }
        }
    }

    /// Answers a request that there is no room for, so that its sender need not wait in vain.
    ///
    /// Only a member of a queue group does: it alone was to answer, while a plain subscription may
    /// be an onlooker whose word would take the place of the answer. Nothing waits for it to be
    /// sent, since messages that are not taken in the meantime would be lost without an answer.
    fn refuse(&self, request: Message) {
        let Some(reply) = request.reply else { return };
        if self.queue.is_none() || !wire::subject::is_inbox(&reply) {
            return;
        }
        let Ok(place) = self.nats.refusals.clone().try_acquire_owned() else {
            tracing::warn!(subject = request.subject, "request lost, its sender cannot be told");
            return;
        };
        let error = Error::Overflow { subject: request.subject }.to_wire();
        let nats = self.nats.clone();
        tokio::spawn(async move {
            let sent = match bus::error_reply(&error) {
                Ok((headers, payload)) => {
                    let headers = headers.with(OVERFLOW, "1");
                    let message = Message { subject: reply, reply: None, headers, payload };
                    nats.publish(message, SEND_WAIT_MAX).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                tracing::debug!(%error, "overflow not told");
            }
            drop(place);
        });
    }
}

/// Returns when nobody receives any more. A handler is there until its task is ended.
async fn closed(sink: &Sink) {
    match sink {
        Sink::Queue(sender) => sender.closed().await,
        Sink::Handler(_) => pending().await,
    }
}
