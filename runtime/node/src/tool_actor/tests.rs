//! Tools that panic, hang and take their time to stop, called from another node.

mod asking;

use std::path::Path;

use agents_core::effect::{CallEffect, Earlier};
use bus::Bus;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use wire::plan::{Labels, Offer, Target};
use wire::question::Progress;
use wire::run::Budget;
use wire::{CallKey, EffectClass, RunId, SessionId, ToolSpec};

use super::*;
use crate::perform;
use crate::testing;
use crate::worklist;

/// The longest wait for what has to happen at once, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A tool that does what its argument says and tells of it.
struct Probe {
    tell: UnboundedSender<String>,
    grace: Duration,
}

/// Tells of the end of a future, however it ends.
struct OnDrop<'a>(&'a UnboundedSender<String>);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        drop(self.0.send("dropped".to_owned()));
    }
}

impl Tool for Probe {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        let task = arguments["do"].as_str().unwrap();
        assert_ne!(task, "panic at once");
        Box::pin(async move {
            drop(self.tell.send(format!("{task} begins")));
            let _ends = OnDrop(&self.tell);
            match task {
                "panic" => panic!("out of paper"),
                "hang" => std::future::pending::<()>().await,
                "tidy up" => {
                    context.stop.cancelled().await;
                    tokio::task::yield_now().await;
                    drop(self.tell.send("tidied up".to_owned()));
                }
                _ => self.talk(context, task).await,
            }
            ToolReply::settled(CallOutcome::text(task))
        })
    }

    fn stop_grace(&self) -> Duration {
        self.grace
    }
}

impl Probe {
    /// Says something before the call is over.
    async fn talk(&self, context: &ToolContext, task: &str) {
        let interim = &context.interim;
        let ask = || interim.ask("Which?".to_owned(), json!({}));
        match task {
            "ask" => {
                let said = serde_json::to_string(&ask().await).unwrap();
                drop(self.tell.send(said));
            }
            "ask twice" => drop(tokio::join!(ask(), ask())),
            "ask and hang" => {
                drop(ask().await);
                std::future::pending::<()>().await;
            }
            "ask in passing" => {
                assert!(timeout(Duration::from_secs(1), ask()).await.is_err());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            "ask and end" => assert!(timeout(Duration::from_secs(1), ask()).await.is_err()),
            "report" => {
                for step in 1..=100_u8 {
                    let total = Some(100.0);
                    interim.progress(Progress { done: f64::from(step), total, text: None });
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            _ => {}
        }
    }
}

/// A node that serves the tool and another that calls it.
struct House {
    caller: Arc<TeamContext>,
    worker: Arc<TeamContext>,
    heard: Mutex<UnboundedReceiver<String>>,
    _actor: ActorRef<ToolMsg>,
    _stops: Vec<feed::Feed>,
}

impl House {
    async fn start(data: &Path, grace: Duration) -> Self {
        Self::labelled(data, grace, Labels::NONE).await
    }

    async fn labelled(data: &Path, grace: Duration, labels: Labels) -> Self {
        let bus = Bus::local();
        let caller = testing::open_on(&data.join("caller"), bus.clone());
        let worker = testing::open_on(&data.join("worker"), bus);
        let (tell, heard) = mpsc::unbounded_channel();
        let name = Name::new("probe").unwrap();
        let parameters = json!({"type": "object", "properties": {"do": {"type": "string"}}});
        let spec = ToolSpec { name: name.clone(), description: String::new(), parameters };
        let args = ToolArgs {
            context: worker.clone(),
            name: name.clone(),
            definition: Definition {
                tool: Arc::new(Probe { tell, grace }),
                offer: Offer {
                    question_timeout_ms: Some(60_000),
                    labels,
                    ..Offer::new(spec, Target::Tool, EffectClass::Read, 3_600_000)
                },
                shown_bytes_max: None,
            },
            concurrency: 1,
        };
        let (actor, _) = ToolActor::spawn(None, ToolActor, args).await.unwrap();
        let (subjects, team) = (&worker.subjects, &worker.team.name);
        let stops = worklist::listen(&worker.bus, subjects, team, &worker.work).await.unwrap();
        Self { caller, worker, heard: Mutex::new(heard), _actor: actor, _stops: stops }
    }

    fn call(&self, task: &str, ms: u64) -> JoinHandle<ToolReply> {
        let (caller, session) = (self.caller.clone(), SessionId::new("s").unwrap());
        let call = self.effect(task, ms);
        tokio::spawn(async move {
            let report = |input| panic!("{input:?}");
            perform::converse(&caller, &session, &call, |_| panic!("it asks"), report).await
        })
    }

    fn effect(&self, task: &str, ms: u64) -> CallEffect {
        let run = RunId::new("r").unwrap();
        CallEffect {
            internal: false,
            agent: self.caller.team.entry.clone(),
            call: CallKey::new("c").unwrap(),
            name: Name::new("probe").unwrap(),
            target: Target::Tool,
            arguments: json!({"do": task}).into(),
            task: None,
            deadline: clock::now().plus_ms(ms),
            effect: EffectClass::Read,
            attempt: 1,
            earlier: Earlier::Nothing,
            budget: Budget::default(),
            depth: 1,
            trace: TraceContext::root(&self.caller.team.name, &run),
            run,
            tainted: false,
            may_go_out: true,
            reader: None,
        }
    }

    async fn hears(&self, expected: &str) {
        let mut heard = self.heard.lock().await;
        let said = timeout(SOON, heard.recv()).await;
        assert_eq!(said.unwrap_or_else(|_| panic!("nobody says {expected:?}")).unwrap(), expected);
    }

    async fn rests(&self) {
        let rest = async {
            while self.worker.work.len() > 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, rest).await.expect("nothing is under way");
    }
}

fn told(reply: &ToolReply) -> String {
    match reply {
        ToolReply::Settled { outcome: CallOutcome::Ok { .. }, .. } => "ok".to_owned(),
        ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } => error.code.to_string(),
        ToolReply::Settled { outcome, .. } => outcome.as_str().to_owned(),
        ToolReply::Suspended { question } => format!("asks {question}"),
        ToolReply::Asks { question } => format!("asks {}", question.text),
        ToolReply::Lost { error, .. } => format!("lost, {}", error.code),
    }
}

#[tokio::test]
async fn a_tool_that_panics_answers_at_once_and_serves_on() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    for (task, expected) in
        [("panic", "lost, E5007"), ("panic at once", "lost, E5007"), ("echo", "ok")]
    {
        let reply = timeout(SOON, house.call(task, 3_600_000)).await.expect("an answer").unwrap();
        assert_eq!(told(&reply), expected, "{task}: {reply:?}");
    }
    house.rests().await;
}

#[tokio::test]
async fn what_a_tool_says_is_as_untrusted_as_the_tool_whether_it_answers_or_not() {
    for untrusted in [false, true] {
        let data = tempfile::tempdir().unwrap();
        let labels = Labels { untrusted, ..Labels::NONE };
        let house = House::labelled(data.path(), Duration::ZERO, labels).await;
        for (task, expected) in [("echo", "ok"), ("panic", "lost, E5007")] {
            let reply = timeout(SOON, house.call(task, 3_600_000)).await.expect("an answer");
            let reply = reply.unwrap();
            assert_eq!(told(&reply), expected, "{reply:?}");
            let (ToolReply::Settled { tainted, .. } | ToolReply::Lost { tainted, .. }) = reply
            else {
                panic!("{reply:?}")
            };
            assert_eq!(tainted, untrusted, "{task}");
        }
        house.rests().await;
    }
}

#[tokio::test]
async fn arguments_are_judged_unless_the_call_was_made_before() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let CallEffect { call, name, run, agent, deadline, .. } = house.effect("echo", 3_600_000);
    let wrong = "E3002 /do: value is not of type \"string\"";
    let unknown = "probe does not know what came of a call before its restart";
    for (task, rejoin, expected) in [
        (json!(5), false, wrong.to_owned()),
        (json!("echo"), false, "ok".to_owned()),
        (json!(5), true, format!("lost, {unknown}")),
        (json!("echo"), true, format!("lost, {unknown}")),
    ] {
        let body = ToolRequest {
            call: call.clone(),
            arguments: json!({"do": task}).into(),
            session: SessionId::new("s").unwrap(),
            run: run.clone(),
            agent: agent.clone(),
            budget: None,
            rejoin,
            tainted: false,
            depth: 0,
            reader: None,
        };
        let asking = perform::Asking {
            subject: house.caller.subjects.tool(&house.caller.team.name, &name),
            headers: wire::Headers::new(),
            deadline,
            grace: Duration::ZERO,
            stop: None,
            repeats_max: 0,
            patient: true,
            is_long: false,
        };
        let asked = perform::request::<ToolReply>(&house.caller, &asking, Arc::new(body)).await;
        let found = match asked {
            Ok(ToolReply::Lost { error, .. }) => format!("lost, {}", error.message),
            Ok(reply) => told(&reply),
            Err(missed) => {
                let error = missed.into_error();
                format!("{} {}", error.code, error.message)
            }
        };
        assert_eq!(found, expected, "{task}, rejoined: {rejoin}");
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_dropped_on_the_other_node() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let call = house.call("hang", 3_600_000);
    house.hears("hang begins").await;
    // The one behind it waits for the only place.
    let behind = house.call("hang", 3_600_000);
    let two = async {
        while house.worker.work.len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, two).await.expect("it waits");
    behind.abort();
    call.abort();
    house.hears("dropped").await;
    house.rests().await;
    // The stops were for those attempts alone, so the call can be made again under its key.
    let again = house.call("echo", 3_600_000).await.unwrap();
    assert_eq!(told(&again), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_time() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let call = house.call("hang", 60_000);
    house.hears("hang begins").await;
    let waiting = house.call("echo", 1000);
    // One that never began has not taken effect, whatever its class.
    let unrun = waiting.await.unwrap();
    assert_eq!(told(&unrun), "E1007", "{unrun:?}");
    assert_eq!(told(&call.await.unwrap()), "lost, E3004");
    house.hears("dropped").await;
    house.rests().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_may_put_things_in_order_and_keeps_its_place_meanwhile() {
    let data = tempfile::tempdir().unwrap();
    let grace = Duration::from_secs(2);
    let house = House::start(data.path(), grace).await;
    let call = house.call("tidy up", 3_600_000);
    house.hears("tidy up begins").await;
    call.abort();
    house.hears("tidied up").await;
    house.hears("dropped").await;

    let stubborn = house.call("hang", 3_600_000);
    house.hears("hang begins").await;
    stubborn.abort();
    let began = Instant::now();
    assert_eq!(told(&house.call("echo", 3_600_000).await.unwrap()), "ok");
    for said in ["dropped", "echo begins", "dropped"] {
        house.hears(said).await;
    }
    assert_eq!(began.elapsed().as_secs(), grace.as_secs());
}

#[tokio::test]
async fn calls_that_find_no_room_are_told_whose_it_is() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let bus = house.worker.bus.clone();
    let subject = house.worker.subjects.tool(&house.worker.team.name, &Name::new("probe").unwrap());
    let body = |n: usize| {
        let arguments = json!({"do": "hang"});
        let call = format!("c{n}");
        json!({"call": call, "arguments": arguments, "session": "s", "run": "r", "agent": "a"})
            .to_string()
    };
    let mut answers = bus.subscribe("_INBOX.test", None).await.unwrap();
    for n in 0..WAITING_PER_PLACE + 3 {
        let body = body(n).into();
        bus.publish_with_reply(&subject, "_INBOX.test", wire::Headers::new(), body).await.unwrap();
    }
    for _ in 0..2 {
        let answer = timeout(SOON, answers.next()).await.unwrap().unwrap();
        let error: wire::error::ErrorBody = serde_json::from_slice(&answer.payload).unwrap();
        let told = (error.error.code, error.error.scope, error.error.retry_after_ms);
        assert_eq!(told, (ErrorCode::Overloaded, Some(Scope::Tool), Some(RETRY_MS)));
    }
    let all = async {
        while house.worker.work.len() < WAITING_PER_PLACE + 1 {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, all).await.expect("all others wait");
}
