//! What is played: a team with one tool of some effect class, a client, and a person where one is
//! needed.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::outside::Mode;

/// The name of the team.
pub(crate) const TEAM: &str = "matrix";

/// The run and the session that are played, and the run before it that is there from the start.
pub(crate) const RUN: &str = "r-1";
pub(crate) const SESSION: &str = "s-1";
pub(crate) const BEFORE: &str = "r-0";

/// The time of a run: longer than the whole test takes, since a life may begin long after the crash.
const RUN_MS: u64 = 3_600_000;

/// What the agents answer.
const DONE: &str = "WORKER-DONE";
pub(crate) const NOBODY_KNOWS: &str = "nobody knows";

/// What may come of a call that a crash interrupts, and what else happens to its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    Read,
    Idempotent,
    Once,
    /// Once, with a probe.
    Probed,
    /// Once, and a person is asked if nobody knows what came of it.
    Asked,
    /// Once, and a person allows it first.
    Allowed,
    /// Once, and a person does not allow it.
    Denied,
    /// Once, by an agent that another one calls.
    Called,
    /// Once, in a run that is cancelled.
    Cancelled,
    /// Once, in a run whose time is over before its model has answered.
    Late,
}

/// One play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Scene {
    pub(crate) class: Class,
    pub(crate) mode: Mode,
}

impl Class {
    /// The classes that are played in every mode of the world outside.
    pub(crate) const EFFECTS: [Self; 4] = [Self::Read, Self::Idempotent, Self::Once, Self::Probed];

    pub(crate) const fn tool(self) -> &'static str {
        match self {
            Self::Read => "price",
            Self::Idempotent => "stock",
            Self::Once | Self::Called | Self::Cancelled | Self::Late => "pay",
            Self::Probed => "wire",
            Self::Asked => "order",
            Self::Allowed | Self::Denied => "mail",
        }
    }

    /// Tells whether the effect must never be repeated.
    pub(crate) const fn is_once(self) -> bool {
        !matches!(self, Self::Read | Self::Idempotent)
    }
}

impl Scene {
    /// Returns all plays.
    pub(crate) fn all() -> Vec<Self> {
        let every =
            Class::EFFECTS.into_iter().flat_map(|class| Mode::ALL.map(|mode| Self { class, mode }));
        let some = [
            (Class::Asked, Mode::Before),
            (Class::Asked, Mode::Drop),
            (Class::Allowed, Mode::After),
            (Class::Denied, Mode::After),
            (Class::Called, Mode::Before),
            (Class::Called, Mode::Drop),
            (Class::Cancelled, Mode::Before),
            (Class::Cancelled, Mode::After),
            (Class::Late, Mode::After),
        ];
        every.chain(some.map(|(class, mode)| Self { class, mode })).collect()
    }

    /// Returns the request of the client.
    pub(crate) fn request(self, run: &str) -> String {
        let timeout_ms = if self.class == Class::Late && run == RUN { 40 } else { RUN_MS };
        let input = if run == RUN { "do it" } else { "hello" };
        json!({"input": input, "run": run, "session": SESSION, "timeout_ms": timeout_ms})
            .to_string()
    }

    /// Writes the team's files; its tools are asked at an address. Returns the team file.
    pub(crate) fn write(self, dir: &Path, url: &str) -> PathBuf {
        let file = dir.join(format!("{TEAM}.toml"));
        std::fs::write(&file, self.team(url)).unwrap();
        let lines = |replies: &[serde_json::Value]| {
            replies.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        let call = json!([{"name": self.class.tool(), "arguments": {"amount": 7}}]);
        let delay_ms = if self.class == Class::Late { 150 } else { 0 };
        let worker = [
            json!({"when": "not made again; verify", "content": NOBODY_KNOWS}),
            // The same call once more, which must be refused.
            json!({"when": r#""status":"unknown""#, "calls": call}),
            json!({"when": "LEDGER|error|E[0-9]{4}", "content": DONE}),
            json!({"when": "do it", "calls": call, "delay_ms": delay_ms}),
            json!({"when": ".", "content": "noted"}),
        ];
        std::fs::write(dir.join("worker.jsonl"), lines(&worker)).unwrap();
        let task = json!([{"name": "worker", "arguments": {"task": "do it"}}]);
        let ends = format!("{DONE}|{NOBODY_KNOWS}|error|E[0-9]{{4}}");
        let lead = [
            json!({"when": ends, "content": "LEAD-DONE"}),
            json!({"when": "do it", "calls": task}),
            json!({"when": ".", "content": "noted"}),
        ];
        std::fs::write(dir.join("lead.jsonl"), lines(&lead)).unwrap();
        file
    }

    fn team(self, url: &str) -> String {
        let tool = self.class.tool();
        let (method, target, rest) = match self.class {
            Class::Read => ("GET", "price?amount={amount}", ""),
            Class::Idempotent => ("PUT", "stock", "body = 'arguments'"),
            Class::Probed => ("POST", "wire", "body = 'arguments'\nprobe = 'seen'"),
            Class::Asked => ("POST", "order", "body = 'arguments'\non_unknown = 'ask'"),
            Class::Once
            | Class::Allowed
            | Class::Denied
            | Class::Called
            | Class::Cancelled
            | Class::Late => ("POST", tool, "body = 'arguments'"),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query =
            query.split_once('=').map(|(name, value)| format!("query = {{{name}='{value}'}}"));
        let query = query.unwrap_or_default();
        let leave = match self.class {
            Class::Allowed | Class::Denied => "ask",
            Class::Read
            | Class::Idempotent
            | Class::Once
            | Class::Probed
            | Class::Asked
            | Class::Called
            | Class::Cancelled
            | Class::Late => "allow",
        };
        let entry = if self.class == Class::Called { "lead" } else { "worker" };
        format!(
            r#"
[team]
name = "{TEAM}"
entry = "{entry}"

[models.worker]
provider = "scripted"
script = "worker.jsonl"

[models.lead]
provider = "scripted"
script = "lead.jsonl"

[agents.worker]
description = "does it"
instructions = "Act."
model = "worker"
tools = ["{tool}"]

[agents.lead]
description = "has it done"
instructions = "Delegate."
model = "lead"
agents = ["worker"]

[permissions]
{leave} = ["{tool}"]

[tools.{tool}]
kind = "http"
description = "acts outside"
method = "{method}"
url = "{url}/{path}"
{query}
{rest}
parameters = {{ amount = "integer" }}

[tools.seen]
kind = "http"
description = "says whether it was done"
url = "{url}/seen/{{key}}"
parameters = {{ key = "string" }}
"#
        )
    }
}
