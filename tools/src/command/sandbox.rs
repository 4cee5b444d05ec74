//! What a program sees of the machine: the arguments of bubblewrap.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Limits, Sandbox};

/// The folder of a call that has no other, which is gone with its last process.
pub(super) const SCRATCH: &str = "/tmp";

/// The user and the group as whom programs run in the sandbox, and outside of it where the daemon
/// is root: nobody.
pub(super) const NOBODY: u32 = 65_534;

/// What no path may open or hide: the folders that the sandbox fills by itself.
const OWN: [&str; 4] = ["/", "/proc", "/dev", "/sys"];

/// Programs and libraries. Where these are links, as on most systems, they stay links.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// What programs need of the settings of the machine to start and to know the time.
const SETTINGS: [&str; 6] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/mime.types",
];

/// What programs need to speak to servers.
const NETWORK_SETTINGS: [&str; 8] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/gai.conf",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
];

/// A path in the sandbox, the same as outside of it.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) writable: bool,
}

/// Finds the real paths of what is opened to a program.
///
/// `hidden` is what no program may see; a path within it is refused.
pub(super) fn opened(
    read: &[PathBuf],
    write: &[&PathBuf],
    hidden: &[PathBuf],
) -> Result<Vec<Opened>, String> {
    let mut all = Vec::new();
    let read = read.iter().map(|path| (path, false));
    for (path, writable) in read.chain(write.iter().map(|path| (*path, true))) {
        let found = std::fs::canonicalize(path)
            .map_err(|error| format!("{} cannot be opened to it: {error}", path.display()))?;
        if OWN.iter().any(|own| found == Path::new(own) || is_below_own(&found, own)) {
            return Err(format!(
                "{} cannot be opened to it, since the sandbox has one of its own; name what is \
                 needed in it",
                path.display()
            ));
        }
        if hidden.iter().any(|hidden| found.starts_with(hidden)) {
            return Err(format!("{} belongs to the daemon alone", path.display()));
        }
        all.push(Opened { path: found, writable });
    }
    // What is opened for writing within what is opened for reading comes after it.
    all.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(all)
}

fn is_below_own(path: &Path, own: &str) -> bool {
    own != "/" && path.starts_with(own)
}

/// Returns the arguments of bubblewrap for one tool, up to the program.
pub(super) fn arguments(
    sandbox: &Sandbox,
    limits: &Limits,
    opened: &[Opened],
    hidden: &[PathBuf],
    workdir: &Path,
) -> Vec<OsString> {
    let Sandbox::Bubblewrap { network, .. } = sandbox else { return Vec::new() };
    let mut list = List::default();
    list.add(&["--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc"]);
    list.add(&["--unshare-uts", "--unshare-cgroup-try", "--hostname", "callboard"]);
    if !network {
        list.add(&["--unshare-net"]);
    }
    let nobody = NOBODY.to_string();
    list.add(&["--uid", &nobody, "--gid", &nobody, "--cap-drop", "ALL"]);
    list.add(&["--die-with-parent", "--new-session"]);
    list.system();
    let network_settings = NETWORK_SETTINGS.into_iter().filter(|_| *network);
    for path in SETTINGS.into_iter().chain(network_settings) {
        list.bind("--ro-bind-try", Path::new(path));
    }
    let size = limits.file_bytes.to_string();
    list.add(&["--proc", "/proc", "--dev", "/dev"]);
    list.add(&["--size", &size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
    list.add(&["--size", &size, "--tmpfs", SCRATCH]);
    for Opened { path, writable } in opened {
        list.bind(if *writable { "--bind" } else { "--ro-bind" }, path);
    }
    for path in hidden {
        list.hide(path);
    }
    list.add(&["--remount-ro", "/", "--chdir"]);
    list.arguments.push(workdir.into());
    list.add(&["--"]);
    list.arguments
}

/// The arguments, and what of the machine they open.
#[derive(Default)]
struct List {
    arguments: Vec<OsString>,
    bound: Vec<PathBuf>,
}

impl List {
    fn add(&mut self, texts: &[&str]) {
        self.arguments.extend(texts.iter().map(OsString::from));
    }

    /// Opens a path of the machine.
    fn bind(&mut self, how: &str, path: &Path) {
        self.arguments.extend([OsString::from(how), path.into(), path.into()]);
        self.bound.push(path.to_owned());
    }

    /// Puts an empty folder in the place of one that lies within what was opened so far.
    fn hide(&mut self, path: &Path) {
        if self.bound.iter().any(|bound| path.starts_with(bound)) {
            self.arguments.extend(["--tmpfs".into(), path.into()]);
            self.arguments.extend(["--remount-ro".into(), path.into()]);
        }
    }

    fn system(&mut self) {
        self.bind("--ro-bind", Path::new("/usr"));
        for folder in SYSTEM {
            match std::fs::read_link(folder) {
                Ok(target) => {
                    self.add(&["--symlink"]);
                    self.arguments.push(target.into());
                    self.add(&[folder]);
                }
                Err(_) => self.bind("--ro-bind-try", Path::new(folder)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_covered_wherever_it_lies_in_what_is_seen() {
        let sandbox = |network| {
            let (read, write) = (Vec::new(), Vec::new());
            Sandbox::Bubblewrap { network, read, write }
        };
        let limits = Limits { memory_bytes: 1, processes: 1, open_files: 1, file_bytes: 1 };
        // The hidden folder, what is opened, whether there is the network, and whether it is seen.
        for (hidden, opened, network, is_covered) in [
            ("/usr/local/var/x", None, false, true),
            ("/srv/data", None, false, false),
            ("/srv/data", Some("/srv"), false, true),
            ("/srv/data", Some("/srv/other"), false, false),
            ("/usr2/data", None, false, false),
            ("/etc/ssl/data", None, false, false),
            ("/etc/ssl/data", None, true, true),
        ] {
            let opened: Vec<Opened> =
                opened.iter().map(|path| Opened { path: path.into(), writable: true }).collect();
            let paths = [PathBuf::from(hidden)];
            let list = arguments(&sandbox(network), &limits, &opened, &paths, Path::new("/tmp"));
            let at = |words: [&str; 2]| list.windows(2).position(|pair| pair == words);
            let (covered, kept) = (at(["--tmpfs", hidden]), at(["--remount-ro", hidden]));
            assert_eq!((covered.is_some(), kept.is_some()), (is_covered, is_covered), "{hidden}");
            let last_bind = list.iter().rposition(|word| word.to_string_lossy().contains("-bind"));
            assert!(covered.is_none_or(|covered| Some(covered) > last_bind), "{hidden}");
        }
    }
}
