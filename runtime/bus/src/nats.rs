//! The real bus: one connection to NATS, made again for as long as the bus lives.

mod convert;
mod keeper;
pub(crate) mod options;
mod outbox;
mod subscriber;
#[cfg(test)]
mod tests;
mod version;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use wire::Headers;

use crate::error::Error;
use crate::listening::{Handler, Listening};
use crate::local::{Local, LocalLimits};
use crate::message::Message;
use crate::nats::keeper::{Answer, Answers, Link, Links, Losses};
use crate::nats::options::NatsOptions;
use crate::nats::outbox::{Leaving, Outbox};
use crate::parcel::{Content, Parcel, Written};
use crate::router::Sink;
use crate::subscription::Subscription;
use crate::wait::Wait;

/// How long something waits for room on its way to the client, which is full when the server is away
/// for long: short enough that a caller learns of it before its own caller gives up.
pub(crate) const SEND_WAIT_MAX: Duration = Duration::from_secs(5);

/// How long a flush waits for the server.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(10);

/// Refusals on their way at once; more of them only wait if the server takes nothing, and then
/// nothing more comes in that would have to be refused.
const REFUSALS_MAX: usize = 4096;

/// Marks the answer that a full subscription gives by itself.
const OVERFLOW: &str = "Callboard-Overflow";

/// One connection and what is shared over it.
#[derive(Debug)]
pub(crate) struct Nats {
    links: Links,
    outbox: Outbox,
    answers: Arc<Answers>,
    /// Those of this process who take requests in a queue group, if they may be asked past the server.
    pub(crate) near: Option<Arc<Local>>,
    dropped: Arc<AtomicU64>,
    losses: watch::Receiver<Losses>,
    subscription_messages_max: usize,
    draining: CancellationToken,
    subscribers: TaskTracker,
    refusals: Arc<Semaphore>,
    /// Lets the keeper end with the last clone.
    _keeper: DropGuard,
}

impl Nats {
    pub(crate) async fn connect(options: NatsOptions) -> Result<Arc<Self>, Error> {
        let dropped = Arc::new(AtomicU64::new(0));
        let subscription_messages_max = options.subscription_messages_max.max(1);
        let answers = Arc::new(Answers::new(draw_inbox(&options.inbox_prefix)?));
        let stop = CancellationToken::new();
        let (lost, losses) = watch::channel(Losses::default());
        let (links, outbox) =
            keeper::start(&options, &answers, &dropped, lost, stop.clone()).await?;
        let near = if options.near {
            let limits = LocalLimits {
                payload_bytes_max: links.sending.borrow().client.max_payload(),
                subscription_messages_max,
            };
            let inbox = draw_inbox(&options.inbox_prefix)?;
            Some(Arc::new(Local::with_inbox(limits, inbox)))
        } else {
            None
        };
        Ok(Arc::new(Self {
            links,
            outbox,
            answers,
            near,
            dropped,
            losses,
            subscription_messages_max,
            draining: CancellationToken::new(),
            subscribers: TaskTracker::new(),
            refusals: Arc::new(Semaphore::new(REFUSALS_MAX)),
            _keeper: stop.drop_guard(),
        }))
    }

    /// Returns when the connection was lost and made again, from now on.
    pub(crate) fn mended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut losses = self.losses.clone();
        let before = losses.borrow_and_update().mended;
        async move {
            if losses.wait_for(|losses| losses.mended > before).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn link(&self) -> Arc<Link> {
        self.links.sending.borrow().clone()
    }

    /// Sends a message, past the server if it answers a request made here; fails if it has found no
    /// room on its way to the client after `within`.
    pub(crate) async fn publish(&self, message: Message, within: Duration) -> Result<(), Error> {
        if self.is_asked_at(&message.subject) {
            self.answer(message.into());
            return Ok(());
        }
        self.outbox.put(message, within).await
    }

    /// Tells whether a subject is that of an answer to a request made here.
    pub(crate) fn is_asked_at(&self, subject: &str) -> bool {
        self.answers.is_asked_at(subject)
            || self.near.as_ref().is_some_and(|near| near.is_asked_at(subject))
    }

    /// Gives an answer to the request made here that waits for it, past the server. Late and second
    /// answers find nobody.
    pub(crate) fn answer(&self, parcel: Parcel) {
        if let Some(waiting) = self.answers.take(&parcel.message().subject) {
            drop(waiting.send(Answer::Here(parcel)));
        } else if let Some(near) = &self.near {
            near.publish(parcel);
        }
    }

    /// Waits until the client has taken all that was handed to it, as long as that lasts.
    pub(crate) async fn taken(&self) {
        self.outbox.handed_over().await;
        // A client that ended has nothing left to take.
        drop(self.link().client.flush().await);
    }

    /// Sends a message and waits for the answer. `content` is what its payload was written of; it is
    /// kept with the message until the server has brought that back or the answer is there, unless
    /// the answer is that of a run or a person, which may take days.
    pub(crate) async fn request(
        &self,
        mut message: Message,
        content: Option<Arc<dyn Content>>,
        wait: Wait,
    ) -> Result<Parcel, Error> {
        let subject = message.subject.clone();
        let written = content.filter(|_| !wait.is_long).map(|content| Written {
            headers: message.headers.clone(),
            payload: message.payload.clone(),
            content,
        });
        let Some(mut ticket) = self.answers.wait(wait, written) else {
            return Err(Error::Overflow { subject });
        };
        message.reply = Some(ticket.subject());
        let mut leaving = None;
        let answer = async {
            leaving = Some(self.outbox.ask(message, wait, SEND_WAIT_MAX).await?);
            ticket.answer().await.ok_or_else(|| lost("request"))
        };
        let answer = match tokio::time::timeout(wait.within, answer).await {
            Ok(answer) => answer?,
            Err(_) if leaving.is_some_and(Leaving::has_left) => {
                return Err(timeout(&subject, wait.within));
            }
            Err(_) => return Err(not_sent(&subject, wait.within)),
        };
        let answer = match answer {
            Answer::Received(answer)
                if answer.status == Some(async_nats::StatusCode::NO_RESPONDERS) =>
            {
                return Err(Error::NoResponders { subject });
            }
            Answer::Received(answer) => convert::message_in(answer).into(),
            Answer::Here(answer) => answer,
            Answer::Refused(error) => return Err(error),
        };
        if answer.message().headers.get(OVERFLOW).is_some() {
            return Err(Error::Overflow { subject });
        }
        Ok(answer)
    }

    /// Makes a parcel of a message. If it is a request of this process, as it was sent, it need not
    /// be read.
    fn parcel(&self, message: async_nats::Message) -> Parcel {
        let sent = message.reply.as_ref().and_then(|inbox| self.answers.take_sent(inbox));
        match sent.flatten() {
            Some(Written { headers, payload, content })
                if payload == message.payload
                    && convert::is_same(&headers, message.headers.as_ref()) =>
            {
                Parcel::new(convert::message_with(headers, message), content)
            }
            _ => convert::message_in(message).into(),
        }
    }

    pub(crate) async fn subscribe(
        self: &Arc<Self>,
        pattern: &str,
        queue: Option<&str>,
    ) -> Result<Subscription, Error> {
        if self.draining.is_cancelled() {
            return Err(Error::Closed);
        }
        subscriber::start(self, pattern, queue).await
    }

    /// Gives what is received to a handler.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        pattern: &str,
        queue: Option<&str>,
        handler: Handler,
    ) -> Result<Listening, Error> {
        if self.draining.is_cancelled() {
            return Err(Error::Closed);
        }
        let sink = Sink::Handler(handler.clone());
        let task = subscriber::take(self, pattern, queue, sink).await?;
        // Of a group one is chosen, and that may be the one of this process. Others are to be given
        // everything, which only the server can see to.
        let near = self.near.as_ref().filter(|_| queue.is_some());
        let near = near.map(|near| near.listen(pattern, queue, handler)).transpose()?;
        Ok(Listening::of_task(task, near))
    }

    pub(crate) fn new_inbox(&self) -> String {
        self.link().client.new_inbox()
    }

    /// Sends a message to our own inbox and waits for it. What the server has seen by then is
    /// everything before it; the client's own flush only empties a buffer into the socket.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        let full = || Error::Overflow { subject: self.answers.inbox().to_owned() };
        let wait = Wait::from(FLUSH_WAIT_MAX);
        let mut ticket = self.answers.wait(wait, None).ok_or_else(full)?;
        let (subject, reply) = (ticket.subject(), None);
        let empty = Message { subject, reply, headers: Headers::new(), payload: Bytes::new() };
        let echo = async {
            let _leaving = self.outbox.ask(empty, wait, SEND_WAIT_MAX).await?;
            ticket.answer().await.ok_or_else(|| lost("flush"))
        };
        match tokio::time::timeout(FLUSH_WAIT_MAX, echo).await {
            Ok(echo) => echo.map(drop),
            Err(_) => Err(timeout(self.answers.inbox(), FLUSH_WAIT_MAX)),
        }
    }

    pub(crate) async fn drain(&self) -> Result<(), Error> {
        self.draining.cancel();
        if let Some(near) = &self.near {
            near.drain();
        }
        self.subscribers.close();
        self.subscribers.wait().await;
        Ok(())
    }

    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.links.sending.borrow().client.max_payload()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.links.sending.borrow().is_connected()
    }
}

/// Makes what the subjects begin with on which requests are answered. Who sends from outside names
/// the subject of an answer, and may send answers of his own, so this one must not be guessed, as
/// those of the client can be. Those who are asked know it, so the rest of a subject is secret too.
fn draw_inbox(prefix: &str) -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|source| Error::Nats { doing: "draw an inbox", source: source.into() })?;
    Ok(format!("{prefix}.{:032x}.", u128::from_be_bytes(bytes)))
}

fn timeout(subject: &str, after: Duration) -> Error {
    let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    Error::Timeout { subject: subject.to_owned(), after_ms }
}

fn not_sent(subject: &str, after: Duration) -> Error {
    let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
    Error::NotSent { subject: subject.to_owned(), after_ms }
}

fn lost(doing: &'static str) -> Error {
    Error::Nats { doing, source: "the connection was lost".into() }
}
