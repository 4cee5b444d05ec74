//! Lines of stdin, by which a person says something to a run.

use std::future::pending;
use std::io::{BufRead as _, IsTerminal as _, Stdin, stdin};

use rustix::io::ioctl_fionread;
use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

/// Lines that wait to be taken as answers.
const LINES_MAX: usize = 16;

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// When it was typed; of what comes out of a pipe nobody knows.
    typed: Option<Instant>,
}

impl Line {
    /// Tells whether it was typed before something was asked, so that it cannot be the answer. What
    /// comes out of a pipe is a script, whose lines are the answers in their order.
    pub(crate) fn is_before(&self, asked: Instant) -> bool {
        self.typed.is_some_and(|typed| typed < asked)
    }
}

/// The lines of stdin, which are read once something is asked: what is typed into a shell behind a
/// command that asks nothing is the shell's.
#[derive(Debug, Default)]
pub(crate) struct Lines(Option<mpsc::Receiver<Line>>);

impl Lines {
    /// Begins to read, if that was not done, and tells whether what was typed before was dropped.
    pub(crate) fn begin(&mut self) -> bool {
        if self.0.is_some() {
            return false;
        }
        let (tx, rx) = mpsc::channel(LINES_MAX);
        self.0 = Some(rx);
        let stdin = stdin();
        let dropped = stdin.is_terminal()
            && ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0)
            && tcflush(&stdin, QueueSelector::IFlush).is_ok();
        // Such a read cannot be ended, so it has a thread of its own.
        let read = move || read(&stdin, &tx);
        drop(std::thread::Builder::new().name("callboard-stdin".to_owned()).spawn(read));
        dropped
    }

    /// Returns the next line, or `None` at the end; waits for ever if none is read.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        match &mut self.0 {
            Some(lines) => lines.recv().await,
            None => pending().await,
        }
    }
}

fn read(stdin: &Stdin, tx: &mpsc::Sender<Line>) {
    let is_terminal = stdin.is_terminal();
    for text in stdin.lock().lines() {
        let Ok(text) = text else { return };
        let sent = if is_terminal {
            // One without room would wait in the terminal, and seem to be typed when it is read.
            match tx.try_send(Line { text, typed: Some(Instant::now()) }) {
                Err(TrySendError::Closed(_)) => Err(()),
                Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            }
        } else {
            tx.blocking_send(Line { text, typed: None }).map_err(drop)
        };
        if sent.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_is_typed_can_come_too_early() {
        let asked = Instant::now();
        let second = Duration::from_secs(1);
        let cases = [
            (None, false),
            (asked.checked_sub(second), true),
            (Some(asked), false),
            (Some(asked + second), false),
        ];
        for (typed, expected) in cases {
            let line = Line { text: "y".to_owned(), typed };
            assert_eq!(line.is_before(asked), expected, "{typed:?}");
        }
    }
}
