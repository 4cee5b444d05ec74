//! `callboard run`: one message to a team, on a node with the bus inside the process.

mod asking;
mod said;

use std::io::Read as _;
use std::time::Duration;

use bus::Bus;
use journal::Holder;
use node::{Node, NodeOptions, RESERVE_BYTES_DEFAULT};
use wire::run::INPUT_BYTES_MAX;
use wire::{
    ErrorCode, Name, OpenCall, RunId, RunReply, RunRequest, RunStatus, Subjects, WireError,
};

use super::calls::way;
use crate::args::Run;
use crate::failure::{Exit, Failure};
use crate::place::{Place, holder};
use crate::screen::{self, Screen};
use crate::text;
use asking::{Asking, Outcome};

/// How long the node has to close at the end.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// Asks the team of a file, and prints its answer.
pub(crate) async fn run(args: &Run, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let (_, team) = super::complete(&args.team, place, None, screen.err.paint).await?;
    let plan = super::tools::agent(&team, args.agent.as_ref().unwrap_or(&team.entry))?.clone();
    let input = message(&args.message)?;
    let bus = Bus::local();
    let options = NodeOptions {
        data: place.dir().to_owned(),
        holder: holder("run"),
        subjects: Subjects::default(),
        reserve_bytes: RESERVE_BYTES_DEFAULT,
    };
    let name = team.name.clone();
    let opened = Node::open(vec![team], bus.clone(), options).await;
    let mut opened = opened.map_err(|error| at_holder(error.into(), &name, args, place))?;
    // They may take long, and would be cut when this one run is over.
    let left = opened.leave_unfinished(args.session.as_ref());
    if left > 0 {
        screen::note(&left_alone(left, args, place));
    }
    let node = opened.start().await?;
    let request = RunRequest {
        input,
        session: args.session.clone(),
        run: Some(RunId::fresh()),
        timeout_ms: args.timeout.map(|seconds| seconds.saturating_mul(1000)),
        budget: None,
        parent: None,
    };
    let began = node::now();
    let asked = Asking::begin(bus, plan, request, *screen).await;
    let reply = match asked {
        Ok(asking) => asking.watch(&node).await,
        Err(failure) => Err(failure),
    };
    node.drain(DRAIN_GRACE).await;
    let reply = match reply? {
        Outcome::Reply(reply) => reply,
        Outcome::Open(calls) => {
            screen::note(&left_open(&calls, args, place));
            return Ok(Exit::Unavailable);
        }
    };
    if screen.err.is_terminal || !args.json {
        screen::note(&closing(&reply, node::now().since(began), place, screen));
    }
    show(&reply, args.json, screen)
}

/// Says how to ask the daemon that has the data of the team, if there is one.
fn at_holder(failure: Failure, team: &Name, args: &Run, place: &Place) -> Failure {
    let Failure::Error(error) = failure else { return failure };
    let holder = place.holder(team).ok().flatten().filter(|_| error.code == ErrorCode::DataInUse);
    let door = match holder {
        Some(Holder { listen: Some(_), .. }) => place.option(),
        Some(Holder { nats: Some(url), .. }) => format!(" --nats {url}"),
        Some(_) | None => return error.into(),
    };
    let agent = args.agent.as_ref().map(|agent| format!("/{agent}")).unwrap_or_default();
    let message = format!("{}; ask it: `callboard ask{door} {team}{agent} ..`", error.message);
    WireError { message, ..error }.into()
}

/// Says how runs that are unfinished go on.
fn left_alone(runs: usize, args: &Run, place: &Place) -> String {
    let stay = if runs == 1 { "run stays as it is" } else { "runs stay as they are" };
    let (team, data) = (args.team.display(), place.option());
    format!("{runs} unfinished {stay}; `callboard serve {team}{data}` goes on with what is left\n")
}

/// Says what a run waits for, of whom nobody can be asked here.
fn left_open(calls: &[OpenCall], args: &Run, place: &Place) -> String {
    let (team, data) = (args.team.display(), place.option());
    let ways = calls.iter().map(|open| format!("  {}{data}\n", way(open)));
    format!(
        "stdin is at its end, so the run stays open; start `callboard serve {team}{data}`, and \
         decide there:\n{}",
        ways.collect::<String>()
    )
}

/// Prints a reply and tells how it ended.
pub(crate) fn show(reply: &RunReply, json: bool, screen: &Screen) -> Result<Exit, Failure> {
    if json {
        screen::json(reply)?;
    }
    match (&reply.error, reply.status) {
        (_, RunStatus::Completed) => {
            if !json {
                screen.reply(&reply.output)?;
            }
            Ok(Exit::Done)
        }
        (error, _) => {
            if let Some(error) = error {
                screen::note(&Failure::from(error.clone()).render(screen.err.paint));
            }
            if !json && !reply.output.trim().is_empty() {
                let last = text::harmless(reply.output.trim_end());
                screen::note(&format!("It said last:\n{last}\n"));
            }
            Ok(Exit::Failed)
        }
    }
}

/// Says how a run went, and where to see more of it.
fn closing(reply: &RunReply, time: Duration, place: &Place, screen: &Screen) -> String {
    let paint = screen.err.paint;
    let status = match reply.status {
        RunStatus::Completed => paint.green("completed"),
        RunStatus::Failed | RunStatus::Unknown => paint.red(reply.status.as_str()),
        RunStatus::Partial
        | RunStatus::Refused
        | RunStatus::Cancelled
        | RunStatus::Budget
        | RunStatus::Deadline => paint.yellow(reply.status.as_str()),
    };
    let tokens = text::used(reply.usage);
    let id: String = reply.trace_id.chars().take(8).collect();
    let rest = format!(
        "in {} · {tokens} · callboard trace{} {id}\n",
        text::duration(time),
        place.option()
    );
    format!("{status} {}", paint.dim(&rest))
}

/// Joins the words of a message; a single `-` stands for stdin.
pub(crate) fn message(words: &[String]) -> Result<String, Failure> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let limit = u64::try_from(INPUT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let unread = |why: &dyn std::fmt::Display| {
        Failure::new(ErrorCode::BadRequest, format!("read the message from stdin: {why}"))
    };
    std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(|error| unread(&error))?;
    if bytes.len() > INPUT_BYTES_MAX {
        let text = format!("the message on stdin has more than {INPUT_BYTES_MAX} bytes");
        return Err(Failure::new(ErrorCode::TooLarge, text));
    }
    String::from_utf8(bytes).map_err(|error| unread(&error.utf8_error()))
}
