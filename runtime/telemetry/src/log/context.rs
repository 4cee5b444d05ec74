//! What lines of the log are about.

use std::fmt::{self, Display};

use serde_json::{Value, json};
use tokio::task::futures::TaskLocalFuture;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use wire::{CallKey, RunId, TraceContext};

use crate::log::LogFormat;

tokio::task_local! {
    static CONTEXT: Option<LogContext>;
}

/// Work for a run, as lines tell of it that are logged meanwhile.
///
/// It becomes text only with a line. A span of `tracing` would be made, and its fields written, for
/// every piece of work, and hardly any logs a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogContext {
    /// The run.
    pub run: RunId,
    /// Where in its trace.
    pub trace: TraceContext,
    /// The call that is made, if it is one.
    pub call: Option<CallKey>,
}

impl LogContext {
    /// Returns the one that the work is done in which asks.
    fn current() -> Option<Self> {
        CONTEXT.try_with(Option::clone).ok().flatten()
    }

    fn json(&self) -> Value {
        let Self { run, trace, call } = self;
        match call {
            Some(call) => json!({ "run": run, "trace_id": trace.trace_id(), "call": call }),
            None => json!({ "run": run, "trace_id": trace.trace_id() }),
        }
    }
}

impl Display for LogContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run={} trace_id={}", self.run, self.trace.trace_id())?;
        self.call.as_ref().map_or(Ok(()), |call| write!(f, " call={call}"))
    }
}

/// Has all lines that a future logs tell what they are about, if it is known.
///
/// One around another is not told of: who asks may do the work of who is asked, and lines would
/// tell of both.
pub fn logged<F: Future>(
    context: Option<LogContext>,
    work: F,
) -> TaskLocalFuture<Option<LogContext>, F> {
    CONTEXT.scope(context, work)
}

/// Writes lines as something else does, and at the end of each what it is about.
pub(super) struct About<F> {
    pub(super) lines: F,
    pub(super) format: LogFormat,
}

impl<S, N, F> FormatEvent<S, N> for About<F>
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some(about) = LogContext::current() else {
            return self.lines.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.lines.format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end();
        match (self.format, line.strip_suffix('}')) {
            (LogFormat::Json, Some(object)) => {
                writeln!(writer, "{object},\"work\":{}}}", about.json())
            }
            (_, _) => writeln!(writer, "{line} {about}"),
        }
    }
}
