//! Servers that are not ours, over both transports and both protocols.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::house::{House, installed, until};

/// Starts a server of HTTP and waits until it listens.
pub(crate) async fn serve(words: &[String], env: &[(&str, String)], port: u16) -> Child {
    let [program, arguments @ ..] = words else { panic!("no command") };
    let child = Command::new(program)
        .args(arguments)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let connects = async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok();
    until("the server listens", connects).await;
    child
}

pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn published_servers_are_called_over_stdio() {
    let installed = installed().await;
    let mut house = House::new(
        &["everything_*", "files_read_text_file", "memory_create_entities"],
        "",
        &[
            ("everything_echo", json!({"message": "hello"})),
            ("everything_get-sum", json!({"a": 2, "b": 40})),
            ("everything_get-tiny-image", json!({})),
            ("files_read_text_file", json!({"path": "note.txt"})),
            ("files_read_text_file", json!({"path": "/etc/passwd"})),
            (
                "memory_create_entities",
                json!({"entities": [
                {"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}]}),
            ),
            ("everything_get-structured-content", json!({"location": "New York"})),
        ],
    );
    let team = std::fs::read_to_string(house.file()).unwrap();
    let servers = format!(
        "[mcp.everything]\ncommand = {}\ntools = ['*']\n\
         [mcp.files]\ncommand = {}\ntools = ['read_text_file', 'write_file']\neffect = 'read'\n\
         [mcp.memory]\ncommand = {}\nenv = {{ MEMORY_FILE_PATH = {} }}\ntools = ['*']\n",
        installed.published("everything", &["stdio"]),
        installed.published("filesystem", &["."]),
        installed.published("memory", &[]),
        json!(house.folder.path().join("memory.jsonl")),
    );
    std::fs::write(house.file(), format!("{team}{servers}")).unwrap();
    std::fs::write(house.folder.path().join("note.txt"), "remember the milk").unwrap();

    // Nothing is known of the tools yet, and still the file is sound.
    assert_eq!(house.load().unlisted().count(), 3);
    let complete = house.complete().await;
    assert_eq!(complete.unlisted().count(), 0);
    let offers = &complete.agents["caller"].tools;
    let effect = |name: &str| {
        let offer = offers.iter().find(|offer| offer.spec.name.as_str() == name).unwrap();
        offer.effect.as_str()
    };
    assert!(offers.len() >= 10, "{offers:?}");
    assert_eq!(effect("everything_echo"), "once", "the hints of strangers loosen nothing");
    assert_eq!(effect("files_read_text_file"), "read");
    assert_eq!(
        complete.tools["files_write_file"].offer.effect.as_str(),
        "idempotent",
        "hints make it stricter than configured"
    );

    house.start().await;
    let said = async |index| {
        let source = house.call(index).await;
        (source.status, source.output)
    };
    assert_eq!(said(0).await, ("ok".to_owned(), "Echo: hello".to_owned()));
    assert_eq!(said(1).await.1, "The sum of 2 and 40 is 42.");
    let image = said(2).await.1;
    assert!(image.contains("[image, image/png, "), "{image}");
    assert!(!image.contains("iVBOR"), "{image}");
    let (status, text) = said(3).await;
    assert_eq!(status, "ok");
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({"content": "remember the milk"})
    );
    let (status, text) = said(4).await;
    assert_eq!(status, "error");
    assert!(text.contains("E3003") && text.contains("denied"), "{text}");
    assert_eq!(said(5).await.0, "ok");
    let kept = std::fs::read_to_string(house.folder.path().join("memory.jsonl")).unwrap();
    assert!(kept.contains("wrote programs"), "{kept}");
    let (status, text) = said(6).await;
    assert_eq!(status, "ok");
    assert!(serde_json::from_str::<Value>(&text).unwrap()["temperature"].is_number(), "{text}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_http_may_come_and_go() {
    let installed = installed().await;
    let port = free_port();
    let words: Vec<String> =
        serde_json::from_str(&installed.published("everything", &["streamableHttp"])).unwrap();
    let env = [("PORT", port.to_string())];
    let mut server = serve(&words, &env, port).await;
    let servers =
        format!("[mcp.every]\nurl = 'http://127.0.0.1:{port}/mcp'\ntools = ['*']\nprefix = ''");
    let calls = [("echo", json!({"message": "one"})), ("echo", json!({"message": "two"}))];
    let mut house = House::started(&["echo"], &servers, &calls).await;
    assert_eq!(house.call(0).await.output, "Echo: one");

    server.kill().await.unwrap();
    // The connection of the session breaks before the call, or by it.
    let away = house.call(0).await;
    assert_ne!(away.status, "ok", "{away:?}");
    let _server = serve(&words, &env, port).await;
    until("it is back", async || house.call(1).await.output == "Echo: two").await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_the_current_protocol_are_understood() {
    let installed = installed().await;
    let port = free_port();
    let _server = serve(&installed.sdk(&port.to_string()), &[], port).await;
    let servers = format!(
        "[mcp.pipe]\ncommand = {}\ntools = ['*']\n\
         [mcp.web]\nurl = 'http://127.0.0.1:{port}/mcp'\ntools = ['*']\n",
        json!(installed.sdk("stdio")),
    );
    let calls = [
        ("pipe_add", json!({"a": 1, "b": 2})),
        ("web_add", json!({"a": 3, "b": 4})),
        ("pipe_speaks", json!({})),
        ("web_speaks", json!({})),
        ("web_grow", json!({})),
    ];
    let mut house = House::started(&["pipe_*", "web_*"], &servers, &calls).await;
    // They take their time to start.
    for (index, result) in [(0, r#"{"result":3}"#), (1, r#"{"result":7}"#)] {
        until("the server adds", async || house.call(index).await.output == result).await;
    }
    for index in [2, 3] {
        let spoken = house.call(index).await.output;
        assert!(spoken.contains("2026-07-28"), "{index}: {spoken}");
    }
    // Told on a stream that has to be listened to.
    assert_eq!(house.call(4).await.output, r#"{"result":"grown"}"#);
    until("the tool that is gone is refused", async || {
        let source = house.call(1).await;
        source.status == "error" && source.output.contains("has no tool \\\"add\\\" any more")
    })
    .await;
    house.end().await;
}
