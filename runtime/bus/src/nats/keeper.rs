//! Keeps the connection: hands out answers, and connects anew should the client itself end.
//!
//! The client reconnects by itself when a server goes away. It does not survive its own panics,
//! and a message with a bare carriage return in a header value makes it panic, so any peer that
//! may publish could otherwise cut us off for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, Subscriber};
use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::error::Error;
use crate::nats::options::{self, NatsOptions};
use crate::nats::outbox::Outbox;
use crate::nats::version;
use crate::parcel::{Parcel, Written};
use crate::pending::Pending;

/// How long the last messages of a bus that nobody holds any more may take to leave.
const LAST_FLUSH_MAX: Duration = Duration::from_secs(1);

/// How long the subscriptions may take to move to a new client before anything is sent with it. They
/// need no more than a turn each; one that does not move has met the end of that client as well.
const MOVE_MAX: Duration = Duration::from_secs(1);

/// The answer to a request over NATS.
#[derive(Debug)]
pub(super) enum Answer {
    /// One that the server passed on.
    Received(async_nats::Message),
    /// One from this process.
    Here(Parcel),
    /// None: the client has refused the request, which was not sent.
    Refused(Error),
}

/// The requests that wait for an answer, and their contents.
pub(super) type Answers = Pending<Answer, Option<Written>>;

/// One client.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: Client,
    /// The subscriptions made with it.
    pub(super) takers: TaskTracker,
    alive: AtomicBool,
}

impl Link {
    pub(super) fn new(client: Client) -> Self {
        Self { client, takers: TaskTracker::new(), alive: AtomicBool::new(true) }
    }

    /// Tells whether the client still runs, and has a connection.
    pub(super) fn is_connected(&self) -> bool {
        self.alive.load(Ordering::Relaxed) && self.client.connection_state() == State::Connected
    }
}

/// How often the connection was lost and made again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    is_away: bool,
    pub(super) mended: u64,
}

impl Losses {
    /// Counts a connection that follows a lost one.
    fn on_connected(&mut self) -> bool {
        let was_away = std::mem::take(&mut self.is_away);
        self.mended += u64::from(was_away);
        was_away
    }
}

/// The client at present, for those who send with it and those who receive with it.
#[derive(Clone, Debug)]
pub(super) struct Links {
    /// Of a new client this tells once the subscriptions were made with it, so that nobody is said
    /// to be gone who only has not moved yet.
    pub(super) sending: watch::Receiver<Arc<Link>>,
    pub(super) receiving: watch::Receiver<Arc<Link>>,
}

struct Keeper {
    servers: Vec<ServerAddr>,
    options: ConnectOptions,
    /// Those who wait, whichever client they asked with: answers to requests of a client that ended
    /// find them as well.
    answers: Arc<Answers>,
    losses: watch::Sender<Losses>,
    stop: CancellationToken,
}

/// Connects, and keeps the connection until `stop`.
pub(super) async fn start(
    options: &NatsOptions,
    answers: &Arc<Answers>,
    dropped: &Arc<AtomicU64>,
    losses: watch::Sender<Losses>,
    stop: CancellationToken,
) -> Result<(Links, Outbox), Error> {
    let (dropped, noted) = (dropped.clone(), losses.clone());
    let keeper = Keeper {
        servers: options.servers()?,
        options: options.client_options()?.event_callback(move |event| {
            on_event(&event, &dropped, &noted);
            std::future::ready(())
        }),
        answers: answers.clone(),
        losses,
        stop,
    };
    let (link, inbox) = keeper.open().await?;
    let (sending, to_send) = watch::channel(link.clone());
    let (receiving, to_receive) = watch::channel(link);
    let (outbox, handing_over) = Outbox::start(to_send.clone(), answers.clone());
    tokio::spawn(keeper.run(sending, receiving, inbox, handing_over));
    Ok((Links { sending: to_send, receiving: to_receive }, outbox))
}

impl Keeper {
    async fn open(&self) -> Result<(Arc<Link>, Subscriber), Error> {
        let names: Vec<String> =
            self.servers.iter().map(|addr| format!("{}:{}", addr.host(), addr.port())).collect();
        let servers = names.join(", ");
        let client = async_nats::connect_with_options(&self.servers[..], self.options.clone())
            .await
            .map_err(|source| Error::Connect { servers, source: source.into() })?;
        version::check(&client.server_info().version)?;
        let answers = client
            .subscribe(format!("{}*", self.answers.inbox()))
            .await
            .map_err(|source| Error::Nats { doing: "subscribe", source: source.into() })?;
        Ok((Arc::new(Link::new(client)), answers))
    }

    async fn run(
        self,
        sending: watch::Sender<Arc<Link>>,
        receiving: watch::Sender<Arc<Link>>,
        mut inbox: Subscriber,
        handing_over: AbortOnDropHandle<()>,
    ) {
        loop {
            tokio::select! {
                message = inbox.next() => match message {
                    Some(message) => self.hand_out(message),
                    None => match self.replace(&sending, &receiving).await {
                        Some(again) => inbox = again,
                        None => break,
                    },
                },
                () = self.stop.cancelled() => break,
            }
        }
        let flushed = async {
            drop(handing_over.await);
            let client = sending.borrow().client.clone();
            client.flush().await
        };
        if !matches!(tokio::time::timeout(LAST_FLUSH_MAX, flushed).await, Ok(Ok(()))) {
            tracing::warn!("NATS connection closed before the last messages were sent");
        }
    }

    /// Gives an answer to the request that waits for it; late and second answers find nobody.
    fn hand_out(&self, message: async_nats::Message) {
        if let Some(waiting) = self.answers.take(&message.subject) {
            drop(waiting.send(Answer::Received(message)));
        }
    }

    /// Puts another client in the place of the one that ended: for those who send with it once those
    /// who receive with it have moved. Returns its inbox, or `None` if the bus ends.
    async fn replace(
        &self,
        sending: &watch::Sender<Arc<Link>>,
        receiving: &watch::Sender<Arc<Link>>,
    ) -> Option<Subscriber> {
        let ended = sending.borrow().clone();
        let (link, inbox) = self.open_again(&ended).await?;
        receiving.send_replace(link.clone());
        ended.takers.close();
        if tokio::time::timeout(MOVE_MAX, ended.takers.wait()).await.is_err() {
            tracing::debug!("a subscription has not moved to the new NATS client yet");
        }
        sending.send_replace(link);
        Some(inbox)
    }

    /// Connects in the place of a client that ended. To those who asked with it that is a connection
    /// that was lost and made again, of which the client itself said nothing.
    async fn open_again(&self, ended: &Link) -> Option<(Arc<Link>, Subscriber)> {
        ended.alive.store(false, Ordering::Relaxed);
        tracing::error!("NATS client ended unexpectedly, connecting anew");
        let mut attempt = 1;
        loop {
            attempt += 1;
            self.losses.send_modify(|losses| losses.is_away = true);
            tokio::select! {
                () = tokio::time::sleep(options::backoff(attempt)) => {}
                () = self.stop.cancelled() => return None,
            }
            match self.open().await {
                Ok(opened) => return Some(opened),
                Err(error) => tracing::warn!(%error, attempt, "NATS cannot be reached"),
            }
        }
    }
}

fn on_event(event: &Event, dropped: &AtomicU64, losses: &watch::Sender<Losses>) {
    match event {
        Event::Connected => {
            tracing::info!("connected to NATS");
            losses.send_if_modified(Losses::on_connected);
        }
        Event::Disconnected => {
            tracing::warn!("connection to NATS lost, reconnecting");
            losses.send_modify(|losses| losses.is_away = true);
        }
        Event::SlowConsumer(subscription) => {
            let lost = dropped.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            tracing::warn!(
                subscription,
                lost,
                "messages come faster than they are sorted, one lost"
            );
        }
        Event::LameDuckMode => tracing::warn!("NATS server is about to shut down"),
        Event::ServerError(error) => tracing::warn!(%error, "NATS server reports an error"),
        Event::ClientError(error) => tracing::warn!(%error, "NATS client reports an error"),
        Event::Draining | Event::Closed => tracing::debug!(%event, "NATS connection ends"),
    }
}
