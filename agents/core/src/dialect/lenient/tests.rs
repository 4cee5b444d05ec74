//! What is read, what is mended, and what is refused.

use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn notation_is_mended_and_meaning_is_not_guessed() {
    let cases = [
        (r#"{"a": [1, -2.5, true, null, "x"]}"#, Some(json!({"a": [1, -2.5, true, null, "x"]}))),
        ("{'a': 'it is \"so\"'}", Some(json!({"a": "it is \"so\""}))),
        ("{'a': 'it\\'s'}", Some(json!({"a": "it's"}))),
        ("{'a': 'it's'}", None),
        ("{\"a\": 1, \"b\": [1, 2,],}", Some(json!({"a": 1, "b": [1, 2]}))),
        ("{\"a\": \"x\ny\tz\"}", Some(json!({"a": "x\ny\tz"}))),
        (
            r#"{"get\_it": "a\_b \d \\ \u00e9 \ud83d\ude00"}"#,
            Some(json!({"get_it": "a_b \\d \\ é 😀"})),
        ),
        (r#"["\ud83d", "\ud83dx", "\u12"]"#, Some(json!(["\u{fffd}", "\u{fffd}x", "\\u12"]))),
        ("{'a': True, 'b': False, 'c': None}", Some(json!({"a": true, "b": false, "c": null}))),
        ("{a: 1, b_2: 2}", Some(json!({"a": 1, "b_2": 2}))),
        ("{“a”: “b”}", Some(json!({"a": "b"}))),
        ("{\"a\": \"\"\"x \"y\" z\"\"\"}", Some(json!({"a": "x \"y\" z"}))),
        ("{\"a\": 1, // why\n \"b\": /* so */ 2}", Some(json!({"a": 1, "b": 2}))),
        ("{\"a\": \"x\" \"b\": 2}", Some(json!({"a": "x", "b": 2}))),
        (r#"{"a": "{"b": "c", "d": 1}"}"#, Some(json!({"a": r#"{"b": "c", "d": 1}"#}))),
        (r#"{"a": "{", "b": "}"}"#, Some(json!({"a": "{", "b": "}"}))),
        (r#"{"a": "say "hi" now"}"#, None),
        (
            "{a:<|\"|>say \"hi\" \\n {<|\"|>,b:[1,<|\"|>x<|\"|>]}",
            Some(json!({"a": "say \"hi\" \\n {", "b": [1, "x"]})),
        ),
        ("{<|\"|>a b<|\"|>:<escape>x<escape>}", Some(json!({"a b": "x"}))),
        ("{a:<|\"|>x}", None),
        ("{a:<b>}", None),
        ("{\"a\": 1}}]", Some(json!({"a": 1}))),
        ("{\"a\": 1} more", None),
        ("{\"a\": word}", None),
        ("{\"a\": 1, \"a\": 2}", None),
        ("{\"a\"=1}", None),
        ("{\"a\": 007}", None),
        ("{\"a\": 1e999}", None),
        ("{\"a\": 12px}", None),
        ("{\"a\": +1, \"b\": 18446744073709551615}", Some(json!({"a": 1, "b": u64::MAX}))),
        ("{\"a\": -9223372036854775808}", Some(json!({"a": i64::MIN}))),
        ("{\"a\": 18446744073709551616}", None),
        ("{\"a\": -9223372036854775809}", None),
        ("{\"a\": -0, \"b\": 1e21}", Some(json!({"a": -0.0, "b": 1e21}))),
        ("{\"a\": \"x", None),
        ("{\"a\": 1", None),
        ("{\"a\"", None),
        ("[1, 2", None),
        ("", None),
    ];
    for (text, expected) in cases {
        assert_eq!(whole(text, 0).ok(), expected, "{text}");
    }
}

#[test]
fn only_brackets_round_a_closed_value_may_be_missing() {
    let cases = [
        ("{\"a\": {\"b\": 1}", 1, true),
        ("{\"a\": {\"b\": 1", 1, false),
        ("{\"a\": {\"b\": 1},", 1, false),
        ("{\"a\": {\"b\": \"x", 2, false),
        ("{\"a\": {\"b\": {}\n```", 2, true),
        ("[{\"a\": {}}", 1, true),
    ];
    for (text, spare, expected) in cases {
        let found = Cursor::new(text, 0, spare).value();
        assert_eq!(found.is_ok(), expected, "{text}");
    }
}

#[test]
fn a_text_that_ends_too_soon_is_told_from_one_that_is_wrong() {
    for (text, is_cut) in
        [("{\"a\": \"x", true), ("{a:<|\"|>x}", true), ("{\"a\":", true), ("{\"a\": x}", false)]
    {
        assert_eq!(whole(text, 0).unwrap_err().is_cut, is_cut, "{text}");
    }
    assert!(whole(&"[".repeat(100_000), 0).is_err());
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|pairs| pairs.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn json_is_read_as_it_stands(value in tree()) {
        prop_assert_eq!(whole(&value.to_string(), 0), Ok(value.clone()));
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(whole(&pretty, 0), Ok(value));
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        drop(whole(&text, 2));
    }
}
