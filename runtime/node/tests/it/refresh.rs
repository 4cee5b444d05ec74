//! A team whose tools change while it runs: in sessions that are there, in runs that are in work,
//! in runs that wait for people, and over a restart.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, Subscription};
use node::{Node, Refreshed};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use wire::subject::CallVerb;
use wire::{CallKey, Event, EventKind, ModelRequest, Name, RunReply, SessionId};

use crate::house;

/// The longest wait for what has to happen soon, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Makes the text of a team that has these tools behind subjects.
fn text_of(tools: &[(&str, &str)]) -> String {
    let names: Vec<&str> = tools.iter().map(|(name, _)| *name).chain(["now"]).collect();
    let mut text = format!(
        "[team]\nname = 'crew'\n[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
         [permissions]\nallow = ['*']\nask = ['*(leave=yes)']\n\
         [agents.lead]\ninstructions = 'Lead.'\nmodel = 'm'\ntools = {}\n",
        json!(names)
    );
    for (name, description) in tools {
        let kind = "]\nkind = 'nats'\nuntrusted_output = false\nparameters = { leave = 'string?' }\nsubject = 'desk.";
        text += &["[tools.", name, kind, name, "'\ndescription = '", description, "'\n"].concat();
    }
    text
}

fn parse(dir: &Path, tools: &[(&str, &str)]) -> config::Team {
    let files = |path: &Path| std::fs::read_to_string(path);
    config::parse(&dir.join("team.toml"), &text_of(tools), &files)
        .unwrap_or_else(|report| panic!("{}", report.render(false)))
}

async fn start(dir: &Path, tools: &[(&str, &str)]) -> Node {
    let calls = |when: &str, name: &str, arguments: Value| json!({"when": when, "calls": [{"name": name, "arguments": arguments}]});
    let model = [
        calls("(^|\n)(ask a|served first)$", "a", json!({})),
        calls("(^|\n)ask b$", "b", json!({})),
        calls("(^|\n)ask a with leave$", "a", json!({"leave": "yes"})),
        json!({"when": ".", "content": "done"}),
    ];
    house::start_with(dir, &text_of(tools), &[("m.jsonl", &model)]).await
}

async fn refresh(node: &Node, dir: &Path, tools: &[(&str, &str)]) -> Refreshed {
    node.team("crew").unwrap().refresh(parse(dir, tools)).await.unwrap()
}

/// Hears what the model is asked from here on.
async fn hear(node: &Node) -> Subscription {
    let subject = node.team("crew").unwrap().subjects().model(&name("crew"), &name("m"));
    node.bus().subscribe(&subject, None).await.unwrap()
}

/// Returns the tools of the next request to the model that come and go, each with its description.
async fn offered(requests: &mut Subscription) -> Vec<(String, String)> {
    let message = tokio::time::timeout(SOON, requests.next()).await.unwrap().unwrap();
    let request: ModelRequest = serde_json::from_slice(&message.payload).unwrap();
    let head = request.head.unwrap();
    let tools = head.tools.iter().filter(|tool| tool.name.as_str() != "now");
    tools.map(|tool| (tool.name.to_string(), tool.description.clone())).collect()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn names(list: &[&str]) -> Vec<Name> {
    list.iter().map(|text| name(text)).collect()
}

fn told(reply: &RunReply) -> (&str, &str) {
    let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
    (source.status.as_str(), &source.output)
}

/// Answers on a subject in turn, each request once a permit is given for it.
async fn desk(bus: &Bus, subject: &str, answers: &'static [&str]) -> Arc<Semaphore> {
    let permits = Arc::new(Semaphore::new(0));
    let mut requests = bus.subscribe(subject, None).await.unwrap();
    let (bus, held) = (bus.clone(), permits.clone());
    tokio::spawn(async move {
        for answer in answers {
            let request = requests.next().await.unwrap();
            held.acquire().await.unwrap().forget();
            bus.reply(&request, wire::Headers::new(), (*answer).into()).await.unwrap();
        }
    });
    permits
}

async fn event<T>(events: &mut Subscription, wanted: impl Fn(&EventKind) -> Option<T>) -> T {
    loop {
        let message = tokio::time::timeout(SOON, events.next()).await.unwrap().unwrap();
        let event: Event = serde_json::from_slice(&message.payload).unwrap();
        if let Some(found) = wanted(&event.kind) {
            return found;
        }
    }
}

fn pair(name: &str, description: &str) -> (String, String) {
    (name.to_owned(), description.to_owned())
}

#[tokio::test]
async fn the_next_run_of_a_session_is_offered_what_is_there_at_present() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let node = start(dir, &[("a", "one")]).await;
    let mut requests = hear(&node).await;
    let first = house::say(&node, "hello", None).await;
    assert_eq!(offered(&mut requests).await, [pair("a", "one")]);

    let refreshed = refresh(&node, dir, &[("a", "two"), ("b", "new")]).await;
    let expected = Refreshed { added: names(&["b"]), changed: names(&["a"]), gone: Vec::new() };
    assert_eq!(refreshed, expected);
    house::say(&node, "hello", Some(&first.session)).await;
    assert_eq!(offered(&mut requests).await, [pair("a", "two"), pair("b", "new")]);
    desk(node.bus(), "desk.b", &["served"]).await.add_permits(1);
    assert_eq!(told(&house::say(&node, "ask b", Some(&first.session)).await), ("ok", "served"));
    assert_eq!(offered(&mut requests).await.len(), 2);

    let gone = refresh(&node, dir, &[("b", "new")]).await;
    assert_eq!((gone.gone, gone.added.len(), gone.changed.len()), (names(&["a"]), 0, 0));
    let listed = node.bus().request("$SRV.INFO", wire::Headers::new(), "".into(), SOON).await;
    let listed: Value = serde_json::from_slice(&listed.unwrap().payload).unwrap();
    let endpoints: Vec<&str> =
        listed["endpoints"].as_array().unwrap().iter().filter_map(|e| e["name"].as_str()).collect();
    assert_eq!(endpoints, ["agent-lead", "tool-b", "tool-now"]);
    node.drain(SOON).await;
}

#[tokio::test]
async fn a_run_in_work_keeps_the_tool_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let node = start(dir, &[("a", "one")]).await;
    let permits = desk(node.bus(), "desk.a", &["served first", "served again"]).await;
    let mut requests = hear(&node).await;
    let run = async { house::say(&node, "ask a", None).await };
    let change = async {
        offered(&mut requests).await;
        let gone = refresh(&node, dir, &[("b", "other")]).await;
        assert_eq!(gone.gone, names(&["a"]));
        // Only now is the first call answered, so that the second is made when the tool is gone.
        permits.add_permits(2);
    };
    let (reply, ()) = tokio::join!(run, change);
    let outputs: Vec<&str> = reply.sources.iter().map(|source| &*source.output).collect();
    assert_eq!(outputs, ["served first", "served again"], "{reply:?}");
    // The next run is not offered it, and a call to it is feedback.
    let next = house::say(&node, "ask a", Some(&reply.session)).await;
    assert_eq!(next.sources.len(), 0, "{next:?}");
    node.drain(SOON).await;
}

#[tokio::test]
async fn a_call_that_waits_for_leave_meets_a_tool_that_is_gone_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let node = start(dir, &[("a", "one"), ("b", "two")]).await;
    let mut events = watch(&node).await;
    let session = SessionId::new("s").unwrap();
    let team = node.team("crew").unwrap();
    let request = json!({"input": "ask a with leave", "session": session, "run": "r"});
    let headers = wire::Headers::new().with(wire::header::REPLY_MODE, wire::header::REPLY_ACCEPTED);
    let subject = team.subjects().agent_run(&name("crew"), &name("lead"));
    house::ask(&node, &subject, headers, request.to_string().into()).await;
    let call: CallKey = event(&mut events, |kind| match kind {
        EventKind::CallSuspended { call, .. } => Some(call.clone()),
        _ => None,
    })
    .await;
    node.drain(Duration::ZERO).await;
    drop(node);

    std::fs::write(dir.join("team.toml"), text_of(&[("b", "two")])).unwrap();
    let node = house::start(&dir.join("team.toml"), &dir.join("data")).await;
    let mut events = watch(&node).await;
    let team = node.team("crew").unwrap();
    let approve = team.subjects().call(&name("crew"), &call, CallVerb::Approve);
    house::ask(&node, &approve, wire::Headers::new(), "{}".into()).await;
    event(&mut events, |kind| matches!(kind, EventKind::RunEnded { .. }).then_some(())).await;
    let result = team.subjects().run(
        &name("crew"),
        &wire::RunId::new("r").unwrap(),
        wire::subject::RunVerb::Result,
    );
    let reply = house::ask(&node, &result, wire::Headers::new(), "".into()).await;
    let reply: RunReply = serde_json::from_slice(&reply.payload).unwrap();
    let (status, output) = told(&reply);
    assert!(status == "error" && output.contains("tool a is gone from the team"), "{output}");
    node.drain(SOON).await;
}

async fn watch(node: &Node) -> Subscription {
    let team = node.team("crew").unwrap();
    node.bus().subscribe(&team.subjects().all_session_events(&name("crew")), None).await.unwrap()
}
