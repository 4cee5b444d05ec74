use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wire::{CallKey, CallOutcome, EffectClass, ErrorCode, Name, Timestamp, ToolReply};

use super::{Builtin, LookupRow, Saying};
use crate::memory::InMemory;
use crate::model::PreparedModels;
use crate::query::Databases;
use crate::schema::check_parameters;
use crate::testing;
use crate::tool::{ToolContext, ToolDeps, ToolKind, build};

fn deps() -> ToolDeps {
    // Every test may come first; that another one did is no fault.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    ToolDeps {
        memory: Arc::new(InMemory::default()),
        http: crate::client::HttpClient::new().unwrap(),
        models: Arc::new(PreparedModels::default()),
        servers: crate::mcp::Servers::default(),
        replies: crate::cloudevent::replies::Replies::start(Duration::ZERO),
        messenger: Arc::<crate::messenger::prepared::PreparedMessenger>::default(),
        databases: Databases::default(),
        launcher: Arc::default(),
        results: crate::results::Results::open("no results".into(), 0),
    }
}

fn all() -> Vec<Builtin> {
    let row = LookupRow { words: vec!["graz".to_owned()], answer: "a city".to_owned() };
    let named = Builtin::NAMES.into_iter().map(|name| Builtin::from_name(name).expect(name));
    let query = json!({"type": "string", "description": "What was said."});
    let parameters = json!({"type": "object", "properties": {"query": query},
        "additionalProperties": false});
    let saying = Saying { text: "go on".to_owned(), parameters };
    named.chain([Builtin::Say(saying), Builtin::Lookup(vec![row])]).collect()
}

/// Makes a call whose key is `key` at second `at`.
async fn reply(deps: &ToolDeps, name: &str, key: &str, at: u64, arguments: Value) -> ToolReply {
    let unnamed =
        || all().into_iter().rfind(|builtin| matches!(builtin, Builtin::Say(_)) == (name == "say"));
    let builtin = Builtin::from_name(name).or_else(unnamed).unwrap();
    let context = ToolContext {
        call: CallKey::new(key).unwrap(),
        agent: Name::new("lead").unwrap(),
        now: Timestamp::from_micros(at * 1_000_000),
        ..testing::context(Duration::from_secs(5))
    };
    build(&ToolKind::Builtin(builtin), deps).call(&context, &arguments).await
}

async fn output(deps: &ToolDeps, name: &str, key: &str, at: u64, arguments: Value) -> Value {
    match reply(deps, name, key, at, arguments).await {
        ToolReply::Settled { outcome: CallOutcome::Ok { output }, .. } => output,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_builtin_says_how_it_is_called() {
    for builtin in all() {
        let schema = builtin.parameters();
        check_parameters(&schema).unwrap();
        assert_eq!(schema["additionalProperties"], json!(false), "{builtin:?}");
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{builtin:?} {name}");
        }
        assert!(!builtin.description().contains("  ") && builtin.description().ends_with('.'));
        let writes = matches!(builtin, Builtin::Remember | Builtin::Forget);
        let effect = if writes { EffectClass::Idempotent } else { EffectClass::Read };
        assert_eq!(builtin.effect(), effect, "{builtin:?}");
    }
    assert_eq!(Builtin::from_name("lookup"), None);
}

#[tokio::test]
async fn calls_without_memory_answer() {
    let deps = deps();
    for (name, arguments, expected) in [
        ("calculate", json!({"expression": "2^62 + 1"}), json!(4_611_686_018_427_387_905_u64)),
        ("calculate", json!({"expression": "1 / 4"}), json!(0.25)),
        ("lookup", json!({"query": "Where is GRAZ?"}), json!("a city")),
        ("lookup", json!({"query": "Wien"}), json!("nothing found")),
        ("say", json!({"query": "Hey"}), json!("go on")),
        ("say", json!({}), json!("go on")),
        (
            "now",
            json!({}),
            json!({"utc": "1970-01-01T00:00:07Z", "local": "1970-01-01T00:00:07+00:00",
                "weekday": "Thursday"}),
        ),
    ] {
        assert_eq!(output(&deps, name, "k", 7, arguments.clone()).await, expected, "{arguments}");
    }
    let question = json!({"question": "Which one?"});
    let expected = ToolReply::Suspended { question: "Which one?".to_owned() };
    assert_eq!(reply(&deps, "ask_user", "k", 7, question).await, expected);
}

#[tokio::test]
async fn facts_are_kept_found_and_dropped() {
    let deps = deps();
    for (key, at, text) in [("f1", 1, "Ada likes tea."), ("f2", 2, "Ada lives in Graz.")] {
        for _attempt in 0..2 {
            let kept = output(&deps, "remember", key, at, json!({"text": text})).await;
            assert_eq!(kept, json!({"id": key}));
        }
    }
    let known = output(&deps, "remember", "f3", 3, json!({"text": " Ada likes tea."})).await;
    assert_eq!(known, json!({"id": "f1"}));
    let f1 = json!({"id": "f1", "text": "Ada likes tea.", "at": "1970-01-01T00:00:01Z"});
    let f2 = json!({"id": "f2", "text": "Ada lives in Graz.", "at": "1970-01-01T00:00:02Z"});
    for (arguments, expected) in [
        (json!({"query": "tea of ada"}), json!([f1, f2])),
        (json!({"query": "tea of ada", "limit": 1}), json!([f1])),
        (json!({"query": ""}), json!([f2, f1])),
        (json!({"query": "wine", "limit": null}), json!([])),
    ] {
        let found = output(&deps, "recall", "k", 9, arguments.clone()).await;
        assert_eq!(found, expected, "{arguments}");
    }
    let dropped = output(&deps, "forget", "k1", 9, json!({"ids": ["f1", "f1", "f9"]})).await;
    assert_eq!(dropped, json!({"forgotten": 1, "unknown": ["f9"]}));
    let dropped = output(&deps, "forget", "k2", 9, json!({"ids": ["f1"]})).await;
    assert_eq!(dropped, json!({"forgotten": 0, "unknown": ["f1"]}));
    assert_eq!(output(&deps, "recall", "k", 9, json!({"query": ""})).await, json!([f2]));
}

#[tokio::test]
async fn arguments_that_cannot_be_used_are_named() {
    use ErrorCode::{InvalidArguments, ToolFailed};
    let deps = deps();
    let long = "x".repeat(20_000);
    for (name, arguments, code, part) in [
        ("calculate", json!({"expression": "1 +"}), ToolFailed, "character 4: expected a number"),
        ("calculate", json!({"expression": long}), InvalidArguments, "more than 4096"),
        (
            "calculate",
            json!({"expression": 7}),
            InvalidArguments,
            "\"expression\" has to be a text",
        ),
        ("calculate", json!("1 + 1"), InvalidArguments, "\"expression\" has to be a text"),
        ("now", json!({"utc_offset": "CET"}), InvalidArguments, "such as +02:00"),
        ("remember", json!({"text": " "}), InvalidArguments, "\"text\" is empty"),
        ("remember", json!({"text": long}), InvalidArguments, "more than 4096"),
        ("recall", json!({"query": long}), InvalidArguments, "more than 16384"),
        ("recall", json!({"query": "x", "limit": 0}), InvalidArguments, "from 1 to 50"),
        ("recall", json!({"query": "x", "limit": 51}), InvalidArguments, "from 1 to 50"),
        ("forget", json!({"ids": []}), InvalidArguments, "1 to 100 ids"),
        ("forget", json!({"ids": vec!["a"; 101]}), InvalidArguments, "1 to 100 ids"),
        ("forget", json!({"ids": ["a b"]}), InvalidArguments, "\"a b\" is no id"),
        ("ask_user", json!({"question": ""}), InvalidArguments, "\"question\" is empty"),
        ("lookup", json!({}), InvalidArguments, "\"query\" has to be a text"),
    ] {
        match reply(&deps, name, "k", 1, arguments).await {
            ToolReply::Settled { outcome: CallOutcome::Error { error }, .. } => {
                assert_eq!(error.code, code, "{name}: {error}");
                assert!(error.message.contains(part), "{name}: {error}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}
