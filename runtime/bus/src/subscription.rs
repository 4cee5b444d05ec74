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
    /// A message was taken while no other fitted in.
    was_full: bool,
    /// Takes the twin's routing entry with it; on NATS the closed receiver is sign enough.
    _registration: Option<Registration>,
}

impl Subscription {
    pub(crate) fn new(
        receiver: mpsc::Receiver<Message>,
        registration: Option<Registration>,
    ) -> Self {
        Self { receiver, was_full: false, _registration: registration }
    }

    /// Returns the next message, or `None` when the bus was drained and nothing is left.
    pub async fn next(&mut self) -> Option<Message> {
        let message = self.receiver.recv().await;
        self.note_full();
        message
    }

    /// Tells whether messages may have been lost because they did not fit, since this was made or
    /// [`clear`](Self::clear)ed. Those come after what was held then. What a lost connection took is
    /// not known.
    pub const fn may_have_lost(&self) -> bool {
        self.was_full
    }

    /// Drops the messages that are held. What was lost is of no matter from then on.
    pub fn clear(&mut self) {
        for _ in 0..self.receiver.max_capacity() {
            if self.receiver.try_recv().is_err() {
                break;
            }
        }
        self.was_full = false;
    }

    /// Notes after a message was taken whether there was no room before. Nobody else makes room, so
    /// none that was lost goes unnoticed.
    fn note_full(&mut self) {
        self.was_full |= self.receiver.capacity() <= 1;
    }
}

impl Stream for Subscription {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let polled = self.receiver.poll_recv(cx);
        self.note_full();
        polled
    }
}
