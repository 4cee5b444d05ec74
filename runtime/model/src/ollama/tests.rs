//! Requests to Ollama, and its answers.

use config::team::Sampling;
use wire::chat::Head;

use super::*;
use crate::answer::Answer;
use crate::fixture::{
    answer, assert_cut, assert_streams, call, conversation, head, result, said, sent, server,
    streamed, system, user,
};
use crate::http::read;

fn options(stream: bool) -> Ollama {
    Ollama {
        server: server(stream),
        num_ctx: None,
        num_predict: None,
        sampling: Sampling::default(),
        keep_alive: None,
        think: None,
    }
}

fn protocol() -> OllamaProtocol {
    OllamaProtocol::new(options(true))
}

#[test]
fn a_conversation_is_sent_with_arguments_as_objects() {
    let messages = vec![
        system("Be brief."),
        user("what time?"),
        said("", vec![call("a", "now", r#"{"zone":"UTC"}"#), call("b", "now", "UTC")]),
        result("a", "noon"),
        result("b", "no JSON"),
        said("noon", vec![]),
    ];
    let (body, _) = sent(&protocol(), &conversation(Head::default(), messages, None)).unwrap();
    let call = |id: &str, arguments: Value| json!({"id": id, "function": {"name": "now", "arguments": arguments}});
    let tool = |id: &str, text: &str| json!({"role": "tool", "tool_name": "now", "tool_call_id": id, "content": text});
    let expected = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "what time?"},
            {"role": "assistant", "content": "", "tool_calls": [
                call("a", json!({"zone": "UTC"})), call("b", json!({"arguments": "UTC"}))]},
            tool("a", "noon"),
            tool("b", "no JSON"),
            {"role": "assistant", "content": "noon"},
        ],
        "stream": true,
    });
    assert_eq!(body, expected);
}

/// 004.1: model, temperature 0 and the stop text of the movie agent reach the server.
#[test]
fn options_become_fields() {
    let mut options = options(false);
    options.num_ctx = Some(8192);
    options.num_predict = Some(100);
    options.keep_alive = Some("5m".to_owned());
    options.think = Some("low".into());
    options.sampling = Sampling { top_k: Some(1), seed: Some(7), ..Sampling::default() };
    options.server.temperature = Some(0.0);
    options.server.stop = vec!["END".to_owned()];
    options.server.extra_body = json!({"truncate": false}).as_object().unwrap().clone();
    let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
    let head = head(Some(schema.clone()), Some(schema.clone()), &["\nObservation"]);
    let conversation = conversation(head, vec![user("hi")], Some(4096));
    let (body, wrapped) = sent(&OllamaProtocol::new(options), &conversation).unwrap();
    assert!(!wrapped);
    let expected = json!({
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function":
            {"name": "now", "description": "Tells the time.", "parameters": schema}}],
        "format": schema,
        "stream": false,
        "options": {"num_ctx": 8192, "num_predict": 100, "temperature": 0.0, "top_k": 1,
            "seed": 7, "stop": ["\nObservation", "END"]},
        "keep_alive": "5m",
        "think": "low",
        "truncate": false,
    });
    assert_eq!(body, expected);
    assert!(body.to_string().contains(r#"{"b":{},"a":{}}"#), "the order of keys is kept");
}

const TEXT: &str = r#"{"model":"m:1","message":{"role":"assistant","content":"Hä"},"done":false}"#;
const MORE: &str = r#"{"model":"m:1","message":{"content":"llo 😀","thinking":"hm"}}"#;
const STOP: &str = r#"{"model":"m:1","message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":5,"eval_count":2}"#;
const CALL: &str = r#"{"message":{"content":"","tool_calls":[{"id":"a","function":{"index":0,"name":"now","arguments":{"b":1,"a":1.0}}}]},"done":false}"#;
const ANOTHER: &str = r#"{"message":{"tool_calls":[{"function":{"index":0,"name":"now","arguments":{}}},{"function":{"name":"f"}}]}}"#;

fn lines(lines: &[&str]) -> String {
    lines.join("\n") + "\n"
}

#[test]
fn streams_and_whole_answers_give_the_reply() {
    let usage = Usage::of_tokens(5, 2);
    let model = Some("m:1".to_owned());
    let cases = [
        (
            "text",
            lines(&[TEXT, MORE, STOP]),
            Answer {
                usage,
                model: model.clone(),
                ..answer("Hällo 😀", vec![], FinishReason::Stop)
            },
        ),
        (
            "calls in several lines",
            lines(&[CALL, ANOTHER, STOP]),
            Answer {
                usage,
                model: model.clone(),
                ..answer(
                    "",
                    vec![
                        call("a", "now", r#"{"b":1,"a":1.0}"#),
                        call("", "now", "{}"),
                        call("", "f", ""),
                    ],
                    FinishReason::ToolCalls,
                )
            },
        ),
        (
            "cut by the limit",
            lines(&[TEXT, &STOP.replace("\"stop\"", "\"length\"")]),
            Answer { usage, model, ..answer("Hä", vec![], FinishReason::Length) },
        ),
        (
            "no reason",
            lines(&[r#"{"message":{"content":"a"},"done":true}"#]),
            Answer { finish: None, ..answer("a", vec![], FinishReason::Stop) },
        ),
    ];
    for (name, stream, expected) in cases {
        assert_streams(&protocol(), name, &stream, &expected, &["\n", "\r\n", "\n\n"]);
        if stream.lines().count() == 1 {
            assert_eq!(read(&protocol(), stream.as_bytes()).unwrap(), expected, "{name}");
        }
    }
}

#[test]
fn a_stream_that_ends_anywhere_before_the_last_line_is_no_reply() {
    let stream = lines(&[TEXT, CALL, STOP]);
    assert_cut(&protocol(), &stream, stream.len() - 1);
}

#[test]
fn answers_that_are_none_say_why() {
    let streams = [
        (
            lines(&[TEXT, r#"{"error":"out of memory"}"#]),
            "an error instead of the rest of the reply, out of memory",
        ),
        (lines(&[TEXT, "]["]), "an event of the stream is no JSON: \"][\""),
        (lines(&[r#"{"status":"loading"}"#]), "the answer is no stream of a reply: "),
        ("<p>".to_owned(), "the answer is no stream of a reply: \"<p>\""),
    ];
    for (stream, expected) in streams {
        for cut in [0, stream.len() / 2, stream.len()] {
            let error = streamed(&protocol(), stream.as_bytes(), cut).0.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }
    for (body, expected) in [
        (
            r#"{"error":"model \"x\" not found"}"#,
            "an error instead of the rest of the reply, model",
        ),
        (r#"{"message":"hi","done":true}"#, "the answer has no message: "),
        ("[]", "the answer has no message: "),
    ] {
        let error = read(&protocol(), body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
}
