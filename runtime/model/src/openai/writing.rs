//! Requests for chat completions.

use config::team::TokensField;
use serde_json::json;
use wire::chat::{Head, ResponseSchema};
use wire::{Name, ToolSpec};

use super::*;
use crate::fixture::{conversation, said, sent, server, user};

fn options(change: impl FnOnce(&mut OpenAi)) -> OpenAi {
    let mut options = OpenAi {
        server: server(false),
        strict: false,
        merge_adjacent: false,
        tokens_field: TokensField::MaxTokens,
        stream_usage: true,
    };
    change(&mut options);
    options
}

fn body(options: &OpenAi, conversation: &Conversation) -> Result<Vec<u8>, String> {
    let (fields, _) = sent(&OpenAiProtocol::new(options.clone()), conversation)?;
    Ok(fields.to_string().into_bytes())
}

#[test]
fn the_history_is_sent_in_order_and_arguments_as_they_are_if_they_are_an_object() {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "int_mult".to_owned(),
        arguments: arguments.to_owned(),
    };
    let tool = |call_id: &str, content: &str| Message::Tool {
        call_id: call_id.to_owned(),
        name: "int_mult".to_owned(),
        content: content.to_owned(),
    };
    let messages = vec![
        Message::System { content: "Be brief.".to_owned() },
        user("12*34?"),
        said("", vec![call("a", r#"{"a": 12,"b":34 }"#), call("b", "{\"a\":")]),
        tool("a", "408"),
        tool("b", "no JSON"),
        said("408", vec![]),
        said("", vec![]),
        said("again", vec![call("c", "")]),
    ];
    let call = |id: &str, arguments: &str| {
        json!({"id": id, "type": "function",
            "function": {"name": "int_mult", "arguments": arguments}})
    };
    let bytes = body(&options(|_| ()), &conversation(Head::default(), messages, None)).unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&bytes).unwrap(),
        json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "12*34?"},
                {"role": "assistant", "content": null,
                    "tool_calls": [call("a", r#"{"a": 12,"b":34 }"#),
                        call("b", r#"{"arguments":"{\"a\":"}"#)]},
                {"role": "tool", "tool_call_id": "a", "name": "int_mult", "content": "408"},
                {"role": "tool", "tool_call_id": "b", "name": "int_mult", "content": "no JSON"},
                {"role": "assistant", "content": "408"},
                {"role": "assistant", "content": ""},
                {"role": "assistant", "content": "again", "tool_calls": [call("c", "{}")]},
            ],
            "stream": false,
        })
    );
}

#[test]
fn ids_of_calls_are_such_as_all_servers_take() {
    let key = "0123456789abcdef0123456789abcdef";
    let long = format!("chatcmpl-tool-{key}");
    // Whether it is kept by servers that take any, and by those that take one form alone.
    for (id, are_kept) in [
        ("", [true, false]),
        ("a", [true, false]),
        ("call_7", [true, false]),
        ("call00007", [true, true]),
        ("D681PevKs", [true, true]),
        ("call_0007", [true, false]),
        ("call00ä7", [true, false]),
        ("call000007", [true, false]),
        (key, [true, false]),
        (&*"x".repeat(40), [true, false]),
        (&*"x".repeat(41), [false, false]),
        (&*long, [false, false]),
    ] {
        for (ids, is_kept) in [Ids::Short, Ids::Plain].into_iter().zip(are_kept) {
            let sent = lowered_id(id, ids);
            assert_eq!(sent == id, is_kept, "{id}: {sent}");
            let is_short = sent.len() == 9 && sent.bytes().all(|byte| byte.is_ascii_alphanumeric());
            assert!(is_kept || is_short, "{id}: {sent}");
        }
    }
    let lowered = |number| lowered_id(&format!("{long}{number}"), Ids::Short).into_owned();
    let ids: std::collections::HashSet<String> = (0..1000).map(lowered).collect();
    assert_eq!(ids.len(), 1000);
    for (merge_adjacent, ids) in [(false, Ids::Short), (true, Ids::Plain)] {
        for id in ["call_49c89af0", "D681PevKs", &long] {
            let call =
                ToolCall { id: id.to_owned(), name: "f".to_owned(), arguments: "{}".to_owned() };
            let result = Message::Tool {
                call_id: id.to_owned(),
                name: "f".to_owned(),
                content: "1".to_owned(),
            };
            let messages = vec![user("?"), said("", vec![call]), result];
            let options = options(|o| o.merge_adjacent = merge_adjacent);
            let bytes = body(&options, &conversation(Head::default(), messages, None)).unwrap();
            let sent: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(sent["messages"][1]["tool_calls"][0]["id"], *lowered_id(id, ids));
            assert_eq!(sent["messages"][2]["tool_call_id"], *lowered_id(id, ids));
        }
    }
}

#[test]
fn a_message_is_written_in_one_form_to_the_byte() {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "a\"b".to_owned(),
        arguments: arguments.to_owned(),
    };
    let reasoned = |content: &str, calls, message, extras| {
        let reasoning = Reasoning { by: crate::fixture::asked(), message, calls: extras };
        let (content, reasoning) = (content.to_owned(), Some(reasoning.into()));
        Message::Assistant { content, calls, reasoning }
    };
    let kept = json!({"reasoning_details": [], "reasoning": null, "reasoning_content": "hm\n",
        "other": 1});
    let cases = [
        (
            Message::System { content: "\"ä\"\n".to_owned() },
            r#"{"role":"system","content":"\"ä\"\n"}"#,
        ),
        (user(""), r#"{"role":"user","content":""}"#),
        (said("", vec![]), r#"{"role":"assistant","content":""}"#),
        (
            said("a\\", vec![call("1", "{}")]),
            r#"{"role":"assistant","content":"a\\","tool_calls":[{"id":"1","type":"function","function":{"name":"a\"b","arguments":"{}"}}]}"#,
        ),
        (
            said("", vec![call("\t", "{\"x\": 1}"), call("2", "x")]),
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"\t","type":"function","function":{"name":"a\"b","arguments":"{\"x\": 1}"}},{"id":"2","type":"function","function":{"name":"a\"b","arguments":"{\"arguments\":\"x\"}"}}]}"#,
        ),
        (
            Message::Tool {
                call_id: "\"".to_owned(),
                name: "\\".to_owned(),
                content: "\u{1}".to_owned(),
            },
            r#"{"role":"tool","tool_call_id":"\"","name":"\\","content":"\u0001"}"#,
        ),
        (
            reasoned(
                "so",
                vec![call("1", ""), call("2", "{}")],
                kept,
                vec![Value::Null, json!({"g": "s"})],
            ),
            r#"{"role":"assistant","content":"so","reasoning_content":"hm\n","reasoning":null,"reasoning_details":[],"tool_calls":[{"id":"1","type":"function","function":{"name":"a\"b","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"a\"b","arguments":"{}"},"extra_content":{"g":"s"}}]}"#,
        ),
        (
            reasoned("", vec![], json!({"reasoning": "r"}), vec![]),
            r#"{"role":"assistant","content":"","reasoning":"r"}"#,
        ),
    ];
    for (message, expected) in cases {
        let conversation = conversation(Head::default(), vec![message], None);
        for merge_adjacent in [false, true] {
            let protocol = OpenAiProtocol::new(options(|o| o.merge_adjacent = merge_adjacent));
            let to = crate::fixture::asked();
            let body = protocol.body(&conversation, Some(&to)).unwrap().write().unwrap();
            let mut expected = format!(r#"{{"model":"m","messages":[{expected}],"stream":false}}"#);
            for id in ["1", "2", "\t", "\""].iter().filter(|_| merge_adjacent) {
                let as_sent = |id: &str| format!("id\":{}", json!(id));
                expected = expected.replace(&as_sent(id), &as_sent(&lowered_id(id, Ids::Plain)));
            }
            assert_eq!(String::from_utf8(body).unwrap(), expected);
        }
    }
}

#[test]
fn arguments_are_the_text_of_an_object_whatever_a_model_wrote() {
    let calls = ["{\"a\":", "{'a': 1}", "x", "", "[1]"].map(|arguments| ToolCall {
        id: "a".to_owned(),
        name: "t".to_owned(),
        arguments: arguments.to_owned(),
    });
    let messages = vec![user("hi"), said("", calls.to_vec())];
    for merge_adjacent in [false, true] {
        let options = options(|o| o.merge_adjacent = merge_adjacent);
        let bytes = body(&options, &conversation(Head::default(), messages.clone(), None)).unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        let sent = body["messages"][1]["tool_calls"].as_array().unwrap();
        assert_eq!(sent.len(), calls.len());
        for (call, sent) in calls.iter().zip(sent) {
            let text = sent["function"]["arguments"].as_str().unwrap();
            let object = serde_json::from_str::<serde_json::Map<String, Value>>(text);
            assert!(object.is_ok(), "{}: {text}", call.arguments);
        }
    }
}

#[test]
fn options_become_fields() {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"b": text, "a": text},
        "required": ["b", "a"], "additionalProperties": false});
    let head = Head {
        tools: vec![ToolSpec {
            name: Name::new("now").unwrap(),
            description: "Tells the time.".to_owned(),
            parameters: schema.clone(),
        }],
        response_schema: Some(ResponseSchema {
            name: Name::new("turn").unwrap(),
            schema: schema.clone(),
        }),
        stop: vec!["Observation:".to_owned()],
    };
    let plain = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
        "stream": false});
    let with = |fields: Value| {
        let mut body = plain.clone();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let format = |strict: bool| {
        json!({"type": "json_schema",
            "json_schema": {"name": "turn", "schema": schema, "strict": strict}})
    };
    let tools = json!([{"type": "function", "function": {
        "name": "now", "description": "Tells the time.", "parameters": schema}}]);
    let stop = json!(["Observation:"]);
    let cases = [
        (options(|_| ()), Head::default(), None, plain.clone()),
        (
            options(|o| o.server.stream = true),
            Head::default(),
            Some(9),
            with(json!({
            "max_tokens": 9, "stream": true, "stream_options": {"include_usage": true}})),
        ),
        (
            options(|o| {
                o.server.stream = true;
                o.stream_usage = false;
            }),
            Head::default(),
            None,
            with(json!({"stream": true})),
        ),
        (
            options(|o| o.tokens_field = TokensField::MaxCompletionTokens),
            Head::default(),
            Some(9),
            with(json!({"max_completion_tokens": 9})),
        ),
        (
            options(|o| o.server.temperature = Some(0.0)),
            head.clone(),
            None,
            with(json!({
            "tools": tools, "response_format": format(false), "temperature": 0.0,
            "stop": stop})),
        ),
        (
            options(|o| o.strict = true),
            head,
            None,
            with(json!({
            "tools": tools, "response_format": format(true), "stop": stop})),
        ),
        (
            options(|o| {
                o.server.temperature = Some(0.5);
                o.server.extra_body =
                    json!({"temperature": 1, "max_tokens": null, "seed": {"x": []}})
                        .as_object()
                        .unwrap()
                        .clone();
            }),
            Head::default(),
            Some(9),
            with(json!({"temperature": 1, "max_tokens": null, "seed": {"x": []}})),
        ),
    ];
    for (options, head, max_tokens, expected) in cases {
        let conversation = conversation(head, vec![user("hi")], max_tokens);
        let bytes = body(&options, &conversation).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
    }
}

#[test]
fn schemas_keep_the_order_of_their_keys() {
    let schema = serde_json::from_str(r#"{"properties":{"tool":{},"arguments":{}}}"#).unwrap();
    let head = Head {
        response_schema: Some(ResponseSchema { name: Name::new("t").unwrap(), schema }),
        ..Head::default()
    };
    let extra = json!({"seed": 1}).as_object().unwrap().clone();
    for options in [options(|_| ()), options(|o| o.server.extra_body = extra)] {
        let bytes = body(&options, &conversation(head.clone(), vec![], None)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(r#"{"properties":{"tool":{},"arguments":{}}}"#), "{text}");
    }
}

#[test]
fn strict_servers_get_the_form_that_they_take() {
    let one = json!({"type": "object", "properties": {"tool": {"const": "now"}},
        "required": ["tool"], "additionalProperties": false});
    let schema = json!({"oneOf": [one, one]});
    let one = json!({"type": "object", "properties": {"tool": {"const": "now", "type": "string"}},
        "required": ["tool"], "additionalProperties": false});
    let head = crate::fixture::head(None, Some(schema), &[]);
    let protocol = OpenAiProtocol::new(options(|o| o.strict = true));
    let (body, wrapped) = sent(&protocol, &conversation(head, vec![], None)).unwrap();
    assert!(wrapped);
    assert_eq!(
        body["response_format"]["json_schema"]["schema"],
        json!({"type": "object", "properties": {"reply": {"anyOf": [one, one]}},
            "required": ["reply"], "additionalProperties": false})
    );
}

#[test]
fn neighbours_of_one_role_are_merged_where_wanted() {
    let messages = || vec![user("a"), user("b")];
    for (merge_adjacent, expected) in [(false, vec!["a", "b"]), (true, vec!["a\n\nb"])] {
        let protocol = OpenAiProtocol::new(options(|o| o.merge_adjacent = merge_adjacent));
        let (body, _) = sent(&protocol, &conversation(Head::default(), messages(), None)).unwrap();
        let texts: Vec<&Value> =
            body["messages"].as_array().unwrap().iter().map(|m| &m["content"]).collect();
        assert_eq!(texts, expected);
    }
}

#[test]
fn parameters_of_tools_have_a_plain_object_at_their_root() {
    let text = json!({"type": "string"});
    let parameters = json!({"type": "object", "properties": {"a": text, "b": {"type": "array"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let head = crate::fixture::head(Some(parameters.clone()), None, &[]);
    let conversation = conversation(head, vec![user("hi")], None);
    let plain = json!({"type": "object",
        "properties": {"a": text, "b": {"type": "array", "items": {}}}});
    // A model that stands in for another may be asked with the same head, and take more.
    let other = config::team::Ollama {
        server: server(false),
        num_ctx: None,
        num_predict: None,
        sampling: config::team::Sampling::default(),
        keep_alive: None,
        think: None,
    };
    let other = crate::ollama::OllamaProtocol::new(other);
    for _ in 0..2 {
        let (body, _) = sent(&OpenAiProtocol::new(options(|_| ())), &conversation).unwrap();
        assert_eq!(body["tools"][0]["function"]["parameters"], plain);
        let (body, _) = sent(&other, &conversation).unwrap();
        assert_eq!(body["tools"][0]["function"]["parameters"], parameters);
    }
}

#[test]
fn tools_are_sent_as_the_team_wrote_them() {
    let parameters = [
        r#"{"type":"object","properties":{"b":{"title":"B","type":"integer"},"a":{"title":"A","type":"integer"}},"required":["b","a"]}"#,
        r#"{"type":"object","properties":{}}"#,
    ];
    let tool = |text: &&str| ToolSpec {
        name: Name::new("t").unwrap(),
        description: "t(a: int) -> int\nMultiplies.".to_owned(),
        parameters: serde_json::from_str(text).unwrap(),
    };
    let head = Head { tools: parameters.iter().map(tool).collect(), ..Head::default() };
    for strict in [false, true] {
        let options = options(|options| options.strict = strict);
        let conversation = conversation(head.clone(), vec![user("12*34?")], None);
        let body = String::from_utf8(body(&options, &conversation).unwrap()).unwrap();
        for parameters in parameters {
            let function = format!(
                r#"{{"type":"function","function":{{"name":"t","description":"t(a: int) -> int\nMultiplies.","parameters":{parameters}}}}}"#
            );
            assert!(body.contains(&function), "{body}");
        }
    }
}
