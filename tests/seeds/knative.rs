//! 001: an assistant that looks into costs, goes on by a word, and asks its user.

use std::ops::Deref;

use bus::Subscription;
use serde_json::{Value, json};
use tests::daemon::Daemon;
use wire::event::EventKind;
use wire::subject::RunVerb;
use wire::{ErrorCode, Event, Headers, Name, RunId, RunReply, RunStatus, header};

use crate::broker::Script;
use crate::house::{House, changed, check, furnish, next, on_servers, shipped};
use crate::server::{Server, chat, tool_call};

const QUESTION: &str = "How has the trend in the average resource consumption (CPU, memory) \
    changed over the past few months for my application, and what impact will this have on my \
    costs?";

/// The team at the broker that is shipped with it; it answers as long as this lives.
struct Knative {
    house: House,
    _broker: Script,
}

impl Deref for Knative {
    type Target = House;

    fn deref(&self) -> &House {
        &self.house
    }
}

/// Returns the shipped team with its events at an address.
pub(crate) fn at_broker(url: &str) -> String {
    changed(&shipped("knative"), "http://127.0.0.1:8089", url)
}

async fn at_shipped(change: impl Fn(&str) -> String) -> Knative {
    let broker = Script::shipped(&[]).await;
    let house = House::of("knative", &change(&at_broker(broker.url()))).await;
    Knative { house, _broker: broker }
}

async fn knative() -> Knative {
    at_shipped(str::to_owned).await
}

async fn served(server: &Server) -> Knative {
    let url = format!("{}/v1", server.url);
    at_shipped(|team| on_servers(team, &[("chat", &url)])).await
}

fn saying(text: &str) -> Value {
    chat(&json!({"role": "assistant", "content": text}))
}

/// Makes a call of the price calculator, as a message holds it.
fn cost(id: &str, kind: &str, usage: &Value, unit: &str) -> Value {
    let arguments = json!({"resourceKind": kind, "usage": usage, "unit": unit});
    tool_call(id, "resource_cost_calculator", &json!(arguments.to_string()))
}

async fn event(events: &mut Subscription) -> EventKind {
    serde_json::from_slice::<Event>(&next(events).await.payload).unwrap().kind
}

/// Begins a run, and returns its id as soon as it is accepted.
async fn begin(house: &House, input: &str) -> RunId {
    let mut headers = Headers::new();
    headers.insert(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let subject = house.agent("assistant");
    let accepted = house.request(&subject, headers, &json!({"input": input})).await;
    serde_json::from_value(accepted["run"].clone()).unwrap_or_else(|_| panic!("{accepted}"))
}

/// Answers a run that waits, and returns its reply.
async fn answer(house: &House, run: &RunId, text: &str) -> RunReply {
    let subject = house.run(run, RunVerb::Answer);
    house.request(&subject, Headers::new(), &json!({"text": text})).await;
    let result = house.run(run, RunVerb::Result);
    let reply = house.request(&result, Headers::new(), &Value::Null).await;
    serde_json::from_value(reply.clone()).unwrap_or_else(|error| panic!("{error}: {reply}"))
}

#[tokio::test]
async fn seed_001_7_several_calls_run_in_parallel_and_each_is_answered_once() {
    let calls = [
        tool_call("c1", "human", &json!("{\"question\": \"Which month?\"}")),
        cost("c2", "cpu", &json!(34.51), "Cores"),
        cost("c3", "cpu", &json!("much"), "Cores"),
        tool_call("c4", "average_resource_consumption", &json!("")),
        cost("c5", "cpu", &json!(1), "GHz"),
    ];
    let asks = chat(&json!({"role": "assistant", "content": null, "tool_calls": calls}));
    let server = Server::start([asks, saying("Done.")]).await;
    let house = served(&server).await;
    let mut events = house.events().await;
    let run = begin(&house, "What does it cost?").await;
    // The first call waits for a person; the others end all the same.
    let (mut waits, mut ended) = (false, 0);
    while !waits || ended < 3 {
        let kind = event(&mut events).await;
        assert!(!matches!(kind, EventKind::RunEnded { .. }), "{kind:?}");
        ended += usize::from(matches!(kind, EventKind::CallEnded { .. }));
        waits |= matches!(kind, EventKind::CallSuspended { .. });
    }
    assert_eq!(server.seen().len(), 1, "the next request waits for all");
    let reply = answer(&house, &run, "November").await;
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "Done."));
    let messages = server.seen()[1].body["messages"].as_array().unwrap().clone();
    let answers: Vec<(&str, &str)> = messages[3..]
        .iter()
        .map(|tool| (tool["tool_call_id"].as_str().unwrap(), tool["content"].as_str().unwrap()))
        .collect();
    let [human, cpu, faulty, average, unit] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(human, ("c1", "November"));
    assert_eq!(cpu, ("c2", "{\"cost\":448.2849}"));
    assert!(faulty.0 == "c3" && faulty.1.contains("invalid_arguments"), "{faulty:?}");
    assert!(average.0 == "c4" && average.1.starts_with("[{\"cpu\":"), "{average:?}");
    assert!(
        unit.0 == "c5" && unit.1.contains("Unable to calculate the cost: invalid resource unit"),
        "{unit:?}"
    );
    house.house.end().await;
}

#[tokio::test]
async fn seed_001_8_a_reply_that_begins_with_the_word_goes_on_and_nobody_sees_it() {
    let texts = ["CONTINUE: I look into it.", "CONTINUE and again", "It costs 5."];
    let server = Server::start(texts.map(saying)).await;
    let house = served(&server).await;
    let mut events = house.events().await;
    let reply = house.say("What does it cost?").await;
    assert_eq!((reply.output.as_str(), server.seen().len()), ("It costs 5.", 3));
    loop {
        let message = next(&mut events).await;
        let text = String::from_utf8(message.payload.to_vec()).unwrap();
        assert!(!text.contains("CONTINUE"), "{text}");
        if text.contains("\"run_ended\"") {
            break;
        }
    }
    let last = server.seen()[2].body["messages"].to_string();
    assert!(last.contains(texts[0]) && last.contains(texts[1]), "the model sees it: {last}");
    house.house.end().await;

    let server = Server::start([texts[0]; 3].map(saying)).await;
    let house = served(&server).await;
    let request = json!({"input": "What does it cost?", "budget": {"steps": 3}});
    let reply = house.ask("assistant", request).await;
    assert_eq!((reply.status, server.seen().len()), (RunStatus::Partial, 3), "{reply:?}");
    assert!(!serde_json::to_string(&reply).unwrap().contains("CONTINUE"), "{reply:?}");
    assert_eq!(reply.error.unwrap().code, ErrorCode::StepLimit);
    house.house.end().await;
}

#[tokio::test]
async fn seed_001_9_the_published_run_makes_its_three_calls() {
    let house = knative().await;
    let reply = house.say(QUESTION).await;
    let months = "[{\"cpu\":{\"value\":21.33,\"unit\":\"Cores\"},\
        \"memory\":{\"value\":8200,\"unit\":\"MiB\"},\"month\":\"August\"},\
        {\"cpu\":{\"value\":27.56,\"unit\":\"Cores\"},\
        \"memory\":{\"value\":8117,\"unit\":\"MiB\"},\"month\":\"September\"},\
        {\"cpu\":{\"value\":33.17,\"unit\":\"Cores\"},\
        \"memory\":{\"value\":9217,\"unit\":\"MiB\"},\"month\":\"October\"},\
        {\"cpu\":{\"value\":34.51,\"unit\":\"Cores\"},\
        \"memory\":{\"value\":10117,\"unit\":\"MiB\"},\"month\":\"November\"}]";
    let cost = |kind: &str, usage: Value, unit: &str| json!({"resourceKind": kind, "usage": usage, "unit": unit});
    let (cpu, memory) = (cost("cpu", json!(34.51), "Cores"), cost("memory", json!(10117), "MiB"));
    check(
        &reply,
        &[
            ("average_resource_consumption", json!({}), "ok", months),
            ("resource_cost_calculator", cpu, "ok", "{\"cost\":448.2849}"),
            ("resource_cost_calculator", memory, "ok", "{\"cost\":161.872}"),
        ],
    );
    assert!(reply.output.contains("$448.28") && reply.output.contains("$161.87"), "{reply:?}");
    assert!(house.say("What time is it?").await.sources[0].output.contains("\"now\""));
    house.house.end().await;
}

#[tokio::test]
async fn seed_001_9_the_calculator_knows_its_prices_and_says_what_it_does_not() {
    let house = knative().await;
    let team = house.team();
    let name = Name::new("resource_cost_calculator").unwrap();
    let subject = team.subjects().tool(&team.team().name, &name);
    for (kind, usage, unit, expected) in [
        ("cpu", json!(2), "cores", "{\"cost\":25.98}"),
        ("CPU", json!(2), "CORES", "{\"cost\":25.98}"),
        ("Memory", json!(1000), "MiB", "{\"cost\":16.0}"),
        ("memory", json!(0.5), "GiB", "{\"cost\":8.192}"),
        ("memory", json!(0), "gib", "{\"cost\":0.0}"),
        ("memory", json!(1), "cores", "Unable to calculate the cost: invalid resource unit"),
        ("disk", json!(1), "gib", "Unable to calculate the cost: invalid resource kind"),
    ] {
        let arguments = json!({"resourceKind": kind, "usage": usage, "unit": unit});
        let body =
            json!({"call": "k", "arguments": arguments, "session": "s", "run": "r", "agent": "a"});
        let reply = house.request(&subject, Headers::new(), &body).await;
        let outcome = &reply["outcome"];
        let told = match &outcome["output"] {
            Value::Null => outcome["error"]["message"].as_str().unwrap().to_owned(),
            output => output.to_string(),
        };
        assert_eq!(told, expected, "{arguments}: {reply}");
    }
    house.house.end().await;
}

#[tokio::test]
async fn seed_001_10_a_question_to_the_user_suspends_the_run_also_across_a_restart() {
    for restarts in [false, true] {
        let mut house = knative().await;
        let mut events = house.events().await;
        let run = begin(&house, "Is my application too expensive?").await;
        let question = "What may your application cost in a month?";
        loop {
            let kind = event(&mut events).await;
            assert!(!matches!(kind, EventKind::RunEnded { .. }), "{kind:?}");
            if matches!(kind, EventKind::CallSuspended { .. }) {
                break;
            }
        }
        if restarts {
            house.house = house.house.restarted().await;
        }
        let status = house.run(&run, RunVerb::Status);
        let status = house.request(&status, Headers::new(), &Value::Null).await;
        assert_eq!((&status["state"], &status["question"]), (&json!("waiting"), &json!(question)));
        let reply = answer(&house, &run, "600").await;
        assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
        assert!(reply.output.contains("$600 that you named"), "{restarts}: {reply:?}");
        check(&reply, &[("human", json!({"question": question}), "ok", "600")]);
        house.house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_001_9_the_published_run_passes_with_replies_that_are_events() {
    // A second installation in one process is refused, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    // The broker has to know where replies go before it starts, and the daemon where the broker is.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let team = changed(
        &at_broker(&format!("http://127.0.0.1:{port}")),
        "prefix = \"\"",
        "prefix = \"\"\nreply = \"event\"",
    );
    let file = furnish(folder.path(), "knative", &team);
    let args = ["--data".into(), folder.path().join("data"), file];
    let daemon = Daemon::start(&args).await;
    let replies = format!("{}/v1/teams/knative/eventtypes/knative/replies", daemon.http);
    let _broker = Script::shipped_at(&port.to_string(), &[&replies]).await;
    let url = format!("{}/v1/teams/knative/agents/assistant/runs", daemon.http);
    let body = json!({"input": QUESTION}).to_string();
    let answer = reqwest::Client::new().post(url).body(body).send().await.unwrap();
    let reply: RunReply = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let told: Vec<&str> = reply.sources.iter().map(|source| &*source.output).collect();
    assert_eq!(told.len(), 3, "{reply:?}");
    assert_eq!(told[1..], ["{\"cost\":448.2849}", "{\"cost\":161.872}"]);
    assert!(reply.output.contains("$448.28") && reply.output.contains("$161.87"), "{reply:?}");
}
