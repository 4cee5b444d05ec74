//! The log of the process, kept to be looked at.

use std::io;
use std::sync::{Arc, Mutex};

/// What was logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Takes the log of the process from here on.
    pub(crate) fn of_process() -> Self {
        let log = Self::default();
        let writer = log.clone();
        tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
        log
    }

    /// Counts how often a text stands in it.
    pub(crate) fn count(&self, text: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).matches(text).count()
    }
}
