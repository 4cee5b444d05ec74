//! Where a command writes: answers to stdout, everything else to stderr.

use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use terminal_size::{Width, terminal_size_of};
use wire::ErrorCode;

use crate::failure::Failure;
use crate::paint::Paint;
use crate::text;

/// The columns of lines that are not for a terminal: long enough for most results.
const WIDTH_PIPED: usize = 120;

/// The fewest columns that are laid out for; a narrower terminal wraps.
const WIDTH_MIN: usize = 40;

/// When text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// One of the two streams, and how it is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Colours for it.
    pub(crate) paint: Paint,
    /// Whether a person sees it at once.
    pub(crate) is_terminal: bool,
    /// Its columns.
    pub(crate) width: usize,
}

/// Both streams of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Where answers go.
    pub(crate) out: Stream,
    /// Where progress, notes and errors go.
    pub(crate) err: Stream,
}

impl Screen {
    /// Looks at the streams of the process.
    pub(crate) fn new(color: Color) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let wants = |auto: ColorChoice| match color {
            Color::Auto => auto != ColorChoice::Never,
            Color::Always => true,
            Color::Never => false,
        };
        Self {
            out: Stream {
                paint: Paint::new(wants(AutoStream::choice(&out))),
                is_terminal: out.is_terminal(),
                width: columns(terminal_size_of(&out)),
            },
            err: Stream {
                paint: Paint::new(wants(AutoStream::choice(&err))),
                is_terminal: err.is_terminal(),
                width: columns(terminal_size_of(&err)),
            },
        }
    }

    /// Writes what a model said: byte for byte into a pipe, harmless on a terminal.
    pub(crate) fn reply(&self, reply: &str) -> Result<(), Failure> {
        if self.out.is_terminal { answer(&text::harmless(reply)) } else { answer(reply) }
    }
}

/// Writes an answer to stdout, closed by a line break. A reader that has gone away, such as `head`,
/// wants no more, and has had what it wanted.
pub(crate) fn answer(answer: &str) -> Result<(), Failure> {
    tell(answer).map(|_| ())
}

/// Writes a part of an answer to stdout, closed by a line break, and tells whether the reader is
/// still there.
pub(crate) fn tell(answer: &str) -> Result<bool, Failure> {
    let end = if answer.ends_with('\n') { "" } else { "\n" };
    put(&format!("{answer}{end}"))
}

/// Writes to stdout as it is, and tells whether the reader is still there.
pub(crate) fn put(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let text = format!("write the answer to stdout: {error}");
            Err(Failure::new(ErrorCode::StorageFailed, text))
        }
    }
}

/// Tells whether the reader of stdout is still there, as far as that shows without writing.
pub(crate) fn is_read() -> bool {
    let out = io::stdout();
    let mut out = [PollFd::new(&out, PollFlags::empty())];
    let gone = PollFlags::ERR | PollFlags::HUP;
    let asked = poll(&mut out, Some(&Timespec::default()));
    asked.is_err() || !out.iter().any(|out| out.revents().intersects(gone))
}

/// Writes an answer to stdout as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    answer(&text::json(&serde_json::to_string_pretty(value).unwrap_or_default()))
}

/// Writes to stderr as it is.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    write!(err, "{text}").and_then(|()| err.flush()).unwrap_or_default();
}

/// Returns the columns and lines of stdout as they are at present.
pub(crate) fn size() -> (usize, usize) {
    let size = terminal_size_of(io::stdout());
    (columns(size), lines(size))
}

fn lines(size: Option<(Width, terminal_size::Height)>) -> usize {
    size.map_or(usize::MAX, |(_, terminal_size::Height(lines))| usize::from(lines))
}

fn columns(size: Option<(Width, terminal_size::Height)>) -> usize {
    let named = || std::env::var_os("COLUMNS")?.to_str()?.parse().ok();
    let columns = size.map(|(Width(columns), _)| usize::from(columns)).filter(|&n| n > 0);
    columns.or_else(named).unwrap_or(WIDTH_PIPED).max(WIDTH_MIN)
}
