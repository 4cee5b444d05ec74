//! Reads the command line.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};

use super::Line;

impl Line {
    /// Reads the command line of the process; ends it with what is wrong, or with the help.
    pub(crate) fn read() -> Self {
        Self::read_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn read_from(
        args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(args)?;
        // A rule of clap would take `CALLBOARD_NATS` for an option that was written, so that
        // `--url` could not be used where it is set.
        let verb = innermost(&matches);
        if is_written(verb, "url_http") && is_written(verb, "url") {
            let text = "the argument '--url <HTTP>' cannot be used with '--nats <URL>'";
            return Err(command.error(ErrorKind::ArgumentConflict, text));
        }
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, below)| innermost(below))
}

fn is_written(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).is_ok_and(|is_there| is_there)
        && matches.value_source(id) == Some(ValueSource::CommandLine)
}
