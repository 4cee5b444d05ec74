//! Replies with reasoning behind their calls.

use serde_json::json;
use wire::plan::Dialect;
use wire::{FinishReason, ModelReply, ModelRole, ToolCall};

use super::fixture::{catalogue, planning, reasoning, reply};
use super::read;
use crate::validate::Catalogue;

#[test]
fn it_is_kept_with_calls_of_the_provider_s_own_form() {
    let call = |arguments: &str| ToolCall {
        id: "a".to_owned(),
        name: "search".to_owned(),
        arguments: arguments.to_owned(),
    };
    let replied = |finish, content: &str, calls| ModelReply {
        calls,
        reasoning: Some(reasoning(vec![json!({"s": 1})])),
        ..reply(finish, content)
    };
    let called = || replied(FinishReason::ToolCalls, "", vec![call(r#"{"query":"x"}"#)]);
    let unknown = replied(FinishReason::ToolCalls, "", vec![call("no JSON")]);
    let cut = replied(FinishReason::Length, "", vec![call(r#"{"query":"#)]);
    let answered = replied(FinishReason::Stop, "42", vec![]);
    let native = catalogue(Dialect::Native, false);
    let schema = catalogue(Dialect::Schema, false);
    let json = catalogue(Dialect::Json, false);
    let react = catalogue(Dialect::React, false);
    let thinks = catalogue(Dialect::Native, true);
    let plans = Catalogue::new(planning(Dialect::Native).into());
    for (name, role, catalogue, reply, is_kept) in [
        ("calls", ModelRole::Actor, &native, called(), true),
        ("a faulty call, which is shown again", ModelRole::Actor, &native, unknown, true),
        ("a call that is cut, which is shown as a text", ModelRole::Actor, &native, cut, false),
        ("an answer", ModelRole::Actor, &native, answered, false),
        ("schema", ModelRole::Actor, &schema, called(), false),
        ("json", ModelRole::Actor, &json, called(), false),
        ("react", ModelRole::Actor, &react, called(), false),
        ("a thinker", ModelRole::Thinker, &thinks, called(), false),
        ("a planner", ModelRole::Thinker, &plans, called(), false),
    ] {
        let read = read(role, catalogue, None, &reply);
        assert_eq!(read.reasoning.is_some(), is_kept, "{name}: {:?}", read.reading);
        let is_same = |kept: &std::sync::Arc<_>| {
            reply.reasoning.as_ref().is_some_and(|came| std::sync::Arc::ptr_eq(came, kept))
        };
        assert!(read.reasoning.as_ref().is_none_or(is_same), "{name}: it is a copy");
    }
}
