//! Streams of chat completions.

use config::team::TokensField;
use wire::{FinishReason, Usage};

use super::*;
use crate::answer::Answer;
use crate::error::{CALLS_MAX, REPLY_BYTES_MAX};
use crate::fixture::{answer, assert_cut, assert_streams, call, server, streamed};
use crate::stream::StreamReader;

fn read(stream: &[u8], cut: usize) -> (Result<Answer, Error>, String) {
    streamed(&protocol(), stream, cut)
}

fn protocol() -> OpenAiProtocol {
    let options = OpenAi {
        server: server(true),
        strict: false,
        merge_adjacent: false,
        tokens_field: TokensField::MaxTokens,
        stream_usage: true,
    };
    OpenAiProtocol::new(options)
}

fn sse(chunks: &[&str]) -> String {
    let events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    events.concat()
}

const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const CALLS: &str = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;

#[test]
fn whole_streams_give_the_reply_wherever_they_are_split() {
    let text = r#"{"model":"m-1","choices":[{"index":0,"delta":{"content":"Hä"}}]}"#;
    let cases = [
        (
            "text, usage in a chunk of its own",
            sse(&[
                r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
                text,
                r#"{"choices":[{"index":0,"delta":{"content":"llo 😀"},"finish_reason":null}]}"#,
                STOP,
                r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
                "[DONE]",
            ]),
            Answer {
                usage: Usage::of_tokens(3, 2),
                model: Some("m-1".to_owned()),
                ..answer("Hällo 😀", vec![], FinishReason::Stop)
            },
        ),
        (
            "something after the end marker",
            sse(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, STOP, "[DONE]", "]["]),
            answer("a", vec![], FinishReason::Stop),
        ),
        (
            "no usage, no end marker",
            sse(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, STOP]),
            answer("a", vec![], FinishReason::Stop),
        ),
        (
            "an end marker and no reason",
            sse(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, "[DONE]"]),
            Answer { finish: None, ..answer("a", vec![], FinishReason::Stop) },
        ),
        (
            "two calls, joined by index, ids in the first pieces only",
            sse(&[
                r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"mul","arguments":"{"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}},{"index":1,"function":{"arguments":"}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":null,"function":{"name":null,"arguments":" 1}"}}]}}]}"#,
                CALLS,
                "[DONE]",
            ]),
            answer(
                "",
                vec![call("a", "add", r#"{"x": 1}"#), call("b", "mul", "{}")],
                FinishReason::ToolCalls,
            ),
        ),
        (
            "an id and a name repeated in every piece",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"}"}}]}}]}"#,
                CALLS,
            ]),
            answer("", vec![call("a", "add", "{}")], FinishReason::ToolCalls),
        ),
        (
            "white space behind a call that is repeated",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{\"x\":1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"\n"}}]}}]}"#,
                CALLS,
            ]),
            answer("", vec![call("a", "add", "{\"x\":1}\n")], FinishReason::ToolCalls),
        ),
        (
            "usage in the choice",
            sse(&[
                r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#,
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":13}}]}"#,
                "[DONE]",
            ]),
            Answer { usage: Usage::of_tokens(19, 13), ..answer("a", vec![], FinishReason::Stop) },
        ),
        (
            "several calls, all of index 0, arguments as an object",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":{"x":1}}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"add","arguments":{"x":2}}}]}}]}"#,
                CALLS,
            ]),
            answer(
                "",
                vec![call("a", "add", r#"{"x":1}"#), call("b", "add", r#"{"x":2}"#)],
                FinishReason::ToolCalls,
            ),
        ),
        (
            "several calls, all of index 0 and without ids",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"add","arguments":"{\"x\":1}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"add","arguments":"{\"x\":2}"}}]}}]}"#,
                CALLS,
            ]),
            answer(
                "",
                vec![call("", "add", r#"{"x":1}"#), call("", "add", r#"{"x":2}"#)],
                FinishReason::ToolCalls,
            ),
        ),
        (
            "two names under one index, without ids",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"clock","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]}}]}"#,
                CALLS,
            ]),
            answer(
                "",
                vec![call("", "clock", ""), call("", "weather", r#"{"city":"Oslo"}"#)],
                FinishReason::ToolCalls,
            ),
        ),
        (
            "two names under one index and one id",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"clock","arguments":"{}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]}}]}"#,
                CALLS,
            ]),
            answer(
                "",
                vec![call("x", "clock", "{}"), call("x", "weather", r#"{"city":"Oslo"}"#)],
                FinishReason::ToolCalls,
            ),
        ),
        (
            "one call under two indexes",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"exec","arguments":""}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"x","function":{"name":"exec","arguments":"{}"}}]}}]}"#,
                CALLS,
            ]),
            answer("", vec![call("x", "exec", "{}")], FinishReason::ToolCalls),
        ),
        (
            "events without data, and fields of errors that say nothing",
            sse(&[
                "",
                r#"{"choices":[{"delta":{"content":"a"}}],"error":{}}"#,
                " ",
                r#"{"choices":[{"delta":{"content":"b"}}],"error":""}"#,
                STOP,
            ]),
            answer("ab", vec![], FinishReason::Stop),
        ),
        (
            "calls without index",
            sse(&[
                r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"1"}},{"id":"b","function":{"name":"mul"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"2"}}]}}]}"#,
                CALLS,
            ]),
            answer("", vec![call("a", "add", "1"), call("b", "mul", "2")], FinishReason::ToolCalls),
        ),
        (
            "reasoning, other choices and unknown fields are passed over",
            sse(&[
                r#"{"choices":[{"delta":{"reasoning_content":"hm"}}],"timings":{},"error":null}"#,
                r#"{"choices":[{"index":1,"delta":{"content":"second"}}]}"#,
                r#"{"choices":[{"delta":{"content":[{"type":"text","text":"parts"}]}}]}"#,
                STOP,
            ]),
            answer("parts", vec![], FinishReason::Stop),
        ),
        (
            "a refusal",
            sse(&[r#"{"choices":[{"delta":{"refusal":"I will not."}}]}"#, STOP]),
            Answer { refusal: "I will not.".to_owned(), ..answer("", vec![], FinishReason::Stop) },
        ),
    ];
    for (name, stream, expected) in cases {
        assert_streams(&protocol(), name, &stream, &expected, &["\n", "\r\n", "\r"]);
    }
}

#[test]
fn a_stream_that_ends_anywhere_before_the_finish_is_no_reply() {
    let open = sse(&[
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"pay","arguments":"{}"}}]}}]}"#,
    ]);
    let stream = open.clone() + &sse(&[CALLS, "[DONE]"]);
    // The finish is told once its JSON is whole, with or without the line ends after it.
    let told = open.len() + "data: ".len() + CALLS.len();
    assert_cut(&protocol(), &stream, told);
}

#[test]
fn a_finish_that_more_of_the_reply_follows_is_no_end() {
    let piece = |delta: &str, finish: &str| {
        format!(r#"{{"choices":[{{"delta":{delta},"finish_reason":{finish}}}]}}"#)
    };
    let open = piece(r#"{"content":"a"}"#, "null");
    let ended = piece(r#"{"content":"a"}"#, r#""stop""#);
    let thought = piece(r#"{"reasoning_content":"a"}"#, r#""stop""#);
    let called = piece(r#"{"tool_calls":[{"function":{"name":"f"}}]}"#, r#""stop""#);
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    // Whether the reply is whole as far as is known, and whether only the tail is awaited.
    let (no, whole, tail) = ((false, false), (true, false), (true, true));
    for (chunks, expected) in [
        (vec![&*open, STOP, usage], vec![no, tail, tail]),
        (vec![&*open, &*ended, usage], vec![no, whole, whole]),
        (vec![&*ended, &*ended, STOP], vec![whole, no, no]),
        (vec![&*ended, &*thought, usage], vec![whole, no, no]),
        (vec![STOP, &*called, STOP], vec![tail, no, no]),
    ] {
        let protocol = protocol();
        let mut reader = StreamReader::new(&protocol, protocol.framing());
        for (chunk, expected) in chunks.iter().zip(expected) {
            reader.push(sse(&[chunk]).as_bytes(), &mut |_| ()).unwrap();
            assert_eq!((reader.is_finished(), reader.is_ending()), expected, "{chunks:?}");
        }
        // The end of the stream is one all the same.
        assert!(reader.end(&mut |_| ()).is_ok(), "{chunks:?}");
    }
}

#[test]
fn faults_amid_a_stream_are_told_apart() {
    let text = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
    let long = "x".repeat(1000);
    let cases: [(String, &str); 15] = [
        (
            sse(&[text, r#"{"object":"error","message":"busy","code":500}"#, STOP]),
            "an error instead of the rest of the reply, busy",
        ),
        (
            sse(&[text, r#"{"detail":"busy"}"#, STOP]),
            "an error instead of the rest of the reply, busy",
        ),
        // In one piece, whatever the server says that it is.
        (
            format!(r#"{{"error":{{"message":"busy","trace":"{long}"}}}}"#),
            "an error instead of the rest of the reply, busy",
        ),
        (
            "\n[{\r\n \"error\": {\n \"message\": \"busy\"}}]\n".to_owned(),
            "an error instead of the rest of the reply, busy",
        ),
        (r#"{"id":1}"#.to_owned(), "the answer is no stream of a reply: \"{\\\"id"),
        (
            sse(&[text, r#"{"error":{"type":"overloaded_error","message":"busy"}}"#]),
            "an error instead of the rest of the reply, overloaded_error: busy",
        ),
        (
            sse(&[text]) + "event: error\ndata: {\"message\":\"busy\"}\n\n",
            "an error instead of the rest of the reply, busy",
        ),
        (
            sse(&[text, r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#]),
            "an error instead of the rest of the reply, no reason given",
        ),
        (
            sse(&[
                text,
                r#"{"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
            ]),
            "an error instead of the rest of the reply, no reason given",
        ),
        (
            sse(&[text, r#"{"choices":[{"error":{"code":502,"message":"upstream"}}]}"#]),
            "an error instead of the rest of the reply, upstream",
        ),
        (sse(&[text, "{\"choices\":"]), "an event of the stream is no JSON: \"{\\\"choices\\\":\""),
        (sse(&[text, &"[".repeat(10_000)]), "an event of the stream is no JSON: "),
        (sse(&["[DONE]"]), "the answer is no stream of a reply: \"data: [DONE]"),
        (
            "<html>\n<p>Log in</p>".to_owned(),
            "the answer is no stream of a reply: \"<html>\\n<p>Log in</p>\"",
        ),
        (String::new(), "the answer is no stream of a reply: \"\""),
    ];
    for (stream, expected) in cases {
        for cut in [0, stream.len() / 2, stream.len()] {
            let error = read(stream.as_bytes(), cut).0.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }
}

#[test]
fn replies_have_a_largest_size() {
    let piece = |index: usize| {
        sse(&[&format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"function":{{"name":"a"}}}}]}}}}]}}"#
        )])
    };
    let calls: String = (0..=CALLS_MAX).map(piece).collect();
    let long = "x".repeat(REPLY_BYTES_MAX / 8);
    let text = sse(&[&format!(r#"{{"choices":[{{"delta":{{"content":"{long}"}}}}]}}"#)]);
    for stream in [calls, text.repeat(9)] {
        let (result, _) = read(stream.as_bytes(), 0);
        assert!(matches!(result, Err(Error::TooLarge)), "{result:?}");
    }
}
