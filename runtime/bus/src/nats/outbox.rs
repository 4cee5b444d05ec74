//! Gathers what is sent, so that what several tasks send at about the same time leaves in one write.
//!
//! The client writes as soon as it has something, and runs right after the first task that gives it
//! something: each message would be a write of its own, which costs more than all the rest of it,
//! for us as for the server.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::subject::ToSubject;
use async_nats::{Client, HeaderMap, Subject};
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::error::Error;
use crate::message::Message;
use crate::nats::keeper::Link;
use crate::nats::{convert, lost, not_sent};

/// Messages that wait to be gathered, and those that are handed over at once: some for each task
/// that may send while others run. The client's own queue comes after.
const WAITING_MAX: usize = 256;

enum Item {
    Message(Box<Outgoing>),
    /// Tells that the client has what came before.
    Mark(oneshot::Sender<()>),
}

struct Outgoing {
    message: Message,
    /// Those of the message, made where it comes from, since many can do that at once.
    headers: HeaderMap,
}

/// The way to the client.
#[derive(Debug)]
pub(super) struct Outbox {
    items: mpsc::Sender<Item>,
}

impl Outbox {
    /// Starts to hand over. What is returned ends when the outbox was dropped and everything was
    /// handed over, or when it is dropped itself.
    pub(super) fn start(links: watch::Receiver<Arc<Link>>) -> (Self, AbortOnDropHandle<()>) {
        let (items, waiting) = mpsc::channel(WAITING_MAX);
        (Self { items }, AbortOnDropHandle::new(tokio::spawn(run(waiting, links))))
    }

    /// Takes a message. What finds no room within that time is never sent.
    pub(super) async fn put(&self, message: Message, within: Duration) -> Result<(), Error> {
        let headers = convert::headers_out(&message.headers)?;
        match self.items.try_send(Item::Message(Box::new(Outgoing { message, headers }))) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(item)) => Box::pin(self.put_late(item, within)).await,
            Err(TrySendError::Closed(_)) => Err(lost("publish")),
        }
    }

    async fn put_late(&self, item: Item, within: Duration) -> Result<(), Error> {
        match self.items.send_timeout(item, within).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Timeout(Item::Message(outgoing))) => {
                Err(not_sent(&outgoing.message.subject, within))
            }
            Err(SendTimeoutError::Timeout(Item::Mark(_)) | SendTimeoutError::Closed(_)) => {
                Err(lost("publish"))
            }
        }
    }

    /// Waits until the client has what was put before.
    pub(super) async fn handed_over(&self) {
        let (mark, passed) = oneshot::channel();
        // An outbox that ended has nothing left to hand over.
        if self.items.send(Item::Mark(mark)).await.is_ok() {
            drop(passed.await);
        }
    }
}

/// Hands over what waits, until nobody can put more or no client is left.
async fn run(mut waiting: mpsc::Receiver<Item>, mut links: watch::Receiver<Arc<Link>>) {
    let mut items = Vec::with_capacity(WAITING_MAX);
    while let Some(first) = waiting.recv().await {
        items.push(first);
        // Whoever can run now runs first, and puts what it has to send.
        after_others().await;
        while items.len() < WAITING_MAX
            && let Ok(item) = waiting.try_recv()
        {
            items.push(item);
        }
        for item in items.drain(..) {
            match item {
                Item::Mark(mark) => drop(mark.send(())),
                Item::Message(outgoing) => {
                    if !hand_over(*outgoing, &mut links).await {
                        return;
                    }
                }
            }
        }
    }
}

/// Lets those run first that can run now. Tokio's own yield asks the system for more of them where
/// there are none, which costs as much as some messages.
async fn after_others() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Hands a message to the client, and to the next one should it have ended. Tells whether there is
/// one.
async fn hand_over(outgoing: Outgoing, links: &mut watch::Receiver<Arc<Link>>) -> bool {
    let Outgoing { message, mut headers } = outgoing;
    let refused = |error: &dyn std::fmt::Display| {
        tracing::warn!(message.subject, %error, "message refused by the NATS client");
    };
    loop {
        let link = links.borrow_and_update().clone();
        match publish(&link.client, &message, headers).await {
            Ok(()) => return true,
            Err(error) if error.kind() == PublishErrorKind::Send => {}
            // All was checked before; a server that came since may take less.
            Err(error) => {
                refused(&error);
                return true;
            }
        }
        if links.wait_for(|next| !Arc::ptr_eq(next, &link)).await.is_err() {
            return false;
        }
        headers = match convert::headers_out(&message.headers) {
            Ok(headers) => headers,
            Err(error) => {
                refused(&error);
                return true;
            }
        };
    }
}

async fn publish(
    client: &Client,
    message: &Message,
    headers: HeaderMap,
) -> Result<(), PublishError> {
    let (subject, payload) = (Borrowed(&message.subject), message.payload.clone());
    match message.reply.as_deref().map(Borrowed) {
        Some(reply) => {
            client.publish_with_reply_and_headers(subject, reply, headers, payload).await
        }
        None => client.publish_with_headers(subject, headers, payload).await,
    }
}

/// A subject that the client copies once; of a `String` it would be given a copy to copy.
struct Borrowed<'t>(&'t str);

impl ToSubject for Borrowed<'_> {
    fn to_subject(&self) -> Subject {
        self.0.into()
    }
}
