//! The doors: a listener, its connections, and their end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use node::Node;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::connection;
use crate::error::Error;
use crate::guard::Guard;
use crate::host_name::HostName;
use crate::places::{Place, Places};
use crate::routes;
use crate::sign_in::{Peer, Porter};
use crate::state::Doors;
use crate::token::Token;

/// Connections that are open at once, unless the options say otherwise. Each waiting request is
/// one, and each is an open file, of which a process may often have some thousand.
pub const CONNECTIONS_MAX: usize = 1024;

/// The pause after a connection could not be accepted, as when the process has no file left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Attempts of which one is told of, so that a process without files does not fill its log too: about
/// a minute's.
const FAILED_TOLD: u64 = 1200;

/// How the doors are opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What clients have to show; absent lets in everybody who reaches the address, which then has
    /// to be a loopback address without further names.
    pub token: Option<Token>,
    /// Names under which requests are served beside the loopback names and the address itself, as
    /// through a proxy.
    pub host_names: Vec<HostName>,
    /// Connections that are open at once. For one more the oldest that asks for nothing is closed;
    /// if all wait for an answer, it waits to be accepted.
    pub connections_max: usize,
}

impl Options {
    /// Listens on an address, under no other names, if it is a loopback address.
    pub const fn new(listen: SocketAddr) -> Self {
        Self { listen, token: None, host_names: Vec::new(), connections_max: CONNECTIONS_MAX }
    }
}

/// The open doors of a node.
///
/// They close when this is dropped; [`stop`](Self::stop) closes them in order.
#[derive(Debug)]
pub struct Gateway {
    addr: SocketAddr,
    closing: CancellationToken,
    ending: CancellationToken,
    tasks: TaskTracker,
}

/// An address that is listened on for the doors of a node that is still to start: whoever comes
/// waits until they are opened.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    addr: SocketAddr,
    options: Options,
}

impl Listening {
    /// Takes the address.
    pub async fn on(options: Options) -> Result<Self, Error> {
        let listen = options.listen;
        if options.token.is_none() {
            if !listen.ip().is_loopback() {
                return Err(Error::Unprotected(listen.to_string()));
            }
            if let Some(name) = options.host_names.first() {
                return Err(Error::Unprotected(name.to_string()));
            }
        }
        let failed = |source| Error::Listen { addr: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, addr, options })
    }

    /// Returns the address that is listened on.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Opens the doors of a node.
    pub fn open(self, node: Arc<Node>) -> Gateway {
        let Self { listener, addr, options } = self;
        let closing = CancellationToken::new();
        let ending = CancellationToken::new();
        let tasks = TaskTracker::new();
        let porter = Porter::new(options.token, addr.port());
        let doors = Doors::new(node, closing.clone(), porter);
        let guard = Guard::new(addr, &options.host_names);
        let accepting = Accepting {
            listener,
            router: routes::router(doors, guard),
            places: Places::new(options.connections_max),
            closing: closing.clone(),
            ending: ending.clone(),
            tasks: tasks.clone(),
        };
        tasks.spawn(accepting.run());
        Gateway { addr, closing, ending, tasks }
    }
}

impl Gateway {
    /// Listens on an address and opens the doors of a node.
    pub async fn start(node: Arc<Node>, options: Options) -> Result<Self, Error> {
        Ok(Listening::on(options).await?.open(node))
    }

    /// Returns the address that is listened on.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Takes no new requests, ends the event streams, and gives requests in work some time.
    pub async fn stop(self, grace: Duration) {
        self.closing.cancel();
        self.tasks.close();
        if timeout(grace, self.tasks.wait()).await.is_err() {
            warn!(connections = self.tasks.len(), "connections cut, their time is over");
            self.ending.cancel();
            self.tasks.wait().await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.closing.cancel();
        self.ending.cancel();
    }
}

struct Accepting {
    listener: TcpListener,
    router: Router,
    places: Arc<Places>,
    closing: CancellationToken,
    ending: CancellationToken,
    tasks: TaskTracker,
}

impl Accepting {
    async fn run(self) {
        while let Some((stream, peer, place)) =
            self.closing.run_until_cancelled(self.accept()).await
        {
            let router = self.router.clone();
            let serving = connection::serve(stream, peer, router, place, self.closing.clone());
            let ending = self.ending.clone();
            self.tasks.spawn(async move { ending.run_until_cancelled(serving).await });
        }
    }

    async fn accept(&self) -> (TcpStream, Peer, Place) {
        let mut failed = 0_u64;
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        debug!(%error, "connection stays with delayed writes");
                    }
                    return (stream, Peer(peer.ip()), self.places.take().await);
                }
                Err(error) => {
                    // One may have been given up by its client; what lasts keeps all clients out.
                    if failed % FAILED_TOLD == 1 {
                        warn!(%error, "no connection is accepted");
                    }
                    failed += 1;
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}
