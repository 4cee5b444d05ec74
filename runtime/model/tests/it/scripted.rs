//! Scripts, and the limits of a model under paused time.

use std::time::Duration;

use config::team::Model;
use serde_json::json;
use tokio::time::Instant;
use wire::ErrorCode::{self, DeadlineExceeded, ModelRefused, ModelUnavailable, Overloaded};
use wire::{FinishReason, Message, ToolCall, Usage};

use crate::setup::{
    assert_failed, assistant, client, conversation, scripted, try_clients, turn, turn_in, user,
};

#[tokio::test]
async fn the_conversation_alone_decides_which_reply_is_played() {
    let client = client(&scripted(&[
        r#"{"content":"first"}"#,
        r#"{"when":"(?i)weather|rain","content":"sunny"}"#,
        r#"{"when":"^rain$","content":"never reached"}"#,
        r#"{"content":"second"}"#,
    ]));
    let tool = Message::Tool {
        call_id: "a".to_owned(),
        name: "now".to_owned(),
        content: "the weather is bad".to_owned(),
    };
    let cases = [
        (vec![user("hi")], "first"),
        (vec![user("hi")], "first"),
        (vec![user("Rain?")], "sunny"),
        (vec![user("rain")], "sunny"),
        (vec![user("rain"), assistant("sunny"), user("hi")], "second"),
        (vec![user("hi"), user("ho")], "first"),
        (vec![user("hi"), assistant("x"), tool], "sunny"),
        (vec![], "first"),
    ];
    for (messages, expected) in cases {
        let reply = turn(&client, &conversation(messages.clone())).await.0.unwrap();
        assert_eq!(reply.content, expected, "{messages:?}");
    }
    let over = vec![assistant("1"), assistant("2"), user(&"ä".repeat(300))];
    let (result, shown) = turn(&client, &conversation(over)).await;
    let error = assert_failed(
        result,
        ModelRefused,
        "model m, asked once: no `when` of the script matches the end of the conversation, and of \
         its 2 replies without `when` number 3 is asked for; add a reply for \"2\\n\\nää",
    );
    assert_eq!(error.message.matches('ä').count(), 197);
    assert_eq!(shown, [""; 0]);
}

#[tokio::test]
async fn a_reply_has_what_its_line_says() {
    let client = client(&scripted(&[
        r#"{"content":"It is  late.\n"}"#,
        r#"{"when":"calls","calls":[
            {"name":"f","arguments":{"b":1,"a":"x"}},{"name":"g","arguments":"{oops","id":"own"},{"name":"h"}]}"#,
        r#"{"when":"cut","content":"ab","finish":"length","usage":{"input_tokens":7,"output_tokens":9}}"#,
    ]));
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let calls = vec![
        call("call00001", "f", r#"{"b":1,"a":"x"}"#),
        call("own", "g", "{oops"),
        call("call00003", "h", "{}"),
    ];
    let cases: [(&str, Vec<&str>, _, _, _); 3] = [
        (
            "hello",
            vec!["It ", "is ", " ", "late.", "\n"],
            vec![],
            FinishReason::Stop,
            Usage::of_tokens(2, 4),
        ),
        ("calls", vec![], calls, FinishReason::ToolCalls, Usage::of_tokens(2, 7)),
        ("cut", vec!["ab"], vec![], FinishReason::Length, Usage::of_tokens(7, 9)),
    ];
    for (text, deltas, calls, finish, usage) in cases {
        let (result, shown) = turn(&client, &conversation(vec![user(text)])).await;
        let reply = result.unwrap();
        // The pieces are words with the white space after them.
        assert_eq!(shown.concat(), deltas.concat(), "{text}");
        assert!(shown.iter().all(|piece| piece.split_whitespace().count() <= 1), "{shown:?}");
        assert_eq!(reply.content, deltas.concat(), "{text}");
        assert_eq!((reply.calls, reply.finish, reply.usage), (calls, finish, usage), "{text}");
        assert_eq!((reply.provider.as_str(), reply.model.as_str()), ("scripted", "m"));
    }
}

#[tokio::test(start_paused = true)]
async fn faults_are_retried_by_their_class() {
    let fault = |fault: serde_json::Value| json!({"content": "ok", "fault": fault}).to_string();
    let cases: [(String, Result<u32, _>); 9] = [
        (fault(json!({"times": 2})), Ok(3)),
        (fault(json!({"status": 429, "times": 1})), Ok(2)),
        (fault(json!({"status": 500, "times": 3})), Ok(4)),
        (fault(json!({"status": 503, "times": 0})), Ok(1)),
        (
            fault(json!({"status": 500, "times": 4})),
            Err((ModelUnavailable, "asked 4 times: status 500")),
        ),
        (
            fault(json!({"message": "cable cut"})),
            Err((ModelUnavailable, "asked 4 times: the server cannot be reached: cable cut")),
        ),
        (
            fault(json!({"status": 401, "message": "who are you"})),
            Err((ModelRefused, "asked once: status 401, who are you")),
        ),
        (
            fault(json!({"status": 400, "times": 1})),
            Err((ModelRefused, "asked once: status 400, no reason given")),
        ),
        (
            fault(json!({"status": 429, "message": r#"{"error":{"code":"insufficient_quota"}}"#})),
            Err((ModelRefused, "asked once: status 429, insufficient_quota: ")),
        ),
    ];
    for (line, expected) in cases {
        let client = client(&scripted(&[&line]));
        let (result, shown) = turn(&client, &conversation(vec![user("hi")])).await;
        match expected {
            Ok(attempts) => {
                assert_eq!(result.unwrap().attempts, attempts, "{line}");
                assert_eq!(shown, ["ok"], "{line}");
            }
            Err((code, text)) => {
                assert_failed(result, code, text);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_passing_fault_is_counted_for_each_conversation() {
    let line = r#"{"content":"ok","fault":{"status":500,"times":1}}"#;
    let client = client(&scripted(&[line]));
    for (text, attempts) in [("a", 2), ("b", 2), ("a", 1), ("b", 1)] {
        let reply = turn(&client, &conversation(vec![user(text)])).await.0.unwrap();
        assert_eq!(reply.attempts, attempts, "{text}");
    }
}

fn slow(delay_ms: u64, change: impl FnOnce(&mut Model)) -> Model {
    let mut model = scripted(&[&json!({"content": "ok", "delay_ms": delay_ms}).to_string()]);
    model.retries_max = 0;
    change(&mut model);
    model
}

#[tokio::test(start_paused = true)]
async fn a_turn_takes_the_time_it_has_and_no_more() {
    let cases: [(u64, u64, u64, u64, Option<ErrorCode>, u64); 6] = [
        // The delay; limits of silence, of a turn, of the run; how it ends, and after how long.
        (1_000, 5_000, 9_000, 9_000, None, 1_000),
        // What is before the reply is no silence amid it.
        (1_000, 500, 9_000, 9_000, None, 1_000),
        (7_000, 9_000, 2_000, 9_000, Some(DeadlineExceeded), 2_000),
        (7_000, 9_000, 9_000, 3_000, Some(DeadlineExceeded), 3_000),
        (0, 9_000, 9_000, 0, Some(DeadlineExceeded), 0),
        (1_000, u64::MAX, u64::MAX, u64::MAX, None, 1_000),
    ];
    for (delay_ms, idle, timeout, remaining, code, after_ms) in cases {
        let client = client(&slow(delay_ms, |model| {
            model.idle_timeout_ms = idle;
            model.timeout_ms = timeout;
        }));
        let begun = Instant::now();
        let remaining = Duration::from_millis(remaining);
        let (result, _) = turn_in(&client, &conversation(vec![user("hi")]), remaining).await;
        assert_eq!(result.err().map(|error| error.code), code, "{delay_ms} {idle} {timeout}");
        let passed = u64::try_from(begun.elapsed().as_millis()).unwrap();
        assert!((after_ms..after_ms + 5).contains(&passed), "{passed} instead of {after_ms}");
    }
}

#[tokio::test(start_paused = true)]
async fn turns_wait_for_a_place_and_beyond_the_queue_are_sent_away() {
    let client = client(&slow(1_000, |model| {
        model.concurrency = 1;
        model.queue_max = 1;
        model.timeout_ms = 1_500;
    }));
    let conversation = conversation(vec![user("hi")]);
    let begun = Instant::now();
    let ask = async || {
        let (result, _) = turn(&client, &conversation).await;
        (result.map(|reply| reply.content), begun.elapsed().as_millis())
    };
    let (first, second, third) = tokio::join!(ask(), ask(), ask());
    assert_eq!((first.0.unwrap().as_str(), first.1 / 10), ("ok", 100));
    // Time in the queue counts.
    assert_failed(second.0, DeadlineExceeded, "1500 ms");
    assert_eq!(second.1 / 10, 150);
    let error = assert_failed(
        third.0,
        Overloaded,
        "model m: its 1 places are taken and the queue for them (`queue_max` 1) is full",
    );
    assert_eq!((error.retry_after_ms, third.1), (Some(1_000), 0));
    assert_eq!(ask().await.0.unwrap(), "ok");
}

#[tokio::test]
async fn a_pattern_that_does_not_compile_is_refused() {
    for (when, text) in
        [("(", "compile `when` of reply 2 of the script"), (r"\w{9999}", "size limit")]
    {
        let line = json!({"when": when}).to_string();
        let model = scripted(&["{}", &line]);
        let made = try_clients(vec![model]);
        assert_failed(made, ErrorCode::ConfigInvalid, text);
    }
}

#[test]
fn a_turn_can_be_spawned() {
    fn sendable<T: Send>(value: T) -> T {
        value
    }
    let client = client(&scripted(&["{}"]));
    let conversation = conversation(vec![]);
    drop(sendable(async move { turn(&client, &conversation).await }));
}
