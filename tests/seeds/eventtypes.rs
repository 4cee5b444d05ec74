//! 001: event types as tools, and the events that answer their calls.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Bus, NatsOptions};
use serde_json::{Value, json};
use tests::daemon::Daemon;
use tokio::time::{Instant, sleep};
use wire::{Headers, RunReply};

use crate::broker::{Broker, Script, response_to};
use crate::house::{ANSWER_MAX, House};
use crate::server::{Server, chat, tool_call};

/// Event types with the facts of the published ones: the weather of the article, and the tools of
/// the demo, with types of each form and without parameters.
const PUBLISHED: &str = r#"
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata:
  name: get.current.weather
spec:
  reference:
    apiVersion: serving.knative.dev/v1
    kind: Service
    name: get-current-weather
  description: "Tells the weather of a place at present."
  schemaData: '{"location":{"type":"string","description":"a city and its state, such as Austin, TX"},"unit":{"type":"string","description":"either of [celsius, farenheit]"}}'
  type: "get.current.weather"
---
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata:
  name: word.length.request
spec:
  description: "Counts the letters of words."
  schemaData: '{"words":{"type":"list:string","description":"the words"}}' 
  type: "word.length.request"
---
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata:
  name: average.resource.consumption
spec:
  description: "Tells what was used of late."
  type: "average.resource.consumption"
"#;

/// What the demo published at one time: the braces of `unit` hold no member.
const BROKEN: &str = r#"
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata:
  name: resource.cost.calculator
spec:
  schemaData: '{"resourceKind":{"type":"string"},"usage":{"type":"float"},"unit":{"what it is counted in"}}'
  type: "resource-cost-calculator"
"#;

fn event_type(kind: &str, schema_data: &str) -> String {
    format!(
        "apiVersion: eventing.knative.dev/v1beta2\nkind: EventType\nmetadata: {{name: x}}\n\
         spec:\n  type: {kind:?}\n  description: D.\n  schemaData: '{schema_data}'\n"
    )
}

/// Makes a team whose model is a server and whose tools are event types in a folder.
fn team(model: &str, folder: &Path, more: &str) -> String {
    format!(
        "[models.chat]\nprovider = 'openai'\nbase_url = '{model}/v1'\nmodel = 'm'\nstream = false\n\
         [permissions]\nallow = ['*']\nallow_tainted = ['*']\n\
         [agents.clerk]\ninstructions = 'Help.'\nmodel = 'chat'\ntools = ['*']\n\
         accept_risk = 'a test'\n\
         [eventtypes.k]\npath = '{}'\nprefix = ''\n{more}\n",
        folder.display()
    )
}

fn at(broker: &str) -> String {
    format!("sink = '{broker}'")
}

fn asks(calls: &[Value]) -> Value {
    chat(&json!({"role": "assistant", "content": null, "tool_calls": calls}))
}

fn says(text: &str) -> Value {
    chat(&json!({"role": "assistant", "content": text}))
}

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    tool_call(id, name, &json!(arguments.to_string()))
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// Returns the tools that the model was offered in its request of some number.
fn offered(server: &Server, request: usize) -> Vec<Value> {
    let body = server.seen()[request].body.clone();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.into_iter().map(|tool| tool["function"].clone()).collect()
}

fn told(reply: &RunReply) -> Vec<(&str, &str)> {
    reply.sources.iter().map(|s| (s.status.as_str(), s.output.as_str())).collect()
}

#[tokio::test]
async fn seed_001_1_the_published_event_types_load_unchanged() {
    let folder = folder(&[("published.yaml", PUBLISHED)]);
    let server = Server::start([says("Hello.")]).await;
    let house = House::of("k", &team(&server.url, folder.path(), &at("http://127.0.0.1:9"))).await;
    house.say("Hello?").await;
    let tools = offered(&server, 0);
    let weather = tools.iter().find(|tool| tool["name"] == "get_current_weather").unwrap();
    assert_eq!(weather["description"], "Tells the weather of a place at present.");
    let parameters = &weather["parameters"];
    assert_eq!(
        parameters["properties"],
        json!({
            "location": {"type": "string", "description": "a city and its state, such as Austin, TX"},
            "unit": {"type": "string", "description": "either of [celsius, farenheit]"},
        })
    );
    assert_eq!(parameters["required"], json!(["location", "unit"]));
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["average_resource_consumption", "get_current_weather", "word_length_request"]
    );
    house.end().await;
}

#[tokio::test]
async fn seed_001_2_names_that_would_be_one_are_two_and_reach_their_own_types() {
    let kinds = ["a.b", "a_b", "a/b", &"long.".repeat(20), "größe", "7.x"];
    let types: Vec<String> = kinds.iter().map(|kind| event_type(kind, "{}")).collect();
    for order in [types.clone(), types.iter().rev().cloned().collect()] {
        let folder = folder(&[("types.yaml", &order.join("---\n"))]);
        let mut broker = Broker::start().await;
        let server = Server::start([says("Hello.")]).await;
        let house = House::of("k", &team(&server.url, folder.path(), &at(&broker.url))).await;
        house.say("Hello?").await;
        let names: Vec<String> =
            offered(&server, 0).iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect();
        house.end().await;
        assert_eq!(names.len(), kinds.len());
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        for name in &names {
            assert!((1..=64).contains(&name.len()) && name.chars().all(is_letter), "{name}");
        }
        // The type whose name it is keeps it, whatever stands first in the file.
        let calls: Vec<Value> = names.iter().map(|name| call(name, name, &json!({}))).collect();
        let server = Server::start([asks(&calls), says("Done.")]).await;
        let house = House::of("k", &team(&server.url, folder.path(), &at(&broker.url))).await;
        let answered = async {
            let mut came = Vec::new();
            for _ in 0..kinds.len() {
                let arrival = broker.next().await;
                came.push(arrival.event.kind.clone());
                let kind = json!(arrival.event.kind).to_string();
                let event = arrival.response("application/json", &kind);
                arrival.reply(&event);
            }
            came
        };
        let (reply, mut came) = tokio::join!(house.say("Call all."), answered);
        came.sort();
        let mut expected: Vec<&str> = kinds.to_vec();
        expected.sort_unstable();
        assert_eq!(came, expected);
        let plain = reply.sources.iter().find(|s| s.tool.as_str() == "a_b").unwrap();
        assert_eq!(plain.output, "a_b");
        house.end().await;
    }
}

#[tokio::test]
async fn seed_001_3_schemas_of_all_forms_and_a_broken_one_that_harms_no_other() {
    let full = r#"{"type":"object","required":["size"],"properties":{"size":{"enum":["s","l"]},"box":{"type":"object","properties":{"w":{"type":"integer"}}}}}"#;
    let bare = r#"{"n":{"type":"int"},"x":{"type":"float"},"l":{"type":"list:float"},"odd":{"type":"thing"}}"#;
    let folder = folder(&[
        ("a.yaml", &event_type("full", full)),
        ("b.yaml", &event_type("bare", bare)),
        ("c.yaml", &event_type("none", "{}")),
        ("d.yaml", BROKEN),
        ("e.yaml", "kind: [\n"),
    ]);
    let server = Server::start([says("Hello.")]).await;
    let house = House::of("k", &team(&server.url, folder.path(), &at("http://127.0.0.1:9"))).await;
    house.say("Hello?").await;
    let tools = offered(&server, 0);
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bare", "full", "none"]);
    let properties = |at: usize| &tools[at]["parameters"]["properties"];
    let list = json!({"type": "array", "items": {"type": "number"}});
    assert_eq!(
        *properties(0),
        json!({"n": {"type": "integer"}, "x": {"type": "number"}, "l": list, "odd": {"type": "string"}})
    );
    assert_eq!(tools[1]["parameters"], serde_json::from_str::<Value>(full).unwrap());
    assert_eq!(*properties(2), json!({}));
    let team = house.team().team();
    let [broken, no_yaml] = &team.left_out[..] else { panic!("{:?}", team.left_out) };
    assert!(broken.contains("d.yaml") && broken.contains("resource.cost.calculator"), "{broken}");
    assert!(no_yaml.contains("e.yaml") && no_yaml.contains("no YAML"), "{no_yaml}");
    house.end().await;
}

/// Expects what another's SDK read of a call, and what the model was told of its answer.
fn check_read(read: &Value, reply: &RunReply) {
    let attributes = &read["attributes"];
    let plain = ["specversion", "type", "source", "datacontenttype"].map(|name| &attributes[name]);
    assert_eq!(plain, ["1.0", "get.current.weather", "/callboard", "application/json"], "{read}");
    assert_eq!(attributes["id"], reply.sources[0].call.as_str());
    assert!(attributes["traceparent"].as_str().unwrap().contains(&reply.trace_id));
    assert!(attributes["time"].as_str().unwrap().starts_with("20"), "{read}");
    let data = json!({"location": "Graz, Styria", "unit": "celsius"});
    assert_eq!(read["data"], data, "{read}");
    assert_eq!(told(reply), [("ok", json!({"given": data}).to_string().as_str())]);
}

#[tokio::test]
async fn seed_001_4_calls_are_events_by_the_judgement_of_another_sdk() {
    let weather = json!({"location": "Graz, Styria", "unit": "celsius"});
    let calls = [call("c", "get_current_weather", &weather)];
    let folder = folder(&[("published.yaml", PUBLISHED)]);
    let nats = NatsServer::start("").await.unwrap();
    for mode in ["binary", "structured"] {
        let mut receiver = Script::receiver(&["http"]).await;
        let server = Server::start([asks(&calls), says("Done.")]).await;
        let more = format!("{}\nmode = '{mode}'", at(receiver.url()));
        let house = House::of("k", &team(&server.url, folder.path(), &more)).await;
        let reply = house.say("Weather?").await;
        check_read(&receiver.next().await, &reply);
        house.end().await;

        for more in ["", "\nreply = 'event'\nreply_subject = 'tools.in.replies'"] {
            let mut receiver = Script::receiver(&["nats", &nats.url(), "tools.in"]).await;
            let server = Server::start([asks(&calls), says("Done.")]).await;
            let bus = Bus::connect(NatsOptions::new([nats.url()])).await.unwrap();
            let more = format!("sink_subject = 'tools.in'\nmode = '{mode}'{more}");
            let house = House::on(bus, "k", &team(&server.url, folder.path(), &more)).await;
            let reply = house.say("Weather?").await;
            check_read(&receiver.next().await, &reply);
            house.end().await;
        }
    }
}

#[tokio::test]
async fn seed_001_5_concurrent_calls_of_one_tool_get_their_own_replies() {
    let numbers: Vec<usize> = (0..8).collect();
    let ask = |n: &usize| call(&format!("c{n}"), "echo", &json!({"n": n}));
    let calls: Vec<Value> = numbers.iter().map(ask).collect();
    let folder = folder(&[("t.yaml", &event_type("echo", r#"{"n":{"type":"int"}}"#))]);
    for reply in ["response", "event"] {
        let mut broker = Broker::start().await;
        let server = Server::start([asks(&calls), says("Done.")]).await;
        let more = format!("{}\nreply = '{reply}'\neffect = 'read'", at(&broker.url));
        let house = House::of("k", &team(&server.url, folder.path(), &more)).await;
        let handle = house.team();
        let name = wire::Name::new("k").unwrap();
        let subject = handle.subjects().event_reply(&handle.team().name, &name);
        let answered = async {
            let mut arrivals = Vec::new();
            for _ in &numbers {
                arrivals.push(broker.next().await);
            }
            // All are under way; the last one is answered first.
            for arrival in arrivals.into_iter().rev() {
                let data = String::from_utf8(arrival.event.data.clone()).unwrap();
                let event = arrival.response("application/json", &data);
                if reply == "response" {
                    arrival.reply(&event);
                } else {
                    arrival.answer("202 Accepted");
                    assert_eq!(deliver(&house, &subject, &event).await["taken"], "delivered");
                    assert_eq!(deliver(&house, &subject, &event).await["taken"], "duplicate");
                }
            }
        };
        let (run, ()) = tokio::join!(house.say("Echo all."), answered);
        let expected: Vec<String> = numbers.iter().map(|n| json!({"n": n}).to_string()).collect();
        let expected: Vec<(&str, &str)> = expected.iter().map(|text| ("ok", &**text)).collect();
        assert_eq!(told(&run), expected);
        if reply == "event" {
            let counts = &house.team().event_replies()[0].counts;
            assert_eq!((counts.delivered, counts.duplicate), (8, 8));
        }
        house.end().await;
    }
}

/// Brings a reply on a subject, and returns what is said of it.
async fn deliver(
    house: &House,
    subject: &str,
    event: &tools::cloudevent::event::CloudEvent,
) -> Value {
    let written = event.write(tools::cloudevent::event::Mode::Binary);
    let mut headers = Headers::new();
    written.headers.into_iter().for_each(|(name, value)| headers.insert(name, value));
    let body: Value = serde_json::from_slice(&written.body).unwrap();
    house.request(subject, headers, &body).await
}

#[tokio::test]
async fn seed_001_5_a_reply_that_does_not_come_is_an_error_with_tool_and_seconds() {
    let folder = folder(&[("t.yaml", &event_type("echo", "{}"))]);
    for (effect, status) in [("read", "error"), ("once", "unknown")] {
        for reply in ["response", "event"] {
            let mut broker = Broker::start().await;
            let calls = [call("c", "echo", &json!({}))];
            let server = Server::start([asks(&calls), says("Done.")]).await;
            let more = format!(
                "{}\nreply = '{reply}'\neffect = '{effect}'\ntimeout_ms = 1000",
                at(&broker.url)
            );
            let house = House::of("k", &team(&server.url, folder.path(), &more)).await;
            let answered = async {
                let first = broker.next().await;
                let id = first.event.id.clone();
                let mut kept = vec![first];
                // One that may be repeated is the same event each time.
                for _ in 1..if effect == "read" { 3 } else { 1 } {
                    let again = broker.next().await;
                    assert_eq!(again.event.id, id);
                    kept.push(again);
                }
                if reply == "event" {
                    for arrival in kept {
                        arrival.answer("202 Accepted");
                    }
                    return (id, Vec::new());
                }
                (id, kept)
            };
            let (run, (id, _kept)) = tokio::join!(house.say("Echo."), answered);
            let [(found, text)] = told(&run)[..] else { panic!("{run:?}") };
            assert_eq!(found, status, "{text}");
            assert!(text.contains("echo sent its event and got no reply within 0."), "{text}");
            if reply == "event" {
                let handle = house.team();
                let name = wire::Name::new("k").unwrap();
                let subject = handle.subjects().event_reply(&handle.team().name, &name);
                let late = response_to(&id, "application/json", "1");
                assert_eq!(deliver(&house, &subject, &late).await["taken"], "late");
            }
            house.end().await;
        }
    }
}

#[tokio::test]
async fn seed_001_5_a_failure_that_is_told_as_text_is_an_error() {
    let folder = folder(&[("t.yaml", &event_type("echo", "{}"))]);
    let mut broker = Broker::start().await;
    let calls = [call("c", "echo", &json!({}))];
    let server = Server::start([asks(&calls), says("Done.")]).await;
    let house = House::of("k", &team(&server.url, folder.path(), &at(&broker.url))).await;
    let answered = async {
        let arrival = broker.next().await;
        let event = arrival.response("text/plain", "no such city");
        arrival.reply(&event);
    };
    let (run, ()) = tokio::join!(house.say("Echo."), answered);
    let [(status, text)] = told(&run)[..] else { panic!("{run:?}") };
    assert!(status == "error" && text.contains("E3003") && text.contains("no such city"), "{text}");
    house.end().await;
}

/// Posts a reply to the door of a daemon, which says in a header what became of it: a broker reads
/// the body of an answer as an event.
async fn post(daemon: &Daemon, team: &str, id: &str, data: &str) -> (u16, String) {
    let url = format!("{}/v1/teams/{team}/eventtypes/k/replies", daemon.http);
    let event = response_to(id, "application/json", data);
    let written = event.write(tools::cloudevent::event::Mode::Structured);
    let mut request = reqwest::Client::new().post(url).body(written.body);
    for (name, value) in written.headers {
        request = request.header(name, value);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let taken =
        answer.headers().get("callboard-taken").map(|taken| taken.to_str().unwrap().to_owned());
    assert_eq!(answer.text().await.unwrap(), "", "{status}");
    (status, taken.unwrap_or_default())
}

async fn get(daemon: &Daemon, path: &str) -> Value {
    let answer = reqwest::get(format!("{}{path}", daemon.http)).await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_001_5_a_call_that_waits_when_the_daemon_is_killed_is_settled_by_the_next_one() {
    // A second installation in one process is refused, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    for early in [false, true] {
        let types = folder(&[("t.yaml", &event_type("pay", "{}"))]);
        let mut broker = Broker::start().await;
        let server = Server::start([asks(&[call("c", "pay", &json!({}))]), says("Paid.")]).await;
        let more = format!("{}\nreply = 'event'", at(&broker.url));
        fs::write(types.path().join("k.toml"), team(&server.url, types.path(), &more)).unwrap();
        let args = ["--data".into(), types.path().join("data"), types.path().join("k.toml")];
        let mut daemon = Daemon::start(&args).await;
        let run = json!({"input": "Pay.", "run": "r"}).to_string();
        let url = format!("{}/v1/teams/k/agents/clerk/runs?wait=false", daemon.http);
        reqwest::Client::new().post(url).body(run).send().await.unwrap();
        let arrival = broker.next().await;
        let id = arrival.event.id.clone();
        arrival.answer("202 Accepted");
        daemon.kill().await;

        let daemon = Daemon::start(&args).await;
        if !early {
            // The call waits again as soon as its session is back.
            let end = Instant::now() + ANSWER_MAX;
            while get(&daemon, "/v1/teams/k/runs/r").await["state"] != "running" {
                assert!(Instant::now() < end);
                sleep(Duration::from_millis(20)).await;
            }
        }
        let (status, taken) = post(&daemon, "k", &id, "{\"paid\":true}").await;
        assert_eq!(status, 202, "{taken}");
        assert!(taken == "delivered" || taken == "held", "{taken}");
        let reply = get(&daemon, "/v1/teams/k/runs/r/result").await;
        assert_eq!(reply["status"], "completed", "{reply}");
        let source = &reply["sources"][0];
        assert_eq!(
            (&source["status"], &source["output"]),
            (&json!("ok"), &json!("{\"paid\":true}"))
        );
        assert!(broker.is_empty(), "nothing is sent twice");
        assert_eq!(post(&daemon, "k", &id, "2").await.1, "duplicate");
        let counts = get(&daemon, "/v1/teams/k/eventtypes").await;
        let expected = json!({"eventtypes": [
            {"name": "k", "delivered": 1, "duplicate": 1, "late": 0, "unknown": 0}]});
        assert_eq!(counts, expected);
    }
}

/// Headers of a request.
type Pairs<'h> = &'h [(&'h str, &'h str)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_001_5_the_door_takes_replies_only_and_says_what_it_does_not_take() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let types = folder(&[("t.yaml", &event_type("pay", "{}"))]);
    let url = "http://127.0.0.1:9";
    let more = format!(
        "{}\nreply = 'event'\n[eventtypes.other]\npath = '{}'\nprefix = 'o_'\n{}",
        at(url),
        types.path().display(),
        at(url)
    );
    fs::write(types.path().join("k.toml"), team(url, types.path(), &more)).unwrap();
    let args = ["--data".into(), types.path().join("data"), types.path().join("k.toml")];
    let daemon = Daemon::start(&args).await;
    let base = format!("{}/v1/teams/k/eventtypes", daemon.http);
    let whole = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")];
    let cases: [(&str, Pairs<'_>, &str, u16, &str); 5] = [
        ("other", &whole, "", 404, "take replies here"),
        ("none", &whole, "", 404, "take replies here"),
        ("k", &whole, "", 400, "no attribute \\\"responseid\\\""),
        ("k", &[("content-type", "application/json")], "{}", 400, "no event of CloudEvents 1.0"),
        ("k", &[("content-type", "application/cloudevents+json")], "{}", 400, "specversion"),
    ];
    for (source, headers, body, expected, part) in cases {
        let mut request = reqwest::Client::new().post(format!("{base}/{source}/replies"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        assert!(status == expected && text.contains(part), "{source}: {status} {text}");
    }
    let unknown = get(&daemon, "/v1/teams/k/eventtypes").await["eventtypes"][0]["unknown"].clone();
    assert_eq!(unknown, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_001_6_an_event_type_that_comes_is_offered_and_one_that_goes_is_not() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let types = folder(&[("a.yaml", &event_type("first", "{}"))]);
    let mut broker = Broker::start().await;
    let calls = [call("c1", "second", &json!({})), call("c2", "first", &json!({}))];
    let greetings = (0..400).map(|_| says("Hello."));
    let idle = Server::start(greetings).await;
    let more = at(&broker.url);
    fs::write(types.path().join("k.toml"), team(&idle.url, types.path(), &more)).unwrap();
    let args = ["--data".into(), types.path().join("data"), types.path().join("k.toml")];
    let daemon = Daemon::start(&args).await;
    let ask = async || {
        let url = format!("{}/v1/teams/k/agents/clerk/runs", daemon.http);
        let body = json!({"input": "Hello?"}).to_string();
        let answer = reqwest::Client::new().post(url).body(body).send().await.unwrap();
        let reply: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!(reply["status"], "completed", "{reply}");
        reply
    };
    let names = || {
        let tools = offered(&idle, idle.seen().len() - 1);
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let until = async |expected: &[&str]| {
        let end = Instant::now() + ANSWER_MAX;
        loop {
            ask().await;
            if names() == expected {
                return;
            }
            assert!(Instant::now() < end, "{:?}, expected {expected:?}", names());
            sleep(Duration::from_millis(100)).await;
        }
    };
    until(&["first"]).await;
    fs::write(types.path().join("b.yaml"), event_type("second", "{}")).unwrap();
    until(&["first", "second"]).await;
    fs::remove_file(types.path().join("a.yaml")).unwrap();
    until(&["second"]).await;
    // What is broken while it is written harms nothing that is there.
    fs::write(types.path().join("c.yaml"), "kind: [").unwrap();
    fs::write(types.path().join("d.yaml"), event_type("third", "{}")).unwrap();
    until(&["second", "third"]).await;

    // One that came is called, and one that is gone is feedback.
    idle.put(asks(&calls));
    let answered = async {
        let arrival = broker.next().await;
        assert_eq!(arrival.event.kind, "second");
        let event = arrival.response("application/json", "2");
        arrival.reply(&event);
    };
    let (reply, ()) = tokio::join!(ask(), answered);
    assert_eq!(reply["sources"].as_array().unwrap().len(), 1, "{reply}");
    let messages = idle.seen().last().unwrap().body["messages"].to_string();
    assert!(messages.contains("unknown_tool") && messages.contains("first"), "{messages}");
    assert!(broker.is_empty());
}
