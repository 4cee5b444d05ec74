//! The databases of a team.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use tools::query::{DatabaseSpec, InitScript, SqliteSpec, Trial, TrialFault};
use wire::{ErrorCode, Name};

use super::Compiler;
use crate::bound::INIT_BYTES_MAX;
use crate::raw::{RawDatabase, RawDatabaseKind};

/// The databases that have no faults of their own, with what statements are compiled against.
pub(super) type Databases = BTreeMap<Name, (DatabaseSpec, Box<dyn Trial>)>;

impl Compiler<'_> {
    pub(super) fn databases(&mut self, raw: BTreeMap<String, RawDatabase>) -> Databases {
        let mut files = BTreeSet::new();
        let mut databases = Databases::new();
        for (name, raw) in self.named("databases", raw) {
            let path = ["databases", name.as_str()];
            let Some(spec) = self.database(&path, raw) else { continue };
            let DatabaseSpec::Sqlite(sqlite) = &spec;
            if !sqlite.read_only && !files.insert(sqlite.file.clone()) {
                let message = format!("the file of database `{name}` is that of another one");
                self.fault(&["databases", name.as_str(), "file"], message, "name another file");
                continue;
            }
            match spec.trial() {
                Ok(trial) => drop(databases.insert(name, (spec, trial))),
                Err(fault) => self.trial_fault(&path, sqlite, fault),
            }
        }
        databases
    }

    fn database(&mut self, path: &[&str; 2], raw: RawDatabase) -> Option<DatabaseSpec> {
        let [table, own] = *path;
        let read_only = raw.read_only.unwrap_or(false);
        let file = match (raw.file, read_only) {
            (Some(file), _) if file.trim().is_empty() => {
                self.fault(&[table, own, "file"], "`file` is empty", "write the database's file");
                return None;
            }
            (Some(file), true) => self.path_of(&file),
            (Some(file), false) => self.own_file(&[table, own, "file"], &file)?,
            (None, true) => {
                self.needed(
                    path,
                    "file",
                    None,
                    "the file that is there, relative to the team file",
                );
                return None;
            }
            (None, false) => PathBuf::from(format!("{own}.db")),
        };
        if read_only && raw.init.is_some() {
            self.fault_at_key(
                &[table, own, "init"],
                "a database that is only read cannot be filled",
                "remove `init` or `read_only`",
            );
            return None;
        }
        let init = match &raw.init {
            None => None,
            Some(file) => {
                let text = self.read(&[table, own, "init"], file, INIT_BYTES_MAX)?;
                Some(InitScript { file: self.path_of(file), text })
            }
        };
        match raw.kind {
            RawDatabaseKind::Sqlite => {
                Some(DatabaseSpec::Sqlite(SqliteSpec { file, read_only, init }))
            }
        }
    }

    /// Takes the file of a database that is written: one with a name of its own in the directory
    /// of the team's databases, or an absolute path.
    fn own_file(&mut self, path: &[&str], file: &str) -> Option<PathBuf> {
        let written = Path::new(file);
        let is_plain = written.components().all(|part| matches!(part, Component::Normal(_)));
        if is_plain || written.is_absolute() {
            return Some(written.to_owned());
        }
        let help = "write a name such as `films.db`, an absolute path, or `read_only = true`";
        self.fault(
            path,
            format!("file `{file}` leaves the directory of the team's databases"),
            help,
        );
        None
    }

    fn trial_fault(&mut self, path: &[&str; 2], sqlite: &SqliteSpec, fault: TrialFault) {
        let [table, own] = *path;
        match fault {
            TrialFault::Script { offset, message } => {
                let Some(InitScript { file, text }) = &sqlite.init else { return };
                let source = self.report.add_source(file, text);
                let end = |at: usize| text.get(at..).map_or(at, |rest| at + first_word(rest));
                let span = offset.map(|at| at..end(at));
                let message = format!("fill database `{own}`: {message}");
                let help = "change the script; it is run as a whole when the database is made";
                let code = ErrorCode::ConfigInvalid;
                self.report.add_in(source, code, span, message, help.to_owned());
            }
            TrialFault::File { message } => {
                let span = self.span(&[table, own, "file"]);
                let message = format!("database `{own}` cannot be read: {message}");
                let help = "check the file; paths are relative to the team file".to_owned();
                self.report.add_in(0, ErrorCode::FileUnreadable, span, message, help);
            }
        }
    }
}

/// Counts the bytes of the word at the beginning of a text, at least one character.
fn first_word(text: &str) -> usize {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    word.max(text.chars().next().map_or(0, char::len_utf8))
}
