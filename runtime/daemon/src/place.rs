//! Where data is: one directory per team below the data directory.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use journal::{DataLock, Holder};
use node::team_dir;
use secrecy::SecretString;
use tools::SecretRef;
use wire::{ErrorCode, Name};

use crate::failure::Failure;

/// The most team directories that are looked through.
const TEAMS_MAX: usize = 1_000;

/// The data directory, and what opens the doors of the daemons that hold it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    named: bool,
    token: TokenPlace,
}

impl Place {
    /// Takes the directory that was named, or the platform's.
    pub(crate) fn new(named: Option<&Path>) -> Result<Self, Failure> {
        if let Some(dir) = named {
            return Ok(Self { dir: dir.to_owned(), named: true, token: TokenPlace::default() });
        }
        let dir = platform_dir(env::consts::OS, |name| env::var_os(name)).ok_or_else(|| {
            let text = "find the data directory: neither XDG_DATA_HOME nor HOME is set; name one \
                        with --data";
            Failure::new(ErrorCode::BadRequest, text)
        })?;
        Ok(Self { dir, named: false, token: TokenPlace::default() })
    }

    /// Says where the token of the HTTP doors stands, if not where it does by default.
    pub(crate) fn with_token_file(self, file: Option<&Path>) -> Self {
        Self { token: TokenPlace(file.map(Path::to_owned)), ..self }
    }

    /// Reads the token of the HTTP doors; `None` if there is none.
    pub(crate) fn token(&self) -> Result<Option<SecretString>, Failure> {
        let secret = match &self.token.0 {
            Some(file) => SecretRef::File(file.clone()),
            None if env::var_os(TOKEN_VARIABLE).is_none_or(|token| token.is_empty()) => {
                return Ok(None);
            }
            None => SecretRef::Env(TOKEN_VARIABLE.to_owned()),
        };
        Ok(Some(secret.resolve()?))
    }

    /// Returns the data directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the option that leads others to the same directory; empty where they find it.
    pub(crate) fn option(&self) -> String {
        let from_env = env::var_os("CALLBOARD_DATA").is_some_and(|dir| Path::new(&dir) == self.dir);
        if self.named && !from_env {
            format!(" --data {}", self.dir.display())
        } else {
            String::new()
        }
    }

    /// Returns the one team that was named, or all that have data, by name. Fails where it cannot be
    /// seen which these are: a directory that may not be read is not an empty one.
    pub(crate) fn teams(&self, named: Option<&Name>) -> Result<Vec<Name>, Failure> {
        if let Some(team) = named {
            if self.has_data(team)? {
                return Ok(vec![team.clone()]);
            }
            let text = format!("team {team} has no data in {}", self.dir.display());
            return Err(Failure::new(ErrorCode::BadRequest, text));
        }
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&self.dir, &error)),
        };
        let mut teams = Vec::new();
        for entry in entries.take(TEAMS_MAX) {
            let entry = entry.map_err(|error| unreadable(&self.dir, &error))?;
            if let Some(team) = entry.file_name().to_str().and_then(|name| Name::new(name).ok())
                && self.has_data(&team)?
            {
                teams.push(team);
            }
        }
        teams.sort();
        Ok(teams)
    }

    fn has_data(&self, team: &Name) -> Result<bool, Failure> {
        let lock = team_dir(&self.dir, team).join("lock");
        match fs::metadata(&lock) {
            Ok(metadata) => Ok(metadata.is_file()),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(false)
            }
            Err(error) => Err(unreadable(&lock, &error)),
        }
    }

    /// Returns when the data of a team was last taken by somebody, who may hold it still.
    pub(crate) fn taken(&self, team: &Name) -> Option<SystemTime> {
        fs::metadata(team_dir(&self.dir, team).join("lock")).ok()?.modified().ok()
    }

    /// Returns who holds the data of a team. Who only takes a look does not count: he can be asked
    /// nothing, and whoever wants the data waits for him.
    pub(crate) fn holder(&self, team: &Name) -> Result<Option<Holder>, Failure> {
        let holder = DataLock::holder(&team_dir(&self.dir, team))?;
        Ok(holder.filter(|holder| !holder.is_brief))
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let help = match error.kind() {
        ErrorKind::PermissionDenied => {
            "; data is for the user alone whose daemon writes it, so ask as that one"
        }
        _ => "",
    };
    Failure::new(ErrorCode::StorageFailed, format!("read {}: {error}{help}", path.display()))
}

/// Where the token of the HTTP doors stands: in a file, or else in [`TOKEN_VARIABLE`].
#[derive(Clone, Debug, Default)]
struct TokenPlace(Option<PathBuf>);

/// The environment variable with the token of the HTTP doors.
const TOKEN_VARIABLE: &str = "CALLBOARD_TOKEN";

/// Names this process to those who find a directory in use.
pub(crate) fn holder(verb: &str) -> Holder {
    Holder::this_process(format!("callboard {verb}"), node::now())
}

/// Names this process to those who find a directory in use while it takes a look.
pub(crate) fn looker() -> Holder {
    Holder { is_brief: true, ..holder("look-up") }
}

/// Returns the directory that a platform has for the data of programs.
fn platform_dir(os: &str, env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = match os {
        "macos" => set("HOME")?.join("Library/Application Support"),
        _ => match set("XDG_DATA_HOME").filter(|dir| dir.is_absolute()) {
            Some(dir) => dir,
            None => set("HOME")?.join(".local/share"),
        },
    };
    Some(base.join("callboard"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_platform_has_its_directory() {
        let (xdg, home) = (("XDG_DATA_HOME", "/x"), ("HOME", "/h"));
        let none: &[(&str, &str)] = &[];
        let cases = [
            ("linux", &[xdg, home][..], Some("/x/callboard")),
            ("linux", &[home], Some("/h/.local/share/callboard")),
            ("linux", &[("XDG_DATA_HOME", ""), home], Some("/h/.local/share/callboard")),
            ("linux", &[("XDG_DATA_HOME", "relative"), home], Some("/h/.local/share/callboard")),
            ("linux", none, None),
            ("macos", &[xdg, home], Some("/h/Library/Application Support/callboard")),
        ];
        for (os, env, expected) in cases {
            let get = |name: &str| {
                env.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(platform_dir(os, get).as_deref(), expected.map(Path::new), "{os} {env:?}");
        }
    }

    #[test]
    fn teams_are_the_directories_that_were_locked_once() {
        let root = tempfile::tempdir().unwrap();
        let place = Place::new(Some(root.path())).unwrap();
        for team in ["b", "a"] {
            drop(DataLock::acquire(&root.path().join(team), &holder("run")).unwrap());
        }
        fs::create_dir(root.path().join("other")).unwrap();
        let names: Vec<String> =
            place.teams(None).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a", "b"]);
        let other = Name::new("other").unwrap();
        assert!(place.teams(Some(&other)).is_err());
        let missing = Place::new(Some(&root.path().join("missing"))).unwrap();
        assert_eq!(missing.teams(None).unwrap(), []);
        // What cannot be read as a directory is not an empty one.
        let file = root.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(Place::new(Some(&file)).unwrap().teams(None).is_err());
    }
}
