//! A call as tests make it.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wire::run::Budget;
use wire::{CallKey, Name, RunId, SessionId, Timestamp, TraceContext};

use crate::interim::Interim;
use crate::tool::{HopLog, ToolContext};

/// Makes the context of a call that has some time left, at the beginning of time and of a run that
/// is not tainted.
pub fn context(remaining: Duration) -> ToolContext {
    let name = |text: &str| Name::new(text).expect("it is a name");
    let (team, run) = (name("team"), RunId::new("r").expect("it is an id"));
    ToolContext {
        call: CallKey::new("0123abcd").expect("it is a key"),
        tool: name("tool"),
        agent: name("agent"),
        session: SessionId::new("s").expect("it is an id"),
        trace: TraceContext::root(&team, &run),
        team,
        run,
        hop: HopLog::default(),
        now: Timestamp::default(),
        remaining,
        budget: Budget::default(),
        tainted: false,
        interim: Interim::unheard(remaining),
        stop: CancellationToken::new(),
    }
}
