//! One life of a daemon: a whole node on some data, with the client of a scene and a person.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use journal::{Holder, Journal, Options};
use node::{Node, NodeOptions};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use wire::entry::{Body, Entry, Input};
use wire::open::OpenCallList;
use wire::subject::{CallVerb, RunVerb};
use wire::{Digest, Headers, Name, OpenKind, Plan, RunId, SessionId, Subjects, Timestamp};

use crate::camera::{Camera, Shot, copy, shelf};
use crate::check::is_at_rest;
use crate::outside::{Server, World};
use crate::scene::{Class, RUN, Scene, TEAM};

/// The longest time in which a run has to come to its end, on a busy machine.
const END_MAX: Duration = Duration::from_secs(30);

/// The bytes of all entries, by session.
pub(crate) type Entries = BTreeMap<SessionId, Vec<Bytes>>;

/// The plans of a team, by digest.
pub(crate) type Plans = HashMap<Digest, Arc<Plan>>;

/// What one life came to.
pub(crate) struct Lived {
    /// The reply to the client, and the reply when it asked once more.
    pub(crate) replies: [Bytes; 2],
    pub(crate) entries: Entries,
    pub(crate) plans: Plans,
    pub(crate) shots: Vec<Shot>,
}

/// What is there when a life begins.
pub(crate) struct Birth<'a> {
    pub(crate) scene: Scene,
    pub(crate) server: &'a Server,
    pub(crate) world: Arc<World>,
    /// The data directory.
    pub(crate) root: &'a Path,
    /// The entries that it holds.
    pub(crate) held: usize,
    /// The one point at which pictures are wanted, none for all.
    pub(crate) wanted: Option<String>,
    /// The run that the client asks for.
    pub(crate) run: &'a str,
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Returns what a crashed data directory holds, without touching it.
pub(crate) fn read_image(root: &Path) -> Result<Entries, String> {
    let copied = shelf();
    copy(root, copied.path());
    let dir = copied.path().join(TEAM);
    let (journal, report) = Journal::open(&dir, Options::default()).map_err(|e| e.to_string())?;
    if !report.damage.is_empty() {
        return Err(format!("the crash left damage: {:?}", report.damage));
    }
    let entries = entries_of(&journal);
    journal.close();
    Ok(entries)
}

pub(crate) fn entries_of(journal: &Journal) -> Entries {
    let read = |session: SessionId| {
        let entries = journal.read(&session).unwrap();
        (session, entries)
    };
    journal.sessions().into_iter().map(read).collect()
}

/// Adds the plans of runs of earlier lives, whose tools had other addresses.
fn add_plans(journal: &Journal, entries: &Entries, plans: &mut Plans) {
    for entry in entries.values().flatten() {
        let entry: Entry = serde_json::from_slice(entry).unwrap();
        if let Body::Session(Input::Submitted(submitted)) = entry.body {
            plans.entry(submitted.plan).or_insert_with(|| {
                let bytes = journal.blob(&submitted.plan).unwrap();
                Arc::new(serde_json::from_slice(&bytes).unwrap())
            });
        }
    }
}

/// Lives until the client has its reply and everything is at rest; then all of it is dropped, as
/// the end of a process drops it.
pub(crate) fn live(birth: &Birth<'_>) -> Result<Lived, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let lived = runtime.block_on(within(birth));
    runtime.shutdown_timeout(Duration::from_secs(5));
    lived
}

async fn within(birth: &Birth<'_>) -> Result<Lived, String> {
    let files = shelf();
    let file = birth.scene.write(files.path(), &birth.server.url(&birth.world));
    let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let mut plans: Plans = team
        .agents
        .values()
        .map(|plan| (plan.to_bytes().unwrap().0, Arc::new(plan.clone())))
        .collect();
    let dir = birth.root.join(TEAM);
    let camera = Camera::new(&dir, birth.world.clone(), birth.wanted.clone(), birth.held);
    birth.world.show(&camera);
    let _watching = journal::testing::watch(&dir, camera.clone());
    let node = start(team, Bus::local_tapped(camera.tap()), birth.root).await?;
    let person = tokio::spawn(person(node.bus().clone(), birth.scene, birth.world.clone()));

    let first = ask(&node, birth.scene, birth.run).await?;
    let journal = node.team(TEAM).unwrap().journal().clone();
    let end = Instant::now() + END_MAX;
    let entries = loop {
        let entries = entries_of(&journal);
        add_plans(&journal, &entries, &mut plans);
        match is_at_rest(&entries, &plans) {
            Ok(()) => break entries,
            Err(error) if Instant::now() > end => return Err(format!("no rest: {error}")),
            Err(_) => sleep(Duration::from_millis(2)).await,
        }
    };
    let shots = camera.finish(entries.clone());
    let second = ask(&node, birth.scene, birth.run).await?;
    person.abort();
    Ok(Lived { replies: [first, second], entries, plans, shots })
}

/// Names this process to others.
pub(crate) fn holder() -> Holder {
    Holder::this_process("test", Timestamp::from_micros(0))
}

/// Starts a node on some data.
pub(crate) async fn start(team: config::Team, bus: Bus, data: &Path) -> Result<Node, String> {
    let options = NodeOptions {
        data: data.to_owned(),
        holder: holder(),
        subjects: Subjects::default(),
        reserve_bytes: 0,
    };
    Node::start(vec![team], bus, options).await.map_err(|error| format!("no start: {error}"))
}

/// Asks for a run until there is a final reply, as a client does that must not lose it.
async fn ask(node: &Node, scene: Scene, run: &str) -> Result<Bytes, String> {
    ask_for(node, scene.request(run)).await
}

/// Asks the agent at the entry until there is a final reply.
pub(crate) async fn ask_for(node: &Node, request: String) -> Result<Bytes, String> {
    let team = node.team(TEAM).unwrap();
    let subject = team.subjects().agent_run(&team.team().name, &team.team().entry);
    let body = Bytes::from(request);
    let end = Instant::now() + END_MAX;
    loop {
        let limit = Duration::from_secs(5);
        let answer = node.bus().request(&subject, Headers::new(), body.clone(), limit).await;
        let told = match answer {
            Ok(answer) => {
                let reply: Value = serde_json::from_slice(&answer.payload).unwrap();
                if reply.get("status").is_some() {
                    return Ok(answer.payload);
                }
                reply.to_string()
            }
            Err(error) => error.to_string(),
        };
        if Instant::now() > end {
            return Err(format!("no reply: {told}"));
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Does what the person of a scene does, over and over: whoever died has not heard of it.
async fn person(bus: Bus, scene: Scene, world: Arc<World>) {
    let (subjects, team) = (Subjects::default(), name(TEAM));
    loop {
        sleep(Duration::from_millis(6)).await;
        match scene.class {
            Class::Cancelled => {
                let subject = subjects.run(&team, &RunId::new(RUN).unwrap(), RunVerb::Cancel);
                request(&bus, &subject, &Value::Null).await;
            }
            Class::Asked | Class::Allowed | Class::Denied => {
                let list = request(&bus, &subjects.calls(&team), &Value::Null).await;
                let list = list.and_then(|list| serde_json::from_slice::<OpenCallList>(&list).ok());
                for open in list.map(|list| list.calls).unwrap_or_default() {
                    let key = open.call.as_str();
                    let (verb, body) = match (open.kind, scene.class) {
                        (OpenKind::Approval, Class::Denied) => {
                            (CallVerb::Deny, json!({"reason": "no"}))
                        }
                        (OpenKind::Approval, _) => {
                            (CallVerb::Approve, json!({"digest": open.digest}))
                        }
                        (OpenKind::Unknown, _) if !open.waits => continue,
                        (OpenKind::Unknown, _) if world.settle(key) => {
                            let result = format!("LEDGER {key}");
                            (CallVerb::Resolve, json!({"done": true, "result": result}))
                        }
                        (OpenKind::Unknown | OpenKind::Question, _) => {
                            (CallVerb::Resolve, json!({"done": false, "attempt": open.attempt}))
                        }
                    };
                    request(&bus, &subjects.call(&team, &open.call, verb), &body).await;
                }
            }
            Class::Read
            | Class::Idempotent
            | Class::Once
            | Class::Probed
            | Class::Called
            | Class::Late => return,
        }
    }
}

async fn request(bus: &Bus, subject: &str, body: &Value) -> Option<Bytes> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let limit = Duration::from_secs(5);
    let answer = bus.request(subject, Headers::new(), body.into(), limit).await;
    answer.ok().map(|answer| answer.payload)
}
