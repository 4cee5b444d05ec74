//! Which traces are asked for: the form of it on the way, for whoever asks and whoever answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::{TraceQuery, TraceStatus};
use wire::{Name, RunId, SessionId, Timestamp};

/// Which traces are looked for; what is absent is not asked for, and all that is there has to fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceFilter {
    /// A run whose trace it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// An agent that has a span in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    /// A tool that was called in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// A session that has a span in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// How it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TraceStatus>,
    /// The shortest time that it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ms: Option<u64>,
    /// The longest time that it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<u64>,
    /// The time at or after which it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The time at or before which it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The `next` of an earlier list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The most rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl TraceFilter {
    /// Returns what the store is asked, or what is wrong.
    pub fn query(&self) -> Result<TraceQuery, String> {
        let after = self.after.as_ref().map(|after| after.parse()).transpose();
        let after = after.map_err(|error| format!("`after` is {error}"))?;
        Ok(TraceQuery {
            run: self.run.clone(),
            agent: self.agent.clone(),
            tool: self.tool.clone().filter(|tool| !tool.contains('\0')),
            session: self.session.clone(),
            status: self.status,
            duration_min: self.min_ms.map(Duration::from_millis),
            duration_max: self.max_ms.map(Duration::from_millis),
            since: self.since,
            until: self.until,
            after,
        })
    }

    /// Returns the fields that are there, as a query of an address.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(self) else {
            return Vec::new();
        };
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        fields.into_iter().map(|(name, value)| (name, text(value))).collect()
    }
}
