mod own;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::{CallOutcome, EffectClass, ErrorCode, Name, ToolReply};

use super::super::dial::LOOK_EVERY;
use super::super::look::REFUSED_PAUSE;
use super::super::{McpSpec, McpTool, Servers};
use crate::testing::context;
use crate::tool::Tool as _;
use own::{JSON, Lists, Own, START_MAX, listed};

/// How long a call of a test may take.
const CALL_MAX: Duration = Duration::from_secs(20);

async fn call(name: &str, arguments: Value, servers: &Servers, time: Duration) -> ToolReply {
    let listed = listed().into_iter().find(|listed| listed.name == name).unwrap();
    let spec = McpSpec {
        server: Name::new("own").unwrap(),
        listed: Arc::new(listed),
        effect: EffectClass::Once,
        response_bytes_max: 1000,
        elicitation: true,
    };
    McpTool::new(spec, servers).call(&context(time), &arguments).await
}

fn called(name: &'static str, servers: &Servers) -> JoinHandle<ToolReply> {
    let servers = servers.clone();
    tokio::spawn(async move { call(name, json!({}), &servers, 100 * CALL_MAX).await })
}

async fn heard(told: &Notify) {
    tokio::time::timeout(CALL_MAX, told.notified()).await.unwrap();
}

fn said(text: &str) -> ToolReply {
    ToolReply::settled(CallOutcome::text(text))
}

fn no(text: &str) -> ToolReply {
    let text = format!("MCP server own refused the call: {text}");
    ToolReply::settled(CallOutcome::error(ErrorCode::ToolFailed, text))
}

#[tokio::test]
async fn a_call_without_a_result_does_not_end_other_calls() {
    let own = Own::start().await;
    let servers = own.connect();
    let slow = called("slow", &servers);
    heard(&own.state.called).await;
    heard(&own.state.looked).await;
    let refused = |status: &str, headers: &str| json!({"status": status, "headers": headers});
    let unnamed = |status: &str, id: &str| json!({"status": status, "headers": JSON, "id": id});
    let lost = |code| (true, code, None);
    let settled = |retry_after_ms| (false, ErrorCode::ToolFailed, retry_after_ms);
    for (name, arguments, expected, part) in [
        ("odd", json!({}), lost(ErrorCode::ToolFailed), "no result of a call"),
        ("refuse", refused("400 Bad Request", ""), settled(None), "Bad Request: so it is"),
        ("refuse", refused("401 Unauthorized", "www-authenticate: x\r\n"), settled(None), "Auth"),
        ("refuse", refused("403 Forbidden", "www-authenticate: x\r\n"), settled(None), "scope"),
        ("refuse", refused("403 Forbidden", ""), settled(None), "HTTP 403"),
        ("refuse", refused("404 Not Found", ""), settled(None), "HTTP 404"),
        ("refuse", refused("429 No", "retry-after: 7\r\n"), settled(Some(7000)), "HTTP 429"),
        ("refuse", refused("503 No", "retry-after: 1\r\n"), settled(Some(1000)), "HTTP 503"),
        ("refuse", refused("500 No", ""), settled(None), "HTTP 500"),
        ("refuse", refused("502 No", ""), lost(ErrorCode::ToolUnavailable), "HTTP 502"),
        ("refuse", refused("504 No", ""), lost(ErrorCode::ToolTimeout), "HTTP 504"),
        ("refuse", refused("303 See Other", ""), lost(ErrorCode::ToolFailed), "HTTP 303"),
        ("refuse", refused("200 OK", ""), lost(ErrorCode::ToolFailed), "cannot be read"),
        ("refuse", unnamed("400 Bad Request", ""), settled(None), "the call: so it is"),
        ("refuse", unnamed("500 No", "other"), settled(None), "the call: so it is"),
    ] {
        let case = arguments.to_string();
        let reply = call(name, arguments, &servers, CALL_MAX).await;
        let (is_lost, error) = match reply {
            ToolReply::Lost { error, .. } => (true, error),
            ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } => (false, error),
            reply => panic!("{case}: {reply:?}"),
        };
        assert_eq!((is_lost, error.code, error.retry_after_ms), expected, "{case}: {error}");
        assert!(error.message.contains(part), "{case}: {error}");
    }
    // A request that breaks off has the server looked at, which is there.
    let lost = call("hang_up", json!({}), &servers, CALL_MAX).await;
    assert!(matches!(lost, ToolReply::Lost { .. }), "{lost:?}");
    heard(&own.state.looked).await;
    assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"));
    own.state.go_on.notify_one();
    assert_eq!(slow.await.unwrap(), said("done"));
    servers.close().await;
    own.end().await;
}

#[tokio::test]
async fn a_call_of_a_session_that_is_over_is_lost_and_one_that_finds_it_over_is_made_in_another() {
    let own = Own::start().await;
    *own.state.session.lock().unwrap() = Some("first");
    let servers = own.connect();
    let slow = called("slow", &servers);
    heard(&own.state.called).await;
    *own.state.session.lock().unwrap() = Some("second");
    assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"));
    let lost = slow.await.unwrap();
    assert!(matches!(lost, ToolReply::Lost { .. }), "{lost:?}");

    // One that knows its session for all but the call is not asked for ever.
    let refused = json!({"status": "404 Not Found", "headers": ""});
    let reply = call("refuse", refused, &servers, CALL_MAX).await;
    let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = &reply else {
        panic!("{reply:?}")
    };
    assert_eq!(error.code, ErrorCode::ToolUnavailable);
    assert!(error.message.contains("takes no call, and this one was not made"), "{error}");
    servers.close().await;
    own.end().await;
}

#[tokio::test]
async fn a_session_that_is_refused_without_a_word_of_the_request_is_opened_anew() {
    for (status, id) in [
        ("400 Bad Request", Value::Null),
        ("400 Bad Request", json!("server-error")),
        ("500 Internal Server Error", Value::Null),
        ("200 OK", Value::Null),
    ] {
        let own = Own::start().await;
        *own.state.session.lock().unwrap() = Some("first");
        *own.state.refusal.lock().unwrap() = Some((status, id.clone()));
        let servers = own.connect();
        heard(&own.state.opened).await;
        heard(&own.state.looked).await;
        // One that says so of a call alone knows the session.
        let slow = called("slow", &servers);
        heard(&own.state.called).await;
        let unnamed = json!({"status": status, "headers": JSON, "id": "other"});
        let refused = call("refuse", unnamed, &servers, CALL_MAX).await;
        assert_eq!(refused, no("so it is"), "{status} {id}");
        heard(&own.state.looked).await;
        own.state.go_on.notify_one();
        assert_eq!(slow.await.unwrap(), said("done"), "{status} {id}");

        *own.state.session.lock().unwrap() = Some("second");
        let refused = call("say", json!({}), &servers, CALL_MAX).await;
        assert_eq!(refused, no("No valid session ID"), "{status} {id}");
        heard(&own.state.opened).await;
        assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"), "{status} {id}");
        servers.close().await;
        own.end().await;
    }
}

#[tokio::test]
async fn a_call_that_has_asked_is_not_begun_anew_in_another_session() {
    let own = Own::start().await;
    *own.state.session.lock().unwrap() = Some("first");
    let servers = own.connect();
    let lost = call("ask", json!({}), &servers, CALL_MAX).await;
    let ToolReply::Lost { error, .. } = &lost else { panic!("{lost:?}") };
    assert_eq!(error.code, ErrorCode::ToolUnavailable);
    assert!(error.message.contains("during the call, between two rounds"), "{error}");
    // The session is found to be over, and another one is opened.
    assert_eq!(call("ask", json!({}), &servers, CALL_MAX).await, said("said"));
    servers.close().await;
    own.end().await;
}

#[tokio::test]
async fn a_call_that_reaches_nobody_was_not_made_and_waits() {
    let own = Own::start().await;
    let servers = own.connect();
    assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"));
    let address = own.end().await;
    let away = call("say", json!({}), &servers, Duration::from_secs(2)).await;
    let ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } = &away else {
        panic!("{away:?}")
    };
    assert_eq!(error.code, ErrorCode::ToolUnavailable);
    for part in ["is away", "Connection refused", "the call was not made"] {
        assert!(error.message.contains(part), "{part}: {error}");
    }

    let own = Own::at(address).await;
    assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"));
    servers.close().await;
    own.end().await;
}

/// Waits until tools are off, since the list says something else of them.
async fn off(servers: &Servers) {
    let is_off = async {
        loop {
            match call("say", json!({}), servers, CALL_MAX).await {
                ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } => break error,
                reply => assert_eq!(reply, said("said")),
            }
        }
    };
    let error = tokio::time::timeout(CALL_MAX, is_off).await.unwrap();
    assert_eq!(error.code, ErrorCode::ToolChanged, "{error}");
}

/// Lets time pass at once.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_server_that_says_nothing_of_changes_is_looked_at_once_a_minute() {
    let own = Own::start().await;
    let servers = own.connect();
    assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"));
    heard(&own.state.looked).await;
    "Another.".clone_into(&mut own.state.description.lock().unwrap());
    assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"));
    pass(LOOK_EVERY).await;
    heard(&own.state.looked).await;
    off(&servers).await;
    servers.close().await;
    own.end().await;
}

#[tokio::test]
async fn a_server_that_works_on_a_call_is_not_given_up_for_its_list() {
    for lists in [Lists::Refuses, Lists::Silent] {
        let own = Own::start().await;
        let servers = own.connect();
        let slow = called("slow", &servers);
        heard(&own.state.called).await;
        heard(&own.state.looked).await;
        *own.state.lists.lock().unwrap() = lists;
        pass(LOOK_EVERY).await;
        heard(&own.state.looked).await;
        for _ in 0..3 {
            pass(START_MAX).await;
        }
        own.state.go_on.notify_one();
        assert_eq!(slow.await.unwrap(), said("done"), "{lists:?}");
        servers.close().await;
        own.end().await;
    }
}

#[tokio::test]
async fn a_session_outlives_a_refusal_of_its_list() {
    let own = Own::start().await;
    *own.state.session.lock().unwrap() = Some("first");
    let servers = own.connect();
    let say = async || assert_eq!(call("say", json!({}), &servers, CALL_MAX).await, said("said"));
    say().await;
    heard(&own.state.opened).await;
    heard(&own.state.looked).await;
    let server = servers.get(&Name::new("own").unwrap()).unwrap();
    let peer = server.up(0, Instant::now() + CALL_MAX).await.unwrap().peer.clone();
    let looked = async |lists, time| {
        *own.state.lists.lock().unwrap() = lists;
        pass(time).await;
        heard(&own.state.looked).await;
        // Once this is answered, which is no call, so is what was asked before it.
        peer.list_prompts(None).await.unwrap_err();
    };
    looked(Lists::Refuses, LOOK_EVERY).await;
    looked(Lists::Well, REFUSED_PAUSE).await;
    say().await;
    assert!(own.state.opened.notified().now_or_never().is_none());

    // One that goes on refusing is connected to anew.
    looked(Lists::Refuses, LOOK_EVERY).await;
    looked(Lists::Refuses, START_MAX).await;
    heard(&own.state.opened).await;
    servers.close().await;
    own.end().await;
}

#[tokio::test]
async fn a_list_that_hangs_is_asked_for_again_while_a_call_is_under_way() {
    let own = Own::start().await;
    let servers = own.connect();
    let slow = called("slow", &servers);
    heard(&own.state.called).await;
    heard(&own.state.looked).await;
    *own.state.lists.lock().unwrap() = Lists::Silent;
    pass(LOOK_EVERY).await;
    heard(&own.state.looked).await;
    *own.state.lists.lock().unwrap() = Lists::Well;
    "Another.".clone_into(&mut own.state.description.lock().unwrap());
    pass(START_MAX).await;
    heard(&own.state.looked).await;
    off(&servers).await;
    own.state.go_on.notify_one();
    assert_eq!(slow.await.unwrap(), said("done"));
    servers.close().await;
    own.end().await;
}
