//! Several daemons on one nats-server: each has its part of a trace, and all are asked.

use bus::testing::NatsServer;
use bus::{Bus, Endpoint, NatsOptions, Service, ServiceInfo};
use serde_json::{Value, json};

use crate::callboard::Callboard;

/// The trace of whoever asks both teams.
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn team(name: &str) -> String {
    format!(
        "[team]\nname = \"{name}\"\nentry = \"lead\"\n\
         [models.main]\nprovider = \"scripted\"\nscript = \"{name}.jsonl\"\n\
         [agents.lead]\ninstructions = \"You lead.\"\nmodel = \"main\"\n"
    )
}

/// A team that is served on NATS from a data directory of its own.
struct Node {
    callboard: Callboard,
    daemon: crate::callboard::Daemon,
}

impl Node {
    fn start(name: &str, nats: &str) -> Self {
        let callboard = Callboard::new();
        let file = callboard.file(&format!("{name}.toml"), &team(name));
        callboard.file(&format!("{name}.jsonl"), "{\"content\": \"I am here.\"}\n");
        let daemon = callboard.serve_with(&file, &["--nats", nats]);
        Self { callboard, daemon }
    }
}

async fn ask(bus: &Bus, team: &str, run: &str) {
    let subject = format!("callboard.v1.{team}.agent.lead.run");
    let headers = wire::Headers::new().with("traceparent", CALLER);
    let body = json!({"input": "are you there?", "run": run}).to_string();
    let wait = std::time::Duration::from_secs(20);
    let answer = bus.request(&subject, headers, body.into(), wait).await.unwrap();
    let reply: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!((&reply["status"], &reply["trace_id"]), (&"completed".into(), &TRACE.into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_is_put_together_from_all_nodes() {
    let nats = NatsServer::start("").await.unwrap();
    let url = nats.url();
    let (one, two) = (Node::start("one", &url), Node::start("two", &url));
    let bus = Bus::connect(NatsOptions::new([url.as_str()])).await.unwrap();
    ask(&bus, "one", "r-one").await;
    ask(&bus, "two", "r-two").await;

    let nowhere = Callboard::new();
    let runs = |found: &Value| {
        let spans = found["spans"].as_array().unwrap().iter();
        let mut runs: Vec<String> =
            spans.map(|span| span["run"].as_str().unwrap().to_owned()).collect();
        runs.sort();
        runs
    };
    let both = ["r-one", "r-one", "r-two", "r-two"];
    // By its id, by some digits of it, and by a run that only one node knows.
    for id in [TRACE, "0af76519", "r-two"] {
        let by_nats = nowhere.run(&["trace", id, "--json", "--nats", &url]).json();
        assert_eq!(runs(&by_nats), both, "{id}");
        assert_eq!((&by_nats["trace_id"], by_nats.get("silent")), (&TRACE.into(), None), "{id}");
        let by_url = nowhere.run(&["trace", id, "--json", "--url", &one.daemon.url]).json();
        assert_eq!(by_url, by_nats, "{id}");
    }
    let of_one = one.callboard.run(&["trace", TRACE, "--json"]).json();
    assert_eq!(runs(&of_one), ["r-one", "r-one"], "a team shows its own part");
    let unknown = nowhere.run(&["trace", "r-none", "--nats", &url]);
    assert_eq!(unknown.code, Some(2), "{}", unknown.err);
    let listed = nowhere.run(&["traces", "--nats", &url]);
    assert!(listed.err.contains("--url"), "{}", listed.err);

    let stats = nowhere.run(&["top", "--json", "--nats", &url]).json();
    assert_eq!(stats["nodes"].as_array().map(Vec::len), Some(2), "{stats}");
    let at_one = nowhere.run(&["top", "--json", "--url", &two.daemon.url]).json();
    let names = |stats: &Value| -> Vec<Value> {
        stats["nodes"].as_array().unwrap().iter().map(|node| node["node"].clone()).collect()
    };
    assert_eq!(names(&at_one), names(&stats));

    // One that is there and says nothing is waited for, and named.
    let ghost = ServiceInfo {
        name: "callboard-ghost".to_owned(),
        id: "g1".to_owned(),
        version: "0.1.0".to_owned(),
        description: String::new(),
        started: "2026-01-01T00:00:00Z".to_owned(),
        metadata: [("subjects".to_owned(), "callboard.v1".to_owned())].into(),
        endpoints: Vec::<Endpoint>::new(),
    };
    let ghost = Service::start(&bus, ghost).await.unwrap();
    let missed = nowhere.run(&["trace", TRACE, "--json", "--nats", &url]).json();
    assert_eq!((runs(&missed).len(), &missed["silent"]), (4, &json!(["g1 (ghost)"])));
    let drawn = nowhere.run(&["trace", TRACE, "--nats", &url]);
    assert!(drawn.out.contains("node g1 (ghost) did not answer"), "{}", drawn.out);
    drop(ghost);

    drop(two);
    let rest = nowhere.run(&["trace", TRACE, "--json", "--nats", &url]).json();
    assert_eq!(runs(&rest), ["r-one", "r-one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_told_of_a_time_only_if_one_is_named() {
    let nats = NatsServer::start("").await.unwrap();
    let url = nats.url();
    let bus = Bus::connect(NatsOptions::new([url.as_str()])).await.unwrap();
    let mut asked = bus.subscribe("callboard.v1.t.agent.a.run", None).await.unwrap();
    let nowhere = Callboard::new();
    for (more, expected) in [(&[][..], None), (&["--timeout", "5"], Some(5_000))] {
        let args = [&["ask", "--nats", &url, "t/a", "hi"], more].concat();
        let mut child = nowhere.command(&args).spawn().unwrap();
        let message = asked.next().await.unwrap();
        assert_eq!(message.headers.read::<u64>("Callboard-Remaining-Ms"), expected, "{args:?}");
        let error = wire::WireError::new(wire::ErrorCode::UnknownAgent, "there is no a");
        bus.reply_error(&message, &error).await.unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2));
    }
}
