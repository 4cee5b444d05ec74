use proptest::prelude::*;
use serde_json::json;
use wire::semconv::{
    ARGUMENTS_BYTES, OUTPUT_BYTES, TOOL_CALL_ARGUMENTS, TOOL_CALL_RESULT, TOOL_NAME,
};
use wire::trace::SpanKind;
use wire::{Name, RunId, SessionId, Timestamp, TraceContext};

use super::*;

fn span(attributes: Value) -> SpanRecord {
    let run = RunId::new("r").unwrap();
    let Value::Object(attributes) = attributes else { panic!("an object") };
    SpanRecord {
        context: TraceContext::root(&Name::new("t").unwrap(), &run),
        parent: None,
        name: "execute_tool x".to_owned(),
        kind: SpanKind::Internal,
        start: Timestamp::default(),
        end: Timestamp::default(),
        session: SessionId::new("s").unwrap(),
        run,
        agent: Name::new("lead").unwrap(),
        attributes: attributes.into_iter().collect(),
        events: Vec::new(),
        links: Vec::new(),
        error: Some("E3003 the tool said: Bearer abcdefghijklmnop".to_owned()),
    }
}

fn reduced(span: &SpanRecord, level: Capture) -> SpanRecord {
    reduce(span.clone(), level, &|text| text.replace("hunter2", "[secret]").into())
}

fn said(text: &str) -> Value {
    json!([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])
}

const LEVELS: [Capture; 4] = [Capture::None, Capture::Metadata, Capture::Redacted, Capture::Full];

#[test]
fn each_level_holds_less_than_the_next() {
    let long = "ä".repeat(40_000);
    let whole = span(json!({
        TOOL_NAME: "x",
        ERROR_TYPE: "E3003",
        TOOL_CALL_ARGUMENTS: {"to": "a", "password": "p", "note": "hunter2"},
        ARGUMENTS_BYTES: 50,
        OUTPUT_MESSAGES: said(&long),
        OUTPUT_BYTES: 80_000,
    }));
    // Arguments, their size, the length of the text that a model wrote, and the error.
    let told = "E3003 the tool said: Bearer abcdefghijklmnop";
    let redacted_arguments = r#"{"note":"[secret]","password":"[redacted]","to":"a"}"#;
    let full_arguments = r#"{"note":"[secret]","password":"p","to":"a"}"#;
    let expected = [
        (None, None, None, "E3003"),
        (None, Some(50), None, "E3003"),
        (Some(redacted_arguments), Some(50), Some(4096), "E3003 the tool said: Bearer [redacted]"),
        (Some(full_arguments), Some(50), Some(65536), told),
    ];
    for (level, (arguments, size, length, error)) in LEVELS.into_iter().zip(expected) {
        let span = reduced(&whole, level);
        let text = |name: &str| span.attributes.text(name);
        let sorted = text(TOOL_CALL_ARGUMENTS).map(|text| {
            serde_json::from_str::<std::collections::BTreeMap<String, Value>>(text).unwrap()
        });
        let sorted = sorted.map(|fields| serde_json::to_string(&fields).unwrap());
        assert_eq!(sorted.as_deref(), arguments, "{level:?}");
        assert_eq!(span.attributes.number(ARGUMENTS_BYTES), size, "{level:?}");
        let output = text(OUTPUT_MESSAGES).map(|text| serde_json::from_str::<Value>(text).unwrap());
        let content =
            output.map(|output| output[0]["parts"][0]["content"].as_str().unwrap().to_owned());
        assert_eq!(content.as_ref().map(|text| text.find('[').unwrap()), length, "{level:?}");
        assert!(content.is_none_or(|text| text.ends_with("[cut, 80000 bytes in all]")));
        assert_eq!(span.error.as_deref(), Some(error), "{level:?}");
        assert_eq!(text(TOOL_NAME), Some("x"));
    }
}

#[test]
fn credentials_are_blotted_out_and_other_words_are_not() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_123";
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----";
    let cases = [
        ("Authorization: Bearer abcdef0123456789", "Authorization: Bearer [redacted]"),
        ("basic dXNlcjpwYXNzd29yZA==", "basic [redacted]"),
        ("key sk-ant-0123456789abcdefghij end", "key [redacted] end"),
        ("sk-proj_0123456789abcdefXYZ", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        (
            "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYab",
            "aws_secret_access_key = [redacted]",
        ),
        ("ghp_0123456789abcdefghijABCDEFGHIJ0123", "[redacted]"),
        // The shortest of those that have a form, and of addresses.
        ("xoxb-0123456789", "[redacted]"),
        ("a://b@", "a://[redacted]@"),
        ("xoxb-0123456789-abc", "[redacted]"),
        (jwt, "[redacted]"),
        (pem, "[redacted]"),
        ("a -----BEGIN PRIVATE KEY-----\nMIIE", "a [redacted]"),
        ("https://user:pass@host/path?q=1", "https://[redacted]@host/path?q=1"),
        ("postgres://u:p@h:5432/db and more", "postgres://[redacted]@h:5432/db and more"),
        (
            "mail me at anna@example.com, bearer of news",
            "mail me at anna@example.com, bearer of news",
        ),
        ("https://example.com/@user", "https://example.com/@user"),
        // Members of objects in texts, whole and cut, and in texts within those.
        (
            r#"{"user":"a","password":"pa\"ss\\","n":1}"#,
            r#"{"user":"a","password":"[redacted]","n":1}"#,
        ),
        (r#"login {"API-Key" : "x"}"#, r#"login {"API-Key" : "[redacted]"}"#),
        (r#"[{"passwd":1}]"#, r#"[{"passwd":"[redacted]"}]"#),
        (r#""passwd":1"#, r#""passwd":"[redacted]""#),
        (r#"{"password":["a]\"","b"],"n":[1]}"#, r#"{"password":"[redacted]","n":[1]}"#),
        (r#"{"password":["a","#, r#"{"password":"[redacted]""#),
        (r#"{"password":{"of":"}a"},"n":{}}"#, r#"{"password":"[redacted]","n":{}}"#),
        (
            r#"{"said":"{\"passwd\": [\"a\", \"b\"], \"n\": [1]}"}"#,
            r#"{"said":"{\"passwd\": \"[redacted]\", \"n\": [1]}"}"#,
        ),
        (
            r#"{"api_key":{"old":[{"of":"a"}],"new":"b"},"password":[["c"]],"n":{"m":"d"}}"#,
            r#"{"api_key":"[redacted]","password":"[redacted]","n":{"m":"d"}}"#,
        ),
        (
            r#"{"said":"{\"api_key\":{\"of\":{\"a\":\"b\"}}}","n":1}"#,
            r#"{"said":"{\"api_key\":\"[redacted]\"}","n":1}"#,
        ),
        (r#"{"password":null,"passwd":"a"}"#, r#"{"password":null,"passwd":"[redacted]"}"#),
        (r#"{"client_secret":"ab\"c"#, r#"{"client_secret":"[redacted]"#),
        (
            r#"{"said":"{\"refresh_token\": \"ab\\nc\\\"d\\\\\", \"n\": 1}"}"#,
            r#"{"said":"{\"refresh_token\": \"[redacted]\", \"n\": 1}"}"#,
        ),
        (
            r#"{"said":"{\"passwd\": 12, \"n\": 1}"}"#,
            r#"{"said":"{\"passwd\": \"[redacted]\", \"n\": 1}"}"#,
        ),
        (r#"{"passwords":"two","no password":"x"}"#, r#"{"passwords":"two","no password":"x"}"#),
        ("the task-force and a risk-averse bearer", "the task-force and a risk-averse bearer"),
        ("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"),
    ];
    for (text, expected) in cases {
        assert_eq!(blotted(text), expected, "{text}");
        let whole = span(json!({TOOL_CALL_RESULT: {"said": [text]}}));
        for (level, kept) in [(Capture::Redacted, expected), (Capture::Full, text)] {
            let span = reduced(&whole, level);
            let result = span.attributes[TOOL_CALL_RESULT].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(result).unwrap(), json!({"said": [kept]}));
        }
    }
}

#[test]
fn a_member_that_is_secret_shows_nothing_of_its_value() {
    let secrets = json!({"password": ["a"], "authorization": {"value": "b"}, "api_key": 3});
    let open = json!({"password": null, "passwd": true, "list": [{"token": "c"}]});
    for (value, expected) in [
        (&secrets, json!({"password": MARK, "authorization": MARK, "api_key": MARK})),
        (&open, open.clone()),
    ] {
        let span = reduced(&span(json!({TOOL_CALL_RESULT: value})), Capture::Redacted);
        let result = span.attributes[TOOL_CALL_RESULT].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(result).unwrap(), expected);
    }
    // The result of a call as the next turn is told of it.
    let result = r#"{"user":"a","password":"hunter3"}"#;
    let told = json!([{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c",
        "result": result}]}]);
    let span = reduced(&span(json!({OUTPUT_MESSAGES: told})), Capture::Redacted);
    let held = span.attributes[OUTPUT_MESSAGES].as_str().unwrap();
    assert!(!held.contains("hunter3") && held.contains("user"), "{held}");
}

#[test]
fn a_credential_behind_others_that_are_blotted_out_is_not_left_half() {
    let key = format!("-----BEGIN PRIVATE KEY-----{}-----END PRIVATE KEY-----", "M".repeat(3_000));
    // It begins within what is looked at of the text, and ends beyond.
    let before = format!("{key} {key} ");
    let filler = "y ".repeat((REDACTED_TEXT_BYTES_MAX + MARGIN_BYTES - 20 - before.len()) / 2);
    let text = format!("{before}{filler}ghp_0123456789abcdefghijABCDEFGHIJ0123 end");
    let span = reduced(&span(json!({OUTPUT_MESSAGES: said(&text)})), Capture::Redacted);
    let held = span.attributes[OUTPUT_MESSAGES].as_str().unwrap();
    assert!(!held.contains("ghp_") && held.contains("bytes in all]"), "{held}");
}

#[test]
fn a_credential_at_the_cut_is_not_left_half() {
    let before = "x".repeat(REDACTED_TEXT_BYTES_MAX - 10);
    let text = format!("{before} sk-0123456789abcdefghijkl {}", "y".repeat(9_000));
    let span = reduced(&span(json!({OUTPUT_MESSAGES: said(&text)})), Capture::Redacted);
    let held = span.attributes[OUTPUT_MESSAGES].as_str().unwrap();
    assert!(!held.contains("sk-"), "{held}");
}

#[test]
fn a_text_that_was_cut_within_a_credential_still_says_so() {
    let cut = "[cut, 90000 bytes in all]";
    for text in [r#"{"password":["a","b"#, r#"{"password":"a"#, "-----BEGIN PRIVATE KEY-----\nMII"]
    {
        let span = reduced(
            &span(json!({OUTPUT_MESSAGES: said(&format!("{text}{cut}"))})),
            Capture::Redacted,
        );
        let held = span.attributes[OUTPUT_MESSAGES].as_str().unwrap();
        assert!(held.contains(MARK) && held.contains(cut), "{held}");
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,60}".prop_map(Value::from),
        (0usize..9_000).prop_map(|length| "é".repeat(length).into()),
    ];
    leaf.prop_recursive(4, 64, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::vec(("[a-z]{1,6}", inner), 0..12)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_reduced_is_json_of_bounded_length_and_stays_as_it_is(value in json()) {
        for name in [TOOL_CALL_ARGUMENTS, OUTPUT_MESSAGES, SYSTEM_INSTRUCTIONS] {
            let whole = span(json!({name: value}));
            let once = reduced(&whole, Capture::Redacted);
            let text = once.attributes[name].as_str().unwrap();
            prop_assert!(serde_json::from_str::<Value>(text).is_ok());
            if name == TOOL_CALL_ARGUMENTS {
                prop_assert!(text.len() < 4 * REDACTED_TEXT_BYTES_MAX, "{}", text.len());
            }
            let none = reduced(&whole, Capture::None);
            prop_assert!(none.attributes.is_empty());
        }
    }
}
