//! The suite that both kinds of bus pass: what holds on NATS holds in the twin.

mod contents;
mod delivery;
mod limits;
mod requests;
mod services;

use std::time::Duration;

use bytes::Bytes;
use wire::Headers;

use crate::testing::NatsServer;
use crate::{Bus, LocalLimits, Message, NatsOptions, Subscription};

/// The largest message in this suite.
const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// Longer than anything takes that is to happen.
const LONG: Duration = Duration::from_secs(20);

/// Which kind of bus a case runs on.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Twin,
    Nats,
}

/// Two ends of one bus: on NATS two connections to one server.
struct Pair {
    a: Bus,
    b: Bus,
    _server: Option<NatsServer>,
}

impl Kind {
    async fn pair(self) -> Pair {
        self.pair_with(crate::SUBSCRIPTION_MESSAGES_MAX_DEFAULT).await
    }

    /// Makes a pair whose subscriptions hold so many messages.
    async fn pair_with(self, subscription_messages_max: usize) -> Pair {
        match self {
            Self::Twin => {
                let bus = Bus::local_with(LocalLimits {
                    payload_bytes_max: PAYLOAD_BYTES_MAX,
                    subscription_messages_max,
                });
                Pair { a: bus.clone(), b: bus, _server: None }
            }
            Self::Nats => {
                let config = format!("max_payload: {PAYLOAD_BYTES_MAX}");
                let server = NatsServer::start(&config).await.unwrap();
                let mut options = NatsOptions::new([server.url()]);
                options.subscription_messages_max = subscription_messages_max;
                let a = Bus::connect(options.clone()).await.unwrap();
                let b = Bus::connect(options).await.unwrap();
                Pair { a, b, _server: Some(server) }
            }
        }
    }
}

/// Makes one test of each case for each kind.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod twin {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::conformance::Kind::Twin).await;
            })*
        }
        mod nats {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::conformance::Kind::Nats).await;
            })*
        }
    };
}
use on_both;

impl Pair {
    /// Subscribes at the second end, so that the first reaches it.
    async fn listen(&self, pattern: &str, queue: Option<&str>) -> Subscription {
        let subscription = self.b.subscribe(pattern, queue).await.unwrap();
        self.b.flush().await.unwrap();
        subscription
    }

    /// Publishes a text at the first end and waits until the second has received it.
    async fn tell(&self, subject: &str, text: &str) {
        self.a.publish(subject, Headers::new(), text.to_owned().into()).await.unwrap();
        self.settle().await;
    }

    /// Waits until everything that was published has been received.
    async fn settle(&self) {
        self.a.flush().await.unwrap();
        self.b.flush().await.unwrap();
    }

    /// Asks with a text at the first end.
    async fn ask(&self, subject: &str, text: &str) -> Result<Message, crate::Error> {
        self.a.request(subject, Headers::new(), text.to_owned().into(), LONG).await
    }
}

/// Returns the next message of a subscription, which has to come.
async fn next(subscription: &mut Subscription) -> Message {
    tokio::time::timeout(LONG, subscription.next()).await.expect("a message in time").unwrap()
}

/// Returns the next message on a subject, past all others.
async fn seen(subscription: &mut Subscription, subject: &str) -> Message {
    loop {
        let message = next(subscription).await;
        if message.subject == subject {
            return message;
        }
    }
}

/// Returns the texts of the next messages.
async fn texts(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    while texts.len() < count {
        texts.push(text(&next(subscription).await.payload));
    }
    texts
}

fn text(payload: &Bytes) -> String {
    String::from_utf8(payload.to_vec()).unwrap()
}

/// Answers every request with its own text until the subscription ends.
fn echo(bus: &Bus, mut requests: Subscription) {
    let bus = bus.clone();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            bus.reply(&request, request.headers.clone(), request.payload.clone()).await.unwrap();
        }
    });
}
