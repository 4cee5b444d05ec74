//! Finds the programs that a node starts commands by, and checks that they work.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Resource, getrlimit, getuid};
use wire::{ErrorCode, Name, WireError};

use super::process::Job;
use super::sandbox::{self, NOBODY, SCRATCH};
use super::{CommandSpec, EnvSource, Sandbox};
use crate::output::excerpt;

/// Where programs are looked for unless the team file sets `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The oldest bubblewrap that can forbid further user namespaces.
const BWRAP_VERSION_MIN: (u32, u32) = (0, 8);

/// The last of the files that every program is given.
const STDERR: i32 = 2;

/// The exit code by which the trial says that there is no such program.
const NO_PROGRAM: i32 = 43;

/// Looks for a program as `execvp` does, and starts nothing.
const TRIAL: &str = r#"
is_program() { [ -f "$1" ] && [ -x "$1" ]; }
case $1 in
*/*) is_program "$1" || exit 43 ;;
*)
    IFS=:
    for folder in $PATH; do is_program "$folder/$1" && exit 0; done
    exit 43
    ;;
esac
"#;

const INSTALL: &str = "install bubblewrap 0.8 or newer (apt-get install bubblewrap, dnf install \
                       bubblewrap, apk add bubblewrap), or write `sandbox = \"none\"` to let the \
                       program see all that the daemon sees";

/// The programs by which a node starts commands, and what no command may see.
#[derive(Clone, Debug, Default)]
pub struct Launcher {
    bwrap: Option<PathBuf>,
    prlimit: Option<PathBuf>,
    hidden: Vec<PathBuf>,
}

/// How the program of one tool is started.
#[derive(Debug)]
pub(super) struct Start {
    /// The first program to start, its arguments up to those of the command, and which it is.
    first: PathBuf,
    prefix: Vec<OsString>,
    program: OsString,
    user: Option<u32>,
    workdir: Option<PathBuf>,
    is_sandbox: bool,
}

impl Launcher {
    /// Looks for the programs in the folders of `path`, which is written like `PATH`, and then where
    /// systems have them. No command may see `hidden`, such as the data directory.
    ///
    /// From here on the children of this process get none of the files that it was itself given
    /// open by its parent, but for the standard ones.
    pub fn find(path: Option<&OsStr>, hidden: &Path) -> Self {
        let path = path.unwrap_or_default();
        let found = |name: &str| {
            let folders = std::env::split_paths(path).chain(std::env::split_paths(PATH));
            folders.map(|folder| folder.join(name)).find(|file| file.is_file())
        };
        let hidden = std::fs::canonicalize(hidden).into_iter().collect();
        // What a parent of the daemon left open would be open to programs too, even in a sandbox.
        close_fds::set_fds_cloexec_threadsafe(STDERR + 1, &[]);
        Self { bwrap: found("bwrap"), prlimit: found("prlimit"), hidden }
    }

    /// Checks that a command can be started as its team file wants it, without starting it. Blocks.
    pub fn check(&self, tool: &Name, spec: &CommandSpec) -> Result<(), WireError> {
        let failed = |code, why: String| WireError::new(code, format!("tool {tool}: {why}"));
        if spec.sandbox != Sandbox::None {
            self.check_version().map_err(|why| failed(ErrorCode::SandboxUnavailable, why))?;
        }
        let start = self.start(spec).map_err(|why| failed(ErrorCode::ConfigInvalid, why))?;
        let scratch = start.scratch().map_err(|error| {
            failed(ErrorCode::FileUnreadable, format!("make a folder for it: {error}"))
        })?;
        let mut trial = Command::new(&start.first);
        trial.args(&start.prefix).args(["/bin/sh", "-c", TRIAL, "sh"]).arg(&start.program);
        trial.env_clear().envs(start.env(scratch.as_ref().map(tempfile::TempDir::path)));
        trial.envs(spec.env.iter().filter_map(|(name, source)| match source {
            EnvSource::Text(text) => Some((name, text)),
            EnvSource::Secret { .. } => None,
        }));
        trial.current_dir(start.folder(scratch.as_ref().map(tempfile::TempDir::path)));
        trial.stdin(Stdio::null());
        if let Some(user) = start.user {
            std::os::unix::process::CommandExt::gid(&mut trial, user);
            std::os::unix::process::CommandExt::uid(&mut trial, user);
        }
        let tried = trial.output().map_err(|error| {
            let first = start.first.display();
            failed(ErrorCode::SandboxUnavailable, format!("start {first}: {error}"))
        })?;
        let said = String::from_utf8_lossy(&tried.stderr);
        match tried.status.code() {
            Some(0) => Ok(()),
            Some(NO_PROGRAM) => Err(failed(ErrorCode::ConfigInvalid, start.missing())),
            _ => Err(failed(ErrorCode::SandboxUnavailable, start.refused(excerpt(said.trim())))),
        }
    }

    fn check_version(&self) -> Result<(), String> {
        let Some(bwrap) = &self.bwrap else {
            return Err(format!("bwrap, which makes its sandbox, is not there; {INSTALL}"));
        };
        let shown = bwrap.display();
        let output = Command::new(bwrap)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("start {shown}: {error}; {INSTALL}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match version(&text) {
            Some(version) if version >= BWRAP_VERSION_MIN => Ok(()),
            Some(_) => Err(format!("{shown} is too old ({}); {INSTALL}", text.trim())),
            None => Err(format!("{shown} does not tell its version; {INSTALL}")),
        }
    }

    /// Works out how the program of a tool is started.
    pub(super) fn start(&self, spec: &CommandSpec) -> Result<Start, String> {
        let name = spec.argv.first().map(String::as_str).unwrap_or_default();
        let canonical = |path: &PathBuf| {
            std::fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let program = spec.program.as_ref().map(&canonical).transpose()?;
        let workdir = spec.workdir.as_ref().map(&canonical).transpose()?;
        let prlimit = self.prlimit.as_ref().ok_or(
            "prlimit, which limits what it uses, is not there; install util-linux".to_owned(),
        )?;
        let mut prefix: Vec<OsString> = vec![prlimit.into()];
        prefix.extend(limits(spec).into_iter().map(OsString::from));
        let (first, is_sandbox) = match &spec.sandbox {
            Sandbox::None => (prlimit.clone(), false),
            Sandbox::Bubblewrap { read, write, .. } => {
                let bwrap = self.bwrap.clone();
                let bwrap = bwrap.ok_or_else(|| format!("bwrap is not there; {INSTALL}"))?;
                let mut read = read.clone();
                read.extend(program.iter().filter(|path| !path.starts_with("/usr")).cloned());
                let write: Vec<&PathBuf> = write.iter().chain(&workdir).collect();
                let opened = sandbox::opened(&read, &write, &self.hidden)?;
                let folder = workdir.as_deref().unwrap_or(Path::new(SCRATCH));
                let arguments =
                    sandbox::arguments(&spec.sandbox, &spec.limits, &opened, &self.hidden, folder);
                prefix.splice(0..0, arguments);
                (bwrap, true)
            }
        };
        if !is_sandbox {
            prefix.remove(0);
        }
        let program = program.map_or_else(|| name.into(), PathBuf::into_os_string);
        let user = (is_sandbox && getuid().is_root()).then_some(NOBODY);
        Ok(Start { first, prefix, program, user, workdir, is_sandbox })
    }
}

/// Returns the options that limit what each process may use.
fn limits(spec: &CommandSpec) -> Vec<String> {
    let limits = &spec.limits;
    let bounded = |name: &str, resource, wanted: u64| {
        // What is less already cannot be raised, and need not be.
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        format!("--{name}={}", wanted.min(most))
    };
    let mut options = vec![
        "--core=0".to_owned(),
        bounded("data", Resource::Data, limits.memory_bytes),
        bounded("nofile", Resource::Nofile, limits.open_files),
        bounded("fsize", Resource::Fsize, limits.file_bytes),
    ];
    // Outside of a sandbox all processes of the user would count.
    if spec.sandbox != Sandbox::None {
        options.push(bounded("nproc", Resource::Nproc, limits.processes));
    }
    options.push("--".to_owned());
    options
}

impl Start {
    pub(super) fn program(&self) -> std::path::Display<'_> {
        Path::new(&self.program).display()
    }

    /// Makes the job of one call.
    pub(super) fn job(
        &self,
        argv: Vec<String>,
        env: Vec<(OsString, OsString)>,
        stdin: Vec<u8>,
        spec: &CommandSpec,
    ) -> io::Result<Job> {
        let scratch = self.scratch()?;
        let at = scratch.as_ref().map(tempfile::TempDir::path);
        let mut all = self.env(at);
        all.extend(env);
        let mut arguments = self.prefix.clone();
        arguments.push(self.program.clone());
        arguments.extend(argv.into_iter().map(OsString::from));
        Ok(Job {
            program: self.first.clone(),
            arguments,
            env: all,
            user: self.user,
            folder: self.folder(at),
            scratch,
            stdin,
            bytes_max: spec.response_bytes_max,
            is_sandbox: self.is_sandbox,
        })
    }

    /// Makes the folder of a call where no sandbox has one.
    fn scratch(&self) -> io::Result<Option<tempfile::TempDir>> {
        let needed = !self.is_sandbox && self.workdir.is_none();
        needed.then(|| tempfile::Builder::new().prefix("callboard-call-").tempdir()).transpose()
    }

    /// Returns the folder in which the first program is started.
    fn folder(&self, scratch: Option<&Path>) -> PathBuf {
        let own = if self.is_sandbox { None } else { self.workdir.as_deref() };
        scratch.or(own).unwrap_or(Path::new("/")).to_owned()
    }

    /// Returns the variables that every program gets.
    fn env(&self, scratch: Option<&Path>) -> Vec<(OsString, OsString)> {
        let home = self.workdir.as_deref().or(scratch).unwrap_or(Path::new(SCRATCH));
        let temporary = scratch.unwrap_or(Path::new(SCRATCH));
        let pair = |name: &str, value: &OsStr| (OsString::from(name), value.to_owned());
        vec![
            pair("PATH", PATH.as_ref()),
            pair("LANG", "C.UTF-8".as_ref()),
            pair("HOME", home.as_os_str()),
            pair("TMPDIR", temporary.as_os_str()),
        ]
    }

    fn missing(&self) -> String {
        let (program, place) =
            (self.program(), if self.is_sandbox { " in its sandbox" } else { "" });
        format!(
            "there is no program {program}{place}; programs are looked for in {PATH}, and one of \
             the team is named by a path such as `./{program}`"
        )
    }

    fn refused(&self, said: &str) -> String {
        if !self.is_sandbox {
            return format!("it cannot be started: {said}");
        }
        let user = match self.user {
            Some(_) => {
                "; the daemon is root, so that the sandbox is made by the user nobody, who has to \
                 be able to reach what is opened to it"
            }
            None => "",
        };
        format!(
            "its sandbox cannot be made: {said}{user}. In a container or under AppArmor user \
             namespaces may be forbidden: allow them (sysctl user.max_user_namespaces, \
             kernel.apparmor_restrict_unprivileged_userns=0), or write `sandbox = \"none\"`"
        )
    }
}

/// Reads the version out of `bubblewrap 0.8.0`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().nth(1)?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_read() {
        let cases = [
            ("bubblewrap 0.8.0\n", Some((0, 8))),
            ("bubblewrap 0.11.1", Some((0, 11))),
            ("bubblewrap 1.0", Some((1, 0))),
            ("bubblewrap", None),
            ("", None),
            ("bubblewrap x.y", None),
        ];
        for (text, expected) in cases {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
