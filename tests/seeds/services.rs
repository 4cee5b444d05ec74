//! 001: tools that come and go while the daemon runs, here as NATS services that describe
//! themselves: the daemon is a process, the server and the services are not ours.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Bus, NatsOptions, Subscription};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tests::daemon::{Daemon, root};
use tests::install::install;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use wire::{Headers, ModelRequest, Name, RunReply, RunStatus, Subjects};

use crate::house::ANSWER_MAX;

/// How long a change of what is there may take to be seen: some looks, on a busy machine.
const SEEN_MAX: Duration = Duration::from_secs(60);

/// A service by another client library, there until it is dropped or stopped.
struct Desk(Child);

impl Desk {
    async fn start(nats: &NatsServer, name: &str, endpoints: &[&str]) -> Self {
        let lines = install("nats-client.sh").await;
        let [python] = lines.as_slice() else { panic!("{lines:?}") };
        let mut child = Command::new(python)
            .arg(root().join("tests/seeds/service.py"))
            .args([nats.url().as_str(), name])
            .args(endpoints)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = timeout(ANSWER_MAX, said.next_line()).await.unwrap().unwrap();
        assert_eq!(ready.as_deref(), Some("ready"));
        Self(child)
    }

    async fn stop(mut self) {
        drop(self.0.stdin.take());
        assert!(timeout(ANSWER_MAX, self.0.wait()).await.unwrap().unwrap().success());
    }
}

/// A client of a daemon that runs the team `crew` with one agent and one model.
struct Client {
    bus: Bus,
    requests: Subscription,
    /// The tools that the model was last sent; they are not sent again while they stay the same.
    offered: Vec<String>,
}

impl Client {
    async fn connect(nats: &NatsServer) -> Self {
        let bus = Bus::connect(NatsOptions::new([nats.url()])).await.unwrap();
        let subject = Subjects::default().model(&name("crew"), &name("m"));
        let requests = bus.subscribe(&subject, None).await.unwrap();
        bus.flush().await.unwrap();
        Self { bus, requests, offered: Vec::new() }
    }

    /// Says something, always in the same session.
    async fn say(&mut self, input: &str) -> RunReply {
        let subject = Subjects::default().agent_run(&name("crew"), &name("clerk"));
        let body = json!({"input": input, "session": "desk"}).to_string();
        let answer = self.bus.request(&subject, Headers::new(), body.into(), ANSWER_MAX).await;
        let reply: RunReply = serde_json::from_slice(&answer.unwrap().payload).unwrap();
        assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
        self.bus.flush().await.unwrap();
        while let Some(Some(message)) = self.requests.next().now_or_never() {
            let request: ModelRequest = serde_json::from_slice(&message.payload).unwrap();
            if let Some(head) = request.head {
                self.offered = head.tools.iter().map(|tool| tool.name.to_string()).collect();
            }
        }
        reply
    }

    /// Has a run made, and returns what its model was offered.
    async fn offered(&mut self) -> Vec<String> {
        self.say("hello").await;
        self.offered.clone()
    }

    async fn until_offered(&mut self, expected: &[&str]) {
        let seen = async {
            while self.offered().await != expected {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(SEEN_MAX, seen).await.unwrap_or_else(|_| panic!("never offered: {expected:?}"));
    }
}

/// Returns the tools that the team's service lists.
async fn listed(bus: &Bus) -> Vec<String> {
    let subject = "$SRV.INFO.callboard-crew";
    let listed = bus.request(subject, Headers::new(), "".into(), ANSWER_MAX).await.unwrap();
    let listed: Value = serde_json::from_slice(&listed.payload).unwrap();
    let endpoints = listed["endpoints"].as_array().unwrap().iter();
    let tools = endpoints.filter_map(|endpoint| endpoint["name"].as_str()?.strip_prefix("tool-"));
    tools.map(str::to_owned).collect()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Writes a team that looks for a service, and whose model calls what it is told to.
fn furnish(folder: &Path) {
    let call = |when: &str, id: u64| json!({"when": when, "calls": [{"name": "orders_show", "arguments": {"id": id}}]});
    let model = [
        call("(^|\n)show 7$", 7),
        call("(^|\n)show 404$", 404),
        json!({"when": "(^|\n)nap$", "calls": [{"name": "nap", "arguments": {}}]}),
        json!({"when": "rested", "calls": [{"name": "orders_show", "arguments": {"id": 8}}]}),
        json!({"when": ".", "content": "done"}),
    ];
    let lines: Vec<String> = model.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join("m.jsonl"), lines.join("\n")).unwrap();
    let team = "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
        [permissions]\nallow = ['orders_*', 'nap']\n\
        [discover.orders]\nservice = 'orders'\nuntrusted_output = false\n\
        [tools.nap]\nkind = 'nats'\nuntrusted_output = false\ndescription = 'Rests.'\nsubject = 'bed.nap'\n\
        [agents.clerk]\ninstructions = 'Look orders up.'\nmodel = 'm'\n\
        tools = ['nap', 'orders_*']\n";
    std::fs::write(folder.join("crew.toml"), team).unwrap();
}

#[tokio::test]
async fn seed_001_6_a_service_that_comes_is_offered_to_the_next_run_and_one_that_goes_is_not() {
    let nats = NatsServer::start("").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    furnish(folder.path());
    let (team, data) = (folder.path().join("crew.toml"), folder.path().join("data"));
    let arguments = [team.to_str().unwrap(), "--data", data.to_str().unwrap(), "--nats"];
    let url = nats.url();
    let mut daemon = Daemon::start(&[&arguments[..], &[url.as_str()]].concat()).await;
    let mut client = Client::connect(&nats).await;
    assert_eq!(client.offered().await, ["nap"]);

    let desk = Desk::start(&nats, "orders", &["show"]).await;
    client.until_offered(&["nap", "orders_show"]).await;
    let reply = client.say("show 7").await;
    let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
    let told: Value = serde_json::from_str(&source.output).unwrap();
    assert_eq!((&told["asked"], &told["body"]), (&json!("orders.show"), &json!({"id": 7})));
    let sent = told["headers"].as_array().unwrap();
    for header in ["Callboard-Remaining-Ms", "Idempotency-Key", "Nats-Msg-Id", "traceparent"] {
        assert!(sent.contains(&json!(header)), "{header}: {sent:?}");
    }
    let failed = client.say("show 404").await;
    assert!(failed.sources[0].output.contains("error 404: no such order"), "{failed:?}");
    // What cannot be offered is told, and the rest is offered.
    let log = daemon.log();
    assert!(log.contains("endpoint broken of service orders is not offered"), "{log}");

    // A run in work keeps the tool while its service goes; a call then fails, and does not hang.
    let bus = client.bus.clone();
    let mut bed = bus.subscribe("bed.nap", None).await.unwrap();
    bus.flush().await.unwrap();
    let gone = async {
        let nap = timeout(ANSWER_MAX, bed.next()).await.unwrap().unwrap();
        desk.stop().await;
        let seen = async {
            while listed(&bus).await != ["nap"] {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(SEEN_MAX, seen).await.unwrap();
        bus.reply(&nap, Headers::new(), "rested".into()).await.unwrap();
    };
    let (kept, ()) = tokio::join!(client.say("nap"), gone);
    let [_, source] = kept.sources.as_slice() else { panic!("{kept:?}") };
    assert_eq!(source.tool.as_str(), "orders_show");
    assert!(source.output.contains("nobody listens there"), "{}", source.output);

    // The next run is not offered it, and a call to it is feedback.
    client.until_offered(&["nap"]).await;
    assert!(client.say("show 7").await.sources.is_empty());

    // It comes back, also to a daemon that was not there meanwhile.
    daemon.kill().await;
    let _desk = Desk::start(&nats, "orders", &["show", "list"]).await;
    let _daemon = Daemon::start(&[&arguments[..], &[url.as_str()]].concat()).await;
    client.until_offered(&["nap", "orders_list", "orders_show"]).await;
}
