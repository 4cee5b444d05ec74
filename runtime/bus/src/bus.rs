//! The bus itself: one set of methods, two kinds behind it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use wire::error::ErrorBody;
use wire::{Headers, WireError, header, subject};

use crate::check;
use crate::error::Error;
use crate::listening::{Listening, Work};
use crate::local::{Local, LocalLimits};
use crate::message::Message;
use crate::nats::options::NatsOptions;
use crate::nats::{Nats, SEND_WAIT_MAX};
use crate::parcel::{Content, Parcel};
use crate::subscription::Subscription;
use crate::wait::Wait;

/// How much of an error's message goes into its header, in characters; the body has all of it.
const ERROR_HEADER_CHARS_MAX: usize = 200;

/// How long an answer may wait to leave if its request does not say how long it is waited for.
const ANSWER_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// How long an answer may wait to leave at most: as long as one call of a tool may take. While
/// nothing leaves, nothing comes in either, so few answers wait.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Sends and receives messages on subjects.
///
/// Clones share one connection. What was published before the last clone is dropped is still sent.
#[derive(Clone, Debug)]
pub struct Bus {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Local(Arc<Local>),
    Nats(Arc<Nats>),
}

impl Bus {
    /// Makes a bus inside the process, with room for the longest input of a run.
    pub fn local() -> Self {
        Self::local_with(LocalLimits::default())
    }

    /// Makes a bus inside the process.
    pub fn local_with(limits: LocalLimits) -> Self {
        Self { kind: Kind::Local(Arc::new(Local::new(limits))) }
    }

    /// Makes a bus inside the process that shows every message to a tap.
    #[cfg(any(test, feature = "testing"))]
    pub fn local_tapped(tap: crate::tap::Tap) -> Self {
        let mut local = Local::new(LocalLimits::default());
        local.tap = Some(tap);
        Self { kind: Kind::Local(Arc::new(local)) }
    }

    /// Connects to NATS; each server is tried once.
    ///
    /// A connection that is lost later is made again, for ever, and the subscriptions with it.
    pub fn connect(options: NatsOptions) -> BoxFuture<'static, Result<Self, Error>> {
        // An async function is built where it is awaited, and with it all that it spawns, to be small
        // like the program itself. In a box it is built here, to be fast.
        Box::pin(async { Ok(Self { kind: Kind::Nats(Nats::connect(options).await?) }) })
    }

    /// Sends a message to whoever listens; nobody may.
    pub async fn publish(
        &self,
        subject: &str,
        headers: Headers,
        payload: Bytes,
    ) -> Result<(), Error> {
        self.send(subject, None, headers, payload, SEND_WAIT_MAX).await
    }

    /// Sends a message that asks for answers on a subject of the caller's.
    pub async fn publish_with_reply(
        &self,
        subject: &str,
        reply: &str,
        headers: Headers,
        payload: Bytes,
    ) -> Result<(), Error> {
        self.send(subject, Some(reply), headers, payload, SEND_WAIT_MAX).await
    }

    async fn send(
        &self,
        subject: &str,
        reply: Option<&str>,
        headers: Headers,
        payload: Bytes,
        within: Duration,
    ) -> Result<(), Error> {
        self.check(subject, &headers, payload.len())?;
        reply.map_or(Ok(()), check::subject)?;
        let subject = subject.to_owned();
        let message = Message { subject, reply: reply.map(str::to_owned), headers, payload };
        match &self.kind {
            Kind::Local(local) => {
                local.publish(message.into());
                Ok(())
            }
            Kind::Nats(nats) => nats.publish(message, within).await,
        }
    }

    /// Sends a message and waits for the first answer.
    ///
    /// Fails at once if nobody listens, if a member of a queue group was to answer and its
    /// subscription is full, or if too many requests wait. Whoever answers in this process may do so
    /// within what is returned: it is to be awaited or dropped, and not to be kept.
    pub async fn request(
        &self,
        subject: &str,
        headers: Headers,
        payload: Bytes,
        wait: impl Into<Wait>,
    ) -> Result<Message, Error> {
        let answer = self.ask(subject, headers, payload, None, wait.into()).await?;
        Ok(answer.into_message())
    }

    /// Sends a payload and waits for the first answer. `content` is what the payload was written of.
    async fn ask(
        &self,
        subject: &str,
        headers: Headers,
        payload: Bytes,
        content: Option<Arc<dyn Content>>,
        wait: Wait,
    ) -> Result<Parcel, Error> {
        self.check(subject, &headers, payload.len())?;
        let message = Message { subject: subject.to_owned(), reply: None, headers, payload };
        match &self.kind {
            Kind::Local(local) => local.request(message.into(), wait).await,
            Kind::Nats(nats) => nats.request(message, content, wait).await,
        }
    }

    /// Does what [`request`](Self::request) does, with a content that is not written for those of
    /// this process who take it as it is. It has to fit into a message nevertheless. For a server it
    /// is written anew with each request.
    pub async fn request_of(
        &self,
        subject: &str,
        headers: Headers,
        content: Arc<dyn Content>,
        wait: impl Into<Wait>,
    ) -> Result<Parcel, Error> {
        let wait = wait.into();
        match &self.kind {
            Kind::Local(local) => {
                let message = self.unwritten(subject, headers, &*content)?;
                local.request(Parcel::new(message, content), wait).await
            }
            Kind::Nats(_) => {
                let payload = written(&*content)?;
                Box::pin(self.ask(subject, headers, payload, Some(content), wait)).await
            }
        }
    }

    /// Returns the bus on which a subject is listened to inside this process by a queue group, if it
    /// is and [`NatsOptions::near`] allows to ask there past the server.
    ///
    /// Nobody else hears of what is asked there, and the group has no say in who answers.
    pub fn near(&self, subject: &str) -> Option<Self> {
        match &self.kind {
            Kind::Local(_) => None,
            Kind::Nats(nats) => {
                let near = nats.near.as_ref().filter(|near| near.is_heard(subject))?;
                // A server that came since may take more, or less.
                near.set_payload_bytes_max(nats.payload_bytes_max());
                Some(Self { kind: Kind::Local(near.clone()) })
            }
        }
    }

    /// Answers a request; does nothing if it asks for no answer. While nothing leaves, the answer
    /// waits for as long as whoever asked may, by what the request says, and for an hour at most.
    /// Who asked on this bus gets it past the server.
    ///
    /// Only inboxes are answered: the sender chose the subject, and our rights are not his.
    pub async fn reply(
        &self,
        request: &Message,
        headers: Headers,
        payload: Bytes,
    ) -> Result<(), Error> {
        let Some(inbox) = inbox_of(request)? else { return Ok(()) };
        self.send(inbox, None, headers, payload, answer_wait(request)).await
    }

    /// Does what [`reply`](Self::reply) does, with a content that is not written for those of this
    /// process who take it as it is. It has to fit into a message nevertheless.
    pub async fn reply_of(
        &self,
        request: &Message,
        headers: Headers,
        content: Arc<dyn Content>,
    ) -> Result<(), Error> {
        let Some(inbox) = inbox_of(request)? else { return Ok(()) };
        if let Kind::Nats(nats) = &self.kind
            && !nats.is_asked_at(inbox)
        {
            let payload = written(&*content)?;
            return Box::pin(self.reply(request, headers, payload)).await;
        }
        let message = self.unwritten(inbox, headers, &*content)?;
        let answer = Parcel::new(message, content);
        match &self.kind {
            Kind::Local(local) => local.publish(answer),
            Kind::Nats(nats) => nats.answer(answer),
        }
        Ok(())
    }

    /// Answers a request with an error: in the body in full, in the headers in short.
    pub async fn reply_error(&self, request: &Message, error: &WireError) -> Result<(), Error> {
        let (headers, payload) = error_reply(error)?;
        self.reply(request, headers, payload).await
    }

    /// Receives what is sent from here on to subjects that match a pattern.
    ///
    /// Of the subscriptions of one queue group only one receives each message. On NATS, what
    /// others send is certain to arrive after a [`flush`](Self::flush).
    pub async fn subscribe(
        &self,
        pattern: &str,
        queue: Option<&str>,
    ) -> Result<Subscription, Error> {
        check::pattern(pattern)?;
        queue.map_or(Ok(()), check::queue)?;
        match &self.kind {
            Kind::Local(local) => local.subscribe(pattern, queue),
            Kind::Nats(nats) => nats.subscribe(pattern, queue).await,
        }
    }

    /// Gives what is sent from here on to subjects that match a pattern to a handler, until what is
    /// returned is dropped. The handler must not wait, and bounds by itself what it keeps.
    ///
    /// Of those of one queue group only one is given each message, subscriptions among them.
    pub async fn listen(
        &self,
        pattern: &str,
        queue: Option<&str>,
        handler: impl Fn(Message) + Send + Sync + 'static,
    ) -> Result<Listening, Error> {
        let handler = move |parcel: Parcel| {
            handler(parcel.into_message());
            None
        };
        self.take(pattern, queue, handler).await
    }

    /// Does what [`listen`](Self::listen) does, with contents as they were sent in this process. What
    /// takes time the handler returns, and has it done by whoever asks in this process, or by a task.
    pub async fn take(
        &self,
        pattern: &str,
        queue: Option<&str>,
        handler: impl Fn(Parcel) -> Option<Work> + Send + Sync + 'static,
    ) -> Result<Listening, Error> {
        check::pattern(pattern)?;
        queue.map_or(Ok(()), check::queue)?;
        match &self.kind {
            Kind::Local(local) => {
                local.listen(pattern, queue, Arc::new(handler)).map(Listening::local)
            }
            Kind::Nats(nats) => nats.listen(pattern, queue, Arc::new(handler)).await,
        }
    }

    /// Returns a subject that nobody else uses, to collect several answers on.
    pub fn new_inbox(&self) -> String {
        match &self.kind {
            Kind::Local(local) => local.new_inbox(),
            Kind::Nats(nats) => nats.new_inbox(),
        }
    }

    /// Waits until the server has seen everything that was sent and subscribed before.
    pub async fn flush(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Local(_) => Ok(()),
            Kind::Nats(nats) => nats.flush().await,
        }
    }

    /// Waits until what was published before is out of the queue that it shares with requests and
    /// answers, as long as that lasts. Who publishes much waits for this every now and then, so that
    /// there is room for those while the server is away.
    pub async fn taken(&self) {
        match &self.kind {
            Kind::Local(_) => {}
            Kind::Nats(nats) => nats.taken().await,
        }
    }

    /// Ends all subscriptions of this bus and its clones, each after what it still holds.
    ///
    /// From then on nothing is received and [`subscribe`](Self::subscribe) is refused; publishing,
    /// requests and replies go on, so that what was received can be answered.
    pub async fn drain(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Local(local) => {
                local.drain();
                Ok(())
            }
            Kind::Nats(nats) => nats.drain().await,
        }
    }

    /// Returns the size of the largest message, headers included, in bytes.
    pub fn payload_bytes_max(&self) -> usize {
        match &self.kind {
            Kind::Local(local) => local.payload_bytes_max(),
            Kind::Nats(nats) => nats.payload_bytes_max(),
        }
    }

    /// Returns how many messages were lost because a subscription was full.
    pub fn dropped(&self) -> u64 {
        match &self.kind {
            Kind::Local(local) => local.dropped(),
            Kind::Nats(nats) => nats.dropped(),
        }
    }

    /// Tells whether a message would reach somebody, as far as that is known here: a server does
    /// not say who listens, so over NATS it always may.
    pub fn is_heard(&self, subject: &str) -> bool {
        match &self.kind {
            Kind::Local(local) => local.is_heard(subject),
            Kind::Nats(_) => true,
        }
    }

    /// Tells whether other processes may be on this bus.
    pub const fn is_shared(&self) -> bool {
        match &self.kind {
            Kind::Local(_) => false,
            Kind::Nats(_) => true,
        }
    }

    /// Tells whether messages can leave at present.
    pub fn is_connected(&self) -> bool {
        match &self.kind {
            Kind::Local(_) => true,
            Kind::Nats(nats) => nats.is_connected(),
        }
    }

    /// Returns when the connection was lost and made again, from the call on. What was under way
    /// then may have been lost, whether a request or its answer.
    pub fn mended(&self) -> BoxFuture<'static, ()> {
        match &self.kind {
            Kind::Local(_) => Box::pin(std::future::pending()),
            Kind::Nats(nats) => Box::pin(nats.mended()),
        }
    }

    fn check(&self, subject: &str, headers: &Headers, payload_bytes: usize) -> Result<(), Error> {
        check::subject(subject)?;
        check::headers(headers)?;
        check::size(headers, payload_bytes, self.payload_bytes_max())
    }

    /// Makes the message of a content that need not be written.
    fn unwritten(
        &self,
        subject: &str,
        headers: Headers,
        content: &dyn Content,
    ) -> Result<Message, Error> {
        let room = self.payload_bytes_max().saturating_sub(headers.wire_len());
        let bytes = content.measure(room).map_err(|source| Error::Unwritable { source })?;
        self.check(subject, &headers, bytes)?;
        Ok(Message { subject: subject.to_owned(), reply: None, headers, payload: Bytes::new() })
    }
}

/// Returns where a request wants its answer, if it wants one.
fn inbox_of(request: &Message) -> Result<Option<&str>, Error> {
    match request.reply.as_deref() {
        Some(reply) if !subject::is_inbox(reply) => {
            Err(Error::ReplyRefused { subject: check::shown(reply) })
        }
        reply => Ok(reply),
    }
}

/// Returns how long the answer to a request may wait to leave.
fn answer_wait(request: &Message) -> Duration {
    let asked = request.headers.read(header::REMAINING_MS).map(Duration::from_millis);
    asked.unwrap_or(ANSWER_WAIT_DEFAULT).clamp(SEND_WAIT_MAX, ANSWER_WAIT_MAX)
}

fn written(content: &dyn Content) -> Result<Bytes, Error> {
    content.write().map(Bytes::from).map_err(|source| Error::Unwritable { source })
}

/// Makes headers and body of a reply that reports an error.
pub(crate) fn error_reply(error: &WireError) -> Result<(Headers, Bytes), Error> {
    let body = serde_json::to_vec(&ErrorBody { error: error.clone() })
        .map_err(|source| Error::Nats { doing: "write an error reply", source: source.into() })?;
    let short = check::header_value(&error.message, ERROR_HEADER_CHARS_MAX);
    let headers = Headers::new()
        .with(header::SERVICE_ERROR, short)
        .with(header::SERVICE_ERROR_CODE, error.code.as_str());
    Ok((headers, body.into()))
}
