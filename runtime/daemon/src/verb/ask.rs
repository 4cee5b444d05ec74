//! `callboard ask`: one message to a team of a running daemon, over HTTP or NATS.

use std::collections::BTreeMap;
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use gateway::view::TeamList;
use serde::Deserialize;
use wire::{ErrorCode, Headers, Name, RunReply, RunRequest, header};

use super::nats;
use super::run::{message, show};
use crate::args::Ask;
use crate::client::{self, Client, LOOKUP_TIMEOUT, URL_DEFAULT};
use crate::failure::{Exit, Failure};
use crate::place::Place;
use crate::screen::Screen;

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

/// Asks a running daemon, and prints the answer.
pub(crate) async fn ask(args: &Ask, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let request = RunRequest {
        input: message(&args.message)?,
        session: args.session.clone(),
        run: args.run.clone(),
        timeout_ms: args.timeout.map(|seconds| seconds.saturating_mul(1000)),
        budget: None,
        parent: None,
    };
    let limit = args.timeout.map_or(REPLY_TIMEOUT_DEFAULT, Duration::from_secs);
    // A daemon that is named by its URL is meant, also where `CALLBOARD_NATS` is set.
    let options = if args.url_http.is_some() { None } else { nats::options(&args.nats)? };
    let reply = match options {
        Some(options) => over_nats(args, options, &request, limit).await?,
        None => over_http(args, place, &request, limit).await?,
    };
    show(&reply, args.json, screen)
}

async fn over_http(
    args: &Ask,
    place: &Place,
    request: &RunRequest,
    limit: Duration,
) -> Result<RunReply, Failure> {
    let team = &args.whom.team;
    let client = match &args.url_http {
        Some(url) => Client::new(url, place.token()?)?,
        None => match Client::of_holder(place, team)? {
            Some(client) => client,
            None => Client::new(URL_DEFAULT, place.token()?)?,
        },
    };
    let agent = match &args.whom.agent {
        Some(agent) => agent.clone(),
        None => entry_over_http(&client, team).await?,
    };
    let path = format!("/v1/teams/{team}/agents/{agent}/runs");
    client.post(&path, request, limit + REPLY_GRACE).await
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

async fn over_nats(
    args: &Ask,
    options: bus::NatsOptions,
    request: &RunRequest,
    limit: Duration,
) -> Result<RunReply, Failure> {
    let bus = Bus::connect(options).await?;
    let subjects = nats::subjects(&args.nats)?;
    let team = &args.whom.team;
    let agent = match &args.whom.agent {
        Some(agent) => agent.clone(),
        None => entry_over_nats(&bus, team).await?,
    };
    // The node ends the run when this time is over: that is for whoever asks to say, since a team
    // may let its runs take longer than a reply is waited for here.
    let headers = match request.timeout_ms {
        Some(ms) => Headers::new().with(header::REMAINING_MS, ms),
        None => Headers::new(),
    };
    let body = client::encode(request)?;
    let subject = subjects.agent_run(team, &agent);
    let answer = bus.request(&subject, headers, body, limit + REPLY_GRACE).await?;
    client::decode(&answer.payload)
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
