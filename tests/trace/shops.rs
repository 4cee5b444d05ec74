//! Two companies on one NATS server, each a daemon of its own: the desk asks, the shop sells.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use bus::testing::NatsServer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::daemon::{Daemon, root};
use tests::install::install;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use wire::SpanRecord;

/// The team that asks, and the one that is asked.
pub(crate) const DESK: &str = "desk";
pub(crate) const SHOP: &str = "shop";

/// The answer to every request.
pub(crate) const ANSWER: &str = "the order is placed";

/// The subjects of the shop, which are not those of the desk.
const SHOP_PREFIX: &str = "shop.v1";

/// How long a store may lag behind a reply.
const KEPT_MAX: Duration = Duration::from_secs(20);

/// Both companies, and what they reach.
pub(crate) struct Shops {
    pub(crate) folder: TempDir,
    pub(crate) desk: Daemon,
    pub(crate) shop: Daemon,
    _echo: Child,
    _nats: NatsServer,
}

impl Shops {
    /// Starts all of it; spans go to a receiver.
    pub(crate) async fn start(otlp: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let nats = NatsServer::start("").await.unwrap();
        let (echo, port) = echo().await;
        let lines = install("mcp/servers.sh").await;
        let [_, _, python] = lines.as_slice() else { panic!("{lines:?}") };
        write_desk(folder.path(), otlp);
        write_shop(folder.path(), otlp, &port, python);
        let args = |team: &str, more: &[&str]| {
            let file = folder.path().join(format!("{team}.toml"));
            let data = folder.path().join(format!("data-{team}"));
            let mut args: Vec<OsString> = vec![file.into(), "--data".into(), data.into()];
            args.extend(["--nats".into(), nats.url().into()]);
            args.extend(more.iter().map(OsString::from));
            args
        };
        let shop = Daemon::start(&args(SHOP, &["--subject-prefix", SHOP_PREFIX])).await;
        let desk = Daemon::start(&args(DESK, &[])).await;
        Self { folder, desk, shop, _echo: echo, _nats: nats }
    }
}

/// Makes a client of HTTP.
pub(crate) fn client() -> reqwest::Client {
    // A second installation in one process is refused, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::new()
}

/// Asks an agent over HTTP and returns the reply.
pub(crate) async fn ask(daemon: &Daemon, agent: &str, body: &Value) -> Value {
    ask_from(daemon, agent, body, None).await
}

/// The same within a trace of the client.
pub(crate) async fn ask_from(
    daemon: &Daemon,
    agent: &str,
    body: &Value,
    traceparent: Option<&str>,
) -> Value {
    let url = format!("{}/v1/teams/{agent}/runs", daemon.http);
    let mut request = client().post(url).body(body.to_string());
    request = request.header("content-type", "application/json");
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    request.send().await.unwrap().json().await.unwrap()
}

/// Returns the spans that a daemon keeps of a trace, once there are enough: they are written beside
/// the reply, not before it.
pub(crate) async fn spans(
    daemon: &Daemon,
    team: &str,
    trace: &str,
    count: usize,
) -> Vec<SpanRecord> {
    let url = format!("{}/v1/teams/{team}/traces/{trace}", daemon.http);
    let end = Instant::now() + KEPT_MAX;
    loop {
        let answer = client().get(&url).send().await.unwrap();
        let body: Value = answer.json().await.unwrap();
        let spans: Vec<SpanRecord> =
            serde_json::from_value(body["spans"].clone()).unwrap_or_default();
        if spans.len() >= count {
            return spans;
        }
        assert!(Instant::now() < end, "{} of {count} spans: {spans:?}", spans.len());
        sleep(Duration::from_millis(20)).await;
    }
}

async fn echo() -> (Child, String) {
    let mut echo = Command::new("python3")
        .arg(root().join("tests/trace/echo_http.py"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(echo.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().unwrap();
    (echo, port)
}

fn write_desk(folder: &Path, otlp: &str) {
    write_script(folder, "lead", &[("clerk", json!({"task": "order a lamp"}))]);
    write_script(folder, "clerk", &[("teller", json!({"order": "a lamp"}))]);
    let text = format!(
        r#"
[team]
entry = "lead"
otlp_endpoint = "{otlp}"

[models.lead]
provider = "scripted"
script = "lead.jsonl"

[models.clerk]
provider = "scripted"
script = "clerk.jsonl"

[agents.lead]
description = "Takes orders."
instructions = "Have the clerk do it."
model = "lead"
agents = ["clerk"]

[agents.clerk]
description = "Places orders."
instructions = "Ask the shop."
model = "clerk"
tools = ["teller"]

[tools.teller]
kind = "nats"
description = "Asks the shop."
subject = "{SHOP_PREFIX}.{SHOP}.agent.teller.run"
body = {{ json = {{ input = "{{order}}" }} }}
parameters = {{ order = "string: what is wanted" }}
effect = "read"
"#
    );
    std::fs::write(folder.join("desk.toml"), text).unwrap();
}

fn write_shop(folder: &Path, otlp: &str, port: &str, python: &str) {
    let calls =
        [("site", json!({"item": "lamp"})), ("echo_seen", json!({})), ("printer", json!({}))];
    write_script(folder, "teller", &calls);
    let server = json!([python, root().join("tests/trace/echo_mcp.py")]);
    let text = format!(
        r#"
[team]
entry = "teller"
otlp_endpoint = "{otlp}"

[models.teller]
provider = "scripted"
script = "teller.jsonl"

[agents.teller]
description = "Sells."
instructions = "Look it up and sell it."
model = "teller"
tools = ["site", "echo_seen", "printer"]

[tools.site]
kind = "http"
description = "Looks an item up."
url = "http://127.0.0.1:{port}/items/{{item}}?shown={{item}}"
parameters = {{ item = "string: the item" }}

[mcp.echo]
command = {server}
tools = ["seen"]
effect = "read"

[tools.printer]
kind = "command"
description = "Prints the bill."
argv = ["printenv", "TRACEPARENT"]
sandbox = "none"
effect = "read"
"#
    );
    std::fs::write(folder.join("shop.toml"), text).unwrap();
}

/// Writes the replies of a model: calls, and then the answer.
pub(crate) fn write_script(folder: &Path, model: &str, calls: &[(&str, Value)]) {
    let calls = calls.iter().map(|(name, arguments)| json!({"name": name, "arguments": arguments}));
    let lines = [json!({"calls": calls.collect::<Value>()}), json!({"content": ANSWER})];
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join(format!("{model}.jsonl")), lines.join("\n")).unwrap();
}
