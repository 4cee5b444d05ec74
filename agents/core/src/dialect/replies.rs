//! Replies of the kinds that models write, each with what a careful reader makes of it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wire::plan::Dialect;

use super::parse;
use crate::validate::Toolbox;

/// The share of replies of a form that has to be read as expected, in percent. Whatever is not
/// must at least be read as a fault.
const RIGHT_PERCENT_MIN: usize = 95;

/// Returns the replies of the file: form, class, reply, and the outcomes that are right.
pub(super) fn replies() -> Vec<(String, String, String, Vec<Value>)> {
    let lines = include_str!("replies.jsonl").lines();
    let replies: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |reply: &Value, key: &str| reply[key].as_str().unwrap().to_owned();
    let outcomes = |reply: &Value| {
        let accepted = reply["accept"].as_array().cloned().unwrap_or_default();
        std::iter::once(reply["expect"].clone()).chain(accepted).collect()
    };
    let parts = |reply: &Value| {
        (text(reply, "form"), text(reply, "class"), text(reply, "reply"), outcomes(reply))
    };
    replies.iter().map(parts).collect()
}

pub(super) fn dialect(form: &str) -> Dialect {
    match form {
        "native" | "message" => Dialect::Native,
        "schema" => Dialect::Schema,
        "json" => Dialect::Json,
        "react" => Dialect::React,
        other => panic!("no such form: {other}"),
    }
}

pub(super) fn bare_tools() -> Toolbox {
    let mut toolbox = Toolbox::default();
    for name in ["weather", "sum", "note", "clock"] {
        toolbox.add(name, None);
    }
    toolbox
}

/// An outcome so that it can be compared: an answer as JSON where it is some, no reasons.
fn comparable(outcome: &Value) -> Value {
    match outcome["kind"].as_str() {
        Some("final") => {
            let text = outcome["text"].as_str().unwrap().trim();
            json!({"final": serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))})
        }
        Some("error") => json!("error"),
        _ => outcome.clone(),
    }
}

#[test]
fn replies_of_every_form_are_read_as_expected() {
    let toolbox = bare_tools();
    let mut figures: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for (form, class, reply, outcomes) in replies() {
        let parsed = serde_json::to_value(parse(dialect(&form), &toolbox, &reply)).unwrap();
        let is_right = outcomes.iter().any(|right| comparable(right) == comparable(&parsed));
        let is_wrong = !is_right && parsed["kind"] != "error";
        if !is_right {
            println!("{form}, {class}: {reply}\n  is read as {parsed}");
        }
        let [all, right, wrong] = figures.entry(form).or_default();
        *all += 1;
        *right += usize::from(is_right);
        *wrong += usize::from(is_wrong);
    }
    for (form, [all, right, wrong]) in &figures {
        println!("{form}: {right} of {all} right, {wrong} wrong actions");
    }
    for (form, [all, right, wrong]) in figures {
        assert_eq!(wrong, 0, "{form}");
        assert!(right * 100 >= all * RIGHT_PERCENT_MIN, "{form}: {right} of {all}");
    }
}
