//! Requests to the Messages interface, and its answers.

use wire::Usage;
use wire::chat::{Head, TurnDetail};

use super::*;
use crate::answer::Answer;
use crate::fixture::{
    answer, assert_cut, assert_streams, call, conversation, head, result, said, sent, server,
    streamed, system, user,
};
use crate::http::read;
use crate::reasoning::Kept;

fn protocol() -> AnthropicProtocol {
    AnthropicProtocol::new(server(true))
}

fn texts(texts: &[&str]) -> Value {
    texts.iter().map(|text| json!({"type": "text", "text": text})).collect::<Vec<_>>().into()
}

#[test]
fn user_and_model_alternate_whatever_the_conversation() {
    let use_of = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "now", "input": input});
    let result_of =
        |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
    let cases = [
        (
            "the system's text apart, neighbours merged",
            vec![system("Be brief."), system("Be kind."), user("a"), user("b")],
            Some("Be brief.\n\nBe kind."),
            json!([{"role": "user", "content": texts(&["a", "b"])}]),
        ),
        (
            "results and what the user says next",
            vec![
                user("a"),
                said("look", vec![call("x", "now", r#"{"z":1}"#), call("y:1", "now", "")]),
                result("x", "1"),
                result("y:1", "2"),
                user("b"),
                said("c", vec![]),
            ],
            None,
            json!([
                {"role": "user", "content": texts(&["a"])},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "look"},
                    use_of("x", json!({"z": 1})), use_of("y_1", json!({}))]},
                {"role": "user", "content": [
                    result_of("x", "1"), result_of("y_1", "2"), {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": texts(&["c"])},
            ]),
        ),
        (
            "the system amid the conversation, empty texts, the model first",
            vec![said("a", vec![]), user(""), said(" ", vec![]), system("b"), user("c")],
            None,
            json!([
                {"role": "user", "content": texts(&["Go on."])},
                {"role": "assistant", "content": texts(&["a"])},
                {"role": "user", "content": texts(&["b", "c"])},
            ]),
        ),
    ];
    for (name, messages, system, expected) in cases {
        let (body, _) = sent(&protocol(), &conversation(Head::default(), messages, None)).unwrap();
        assert_eq!(body["messages"], expected, "{name}");
        assert_eq!(body.get("system").and_then(Value::as_str), system, "{name}");
    }
}

#[test]
fn what_is_kept_by_the_server_ends_where_later_requests_go_on() {
    let cached = json!({"type": "ephemeral"});
    let mut server = server(true);
    server.extra_body.insert("cache_control".to_owned(), cached.clone());
    let asking = |passing| {
        let messages = vec![
            system("Be brief."),
            user("a"),
            said("look", vec![call("x", "now", "{}")]),
            result("x", "1"),
            user("Say what to do next."),
        ];
        Conversation { passing, ..conversation(Head::default(), messages, None) }
    };
    let first = Conversation {
        passing: 1,
        ..conversation(Head::default(), vec![system("Be brief."), user("a")], None)
    };
    for (asked, place, at_body) in [
        // By turn and block.
        (asking(1), Some((2, 0)), false),
        (asking(2), Some((1, 1)), false),
        (asking(0), None, true),
        // Nothing but the system's text lasts.
        (first, None, true),
    ] {
        let protocol = AnthropicProtocol::new(server.clone());
        let (body, _) = sent(&protocol, &asked).unwrap();
        assert_eq!(body.get("cache_control"), at_body.then_some(&cached), "{place:?}");
        let mut marked = Vec::new();
        for (turn, said) in body["messages"].as_array().unwrap().iter().enumerate() {
            for (block, said) in said["content"].as_array().unwrap().iter().enumerate() {
                marked.extend(said.get("cache_control").map(|mark| ((turn, block), mark.clone())));
            }
        }
        assert_eq!(
            marked,
            place.map(|place| (place, cached.clone())).into_iter().collect::<Vec<_>>()
        );
        let (plain, _) = sent(&self::protocol(), &asked).unwrap();
        assert!(!plain.to_string().contains("cache_control"), "nobody asked for it");
    }
}

#[test]
fn parameters_of_tools_have_a_plain_object_at_their_root() {
    let parameters = json!({"oneOf": [
        {"properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": {"type": "string"}}, "required": ["b"]}]});
    let head = head(Some(parameters), None, &[]);
    let conversation = conversation(head, vec![user("hi")], None);
    for _ in 0..2 {
        let (body, _) = sent(&protocol(), &conversation).unwrap();
        assert_eq!(
            body["tools"][0]["input_schema"],
            json!({"type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})
        );
    }
}

#[test]
fn options_become_fields() {
    let mut server = server(false);
    server.temperature = Some(0.5);
    server.stop = vec![" ".to_owned(), "END".to_owned()];
    server.extra_body = json!({"tool_choice": {"type": "any"}}).as_object().unwrap().clone();
    let schema = json!({"oneOf": [{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}]});
    let parameters = json!({"properties": {"b": {}, "a": {}}});
    let head = head(Some(parameters), Some(schema), &["\nObservation"]);
    let conversation = conversation(head, vec![user("hi")], Some(99));
    let (body, _) = sent(&AnthropicProtocol::new(server), &conversation).unwrap();
    let expected = json!({
        "model": "m",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": texts(&["hi"])}],
        "tools": [{"name": "now", "description": "Tells the time.",
            "input_schema": {"properties": {"b": {}, "a": {}}, "type": "object"}}],
        "tool_choice": {"type": "any"},
        "output_config": {"format": {"type": "json_schema", "schema": {"anyOf": [
            {"type": "object", "properties": {"n": {"type": "integer", "description": "(minimum: 1)"}},
                "additionalProperties": false}]}}},
        "temperature": 0.5,
        "stop_sequences": ["\nObservation", "END"],
        "stream": false,
    });
    assert_eq!(body, expected);
    let plain = sent(&protocol(), &crate::fixture::conversation(Head::default(), vec![], None));
    let (plain, _) = plain.unwrap();
    assert_eq!(plain, json!({"model": "m", "max_tokens": 4096, "messages": [], "stream": true}));
}

#[test]
fn answers_in_one_piece_are_read() {
    let body = r#"{"id":"msg_1","type":"message","model":"c-1","content":[
        {"type":"thinking","thinking":"hm"},{"type":"text","text":"Hä"},{"type":"text","text":"llo"},
        {"type":"tool_use","id":"a","name":"now","input":{"b":1,"a":1.0}},
        {"type":"tool_use","id":"b","name":"now","input":{}}],
        "stop_reason":"tool_use","usage":{"input_tokens":5,"output_tokens":2,
        "cache_creation_input_tokens":10,"cache_read_input_tokens":100}}"#;
    let calls = vec![call("a", "now", r#"{"b":1,"a":1.0}"#), call("b", "now", "{}")];
    let detail = TurnDetail {
        response_id: Some("msg_1".to_owned()),
        cache_read_tokens: Some(100),
        cache_creation_tokens: Some(10),
        ..TurnDetail::default()
    };
    let expected = Answer {
        usage: Usage::of_tokens(115, 2),
        model: Some("c-1".to_owned()),
        reasoning: Kept {
            message: json!([{"type": "thinking", "thinking": "hm"}]),
            ..Kept::default()
        },
        detail,
        ..answer("Hällo", calls, FinishReason::ToolCalls)
    };
    assert_eq!(read(&protocol(), body.as_bytes()).unwrap(), expected);
    for (word, reason) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::ContentFilter),
        ("pause_turn", FinishReason::Other),
    ] {
        let body = json!({"content": [{"type": "text", "text": "a"}], "stop_reason": word});
        let read = read(&protocol(), body.to_string().as_bytes()).unwrap();
        assert_eq!(read, answer("a", vec![], reason), "{word}");
    }
}

/// The interface closes the object of a call in which the reply is cut.
#[test]
fn a_call_in_which_a_reply_is_cut_is_open() {
    let cases = [
        (r#"{"a":1}"#, "max_tokens", true, r#"{"a":1"#),
        ("{}", "max_tokens", true, "{"),
        (r#"{"a":{"b":1}}"#, "model_context_window_exceeded", true, r#"{"a":{"b":1}"#),
        (r#"{"a":1}"#, "refusal", true, r#"{"a":1"#),
        // What follows a call shows that it had its end.
        (r#"{"a":1}"#, "max_tokens", false, r#"{"a":1}"#),
        (r#"{"a":1}"#, "tool_use", true, r#"{"a":1}"#),
        (r#"{"a":1}"#, "pause_turn", true, r#"{"a":1}"#),
    ];
    for (arguments, reason, is_last, expected) in cases {
        let input: Value = serde_json::from_str(arguments).unwrap();
        let mut content =
            vec![json!({"type": "tool_use", "id": "a", "name": "now", "input": input})];
        let mut chunks = vec![START.to_owned(), tool_block(0, "a"), self::input(0, arguments)];
        if !is_last {
            content.push(json!({"type": "text", "text": "b"}));
            chunks.push(TEXT.replace("\"index\":0", "\"index\":1"));
        }
        chunks.extend([end(reason), STOP.to_owned()]);
        let body = json!({"content": content, "stop_reason": reason}).to_string();
        let stream: String = chunks.iter().map(|chunk| event(chunk)).collect();
        let answers = [
            read(&protocol(), body.as_bytes()).unwrap(),
            streamed(&protocol(), stream.as_bytes(), 0).0.unwrap(),
        ];
        for answer in answers {
            assert_eq!(answer.calls, [call("a", "now", expected)], "{arguments} {reason}");
        }
    }
}

fn event(data: &str) -> String {
    let value: Value = serde_json::from_str(data).unwrap();
    format!("event: {}\ndata: {data}\n\n", value["type"].as_str().unwrap())
}

fn events(events: &[&str]) -> String {
    events.iter().map(|data| event(data)).collect()
}

const START: &str = r#"{"type":"message_start","message":{"model":"c-1","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":7,"output_tokens":1}}}"#;
const TEXT: &str =
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const PIECE_1: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hä"}}"#;
const PIECE_2: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"llo 😀"}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn tool_block(index: u32, id: &str) -> String {
    format!(
        r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"{id}","name":"now","input":{{}}}}}}"#
    )
}

fn input(index: u32, json: &str) -> String {
    json!({"type": "content_block_delta", "index": index,
        "delta": {"type": "input_json_delta", "partial_json": json}})
    .to_string()
}

fn end(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}},"usage":{{"output_tokens":9}}}}"#
    )
}

#[test]
fn streams_give_the_reply_wherever_they_are_split() {
    let usage = Usage::of_tokens(12, 9);
    let detail = TurnDetail { cache_read_tokens: Some(7), ..TurnDetail::default() };
    let model = Some("c-1".to_owned());
    let thinking = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#;
    let cases = [
        (
            "text amid pings",
            events(&[
                START,
                r#"{"type":"ping"}"#,
                TEXT,
                thinking,
                PIECE_1,
                PIECE_2,
                &end("end_turn"),
                STOP,
            ]),
            Answer {
                usage,
                model: model.clone(),
                detail: detail.clone(),
                ..answer("Hällo 😀", vec![], FinishReason::Stop)
            },
        ),
        (
            "text and calls, pieces mixed",
            events(&[
                START,
                TEXT,
                PIECE_1,
                &tool_block(1, "a"),
                &tool_block(2, "b"),
                &input(1, ""),
                &input(1, "{\"x\":"),
                &input(2, "{}"),
                &input(1, " 1}"),
                // Of a tool that the provider calls itself.
                r#"{"type":"content_block_start","index":4,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
                &input(4, "{\"query\":\"x\"}"),
                &tool_block(3, "c"),
                &end("tool_use"),
                STOP,
            ]),
            Answer {
                usage,
                model,
                detail,
                ..answer(
                    "Hä",
                    vec![
                        call("a", "now", r#"{"x": 1}"#),
                        call("b", "now", "{}"),
                        call("c", "now", ""),
                    ],
                    FinishReason::ToolCalls,
                )
            },
        ),
    ];
    for (name, stream, expected) in cases {
        assert_streams(&protocol(), name, &stream, &expected, &["\n", "\r\n"]);
    }
}

#[test]
fn a_stream_that_ends_anywhere_before_the_reason_is_no_reply() {
    let open = events(&[START, &tool_block(0, "a"), &input(0, "{}")]);
    let end = event(&end("tool_use"));
    let told = open.len() + end.trim_end().len();
    assert_cut(&protocol(), &(open + &end + &event(STOP)), told);
}

#[test]
fn answers_that_are_none_say_why() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;
    for (stream, expected) in [
        (
            events(&[START, PIECE_1, error]),
            "an error instead of the rest of the reply, overloaded_error: busy",
        ),
        (event(START) + "data: ][\n\n", "an event of the stream is no JSON: \"][\""),
        (event(r#"{"type":"ping"}"#), "the answer is no stream of a reply: "),
    ] {
        for cut in [0, stream.len() / 2, stream.len()] {
            let error = streamed(&protocol(), stream.as_bytes(), cut).0.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }
    for (body, expected) in [
        (error, "an error instead of the rest of the reply, overloaded_error: busy"),
        (r#"{"content":"hi"}"#, "the answer has no content: "),
    ] {
        let error = read(&protocol(), body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
}
