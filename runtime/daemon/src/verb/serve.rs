//! `callboard serve`: the daemon.

mod door;
mod notify;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, NatsOptions};
use config::Team;
use gateway::{Listening, Options};
use journal::Holder;
use node::{Node, NodeOptions, OpenedNode, Sourced};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tracing::{error, info, warn};
use wire::{ErrorCode, Name, Subjects};

use super::nats;
use crate::args::Serve;
use crate::failure::{Exit, Failure};
use crate::files;
use crate::place::{Place, holder};
use crate::screen::{self, Screen};

/// How long runs in work have to end once the daemon is told to stop. What is closed after them takes
/// some seconds more; the unit and the compose file in `deploy` give it twenty in all.
const DRAIN_GRACE: Duration = Duration::from_secs(6);

/// How long those who ask over HTTP have to read their answers at the end.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Runs teams until it is told to stop.
pub(crate) async fn serve(args: &Serve, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    files::raise_limit();
    let loaded = load(args, screen)?;
    let token = place.token()?;
    let listen = listen(&args.listen)?
        .map(|listen| door::options(listen, &args.host_names, token.as_ref()))
        .transpose()?;
    let subjects = nats::subjects(&args.nats)?;
    // Listened for before anything is opened, so that no signal is missed.
    let mut signals = Signals::listen()?;
    let met = async {
        let bus = match nats::options(&args.nats)? {
            Some(options) => Bus::connect(NatsOptions { near: args.nats_near, ..options }).await?,
            None => Bus::local(),
        };
        let (watched, teams) = complete(&loaded, place, (&bus, &subjects), screen).await?;
        Ok::<_, Failure>((bus, watched, teams))
    };
    // Others may take long to answer, and until they do there is nothing to close.
    let (bus, watched, teams) = tokio::select! {
        met = met => met?,
        () = signals.next() => return Ok(Exit::Done),
    };
    let mut described = String::new();
    for team in &teams {
        describe(&mut described, team, &subjects);
    }
    let mut holder = holder("serve");
    let options = NodeOptions {
        data: place.dir().to_owned(),
        holder: holder.clone(),
        subjects,
        reserve_bytes: args.disk_reserve << 20,
    };
    // What is cut there is as after a crash, which loses nothing, and much data takes long to read.
    let opened = tokio::select! {
        opened = Node::open(teams, bus.clone(), options) => opened?,
        () = signals.next() => return Ok(Exit::Done),
    };
    // Before a run is taken up: one that is cut by a start that fails is paid for and counted.
    let listening = match prepare(&opened, listen, &mut holder, args).await {
        Ok(listening) => listening,
        Err(failure) => {
            opened.close().await;
            return Err(failure);
        }
    };
    let node = Arc::new(opened.start().await?);
    let door = listening.map(|listening| listening.open(node.clone()));
    if door.is_some()
        && token.is_none()
        && let Some(commands) = door::reached_by(&loaded)
    {
        warn!(%commands, "programs reach the HTTP door, which asks for no token");
        screen::note(&unguarded(&commands));
    }
    screen::note(&described);
    screen::note(&ready(holder.listen.as_deref(), holder.nats.as_deref()));
    notify::tell("READY=1");
    let mut tasks = JoinSet::new();
    for (name, sources) in watched {
        if let Some(handle) = node.team(name.as_str()) {
            tasks.spawn(sources.watch(handle.clone()));
        }
    }

    let exit = tokio::select! {
        () = signals.next() => Ok(Exit::Done),
        reason = node.failed() => {
            error!(%reason, "the node cannot go on");
            Ok(Exit::Fault)
        }
        error = node.superseded() => Err(error.into()),
    };
    // Requests for the one that goes on would reach this one for as long as it drains.
    let grace = if exit.is_ok() { DRAIN_GRACE } else { Duration::ZERO };
    notify::tell("STOPPING=1");
    info!(?grace, "drains");
    tasks.abort_all();
    let drained = async {
        node.drain(grace).await;
        if let Some(door) = door {
            door.stop(CLOSE_GRACE).await;
        }
    };
    tokio::select! {
        () = drained => {}
        // Whoever asks twice does not want to wait; what was accepted is in the journal.
        () = signals.next() => {}
    }
    if let Err(error) = bus.drain().await {
        info!(%error, "bus not drained");
    }
    exit
}

/// Listens for those who will come to the door, if there is to be one, and tells others who find the
/// data in use where this daemon can be asked.
async fn prepare(
    opened: &OpenedNode,
    listen: Option<Options>,
    holder: &mut Holder,
    args: &Serve,
) -> Result<Option<Listening>, Failure> {
    let listening = match listen {
        Some(options) => Some(door::listen(options).await?),
        None => None,
    };
    holder.listen = listening.as_ref().map(|listening| listening.addr().to_string());
    holder.nats = args.nats.url.as_deref().map(nats::without_secrets);
    opened.announce(holder)?;
    Ok(listening)
}

/// Loads all team files, and reports on all that are wrong.
fn load(args: &Serve, screen: &Screen) -> Result<Vec<Team>, Failure> {
    let mut teams: Vec<Team> = Vec::new();
    let mut reports = String::new();
    for file in &args.teams {
        match super::load(file, screen.err.paint) {
            Ok(team) => match teams.iter().find(|known| known.name == team.name) {
                Some(known) => {
                    let text = format!(
                        "{} and {} are both named {}; give one another `name`",
                        known.file.display(),
                        team.file.display(),
                        team.name
                    );
                    return Err(Failure::new(ErrorCode::ConfigInvalid, text));
                }
                None => teams.push(team),
            },
            Err(Failure::Report(report)) => reports.push_str(&report),
            Err(failure) => return Err(failure),
        }
    }
    if reports.is_empty() { Ok(teams) } else { Err(Failure::Report(reports)) }
}

/// Loads teams with what others describe of their tools, and what watches those who do.
async fn complete(
    loaded: &[Team],
    place: &Place,
    bus: (&Bus, &Subjects),
    screen: &Screen,
) -> Result<(Vec<(Name, Sourced)>, Vec<Team>), Failure> {
    let (mut watched, mut teams) = (Vec::new(), Vec::new());
    for known in loaded {
        let paint = screen.err.paint;
        let (sources, team) = super::complete(&known.file, place, Some(bus), paint).await?;
        watched.push((team.name.clone(), sources));
        teams.push(team);
    }
    Ok((watched, teams))
}

/// Reads the address to listen on; `none` opens no door.
fn listen(text: &str) -> Result<Option<SocketAddr>, Failure> {
    if text == "none" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let text = format!("--listen {text:?}: write an address like 127.0.0.1:8787, or `none`");
        Failure::new(ErrorCode::BadRequest, text)
    })
}

fn describe(out: &mut String, team: &Team, subjects: &Subjects) {
    let agents: Vec<&str> = team.agents.keys().map(AsRef::as_ref).collect();
    let subject = subjects.agent_run(&team.name, &team.entry);
    // Writing to a string does not fail.
    writeln!(out, "team {}: agents {}, asked on {subject}", team.name, agents.join(", "))
        .unwrap_or_default();
}

fn unguarded(commands: &str) -> String {
    format!(
        "warning: the HTTP door asks for no token, and these programs reach it: \
         {commands}. Such a program can approve its own calls and run agents. Give the door a token \
         with --token-file, or open none with --listen none. A program without a sandbox may read \
         the token as well: give it a sandbox.\n"
    )
}

fn ready(listen: Option<&str>, nats: Option<&str>) -> String {
    let listen = listen.map_or_else(|| "no HTTP".to_owned(), |addr| format!("http://{addr}"));
    let nats = nats.map_or_else(|| "bus in process".to_owned(), |url| format!("NATS at {url}"));
    format!("ready: {listen}, {nats}\n")
}

/// What tells the daemon to end.
struct Signals {
    term: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let of = |kind| signal(kind).map_err(Failure::of_signals);
        Ok(Self { term: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_none_is_listened_on() {
        let cases = [
            ("none", Some(None)),
            ("127.0.0.1:0", Some(Some("127.0.0.1:0"))),
            ("[::1]:8787", Some(Some("[::1]:8787"))),
            ("8787", None),
            ("localhost", None),
        ];
        for (text, expected) in cases {
            let found = listen(text).ok().map(|addr| addr.map(|addr| addr.to_string()));
            assert_eq!(found, expected.map(|addr| addr.map(str::to_owned)), "{text}");
        }
    }
}
