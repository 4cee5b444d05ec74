use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wire::{CallOutcome, ErrorCode, Headers, Name, ToolReply, WireError, header};

use super::{NatsSpec, NatsTool};
use crate::http::{BodyTemplate, FieldSource};
use crate::messenger::prepared::PreparedMessenger;
use crate::messenger::{Letter, Missed};
use crate::testing::context;
use crate::tool::Tool;

fn spec(subject: &str) -> NatsSpec {
    NatsSpec {
        source: None,
        subject: subject.to_owned(),
        headers: Vec::new(),
        body: BodyTemplate::Arguments,
        response_bytes_max: 64,
    }
}

fn template(name: &str, text: &str) -> (String, FieldSource) {
    (name.to_owned(), FieldSource::Template(text.to_owned()))
}

fn answer(headers: Headers, body: &str) -> Letter {
    Letter { headers, payload: body.to_owned().into(), ..Letter::default() }
}

fn missed(kind: fn(WireError) -> Missed, code: ErrorCode) -> Result<Letter, Missed> {
    Err(kind(WireError::new(code, "why")))
}

/// Makes a call that is answered so; returns the reply and what was sent.
async fn call(
    spec: &NatsSpec,
    arguments: Value,
    answers: Vec<Result<Letter, Missed>>,
) -> (ToolReply, Vec<Letter>) {
    let messenger = Arc::new(PreparedMessenger::default());
    messenger.answers.lock().unwrap().extend(answers.into_iter().map(Some));
    let tool = NatsTool::new(spec, messenger.clone());
    let reply = tool.call(&context(Duration::from_secs(10)), &arguments).await;
    let sent = messenger.sent.lock().unwrap().clone();
    (reply, sent)
}

fn error(reply: ToolReply) -> (bool, WireError) {
    match reply {
        ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } => (false, error),
        ToolReply::Lost { error, .. } => (true, error),
        other => panic!("no error: {other:?}"),
    }
}

fn output(reply: ToolReply) -> Value {
    match reply {
        ToolReply::Settled { outcome: CallOutcome::Ok { output }, .. } => output,
        other => panic!("no output: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_is_a_request_with_key_span_and_time() {
    let headers = vec![template("X-City", "{city}"), template("X-None", "{none}")];
    let spec = NatsSpec { headers, ..spec("orders.{id}.show") };
    let arguments = json!({"id": 7, "city": "Graz", "full": true});
    let (reply, sent) = call(&spec, arguments, vec![Ok(answer(Headers::new(), "{\"a\":1}"))]).await;
    assert_eq!(output(reply), json!({"a": 1}));
    let [letter] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!(letter.subject, "orders.7.show");
    assert_eq!(letter.payload, "{\"full\":true}");
    let trace = context(Duration::ZERO).trace.to_string();
    let expected = [
        ("Content-Type", Some("application/json")),
        ("X-City", Some("Graz")),
        ("X-None", None),
        (header::IDEMPOTENCY_KEY, Some("0123abcd")),
        (header::MESSAGE_ID, Some("0123abcd")),
        (header::TRACEPARENT, Some(trace.as_str())),
    ];
    for (name, value) in expected {
        assert_eq!(letter.headers.get(name).as_deref(), value, "{name}");
    }
    let left = letter.headers.read::<u64>(header::REMAINING_MS).unwrap();
    assert!((9_000..=9_900).contains(&left), "{left}");
}

#[tokio::test]
async fn answers_are_json_text_or_an_error() {
    let failed = |code: &str, text: &str| {
        Headers::new().with(header::SERVICE_ERROR_CODE, code).with(header::SERVICE_ERROR, text)
    };
    let long = "x".repeat(70);
    let cases = [
        (Ok(answer(Headers::new(), "[1]")), Ok(json!([1]))),
        (Ok(answer(Headers::new(), "two words\n")), Ok(json!("two words"))),
        (Ok(answer(Headers::new(), "")), Ok(json!("a.b answered without a body"))),
        (
            Ok(answer(Headers::new(), &long)),
            Ok(json!(format!("{}\n[cut after 64 bytes]", "x".repeat(64)))),
        ),
        (
            Ok(answer(failed("404", "no such order"), "look again")),
            Err((false, ErrorCode::ToolFailed, "error 404: no such order: look again")),
        ),
        (
            Ok(answer(Headers::new().with(header::SERVICE_ERROR, "no"), "")),
            Err((false, ErrorCode::ToolFailed, "answered with error: no")),
        ),
        (
            missed(Missed::NotDelivered, ErrorCode::TooLarge),
            Err((false, ErrorCode::TooLarge, "the call was not made")),
        ),
        (
            missed(Missed::Unanswered, ErrorCode::NatsUnavailable),
            Err((true, ErrorCode::ToolUnavailable, "no answer came from a.b: why")),
        ),
        (
            missed(Missed::Unanswered, ErrorCode::DeadlineExceeded),
            Err((true, ErrorCode::ToolTimeout, "a.b did not answer within 9900 ms")),
        ),
    ];
    for (answer, expected) in cases {
        let (reply, _) = call(&spec("a.b"), json!({}), vec![answer]).await;
        match expected {
            Ok(value) => assert_eq!(output(reply), value),
            Err((is_lost, code, text)) => {
                let (lost, error) = error(reply);
                assert_eq!((lost, error.code), (is_lost, code), "{error}");
                assert!(error.message.contains(text), "{error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_took_is_made_again_for_a_while() {
    let nobody = || missed(Missed::NotDelivered, ErrorCode::Unavailable);
    let there = vec![nobody(), nobody(), Ok(answer(Headers::new(), "1"))];
    let (reply, sent) = call(&spec("a.b"), json!({}), there).await;
    assert_eq!((output(reply), sent.len()), (json!(1), 3));

    let began = Instant::now();
    let (reply, sent) = call(&spec("a.b"), json!({}), Vec::new()).await;
    let (is_lost, error) = error(reply);
    assert_eq!((is_lost, error.code), (false, ErrorCode::ToolUnavailable));
    assert!(error.message.contains("the call was not made"), "{error}");
    assert!(began.elapsed() < super::AWAY_MAX && sent.len() == 6, "{}", sent.len());
}

/// What a node of the runtime answers about the run of an agent of another team.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_reply_leaves_open_what_came_of_the_run() {
    let told = |code: &str, run: &str| {
        let headers = Headers::new().with(header::SERVICE_ERROR_CODE, code);
        Ok(answer(headers, &format!(r#"{{{run}"error":{{"code":"{code}","message":"why"}}}}"#)))
    };
    let cases = [
        // It drains, or cannot say: the run may go on.
        ("E1007", "", (true, ErrorCode::ToolUnavailable, 1)),
        ("E5003", "", (true, ErrorCode::ToolUnavailable, 1)),
        // Nothing was begun, and is not by asking again.
        ("E1003", "", (false, ErrorCode::UnknownAgent, 1)),
        ("E1005", "", (false, ErrorCode::RunConflict, 1)),
        // Nothing was begun yet, and then nobody listens.
        ("E1008", "", (false, ErrorCode::ToolUnavailable, 6)),
        ("E5008", "", (false, ErrorCode::ToolUnavailable, 6)),
        // The reply to a run that failed.
        ("E4001", r#""run":"r","#, (false, ErrorCode::ToolFailed, 1)),
    ];
    for (code, run, expected) in cases {
        let (reply, sent) = call(&spec("a.b"), json!({}), vec![told(code, run)]).await;
        let (is_lost, error) = error(reply);
        assert_eq!((is_lost, error.code, sent.len()), expected, "{code}: {error}");
    }
    let there = vec![told("E1008", ""), Ok(answer(Headers::new(), "1"))];
    let (reply, sent) = call(&spec("a.b"), json!({}), there).await;
    assert_eq!((output(reply), sent.len()), (json!(1), 2));
}

#[tokio::test(start_paused = true)]
async fn silence_is_lost_before_the_caller_gives_up() {
    let began = Instant::now();
    let messenger = Arc::new(PreparedMessenger::default());
    messenger.answers.lock().unwrap().push_back(None);
    let tool = NatsTool::new(&spec("a.b"), messenger.clone());
    let reply = tool.call(&context(Duration::from_secs(10)), &json!({})).await;
    let (is_lost, error) = error(reply);
    assert_eq!((is_lost, error.code), (true, ErrorCode::ToolTimeout));
    assert_eq!(messenger.sent.lock().unwrap().len(), 1);
    assert_eq!(began.elapsed(), Duration::from_millis(9900));
}

#[tokio::test(start_paused = true)]
async fn what_has_not_left_by_the_end_was_not_made() {
    let messenger = Arc::new(PreparedMessenger { is_away: true, ..PreparedMessenger::default() });
    messenger.answers.lock().unwrap().push_back(None);
    let tool = NatsTool::new(&spec("a.b"), messenger.clone());
    let reply = tool.call(&context(Duration::from_secs(10)), &json!({})).await;
    let (is_lost, error) = error(reply);
    assert_eq!((is_lost, error.code), (false, ErrorCode::NatsUnavailable));
    assert!(error.message.contains("the call was not made"), "{error}");
    assert_eq!(messenger.sent.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn arguments_stay_within_their_token() {
    let cases = [
        (json!("b.c"), "has a dot"),
        (json!("*"), "has a wildcard"),
        (json!(">"), "has a wildcard"),
        (json!(""), "is empty"),
        (json!("a b"), "has a space"),
        (json!("a\r\nPUB x 0"), "has a space or a control character"),
        (json!(["a"]), "no list or object"),
        (json!(1.5), "has a dot"),
        (json!("x".repeat(129)), "is too long"),
        (Value::Null, "is missing"),
    ];
    for (value, text) in cases {
        let (reply, sent) = call(&spec("a.{x}"), json!({"x": value}), Vec::new()).await;
        let (is_lost, error) = error(reply);
        assert_eq!((is_lost, error.code, sent.len()), (false, ErrorCode::InvalidArguments, 0));
        assert!(error.message.contains(text), "{error}");
    }
    let headers = vec![template("X", "{x}")];
    let with_header = NatsSpec { headers, ..spec("a.b") };
    let (reply, sent) = call(&with_header, json!({"x": "a\r\nB: c"}), Vec::new()).await;
    assert_eq!((error(reply).1.code, sent.len()), (ErrorCode::InvalidArguments, 0));
}

#[test]
fn templates_with_faults_are_refused() {
    let object = |names: &[&str], required: &[&str]| {
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties, "required": required})
    };
    let text = |text: &str| NatsSpec { body: BodyTemplate::Text(text.to_owned()), ..spec("a") };
    let found = |subject: &str| NatsSpec { source: Some(Name::new("s").unwrap()), ..spec(subject) };
    let long = "x".repeat(257);
    let cases = [
        (spec("a.b"), object(&["x"], &[]), None),
        (spec("a.{x}"), object(&["x"], &["x"]), None),
        (spec("a.{x}"), object(&["x"], &[]), Some("may be absent; require it")),
        (spec("a.{x}"), object(&[], &[]), Some("{x} stands for a parameter")),
        (spec("a.{x}b"), object(&["x"], &["x"]), Some("{x} in the subject is not a whole token")),
        (spec("{x}.a"), object(&["x"], &["x"]), Some("{x} is the first token")),
        (spec("a..b"), object(&[], &[]), Some("token \"\" of the subject is empty")),
        (spec("a.*"), object(&[], &[]), Some("has a wildcard")),
        (spec("a b"), object(&[], &[]), Some("has a space")),
        (spec(&long), object(&[], &[]), Some("longer than 256 bytes")),
        (spec("$SRV.PING"), object(&[], &[]), Some("belongs to NATS itself")),
        (spec("_INBOX.a"), object(&[], &[]), Some("belongs to NATS itself")),
        (spec("callboard.v1.t.tool.x"), object(&[], &[]), Some("one of the runtime's own")),
        (spec("callboard.{x}.t"), object(&["x"], &["x"]), Some("one of the runtime's own")),
        (text("a"), object(&["x"], &[]), Some("\"x\" appears nowhere")),
        (text("{x}"), object(&["x"], &[]), None),
        (
            NatsSpec { headers: vec![template("Nats-Msg-Id", "1")], ..spec("a") },
            object(&[], &[]),
            Some("is set by the runtime"),
        ),
        (
            NatsSpec { headers: vec![template("a b", "1")], ..spec("a") },
            object(&[], &[]),
            Some("is no name of a header"),
        ),
        (found("a.{x}"), object(&[], &[]), None),
        (found("a.*"), object(&[], &[]), Some("has a wildcard")),
        (found("$JS.API.INFO"), object(&[], &[]), Some("belongs to NATS itself")),
        (found(&long), object(&[], &[]), Some("longer than 256 bytes")),
        (
            NatsSpec { response_bytes_max: 0, ..spec("a") },
            object(&[], &[]),
            Some("response_bytes_max"),
        ),
    ];
    for (spec, parameters, fault) in cases {
        let faults = spec.check(&parameters);
        match fault {
            None => assert_eq!(faults, Vec::<String>::new(), "{spec:?}"),
            Some(text) => {
                assert!(faults.iter().any(|fault| fault.contains(text)), "{spec:?}: {faults:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_subject_of_the_runtime_under_another_prefix_is_refused_when_it_is_called() {
    for (prefix, is_refused) in [("acme.v2", true), ("callboard.v1", false)] {
        let subjects = wire::Subjects::new(prefix).unwrap();
        let messenger = Arc::new(PreparedMessenger { subjects, ..PreparedMessenger::default() });
        messenger.answers.lock().unwrap().push_back(Some(Ok(answer(Headers::new(), "1"))));
        let tool = NatsTool::new(&spec("acme.{x}.t"), messenger.clone());
        let reply = tool.call(&context(Duration::from_secs(10)), &json!({"x": "v2"})).await;
        assert_eq!(messenger.sent.lock().unwrap().is_empty(), is_refused);
        if is_refused {
            assert_eq!(error(reply).1.code, ErrorCode::InvalidArguments);
        } else {
            assert_eq!(output(reply), json!(1));
        }
    }
}
