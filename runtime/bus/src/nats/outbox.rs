//! Gathers what is sent, so that what several tasks send at about the same time leaves in one write.
//!
//! The client writes as soon as it has something, and runs right after the first task that gives it
//! something: each message would be a write of its own, which costs more than all the rest of it,
//! for us as for the server.

use std::future::{pending, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_nats::client::{PublishError, PublishErrorKind};
use async_nats::subject::ToSubject;
use async_nats::{Client, HeaderMap, Subject};
use tokio::sync::mpsc::error::{SendTimeoutError, TrySendError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;
use wire::header;

use crate::check;
use crate::error::Error;
use crate::message::Message;
use crate::nats::keeper::{Answer, Answers, Link};
use crate::nats::{convert, lost, not_sent};
use crate::wait::Wait;

/// Messages that wait to be gathered, and those that are handed over at once: some for each task
/// that may send while others run. The client's own queue comes after.
const WAITING_MAX: usize = 256;

/// Messages that are taken at most while the server is away, those that the client has got among
/// them, whose queue holds as many.
pub(super) const AWAY_MESSAGES_MAX: usize = 2048;

/// How often it is looked whether the server is there again, while requests wait for it.
const LOOK: Duration = Duration::from_millis(50);

/// A request that leaves sooner after it was made says how much time is left as it was made: its way
/// to whoever answers may take as long.
const AT_ONCE: Duration = Duration::from_millis(10);

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

/// A request until it is handed over or given up.
type Slot = Arc<Mutex<Place>>;

/// Where a request is.
#[expect(clippy::large_enum_variant, reason = "each stands in an allocation of its own")]
enum Place {
    /// It waits here.
    Here(Asked),
    /// The client has it, or is given it.
    Left,
    /// Nobody waits for its answer any more, so it does not leave from here.
    GivenUp,
}

/// A request, and how long its answer is waited for since it was made.
struct Asked {
    message: Message,
    /// Those of the message, unless they are to be made anew.
    headers: Option<HeaderMap>,
    since: Instant,
    wait: Wait,
}

fn lock(slot: &Slot) -> MutexGuard<'_, Place> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a request out that is to leave, unless it was given up.
fn take(slot: &Slot) -> Option<Asked> {
    let mut place = lock(slot);
    match std::mem::replace(&mut *place, Place::Left) {
        Place::Here(asked) => Some(asked),
        other => {
            *place = other;
            None
        }
    }
}

/// Puts a request back that could not leave, unless it was given up meanwhile.
fn put_back(slot: &Slot, asked: Asked) {
    let mut place = lock(slot);
    if !matches!(*place, Place::GivenUp) {
        *place = Place::Here(asked);
    }
}

fn give_up(slot: &Slot) -> Place {
    std::mem::replace(&mut *lock(slot), Place::GivenUp)
}

/// Stands for a request that was put; dropping it gives the request up, unless it has left.
pub(super) struct Leaving(Slot);

impl Leaving {
    /// Gives the request up. Tells whether the client may have it; if not, it never will.
    pub(super) fn has_left(self) -> bool {
        matches!(give_up(&self.0), Place::Left)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        drop(give_up(&self.0));
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
    pub(super) fn start(
        links: watch::Receiver<Arc<Link>>,
        answers: Arc<Answers>,
    ) -> (Self, AbortOnDropHandle<()>) {
        let (items, waiting) = mpsc::channel(WAITING_MAX);
        (Self { items }, AbortOnDropHandle::new(tokio::spawn(run(waiting, links, answers))))
    }

    /// Takes a message. What finds no room within that time is never sent.
    pub(super) async fn put(&self, message: Message, within: Duration) -> Result<(), Error> {
        self.place(Item::Message(Box::new(Outgoing::new(message)?)), within).await
    }

    /// Does what [`put`](Self::put) does with what is of use only while somebody waits for the
    /// answer: it leaves while the server is there and what is returned is held. One that the client
    /// refuses is answered with that.
    pub(super) async fn ask(
        &self,
        message: Message,
        wait: Wait,
        within: Duration,
    ) -> Result<Leaving, Error> {
        let headers = Some(convert::headers_out(&message.headers)?);
        let asked = Asked { message, headers, since: Instant::now(), wait };
        let slot = Arc::new(Mutex::new(Place::Here(asked)));
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
        let message = match self.items.send_timeout(item, within).await {
            Ok(()) => return Ok(()),
            Err(SendTimeoutError::Timeout(Item::Message(outgoing))) => Some(outgoing.message),
            Err(SendTimeoutError::Timeout(Item::Request(slot))) => {
                take(&slot).map(|asked| asked.message)
            }
            Err(SendTimeoutError::Timeout(Item::Mark(_)) | SendTimeoutError::Closed(_)) => None,
        };
        Err(message.map_or_else(|| lost("publish"), |message| not_sent(&message.subject, within)))
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
async fn run(
    mut waiting: mpsc::Receiver<Item>,
    mut links: watch::Receiver<Arc<Link>>,
    answers: Arc<Answers>,
) {
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
        let mut is_connected = link.is_connected();
        let mut before = Vec::new();
        if is_connected {
            given_away = 0;
            before = std::mem::take(&mut held);
        }
        // Those before come first.
        for item in before.into_iter().map(Item::Request).chain(items.drain(..)) {
            match item {
                Item::Mark(mark) => mark.send(()).unwrap_or_default(),
                Item::Request(slot) => {
                    is_connected = is_connected && leave(&slot, &link.client, &answers).await;
                    if !is_connected {
                        held.push(slot);
                    }
                }
                Item::Message(outgoing) => {
                    given_away += usize::from(!is_connected);
                    if !hand_over(*outgoing, &mut link, &mut links).await {
                        return;
                    }
                }
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
    held.retain(|slot| matches!(*lock(slot), Place::Here(_)));
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

/// Hands a request to the client, unless it was given up. Tells whether the client still runs; if it
/// has ended, the request waits for the next one.
async fn leave(slot: &Slot, client: &Client, answers: &Answers) -> bool {
    let Some(mut asked) = take(slot) else { return true };
    let error = match asked.hand_over(client).await {
        Ok(true) => return true,
        Ok(false) => {
            put_back(slot, asked);
            return false;
        }
        Err(error) => error,
    };
    refused(&asked.message, &error);
    let waiting = asked.message.reply.as_deref().and_then(|inbox| answers.take(inbox));
    if let Some(waiting) = waiting {
        drop(waiting.send(Answer::Refused(error)));
    }
    true
}

impl Asked {
    /// Hands the request to the client. Tells whether that has it, which one that has ended has not.
    async fn hand_over(&mut self, client: &Client) -> Result<bool, Error> {
        self.tell_time();
        let headers = match self.headers.take() {
            Some(headers) => headers,
            None => convert::headers_out(&self.message.headers)?,
        };
        match publish(client, &self.message, headers).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == PublishErrorKind::Send => Ok(false),
            Err(error) => Err(self.refusal(&error, client.max_payload())),
        }
    }

    /// Has the request say how much time is left by now, if it says so and leaves late.
    fn tell_time(&mut self) {
        let waited = self.since.elapsed();
        if waited < AT_ONCE {
            return;
        }
        let left = self.wait.told_ms_after(waited);
        let headers = &mut self.message.headers;
        if headers.read::<u64>(header::REMAINING_MS).is_some_and(|told| told > left) {
            headers.insert(header::REMAINING_MS, left);
            self.headers = None;
        }
    }

    /// Says why the client refuses the request. All was checked before; a server that came since may
    /// take less.
    fn refusal(&self, error: &PublishError, max: usize) -> Error {
        if error.kind() == PublishErrorKind::MaxPayloadExceeded {
            let bytes = self.message.headers.wire_len() + self.message.payload.len();
            return Error::TooLarge { bytes, max };
        }
        let subject = check::shown(&self.message.subject);
        Error::InvalidSubject { subject, fault: "the client refuses it" }
    }
}

fn refused(message: &Message, error: &dyn std::fmt::Display) {
    tracing::warn!(message.subject, %error, "message refused by the NATS client");
}

/// Hands a message to the client, and to the next one should it have ended. Tells whether there is
/// one.
async fn hand_over(
    outgoing: Outgoing,
    link: &mut Arc<Link>,
    links: &mut watch::Receiver<Arc<Link>>,
) -> bool {
    let Outgoing { message, mut headers } = outgoing;
    loop {
        match publish(&link.client, &message, headers).await {
            Ok(()) => return true,
            Err(error) if error.kind() == PublishErrorKind::Send => {}
            // All was checked before; a server that came since may take less.
            Err(error) => {
                refused(&message, &error);
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
                refused(&message, &error);
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
