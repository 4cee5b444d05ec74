//! A server that dies, hangs, breaks its promises and becomes another one.

use std::time::Duration;

use serde_json::{Value, json};
use tests::daemon::root;
use tests::processes::processes;
use wire::ErrorCode;

use crate::house::{House, installed, read, until};

async fn server(more: &str) -> String {
    format!("[mcp.own]\ncommand = {}\ntools = ['*']\n{more}", installed().await.own())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_carries_who_makes_it_and_a_server_sees_no_more_than_it_should() {
    let script = root().join("Cargo.toml");
    let more = format!("env = {{ OWN = 'text', TOKEN = {{ file = {script:?}, prefix = 'x ' }} }}");
    let calls = [
        ("own_meta", json!({})),
        ("own_env", json!({})),
        ("own_typed", json!({"number": 1})),
        ("own_typed", json!({"number": "one"})),
        ("own_ask", json!({})),
        ("own_wide", json!({})),
    ];
    let mut house = House::started(&["own_*"], &server(&more).await, &calls).await;

    let reply = house.run(0).await;
    let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
    let meta: Value = serde_json::from_str(&source.output).unwrap();
    assert_eq!(meta[tools::mcp::CALL_KEY_FIELD], json!(source.call), "{meta}");
    let traceparent = meta["traceparent"].as_str().unwrap();
    assert!(traceparent.contains(&reply.trace_id), "{traceparent} {}", reply.trace_id);

    let env: Value = serde_json::from_str(&house.call(1).await.output).unwrap();
    let known = ["HOME", "LANG", "LC_CTYPE", "OWN", "PATH", "PWD", "TMPDIR", "TOKEN", "TZ", "USER"];
    for name in env.as_object().unwrap().keys() {
        assert!(known.contains(&name.as_str()), "{name} was passed on");
    }
    assert_eq!(env["OWN"], "text");

    let typed = house.call(2).await;
    assert_eq!((typed.status.as_str(), typed.output.as_str()), ("ok", r#"{"number":1}"#));
    let untyped = house.call(3).await;
    assert_eq!(untyped.status, "error");
    assert!(untyped.output.contains("does not obey the schema"), "{}", untyped.output);
    // A server that was not told that a person can be asked may ask anyway.
    assert_eq!(house.call(4).await.output, "the person said: decline");
    let wide = house.call(5).await.output;
    assert!(wide.ends_with("\n[cut after 65536 bytes]"), "{}", wide.len());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_server_that_dies_ends_as_its_effect_says() {
    let calls = [("own_die", json!({})), ("own_die", json!({})), ("look", json!({}))];
    let table = "[tools.look]\nkind = 'mcp'\nserver = 'own'\neffect = 'read'\n";
    let mut house = House::started(&["own_die", "look"], &server(table).await, &calls).await;

    let died = house.call(0).await;
    assert_eq!(died.status, "unknown", "{died:?}");
    assert!(died.output.contains("went away during the call"), "{}", died.output);
    let began = tokio::time::Instant::now();
    let alive = house.call(1).await;
    assert_eq!((alive.status.as_str(), alive.output.as_str()), ("ok", "alive"));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());

    std::fs::remove_file(house.folder.path().join("died")).unwrap();
    let looked = house.call(2).await;
    assert_eq!((looked.status.as_str(), looked.output.as_str()), ("ok", "alive"), "it may repeat");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_started_ends_with_it() {
    let seconds = format!("5{:07}", std::process::id());
    let calls = [("own_start", json!({"seconds": seconds})), ("own_die", json!({}))];
    let mut house = House::started(&["own_*"], &server("").await, &calls).await;
    assert_eq!(house.call(0).await.output, "started");
    assert_eq!(processes(&seconds), 1);
    assert_eq!(house.call(1).await.status, "unknown", "it dies");
    assert_eq!(house.call(1).await.output, "alive", "it is there again");
    assert_eq!(processes(&seconds), 0);

    assert_eq!(house.call(0).await.output, "started");
    assert_eq!(processes(&seconds), 1);
    house.end().await;
    until("none is left", async || processes(&seconds) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_end_by_itself_is_killed() {
    let stubborn = format!("stubborn {}", std::process::id());
    let own = server("").await.replace("\".\"]", &format!("\".\", {stubborn:?}]"));
    let calls = [("own_say", json!({"text": "hi"}))];
    let mut house = House::started(&["own_*"], &own, &calls).await;
    assert_eq!(house.call(0).await.output, "hi");
    assert_eq!(processes(&stubborn), 1);
    house.end().await;
    assert_eq!(processes(&stubborn), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_given_up_before_it_was_ready_is_killed() {
    let seconds = format!("6{:07}", std::process::id());
    let script = format!("trap '' TERM; sleep {seconds} & sleep {seconds}");
    let silent = format!(
        "[mcp.own]\ncommand = {}\ntools = ['*']\nstart_timeout_ms = 1000\n",
        json!(["sh", "-c", script])
    );
    let house = House::new(&["own_say"], &silent, &[]);
    let error = node::catalogs(&house.load(), &house.data()).await.unwrap_err().to_wire();
    assert!(error.message.contains("was not ready within 1.0 s"), "{error}");
    until("none is left", async || processes(&seconds) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_slow_to_start_is_waited_for() {
    // Longer than a client waits for an answer to `server/discover`.
    let slow = r#"command = ["sh", "-c", 'sleep 12; exec "$0" "$@"', "#;
    let own = server("").await.replace("command = [", slow);
    let calls = [("own_say", json!({"text": "hi"}))];
    let mut house = House::started(&["own_*"], &own, &calls).await;
    assert_eq!(house.call(0).await.output, "hi");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_that_nobody_waits() {
    let calls = [("hang", json!({}))];
    let table = "[tools.hang]\nkind = 'mcp'\nserver = 'own'\ntimeout_ms = 1000\n";
    let mut house = House::started(&["hang"], &server(table).await, &calls).await;
    assert_eq!(house.call(0).await.status, "unknown");
    let heard = house.folder.path().join("heard");
    until("the server hears it", async || read(&heard).contains("notifications/cancelled")).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_becomes_another_one_is_off_until_a_person_approves() {
    let calls =
        [("own_say", json!({"text": "hi"})), ("own_evolve", json!({})), ("own_extra", json!({}))];
    let mut house = House::started(&["own_*"], &server("").await, &calls).await;
    until("the server answers", async || house.call(0).await.output == "hi").await;
    assert_eq!(house.call(1).await.output, "evolved");
    let is_off = |output: &str| output.contains(ErrorCode::ToolChanged.as_str());
    until("the tool is off", async || is_off(&house.call(0).await.output)).await;
    assert_eq!(house.call(1).await.status, "ok", "the others go on");

    // A restart changes nothing: what was pinned is offered, and it is not what is there.
    house.end().await;
    house.start().await;
    let refused = house.call(0).await;
    assert!(is_off(&refused.output) && refused.output.contains("its description changed"));

    // Approved, it is on again without another restart.
    let (team, name) = (house.load(), wire::Name::new("own").unwrap());
    let found = node::compare(&team, &house.data(), &name).await.unwrap();
    node::approve(&team, &house.data(), &name, &found.listed).await.unwrap();
    until("the tool is on", async || house.call(0).await.output == "hi").await;
    // Plans follow tools, so that a run may still begin with the one before.
    let is_made = async || {
        let reply = house.run(2).await;
        reply.sources.iter().any(|source| source.output.contains("no tool extra"))
    };
    until("the new one is offered, and called", is_made).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_server_need_not_be_there() {
    let calls = [("own_say", json!({"text": "hi"}))];
    let mut house = House::new(&["own_say"], &server("timeout_ms = 1000").await, &calls);
    let team = read(&house.file());
    let broken = team.replace("server.py", "none.py");
    std::fs::write(house.file(), &broken).unwrap();
    let error = node::catalogs(&house.load(), &house.data()).await.unwrap_err().to_wire();
    assert_eq!(error.code, ErrorCode::ToolUnavailable);
    // It is named, and its last words are told.
    assert!(error.message.contains("MCP server own"), "{error}");
    assert!(error.message.contains("No such file"), "{error}");

    std::fs::write(house.file(), &team).unwrap();
    node::catalogs(&house.load(), &house.data()).await.unwrap();
    std::fs::write(house.file(), &broken).unwrap();
    house.start().await;
    let away = house.call(0).await;
    assert_eq!(away.status, "error");
    assert!(away.output.contains("E3005") && away.output.contains("is away"), "{}", away.output);
    house.end().await;
}
