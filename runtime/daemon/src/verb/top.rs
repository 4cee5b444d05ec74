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
use crate::records::Answers;
use crate::screen::{self, Screen};
use crate::stage::{self, Stage};
use render::Look;

/// Whom is asked.
enum Source<'p> {
    /// The daemons that hold data at the time, each for itself.
    Data(&'p Place),
    /// All nodes on the bus of a daemon.
    Url(Client),
    /// All nodes on a bus.
    Nats(Bus, Subjects),
}

/// Shows how daemons fare.
pub(crate) async fn top(args: &Top, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let source = source(args, place).await?;
    let (first, failed) = source.ask().await?;
    let is_watched = !args.json && !args.once && Stage::is_there();
    if !is_watched {
        for failure in &failed {
            screen::note(&failure.render(screen.err.paint));
        }
    }
    if args.json {
        screen::json(&first)?;
        return Ok(Exit::Done);
    }
    if !is_watched {
        let look = Look { before: None, now: &first, lost: &[] };
        screen::answer(&look.render(screen.out.paint, screen.out.width))?;
        return Ok(Exit::Done);
    }
    watch(args, &source, (first, failed), screen).await
}

/// What nodes told, and why others told nothing.
type Told = (NodeList, Vec<Failure>);

async fn watch(
    args: &Top,
    source: &Source<'_>,
    first: Told,
    screen: &Screen,
) -> Result<Exit, Failure> {
    let mut stage = Stage::new(stage::Place::Alone);
    let mut looks = interval(Duration::from_secs(args.every));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut now, mut lost) = (None, first.0, first.1);
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    // The first tick comes at once.
    looks.tick().await;
    loop {
        let (width, _) = screen::size();
        let look = Look { before: before.as_ref(), now: &now, lost: &lost };
        if !stage.show(&look.render(screen.out.paint, width))? {
            return Ok(Exit::Done);
        }
        let next = tokio::select! {
            _ = &mut interrupt => return Ok(Exit::Done),
            next = async { looks.tick().await; source.ask().await } => next,
        };
        match next {
            Ok((next, failed)) => {
                before = Some(std::mem::replace(&mut now, next));
                lost = failed;
            }
            // Who watches sees when it comes back, and what was there last meanwhile.
            Err(failure) => lost = vec![failure],
        }
    }
}

async fn source<'p>(args: &Top, place: &'p Place) -> Result<Source<'p>, Failure> {
    if let Some(url) = &args.url_http {
        return Ok(Source::Url(Client::new(url, place.token()?)?));
    }
    if let Some(options) = nats::options(&args.nats)? {
        return Ok(Source::Nats(Bus::connect(options).await?, nats::subjects(&args.nats)?));
    }
    Ok(Source::Data(place))
}

impl Source<'_> {
    async fn ask(&self) -> Result<Told, Failure> {
        let list = match self {
            Self::Data(place) => return ask_daemons(place).await,
            Self::Url(client) => client.get("/v1/stats", &[("all", "true".to_owned())]).await?,
            Self::Nats(bus, subjects) => {
                let (nodes, silent) = gather_stats(bus, subjects).await?;
                NodeList { nodes, silent }
            }
        };
        Ok((list, Vec::new()))
    }
}

/// Asks the daemons that hold data, and fails if none of them answers.
async fn ask_daemons(place: &Place) -> Result<Told, Failure> {
    let mut addresses = BTreeSet::new();
    let mut answers = Answers::default();
    for team in place.teams(None)? {
        match Client::address_of_holder(place, &team) {
            Ok(address) => addresses.extend(address),
            Err(failure) => answers.take(format!("team {team}"), Err(failure)),
        }
    }
    for address in &addresses {
        let list: Result<NodeList, Failure> =
            Client::new(address, place.token()?)?.get("/v1/stats", &[]).await;
        answers.take(format!("the daemon at {address}"), list);
    }
    let (lists, failed) = answers.sorted()?;
    if lists.is_empty() {
        let text = "no daemon runs on this data directory; start one with `callboard serve`, or \
                    name it with --url";
        return Err(Failure::new(ErrorCode::Unavailable, text));
    }
    let nodes = lists.into_iter().flat_map(|list| list.nodes).collect();
    Ok((NodeList { nodes, silent: Vec::new() }, failed))
}
