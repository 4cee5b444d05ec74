//! Gathers what is sent, so that what several tasks send at about the same time leaves in one write.
//!
//! The client writes as soon as it has something, and runs right after the first task that gives it
//! something: each message would be a write of its own, which costs more than all the rest of it,
//! for us as for the server.

use std::sync::Arc;
use std::time::Duration;

use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::{Client, HeaderMap};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::yield_now;
use tokio_util::task::AbortOnDropHandle;

use crate::error::Error;
use crate::message::Message;
use crate::nats::keeper::Link;
use crate::nats::{convert, lost, not_sent};

/// Messages that wait for the client, beside those in its own queue: some for each task that may
/// send while others run.
const WAITING_MAX: usize = 256;

enum Item {
    Message(Box<Outgoing>),
    /// Tells that the client has what came before.
    Mark(oneshot::Sender<()>),
}

struct Outgoing {
    message: Message,
    /// Made where the message comes from, since many can do that at once; taken by the first attempt.
    headers: Option<HeaderMap>,
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
        let headers = Some(convert::headers_out(&message.headers)?);
        let item = Item::Message(Box::new(Outgoing { message, headers }));
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
        yield_now().await;
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

/// Hands a message to the client, and to the next one should it have ended. Tells whether there is
/// one.
async fn hand_over(mut outgoing: Outgoing, links: &mut watch::Receiver<Arc<Link>>) -> bool {
    loop {
        let link = links.borrow_and_update().clone();
        match publish(&link.client, &mut outgoing).await {
            Ok(()) => return true,
            Err(error) if error.kind() == PublishErrorKind::Send => {
                // The one that takes its place.
                if links.wait_for(|next| !Arc::ptr_eq(next, &link)).await.is_err() {
                    return false;
                }
            }
            // It was checked before; a server that came later may take less.
            Err(error) => {
                let subject = &outgoing.message.subject;
                tracing::warn!(subject, %error, "message refused by the NATS client");
                return true;
            }
        }
    }
}

async fn publish(client: &Client, outgoing: &mut Outgoing) -> Result<(), PublishError> {
    let Outgoing { message, headers } = outgoing;
    let headers = headers.take();
    // What the client took once it takes again.
    let headers = headers.map_or_else(|| convert::headers_out(&message.headers), Ok);
    let headers = headers.unwrap_or_default();
    let (subject, payload) = (message.subject.clone(), message.payload.clone());
    match message.reply.clone() {
        Some(reply) => {
            client.publish_with_reply_and_headers(subject, reply, headers, payload).await
        }
        None => client.publish_with_headers(subject, headers, payload).await,
    }
}
