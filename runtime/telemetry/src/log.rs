//! Sets up the log of the process, on stderr.

pub(crate) mod context;

use std::io;

use context::About;
use tools::secret::clean;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, ParseError, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Registry, fmt};

/// The library that speaks with MCP servers. At `info` it logs all that they notify us of, which
/// may hold what calls are about and is as long as they like.
const TALKATIVE: &str = "rmcp";

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// One line for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions<'a> {
    /// The form of a line.
    pub format: LogFormat,
    /// What is let through, such as `info,node=debug`. Of the library that speaks with MCP servers,
    /// `rmcp`, that is nothing below `warn` unless it is named here.
    pub filter: &'a str,
    /// Whether lines are coloured; JSON never is.
    pub color: bool,
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error("read log filter {filter:?}: {source}; write it like `info,node=debug`")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The process has a log already.
    #[error("set up the log: {0}")]
    Set(#[from] TryInitError),
}

/// Sets up the log of the process; may be done once.
pub fn init(options: LogOptions<'_>) -> Result<(), LogError> {
    let layer = layer(options, io::stderr)?;
    tracing_subscriber::registry().with(layer).try_init()?;
    Ok(())
}

/// Makes the layer that writes the log. The filter is the layer's own: one for the whole registry
/// would take spans away from every other layer too. Lines tell of their context, so that no span
/// is needed; one of a library would be entered and left each time that a task goes on.
fn layer<W>(
    options: LogOptions<'_>,
    writer: W,
) -> Result<Box<dyn Layer<Registry> + Send + Sync>, LogError>
where
    W: for<'w> fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(options.filter)
        .map_err(|source| LogError::Filter { filter: options.filter.to_owned(), source })?;
    let is_asked_for = options.filter.contains(TALKATIVE);
    let filter = filter.and(filter_fn(move |metadata| {
        !metadata.is_span() && (is_asked_for || !is_talk(metadata))
    }));
    let LogOptions { format, color, .. } = options;
    let lines = fmt::layer().with_writer(Clean(writer));
    Ok(match format {
        LogFormat::Text => lines
            .with_ansi(color)
            .map_event_format(|lines| About { lines: lines.with_ansi(color), format })
            .with_filter(filter)
            .boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .map_event_format(|lines| About { lines, format })
            .with_filter(filter)
            .boxed(),
    })
}

/// Tells whether a line is one of [`TALKATIVE`] that reports no trouble.
fn is_talk(metadata: &Metadata<'_>) -> bool {
    let of_module = metadata.target().strip_prefix(TALKATIVE);
    let is_its_own = of_module.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    is_its_own && *metadata.level() > Level::WARN
}

/// Makes writers that take secrets out of what they are given. A line comes in one piece.
struct Clean<W>(W);

impl<'w, W: fmt::MakeWriter<'w>> fmt::MakeWriter<'w> for Clean<W> {
    type Writer = Clean<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        Clean(self.0.make_writer())
    }
}

impl<W: io::Write> io::Write for Clean<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = clean(String::from_utf8_lossy(line).into_owned());
        self.0.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};

    use serde_json::{Value, json};
    use wire::{CallKey, RunId};

    use super::*;
    use crate::log::context::{LogContext, logged};

    type Work = Pin<Box<dyn Future<Output = ()>>>;

    /// Logs something with some options and returns what was written.
    fn written(options: LogOptions<'_>, log: impl FnOnce()) -> String {
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer = {
            let written = Arc::clone(&written);
            move || Written(Arc::clone(&written))
        };
        let registry = tracing_subscriber::registry().with(layer(options, writer).unwrap());
        tracing::subscriber::with_default(registry, log);
        String::from_utf8(written.lock().unwrap().clone()).unwrap()
    }

    /// Logs three lines with some options and returns what was written.
    fn three_lines(options: LogOptions<'_>) -> String {
        written(options, || {
            tracing::info!(session = "s1", "session begun");
            tracing::debug!("a detail");
            tracing::debug!(target: "noisy", "noise");
        })
    }

    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_filter_lets_through_what_it_says() {
        let cases = [("off", 0), ("warn", 0), ("info", 1), ("debug", 3), ("debug,noisy=off", 2)];
        for (filter, lines) in cases {
            let options = LogOptions { format: LogFormat::Text, filter, color: false };
            assert_eq!(three_lines(options).lines().count(), lines, "{filter}");
        }
    }

    #[test]
    fn what_mcp_servers_say_is_logged_for_who_asks_for_it() {
        let cases = [
            ("off", 0),
            ("warn", 1),
            ("info", 2),
            ("debug", 2),
            ("info,node=debug", 2),
            ("info,rmcp=info", 3),
            ("rmcp::service=info", 2),
        ];
        for (filter, lines) in cases {
            let options = LogOptions { format: LogFormat::Text, filter, color: false };
            let log = written(options, || {
                tracing::info!(target: "rmcp::service", "received notification");
                tracing::warn!(target: "rmcp::service", "response error");
                tracing::info!(target: "rmcpx", "another library");
            });
            assert_eq!(log.lines().count(), lines, "{filter}: {log}");
        }
    }

    #[test]
    fn lines_have_the_form_that_was_asked_for() {
        let text = LogOptions { format: LogFormat::Text, filter: "info", color: false };
        assert!(three_lines(text).contains("session begun session=\"s1\""));
        assert!(three_lines(LogOptions { color: true, ..text }).contains("\u{1b}["));
        let json = three_lines(LogOptions { format: LogFormat::Json, color: true, ..text });
        let line: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&line["message"], &line["session"]), (&"session begun".into(), &"s1".into()));
    }

    #[test]
    fn lines_say_in_what_work_they_were_written() {
        let text = LogOptions { format: LogFormat::Text, filter: "warn", color: false };
        let json = LogOptions { format: LogFormat::Json, ..text };
        let turn = LogContext {
            run: RunId::new("r1").unwrap(),
            trace: "00-00000000000000000000000000000abc-0000000000000def-01".parse().unwrap(),
            call: None,
        };
        let call = LogContext { call: Some(CallKey::new("c1").unwrap()), ..turn.clone() };
        let id = "00000000000000000000000000000abc";
        let (of_turn, of_call) =
            (format!("run=r1 trace_id={id}"), format!("run=r1 trace_id={id} call=c1"));
        // The innermost counts, also where it is not known what that is about.
        for (contexts, line, work) in [
            (vec![], "slow", Value::Null),
            (vec![None], "slow", Value::Null),
            (vec![Some(&turn)], &*format!("slow {of_turn}"), json!({"run": "r1", "trace_id": id})),
            (
                vec![Some(&turn), Some(&call)],
                &*format!("slow {of_call}"),
                json!({"run": "r1", "trace_id": id, "call": "c1"}),
            ),
            (vec![Some(&call), None], "slow", Value::Null),
        ] {
            let logging = || {
                let slow: Work = Box::pin(async { tracing::warn!("slow") });
                let mut work = contexts
                    .iter()
                    .rev()
                    .fold(slow, |inner, context| Box::pin(logged(context.cloned(), inner)));
                let mut waits_for_nothing = Context::from_waker(Waker::noop());
                assert_eq!(work.as_mut().poll(&mut waits_for_nothing), Poll::Ready(()));
            };
            let plain = written(text, logging);
            assert!(plain.ends_with(&format!(": {line}\n")), "{plain}");
            let colored = written(LogOptions { color: true, ..text }, logging);
            assert!(colored.contains("\u{1b}["), "{colored}");
            let line: Value = serde_json::from_str(&written(json, logging)).unwrap();
            assert_eq!((&line["message"], &line["work"]), (&"slow".into(), &work), "{line}");
        }
    }

    #[test]
    fn spans_are_not_made_for_the_log() {
        for filter in ["warn", "info", "trace"] {
            let options = LogOptions { format: LogFormat::Text, filter, color: false };
            written(options, || assert!(tracing::error_span!("work").is_disabled(), "{filter}"));
        }
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused() {
        let options = LogOptions { format: LogFormat::Text, filter: "a=b=c", color: false };
        let error = layer(options, io::stderr).err().unwrap();
        assert!(error.to_string().starts_with("read log filter \"a=b=c\": "), "{error}");
    }
}
