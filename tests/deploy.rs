//! Checks that the shipped server configuration is taken by a real server and keeps its roles apart,
//! and that releases are built as they should be.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Auth, Bus, NatsOptions};
use bytes::Bytes;
use tests::results::{self, Row};
use wire::Headers;

const ROLES: [&str; 4] = ["daemon", "client", "tool", "observer"];

/// How long the server may take for a line; it needs a millisecond.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(20);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn variable(role: &str) -> String {
    format!("CALLBOARD_NATS_{}_PASSWORD", role.to_uppercase())
}

fn password(role: &str) -> String {
    format!("password-of-{role}")
}

/// Starts a server with the shipped file, its variables filled in as the environment would.
async fn server() -> NatsServer {
    server_with(&std::fs::read_to_string(root().join("deploy/nats-server.conf")).unwrap()).await
}

async fn server_with(config: &str) -> NatsServer {
    let mut config = config.to_owned();
    for role in ROLES {
        let variable = format!("${}", variable(role));
        assert!(config.contains(&variable), "{variable} is not in the file");
        config = config.replace(&variable, &format!("{:?}", password(role)));
    }
    // The server of a test has a directory of its own, and takes only one.
    let store = "store_dir: \"/var/lib/nats\"";
    assert!(config.contains(store), "{store} is not in the file");
    NatsServer::start(&config.replace(store, "")).await.unwrap()
}

/// A connection that speaks the protocol line by line, to see what the server says of each.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn open(server: &NatsServer, user: &str, password: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(ANSWER_WAIT_MAX)).unwrap();
        let mut connection = Self(BufReader::new(stream));
        let hello = format!(
            r#"CONNECT {{"verbose":false,"pedantic":false,"user":"{user}","pass":"{password}","headers":true}}"#
        );
        match connection.refusal(&hello) {
            None => Ok(connection),
            Some(refusal) => Err(refusal),
        }
    }

    /// Sends a line and returns the server's objection, if it has one.
    fn refusal(&mut self, line: &str) -> Option<String> {
        let stream = self.0.get_mut();
        stream.write_all(format!("{line}\r\nPING\r\n").as_bytes()).unwrap();
        let mut refusal = None;
        loop {
            let mut answer = String::new();
            let read = self.0.read_line(&mut answer).unwrap();
            if let Some(error) = answer.strip_prefix("-ERR ") {
                refusal = Some(error.trim().to_owned());
            }
            if read == 0 || answer.starts_with("PONG") {
                return refusal;
            }
        }
    }
}

#[tokio::test]
async fn the_shipped_file_is_valid() {
    // Starting a server sees to it that the binary is there.
    drop(server().await);
    let check = |roles: &[&str]| {
        let mut command = Command::new(root().join(".tools/nats/bin/nats-server"));
        command.arg("-t").arg("--config").arg(root().join("deploy/nats-server.conf"));
        for role in ROLES {
            command.env_remove(variable(role));
        }
        command.envs(roles.iter().map(|role| (variable(role), password(role)))).output().unwrap()
    };
    let output = check(&ROLES);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // A server without a password would let everybody in, so a missing one has to be fatal.
    assert!(!check(&["daemon", "client", "tool"]).status.success());
}

/// Returns what a setting of the unit says, which has to stand in a section, once.
fn setting<'u>(unit: &'u str, section: &str, name: &str) -> Option<&'u str> {
    let sections = unit.split("\n[").map(|part| part.trim_start_matches('['));
    let of = |part: &&'u str| part.starts_with(&format!("{section}]\n"));
    let mut lines = sections.filter(of).flat_map(str::lines);
    let said = lines.by_ref().find_map(|line| line.strip_prefix(&format!("{name}=")));
    assert!(lines.all(|line| !line.starts_with(&format!("{name}="))), "{name} is there twice");
    said
}

#[test]
fn the_unit_stays_up_and_is_started_again_until_what_it_needs_is_there() {
    let unit = std::fs::read_to_string(root().join("deploy/callboard.service")).unwrap();
    for (section, name, expected) in [
        // Without this, systemd gives up after a few starts within seconds.
        ("Unit", "StartLimitIntervalSec", Some("0")),
        ("Unit", "StartLimitBurst", None),
        ("Service", "Restart", Some("on-failure")),
        ("Service", "RestartSec", Some("1")),
        ("Service", "RestartSteps", Some("5")),
        ("Service", "RestartMaxDelaySec", Some("30")),
        // A usage fault alone stays as it is; what is away may come back.
        ("Service", "RestartPreventExitStatus", Some("2")),
        ("Service", "SuccessExitStatus", None),
        // The store may have to be filled before the daemon says that it is ready.
        ("Service", "TimeoutStartSec", Some("infinity")),
        // A tool that takes all memory ends alone.
        ("Service", "OOMPolicy", Some("continue")),
    ] {
        assert_eq!(setting(&unit, section, name), expected, "{name} in [{section}]");
    }
}

/// Has the compiler guided by a record, and returns what it says of it.
fn guided_by(record: &Path) -> String {
    let home = tempfile::tempdir().unwrap();
    let source = home.path().join("lib.rs");
    std::fs::write(&source, "pub fn twice(number: u32) -> u32 { 2 * number }").unwrap();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["-O", "--crate-type=lib", "--emit=obj", "--out-dir"])
        .arg(home.path())
        .arg(format!("-Cprofile-use={}", record.display()))
        .arg(&source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_compiler_takes_the_record_of_a_release() {
    assert_eq!(guided_by(&root().join("deploy/callboard.profdata")), "");
    let damaged = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(damaged.path(), "not a record").unwrap();
    let told = guided_by(damaged.path());
    assert!(told.contains("invalid instrumentation profile"), "{told}");

    let script = root().join("deploy/release.sh");
    let output = Command::new("sh").arg(&script).arg("--version").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.starts_with("cargo "), "{output:?}");
}

/// Returns the crates of a package, each with its features. What a macro is built of is left out:
/// cargo shows it with what the program has of the same crate, or by itself, as it comes first.
fn crates_of(package: &str) -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--edges", "normal", "--prefix", "depth"])
        .args(["--package", package, "--format", "{p} | {f}"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut crates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut of_macro = None;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let digits = line.find(|letter: char| !letter.is_ascii_digit()).unwrap();
        let (depth, line) = line.split_at(digits);
        let depth: u32 = depth.parse().unwrap();
        of_macro = of_macro.filter(|above| depth > *above);
        if of_macro.is_some() {
            continue;
        }
        of_macro = line.contains("(proc-macro)").then_some(depth);
        let (name, features) = line.split_once(" | ").unwrap();
        let features = features.strip_suffix(" (*)").unwrap_or(features).trim();
        crates.entry(name.to_owned()).or_default().insert(features.to_owned());
    }
    crates
}

/// The record knows a function by a name in which the features of its crate and of all that the
/// crate uses have a part.
#[test]
fn what_is_recorded_has_the_features_of_the_program() {
    let (program, recorded) = (crates_of("daemon"), crates_of("bench"));
    let shared: Vec<_> = program.iter().filter(|(name, _)| recorded.contains_key(*name)).collect();
    for own in ["node", "tokio"] {
        assert!(shared.iter().any(|(name, _)| name.starts_with(&format!("{own} v"))), "{own}");
    }
    for (name, features) in shared {
        assert_eq!(Some(features), recorded.get(name), "{name}: see tests/bench/Cargo.toml");
    }
}

/// Subjects that roles try to publish to and to hear.
fn subjects() -> Vec<String> {
    let of_team = [
        "agent.lead.run",
        "run.r.status",
        "run.r.result",
        "run.r.cancel",
        "run.r.answer",
        "calls",
        "owner",
        "call.c.approve",
        "session.s.events",
        "model.m",
        "model.m.stop",
        "tool.search",
        "tool.search.stop",
    ];
    let others = [
        "callboard.v2.t.agent.lead.run",
        "elsewhere",
        "tools.search",
        "$SRV.INFO",
        "_INBOX.x.1",
        "_INBOX_daemon.x.1",
        "_INBOX_client.x.1",
        "_INBOX_tool.x.1",
        "_INBOX_observer.x.1",
        "_INBOX_client2.x.1",
        "$JS.API.INFO",
        "$JS.API.STREAM.CREATE.x",
        "$JS.API.STREAM.LIST",
        "$JS.API.STREAM.MSG.GET.x",
        "$JS.API.CONSUMER.CREATE.x",
        "$JS.ACK.x.y.1.1.1.1.0",
        "$JS.FC.x.y",
        "$JS.EVENT.ADVISORY.API",
        "$KV.b.k",
        "$O.b.C.x",
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.ACCOUNT.CALLBOARD.CONNZ",
        "$SYS.REQ.USER.INFO",
        "$SYS.ACCOUNT.CALLBOARD.CONNECT",
        "$SRV.PING",
        "$SRV.INFO.callboard-t",
        "$SRV.STATS",
    ];
    let teams = ["t", "u"];
    let of_teams =
        teams.iter().flat_map(|team| of_team.map(|rest| format!("callboard.v1.{team}.{rest}")));
    of_teams.chain(others.map(str::to_owned)).collect()
}

/// Patterns that roles try to hear besides.
const PATTERNS: [&str; 23] = [
    ">",
    "*",
    "*.>",
    "*.*.*.agent.*.run",
    "callboard.>",
    "callboard.v1.>",
    "callboard.v1.*.agent.*.run",
    "callboard.v1.*.session.>",
    "callboard.v1.*.tool.>",
    "tools.>",
    "callboard.v1.t.>",
    "callboard.v1.u.>",
    "_INBOX.>",
    "_INBOX_daemon.>",
    "_INBOX_client.>",
    "_INBOX_tool.>",
    "_INBOX_observer.>",
    "$JS.>",
    "$JS.API.>",
    "$JS.ACK.>",
    "$SYS.>",
    "$KV.>",
    "$O.>",
];

/// What a role may publish to and hear of all that; the rest is refused.
struct Allowed {
    role: &'static str,
    publish: fn(&str) -> bool,
    subscribe: fn(&str) -> bool,
}

const ALLOWED: [Allowed; 3] = [
    Allowed {
        role: "client",
        publish: |subject| {
            let is_run = subject.contains(".run.r.") || subject.ends_with(".agent.lead.run");
            let is_service = subject.starts_with("$SRV.");
            is_run && subject.starts_with("callboard.v1.")
                || is_service
                || subject.starts_with("_INBOX_client.")
        },
        subscribe: |subject| subject.starts_with("_INBOX_client."),
    },
    Allowed {
        role: "tool",
        publish: |subject| subject.starts_with("_INBOX_tool."),
        subscribe: |subject| {
            ["tools.", "$SRV.", "_INBOX_tool."].iter().any(|begins| subject.starts_with(begins))
        },
    },
    Allowed {
        role: "observer",
        publish: |subject| subject.starts_with("_INBOX_observer."),
        subscribe: |subject| {
            let is_event = subject.ends_with(".session.s.events");
            is_event || subject.starts_with("_INBOX_observer.")
        },
    },
];

/// Lets every role but the daemon try everything, and returns how much was let through and refused.
///
/// `is_mine` tells of a subject of a team whether it is of one that the roles are for.
async fn tries(config: &str, is_mine: fn(&str) -> bool) -> (usize, usize) {
    let server = server_with(config).await;
    let (mut taken, mut refused) = (0, 0);
    for Allowed { role, publish, subscribe } in ALLOWED {
        let mut connection = Connection::open(&server, role, &password(role)).ok().unwrap();
        let publishing = subjects().into_iter().map(|subject| {
            (format!("PUB {subject} 0\r\n"), publish(&subject) && is_mine(&subject))
        });
        let heard = subjects().into_iter().chain(PATTERNS.map(str::to_owned)).flat_map(|subject| {
            let may = subscribe(&subject) && is_mine(&subject);
            ["", " callboard"].map(|queue| (format!("SUB {subject}{queue} 1\r\nUNSUB 1"), may))
        });
        for (line, may) in publishing.chain(heard) {
            let refusal = connection.refusal(&line);
            if may {
                assert_eq!(refusal, None, "{role}: {line}");
                taken += 1;
            } else {
                let told = refusal.unwrap_or_default();
                assert!(told.contains("Permissions Violation"), "{role}: {line}: {told:?}");
                refused += 1;
            }
        }
    }
    (taken, refused)
}

#[tokio::test]
async fn each_role_is_held_to_its_subjects() {
    let shipped = std::fs::read_to_string(root().join("deploy/nats-server.conf")).unwrap();
    let all = tries(&shipped, |_| true).await;
    // As the file says for roles that are for one team.
    let scoped = shipped.replace("\"callboard.v1.*.", "\"callboard.v1.t.");
    assert_ne!(scoped, shipped);
    let one = tries(&scoped, |subject| {
        !subject.starts_with("callboard.v1.u.") && !subject.starts_with("callboard.v1.*.")
    })
    .await;
    assert!(all.0 > one.0 && all.1 < one.1, "{all:?} {one:?}");
    let (taken, refused) = (all.0 + one.0, all.1 + one.1);
    results::record(&Row {
        id: "T30",
        what: "what client, tool and observer may do on a nats-server with the shipped configuration",
        held: &format!(
            "{} tries: {taken} let through as listed, {refused} refused",
            taken + refused
        ),
        passes: "all refused but the listed",
        command: "cargo test -p tests --test deploy each_role -- --nocapture",
    });
}

#[tokio::test]
async fn the_daemon_reaches_its_subjects_and_no_inbox_of_others() {
    let server = server().await;
    let mut connection = Connection::open(&server, "daemon", &password("daemon")).ok().unwrap();
    for line in [
        "SUB callboard.v1.t.agent.lead.run callboard 1",
        "SUB $SRV.PING 2",
        "SUB _INBOX.x.* 3",
        "PUB callboard.v1.t.model.m 0\r\n",
        "SUB callboard.v1.t.owner 4",
        "PUB callboard.v1.t.owner 0\r\n",
        "PUB tools.search 0\r\n",
        "PUB $SRV.INFO 0\r\n",
        "PUB $SRV.INFO.orders 0\r\n",
        "PUB _INBOX_client.x.1 0\r\n",
        "PUB _INBOX_observer.x.1 0\r\n",
    ] {
        assert_eq!(connection.refusal(line), None, "{line}");
    }
    for line in [
        "SUB _INBOX_client.> 5",
        "SUB _INBOX_tool.> 5",
        "SUB $SYS.> 6",
        "SUB > 7",
        "PUB $SRV.PING 0\r\n",
        "PUB $SYS.REQ.SERVER.PING 0\r\n",
        "PUB $JS.API.STREAM.CREATE.x 0\r\n",
        "PUB $JS.ACK.x 0\r\n",
    ] {
        let refusal = connection.refusal(line).unwrap_or_default();
        assert!(refusal.contains("Permissions Violation"), "{line}: {refusal:?}");
    }
}

#[tokio::test]
async fn a_tool_answers_each_call_once_and_nothing_else() {
    let server = server().await;
    let mut tool = Connection::open(&server, "tool", &password("tool")).ok().unwrap();
    let mut daemon = Connection::open(&server, "daemon", &password("daemon")).ok().unwrap();
    let answer = "PUB _INBOX_daemon.x.7 0\r\n";
    assert_eq!(tool.refusal("SUB tools.search callboard 1"), None);
    assert!(tool.refusal(answer).is_some(), "nothing was asked");
    let ask = "PUB tools.search _INBOX_daemon.x.7 0\r\n";
    assert_eq!(daemon.refusal(ask), None);
    assert_eq!(tool.refusal("PUB _INBOX_tool.x.1 0\r\n"), None);
    assert_eq!(tool.refusal(answer), None);
    assert!(tool.refusal(answer).is_some(), "it is answered already");
}

#[tokio::test]
async fn strangers_are_refused() {
    let server = server().await;
    for (user, password) in [("client", "guess"), ("", ""), ("nobody", "password-of-client")] {
        let refusal = Connection::open(&server, user, password).err().unwrap_or_default();
        assert!(refusal.contains("Authorization Violation"), "{user}: {refusal:?}");
    }
}

#[tokio::test]
async fn the_roles_can_work_together() {
    let server = server().await;
    let connect = async |role: &str, inbox_prefix: &str| {
        let mut options = NatsOptions::new([server.url()]);
        options.auth = Auth::User { user: role.to_owned(), password: password(role).into() };
        options.inbox_prefix = inbox_prefix.to_owned();
        Bus::connect(options).await.unwrap()
    };
    let daemon = connect("daemon", "_INBOX").await;
    let client = connect("client", "_INBOX_client").await;
    let tool = connect("tool", "_INBOX_tool").await;
    let run = "callboard.v1.t.agent.lead.run";
    let call = "tools.search";
    let mut runs = daemon.subscribe(run, Some("callboard")).await.unwrap();
    let mut calls = tool.subscribe(call, Some("callboard")).await.unwrap();
    daemon.flush().await.unwrap();
    tool.flush().await.unwrap();

    let asked = client.request(run, Headers::new(), Bytes::from("who?"), ANSWER_WAIT_MAX);
    let answered = async {
        let request = runs.next().await.unwrap();
        let body = request.payload.clone();
        let found = daemon.request(call, Headers::new(), body, ANSWER_WAIT_MAX).await.unwrap();
        daemon.reply(&request, Headers::new(), found.payload).await.unwrap();
    };
    let called = async {
        let request = calls.next().await.unwrap();
        tool.reply(&request, Headers::new(), Bytes::from("she")).await.unwrap();
    };
    let (answer, (), ()) = tokio::join!(asked, answered, called);
    assert_eq!(answer.unwrap().payload, Bytes::from("she"));
}
