//! Sets up the log of the process, on stderr.

use std::io;

use tools::secret::clean;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Registry, fmt};

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
    /// What is let through, such as `info,node=debug`.
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
/// would take spans away from every other layer too.
fn layer<W>(
    options: LogOptions<'_>,
    writer: W,
) -> Result<Box<dyn Layer<Registry> + Send + Sync>, LogError>
where
    W: for<'w> fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(options.filter)
        .map_err(|source| LogError::Filter { filter: options.filter.to_owned(), source })?;
    let lines = fmt::layer().with_writer(Clean(writer));
    Ok(match options.format {
        LogFormat::Text => lines.with_ansi(options.color).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    })
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
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Logs three lines with some options and returns what was written.
    fn logged(options: LogOptions<'_>) -> String {
        let written = Arc::new(Mutex::new(Vec::new()));
        let writer = {
            let written = Arc::clone(&written);
            move || Written(Arc::clone(&written))
        };
        let registry = tracing_subscriber::registry().with(layer(options, writer).unwrap());
        tracing::subscriber::with_default(registry, || {
            tracing::info!(session = "s1", "session begun");
            tracing::debug!("a detail");
            tracing::debug!(target: "noisy", "noise");
        });
        String::from_utf8(written.lock().unwrap().clone()).unwrap()
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
            assert_eq!(logged(options).lines().count(), lines, "{filter}");
        }
    }

    #[test]
    fn lines_have_the_form_that_was_asked_for() {
        let text = LogOptions { format: LogFormat::Text, filter: "info", color: false };
        assert!(logged(text).contains("session begun session=\"s1\""));
        assert!(logged(LogOptions { color: true, ..text }).contains("\u{1b}["));
        let json = logged(LogOptions { format: LogFormat::Json, color: true, ..text });
        let line: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&line["message"], &line["session"]), (&"session begun".into(), &"s1".into()));
    }

    #[test]
    fn lines_say_in_what_work_they_were_written() {
        let written = |format, filter| {
            let bytes = Arc::new(Mutex::new(Vec::new()));
            let writer = {
                let bytes = Arc::clone(&bytes);
                move || Written(Arc::clone(&bytes))
            };
            let options = LogOptions { format, filter, color: false };
            let registry = tracing_subscriber::registry().with(layer(options, writer).unwrap());
            tracing::subscriber::with_default(registry, || {
                let work = tracing::error_span!("work", run = "r1", trace_id = "t1");
                work.in_scope(|| tracing::warn!("slow"));
            });
            String::from_utf8(bytes.lock().unwrap().clone()).unwrap()
        };
        let text = written(LogFormat::Text, "warn");
        assert!(text.contains("work{run=\"r1\" trace_id=\"t1\"}"), "{text}");
        let line: serde_json::Value =
            serde_json::from_str(&written(LogFormat::Json, "warn")).unwrap();
        let of = |name: &str| line["span"][name].as_str();
        assert_eq!((of("run"), of("trace_id")), (Some("r1"), Some("t1")), "{line}");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused() {
        let options = LogOptions { format: LogFormat::Text, filter: "a=b=c", color: false };
        let error = layer(options, io::stderr).err().unwrap();
        assert!(error.to_string().starts_with("read log filter \"a=b=c\": "), "{error}");
    }
}
