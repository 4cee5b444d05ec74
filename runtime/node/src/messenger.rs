//! The bus, as the tools of a team see it.

use std::time::Duration;

use bus::{Bus, Message};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use tools::{Letter, Messenger, Missed};
use wire::{Subjects, WireError};

/// Letters over the bus of the node.
pub(crate) struct BusMessenger {
    bus: Bus,
    subjects: Subjects,
}

impl BusMessenger {
    pub(crate) fn new(bus: &Bus, subjects: &Subjects) -> Self {
        Self { bus: bus.clone(), subjects: subjects.clone() }
    }
}

impl Messenger for BusMessenger {
    fn request(&self, letter: Letter, wait: Duration) -> BoxFuture<'_, Result<Letter, Missed>> {
        async move {
            let Letter { subject, reply: _, headers, payload } = letter;
            let answered = self.bus.request(&subject, headers, payload, wait).await;
            answered.map(letter_of).map_err(|error| missed(&error))
        }
        .boxed()
    }

    fn publish(&self, letter: Letter) -> BoxFuture<'_, Result<(), Missed>> {
        async move {
            let Letter { subject, reply, headers, payload } = letter;
            let sent = match reply {
                Some(reply) => {
                    self.bus.publish_with_reply(&subject, &reply, headers, payload).await
                }
                None => self.bus.publish(&subject, headers, payload).await,
            };
            sent.map_err(|error| missed(&error))
        }
        .boxed()
    }

    fn subscribe<'a>(
        &'a self,
        pattern: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Letter>, WireError>> {
        async move {
            let subscription = self.bus.subscribe(pattern, None).await;
            let subscription = subscription.map_err(|error| error.to_wire())?;
            Ok(subscription.map(letter_of).boxed())
        }
        .boxed()
    }

    fn new_inbox(&self) -> String {
        self.bus.new_inbox()
    }

    fn is_own(&self, subject: &str) -> bool {
        self.subjects.owns(subject)
    }
}

fn letter_of(message: Message) -> Letter {
    let Message { subject, reply, headers, payload } = message;
    Letter { subject, reply, headers, payload }
}

fn missed(error: &bus::Error) -> Missed {
    let told = error.to_wire();
    match error {
        bus::Error::NoResponders { .. }
        | bus::Error::Overflow { .. }
        | bus::Error::NotSent { .. }
        | bus::Error::TooLarge { .. }
        | bus::Error::InvalidSubject { .. }
        | bus::Error::InvalidHeader { .. } => Missed::NotDelivered(told),
        // The server may have had it before the connection was lost.
        _ => Missed::Unanswered(told),
    }
}
