//! `callboard top`: how daemons fare, drawn anew every second, or once.

mod render;

use std::collections::BTreeSet;
use std::time::Duration;

use bus::Bus;
use gateway::view::NodeList;
use node::gather_stats;
use tokio::time::{MissedTickBehavior, interval};
use wire::{ErrorCode, Subjects};

use super::nats;
use crate::args::Top;
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::place::Place;
use crate::screen::{self, Screen};
use crate::stage::{self, Stage};
use render::Look;

/// Whom is asked.
enum Source {
    /// Daemons, each for itself.
    Daemons(Vec<Client>),
    /// All nodes on the bus of a daemon.
    Url(Client),
    /// All nodes on a bus.
    Nats(Bus, Subjects),
}

/// Shows how daemons fare.
pub(crate) async fn top(args: &Top, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let source = source(args, place).await?;
    let first = source.ask().await?;
    if args.json {
        screen::json(&first)?;
        return Ok(Exit::Done);
    }
    if args.once || !Stage::is_there() {
        let look = Look { before: None, now: &first };
        screen::answer(&look.render(screen.out.paint, screen.out.width))?;
        return Ok(Exit::Done);
    }
    watch(args, &source, first, screen).await
}

async fn watch(
    args: &Top,
    source: &Source,
    first: NodeList,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let mut stage = Stage::new(stage::Place::Alone);
    let mut looks = interval(Duration::from_secs(args.every));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut now) = (None, first);
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    // The first tick comes at once.
    looks.tick().await;
    loop {
        let (width, _) = screen::size();
        let look = Look { before: before.as_ref(), now: &now };
        if !stage.show(&look.render(screen.out.paint, width))? {
            return Ok(Exit::Done);
        }
        let next = tokio::select! {
            _ = &mut interrupt => return Ok(Exit::Done),
            next = async { looks.tick().await; source.ask().await } => next?,
        };
        before = Some(std::mem::replace(&mut now, next));
    }
}

async fn source(args: &Top, place: &Place) -> Result<Source, Failure> {
    if let Some(url) = &args.url_http {
        return Ok(Source::Url(Client::new(url, place.token()?)?));
    }
    if let Some(options) = nats::options(&args.nats)? {
        return Ok(Source::Nats(Bus::connect(options).await?, nats::subjects(&args.nats)?));
    }
    let mut addresses = BTreeSet::new();
    for team in place.teams(None)? {
        addresses.extend(place.holder(&team)?.and_then(|holder| holder.listen));
    }
    if addresses.is_empty() {
        let text = "no daemon runs on this data directory; start one with `callboard serve`, or \
                    name it with --url";
        return Err(Failure::new(ErrorCode::Unavailable, text));
    }
    let clients: Result<Vec<Client>, Failure> =
        addresses.iter().map(|address| Client::new(address, place.token()?)).collect();
    Ok(Source::Daemons(clients?))
}

impl Source {
    async fn ask(&self) -> Result<NodeList, Failure> {
        match self {
            Self::Daemons(clients) => {
                let mut all = NodeList { nodes: Vec::new(), silent: Vec::new() };
                for client in clients {
                    let list: NodeList = client.get("/v1/stats", &[]).await?;
                    all.nodes.extend(list.nodes);
                }
                Ok(all)
            }
            Self::Url(client) => client.get("/v1/stats", &[("all", "true".to_owned())]).await,
            Self::Nats(bus, subjects) => {
                let (nodes, silent) = gather_stats(bus, subjects).await?;
                Ok(NodeList { nodes, silent })
            }
        }
    }
}
