//! Servers that fail in every way that servers fail.

use std::time::Duration;

use config::team::{Model, Provider};
use model::Progress;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::ErrorCode::{self, DeadlineExceeded, ModelProtocol, ModelRefused, ModelUnavailable};

use crate::server::{Seen, Server, Step, answer, chunked, said, stream_head, whole};
use crate::setup::{assert_failed, client, conversation, model, openai, turn, turn_in, user};

const TEXT: &str = r#"{"choices":[{"delta":{"content":"one "}}]}"#;
const MORE: &str = r#"{"choices":[{"delta":{"content":"two"}}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const CALL: &str = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}"#;
const REASONING: &str = r#"{"choices":[{"delta":{"reasoning_content":"so"}}]}"#;
const BUSY: &str = r#"{"error":{"type":"overloaded_error","message":"busy"}}"#;
const UNREAD: &str =
    r#"{"error":{"message":"no call","type":"invalid_request_error","code":"tool_use_failed"}}"#;

/// Retries at once, so that tests need not wait.
const AT_ONCE: &str = "retry-after-ms: 0\r\n";

fn send(bytes: Vec<u8>) -> Vec<Step> {
    vec![Step::Send(bytes)]
}

fn model_at(base_url: &str, stream: bool, change: impl FnOnce(&mut Model)) -> Model {
    let mut model = model(Provider::OpenAi(openai(base_url, stream)));
    change(&mut model);
    model
}

/// T23: garbage, silence and errors after a good status are of the class that is asked again.
#[tokio::test]
async fn what_passes_is_asked_again_until_it_passes() {
    let error = |status: u16| send(answer(status, AT_ONCE, r#"{"error":"busy"}"#));
    let torn = String::from_utf8(said("ok")).unwrap().replace("stop\"}]", "");
    let cases: Vec<(&str, bool, Vec<Vec<Step>>)> = vec![
        ("429", false, vec![error(429), error(429)]),
        ("5xx and 409", true, vec![error(500), error(503), error(409)]),
        ("no answer", false, vec![vec![]]),
        ("half a head", false, vec![send(b"HTTP/1.1 200 OK\r\ncont".to_vec())]),
        ("no HTTP", false, vec![send(b"SSH-2.0-x\r\n".to_vec())]),
        ("garbage", false, vec![send(whole("]["))]),
        ("garbage in a stream", true, vec![send(chunked(&[TEXT, "]["], true))]),
        (
            "bad UTF-8 in a stream",
            true,
            vec![send([stream_head(), b"data: \xff\n\n".to_vec()].concat())],
        ),
        ("fewer bytes than promised", false, vec![send(torn.into_bytes())]),
        ("a web page", true, vec![send(answer(200, "content-type: text/html\r\n", "<p>hi"))]),
        ("an error in place of a reply", false, vec![send(whole(BUSY))]),
        ("an error in a stream before any text", true, vec![send(chunked(&[BUSY], true))]),
        (
            "silence after the first byte",
            true,
            vec![vec![Step::Send([stream_head(), b":".to_vec()].concat()), Step::Hang]],
        ),
        (
            "silence amid an answer in one piece",
            false,
            vec![vec![Step::Send(said("ok")[..150].to_vec()), Step::Hang]],
        ),
        (
            "silence after some text",
            true,
            vec![vec![Step::Send(chunked(&[TEXT], false)), Step::Hang]],
        ),
    ];
    let mut all = JoinSet::new();
    for (name, stream, mut plays) in cases {
        all.spawn(async move {
            let failures = plays.len();
            plays.push(send(said("ok")));
            let mut server = Server::start(plays).await;
            let model = model_at(&server.base_url, stream, |model| {
                if name.starts_with("silence") {
                    model.idle_timeout_ms = 300;
                }
            });
            let (result, shown) = turn(&client(&model), &conversation(vec![user("hi")])).await;
            let reply = result.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(reply.content, "ok", "{name}");
            assert_eq!(reply.attempts as usize, failures + 1, "{name}");
            assert_eq!(shown.last().map(String::as_str), Some("ok"), "{name}");
            let requests = server.requests();
            assert_eq!(requests.len(), failures + 1, "{name}");
            assert!(requests.iter().all(|request| request.1 == requests[0].1), "{name}");
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// T23: replies without an end, refusals, and errors after some text are of the class that is not.
#[tokio::test]
async fn what_does_not_pass_ends_with_its_code() {
    let refused = |status| {
        send(answer(status, "x-request-id: q1\r\nretry-after: 5\r\n", r#"{"error":"bad"}"#))
    };
    let quota = r#"{"error":{"message":"pay","type":"insufficient_quota"}}"#;
    let moved = "location: http://elsewhere/v1\r\n";
    let long = said(&"x".repeat(5 << 20));
    let head = "content-type: application/json\r\ncontent-length: 100000000";
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{head}\r\n\r\n");
    let huge =
        vec![Step::Send([head.as_bytes(), "x".repeat(5 << 20).as_bytes()].concat()), Step::Hang];
    let flood = vec![
        Step::Send(stream_head()),
        Step::Send(format!(":\ndata: {}", "x".repeat(5 << 20)).into_bytes()),
        Step::Hang,
    ];
    let many = format!("data: {}\n\n", TEXT.replace("one", &"x".repeat(1 << 19))).repeat(10);
    let many = vec![Step::Send(stream_head()), Step::Send(many.into_bytes()), Step::Hang];
    let cases: Vec<(&str, Vec<Step>, ErrorCode, &str, usize)> = vec![
        (
            "401",
            refused(401),
            ModelRefused,
            "/v1/chat/completions, asked once: status 401, bad (request id q1)",
            1,
        ),
        ("400", refused(400), ModelRefused, "status 400", 1),
        ("403", refused(403), ModelRefused, "status 403", 1),
        ("404", refused(404), ModelRefused, "status 404", 1),
        ("413", refused(413), ModelRefused, "status 413", 1),
        ("422", refused(422), ModelRefused, "status 422", 1),
        ("no money", send(answer(429, AT_ONCE, quota)), ModelRefused, "insufficient_quota: pay", 1),
        (
            "no money, said late",
            send(chunked(&[quota], true)),
            ModelRefused,
            "insufficient_quota",
            1,
        ),
        (
            "500 for ever",
            send(answer(500, AT_ONCE, "oh")),
            ModelUnavailable,
            "asked 4 times: status 500, oh",
            4,
        ),
        (
            "500, final",
            send(answer(500, "x-should-retry: false\r\n", "oh")),
            ModelUnavailable,
            "asked once",
            1,
        ),
        (
            "400 over a reply",
            send(answer(400, "x-should-retry: false\r\n", UNREAD)),
            ModelProtocol,
            "asked 3 times: status 400, tool_use_failed: no call",
            3,
        ),
        (
            "an error over a reply after text",
            send(chunked(&[TEXT, UNREAD], true)),
            ModelProtocol,
            "asked 3 times: an error instead of the rest of the reply, tool_use_failed",
            3,
        ),
        ("moved", send(answer(307, moved, "")), ModelRefused, "points to http://elsewhere/v1", 1),
        (
            "garbage for ever",
            send(whole("][")),
            ModelProtocol,
            "asked 3 times: the answer is no JSON: \"][\"",
            3,
        ),
        ("cut for ever", send(chunked(&[TEXT], false)), ModelProtocol, "asked 3 times", 3),
        ("no answer for ever", vec![], ModelProtocol, "asked 3 times: the reply was cut: ", 3),
        (
            "error after text",
            send(chunked(&[TEXT, BUSY], true)),
            ModelUnavailable,
            "overloaded_error: busy",
            1,
        ),
        // What was written is lost, and may have to be paid for.
        ("error amid a call", send(chunked(&[CALL, BUSY], true)), ModelUnavailable, "3 times", 3),
        (
            "error after reasoning",
            send(chunked(&[REASONING, BUSY], true)),
            ModelUnavailable,
            "asked 3 times",
            3,
        ),
        ("error at once", send(chunked(&[BUSY], true)), ModelUnavailable, "asked 4 times", 4),
        ("a long reply", send(long), ModelProtocol, "more than 4194304 bytes", 1),
        ("a reply of 100 MB", huge, ModelProtocol, "more than 4194304 bytes", 1),
        ("a long event", flood, ModelProtocol, "more than 4194304 bytes", 1),
        ("an endless stream", many, ModelProtocol, "more than 4194304 bytes", 1),
        (
            "an endless complaint",
            send(answer(400, "", &"x".repeat(5 << 20))),
            ModelRefused,
            "xxx",
            1,
        ),
    ];
    let mut all = JoinSet::new();
    for (name, play, code, text, requests) in cases {
        all.spawn(async move {
            let mut server = Server::start(vec![play]).await;
            let client = client(&model_at(&server.base_url, true, |_| ()));
            let (result, _) = turn(&client, &conversation(vec![user("hi")])).await;
            let error = assert_failed(result, code, text);
            // Who is refused for good is not told to come again.
            assert!(code != ModelRefused || error.retry_after_ms.is_none(), "{name}");
            assert_eq!(server.requests().len(), requests, "{name}");
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// T23: nothing of a stream that was cut is in the reply.
#[tokio::test]
async fn a_stream_cut_at_any_border_is_dropped_whole() {
    let events = [TEXT, MORE, STOP, "[DONE]"];
    let mut all = JoinSet::new();
    for border in 0..=events.len() {
        for marked in [false, true] {
            all.spawn(async move {
                let cut = chunked(&events[..border], marked);
                let plays = vec![send(cut), send(chunked(&events, true))];
                let mut server = Server::start(plays).await;
                let client = client(&model_at(&server.base_url, true, |_| ()));
                let (result, shown) = turn(&client, &conversation(vec![user("hi")])).await;
                let attempts = if border < 3 { 2 } else { 1 };
                let reply = result.unwrap();
                assert_eq!(reply.content, "one two", "cut at {border}");
                assert_eq!(reply.attempts, attempts, "cut at {border}");
                assert_eq!(server.requests().len(), attempts as usize, "cut at {border}");
                // Who was shown pieces of the first attempt is told before those of the second.
                let void = match border {
                    1 => &["one ", "m again: E2005"][..],
                    2 => &["one ", "two", "m again: E2005"],
                    _ => &[],
                };
                assert_eq!(shown, [void, &["one ", "two"]].concat(), "cut at {border}");
            });
        }
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// T23: who hangs or sends byte by byte is left in time.
#[tokio::test]
async fn a_silent_or_slow_server_is_left_in_time() {
    let drip = || {
        let comments = ": still there\n\n".repeat(1_000).into_bytes();
        vec![Step::Send(stream_head()), Step::Drip(comments, Duration::from_millis(20))]
    };
    let wait = || send(answer(503, "retry-after: 30\r\n", "later"));
    let left = Duration::from_millis(400);
    let long = Duration::from_mins(1);
    let begun = || vec![Step::Send([stream_head(), b":".to_vec()].concat()), Step::Hang];
    let own = "no reply in the 500 ms of `timeout_ms`";
    let cases = [
        ("silent", vec![Step::Hang], 100, 500, long, DeadlineExceeded, own, 1),
        (
            "silent after the head",
            vec![Step::Send(stream_head()), Step::Hang],
            100,
            500,
            long,
            DeadlineExceeded,
            own,
            1,
        ),
        (
            "silent, run short",
            vec![Step::Hang],
            100,
            60_000,
            left,
            DeadlineExceeded,
            "400 ms left to the run",
            1,
        ),
        (
            "silent after the first byte",
            begun(),
            100,
            60_000,
            long,
            ModelUnavailable,
            "no further byte for 100 ms",
            2,
        ),
        ("slow", drip(), 200, 500, long, DeadlineExceeded, own, 1),
        (
            "slow, run short",
            drip(),
            200,
            60_000,
            left,
            DeadlineExceeded,
            "400 ms left to the run",
            1,
        ),
        (
            "advice beyond the time",
            wait(),
            200,
            60_000,
            left,
            ModelUnavailable,
            "status 503, later",
            1,
        ),
        ("no time", wait(), 200, 60_000, Duration::ZERO, DeadlineExceeded, "0 ms left", 0),
    ];
    for (name, play, idle_timeout_ms, timeout_ms, remaining, code, text, requests) in cases {
        let mut server = Server::start(vec![play]).await;
        let model = model_at(&server.base_url, true, |model| {
            model.idle_timeout_ms = idle_timeout_ms;
            model.timeout_ms = timeout_ms;
            model.retries_max = 1;
        });
        let begun = Instant::now();
        let conversation = conversation(vec![user("hi")]);
        let (result, _) = turn_in(&client(&model), &conversation, remaining).await;
        let error = assert_failed(result, code, text);
        assert!(begun.elapsed() < Duration::from_secs(5), "{name}: {:?}", begun.elapsed());
        assert_eq!(server.requests().len(), requests, "{name}");
        assert_eq!(error.retry_after_ms.is_some(), name == "advice beyond the time", "{name}");
    }
}

/// A server that loads a model says nothing before the head of its answer, and one whose model
/// thinks nothing between head and body.
#[tokio::test]
async fn silence_before_the_first_byte_is_no_fault() {
    let pause = || Step::Pause(Duration::from_millis(400));
    let split = |bytes: Vec<u8>| {
        let body = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        (bytes[..body].to_vec(), bytes[body..].to_vec())
    };
    for (stream, reply) in [(true, chunked(&[TEXT, MORE, STOP], true)), (false, said("one two"))] {
        let (head, body) = split(reply);
        let play = vec![pause(), Step::Send(head), pause(), Step::Send(body)];
        let mut server = Server::start(vec![play]).await;
        let model = model_at(&server.base_url, stream, |model| model.idle_timeout_ms = 100);
        let (result, _) = turn(&client(&model), &conversation(vec![user("hi")])).await;
        let reply = result.unwrap();
        assert_eq!((reply.content.as_str(), reply.attempts), ("one two", 1), "{stream}");
        assert_eq!(server.requests().len(), 1, "{stream}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let client = client(&model_at(&base_url, true, |model| model.retries_max = 1));
    let (result, _) = turn(&client, &conversation(vec![user("hi")])).await;
    assert_failed(result, ModelUnavailable, "asked 2 times: the server cannot be reached: ");
}

#[tokio::test]
async fn a_dropped_turn_closes_its_connection_and_frees_its_place() {
    let hang = vec![Step::Send(chunked(&[TEXT], false)), Step::Hang];
    let mut server = Server::start(vec![hang, send(said("ok"))]).await;
    let model = model_at(&server.base_url, true, |model| {
        model.concurrency = 1;
        model.queue_max = 0;
    });
    let client = client(&model);
    let conversation = conversation(vec![user("hi")]);
    let (tx, mut shown) = tokio::sync::mpsc::unbounded_channel();
    let mut on_progress = move |progress: Progress<'_>| match progress {
        Progress::Piece(piece) => tx.send(piece.to_owned()).unwrap(),
        Progress::Retried { error, .. } | Progress::Switched { error, .. } => panic!("{error}"),
    };
    let admission = client.admit().unwrap();
    let minute = Duration::from_mins(1);
    tokio::select! {
        ended = client.turn(admission, &conversation, minute, &mut on_progress) => {
            panic!("{ended:?}")
        }
        piece = shown.recv() => assert_eq!(piece.as_deref(), Some("one ")),
    }
    assert!(matches!(server.next().await, Seen::Request(..)));
    assert!(matches!(server.next().await, Seen::Closed));
    assert_eq!(turn(&client, &conversation).await.0.unwrap().content, "ok");
}
