//! Requests to a server of llama.cpp, and its answers.

use config::team::Sampling;
use wire::chat::Head;

use super::*;
use crate::answer::Answer;
use crate::fixture::{
    answer, assert_cut, assert_streams, call, conversation, head, sent, server, streamed, system,
    user,
};
use crate::http::read;

fn options(template: Template, constrain: Constrain) -> LlamaCpp {
    LlamaCpp {
        server: server(true),
        template,
        constrain,
        n_predict: None,
        sampling: Sampling::default(),
        merge_adjacent: false,
    }
}

fn protocol() -> LlamaCppProtocol {
    LlamaCppProtocol::new(options(Template::Llama2, Constrain::JsonSchema))
}

/// 000.3: every field of the published client can be set, and its values arrive.
#[test]
fn a_completion_has_the_published_fields() {
    let mut options = options(Template::Llama2, Constrain::JsonSchema);
    options.server.temperature = Some(-1.0);
    options.server.stream = false;
    options.server.stop = vec!["</s>".to_owned()];
    options.n_predict = Some(512);
    options.sampling = Sampling {
        top_k: Some(40),
        top_p: Some(0.9),
        repeat_penalty: Some(1.1),
        repeat_last_n: Some(64),
        seed: None,
    };
    let asked = conversation(Head::default(), vec![system("S"), user("U")], Some(4096));
    let protocol = LlamaCppProtocol::new(options);
    assert_eq!(protocol.path(), ["completion"]);
    let expected = json!({
        "prompt": "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]",
        "n_predict": 512, "temperature": -1.0, "top_k": 40, "top_p": 0.9,
        "repeat_penalty": 1.1, "repeat_last_n": 64, "stop": ["</s>"], "stream": false,
    });
    assert_eq!(sent(&protocol, &asked).unwrap().0, expected);
}

/// 000.1 and 000.2: the schema goes by one means, and only where there is one.
#[test]
fn a_schema_goes_by_one_means_and_never_by_two() {
    let one = |name: &str| json!({"type": "object", "properties": {"tool": {"const": name}}, "required": ["tool"]});
    let schema = json!({"oneOf": [one("now"), one("respond_to_user")]});
    let asked = conversation(head(None, Some(schema.clone()), &[]), vec![user("hi")], None);
    let thinks = conversation(Head::default(), vec![user("hi")], None);
    let means = ["json_schema", "grammar", "response_format"];
    for (template, name, form) in [
        (Template::Llama3, "json_schema", schema.clone()),
        (Template::Server, "response_format", openai::response_format("turn", &schema, true)),
    ] {
        let protocol = LlamaCppProtocol::new(options(template, Constrain::JsonSchema));
        let (body, _) = sent(&protocol, &asked).unwrap();
        let found: Vec<_> = means.iter().filter(|means| body.get(**means).is_some()).collect();
        assert_eq!(found, [&name]);
        assert_eq!(body[name], form);
        let (body, _) = sent(&protocol, &thinks).unwrap();
        assert!(means.iter().all(|means| body.get(means).is_none()), "{body}");
    }
}

#[test]
fn a_grammar_stands_in_place_of_the_schema() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "required": ["a"], "additionalProperties": false});
    let asked = conversation(head(None, Some(schema), &[]), vec![user("U")], None);
    for template in [Template::Llama2, Template::Server] {
        let protocol = LlamaCppProtocol::new(options(template, Constrain::Grammar));
        let (body, _) = sent(&protocol, &asked).unwrap();
        let grammar = body["grammar"].as_str().unwrap();
        assert!(grammar.contains("root ::="), "{grammar}");
        let others = ["json_schema", "response_format"];
        assert!(others.iter().all(|other| body.get(*other).is_none()), "{body}");
    }
    let vague = json!({"not": {"type": "string"}});
    let asked = conversation(head(None, Some(vague), &[]), vec![user("U")], None);
    let protocol = LlamaCppProtocol::new(options(Template::Llama2, Constrain::Grammar));
    assert!(sent(&protocol, &asked).is_err());
}

#[test]
fn the_servers_own_template_is_asked_as_a_chat() {
    let mut options = options(Template::Server, Constrain::JsonSchema);
    options.n_predict = Some(7);
    options.sampling.top_k = Some(3);
    options.merge_adjacent = true;
    let parameters = |pattern: Value| {
        json!({"type": "object",
        "properties": {"day": {"type": "string", "description": "Such as 03."}, "month": pattern}})
    };
    let digits = json!({"type": "string", "pattern": r"^\d\d$"});
    let head = head(Some(parameters(digits)), None, &["END"]);
    let asked = conversation(head, vec![user("a"), user("b")], Some(9));
    let protocol = LlamaCppProtocol::new(options);
    assert_eq!(protocol.path(), ["v1", "chat", "completions"]);
    let expected = json!({
        "model": "m", "messages": [{"role": "user", "content": "a\n\nb"}],
        "tools": [{"type": "function", "function": {"name": "now", "description": "Tells the time.",
            "parameters": parameters(json!({"type": "string"}))}}],
        "max_tokens": 7, "top_k": 3, "stop": ["END"], "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(sent(&protocol, &asked).unwrap().0, expected);
    let body = r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let called = answer("", vec![call("a", "now", "{}")], FinishReason::ToolCalls);
    assert_eq!(read(&protocol, body.as_bytes()).unwrap(), called);
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    let cut = answer("a", vec![], FinishReason::Length);
    assert_streams(&protocol, "chat", stream, &cut, &["\n"]);
}

#[test]
fn tools_have_no_place_in_a_prompt() {
    let asked = conversation(head(Some(json!({})), None, &[]), vec![user("a")], None);
    let error = sent(&protocol(), &asked).unwrap_err();
    assert!(error.contains("template = \"server\""), "{error}");
}

/// 000.9: a reply that is cut is told as cut, by the fields of old and new servers.
#[test]
fn ends_are_told_apart() {
    let usage = Usage::of_tokens(5, 2);
    for (fields, reason) in [
        (r#""stop_type":"eos","truncated":false"#, FinishReason::Stop),
        (r#""stop_type":"word","stopping_word":"x""#, FinishReason::Stop),
        (r#""stopped_eos":true,"stopped_limit":false"#, FinishReason::Stop),
        (r#""stop_type":"limit""#, FinishReason::Length),
        (r#""stopped_limit":true"#, FinishReason::Length),
        (r#""stop_type":"eos","truncated":true"#, FinishReason::Length),
    ] {
        let end = format!(
            r#"{{"content":"llo 😀","stop":true,"model":"g",{fields},"tokens_evaluated":5,"tokens_predicted":2}}"#
        );
        let reply = |text: &str| Answer {
            usage,
            model: Some("g".to_owned()),
            ..answer(text, vec![], reason)
        };
        assert_eq!(read(&protocol(), end.as_bytes()).unwrap(), reply("llo 😀"), "{fields}");
        let stream = format!("data: {{\"content\":\"Hä\",\"stop\":false}}\n\ndata: {end}\n\n");
        assert_streams(&protocol(), fields, &stream, &reply("Hällo 😀"), &["\n", "\r\n"]);
        assert_cut(&protocol(), &stream, stream.trim_end().len());
    }
}

#[test]
fn answers_that_are_none_say_why() {
    let text = "data: {\"content\":\"a\",\"stop\":false}\n\n";
    let busy = r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;
    let expected = "an error instead of the rest of the reply, unavailable_error: Loading model";
    for (stream, expected) in [
        (format!("{text}data: {busy}\n\n"), expected),
        (format!("{text}error: {busy}\n\n"), expected),
        (format!("{text}data: ][\n\n"), "an event of the stream is no JSON: \"][\""),
        ("data: {}\n\n".to_owned(), "the answer is no stream of a reply: "),
    ] {
        for cut in [0, stream.len() / 2, stream.len()] {
            let error = streamed(&protocol(), stream.as_bytes(), cut).0.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
    }
    for (body, expected) in [(busy, expected), ("{\"content\":null}", "the answer has no content")]
    {
        let error = read(&protocol(), body.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
}
