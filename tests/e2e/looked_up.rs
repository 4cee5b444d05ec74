//! Holds what can be looked up of runs against each other, and against what clients were told.

use std::collections::HashMap;

use serde_json::Value;
use tests::trade;

use crate::load::Answered;
use crate::setup::http_client;

/// Traces of which the spans are counted: one after the other, each in a request of its own.
const COUNTED: usize = 200;

/// Traces in one answer.
const PAGE: usize = 1000;

/// Asks the team `trade` of a daemon.
struct Door {
    client: reqwest::Client,
    team: String,
}

impl Door {
    async fn ask(&self, what: &str) -> Value {
        let answer = self.client.get(format!("{}/{what}", self.team)).send().await.unwrap();
        let text = answer.text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"))
    }

    /// Returns all traces, by their run.
    async fn traces(&self) -> HashMap<String, Value> {
        let mut found = HashMap::new();
        let mut next = String::new();
        loop {
            let page = self.ask(&format!("traces?limit={PAGE}{next}")).await;
            for trace in page["traces"].as_array().unwrap() {
                let run = trace["run"].as_str().unwrap().to_owned();
                assert!(found.insert(run, trace.clone()).is_none(), "twice: {trace}");
            }
            let Some(after) = page["next"].as_str() else { return found };
            next = format!("&after={after}");
        }
    }
}

fn tokens(usage: &Value) -> u64 {
    ["input_tokens", "output_tokens"].iter().filter_map(|kind| usage[kind].as_u64()).sum()
}

/// Checks that every run has its trace whole, and that each turn is counted as used once.
pub(crate) async fn check(http: &str, answered: &[Answered]) {
    let team = format!("{http}/v1/teams/{}", trade::TEAM);
    let door = Door { client: http_client(), team };
    let traces = door.traces().await;
    for (number, run) in answered.iter().enumerate() {
        let trace = traces.get(run.run.as_str());
        let trace = trace.unwrap_or_else(|| panic!("run {} has no trace", run.run));
        assert_ne!(trace["trace_status"], "running", "{trace}");
        if number.is_multiple_of(answered.len().div_ceil(COUNTED)) {
            let told = door.ask(&format!("traces/{}", run.run)).await;
            assert_eq!(trace["spans"], told["spans"].as_array().unwrap().len(), "{trace}: {told}");
        }
    }
    assert_eq!(traces.len(), answered.len(), "there are traces of other runs");
    let in_traces: u64 = traces.values().map(|trace| tokens(&trace["usage"])).sum();
    let usage = door.ask("usage").await;
    let counted: u64 =
        usage["usage"].as_array().unwrap().iter().map(|row| tokens(&row["usage"])).sum();
    assert!(counted > 0, "{usage}");
    assert_eq!(counted, in_traces, "a turn is counted twice or not at all: {usage}");
}
