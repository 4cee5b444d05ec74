//! Gives what root made in the data directory of another user to that user, who could not go on with
//! it: a look as root at the data of a daemon that is away would keep the daemon from starting.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Uid, fchown, fstat, openat};
use rustix::process::geteuid;
use tracing::warn;

/// How deep a data directory is looked into; what is made there is at most six deep.
const DEPTH_MAX: u32 = 16;

/// Gives all that is root's in a directory to the owner of the directory, if this process is root and
/// the owner is not. A directory that root made below one of another user becomes that user's first.
/// What cannot be given away stays root's, and is told of. Blocks on the disk.
///
/// The owner may change what is there meanwhile. So no link is followed, and what has further names,
/// which may be outside, stays root's.
pub fn hand_back(dir: &Path) {
    if geteuid().is_root()
        && let Err(error) = give_to_owner(dir)
    {
        warn!(dir = %dir.display(), %error, "what root made here stays root's");
    }
}

fn give_to_owner(dir: &Path) -> io::Result<()> {
    let dir = openat(CWD, dir, FLAGS | OFlags::DIRECTORY, Mode::empty())?;
    let owner = |dir: &OwnedFd| -> io::Result<(Uid, Gid)> {
        let Stat { st_uid, st_gid, .. } = fstat(dir)?;
        Ok((Uid::from_raw(st_uid), Gid::from_raw(st_gid)))
    };
    let (mut user, mut group) = owner(&dir)?;
    if user.is_root() {
        (user, group) = owner(&openat(&dir, "..", FLAGS | OFlags::DIRECTORY, Mode::empty())?)?;
        if user.is_root() {
            return Ok(());
        }
        fchown(&dir, Some(user), Some(group))?;
    }
    give(&dir, user, group, DEPTH_MAX)
}

/// What is opened is not read, and may be a pipe, whose opening would wait for somebody.
const FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

fn give(dir: &OwnedFd, user: Uid, group: Gid, depth: u32) -> io::Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        // A link, or gone by now.
        let Ok(file) = openat(dir.as_fd(), entry.file_name(), FLAGS, Mode::empty()) else {
            continue;
        };
        let Stat { st_uid, st_nlink, st_mode, .. } = fstat(&file)?;
        let is_ours = match FileType::from_raw_mode(st_mode) {
            FileType::Directory => {
                if let Some(depth) = depth.checked_sub(1) {
                    give(&file, user, group, depth)?;
                }
                true
            }
            FileType::RegularFile => st_nlink == 1,
            _ => false,
        };
        if is_ours && st_uid == Uid::ROOT.as_raw() {
            fchown(&file, Some(user), Some(group))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, chown, symlink};

    use wire::Timestamp;

    use super::*;
    use crate::lock::{DataLock, Holder};

    #[test]
    fn what_root_made_is_the_owners_once_the_lock_is_let_go_of() {
        // Nobody else can make what is another user's.
        if !geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let (data, outside) = (root.path().join("data"), root.path().join("outside"));
        for dir in [&data, &data.join("deep/deeper"), &outside] {
            fs::create_dir_all(dir).unwrap();
        }
        for file in
            ["data/file", "data/deep/deeper/file", "data/another's", "outside/a", "outside/b"]
        {
            fs::write(root.path().join(file), "x").unwrap();
        }
        symlink(&outside, data.join("link")).unwrap();
        fs::hard_link(outside.join("b"), data.join("hard")).unwrap();
        chown(data.join("another's"), Some(7), Some(7)).unwrap();
        let owners = || {
            let names = [
                "data/file",
                "data/deep",
                "data/deep/deeper/file",
                "data/lock",
                "data/another's",
                "data/hard",
                "outside",
                "outside/a",
            ];
            names.map(|name| fs::metadata(root.path().join(name)).unwrap().uid())
        };
        let holder = Holder::this_process("test", Timestamp::from_micros(0));
        drop(DataLock::acquire(&data, &holder).unwrap());
        assert_eq!(owners(), [0, 0, 0, 0, 7, 0, 0, 0], "root's own data stays root's");
        chown(&data, Some(8), Some(9)).unwrap();
        drop(DataLock::acquire(&data, &holder).unwrap());
        assert_eq!(owners(), [8, 8, 8, 8, 7, 0, 0, 0]);
        assert_eq!(fs::metadata(data.join("file")).unwrap().gid(), 9);

        let team = data.join("new");
        fs::create_dir_all(team.join("mcp")).unwrap();
        hand_back(&team);
        for made in [&team, &team.join("mcp")] {
            assert_eq!(fs::metadata(made).unwrap().uid(), 8, "{}", made.display());
        }
    }
}
