mod http;
mod program;

use jsonschema::draft202012;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ResourceContents};
use secrecy::SecretString;
use serde_json::{Value, json};
use wire::{CallOutcome, EffectClass, ErrorCode, ToolReply};

use crate::secret::learn;

use super::answer::Reading;
use super::{Catalog, Change, Hints, Listed};

#[test]
fn hints_loosen_nothing_unless_they_are_trusted() {
    use EffectClass::{Idempotent, Once, Read};
    let hints = |read_only, destructive, idempotent| Hints { read_only, destructive, idempotent };
    let (yes, no) = (Some(true), Some(false));
    let none = hints(None, None, None);
    let reads = hints(yes, None, None);
    let repeats = hints(no, no, yes);
    let destroys = hints(None, yes, None);
    // What is configured, without trust, and with it.
    let cases = [
        (none, None, Once, Once),
        (none, Some(Read), Read, Read),
        (none, Some(Idempotent), Idempotent, Idempotent),
        (reads, None, Once, Read),
        (reads, Some(Once), Once, Once),
        (reads, Some(Idempotent), Idempotent, Idempotent),
        (reads, Some(Read), Read, Read),
        (repeats, None, Once, Idempotent),
        (repeats, Some(Read), Idempotent, Idempotent),
        (repeats, Some(Once), Once, Once),
        (destroys, None, Once, Once),
        (destroys, Some(Read), Once, Once),
        (hints(no, None, None), Some(Read), Once, Once),
        (hints(None, None, no), Some(Idempotent), Once, Once),
        // One that contradicts itself is read as the worse.
        (hints(yes, yes, None), Some(Read), Once, Once),
        (hints(yes, yes, None), None, Once, Once),
    ];
    for (hints, configured, strange, trusted) in cases {
        assert_eq!(hints.effect(configured, false), strange, "{hints:?} {configured:?}");
        assert_eq!(hints.effect(configured, true), trusted, "{hints:?} {configured:?} trusted");
    }
}

fn tool(name: &str, parameters: Value) -> Listed {
    Listed { name: name.to_owned(), parameters, ..Listed::default() }
}

#[test]
fn every_part_of_a_tool_counts_and_the_order_of_keys_does_not() {
    let one = tool("a", json!({"type": "object", "properties": {"x": {}, "y": {}}}));
    let same = tool("a", json!({"properties": {"y": {}, "x": {}}, "type": "object"}));
    let changed = |change: fn(&mut Listed)| {
        let mut other = one.clone();
        change(&mut other);
        other
    };
    let pinned = Catalog { tools: vec![one.clone(), tool("b", json!({}))] };
    let cases: [(Vec<Listed>, Vec<Change>); 6] = [
        (vec![tool("b", json!({})), same], vec![]),
        (
            vec![changed(|tool| tool.description = "Other.".to_owned()), tool("b", json!({}))],
            vec![Change::Changed { tool: "a".to_owned(), parts: vec!["description"] }],
        ),
        (
            vec![changed(|tool| tool.parameters = json!({})), tool("b", json!({}))],
            vec![Change::Changed { tool: "a".to_owned(), parts: vec!["parameters"] }],
        ),
        (
            vec![
                changed(|tool| {
                    tool.output = Some(json!({}));
                    tool.hints.read_only = Some(false);
                }),
                tool("b", json!({})),
            ],
            vec![Change::Changed { tool: "a".to_owned(), parts: vec!["output", "hints"] }],
        ),
        (vec![one.clone()], vec![Change::Gone("b".to_owned())]),
        (
            vec![one.clone(), tool("b", json!({})), tool("c", json!({}))],
            vec![Change::New("c".to_owned())],
        ),
    ];
    for (tools, expected) in cases {
        assert_eq!(pinned.changes(&Catalog { tools }), expected);
    }
}

#[test]
fn answers_are_read() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let typed = || draft202012::new(&schema).ok();
    let text = |text: &str| vec![ContentBlock::text(text)];
    let blob = ResourceContents::blob("AAAABBBB", "file:///b");
    let mixed = vec![
        ContentBlock::text("one"),
        ContentBlock::image("AAAA", "image/png"),
        ContentBlock::resource(ResourceContents::text("two", "file:///a")),
        ContentBlock::resource(blob),
    ];
    let structured = |content: Vec<ContentBlock>, value: Value| {
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(value);
        result
    };
    let ok = |output: Value| CallOutcome::Ok { output };
    let failed = |text: &str| CallOutcome::error(ErrorCode::ToolFailed, text);
    let cases = [
        (None, CallToolResult::success(text("one")), ok(json!("one"))),
        (
            None,
            CallToolResult::success(mixed),
            ok(json!(
                "one\n[image, image/png, 3 bytes, not shown]\n[resource file:///a]\ntwo\n\
                [resource file:///b, of an unknown type, 6 bytes, not shown]"
            )),
        ),
        (None, CallToolResult::success(vec![]), ok(json!(""))),
        (None, CallToolResult::success(text("the s3cr3t!")), ok(json!("the [secret]!"))),
        (None, CallToolResult::error(text("no")), failed("no")),
        (None, CallToolResult::error(vec![]), failed("the tool says no more")),
        // Without a schema the text is what was meant to be read.
        (None, structured(text("one"), json!({"n": 1})), ok(json!("one"))),
        (None, structured(vec![], json!({"n": 1})), ok(json!({"n": 1}))),
        (typed(), structured(text("one"), json!({"n": 1})), ok(json!({"n": 1}))),
        (typed(), structured(vec![], json!({"s3cr3t": 1})), ok(json!({"[secret]": 1}))),
        (typed(), CallToolResult::success(text("one")), ok(json!("one"))),
        (
            typed(),
            structured(text("one"), json!({"n": "1"})),
            failed(
                "the call was made, but its result does not obey the schema that the MCP \
                    server promises: /n: \"1\" is not of type \"integer\"",
            ),
        ),
    ];
    learn(&SecretString::from("s3cr3t".to_owned()));
    for (output, result, expected) in cases {
        let reading = Reading { output, bytes_max: 1000 };
        let reply = reading.reply(CallToolResponse::Complete(result));
        assert_eq!(reply, ToolReply::settled(expected));
    }
    let cut = |content, value: Option<Value>| {
        let mut result = CallToolResult::success(content);
        result.structured_content = value;
        let reading = Reading { output: typed(), bytes_max: 5 };
        reading.reply(CallToolResponse::Complete(result))
    };
    let expected = |text: &str| ToolReply::settled(CallOutcome::text(text));
    assert_eq!(cut(text("äöü"), None), expected("äö\n[cut after 4 bytes]"));
    assert_eq!(cut(text(""), Some(json!({"n": 1}))), expected("{\"n\":\n[cut after 5 bytes]"));
}
