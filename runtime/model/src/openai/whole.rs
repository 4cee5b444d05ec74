//! Chat completions in one piece.

use config::team::TokensField;
use wire::chat::TurnDetail;

use super::*;
use crate::answer::Answer;
use crate::error::CALLS_MAX;
use crate::fixture::{call, server};
use crate::http::read;

fn protocol() -> OpenAiProtocol {
    let options = OpenAi {
        server: server(false),
        strict: false,
        merge_adjacent: false,
        tokens_field: TokensField::MaxTokens,
        stream_usage: true,
    };
    OpenAiProtocol::new(options)
}

#[test]
fn answers_are_read_whatever_is_left_out() {
    let stop = Some(FinishReason::Stop);
    let text =
        |content: &str, finish| Answer { content: content.to_owned(), finish, ..Answer::default() };
    let called =
        |calls| Answer { calls, finish: Some(FinishReason::ToolCalls), ..Answer::default() };
    let cases = [
        (
            r#"{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}"#,
            text("hi", stop),
        ),
        (
            r#"{"choices":[{"message":{"content":"hi","tool_calls":null},"finish_reason":"stop"}]}"#,
            text("hi", stop),
        ),
        (
            r#"{"choices":[{"message":{"content":"hi","tool_calls":[]},"finish_reason":"stop"}]}"#,
            text("hi", stop),
        ),
        (r#"{"choices":[{"message":{"content":"hi"},"finish_reason":null}]}"#, text("hi", None)),
        (
            r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"tired"}]}"#,
            text("hi", Some(FinishReason::Other)),
        ),
        (
            r#"{"choices":[{"message":{"content":"h"},"finish_reason":"length"}]}"#,
            text("h", Some(FinishReason::Length)),
        ),
        (
            r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"thinking"},{"text":"b"}]},"finish_reason":"stop"}]}"#,
            text("ab", stop),
        ),
        (
            r#"{"choices":[{"message":{},"finish_reason":"stop"}],"usage":null,"model":7}"#,
            text("", stop),
        ),
        (
            r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#,
            Answer { refusal: "no".to_owned(), ..text("", stop) },
        ),
        (
            r#"{"choices":[{"message":{"content":null,"tool_calls":[
                {"id":"a","function":{"name":"f","arguments":"{ \"x\" : 1.0 }"}},
                {"id":null,"function":{"name":"g","arguments":{"b":2,"a":1.0}}},
                {"function":{"name":"h"}},
                {"function":{"name":"h","arguments":""}},
                {"function":{"name":"h","arguments":[1]}},
                {}
            ]},"finish_reason":"tool_calls"}]}"#,
            called(vec![
                call("a", "f", r#"{ "x" : 1.0 }"#),
                call("", "g", r#"{"b":2,"a":1.0}"#),
                call("", "h", ""),
                call("", "h", ""),
                call("", "h", "[1]"),
                call("", "", ""),
            ]),
        ),
        (
            r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10120,"completion_tokens":1499,"total_tokens":14428,"completion_tokens_details":{"reasoning_tokens":2809}}}"#,
            Answer {
                usage: Usage::of_tokens(10_120, 4_308),
                detail: TurnDetail { reasoning_tokens: Some(2_809), ..TurnDetail::default() },
                ..text("hi", stop)
            },
        ),
        (
            r#"{"id":"x","object":"chat.completion","model":"m-2","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":6},"completion_tokens_details":{"reasoning_tokens":5}},"timings":{}}"#,
            Answer {
                usage: Usage::of_tokens(11, 7),
                model: Some("m-2".to_owned()),
                detail: TurnDetail {
                    response_id: Some("x".to_owned()),
                    cache_read_tokens: Some(4),
                    cache_creation_tokens: Some(6),
                    reasoning_tokens: Some(5),
                    ..TurnDetail::default()
                },
                ..text("hi", stop)
            },
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(read(&protocol(), body.as_bytes()).unwrap(), expected, "{body}");
    }
}

#[test]
fn answers_that_are_none_say_why() {
    let calls = format!(
        r#"{{"choices":[{{"message":{{"tool_calls":[{}{{}}]}}}}]}}"#,
        "{},".repeat(CALLS_MAX)
    );
    let cases = [
        ("", "the answer is no JSON: \"\""),
        ("<html>", "the answer is no JSON: \"<html>\""),
        (r#"{"choices":[{"message":{"con"#, "the answer is no JSON: "),
        (&"[".repeat(10_000), "the answer is no JSON: "),
        ("[]", "the answer has no choice: \"[]\""),
        (r#"{"choices":[]}"#, "the answer has no choice: "),
        (r#"{"choices":[{"text":"old"}]}"#, "the answer has no message: "),
        (r#"{"choices":[{"message":"hi"}]}"#, "the answer has no message: "),
        (
            r#"{"error":{"message":"busy","code":429}}"#,
            "an error instead of the rest of the reply, busy",
        ),
        (r#"{"error":"busy"}"#, "an error instead of the rest of the reply, busy"),
        (
            r#"{"choices":[{"message":{"content":"h"},"finish_reason":"error"}]}"#,
            "an error instead of the rest of the reply, no reason given",
        ),
        (&calls, "the reply has more than 4194304 bytes or 256 calls"),
    ];
    for (body, expected) in cases {
        let error = read(&protocol(), body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
}

#[test]
fn an_answer_is_text_even_where_nobody_reads_it() {
    let answer = |fields: &[u8]| {
        let rest = br#""choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
        [b"{", fields, rest].concat()
    };
    let cases: [(&[u8], bool); 10] = [
        (b"", true),
        ("\"x\":\"ä\",".as_bytes(), true),
        (br#""\u0078":"\ud83d\ude00","#, true),
        (br#""choices":7,"#, true),
        (b"\"x\":\"\xff\",", false),
        (b"\"\xff\":1,", false),
        (b"\xff", false),
        (b"\xef\xbb\xbf", false),
        (br#""x":"\ud83d","#, false),
        (br#""x":1e999,"#, false),
    ];
    for (fields, is_read) in cases {
        let body = answer(fields);
        let text = String::from_utf8_lossy(&body);
        match read(&protocol(), &body) {
            Ok(answer) => assert!(is_read && answer.content == "hi", "{text}"),
            Err(error) => {
                let error = error.to_string();
                assert!(
                    !is_read && error.starts_with("the answer is no JSON: "),
                    "{text}: {error}"
                );
            }
        }
    }
}
