//! Checks that the shipped server configuration is taken by a real server and keeps its roles apart.

#![cfg(test)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Auth, Bus, NatsOptions};
use bytes::Bytes;
use wire::Headers;

const ROLES: [&str; 3] = ["daemon", "client", "tool"];

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
    let mut config = std::fs::read_to_string(root().join("deploy/nats-server.conf")).unwrap();
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
    assert!(!check(&["daemon", "client"]).status.success());
}

#[tokio::test]
async fn each_role_is_held_to_its_subjects() {
    let server = server().await;
    let cases: [(&str, &[&str], &[&str]); 3] = [
        (
            "daemon",
            &[
                "SUB callboard.v1.t.agent.lead.run callboard 1",
                "SUB $SRV.PING 2",
                "SUB _INBOX.x.* 3",
                "PUB callboard.v1.t.model.m 0\r\n",
                "PUB _INBOX_client.x.1 0\r\n",
            ],
            &[
                "SUB _INBOX_client.> 4",
                "SUB $SYS.> 5",
                "PUB $SYS.REQ.SERVER.PING 0\r\n",
                "PUB $JS.API.STREAM.CREATE.x 0\r\n",
            ],
        ),
        (
            "client",
            &[
                "PUB callboard.v1.t.agent.lead.run 0\r\n",
                "PUB callboard.v1.t.run.r.cancel 0\r\n",
                "PUB $SRV.INFO 0\r\n",
                "SUB _INBOX_client.x.* 1",
                "SUB callboard.v1.t.session.s.events 2",
            ],
            &[
                "PUB callboard.v1.t.tool.search 0\r\n",
                "PUB callboard.v1.t.model.m 0\r\n",
                "PUB callboard.v1.t.session.s.events 0\r\n",
                "PUB _INBOX.x.1 0\r\n",
                "PUB $JS.API.INFO 0\r\n",
                "PUB $SYS.REQ.SERVER.PING 0\r\n",
                "SUB $SYS.> 3",
                "SUB _INBOX.> 4",
                "SUB callboard.v1.> 5",
                "SUB callboard.v1.t.tool.search 6",
                "SUB callboard.v1.t.agent.lead.run callboard 7",
            ],
        ),
        (
            "tool",
            &[
                "SUB callboard.v1.t.tool.search callboard 1",
                "SUB callboard.v1.t.tool.search.stop 3",
                "SUB $SRV.PING 2",
            ],
            &[
                "PUB callboard.v1.t.agent.lead.run 0\r\n",
                "PUB callboard.v1.t.run.r.cancel 0\r\n",
                "PUB callboard.v1.t.tool.search 0\r\n",
                "PUB _INBOX.x.1 0\r\n",
                "SUB callboard.v1.t.agent.lead.run 3",
                "SUB _INBOX.> 4",
                "SUB $SYS.> 5",
                "SUB > 6",
            ],
        ),
    ];
    for (role, taken, refused) in cases {
        let mut connection = Connection::open(&server, role, &password(role)).ok().unwrap();
        for line in taken {
            assert_eq!(connection.refusal(line), None, "{role}: {line}");
        }
        for line in refused {
            let refusal = connection.refusal(line).unwrap_or_default();
            assert!(refusal.contains("Permissions Violation"), "{role}: {line}: {refusal:?}");
        }
    }
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
    let call = "callboard.v1.t.tool.search";
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
