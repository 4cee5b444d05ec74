//! The event stream of a run: whole, in the middle, of a tree, and for a slow reader.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;
use wire::{Event, EventKind, Headers, Name, SessionId};

use crate::house::{House, PATIENCE};

/// Signs of life in a row that a stream may give without telling anything, which is a minute.
const SILENCES_MAX: usize = 4;

/// One event as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) id: Option<String>,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// An event stream.
pub(crate) struct Events {
    response: Response,
    text: String,
}

impl Events {
    pub(crate) async fn open(request: RequestBuilder) -> Self {
        let response = timeout(PATIENCE, request.send()).await.unwrap().unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self { response, text: String::new() }
    }

    /// Returns the next event, or `None` at the end of the stream. One that is kept alive and tells
    /// nothing is not waited for.
    pub(crate) async fn next(&mut self) -> Option<Seen> {
        let mut silences = 0;
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let seen = parse(block);
                self.text = rest.to_owned();
                if seen.is_some() {
                    return seen;
                }
                silences += 1;
                assert!(silences <= SILENCES_MAX, "the stream tells nothing more");
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await.unwrap().unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    pub(crate) async fn rest(mut self) -> Vec<Seen> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }
}

fn parse(block: &str) -> Option<Seen> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let data: Value = serde_json::from_str(field("data: ")?).unwrap();
    let kind = data["event"].as_str().unwrap().to_owned();
    Some(Seen { id: field("id: ").map(str::to_owned), kind, data })
}

fn kinds(events: &[Seen]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).filter(|kind| *kind != "delta").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_as_it_happens_and_again_afterwards() {
    let house = House::open().await;
    let path = "/v1/teams/crew/runs/r-1/events";
    house.submit("r-1", "ask me").await;
    let mut live = Events::open(house.request(Method::GET, path)).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|event: &Seen| event.kind != "call_suspended") {
        told.push(live.next().await.unwrap());
    }
    let answer = serde_json::json!({"text": "blue"});
    assert_eq!(house.post("/v1/teams/crew/runs/r-1/answer", &answer).await.0, 200);
    told.extend(live.rest().await);
    assert_eq!(told.last().unwrap().kind, "run_ended");
    assert_eq!(told.last().unwrap().data["output"], "you said blue");

    let again = Events::open(house.request(Method::GET, path)).await.rest().await;
    let lasting: Vec<Seen> = told.into_iter().filter(|event| event.kind != "delta").collect();
    assert_eq!(again, lasting);
    assert!(again.iter().all(|event| event.id.is_some()), "{again:?}");

    for (n, event) in again.iter().enumerate() {
        let id = event.id.as_deref().unwrap();
        let request = house.request(Method::GET, path).header("Last-Event-ID", id);
        if n + 1 == again.len() {
            assert_eq!(request.send().await.unwrap().status(), 204, "nothing is left to tell");
        } else {
            let rest = Events::open(request).await.rest().await;
            assert_eq!(rest, again[n + 1..], "after {id}");
        }
    }
    let bad = house.request(Method::GET, path).header("Last-Event-ID", "x");
    assert_eq!(bad.send().await.unwrap().status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_left_in_the_middle_is_taken_up_without_gap_or_repeat() {
    let house = House::open().await;
    let path = "/v1/teams/crew/runs/r-1/events";
    house.submit("r-1", "ask me").await;
    let mut first = Events::open(house.request(Method::GET, path)).await;
    let mut told = Vec::new();
    while told.last().is_none_or(|event: &Seen| event.kind != "call_started") {
        told.push(first.next().await.unwrap());
    }
    told.retain(|event| event.kind != "delta");
    drop(first);
    let id = told.last().unwrap().id.clone().unwrap();
    let request = house.request(Method::GET, path).header("Last-Event-ID", id);
    let mut second = Events::open(request).await;
    let suspended = second.next().await.unwrap();
    assert_eq!(suspended.kind, "call_suspended");
    told.push(suspended);
    let answer = serde_json::json!({"text": "blue"});
    assert_eq!(house.post("/v1/teams/crew/runs/r-1/answer", &answer).await.0, 200);
    told.extend(second.rest().await.into_iter().filter(|event| event.kind != "delta"));
    let whole = Events::open(house.request(Method::GET, path)).await.rest().await;
    assert_eq!(told, whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_tells_of_the_runs_below() {
    let house = House::open().await;
    house.submit("r-1", "delegate this").await;
    let path = "/v1/teams/crew/runs/r-1/events";
    let tree = format!("{path}?tree=true");
    let live = Events::open(house.request(Method::GET, &tree)).await.rest().await;
    let again = Events::open(house.request(Method::GET, &tree)).await.rest().await;
    let alone = Events::open(house.request(Method::GET, path)).await.rest().await;
    for events in [&live, &again] {
        let helper = events.iter().filter(|event| event.data["agent"] == "helper");
        let helper: Vec<Seen> = helper.cloned().collect();
        assert_eq!(kinds(&helper).last(), Some(&"run_ended"), "{events:?}");
        assert!(helper.iter().all(|event| event.id.is_none()), "no place to re-attach to");
        let lead = events.iter().filter(|event| event.data["agent"] == "lead");
        let lead: Vec<Seen> = lead.cloned().collect();
        assert_eq!(kinds(&lead), kinds(&alone));
        let at = |agent: &str, kind: &str| {
            let fits = |event: &Seen| event.data["agent"] == agent && event.kind == kind;
            events.iter().position(fits).unwrap()
        };
        assert!(at("lead", "call_started") < at("helper", "run_accepted"), "{events:?}");
        assert!(at("helper", "run_ended") < at("lead", "call_ended"), "{events:?}");
    }
    assert!(alone.iter().all(|event| event.data["agent"] == "lead"));
}

// On one thread the stream takes each delta before the next is published. On more, the bus may lose
// them for it, and then it is told what the journal has instead of being cut off.
#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off() {
    let house = House::open().await;
    house.submit("r-1", "ask me").await;
    let path = "/v1/teams/crew/runs/r-1/events";
    let mut events = Events::open(house.request(Method::GET, path)).await;
    let mut last = events.next().await.unwrap();
    while last.kind != "call_suspended" {
        last = events.next().await.unwrap();
    }
    // Far more than sockets and queues hold.
    let team = Name::new("crew").unwrap();
    let subject = house.node.team("crew").unwrap().subjects().clone();
    let subject = subject.session_events(&team, &SessionId::new("r-1").unwrap());
    let mut delta: Event = serde_json::from_value(last.data).unwrap();
    delta.id = None;
    let role = wire::ModelRole::Actor;
    delta.kind = EventKind::Delta { step: 1, role, text: "d".repeat(30_000) };
    let delta = bytes::Bytes::from(serde_json::to_vec(&delta).unwrap());
    for _ in 0..2_000 {
        house.node.bus().publish(&subject, Headers::new(), delta.clone()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let told = events.rest().await;
    assert!(told.len() < 2_000, "{}", told.len());
    assert!(told.iter().all(|event| event.kind == "delta"), "cut off before the end of the run");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_and_end_when_the_doors_close() {
    let house = House::open().await;
    house.submit("r-1", "ask me").await;
    let path = "/v1/teams/crew/runs/r-1/events";
    let mut open = Vec::new();
    for _ in 0..gateway::STREAMS_MAX {
        open.push(Events::open(house.request(Method::GET, path)).await);
    }
    let refused = house.request(Method::GET, path).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    drop(open.pop());
    // The place is free when the server has seen that its reader went.
    let again = async {
        while house.request(Method::GET, path).send().await.unwrap().status() != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, again).await.unwrap();
    house.gateway.stop(PATIENCE).await;
    for events in open {
        assert_ne!(kinds(&events.rest().await).last(), Some(&"run_ended"));
    }
}

#[tokio::test]
async fn an_end_that_is_too_large_for_the_bus_is_told_all_the_same() {
    let house = House::open().await;
    // With so long an id the model's reply fits into a message, and the event does not.
    let run = "r".repeat(64);
    house.submit(&run, "ask me").await;
    house.wait_for(&run, "call_suspended").await;
    let path = format!("/v1/teams/crew/runs/{run}/events");
    let mut events = Events::open(house.request(Method::GET, &path)).await;
    while events.next().await.unwrap().kind != "call_suspended" {}
    let answer = serde_json::json!({"text": "say much"});
    house.post(&format!("/v1/teams/crew/runs/{run}/answer"), &answer).await;
    let (_, reply) = house.result(&run).await;
    assert_eq!(reply["status"], "completed", "{reply}");
    // Only for as long as it takes to make the stream look: what it looks at is told by a thread, for
    // which a clock that stands still does not wait.
    tokio::time::pause();
    tokio::time::advance(gateway::KEEP_ALIVE).await;
    tokio::time::resume();
    let told = events.rest().await;
    assert_eq!(told.last().unwrap().kind, "run_ended", "{told:?}");
    assert_eq!(told.last().unwrap().data["output"], reply["output"]);
}
