//! Schemas by chance: the server takes every grammar made from one, and what it writes is valid.
//!
//! The same schemas are sent as they are too, and what the server makes of them falls short in two
//! known points, for which every reply is checked again: bounds of numbers with a fraction are
//! passed over, and numbers and escapes may be such as no strict reader of JSON takes.

use std::collections::BTreeMap;

use agents_core::{grammar, validate};
use serde_json::{Value, json};

use crate::NOT_JSON;
use crate::arbitrary::{self, Random};
use crate::server::{Server, post};

/// Schemas that are tried.
const SCHEMAS: u64 = 200;

/// Tokens of one reply; the model has one for each character.
const TOKENS_MAX: u64 = 3000;

/// What became of the replies of one way to ask.
#[derive(Debug, Default)]
struct Tally {
    valid: usize,
    cut: usize,
    /// Known to fall short, through the server's own grammar.
    short: usize,
    refused: Vec<String>,
    wrong: Vec<String>,
}

/// How a schema is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Grammar,
    JsonSchema,
}

#[tokio::test]
async fn replies_under_grammars_are_valid_by_their_schemas() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let client = reqwest::Client::new();
    let url = format!("{}/completion", server.url);
    let mut tallies: BTreeMap<Way, Tally> = BTreeMap::new();
    for seed in 0..SCHEMAS {
        let schema = arbitrary::schema(&mut Random::new(seed));
        for way in [Way::Grammar, Way::JsonSchema] {
            let mut body = json!({
                "prompt": "Write JSON: ", "n_predict": TOKENS_MAX, "temperature": 1.0, "seed": seed,
            });
            match way {
                Way::Grammar => body["grammar"] = grammar::to_gbnf(&schema).unwrap().into(),
                Way::JsonSchema => body["json_schema"] = schema.clone(),
            }
            let (status, reply) = post(&client, &url, &body).await;
            if way == Way::JsonSchema && falls_short(&schema, &reply) {
                tallies.entry(way).or_default().short += 1;
                continue;
            }
            tallies.entry(way).or_default().count(seed, &schema, status, &reply);
        }
    }
    for (way, tally) in &tallies {
        println!("{way:?}: {} valid, {} cut, {} short", tally.valid, tally.cut, tally.short);
        assert!(tally.refused.is_empty(), "{way:?}: {}", tally.refused.join("\n"));
        assert!(tally.wrong.is_empty(), "{way:?}: {}", tally.wrong.join("\n"));
        assert!(tally.cut * 10 < tally.valid, "{way:?}: too few are whole to show anything");
    }
    assert_eq!(tallies[&Way::Grammar].short, 0);
}

impl Tally {
    fn count(&mut self, seed: u64, schema: &Value, status: u16, reply: &Value) {
        if status != 200 {
            return self.refused.push(format!("seed {seed}: {status} {reply}"));
        }
        if reply["stop_type"] == "limit" {
            return self.cut += 1;
        }
        let text = reply["content"].as_str().unwrap();
        let faults = faults(schema, text);
        if faults.is_empty() {
            self.valid += 1;
        } else {
            self.wrong.push(format!("seed {seed}: {faults:?} in {text}"));
        }
    }
}

/// Returns what is wrong with a reply.
fn faults(schema: &Value, text: &str) -> Vec<String> {
    match serde_json::from_str(text) {
        Ok(value) => validate::faults(&validate::validator(schema).unwrap(), &value),
        Err(error) => vec![error.to_string()],
    }
}

/// Tells whether a reply is wrong in a point that the server is known to pass over.
fn falls_short(schema: &Value, reply: &Value) -> bool {
    let Some(text) = reply["content"].as_str() else { return false };
    let faults_left = faults(&without_number_bounds(schema), text);
    let not_json = |fault: &String| NOT_JSON.iter().any(|word| fault.contains(word));
    !faults(schema, text).is_empty() && faults_left.iter().all(not_json)
}

fn without_number_bounds(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) if keywords.get("type") == Some(&json!("number")) => {
            json!({"type": "number"})
        }
        Value::Object(keywords) => {
            let each =
                |(key, value): (&String, &Value)| (key.clone(), without_number_bounds(value));
            keywords.iter().map(each).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(without_number_bounds).collect(),
        other => other.clone(),
    }
}
