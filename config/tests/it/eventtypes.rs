//! Event types and their tools: what they mean, and what is said about broken ones.

use std::path::Path;

use config::Team;
use serde_json::json;
use tools::SecretRef;
use tools::ToolKind;
use tools::cloudevent::event::Mode;
use tools::cloudevent::{EventSource, ReplyWay, Sink};
use tools::mcp::Setting;
use wire::{EffectClass, Name};

use super::broken::FINE;

const SOURCE: &str = "[eventtypes.knative]\npath = 'types.yaml'\nsink = 'http://h/x'\n";

/// An event type of each form, and some that cannot be offered.
const TYPES: &str = r#"
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata: {name: weather}
spec:
  description: Tells the weather.
  type: get.current.weather
  schemaData: '{"location":{"type":"string","description":"the city"},"days":{"type":"int"}}'
---
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata: {name: dots}
spec: {type: a.b}
---
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata: {name: lines}
spec: {type: a_b, description: B., reference: {apiVersion: v1, kind: Service, name: lines}, schemaData: '{"type":"object","properties":{"x":{"enum":[1,2]}}}'}
---
apiVersion: eventing.knative.dev/v1beta2
kind: EventType
metadata: {name: broken}
spec: {type: broken, schemaData: '{"unit":{"of"}}'}
"#;

fn files(path: &Path) -> std::io::Result<String> {
    match path.to_str() {
        Some("teams/types.yaml") => Ok(TYPES.to_owned()),
        _ => super::broken::files(path),
    }
}

fn loaded(text: &str) -> Team {
    config::parse(Path::new("teams/t.toml"), text, &files)
        .unwrap_or_else(|report| panic!("{}", report.render(false)))
}

fn kinds(team: &Team) -> Vec<(String, String)> {
    let of_type = |(name, tool): (&Name, &config::team::TeamTool)| match &tool.kind {
        ToolKind::CloudEvent(spec) => Some((name.to_string(), spec.event_type.kind.clone())),
        _ => None,
    };
    team.tools.iter().filter_map(of_type).collect()
}

#[test]
fn a_source_has_defaults() {
    let team = loaded(&format!(
        "{FINE}{SOURCE}[eventtypes.orders]\npath = 'types.yaml'\nsink_subject = 'orders.in'\n\
         reply = 'event'\nreply_subject = 'orders.out'\nreply_attribute = 'replyid'\n\
         source = '/shop'\nmode = 'binary'\n\
         [eventtypes.web]\npath = 'types.yaml'\nsink = 'https://h'\nmode = 'structured'\n\
         headers = {{ A = {{ env = 'TOKEN', prefix = 'Bearer ' }} }}"
    ));
    let secret = Setting::Secret {
        prefix: "Bearer ".to_owned(),
        secret: SecretRef::Env("TOKEN".to_owned()),
    };
    let http = |url: &str, headers| Sink::Http { url: url.to_owned(), headers };
    let cases = [
        (
            "knative",
            http("http://h/x", vec![]),
            Mode::Binary,
            "/callboard",
            ReplyWay::Response,
            "responseid",
        ),
        (
            "orders",
            Sink::Subject("orders.in".to_owned()),
            Mode::Binary,
            "/shop",
            ReplyWay::Event,
            "replyid",
        ),
        (
            "web",
            http("https://h", vec![("A".to_owned(), secret)]),
            Mode::Structured,
            "/callboard",
            ReplyWay::Response,
            "responseid",
        ),
    ];
    for (name, sink, mode, origin, reply, attribute) in cases {
        let name = Name::new(name).unwrap();
        let expected = EventSource {
            name: name.clone(),
            sink,
            mode,
            origin: origin.to_owned(),
            reply,
            reply_attribute: attribute.to_owned(),
        };
        assert_eq!(*team.events[&name].source, expected);
    }
    let orders = &team.events[&Name::new("orders").unwrap()];
    assert_eq!(orders.reply_subject.as_deref(), Some("orders.out"));
}

#[test]
fn every_type_is_a_tool_under_a_name_of_its_own() {
    let digest: String = blake3_of("a.b");
    let own = |prefix: &str| {
        let mut names = vec![
            (format!("{prefix}a_b"), "a_b".to_owned()),
            (format!("{prefix}a_b_{digest}"), "a.b".to_owned()),
            (format!("{prefix}get_current_weather"), "get.current.weather".to_owned()),
        ];
        names.sort();
        names
    };
    for (more, expected) in [
        ("", own("knative_")),
        ("prefix = ''", own("")),
        ("types = ['*']\nprefix = 'k-'", own("k-")),
        ("types = ['a_b']", vec![("knative_a_b".to_owned(), "a_b".to_owned())]),
        // One that is not there may come; what is like it is listed itself.
        ("types = ['a_b', 'a.b', 'a_c']", own("knative_")[..2].to_vec()),
        ("types = []", vec![]),
    ] {
        let mut found = kinds(&loaded(&format!("{FINE}{SOURCE}{more}")));
        found.sort();
        assert_eq!(found, expected, "{more}");
    }
    let team = loaded(&format!("{FINE}{SOURCE}prefix = ''\neffect = 'read'\ntimeout_ms = 5"));
    let tool = &team.tools[&Name::new("get_current_weather").unwrap()];
    assert_eq!(tool.offer.spec.description, "Tells the weather.");
    let expected = json!({"type": "object", "properties": {
        "location": {"type": "string", "description": "the city"}, "days": {"type": "integer"}},
        "required": ["location", "days"], "additionalProperties": false});
    assert_eq!(tool.offer.spec.parameters, expected);
    assert_eq!((tool.offer.effect, tool.offer.timeout_ms), (EffectClass::Read, 5));
    assert!(!tool.offer.rejoins);
    let [note] = &team.left_out[..] else { panic!("{:?}", team.left_out) };
    assert!(
        note.contains("teams/types.yaml: event type \"broken\": schemaData is no JSON"),
        "{note}"
    );
}

/// Returns the letters by which a name is told from another one.
fn blake3_of(own: &str) -> String {
    let team = loaded(&format!("{FINE}{SOURCE}prefix = 'x'"));
    let found = kinds(&team).into_iter().find(|(_, kind)| kind == own).unwrap().0;
    found.rsplit('_').next().unwrap().to_owned()
}

#[test]
fn agents_are_granted_them_one_by_one_or_by_their_beginning() {
    let offered = |tools: &str, more: &str| {
        let agent = FINE.replace("instructions = ", &format!("tools = {tools}\ninstructions = "));
        let team = loaded(&format!("{agent}{SOURCE}{more}"));
        let plan = team.agents.values().next().unwrap().clone();
        let names: Vec<String> = plan.tools.iter().map(|o| o.spec.name.to_string()).collect();
        (names, team.left_out.len())
    };
    let one = |name: &str| vec![name.to_owned()];
    assert_eq!(offered("['get_current_weather']", "prefix = ''").0, one("get_current_weather"));
    assert_eq!(offered("['knative_get*']", "").0, one("knative_get_current_weather"));
    assert_eq!(offered("['knative_*']", "").0.len(), 3);
    // What no file has may come, and is noted; what is broken is left out.
    assert_eq!(offered("['knative_*']", "").1, 1);
    assert_eq!(offered("['knative_later', 'knative_never*']", ""), (vec![], 3));
}

#[test]
fn a_type_may_have_a_table_of_its_own() {
    let team = loaded(&format!(
        "{FINE}{SOURCE}reply = 'event'\n[tools.look]\nkind = 'builtin'\nbuiltin = 'now'\n\
         [tools.weather]\nkind = 'cloudevent'\neventtypes = 'knative'\ntype = 'get.current.weather'\n\
         description = 'D.'\neffect = 'idempotent'\ntimeout_ms = 7\nresponse_bytes_max = 9\n\
         on_unknown = 'ask'"
    ));
    let tool = &team.tools[&Name::new("weather").unwrap()];
    assert_eq!(tool.offer.spec.description, "D.");
    assert_eq!((tool.offer.effect, tool.offer.timeout_ms), (EffectClass::Idempotent, 7));
    assert!(tool.offer.rejoins);
    assert!(!team.tools.contains_key("knative_get_current_weather"));
    assert!(team.tools.contains_key("knative_a_b"));
}

/// Expects one fault, and parts of its message and of its help.
fn check(text: &str, message: &str, help: &str) {
    let Err(report) = config::parse(Path::new("teams/t.toml"), text, &files) else {
        panic!("accepted: {text}")
    };
    let [fault] = report.faults() else { panic!("{text}\n{report}") };
    assert!(fault.message.contains(message), "{text}\n{fault}");
    assert!(fault.help.contains(help), "{text}\n{fault}");
}

#[test]
fn broken_sources_are_told() {
    let source = |more: &str| format!("{FINE}[eventtypes.k]\n{more}");
    let cases = [
        (source("sink = 'http://h'"), "`eventtypes.k` lacks `path`", "add `path`"),
        (source("path = 'types.yaml'"), "`eventtypes.k` does not say where events go", "add `sink"),
        (
            source("path = 'types.yaml'\nsink = 'http://h'\nsink_subject = 'a'"),
            "has both `sink` and `sink_subject`",
            "remove one of them",
        ),
        (source("path = 'none'\nsink = 'http://h'"), "cannot be read", "relative to the team file"),
        (
            source("path = 'types.yaml'\nsink = 'ftp://h'"),
            "no address of an HTTP server",
            "such as",
        ),
        (
            source("path = 'types.yaml'\nsink_subject = 'a.*'"),
            "is no subject for events",
            "such as",
        ),
        (
            source("path = 'types.yaml'\nsink_subject = '$JS.x'"),
            "is no subject for events",
            "such as",
        ),
        (
            source("path = 'types.yaml'\nsink_subject = 'callboard.v1.x'"),
            "is no subject for events",
            "such as",
        ),
        (
            source("path = 'types.yaml'\nsink_subject = 'a'\nheaders = { A = 'b' }"),
            "`headers` goes with `sink` only",
            "remove",
        ),
        (
            source("path = 'types.yaml'\nsink = 'http://h'\nreply_subject = 'a'"),
            "`reply_subject` goes with `reply = \"event\"` only",
            "remove",
        ),
        (
            source("path = 'types.yaml'\nsink = 'http://h'\nreply_attribute = 'Reply-Id'"),
            "is no name of an attribute",
            "lower-case",
        ),
        (
            source("path = 'types.yaml'\nsink = 'http://h'\nprefix = 'a.'"),
            "is no beginning of a name",
            "use",
        ),
        (source("path = 'types.yaml'\nsink = 'http://h'\nmode = 'batch'"), "mode", ""),
        (
            format!("{FINE}[tools.x]\nkind = 'cloudevent'\neventtypes = 'k'\ntype = 't'"),
            "there are no event types `k`",
            "add a table",
        ),
        (
            format!("{FINE}{SOURCE}[tools.x]\nkind = 'cloudevent'\neventtypes = 'knative'"),
            "`tools.x` lacks `type`",
            "add `type`",
        ),
    ];
    for (text, message, help) in cases {
        check(&text, message, help);
    }
    let text = format!(
        "{FINE}{SOURCE}[tools.x]\nkind = 'cloudevent'\neventtypes = 'knative'\ntype = 'get.curent.weather'"
    );
    let report = config::parse(Path::new("teams/t.toml"), &text, &files).unwrap_err();
    let told = report.render(false);
    assert!(told.contains("did you mean \"get.current.weather\"?"), "{told}");
}

#[test]
fn references_are_where_events_go_and_types_without_one_are_left_out() {
    let source = SOURCE.replace("'http://h/x'", "'reference'\nheaders = { A = 'b' }");
    let team = loaded(&format!("{FINE}{source}"));
    assert_eq!(kinds(&team), [("knative_a_b".to_owned(), "a_b".to_owned())]);
    let ToolKind::CloudEvent(spec) = &team.tools["knative_a_b"].kind else { panic!() };
    assert_eq!(spec.event_type.address.as_deref(), Some("http://lines.default.svc.cluster.local"));
    let headers = vec![("A".to_owned(), Setting::Text("b".to_owned()))];
    assert_eq!(spec.source.sink, Sink::Reference { headers });
    let lost = "event type \"get.current.weather\" has no `reference`";
    assert!(team.left_out.iter().any(|text| text.starts_with(lost)), "{:?}", team.left_out);
    let table = "[tools.t]\nkind = 'cloudevent'\neventtypes = 'knative'\ntype = 'a.b'\n";
    let text = format!("{FINE}{source}{table}");
    let report = config::parse(Path::new("teams/t.toml"), &text, &files).unwrap_err();
    assert!(report.to_string().contains("event type \"a.b\" has no `reference`"), "{report}");
}
