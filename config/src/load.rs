//! Reads a team file and the files that it names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize as _;
use tools::cloudevent::types::EventTypes;

use crate::bound::{FILE_BYTES_MAX, INIT_BYTES_MAX, SCRIPT_BYTES_MAX};
use crate::compile::compile;
use crate::document::Document;
use crate::raw::RawFile;
use crate::report::Report;
use crate::schema::schema;
use crate::secrecy::places_in_text;
use crate::shape::Shape;
use crate::sources::Sources;
use crate::team::Team;

/// Bytes that are read of any file; each use has its own, smaller limit.
const READ_BYTES_MAX: usize = longer(
    longer(FILE_BYTES_MAX, tools::openapi::FILE_BYTES_MAX),
    longer(SCRIPT_BYTES_MAX, INIT_BYTES_MAX),
);

const fn longer(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// Reads a team file and the files that it names, and checks everything that can be checked.
///
/// Binds no port, calls nobody and resolves no secret. Statements are compiled against a database
/// in memory, or against one that is there and only read. What others say of their tools is not
/// known here: see [`TeamText`].
pub fn load(path: &Path) -> Result<Team, Report> {
    TeamText::read(path)?.compile(&Sources::default())
}

/// The text of a team, and of the files that it names as they were when it was first compiled.
#[derive(Debug)]
pub struct TeamText {
    path: PathBuf,
    text: String,
    files: Mutex<BTreeMap<PathBuf, Content>>,
}

/// What was read of a file, or the kind of error and what it says.
type Content = Result<String, (io::ErrorKind, String)>;

impl TeamText {
    /// Reads a team file.
    pub fn read(path: &Path) -> Result<Self, Report> {
        let text = read(path).map_err(|error| {
            Report::unreadable(
                path,
                format!("the team file cannot be read: {error}"),
                "check the path and its permissions",
            )
        })?;
        Ok(Self { path: path.to_owned(), text, files: Mutex::default() })
    }

    /// Makes the team of the text and of what others say of their tools.
    ///
    /// Every file that the text names is read once, so that the same sources always make the same
    /// team, whatever is written to the files meanwhile.
    pub fn compile(&self, sources: &Sources) -> Result<Team, Report> {
        let files = |path: &Path| {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            let known = files
                .entry(path.to_owned())
                .or_insert_with(|| read(path).map_err(|error| (error.kind(), error.to_string())));
            known.clone().map_err(|(kind, text)| io::Error::new(kind, text))
        };
        parse_on(&self.path, &self.text, &files, &EventTypes::load, sources)
    }
}

/// Checks the text of a team file; the files that it names are read by `files`.
///
/// Paths in the text are taken relative to the folder of `name_of_file`, whose stem is the team's
/// name unless the text says another.
pub fn parse(
    name_of_file: &Path,
    text: &str,
    files: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Team, Report> {
    parse_with(name_of_file, text, files, &Sources::default())
}

/// Does what [`parse`] does, with what others say of their tools.
pub fn parse_with(
    name_of_file: &Path,
    text: &str,
    files: &dyn Fn(&Path) -> io::Result<String>,
    sources: &Sources,
) -> Result<Team, Report> {
    let event_files = |path: &Path| {
        let mut found = EventTypes::default();
        found.add(path, &files(path)?);
        Ok(found)
    };
    parse_on(name_of_file, text, files, &event_files, sources)
}

fn parse_on(
    name_of_file: &Path,
    text: &str,
    files: &dyn Fn(&Path) -> io::Result<String>,
    event_files: &dyn Fn(&Path) -> io::Result<EventTypes>,
    sources: &Sources,
) -> Result<Team, Report> {
    let mut report = Report::new(name_of_file, "");
    if text.len() > FILE_BYTES_MAX {
        report.add(
            None,
            format!("the team file has {} bytes, at most {FILE_BYTES_MAX} are read", text.len()),
            "move long texts into files of their own: `instructions_file`, `script`",
        );
        return Err(report);
    }
    report = Report::new(name_of_file, text);
    let mut document = match Document::parse(text) {
        Ok(document) => document,
        Err(errors) => {
            report.hide(places_in_text(text));
            for error in errors {
                report.add(
                    error.span(),
                    error.message(),
                    "see https://toml.io for how TOML is written",
                );
            }
            return Err(report);
        }
    };
    let Some(value) = Shape::new(&schema(), &mut report).check(&mut document) else {
        return Err(report.sorted());
    };
    let team = match RawFile::deserialize(value) {
        Ok(raw) => compile(name_of_file, &document, raw, files, event_files, sources, &mut report),
        Err(error) => {
            // The shape comes from the same structs, so that nothing is left to refuse here.
            report.add(None, format!("read the team file: {error}"), "report this as a bug");
            None
        }
    };
    match team {
        Some(team) if report.is_empty() => Ok(team),
        _ => Err(report.sorted()),
    }
}

fn read(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = String::new();
    let limit = u64::try_from(READ_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(limit).read_to_string(&mut text)?;
    Ok(text)
}
