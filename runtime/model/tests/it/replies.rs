//! What a turn sends, and what it makes of good answers.

use std::path::Path;
use std::time::Duration;

use config::team::Provider;
use serde_json::json;
use tokio::time::Instant;
use tools::SecretRef;
use wire::{ErrorCode, FinishReason, Message, ModelReply, ToolCall, Usage};

use crate::server::{Server, Step, answer, chunked, said, stream_head, whole};
use crate::setup::{assert_failed, client, conversation, model, openai, try_clients, turn, user};

const TEXT_1: &str = r#"{"model":"gpt-1","choices":[{"delta":{"content":"Hä"}}]}"#;
const TEXT_2: &str = r#"{"choices":[{"delta":{"content":"llo 😀"}}]}"#;
const STOP: &str = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#;

fn hello() -> ModelReply {
    ModelReply {
        content: "Hällo 😀".into(),
        calls: Vec::new(),
        reasoning: None,
        finish: FinishReason::Stop,
        usage: Usage::of_tokens(5, 2),
        provider: "openai".to_owned(),
        model: "gpt-1".to_owned(),
        attempts: 1,
        served_by: None,
        detail: wire::chat::TurnDetail::default(),
    }
}

#[tokio::test]
async fn one_reply_comes_in_many_forms() {
    let events = [TEXT_1, TEXT_2, STOP, USAGE, "[DONE]"];
    let stream = format!("data: {}\r\n\r\n", events.join("\r\n\r\ndata: "));
    let stream = [stream_head(), stream.into_bytes()].concat();
    let json = String::from_utf8(said("Hällo 😀")).unwrap();
    let unnamed = json.replace("content-type: application/json\r\n", "").into_bytes();
    let kept_open = vec![Step::Send(chunked(&events, false)), Step::Hang];
    let silent_tail = vec![Step::Send(chunked(&[TEXT_1, TEXT_2, USAGE, STOP], false)), Step::Hang];
    let junk_tail = vec![Step::Send(chunked(&[TEXT_1, TEXT_2, USAGE, STOP, "]["], true))];
    let unmarked = format!("data: {}\n\n", [TEXT_1, TEXT_2, USAGE, STOP].join("\n\ndata: "));
    let comments = ": still there\n\n".repeat(1_000).into_bytes();
    let endless_tail = vec![
        Step::Send([stream_head(), unmarked.into_bytes()].concat()),
        Step::Drip(comments, Duration::from_millis(5)),
    ];
    let slowly = Duration::from_micros(100);
    // Each piece says that the model stopped, and the next one comes when an end is long overdue.
    let ended = |text: &str| text.replace("}}]}", "},\"finish_reason\":\"stop\"}]}");
    let piece = |text: &str| Step::Send(format!("data: {text}\n\n").into_bytes());
    let ended_often = vec![
        Step::Send(stream_head()),
        piece(&ended(TEXT_1)),
        Step::Pause(Duration::from_millis(2_500)),
        piece(&ended(TEXT_2)),
        Step::Pause(Duration::from_millis(2_500)),
        piece(USAGE),
        piece("[DONE]"),
    ];
    let cases = [
        ("one piece", false, vec![Step::Send(said("Hällo 😀"))]),
        ("byte by byte", false, vec![Step::Drip(said("Hällo 😀"), slowly)]),
        ("no type", false, vec![Step::Send(unnamed)]),
        ("no stream though asked for", true, vec![Step::Send(said("Hällo 😀"))]),
        ("a stream though not asked for", false, vec![Step::Send(stream.clone())]),
        ("a stream until the connection ends", true, vec![Step::Send(stream)]),
        ("a stream in chunks", true, vec![Step::Send(chunked(&events, true))]),
        ("a stream byte by byte", true, vec![Step::Drip(chunked(&events, true), slowly)]),
        ("a stream that stays open", true, kept_open),
        ("a stream that stays open without an end marker", true, silent_tail),
        ("a stream that goes on without an end marker", true, endless_tail),
        ("a stream with something else behind it", true, junk_tail),
        ("a stream that ends with every piece", true, ended_often),
    ];
    for (name, stream, play) in cases {
        let mut server = Server::start(vec![play]).await;
        let client = client(&model(Provider::OpenAi(openai(&server.base_url, stream))));
        let begun = Instant::now();
        let (result, shown) = turn(&client, &conversation(vec![user("hi")])).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}: waits for what may not come");
        let mut reply = result.unwrap();
        // Only what comes in pieces has a first one, and when that came is no part of what it says.
        reply.detail.first_chunk_us = None;
        assert_eq!(reply, hello(), "{name}");
        assert_eq!(shown.concat(), "Hällo 😀", "{name}");
        assert_eq!(server.requests().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_reply_that_goes_on_after_its_end_and_is_cut_is_asked_for_again() {
    let ended = |text: &str| text.replace("}}]}", "},\"finish_reason\":\"stop\"}]}");
    let cut = chunked(&[&ended(TEXT_1), &ended(TEXT_2)], false);
    let mut server = Server::start(vec![vec![Step::Send(cut)], vec![Step::Send(said("Hi"))]]).await;
    let client = client(&model(Provider::OpenAi(openai(&server.base_url, true))));
    let (result, _) = turn(&client, &conversation(vec![user("hi")])).await;
    assert_eq!(result.unwrap().content.as_str(), "Hi");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn what_a_server_cannot_read_of_a_reply_is_the_reply() {
    let text = r#"<function=now{"zone":"UTC"}</function>"#;
    let error = json!({"message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": text});
    let error = json!({ "error": error }).to_string();
    let json = "content-type: application/json\r\n";
    let whole = answer(400, &format!("{json}x-should-retry: false\r\n"), &error);
    let unparsed = json!({"code": 500, "type": "server_error",
        "message": format!("Failed to parse input at pos 7: {text}")});
    let unparsed = answer(500, json, &json!({ "error": unparsed }).to_string());
    for (name, play, pieces) in [
        ("a status", whole, ""),
        ("a status of the server", unparsed, ""),
        ("an event", chunked(&[&error], true), ""),
        ("an event after some text", chunked(&[TEXT_1, &error], true), "Hä"),
    ] {
        let mut server = Server::start(vec![vec![Step::Send(play)]]).await;
        let client = client(&model(Provider::OpenAi(openai(&server.base_url, true))));
        let (result, shown) = turn(&client, &conversation(vec![user("hi")])).await;
        let reply = result.unwrap();
        assert_eq!((reply.content.as_str(), reply.finish), (text, FinishReason::Other), "{name}");
        // Neither count is told.
        assert!(reply.usage.input_tokens > 10 && reply.usage.output_tokens > 9, "{name}");
        assert_eq!(shown.concat(), pieces, "{name}");
        assert_eq!(server.requests().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_request_names_path_key_and_options() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("key");
    std::fs::write(&file, "sk-Test\n").unwrap();
    let mut server = Server::start(vec![vec![Step::Send(said("a"))]]).await;
    let mut options = openai(&(server.base_url.clone() + "/?api-version=2"), true);
    options.server.api_key = Some(SecretRef::File(file));
    options.server.temperature = Some(0.0);
    options.server.extra_body = json!({"seed": 7, "stream": false}).as_object().unwrap().clone();
    let client = client(&model(Provider::OpenAi(options)));
    let mut conversation = conversation(vec![user("hi")]);
    conversation.max_tokens = Some(64);
    turn(&client, &conversation).await.0.unwrap();
    let (head, body) = server.requests().remove(0);
    for line in [
        "post /v1/chat/completions?api-version=2 http/1.1\r\n",
        "\r\nauthorization: bearer sk-test\r\n",
        "\r\ncontent-type: application/json\r\n",
        "\r\nuser-agent: callboard/",
    ] {
        assert!(head.contains(line), "{head}\nlacks {line:?}");
    }
    assert_eq!(
        body,
        json!({"model": "gpt", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 64,
            "temperature": 0.0, "stream": false, "stream_options": {"include_usage": true},
            "seed": 7})
    );
}

#[tokio::test]
async fn calls_without_ids_are_numbered_over_the_conversation() {
    let body = r#"{"choices":[{"message":{"content":null,"tool_calls":[
        {"function":{"name":"f","arguments":"{}"}},
        {"id":"own","function":{"name":"g","arguments":" {\"a\":1} "}},
        {"id":"","function":{"name":"h"}}]},"finish_reason":"tool_calls"}]}"#;
    let server = Server::start(vec![vec![Step::Send(whole(body))]]).await;
    let client = client(&model(Provider::OpenAi(openai(&server.base_url, false))));
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let before = Message::Assistant {
        content: String::new(),
        calls: vec![call("call00001", "f", "{}")],
        reasoning: None,
    };
    let reply = turn(&client, &conversation(vec![user("hi"), before])).await.0.unwrap();
    let expected = vec![
        call("call00002", "f", "{}"),
        call("own", "g", r#" {"a":1} "#),
        call("call00004", "h", ""),
    ];
    assert_eq!(reply.calls, expected);
    assert_eq!((reply.finish, reply.model.as_str()), (FinishReason::ToolCalls, "gpt"));
    // The server counts nothing, so a quarter of the bytes is taken: names and arguments came.
    assert_eq!(reply.usage.output_tokens, "f{}g {\"a\":1} h".len().div_ceil(4) as u64);
    assert!(reply.usage.input_tokens > 10, "{:?}", reply.usage);
}

#[tokio::test]
async fn a_refusal_is_withheld_content() {
    let body =
        r#"{"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}"#;
    let server = Server::start(vec![vec![Step::Send(whole(body))]]).await;
    let client = client(&model(Provider::OpenAi(openai(&server.base_url, false))));
    let (result, shown) = turn(&client, &conversation(vec![user("hi")])).await;
    let reply = result.unwrap();
    assert_eq!((reply.content.as_str(), reply.finish), ("No.", FinishReason::ContentFilter));
    assert_eq!(shown, [""; 0]);
}

#[tokio::test]
async fn a_client_that_cannot_work_is_not_made() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad-key");
    std::fs::write(&file, "sk\n1").unwrap();
    let key = |path: &Path| Some(SecretRef::File(path.to_owned()));
    let cases = [
        ("localhost:1/v1", None, ErrorCode::ConfigInvalid, "model m: read `base_url`"),
        ("ftp://h/v1", None, ErrorCode::ConfigInvalid, "begin with http:// or https://"),
        ("", None, ErrorCode::ConfigInvalid, "relative URL without a base"),
        ("http://h/v1", key(&file), ErrorCode::SecretMissing, "cannot stand in a header"),
        ("http://h/v1", key(Path::new("/no/such")), ErrorCode::SecretMissing, "/no/such"),
    ];
    for (base_url, api_key, code, text) in cases {
        let mut options = openai(base_url, false);
        options.server.api_key = api_key;
        let made = try_clients(vec![model(Provider::OpenAi(options))]);
        assert_failed(made, code, text);
    }
}

#[tokio::test]
async fn a_name_in_the_address_goes_with_every_request_unless_there_is_a_key() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("other-key");
    std::fs::write(&file, "sk-1").unwrap();
    let key = Some(SecretRef::File(file));
    let body = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    // The word is that of `user:pw%`, and the server tells what it saw in lower case.
    let cases = [
        ("", None, None),
        ("", key.clone(), Some("authorization: bearer sk-1")),
        ("user:pw%25@", None, Some("authorization: basic dxnlcjpwdyu=")),
        ("user:pw%25@", key, Some("authorization: bearer sk-1")),
    ];
    for (name, api_key, expected) in cases {
        let mut server = Server::start(vec![vec![Step::Send(whole(body))]]).await;
        let base_url = server.base_url.replace("http://", &format!("http://{name}"));
        let mut options = openai(&base_url, false);
        options.server.api_key = api_key;
        let client = client(&model(Provider::OpenAi(options)));
        for _ in 0..2 {
            turn(&client, &conversation(vec![user("hi")])).await.0.unwrap();
        }
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        for (head, _) in requests {
            let head = head.to_lowercase();
            assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
            let found = head.lines().find(|line| line.starts_with("authorization"));
            assert_eq!(found, expected, "{name}: {head}");
        }
    }
}

#[tokio::test]
async fn a_key_that_the_server_repeats_is_not_told() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("told-key");
    std::fs::write(&file, "sk-canary").unwrap();
    let echo = r#"{"error":{"message":"bad key sk-canary","code":"invalid_api_key"}}"#;
    let event = format!("data: {echo}\n\n").into_bytes();
    for play in [answer(401, "", echo), whole(echo), [stream_head(), event].concat()] {
        let server = Server::start(vec![vec![Step::Send(play)]]).await;
        let base_url = server.base_url.replace("http://", "http://user:sk-canary@");
        let mut options = openai(&base_url, false);
        options.server.api_key = Some(SecretRef::File(file.clone()));
        let client = client(&model(Provider::OpenAi(options)));
        let (result, _) = turn(&client, &conversation(vec![user("hi")])).await;
        let error = assert_failed(result, ErrorCode::ModelRefused, "bad key ***");
        assert!(!error.message.contains("sk-canary"), "{error}");
    }
}
