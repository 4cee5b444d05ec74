//! One conversation and one trouble with every provider, and what is recorded of them.

use std::path::{Path, PathBuf};

use config::script::Script;
use config::team::{
    Constrain, LlamaCpp, Model, Ollama, OpenAi, Provider, Sampling, Server as Served, Template,
    TokensField,
};
use serde_json::json;
use tools::SecretRef;
use wire::{ErrorCode, FinishReason, Usage};

use crate::server::{Server, Step, answer, whole};
use crate::setup::{assert_failed, client, conversation, model, served, try_clients, turn, user};

/// A provider: how it is made, where it is asked, what it sends whole and streamed.
struct Case {
    word: &'static str,
    make: fn(Served) -> Provider,
    request: &'static str,
    key: &'static str,
    whole: String,
    stream_type: &'static str,
    stream: String,
    error: &'static str,
}

fn llamacpp(template: Template) -> impl Fn(Served) -> Provider {
    move |server| {
        Provider::LlamaCpp(LlamaCpp {
            server,
            template,
            constrain: Constrain::JsonSchema,
            n_predict: None,
            sampling: Sampling::default(),
            merge_adjacent: false,
        })
    }
}

fn ollama(server: Served) -> Provider {
    Provider::Ollama(Ollama {
        server,
        num_ctx: None,
        num_predict: None,
        sampling: Sampling::default(),
        keep_alive: None,
        think: None,
    })
}

fn openai(server: Served) -> Provider {
    Provider::OpenAi(OpenAi {
        server,
        strict: false,
        merge_adjacent: false,
        tokens_field: TokensField::MaxTokens,
        stream_usage: true,
    })
}

fn events(events: &[serde_json::Value]) -> String {
    let events: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    events.concat()
}

fn chat() -> (String, String) {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2});
    let whole = json!({"model": "gpt-1", "usage": usage,
        "choices": [{"message": {"content": "Hällo"}, "finish_reason": "stop"}]});
    let stream = events(&[
        json!({"model": "gpt-1", "choices": [{"delta": {"content": "Hä"}}]}),
        json!({"choices": [{"delta": {"content": "llo"}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": usage}),
    ]);
    (whole.to_string(), stream + "data: [DONE]\n\n")
}

fn cases() -> [Case; 5] {
    let (chat_whole, chat_stream) = chat();
    let events_type = "text/event-stream";
    let bearer = "\r\nauthorization: bearer sk-canary\r\n";
    let end = json!({"content": "", "stop": true, "model": "gpt-1", "stop_type": "eos",
        "tokens_evaluated": 5, "tokens_predicted": 2});
    let mut completed = end.clone();
    completed["content"] = "Hällo".into();
    let line = json!({"model": "gpt-1", "message": {"content": "Hällo"}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2});
    let message = json!({"model": "gpt-1", "content": [{"type": "text", "text": "Hällo"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 5, "output_tokens": 2}});
    [
        Case {
            word: "openai",
            make: openai,
            request: "post /chat/completions http/1.1\r\n",
            key: bearer,
            whole: chat_whole.clone(),
            stream_type: events_type,
            stream: chat_stream.clone(),
            error: r#"{"error":{"message":"bad key sk-canary","code":"invalid_api_key"}}"#,
        },
        Case {
            word: "llamacpp",
            make: |server| llamacpp(Template::ChatMl)(server),
            request: "post /completion http/1.1\r\n",
            key: bearer,
            whole: completed.to_string(),
            stream_type: events_type,
            stream: events(&[
                json!({"content": "Hä", "stop": false}),
                json!({"content": "llo", "stop": false}),
                end,
            ]),
            error: r#"{"error":{"code":401,"message":"bad key sk-canary","type":"authentication_error"}}"#,
        },
        Case {
            word: "llamacpp",
            make: |server| llamacpp(Template::Server)(server),
            request: "post /v1/chat/completions http/1.1\r\n",
            key: bearer,
            whole: chat_whole,
            stream_type: events_type,
            stream: chat_stream,
            error: r#"{"error":{"code":401,"message":"bad key sk-canary","type":"authentication_error"}}"#,
        },
        Case {
            word: "ollama",
            make: ollama,
            request: "post /api/chat http/1.1\r\n",
            key: bearer,
            whole: line.to_string(),
            stream_type: "application/x-ndjson",
            stream: format!("{}\n{line}\n", json!({"message": {"content": "Hä"}}))
                .replace("\"Hällo\"", "\"llo\""),
            error: r#"{"error":"bad key sk-canary"}"#,
        },
        Case {
            word: "anthropic",
            make: Provider::Anthropic,
            request: "post /v1/messages http/1.1\r\n",
            key: "\r\nx-api-key: sk-canary\r\n",
            whole: message.to_string(),
            stream_type: events_type,
            stream: events(&[
                json!({"type": "message_start",
                    "message": {"model": "gpt-1", "usage": {"input_tokens": 5}}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hä"}}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "llo"}}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
                json!({"type": "message_stop"}),
            ]),
            error: r#"{"type":"error","error":{"type":"authentication_error","message":"bad key sk-canary"}}"#,
        },
    ]
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn key() -> SecretRef {
    // Once, since other tests read it meanwhile.
    static WRITTEN: std::sync::Once = std::sync::Once::new();
    let file = place("provider-key");
    WRITTEN.call_once(|| std::fs::write(&file, "sk-canary").unwrap());
    SecretRef::File(file)
}

fn made(case: &Case, base_url: &str, stream: bool) -> Model {
    let base_url = base_url.trim_end_matches("/v1");
    let mut server = served(base_url, stream);
    server.api_key = Some(key());
    model((case.make)(server))
}

fn streamed(kind: &str, stream: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n\r\n");
    [head.as_bytes(), stream.as_bytes()].concat()
}

#[tokio::test]
async fn every_provider_gives_one_reply_whole_and_streamed() {
    for case in cases() {
        for (stream, play) in
            [(false, whole(&case.whole)), (true, streamed(case.stream_type, &case.stream))]
        {
            let mut server = Server::start(vec![vec![Step::Send(play)]]).await;
            let client = client(&made(&case, &server.base_url, stream));
            let (result, shown) = turn(&client, &conversation(vec![user("hi")])).await;
            let reply = result.unwrap();
            let name = format!("{} {stream}", case.request);
            assert_eq!(
                (reply.content.as_str(), shown.concat().as_str()),
                ("Hällo", "Hällo"),
                "{name}"
            );
            assert_eq!(shown.len(), if stream { 2 } else { 1 }, "{name}");
            assert_eq!(
                (reply.provider.as_str(), reply.model.as_str()),
                (case.word, "gpt-1"),
                "{name}"
            );
            assert_eq!(reply.usage, Usage::of_tokens(5, 2), "{name}");
            assert_eq!(reply.finish, FinishReason::Stop, "{name}");
            let (head, body) = server.requests().remove(0);
            assert!(head.starts_with(case.request), "{head}");
            assert!(head.contains(case.key), "{head}");
            assert_eq!(head.contains("anthropic-version: 2023-06-01"), case.word == "anthropic");
            assert_eq!(body["stream"], stream, "{name}");
        }
    }
}

/// T23: what came before a cut is dropped, whoever sent it.
#[tokio::test]
async fn a_stream_that_is_cut_is_asked_for_again() {
    for case in cases() {
        let full = streamed(case.stream_type, &case.stream);
        let (before, _) = case.stream.split_once("llo").unwrap();
        let torn = streamed(case.stream_type, before);
        let plays = vec![vec![Step::Send(torn)], vec![Step::Send(full)]];
        let mut server = Server::start(plays).await;
        let client = client(&made(&case, &server.base_url, true));
        let (result, _) = turn(&client, &conversation(vec![user("hi")])).await;
        let reply = result.unwrap();
        assert_eq!((reply.content.as_str(), reply.attempts), ("Hällo", 2), "{}", case.request);
        assert_eq!(server.requests().len(), 2);
    }
}

#[tokio::test]
async fn no_provider_tells_the_key() {
    for case in cases() {
        let event = match case.stream_type {
            "application/x-ndjson" => format!("{}\n", case.error),
            _ => format!("data: {}\n\n", case.error),
        };
        for play in [answer(401, "", case.error), streamed(case.stream_type, &event)] {
            let server = Server::start(vec![vec![Step::Send(play)]]).await;
            let mut model = made(&case, &server.base_url, true);
            model.retries_max = 0;
            let (result, _) = turn(&client(&model), &conversation(vec![user("hi")])).await;
            let error = result.unwrap_err();
            assert!(error.message.contains("bad key ***"), "{error}");
            assert!(!error.message.contains("sk-canary"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_record_of_any_provider_is_played_by_a_script() {
    for (number, case) in cases().into_iter().enumerate() {
        let file = place(&format!("record-{number}.jsonl"));
        drop(std::fs::remove_file(&file));
        let body = case.whole.replace("Hällo", "Hällo sk-canary");
        let server = Server::start(vec![vec![Step::Send(whole(&body))]]).await;
        let mut recorded = made(&case, &server.base_url, false);
        recorded.record = Some(file.clone());
        let asked = conversation(vec![user("my key is sk-canary, (what) is it?")]);
        let reply = turn(&client(&recorded), &asked).await.0.unwrap();
        assert_eq!(reply.content, "Hällo sk-canary");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("canary"), "{text}");
        let script = model(Provider::Scripted(Script::parse(&text).unwrap()));
        let played = turn(&client(&script), &asked).await.0.unwrap();
        assert_eq!(played.content, "Hällo ***");
        assert_eq!((played.usage, played.finish), (reply.usage, reply.finish));
        let other = turn(&client(&script), &conversation(vec![user("else")])).await.0;
        assert_failed(other, ErrorCode::ModelRefused, "no `when` of the script");
    }
}

#[tokio::test]
async fn a_model_that_cannot_record_is_not_made() {
    let mut unwritable = made(&cases()[0], "http://h", false);
    unwritable.record = Some(PathBuf::from("/no/such/folder/file"));
    let made = try_clients(vec![unwritable]);
    assert_failed(made, ErrorCode::FileUnreadable, "/no/such/folder/file");
}
