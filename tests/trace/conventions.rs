//! Holds spans to the conventions that they follow, by a table made from their registry.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tests::daemon::root;
use wire::semconv::{self, ATTRIBUTES, Kind, Source, event};
use wire::trace::SpanKind;
use wire::{SpanRecord, TraceContext};

const TABLE: &str = include_str!("conventions.tsv");

/// What the table says of an attribute on a sort of span.
#[derive(Clone, Copy, Debug)]
struct Row {
    kind: &'static str,
    level: &'static str,
    stability: &'static str,
}

/// Reads the table: by the sort of span and the name of the attribute.
fn table() -> BTreeMap<(&'static str, &'static str), Row> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [sort, name, kind, level, stability] = *cells.as_slice() else { panic!("{line}") };
        ((sort, name), Row { kind, level, stability })
    });
    rows.collect()
}

/// Tells what sort of span one is, with its side and the name that the conventions give it.
fn sort(span: &SpanRecord) -> (&'static str, SpanKind, String) {
    let text = |name: &str| span.attributes.text(name).map(str::to_owned);
    let with = |words: [&str; 2]| {
        let words: Vec<String> = words.iter().filter_map(|name| text(name)).collect();
        words.join(" ")
    };
    let operation = text(semconv::OPERATION_NAME);
    match operation.as_deref() {
        Some("invoke_agent") => (
            "invoke_agent",
            SpanKind::Internal,
            with([semconv::OPERATION_NAME, semconv::AGENT_NAME]),
        ),
        Some("chat") => {
            ("chat", SpanKind::Client, with([semconv::OPERATION_NAME, semconv::REQUEST_MODEL]))
        }
        Some("execute_tool") => (
            "execute_tool",
            SpanKind::Internal,
            with([semconv::OPERATION_NAME, semconv::TOOL_NAME]),
        ),
        Some(other) => panic!("operation {other} has no sort"),
        None if text(semconv::MCP_METHOD).is_some() => {
            ("mcp", SpanKind::Client, with([semconv::MCP_METHOD, semconv::TOOL_NAME]))
        }
        None if text(semconv::HTTP_METHOD).is_some() => {
            ("http", SpanKind::Client, with([semconv::HTTP_METHOD, semconv::URL_TEMPLATE]))
        }
        None if text(semconv::MESSAGING_SYSTEM).is_some() => (
            "messaging",
            SpanKind::Producer,
            with([semconv::MESSAGING_OPERATION, semconv::MESSAGING_TEMPLATE]),
        ),
        None if text(semconv::PROGRAM).is_some() => {
            ("command", SpanKind::Client, with([semconv::PROGRAM, ""]))
        }
        None if text(semconv::DB_SYSTEM).is_some() => {
            ("database", SpanKind::Client, with([semconv::DB_NAMESPACE, ""]))
        }
        None => panic!("{} is no span of the conventions", span.name),
    }
}

fn is_of(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "string[]" => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        "int" => value.is_i64() || value.is_u64(),
        "double" => value.is_f64(),
        "boolean" => value.is_boolean(),
        // A text that is JSON, where attributes have no structure.
        "any" => value.as_str().is_some_and(|text| serde_json::from_str::<Value>(text).is_ok()),
        other => panic!("type {other} of the table is not known"),
    }
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "string",
        Kind::Texts => "string[]",
        Kind::Whole => "int",
        Kind::Real => "double",
        Kind::Truth => "boolean",
        Kind::Content => "any",
    }
}

/// Returns what is wrong with spans by the conventions and by our own list.
pub(crate) fn faults(spans: &[SpanRecord]) -> Vec<String> {
    let table = table();
    let mut faults = Vec::new();
    for span in spans {
        let (sort, kind, name) = sort(span);
        let mut fault = |what: String| faults.push(format!("{sort} span {:?}: {what}", span.name));
        if (span.kind, &span.name) != (kind, &name) {
            fault(format!("is to be {kind:?} {name:?}, and is {:?}", span.kind));
        }
        let row = |name: &str| {
            let found = |sort| table.iter().find(|((s, n), _)| *s == sort && *n == name);
            found(sort).or_else(|| found("event")).map(|(_, row)| row)
        };
        for (name, value) in span.attributes.iter() {
            let own = semconv::attribute(name).filter(|own| own.source == Source::Own);
            let expected = own
                .map(|own| if name == semconv::FEEDBACK_TEXT { "string" } else { word(own.kind) });
            match expected.or_else(|| row(name).map(|row| row.kind)) {
                None => fault(format!("{name} is neither of the conventions nor listed as ours")),
                Some(kind) if !is_of(&value.clone().into_json(), kind) => {
                    fault(format!("{name} is no {kind}: {value:?}"));
                }
                Some(_) => {}
            }
        }
        let has = |name: &str| span.attributes.contains(name);
        for ((_, name), _) in
            table.iter().filter(|((s, _), row)| *s == sort && row.level == "required")
        {
            if !has(name) {
                fault(format!("{name} is required"));
            }
        }
        if has(semconv::ERROR_TYPE) != span.error.is_some() {
            fault("an error has its type, and nothing else has".to_owned());
        }
        if has(semconv::SERVER_ADDRESS) != has(semconv::SERVER_PORT) {
            fault("address and port of a server go together".to_owned());
        }
        for event in &span.events {
            if !event::ALL.contains(&event.name.as_str()) {
                fault(format!("event {} is not listed", event.name));
            }
            let names = event.attributes.iter().map(|(name, _)| name);
            for name in names.filter(|name| semconv::attribute(name).is_none()) {
                fault(format!("{name} of event {} is not listed", event.name));
            }
        }
    }
    faults
}

/// Returns the spans that have no parent among others, and those whose parent is in no trace here.
pub(crate) fn roots(spans: &[SpanRecord]) -> Vec<&SpanRecord> {
    let known: BTreeSet<String> = spans.iter().map(|span| span.context.span_id()).collect();
    let is_below = |parent: &TraceContext| known.contains(&parent.span_id());
    spans.iter().filter(|span| !span.parent.as_ref().is_some_and(is_below)).collect()
}

#[test]
fn our_names_are_those_of_the_registry() {
    let table = table();
    for attribute in ATTRIBUTES.iter().filter(|attribute| attribute.source != Source::Own) {
        let rows: Vec<&Row> = table
            .iter()
            .filter(|((_, name), _)| *name == attribute.name)
            .map(|(_, row)| row)
            .collect();
        assert!(!rows.is_empty(), "{} is not in the table", attribute.name);
        for row in rows {
            assert_eq!(row.kind, word(attribute.kind), "{}", attribute.name);
            let is_stable = attribute.source == Source::Stable;
            assert_eq!(row.stability == "stable", is_stable, "{}", attribute.name);
        }
    }
}

#[test]
fn our_own_names_are_documented() {
    let text = std::fs::read_to_string(root().join("runtime/TRACES.md")).unwrap();
    let rows: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .filter(|name| name.starts_with("callboard."))
        .collect();
    let own = ATTRIBUTES.iter().filter(|attribute| attribute.source == Source::Own);
    let listed: BTreeSet<&str> =
        own.map(|attribute| attribute.name).chain(event::ALL.iter().copied()).collect();
    assert_eq!(rows, listed);
}

#[test]
fn what_does_not_conform_is_found() {
    let run = wire::RunId::new("r").unwrap();
    let span = SpanRecord {
        context: TraceContext::root(&wire::Name::new("t").unwrap(), &run),
        parent: None,
        name: "chat m".to_owned(),
        kind: SpanKind::Client,
        start: wire::Timestamp::default(),
        end: wire::Timestamp::default(),
        session: wire::SessionId::new("s").unwrap(),
        run,
        agent: wire::Name::new("a").unwrap(),
        attributes: serde_json::from_value(serde_json::json!({
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "p",
            "gen_ai.request.model": "m",
        }))
        .unwrap(),
        events: Vec::new(),
        links: Vec::new(),
        error: None,
    };
    assert_eq!(faults(std::slice::from_ref(&span)), Vec::<String>::new());
    let cases: [(&str, Value, &str); 6] = [
        ("gen_ai.request.max_tokens", Value::from("9"), "is no int"),
        ("gen_ai.request.temperature", Value::from(1), "is no double"),
        ("gen_ai.made.up", Value::from(1), "neither of the conventions nor listed"),
        ("callboard.made_up", Value::from(1), "neither of the conventions nor listed"),
        ("error.type", Value::from("E1"), "an error has its type"),
        ("server.port", Value::from(1), "go together"),
    ];
    for (name, value, expected) in cases {
        let mut span = span.clone();
        span.attributes.set(name.to_owned(), value);
        let found = faults(&[span]);
        assert!(found.len() == 1 && found[0].contains(expected), "{name}: {found:?}");
    }
    let mut bare = span;
    bare.attributes.retain(|name| name != "gen_ai.provider.name");
    bare.kind = SpanKind::Internal;
    assert_eq!(faults(&[bare]).len(), 2);
}
