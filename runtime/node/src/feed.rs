//! Takes requests of a subject for an actor, and answers them.

use std::sync::Arc;

use bus::{Bus, Content, Listening, Message, Parcel, Work};
use futures_util::future::BoxFuture;
use serde::Serialize;
use tracing::debug;
use wire::{ErrorCode, Headers, RunId, WireError};

use crate::context::TeamContext;

/// The queue group in which all nodes take requests.
pub(crate) const QUEUE_GROUP: &str = "callboard";

/// Requests that are taken for an actor; ends when dropped.
pub(crate) type Feed = Listening;

/// The start of a feed, or of what holds some.
pub(crate) type Starting<T = Feed> = BoxFuture<'static, Result<T, bus::Error>>;

/// Takes requests in the queue group of all nodes.
///
/// An async function is built in the crate that awaits it, in the end in the program, which is built to
/// be small. What serves the steps of runs is therefore started in a function that returns a
/// [`Starting`], so that it is built here, to be fast.
///
/// What is to be done about one is waited for when the team ends. A request that wants its answer
/// elsewhere than in an inbox would get none, so it is dropped before anything is done about it.
pub(crate) async fn start<W: Future<Output = ()> + Send + 'static>(
    context: &TeamContext,
    subject: &str,
    take: impl Fn(Parcel) -> W + Send + Sync + 'static,
) -> Result<Feed, bus::Error> {
    let requests = context.requests.clone();
    let answerable = move |parcel: Parcel| {
        let message = parcel.message();
        if message.reply.as_deref().is_some_and(|reply| !wire::subject::is_inbox(reply)) {
            debug!(subject = %message.subject, "request dropped: its reply subject is no inbox");
            return None;
        }
        let work: Work = Box::pin(requests.track_future(take(parcel)));
        Some(work)
    };
    context.bus.take(subject, Some(QUEUE_GROUP), answerable).await
}

/// Answers a request with a body.
pub(crate) async fn answer(bus: &Bus, request: &Message, headers: Headers, body: &impl Serialize) {
    match wire::json::to_vec(body) {
        Ok(bytes) => answer_bytes(bus, request, headers, bytes.into()).await,
        Err(error) => {
            let error = WireError::new(ErrorCode::Internal, format!("write an answer: {error}"));
            answer_error(bus, request, &error).await;
        }
    }
}

/// Answers a request with a body that is not written for those of this process who take it as it is.
pub(crate) async fn answer_of(bus: &Bus, request: &Message, body: Arc<dyn Content>) {
    let sent = bus.reply_of(request, Headers::new(), body).await;
    note(bus, request, None, sent).await;
}

/// Answers a request with bytes; what is too large for the bus becomes an error that says so.
pub(crate) async fn answer_bytes(
    bus: &Bus,
    request: &Message,
    headers: Headers,
    body: bytes::Bytes,
) {
    let sent = bus.reply(request, headers, body).await;
    note(bus, request, None, sent).await;
}

/// Answers a request with the reply of a run. Whoever is told that it is too large is told of which
/// run, since one who named none could not ask for it elsewhere, and would have all done again.
pub(crate) async fn answer_run(
    bus: &Bus,
    request: &Message,
    run: &RunId,
    headers: Headers,
    reply: bytes::Bytes,
) {
    let sent = bus.reply(request, headers, reply).await;
    note(bus, request, Some(run), sent).await;
}

/// Says what became of an answer that could not be sent.
async fn note(bus: &Bus, request: &Message, run: Option<&RunId>, sent: Result<(), bus::Error>) {
    match sent {
        Ok(()) => {}
        Err(bus::Error::TooLarge { bytes, max }) => {
            let whose = run.map_or_else(String::new, |run| format!(", the reply of run {run},"));
            let text = format!(
                "the answer{whose} has {bytes} bytes and the bus takes {max}; ask for it over HTTP"
            );
            answer_error(bus, request, &WireError::new(ErrorCode::TooLarge, text)).await;
        }
        Err(error @ bus::Error::Unwritable { .. }) => {
            answer_error(bus, request, &error.to_wire()).await;
        }
        Err(error) => debug!(subject = %request.subject, %error, "answer not sent"),
    }
}

/// Answers a request with an error.
pub(crate) async fn answer_error(bus: &Bus, request: &Message, error: &WireError) {
    // In a box, since it is rare and part of nearly all that answers.
    if let Err(failed) = Box::pin(bus.reply_error(request, error)).await {
        debug!(subject = %request.subject, error = %failed, "answer not sent");
    }
}
