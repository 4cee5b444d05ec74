//! Clients that ask for runs without a pause and forget nothing that they were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use serde_json::{Value, json};
use tests::trade;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use wire::subject::RunVerb;
use wire::{Headers, Name, RunId, Subjects, header};

/// How long a client waits for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The pause before a request is made again.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a run may take, faults included.
const RUN_MAX: Duration = Duration::from_secs(600);

/// A run that has its reply.
pub(crate) struct Answered {
    pub(crate) run: RunId,
    input: String,
    pub(crate) reply: Bytes,
}

/// Clients at work.
pub(crate) struct Load {
    enough: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<Answered>>>,
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

impl Load {
    /// Has clients ask the team `trade`, each for one run after the other.
    pub(crate) fn start(bus: &Bus, clients: u32) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let count = Arc::<AtomicUsize>::default();
        let client = |client: u32| {
            let (bus, enough, count) = (bus.clone(), enough.clone(), count.clone());
            tokio::spawn(async move {
                let mut answered: Vec<Answered> = Vec::new();
                while !enough.load(Ordering::Relaxed) {
                    let number = answered.len();
                    let run = RunId::new(&format!("c{client}-{number}")).unwrap();
                    let input = format!("trade {number}");
                    // Every other client wants to know first that its run is accepted.
                    let reply = if client.is_multiple_of(2) {
                        final_reply(&bus, &run, &input).await
                    } else {
                        accepted(&bus, &run, &input).await;
                        result(&bus, &run).await
                    };
                    count.fetch_add(1, Ordering::Relaxed);
                    answered.push(Answered { run, input, reply });
                }
                answered
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { enough, count, clients }
    }

    /// Returns how many runs have their reply.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until another run has its reply, and returns how long that took.
    pub(crate) async fn serving(&self) -> Duration {
        let (began, before) = (Instant::now(), self.count());
        while self.count() == before {
            assert!(began.elapsed() < RUN_MAX, "nobody is served");
            sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    }

    /// Lets every client have the reply that it waits for, and returns all.
    pub(crate) async fn stop(self) -> Vec<Answered> {
        self.enough.store(true, Ordering::Relaxed);
        let mut answered = Vec::new();
        for client in self.clients {
            answered.extend(client.await.unwrap());
        }
        answered
    }
}

impl Answered {
    /// Asks for the same run once more.
    pub(crate) async fn ask_again(&self, bus: &Bus) -> Bytes {
        final_reply(bus, &self.run, &self.input).await
    }
}

/// Asks on a subject until an answer will do.
async fn until(
    bus: &Bus,
    subject: &str,
    headers: &Headers,
    body: &Bytes,
    will_do: impl Fn(&Value) -> bool,
) -> Bytes {
    let end = Instant::now() + RUN_MAX;
    let mut told = String::new();
    while Instant::now() < end {
        match bus.request(subject, headers.clone(), body.clone(), ANSWER_MAX).await {
            Ok(answer) => {
                let reply: Value = serde_json::from_slice(&answer.payload).unwrap();
                if will_do(&reply) {
                    return answer.payload;
                }
                told = reply.to_string();
            }
            Err(error) => told = error.to_string(),
        }
        sleep(PAUSE).await;
    }
    panic!("no answer on {subject} in {RUN_MAX:?}, the last was {told}");
}

fn body(run: &RunId, input: &str) -> Bytes {
    json!({"input": input, "run": run}).to_string().into()
}

fn agent() -> String {
    Subjects::default().agent_run(&name(trade::TEAM), &name(trade::AGENT))
}

async fn final_reply(bus: &Bus, run: &RunId, input: &str) -> Bytes {
    let is_final = |reply: &Value| reply.get("status").is_some();
    until(bus, &agent(), &Headers::new(), &body(run, input), is_final).await
}

/// Asks until the run is accepted; from then on it must not be lost.
async fn accepted(bus: &Bus, run: &RunId, input: &str) {
    let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let is_accepted = |reply: &Value| reply["status"] == "accepted";
    until(bus, &agent(), &headers, &body(run, input), is_accepted).await;
}

/// Waits for the reply of a run that was accepted.
async fn result(bus: &Bus, run: &RunId) -> Bytes {
    let subject = Subjects::default().run(&name(trade::TEAM), run, RunVerb::Result);
    let is_final = |reply: &Value| {
        assert_ne!(reply["error"]["code"], "E1004", "an accepted run is lost: {reply}");
        reply.get("status").is_some()
    };
    until(bus, &subject, &Headers::new(), &Bytes::new(), is_final).await
}
