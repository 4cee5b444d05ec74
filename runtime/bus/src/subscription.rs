//! The receiving end of a subscription, the same for both kinds of bus.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::mpsc;

use crate::local::Registration;
use crate::message::Message;

/// Receives the messages of one pattern, in the order in which each publisher sent them.
///
/// It holds a bounded number of messages; what does not fit is lost and counted by
/// [`Bus::dropped`](crate::Bus::dropped). Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    receiver: mpsc::Receiver<Message>,
    /// Takes the twin's routing entry with it; on NATS the closed receiver is sign enough.
    _registration: Option<Registration>,
}

impl Subscription {
    pub(crate) fn new(
        receiver: mpsc::Receiver<Message>,
        registration: Option<Registration>,
    ) -> Self {
        Self { receiver, _registration: registration }
    }

    /// Returns the next message, or `None` when the bus was drained and nothing is left.
    pub async fn next(&mut self) -> Option<Message> {
        self.receiver.recv().await
    }
}

impl Stream for Subscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        self.receiver.poll_recv(cx)
    }
}
