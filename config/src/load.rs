//! Reads a team file and the files that it names.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::Deserialize as _;
use tools::cloudevent::types::EventTypes;
use tools::mcp::Catalog;
use wire::Name;

use crate::bound::{FILE_BYTES_MAX, INIT_BYTES_MAX, SCRIPT_BYTES_MAX};
use crate::compile::compile;
use crate::document::Document;
use crate::raw::RawFile;
use crate::report::Report;
use crate::schema::schema;
use crate::shape::Shape;
use crate::team::Team;

/// Bytes that are read of any file; each use has its own, smaller limit.
const READ_BYTES_MAX: usize = longer(FILE_BYTES_MAX, longer(SCRIPT_BYTES_MAX, INIT_BYTES_MAX));

const fn longer(one: usize, other: usize) -> usize {
    if one > other { one } else { other }
}

/// What the MCP servers of a team list, as far as that is known.
pub type Catalogs = BTreeMap<Name, Catalog>;

/// Reads a team file and the files that it names, and checks everything that can be checked.
///
/// Binds no port, calls nobody and resolves no secret. Statements are compiled against a database
/// in memory, or against one that is there and only read. What MCP servers list is not known here:
/// see [`load_with`].
pub fn load(path: &Path) -> Result<Team, Report> {
    load_with(path, &Catalogs::new())
}

/// Does what [`load`] does, with what MCP servers list.
pub fn load_with(path: &Path, catalogs: &Catalogs) -> Result<Team, Report> {
    match read(path) {
        Ok(text) => parse_on(path, &text, &read, &EventTypes::load, catalogs),
        Err(error) => Err(Report::unreadable(
            path,
            format!("the team file cannot be read: {error}"),
            "check the path and its permissions",
        )),
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
    parse_with(name_of_file, text, files, &Catalogs::new())
}

/// Does what [`parse`] does, with what MCP servers list.
pub fn parse_with(
    name_of_file: &Path,
    text: &str,
    files: &dyn Fn(&Path) -> io::Result<String>,
    catalogs: &Catalogs,
) -> Result<Team, Report> {
    let event_files = |path: &Path| {
        let mut found = EventTypes::default();
        found.add(path, &files(path)?);
        Ok(found)
    };
    parse_on(name_of_file, text, files, &event_files, catalogs)
}

fn parse_on(
    name_of_file: &Path,
    text: &str,
    files: &dyn Fn(&Path) -> io::Result<String>,
    event_files: &dyn Fn(&Path) -> io::Result<EventTypes>,
    catalogs: &Catalogs,
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
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(errors) => {
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
    let Some(value) = Shape::new(&schema(), &mut report).check(&document) else {
        return Err(report.sorted());
    };
    let team = match RawFile::deserialize(value) {
        Ok(raw) => compile(name_of_file, &document, raw, files, event_files, catalogs, &mut report),
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
