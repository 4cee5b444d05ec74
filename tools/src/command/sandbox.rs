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
    let mut list = List(Vec::new());
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
        list.add(&["--ro-bind-try", path, path]);
    }
    let size = limits.file_bytes.to_string();
    list.add(&["--proc", "/proc", "--dev", "/dev"]);
    list.add(&["--size", &size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
    list.add(&["--size", &size, "--tmpfs", SCRATCH]);
    for Opened { path, writable } in opened {
        list.bind(if *writable { "--bind" } else { "--ro-bind" }, path);
    }
    for path in hidden.iter().filter(|path| opened.iter().any(|open| path.starts_with(&open.path)))
    {
        list.add(&["--tmpfs"]);
        list.0.push(path.into());
        list.add(&["--remount-ro"]);
        list.0.push(path.into());
    }
    list.add(&["--remount-ro", "/", "--chdir"]);
    list.0.push(workdir.into());
    list.add(&["--"]);
    list.0
}

struct List(Vec<OsString>);

impl List {
    fn add(&mut self, texts: &[&str]) {
        self.0.extend(texts.iter().map(OsString::from));
    }

    fn bind(&mut self, how: &str, path: &Path) {
        self.0.extend([OsString::from(how), path.into(), path.into()]);
    }

    fn system(&mut self) {
        self.add(&["--ro-bind", "/usr", "/usr"]);
        for folder in SYSTEM {
            match std::fs::read_link(folder) {
                Ok(target) => {
                    self.add(&["--symlink"]);
                    self.0.push(target.into());
                    self.add(&[folder]);
                }
                Err(_) => self.add(&["--ro-bind-try", folder, folder]),
            }
        }
    }
}
