//! Gathers what is sent, so that what several tasks send at about the same time leaves in one write.
//!
//! The client writes as soon as it has something, and runs right after the first task that gives it
//! something: each message would be a write of its own, which costs more than all the rest of it,
//! for us as for the server.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::subject::ToSubject;
use async_nats::{Client, HeaderMap, Subject};
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::error::Error;
use crate::message::Message;
use crate::nats::keeper::Link;
use crate::nats::{convert, lost, not_sent};

/// Messages that wait to be gathered, and those that are handed over at once: some for each task
/// that may send while others run. The client's own queue comes after.
const WAITING_MAX: usize = 256;

/// Messages that are taken at most while the server is away, those that the client has got among
/// them, whose queue holds as many.
pub(super) const AWAY_MESSAGES_MAX: usize = 2048;

/// How often it is looked whether the server is there again, while requests wait for it.
const LOOK: Duration = Duration::from_millis(50);

enum Item {
    Message(Box<Outgoing>),
    Request(Slot),
    /// Tells that the client has what came before.
    Mark(oneshot::Sender<()>),
}

struct Outgoing {
    message: Message,
    /// Those of the message, made where it comes from, since many can do that at once.
    headers: HeaderMap,
}

impl Outgoing {
    fn new(message: Message) -> Result<Self, Error> {
        let headers = convert::headers_out(&message.headers)?;
        Ok(Self { message, headers })
    }
}

/// A request until it is handed over or given up: whoever does the one takes it out, and the other
/// finds nothing.
type Slot = Arc<Mutex<Option<Outgoing>>>;

fn take(slot: &Slot) -> Option<Outgoing> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Stands for a request that was put; dropping it gives the request up, unless it has left.
pub(super) struct Leaving(Slot);

impl Leaving {
    /// Tells whether the client has the request. If it has not, it never will.
    pub(super) fn has_left(&self) -> bool {
        take(&self.0).is_none()
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        drop(take(&self.0));
    }
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
        self.place(Item::Message(Box::new(Outgoing::new(message)?)), within).await
    }

    /// Does what [`put`](Self::put) does with what is of use only while somebody waits for the
    /// answer: it leaves while the server is there and what is returned is held.
    pub(super) async fn ask(&self, message: Message, within: Duration) -> Result<Leaving, Error> {
        let slot = Arc::new(Mutex::new(Some(Outgoing::new(message)?)));
        self.place(Item::Request(slot.clone()), within).await?;
        Ok(Leaving(slot))
    }

    async fn place(&self, item: Item, within: Duration) -> Result<(), Error> {
        match self.items.try_send(item) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(item)) => Box::pin(self.place_late(item, within)).await,
            Err(TrySendError::Closed(_)) => Err(lost("publish")),
        }
    }

    async fn place_late(&self, item: Item, within: Duration) -> Result<(), Error> {
        let outgoing = match self.items.send_timeout(item, within).await {
            Ok(()) => return Ok(()),
            Err(SendTimeoutError::Timeout(Item::Message(outgoing))) => Some(*outgoing),
            Err(SendTimeoutError::Timeout(Item::Request(slot))) => take(&slot),
            Err(SendTimeoutError::Timeout(Item::Mark(_)) | SendTimeoutError::Closed(_)) => None,
        };
        Err(outgoing.map_or_else(
            || lost("publish"),
            |outgoing| not_sent(&outgoing.message.subject, within),
        ))
    }

    /// Waits until the client has what was put before, but for requests that wait for the server.
    pub(super) async fn handed_over(&self) {
        let (mark, passed) = oneshot::channel();
        // An outbox that ended has nothing left to hand over.
        if self.items.send(Item::Mark(mark)).await.is_ok() {
            drop(passed.await);
        }
    }
}

/// Hands over what waits, until nobody can put more or no client is left.
///
/// The client keeps what it is given until the server is there again, whoever has given it up by
/// then. So requests wait here for that, and the client is given the rest meanwhile.
async fn run(mut waiting: mpsc::Receiver<Item>, mut links: watch::Receiver<Arc<Link>>) {
    let mut items = Vec::with_capacity(WAITING_MAX);
    let mut held = Vec::new();
    let mut given_away = 0;
    loop {
        match next(&mut waiting, &mut held, given_away).await {
            Next::Item(first) => items.push(first),
            Next::Look => {}
            Next::End => return,
        }
        // Whoever can run now runs first, and puts what it has to send.
        after_others().await;
        while !items.is_empty()
            && items.len() < WAITING_MAX
            && let Ok(item) = waiting.try_recv()
        {
            items.push(item);
        }
        let mut link = links.borrow_and_update().clone();
        let is_connected = link.is_connected();
        if is_connected {
            given_away = 0;
            // Those before come first.
            for outgoing in held.drain(..).filter_map(|slot| take(&slot)) {
                if !hand_over(outgoing, &mut link, &mut links).await {
                    return;
                }
            }
        }
        for item in items.drain(..) {
            let outgoing = match item {
                Item::Mark(mark) => {
                    mark.send(()).unwrap_or_default();
                    None
                }
                Item::Request(slot) if !is_connected => {
                    held.push(slot);
                    None
                }
                Item::Request(slot) => take(&slot),
                Item::Message(outgoing) => {
                    given_away += usize::from(!is_connected);
                    Some(*outgoing)
                }
            };
            if let Some(outgoing) = outgoing
                && !hand_over(outgoing, &mut link, &mut links).await
            {
                return;
            }
        }
    }
}

enum Next {
    Item(Item),
    /// Nothing came, but requests wait.
    Look,
    End,
}

/// Waits for what is put next; not for long while requests are held, and for nothing more once
/// there are as many messages as may wait for the server.
async fn next(waiting: &mut mpsc::Receiver<Item>, held: &mut Vec<Slot>, given_away: usize) -> Next {
    let is_full = held.len() + given_away >= AWAY_MESSAGES_MAX;
    let next = if held.is_empty() {
        Ok(waiting.recv().await)
    } else if is_full {
        timeout(LOOK, pending()).await
    } else {
        timeout(LOOK, waiting.recv()).await
    };
    if let Ok(next) = next {
        return next.map_or(Next::End, Next::Item);
    }
    // Those that were given up make room.
    held.retain(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner).is_some());
    Next::Look
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
async fn hand_over(
    outgoing: Outgoing,
    link: &mut Arc<Link>,
    links: &mut watch::Receiver<Arc<Link>>,
) -> bool {
    let Outgoing { message, mut headers } = outgoing;
    let refused = |error: &dyn std::fmt::Display| {
        tracing::warn!(message.subject, %error, "message refused by the NATS client");
    };
    loop {
        match publish(&link.client, &message, headers).await {
            Ok(()) => return true,
            Err(error) if error.kind() == PublishErrorKind::Send => {}
            // All was checked before; a server that came since may take less.
            Err(error) => {
                refused(&error);
                return true;
            }
        }
        *link = match links.wait_for(|next| !Arc::ptr_eq(next, link)).await {
            Ok(next) => next.clone(),
            Err(_) => return false,
        };
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
