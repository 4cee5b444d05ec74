//! The report on a team file: every fault, with its place and its cure.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource};
use serde_json::{Value, json};
use wire::ErrorCode;

use crate::secrecy::blotted;

/// Faults that are reported one by one; a file with more is not the file that was meant.
pub const FAULTS_MAX: usize = 64;

/// Bytes of a line that is still shown; a longer one is named by its number only.
const LINE_BYTES_MAX: usize = 400;

/// Characters of a rendered line.
const WIDTH: usize = 100;

/// Tells everything that is wrong with a team file.
#[derive(Clone, Debug)]
pub struct Report {
    file: PathBuf,
    sources: Vec<Source>,
    faults: Vec<Fault>,
    omitted: usize,
    /// The bytes of the team file that are not drawn, since they may be secrets.
    hidden: Vec<Range<usize>>,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `E6001` for what a file says, `E6002` for a file that cannot be read.
    pub code: ErrorCode,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: String,
    /// The file that has the fault: the team file or a script.
    pub file: PathBuf,
    /// The line, from 1; absent if the fault has no place in the file.
    pub line: Option<usize>,
    /// The character in the line, from 1.
    pub column: Option<usize>,
    /// The bytes of the file that are at fault.
    pub span: Option<Range<usize>>,
    source: usize,
}

#[derive(Clone, Debug)]
struct Source {
    file: PathBuf,
    text: Arc<str>,
}

impl Report {
    pub(crate) fn new(file: &Path, text: &str) -> Self {
        let source = Source { file: file.to_owned(), text: text.into() };
        Self {
            file: file.to_owned(),
            sources: vec![source],
            faults: Vec::new(),
            omitted: 0,
            hidden: Vec::new(),
        }
    }

    /// Makes the report on a team file that cannot be read at all.
    pub(crate) fn unreadable(file: &Path, message: String, help: &str) -> Self {
        let mut report = Self::new(file, "");
        report.add_in(0, ErrorCode::FileUnreadable, None, message, help.to_owned());
        report
    }

    /// Adds a file that faults may point into, and returns its number. The team file is 0.
    pub(crate) fn add_source(&mut self, file: &Path, text: &str) -> usize {
        self.sources.push(Source { file: file.to_owned(), text: text.into() });
        self.sources.len() - 1
    }

    /// Hides places of the team file in all that is drawn of it.
    pub(crate) fn hide(&mut self, places: impl IntoIterator<Item = Range<usize>>) {
        self.hidden.extend(places);
    }

    /// Returns the text of the team file.
    pub(crate) fn text(&self) -> &str {
        self.sources.first().map_or("", |source| &source.text)
    }

    /// Adds a fault of the team file: where, what is wrong, what to do.
    pub(crate) fn add(
        &mut self,
        span: Option<Range<usize>>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add_in(0, ErrorCode::ConfigInvalid, span, message.into(), help.into());
    }

    /// Adds a fault of one of the files.
    pub(crate) fn add_in(
        &mut self,
        source: usize,
        code: ErrorCode,
        span: Option<Range<usize>>,
        message: String,
        help: String,
    ) {
        if self.faults.len() == FAULTS_MAX {
            self.omitted += 1;
            return;
        }
        let place = self.sources.get(source);
        let text = place.map_or("", |source| &source.text);
        let position = span.as_ref().map(|span| position(text, span.start));
        self.faults.push(Fault {
            code,
            message,
            help,
            file: place.map_or(&self.file, |source| &source.file).clone(),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
            span,
            source,
        });
    }

    /// Tells whether anything is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Tells whether further faults are only counted, so that no help needs to be thought out.
    pub(crate) fn is_full(&self) -> bool {
        self.faults.len() >= FAULTS_MAX
    }

    /// Puts the faults into the order of the files' lines.
    pub(crate) fn sorted(mut self) -> Self {
        self.faults.sort_by_key(|fault| {
            (fault.source, fault.span.as_ref().map_or(usize::MAX, |span| span.start))
        });
        self
    }

    /// Returns the team file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the faults in the order of the lines, at most [`FAULTS_MAX`].
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns how many faults were found beyond [`FAULTS_MAX`].
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// Draws each fault with its line, a caret and what to do, for a terminal.
    pub fn render(&self, color: bool) -> String {
        let theme =
            if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(WIDTH).with_links(false);
        let sources = self.shown();
        let mut out = String::new();
        for fault in &self.faults {
            let shown = Shown { fault, source: snippet(&sources, fault) };
            if handler.render_report(&mut out, &shown).is_err() {
                out.extend([fault.to_string().as_str(), "\n"]);
            }
            if shown.source.is_none() {
                out.extend(["  at: ", &fault.place(), "\n"]);
            }
            out.push('\n');
        }
        out.push_str(&self.summary());
        out.push('\n');
        out
    }

    /// Returns the report as JSON: `{"file", "faults": [{"code", "message", "help", "file",
    /// "line", "column", "span"}], "omitted"}`.
    pub fn to_json(&self) -> Value {
        let faults: Vec<Value> = self.faults.iter().map(Fault::to_json).collect();
        json!({"file": self.file.display().to_string(), "faults": faults, "omitted": self.omitted})
    }

    fn summary(&self) -> String {
        let count = self.faults.len() + self.omitted;
        let noun = if count == 1 { "fault" } else { "faults" };
        let shown = match self.omitted {
            0 => String::new(),
            _ => format!(", {} shown", self.faults.len()),
        };
        format!("{}: {count} {noun}{shown}", self.file.display())
    }

    /// Returns the files as they may be drawn.
    fn shown(&self) -> Vec<Source> {
        let mut sources = self.sources.clone();
        if let Some(own) = sources.first_mut().filter(|_| !self.hidden.is_empty()) {
            own.text = blotted(&own.text, &self.hidden).into();
        }
        sources
    }
}

/// Returns the text that a fault points into, unless its line is too long to be drawn.
fn snippet(sources: &[Source], fault: &Fault) -> Option<NamedSource<Arc<str>>> {
    let source = sources.get(fault.source)?;
    let span = fault.span.as_ref()?;
    let start = source.text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let line = source.text.get(start..)?.lines().next().unwrap_or_default();
    let short = line.len() <= LINE_BYTES_MAX;
    short.then(|| NamedSource::new(source.file.display().to_string(), source.text.clone()))
}

impl Error for Report {}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n{fault}"))
    }
}

impl Fault {
    /// Returns `file`, `file:line:column` if the fault has a place.
    pub fn place(&self) -> String {
        let file = self.file.display();
        match (self.line, self.column) {
            (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
            _ => file.to_string(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "code": self.code,
            "message": self.message,
            "help": self.help,
            "file": self.file.display().to_string(),
            "line": self.line,
            "column": self.column,
            "span": self.span.as_ref().map(|span| json!({"start": span.start, "end": span.end})),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {} ({})", self.place(), self.code, self.message, self.help)
    }
}

/// A fault as the drawing library sees it.
#[derive(Debug)]
struct Shown<'a> {
    fault: &'a Fault,
    source: Option<NamedSource<Arc<str>>>,
}

impl Error for Shown<'_> {}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault.message)
    }
}

impl Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.fault.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.fault.help))
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        self.source.as_ref().map(|source| source as &dyn miette::SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.source.as_ref()?;
        let span = self.fault.span.clone()?;
        Some(Box::new(std::iter::once(LabeledSpan::underline(span))))
    }
}

/// Returns line and character of a byte of a text, both from 1.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    (line, before.get(start..).unwrap_or_default().chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_line_and_character() {
        let text = "a\nbé = 1\n";
        for (byte, expected) in
            [(0, (1, 1)), (2, (2, 1)), (5, (2, 3)), (9, (2, 7)), (10, (3, 1)), (99, (3, 1))]
        {
            assert_eq!(position(text, byte), expected, "{byte}");
        }
    }

    #[test]
    fn counts_what_it_does_not_show() {
        let mut report = Report::new(Path::new("t.toml"), "x");
        for number in 0..FAULTS_MAX + 5 {
            report.add(Some(0..1), format!("fault {number}"), "mend it");
        }
        assert_eq!((report.faults().len(), report.omitted()), (FAULTS_MAX, 5));
        assert!(report.to_string().starts_with("t.toml: 69 faults, 64 shown\n"));
    }

    #[test]
    fn shows_no_line_that_floods_the_terminal() {
        let text = "x".repeat(100_000);
        let mut report = Report::new(Path::new("t.toml"), &text);
        report.add(Some(5..6), "too long", "cut it");
        let drawn = report.render(false);
        assert!(drawn.len() < 1000 && drawn.contains("t.toml:1:6"), "{drawn}");
    }
}
