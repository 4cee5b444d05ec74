//! `callboard ask`: one message to a team of a running daemon, over HTTP or NATS.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use gateway::view::TeamList;
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use wire::run::{BODY_BYTES_MAX, INPUT_BYTES_MAX, RunState, RunView};
use wire::subject::{PREFIX_DEFAULT, RunVerb};
use wire::{
    ErrorCode, Headers, Name, OpenCall, OpenKind, RunId, RunReply, RunRequest, Subjects, WireError,
    header,
};

use super::calls::way;
use super::nats;
use super::run::{message, show};
use crate::args::Ask;
use crate::client::{self, Client, LOOKUP_TIMEOUT, URL_DEFAULT};
use crate::failure::{Exit, Failure};
use crate::place::Place;
use crate::screen::{self, Screen};
use crate::text;

/// How long a reply is waited for unless the request says otherwise; longer than teams let a run
/// take by default.
const REPLY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(3_600);

/// How long past the time of a run its reply is waited for.
const REPLY_GRACE: Duration = Duration::from_secs(10);

/// What is needed of a team's description as a NATS service.
#[derive(Deserialize)]
struct ServiceView {
    metadata: BTreeMap<String, String>,
}

/// The least time that a request says is left for a run when it is made again: enough for the reply
/// of one that has ended.
const REMAINING_MIN: Duration = Duration::from_secs(1);

/// How soon it is looked whether the run waits for a person: soon enough for one who is there. It is
/// also how long the reply of a run that has ended may be on its way.
const LOOK_PAUSE_MIN: Duration = Duration::from_secs(1);

/// How long it takes at most until it is looked again: a daemon has work with each look, and the
/// longer a run takes, the less it matters when one hears of it.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(15);

/// How many looks in a row that find no such run say that the request for it was lost: at the first
/// one it may still be on its way to its session.
const UNKNOWN_LOOKS: u32 = 2;

/// Where the daemon is asked, with the options that lead other commands there.
enum Door {
    Http(Client, String),
    Nats(Bus, Subjects, String),
}

/// A run that is asked for.
struct Asking {
    door: Door,
    team: Name,
    run: RunId,
    /// Whether the run may have been begun, whatever is said of a request for it: an earlier one may
    /// have been heard, or there is a reply that cannot be had here.
    may_be_begun: AtomicBool,
    /// Says that the request is to be sent again, since the daemon knows of no such run.
    again: Notify,
}

/// Asks a running daemon, and prints the answer.
pub(crate) async fn ask(args: &Ask, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let run = args.run.clone().unwrap_or_else(RunId::fresh);
    let request = RunRequest {
        input: message(&args.message)?,
        session: args.session.clone(),
        run: Some(run.clone()),
        timeout_ms: args.timeout.map(|seconds| seconds.saturating_mul(1000)),
        budget: None,
        parent: None,
    };
    let (door, team) = (Door::find(args, place).await?, args.whom.team.clone());
    let (may_be_begun, again) = (AtomicBool::new(false), Notify::new());
    let asking = Asking { door, team, run, may_be_begun, again };
    let agent = if let Some(agent) = &args.whom.agent {
        agent.clone()
    } else {
        let entry = asking.door.entry(&asking.team).await;
        entry.map_err(|failure| mistyped(failure, args, place))?
    };
    let reply = tokio::select! {
        reply = asking.ask(&agent, &request) => reply,
        reply = asking.watch() => reply,
        pressed = tokio::signal::ctrl_c() => {
            pressed.unwrap_or_default();
            Err(Failure::new(ErrorCode::Cancelled, "stopped waiting"))
        }
    };
    match reply.map_err(|failure| mistyped(failure, args, place)) {
        Ok(reply) => show(&reply, args.json, screen),
        // Who takes it for failed and asks anew under another id may have the work done twice.
        Err(Failure::Error(error)) if asking.is_open(error.code) => {
            screen::note(&asking.named(&error).render(screen.err.paint));
            Ok(Exit::Unavailable)
        }
        Err(failure) => Err(failure),
    }
}

/// Tells whether a failure says nothing of what became of a run.
const fn leaves_open(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::DeadlineExceeded
            | ErrorCode::Cancelled
            | ErrorCode::NatsUnavailable
            | ErrorCode::Internal
    )
}

/// Names the teams of the data directory, where no daemon was found for the one that was asked.
fn mistyped(failure: Failure, args: &Ask, place: &Place) -> Failure {
    let Failure::Error(error) = failure else { return failure };
    let is_named = args.url_http.is_some() || args.nats.url.is_some();
    // Who is there and takes no work says when to come again.
    if is_named || error.code != ErrorCode::Unavailable || error.retry_after_ms.is_some() {
        return error.into();
    }
    let teams = place.teams(None).unwrap_or_default();
    let (served, idle): (Vec<&Name>, Vec<&Name>) =
        teams.iter().partition(|team| place.holder(team).is_ok_and(|holder| holder.is_some()));
    let named = |what: &str, teams: &[&Name]| {
        let teams: Vec<&str> = teams.iter().map(|team| team.as_str()).collect();
        let dir = place.dir().display();
        (!teams.is_empty()).then(|| format!("; {what} in {dir}: {}", teams.join(", ")))
    };
    let served = named("served from data", &served);
    let idle = named("served by nobody, with data", &idle);
    let message = [Some(error.message), served, idle].into_iter().flatten().collect();
    WireError { message, ..error }.into()
}

impl Asking {
    /// Tells whether a failure leaves it open what became of the run.
    fn is_open(&self, code: ErrorCode) -> bool {
        let is_unheard = is_passing(code) || code == ErrorCode::TooLarge;
        leaves_open(code) || (is_unheard && self.may_be_begun.load(Ordering::Relaxed))
    }

    async fn ask(&self, agent: &Name, request: &RunRequest) -> Result<RunReply, Failure> {
        let Self { door, team, .. } = self;
        let limit = request.timeout_ms.map_or(REPLY_TIMEOUT_DEFAULT, Duration::from_millis);
        let limit = limit + REPLY_GRACE;
        match door {
            Door::Http(client, _) => {
                client.post(&format!("/v1/teams/{team}/agents/{agent}/runs"), request, limit).await
            }
            Door::Nats(bus, subjects, _) => {
                let subject = subjects.agent_run(team, agent);
                self.ask_over_nats(bus, &subject, request, limit).await
            }
        }
    }

    /// Asks for the run until there is its reply, again when the connection was lost meanwhile and
    /// made anew, or when the daemon was seen not to know the run: the request or its reply may be
    /// gone. The run has an id, so it is begun once.
    async fn ask_over_nats(
        &self,
        bus: &Bus,
        subject: &str,
        request: &RunRequest,
        limit: Duration,
    ) -> Result<RunReply, Failure> {
        let body = client::encode(request)?;
        let fits = request.input.len() <= INPUT_BYTES_MAX && body.len() <= BODY_BYTES_MAX;
        let end = Instant::now() + limit;
        let mut is_repeated = false;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // The node ends the run when this time is over: that is for whoever asks to say, since a
            // team may let its runs take longer than a reply is waited for here.
            let headers = request.timeout_ms.map_or_else(Headers::new, |ms| {
                let remaining = left.saturating_sub(REPLY_GRACE).max(REMAINING_MIN);
                let remaining = u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX);
                let ms = if is_repeated { ms.min(remaining) } else { ms };
                Headers::new().with(header::REMAINING_MS, ms)
            });
            let wait = bus::Wait::from(left).with_grace(REPLY_GRACE);
            let mended = bus.mended();
            let lost = async {
                tokio::select! {
                    () = mended => {}
                    () = self.again.notified() => {}
                }
            };
            let answer = tokio::select! {
                biased;
                answer = bus.request(subject, headers, body.clone(), wait) => answer,
                () = lost => {
                    is_repeated = true;
                    self.may_be_begun.store(true, Ordering::Relaxed);
                    continue;
                }
            };
            let is_answered = answer.is_ok();
            let reply =
                answer.map_err(Failure::from).and_then(|answer| client::decode(&answer.payload));
            match reply {
                // A request that is none too large is answered so for the sake of the reply.
                Err(Failure::Error(error))
                    if is_answered && fits && error.code == ErrorCode::TooLarge =>
                {
                    self.may_be_begun.store(true, Ordering::Relaxed);
                    return Err(error.into());
                }
                // The daemon may take longer than we to come back, or come back later.
                Err(Failure::Error(error))
                    if is_repeated
                        && error.code != ErrorCode::DeadlineExceeded
                        && is_passing(error.code)
                        && Instant::now() + LOOK_PAUSE_MIN < end =>
                {
                    sleep(LOOK_PAUSE_MIN).await;
                }
                reply => return reply,
            }
        }
    }

    /// Asks for the reply of a run that has ended. Returns none if it cannot be had at present.
    async fn result(&self) -> Option<Result<RunReply, Failure>> {
        let Self { door, team, run, .. } = self;
        let reply = match door {
            Door::Http(client, _) => {
                client.get(&format!("/v1/teams/{team}/runs/{run}/result"), &[]).await
            }
            Door::Nats(bus, subjects, _) => {
                let subject = subjects.run(team, run, RunVerb::Result);
                let asked = bus.request(&subject, Headers::new(), Bytes::new(), LOOKUP_TIMEOUT);
                match asked.await {
                    Ok(answer) => client::decode(&answer.payload),
                    Err(error) => Err(error.into()),
                }
            }
        };
        match reply {
            Err(Failure::Error(error)) if is_passing(error.code) => None,
            reply => Some(reply),
        }
    }

    /// Looks where the run stands.
    async fn look(&self) -> Result<RunView, Failure> {
        let Self { door, team, run, .. } = self;
        match door {
            Door::Http(client, _) => client.get(&format!("/v1/teams/{team}/runs/{run}"), &[]).await,
            Door::Nats(bus, subjects, _) => {
                let subject = subjects.run(team, run, RunVerb::Status);
                let look = bus.request(&subject, Headers::new(), Bytes::new(), LOOKUP_TIMEOUT);
                client::decode(&look.await?.payload)
            }
        }
    }

    /// Tells on stderr of each call for which a person is waited for. Returns the reply of a run that
    /// was seen to have ended, if it does not come by itself: it may be lost with a connection or
    /// with the daemon that was asked.
    async fn watch(&self) -> Result<RunReply, Failure> {
        let mut pause = LOOK_PAUSE_MIN;
        let mut told: Vec<OpenCall> = Vec::new();
        let mut has_ended = false;
        let mut unknown = 0;
        loop {
            sleep(pause).await;
            pause = (pause + pause / 4).min(LOOK_PAUSE_MAX);
            if has_ended {
                match self.result().await {
                    Some(reply) => return reply,
                    None => continue,
                }
            }
            let view = match self.look().await {
                Ok(view) => view,
                // Whoever answers the request says what is wrong, if something else is.
                Err(failure) => {
                    let is_unknown = matches!(&failure, Failure::Error(error)
                        if error.code == ErrorCode::UnknownRun);
                    unknown = if is_unknown { unknown + 1 } else { 0 };
                    if unknown == UNKNOWN_LOOKS {
                        unknown = 0;
                        self.again.notify_one();
                    }
                    continue;
                }
            };
            unknown = 0;
            for open in view.waiting.iter().filter(|open| !told.contains(open)) {
                screen::note(&self.waits(open));
            }
            if view.waiting != told {
                pause = LOOK_PAUSE_MIN;
                told = view.waiting;
            }
            if matches!(view.state, RunState::Ended { .. }) {
                self.may_be_begun.store(true, Ordering::Relaxed);
                (has_ended, pause) = (true, LOOK_PAUSE_MIN);
            }
        }
    }

    /// Says what a person is waited for, and how to decide about it.
    fn waits(&self, open: &OpenCall) -> String {
        let OpenCall { agent, run, kind, question, .. } = open;
        let (what, text) = match kind {
            OpenKind::Question => ("an answer", text::one_line(question)),
            OpenKind::Approval => ("leave", text::visible(question)),
            OpenKind::Unknown => ("word of what came of a call", text::visible(question)),
        };
        let way = match &self.door {
            Door::Nats(_, subjects, _) if *kind == OpenKind::Question && open.form.is_none() => {
                let subject = subjects.run(&self.team, run, RunVerb::Answer);
                format!("{{\"text\":\"..\",\"call\":\"{}\"}} on {subject}", open.call)
            }
            Door::Http(_, options) | Door::Nats(_, _, options) => way(open) + options,
        };
        format!("{agent} waits for {what}: {text}\n  {way}\n")
    }

    /// Names the run in a failure that tells nothing of what became of it.
    fn named(&self, error: &WireError) -> Failure {
        let run = &self.run;
        let end = match &self.door {
            Door::Http(_, options) => format!("`callboard cancel {run}{options}`"),
            Door::Nats(_, subjects, _) => {
                format!("a request on {}", subjects.run(&self.team, run, RunVerb::Cancel))
            }
        };
        let message = format!(
            "{}\nrun {run} may go on: the same command with `--run {run}` asks for its reply, and \
             {end} ends it",
            error.message
        );
        Failure::new(error.code, message)
    }
}

impl Door {
    async fn find(args: &Ask, place: &Place) -> Result<Self, Failure> {
        let team = &args.whom.team;
        if let Some(url) = &args.url_http {
            // A daemon that is named by its URL is meant, also where `CALLBOARD_NATS` is set.
            return Ok(Self::Http(Client::new(url, place.token()?)?, at_url(team, url)));
        }
        if let (Some(url), Some(options)) = (&args.nats.url, nats::options(&args.nats)?) {
            let url = nats::without_secrets(url);
            let prefix = match args.nats.subject_prefix.as_str() {
                PREFIX_DEFAULT => String::new(),
                prefix => format!(" --subject-prefix {prefix}"),
            };
            let more = format!(" --team {team} --nats {url}{prefix}");
            let bus = Bus::connect(options).await?;
            return Ok(Self::Nats(bus, nats::subjects(&args.nats)?, more));
        }
        Ok(match Client::of_holder(place, team)? {
            Some(client) => Self::Http(client, format!(" --team {team}{}", place.option())),
            None => {
                Self::Http(Client::new(URL_DEFAULT, place.token()?)?, at_url(team, URL_DEFAULT))
            }
        })
    }

    /// Asks for the agent of a team that is asked unless another is named.
    async fn entry(&self, team: &Name) -> Result<Name, Failure> {
        match self {
            Self::Http(client, _) => entry_over_http(client, team).await,
            Self::Nats(bus, ..) => entry_over_nats(bus, team).await,
        }
    }
}

/// Tells whether the same request may be answered otherwise in a moment.
const fn is_passing(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Unavailable
            | ErrorCode::NatsUnavailable
            | ErrorCode::DeadlineExceeded
            | ErrorCode::Overloaded
    )
}

/// Returns the options that lead other commands to a daemon by its address.
fn at_url(team: &Name, url: &str) -> String {
    format!(" --team {team} --url {}", nats::without_secrets(url))
}

async fn entry_over_http(client: &Client, team: &Name) -> Result<Name, Failure> {
    let known: TeamList = client.get("/v1/teams", &[]).await?;
    let found = known.teams.iter().find(|known| known.name == *team);
    found.map(|found| found.entry.clone()).ok_or_else(|| {
        let names: Vec<&str> = known.teams.iter().map(|team| team.name.as_str()).collect();
        let text = format!("no team {team} is served; there is {}", names.join(", "));
        Failure::new(ErrorCode::UnknownAgent, text)
    })
}

/// Asks the service of a team for the agent that is asked unless another is named.
async fn entry_over_nats(bus: &Bus, team: &Name) -> Result<Name, Failure> {
    let subject = format!("$SRV.INFO.callboard-{team}");
    let answer = bus.request(&subject, Headers::new(), Bytes::new(), LOOKUP_TIMEOUT).await?;
    let service: ServiceView = client::decode(&answer.payload)?;
    let entry = service.metadata.get("entry").and_then(|entry| Name::new(entry).ok());
    entry.ok_or_else(|| {
        let text = format!("team {team} does not say whom to ask; write {team}/AGENT");
        Failure::new(ErrorCode::UnknownAgent, text)
    })
}

#[cfg(test)]
mod tests;
