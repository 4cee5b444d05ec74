use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wire::{CallKey, CallOutcome, EffectClass, ErrorCode, Headers, Name, ToolReply, WireError};

use super::event::{CloudEvent, Mode};
use super::replies::{Counts, Replies, Taken};
use super::types::EventType;
use super::{EventSource, EventSpec, EventTool, REPLY_ATTRIBUTE, ReplyWay, Sink, declared};
use crate::client::http_client;
use crate::http::tests::{Answer, answer, server};
use crate::mcp::Setting;
use crate::messenger::prepared::PreparedMessenger;
use crate::messenger::{Letter, Missed};
use crate::testing::context;
use crate::tool::Tool;

/// More than any answer on this machine takes.
const LONG: Duration = Duration::from_secs(20);

fn source() -> Name {
    Name::new("broker").unwrap()
}

fn spec(url: &str, mode: Mode, reply: ReplyWay) -> EventSpec {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    EventSpec {
        source: Arc::new(EventSource {
            name: source(),
            sink: Sink::Http {
                url: url.to_owned(),
                headers: vec![("x-tenant".to_owned(), Setting::Text("blue".to_owned()))],
            },
            mode,
            origin: "/callboard".to_owned(),
            reply,
            reply_attribute: REPLY_ATTRIBUTE.to_owned(),
        }),
        event_type: Arc::new(EventType {
            kind: "get.weather".to_owned(),
            description: String::new(),
            parameters,
            attributes: BTreeMap::from([("region".to_owned(), "north".to_owned())]),
            address: None,
        }),
        effect: EffectClass::Once,
        response_bytes_max: 64,
    }
}

fn messenger() -> Arc<PreparedMessenger> {
    Arc::default()
}

fn tool(spec: EventSpec) -> (Arc<EventTool>, Replies) {
    // Every test may come first; that another one did is no fault.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let replies = Replies::start(Duration::ZERO);
    (Arc::new(EventTool::new(spec, http_client().unwrap(), messenger(), replies.clone())), replies)
}

fn reply(of: &str, media_type: &str, data: &str) -> CloudEvent {
    CloudEvent {
        id: "reply-1".to_owned(),
        source: "/weather".to_owned(),
        kind: "get.weather.response".to_owned(),
        data_content_type: Some(media_type.to_owned()),
        attributes: BTreeMap::from([(REPLY_ATTRIBUTE.to_owned(), of.to_owned())]),
        data: data.as_bytes().to_vec(),
    }
}

/// Makes the response of a request-reply proxy that carries an event.
fn carrying(event: &CloudEvent, mode: Mode) -> Answer {
    let written = event.write(mode);
    let lines = written.headers.iter().map(|(name, value)| [name, ": ", value, "\r\n"].concat());
    let headers = lines.collect::<String>();
    answer("200 OK", &headers, &String::from_utf8(written.body).unwrap())
}

fn told(reply: &ToolReply) -> (ErrorCode, &str, bool) {
    match reply {
        ToolReply::Lost { error, .. } => (error.code, &error.message, true),
        ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } => {
            (error.code, &error.message, false)
        }
        other => panic!("no error: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_is_an_event_with_the_declared_fields_only() {
    for mode in [Mode::Binary, Mode::Structured] {
        let answer = carrying(&reply("0123abcd", "application/json", "{\"t\": 7}"), mode);
        let (url, seen) = server(answer).await;
        let (tool, _) = tool(spec(&url, mode, ReplyWay::Response));
        let arguments = json!({"city": "Graz", "stray": 1});
        let reply = tool.call(&context(LONG), &arguments).await;
        assert_eq!(reply, ToolReply::settled(CallOutcome::Ok { output: json!({"t": 7}) }));

        let seen = seen.await.unwrap();
        let headers = seen.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let event = CloudEvent::read(headers, seen.body.as_bytes()).unwrap().unwrap();
        assert_eq!(seen.headers.contains_key("ce-id"), mode == Mode::Binary);
        let named = (event.kind.as_str(), event.source.as_str(), event.id.as_str());
        assert_eq!(named, ("get.weather", "/callboard", "0123abcd"));
        assert!(event.is_of("application/json"));
        assert_eq!(serde_json::from_slice::<Value>(&event.data).unwrap(), json!({"city": "Graz"}));
        let trace = context(LONG).trace.to_string();
        assert_eq!(event.attribute("traceparent"), Some(trace.as_str()));
        assert_eq!(event.attribute("time"), Some("1970-01-01T00:00:00.000000Z"));
        assert_eq!(event.attribute("region"), Some("north"));
        let others = ["x-tenant", "idempotency-key", "traceparent"];
        let others = others.map(|name| seen.headers[name].as_str());
        assert_eq!(others, ["blue", "0123abcd", &trace]);
    }
}

#[test]
fn what_a_schema_allows_is_sent() {
    let city = json!({"city": {"type": "string"}});
    for (word, value, is_sent) in [
        ("title", json!("Weather"), false),
        ("additionalProperties", json!(false), false),
        ("additionalProperties", json!(true), true),
        ("additionalProperties", json!({"type": "integer"}), true),
        ("patternProperties", json!({"^s": {}}), true),
        ("allOf", json!([{"properties": {"stray": {}}}]), true),
    ] {
        let schema = json!({"type": "object", "properties": city, word: value});
        let sent = declared(&schema, &json!({"city": "Graz", "stray": 1}));
        assert_eq!(sent["city"], "Graz");
        assert_eq!(sent.get("stray").is_some(), is_sent, "{schema}");
    }
}

/// An outcome, or the code of an error, a part of its text, and whether the call is lost.
type Meaning<'t> = Result<CallOutcome, (ErrorCode, &'t str, bool)>;

#[tokio::test]
async fn what_a_response_means() {
    let ok = |output: Value| Ok(CallOutcome::Ok { output });
    let own =
        |media_type: &str, data: &str| carrying(&reply("0123abcd", media_type, data), Mode::Binary);
    let long = "x".repeat(100);
    let cut = format!("{}\n[cut after 64 bytes]", "x".repeat(64));
    let cases: Vec<(Answer, Meaning<'_>)> = vec![
        (own("application/json", "[1]"), ok(json!([1]))),
        (own("application/json", ""), ok(json!(""))),
        (own("application/json", "{bro"), ok(json!("{bro"))),
        (own("text/html", "<b>"), ok(json!("<b>"))),
        (own("text/html", &long), ok(json!(cut))),
        (answer("200 OK", "content-type: application/json\r\n", "{\"a\":1}"), ok(json!({"a": 1}))),
        (answer("200 OK", "content-type: text/plain\r\n", "words"), ok(json!("words"))),
        (answer("200 OK", "", &long), ok(json!(cut))),
        (
            own("text/plain; charset=utf-8", "no such city"),
            Err((ErrorCode::ToolFailed, "no such city", false)),
        ),
        (
            answer("200 OK", "", ""),
            Err((
                ErrorCode::ToolTimeout,
                "tool sent its event and got no reply within 20.0 s",
                true,
            )),
        ),
        (
            answer("408 Request Timeout", "", ""),
            Err((ErrorCode::ToolTimeout, "the server answered 408 Request Timeout", true)),
        ),
        (
            answer("504 Gateway Timeout", "", "no reply"),
            Err((ErrorCode::ToolTimeout, "504 Gateway Timeout: no reply", true)),
        ),
        (
            answer("502 Bad Gateway", "", ""),
            Err((ErrorCode::ToolUnavailable, "502 Bad Gateway", true)),
        ),
        (
            answer("500 Internal Server Error", "", "broker is down"),
            Err((ErrorCode::ToolFailed, "broker is down", false)),
        ),
        (
            carrying(&reply("another", "application/json", "1"), Mode::Structured),
            Err((ErrorCode::ToolFailed, "the reply to another event", true)),
        ),
        (
            answer("200 OK", "content-type: application/cloudevents+json\r\n", "{"),
            Err((ErrorCode::ToolFailed, "the call was made, but the reply to tool is", false)),
        ),
        (
            answer("200 OK", "content-encoding: gzip\r\n", "words"),
            Err((ErrorCode::ToolFailed, "the call was made, but the server answered 200", false)),
        ),
        (
            answer("303 See Other", "location: /events/1\r\n", ""),
            Err((ErrorCode::ToolFailed, "the request was taken, but", true)),
        ),
        (
            answer("307 Temporary Redirect", "location: /\r\n", ""),
            Err((ErrorCode::ToolFailed, "the server answered 307", false)),
        ),
    ];
    for (answer, expected) in cases {
        let (url, _seen) = server(answer).await;
        let spec = spec(&url, Mode::Binary, ReplyWay::Response);
        let (tool, replies) = tool(spec);
        let reply = tool.call(&context(LONG), &json!({"city": "Graz"})).await;
        match expected {
            Ok(outcome) => assert_eq!(reply, ToolReply::settled(outcome)),
            Err((code, part, is_lost)) => {
                let (found, message, lost) = told(&reply);
                assert_eq!((found, lost), (code, is_lost), "{message}");
                assert!(message.contains(part), "{message}");
                let unknown = u64::from(part.contains("another event"));
                assert_eq!(replies.counts(&source()).unknown, unknown);
            }
        }
    }
}

#[tokio::test]
async fn replies_that_are_events_of_their_own_find_their_calls() {
    let mut calls = Vec::new();
    let (_, replies) = tool(spec("http://127.0.0.1:1", Mode::Binary, ReplyWay::Event));
    let mut seen = Vec::new();
    for key in ["aa", "bb"] {
        let (url, received) = server(answer("202 Accepted", "", "")).await;
        let spec = spec(&url, Mode::Structured, ReplyWay::Event);
        let tool = EventTool::new(spec, http_client().unwrap(), messenger(), replies.clone());
        let mut context = context(LONG);
        context.call = CallKey::new(key).unwrap();
        calls.push(tokio::spawn(async move { tool.call(&context, &json!({})).await }));
        seen.push(received);
    }
    for received in seen {
        received.await.unwrap();
    }
    for (key, data) in [("bb", "2"), ("aa", "1")] {
        let reply = reply(key, "application/json", data);
        assert_eq!(replies.take(&source(), key, reply), Taken::Delivered);
    }
    for (call, expected) in calls.into_iter().zip([1, 2]) {
        let outcome = CallOutcome::Ok { output: json!(expected) };
        assert_eq!(call.await.unwrap(), ToolReply::settled(outcome));
    }
    assert_eq!(
        replies.take(&source(), "aa", reply("aa", "application/json", "1")),
        Taken::Duplicate
    );
}

#[tokio::test]
async fn an_event_that_was_perhaps_taken_is_waited_for() {
    for (status, is_taken) in [
        ("202 Accepted", true),
        ("504 Gateway Timeout", true),
        ("502 Bad Gateway", true),
        ("408 Request Timeout", true),
        ("303 See Other", true),
        ("302 Found", true),
        ("308 Permanent Redirect", false),
        ("503 Service Unavailable", false),
        ("500 Internal Server Error", false),
        ("404 Not Found", false),
    ] {
        let (url, seen) = server(answer(status, "", "")).await;
        let (tool, replies) = tool(spec(&url, Mode::Binary, ReplyWay::Event));
        let call = tokio::spawn(async move { tool.call(&context(LONG), &json!({})).await });
        seen.await.unwrap();
        if !is_taken {
            let refused = call.await.unwrap();
            assert_eq!(told(&refused).0, ErrorCode::ToolFailed, "{status}");
            assert!(!told(&refused).2, "{status}");
            continue;
        }
        let event = reply("0123abcd", "application/json", "5");
        assert_eq!(replies.take(&source(), "0123abcd", event), Taken::Delivered, "{status}");
        let outcome = CallOutcome::Ok { output: json!(5) };
        assert_eq!(call.await.unwrap(), ToolReply::settled(outcome), "{status}");
    }
}

#[tokio::test]
async fn a_reply_that_does_not_come_to_an_event_that_was_perhaps_taken_is_lost() {
    let (url, _seen) = server(answer("504 Gateway Timeout", "", "")).await;
    let (tool, _) = tool(spec(&url, Mode::Binary, ReplyWay::Event));
    let reply = tool.call(&context(Duration::from_millis(500)), &json!({})).await;
    let (code, message, is_lost) = told(&reply);
    assert_eq!((code, is_lost), (ErrorCode::ToolTimeout, true), "{message}");
    assert!(message.contains("504 Gateway Timeout"), "{message}");
}

#[tokio::test]
async fn a_reply_that_does_not_come_in_time_is_told_with_tool_and_seconds() {
    let (url, _seen) = server(answer("202 Accepted", "", "")).await;
    let (tool, replies) = tool(spec(&url, Mode::Binary, ReplyWay::Event));
    let reply_to = tool.call(&context(Duration::from_millis(500)), &json!({})).await;
    let expected = "tool sent its event and got no reply within 0.5 s";
    assert_eq!(told(&reply_to), (ErrorCode::ToolTimeout, expected, true));
    let late = reply("0123abcd", "application/json", "1");
    assert_eq!(replies.take(&source(), "0123abcd", late), Taken::Late);
    assert_eq!(replies.counts(&source()), Counts { late: 1, ..Counts::default() });
}

#[tokio::test]
async fn a_call_that_is_rejoined_sends_nothing() {
    // Nobody listens there, so a call that sent its event would fail.
    let (tool, replies) = tool(spec("http://127.0.0.1:1", Mode::Binary, ReplyWay::Event));
    let unsent = tool.call(&context(LONG), &json!({})).await;
    assert_eq!(told(&unsent).0, ErrorCode::ToolUnavailable);
    let rejoining = tool.clone();
    let call = tokio::spawn(async move { rejoining.rejoin(&context(LONG), &json!({})).await });
    while replies.take(&source(), "0123abcd", reply("0123abcd", "application/json", "3"))
        != Taken::Delivered
    {
        tokio::task::yield_now().await;
    }
    let outcome = CallOutcome::Ok { output: json!(3) };
    assert_eq!(call.await.unwrap(), ToolReply::settled(outcome));
}

/// Makes the tool of a source on a subject, with prepared answers.
fn on_subject(
    mode: Mode,
    reply: ReplyWay,
    answers: Vec<Option<Result<Letter, Missed>>>,
) -> (EventTool, Arc<PreparedMessenger>, Replies) {
    let mut spec = spec("", mode, reply);
    let source = Arc::make_mut(&mut spec.source);
    source.sink = Sink::Subject("tools.in".to_owned());
    let (messenger, replies) = (messenger(), Replies::start(Duration::ZERO));
    messenger.answers.lock().unwrap().extend(answers);
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let (http, shared) = (http_client().unwrap(), messenger.clone());
    (EventTool::new(spec, http, shared, replies.clone()), messenger, replies)
}

fn letter(event: &CloudEvent, mode: Mode) -> Letter {
    let written = event.write(mode);
    let mut headers = Headers::new();
    written.headers.into_iter().for_each(|(name, value)| headers.insert(name, value));
    Letter { headers, payload: written.body.into(), ..Letter::default() }
}

#[tokio::test]
async fn over_nats_a_call_is_an_event_too() {
    for mode in [Mode::Binary, Mode::Structured] {
        let reply = letter(&reply("0123abcd", "application/json", "[7]"), mode);
        let (tool, messenger, _) = on_subject(mode, ReplyWay::Response, vec![Some(Ok(reply))]);
        let outcome = tool.call(&context(LONG), &json!({"city": "Graz"})).await;
        assert_eq!(outcome, ToolReply::settled(CallOutcome::Ok { output: json!([7]) }));
        let [sent] = &messenger.sent.lock().unwrap()[..] else { panic!() };
        assert_eq!(sent.subject, "tools.in");
        assert_eq!(sent.headers.get("ce-type").is_some(), mode == Mode::Binary);
        let event = CloudEvent::read(sent.headers.iter(), &sent.payload).unwrap().unwrap();
        assert_eq!((event.kind.as_str(), event.id.as_str()), ("get.weather", "0123abcd"));
        for (header, value) in [("Nats-Msg-Id", "0123abcd"), ("Idempotency-Key", "0123abcd")] {
            assert_eq!(sent.headers.get(header).as_deref(), Some(value));
        }
        assert_eq!(sent.headers.get("traceparent").as_deref(), event.attribute("traceparent"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_over_nats() {
    let plain = |payload: &'static str| Letter { payload: payload.into(), ..Letter::default() };
    let mut refused = plain("{\"error\": 1}");
    refused.headers.insert("Nats-Service-Error", "no such city");
    let gone = |error: fn(WireError) -> Missed, code| error(WireError::new(code, "gone"));
    let own = |media_type: &str| letter(&reply("0123abcd", media_type, "no"), Mode::Structured);
    let cases = [
        (Some(Ok(plain("{\"t\":1}"))), Ok(json!({"t": 1}))),
        (Some(Ok(refused)), Err((ErrorCode::ToolFailed, false))),
        (Some(Ok(own("text/plain"))), Err((ErrorCode::ToolFailed, false))),
        (Some(Ok(own("text/html"))), Ok(json!("no"))),
        (Some(Ok(plain(""))), Err((ErrorCode::ToolTimeout, true))),
        (
            Some(Ok(letter(&reply("other", "application/json", "1"), Mode::Binary))),
            Err((ErrorCode::ToolFailed, true)),
        ),
        (None, Err((ErrorCode::ToolTimeout, true))),
        (
            Some(Err(gone(Missed::NotDelivered, ErrorCode::TooLarge))),
            Err((ErrorCode::TooLarge, false)),
        ),
        (
            Some(Err(gone(Missed::Unanswered, ErrorCode::Unavailable))),
            Err((ErrorCode::ToolUnavailable, true)),
        ),
    ];
    for (answer, expected) in cases {
        let what = format!("{answer:?}");
        let (tool, ..) = on_subject(Mode::Structured, ReplyWay::Response, vec![answer]);
        let reply = tool.call(&context(LONG), &json!({})).await;
        match expected {
            Ok(output) => {
                assert_eq!(reply, ToolReply::settled(CallOutcome::Ok { output }), "{what}");
            }
            Err(expected) => {
                let (code, _, lost) = told(&reply);
                assert_eq!((code, lost), expected, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_reply_to_an_event_on_a_subject_finds_its_call() {
    let (tool, messenger, replies) = on_subject(Mode::Structured, ReplyWay::Event, vec![]);
    let call = tokio::spawn(async move { tool.call(&context(LONG), &json!({})).await });
    while messenger.sent.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let event = reply("0123abcd", "application/json", "4");
    assert_eq!(replies.take(&source(), "0123abcd", event), Taken::Delivered);
    let outcome = CallOutcome::Ok { output: json!(4) };
    assert_eq!(call.await.unwrap(), ToolReply::settled(outcome));
}
