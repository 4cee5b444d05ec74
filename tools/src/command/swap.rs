//! Finds paths in whose place a command could put a link before another one opens them.
//!
//! A sandbox is made anew for every call, and what is opened to it is looked up as the daemon sees
//! the machine. So nothing that is opened may lie in a folder that the program of a command writes.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Component, Path, PathBuf};

use wire::{ErrorCode, WireError};

use super::{CommandSpec, Sandbox};

/// The most links that are followed on the way to a path, as many as the system follows.
const LINKS_MAX: usize = 40;

/// What a command, a server or the daemon itself has of the machine.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How messages call it, such as `tool convert of team press`.
    pub owner: String,
    /// What is opened to it, or started by it.
    pub paths: Vec<PathBuf>,
    /// The folders among them in which it writes and is kept.
    pub writable: Vec<PathBuf>,
    /// Whether no sandbox keeps it, so that what lies in its folders may be believed or started
    /// with all that the daemon may do.
    pub is_free: bool,
}

impl Opening {
    /// Returns what a command has.
    pub fn of(owner: String, spec: &CommandSpec) -> Self {
        let mut paths: Vec<PathBuf> = spec.program.iter().chain(&spec.workdir).cloned().collect();
        let mut writable = Vec::new();
        let is_free = spec.sandbox == Sandbox::None;
        // What is not kept by a sandbox could put anything anywhere, and is not to be helped.
        if let Sandbox::Bubblewrap { read, write, .. } = &spec.sandbox {
            paths.extend(read.iter().chain(write).cloned());
            writable.extend(write.iter().chain(&spec.workdir).cloned());
        }
        Self { owner, paths, writable, is_free }
    }
}

/// Checks that no command of a node writes where something lies that is opened to another one, or
/// the data directory, nor in a folder of what no sandbox keeps. Blocks on the disk.
///
/// A command may have a path of its own directly in a folder that it writes, since nothing can be
/// put in the place of what is opened to it as long as it runs.
pub fn check_openings(openings: &[Opening], data: &Path) -> Result<(), WireError> {
    // Those that write a folder, by the folder. One that is not there is reported by the check of
    // its tool.
    let mut writers: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
    for (index, opening) in openings.iter().enumerate() {
        for path in opening.writable.iter().filter_map(|path| std::fs::canonicalize(path).ok()) {
            writers.entry(path).or_default().push(index);
        }
    }
    if writers.is_empty() {
        return Ok(());
    }
    let refused = |text: String| Err(WireError::new(ErrorCode::ConfigInvalid, text));
    let writer = |folder: &Path, but: Option<usize>| {
        let found = writers.get(folder)?.iter().find(|index| Some(**index) != but)?;
        openings.get(*found).map(|opening| opening.owner.as_str())
    };
    for place in places(data) {
        for folder in place.ancestors().skip(1) {
            if let Some(owner) = writer(folder, None) {
                return refused(format!(
                    "{owner} writes {}, in which the data directory {} lies: it could put another \
                     in its place; name a data directory outside of it with `--data`, or open less \
                     to the tool",
                    folder.display(),
                    data.display()
                ));
            }
        }
    }
    for (index, opening) in openings.iter().enumerate() {
        for path in &opening.paths {
            let found = std::fs::canonicalize(path).ok();
            for place in places(path) {
                let is_shared = |folder: &Path| folder == place && !opening.is_free;
                for folder in place.ancestors().filter(|folder| !is_shared(folder)) {
                    let is_held =
                        place.parent() == Some(folder) && found.as_deref() == Some(&*place);
                    let Some(owner) = writer(folder, is_held.then_some(index)) else { continue };
                    let whose = if owner == opening.owner { "it" } else { &opening.owner };
                    let why = if opening.is_free {
                        "what it puts there would count outside of the sandbox; move one out of \
                         the other"
                    } else {
                        "a link in its place would lead out of the sandbox; move one out of the \
                         other, or name the folder that is written in both places"
                    };
                    return refused(format!(
                        "{owner} writes {}, in which {} lies, which {whose} opens or starts: {why}",
                        folder.display(),
                        path.display()
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Returns all places that are looked at on the way to a path: its own, those of the links on it,
/// and where they lead.
fn places(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = std::path::absolute(path) else { return Vec::new() };
    let mut left = steps(&path);
    let (mut at, mut places, mut links) = (PathBuf::from("/"), Vec::new(), 0);
    while let Some(step) = left.pop_front() {
        if step == Path::new("..") {
            at.pop();
            continue;
        }
        let next = at.join(step);
        places.push(next.clone());
        match std::fs::read_link(&next) {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                let mut all = steps(&target);
                all.append(&mut left);
                left = all;
            }
            Ok(_) | Err(_) => at = next,
        }
    }
    places
}

fn steps(path: &Path) -> VecDeque<PathBuf> {
    let steps = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.into()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What `a` and `b` open, what `b` writes, the data directory, and what is told.
    type Case<'c> = (&'c [&'c str], &'c [&'c str], &'c [&'c str], &'c str, &'c [&'c str]);

    /// Lays out folders, files and links, in which the cases below open things.
    fn lay_out(home: &Path) {
        for folder in ["box/in/deep", "other", "boxes"] {
            std::fs::create_dir_all(home.join(folder)).unwrap();
        }
        for file in ["box/tool.sh", "box/in/tool.sh", "tool.sh"] {
            std::fs::write(home.join(file), "").unwrap();
        }
        // A program put the link into the box; the other two were there.
        symlink("/etc", home.join("box/swapped")).unwrap();
        symlink(home.join("box/swapped"), home.join("first")).unwrap();
        symlink("box/in", home.join("inward")).unwrap();
    }

    fn opening(home: &Path, owner: &str, paths: &[&str], writable: &[&str]) -> Opening {
        let at = |paths: &[&str]| paths.iter().map(|path| home.join(path)).collect::<Vec<_>>();
        let paths = [at(paths), at(writable)].concat();
        let owner = format!("tool {owner}");
        Opening { owner, paths, writable: at(writable), is_free: false }
    }

    #[test]
    fn nothing_is_opened_where_a_command_writes() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        lay_out(&home);
        let cases: &[Case<'_>] = &[
            (&["other", "tool.sh"], &[], &["box"], "data", &[]),
            (&["box"], &[], &["box"], "data", &[]),
            (&["boxes", "."], &[], &["box"], "data", &[]),
            (&["gone"], &[], &["box", "gone"], "data", &[]),
            (
                &["box/in"],
                &[],
                &["box"],
                "data",
                &["tool b writes", "box,", "box/in lies", "tool a"],
            ),
            (&["box/in/deep"], &[], &["box"], "data", &["tool b", "box/in/deep lies", "tool a"]),
            (&["box/tool.sh"], &[], &["box"], "data", &["tool b", "box/tool.sh lies", "tool a"]),
            (&["box/gone"], &[], &["box"], "data", &["tool b", "box/gone lies", "tool a"]),
            (&["other/../box/in"], &[], &["box"], "data", &["tool b", "tool a"]),
            (&["inward"], &[], &["box"], "data", &["tool b", "inward lies", "tool a"]),
            (&["box/swapped"], &[], &["box"], "data", &["tool b", "box/swapped lies", "tool a"]),
            (&["first"], &[], &["box"], "data", &["tool b", "first lies", "tool a"]),
            // Of its own: what lies directly in the folder stays where it is while it runs.
            (&[], &["box/tool.sh", "box/in"], &["box"], "data", &[]),
            (
                &[],
                &["box/in/tool.sh"],
                &["box"],
                "data",
                &["tool b", "in/tool.sh lies", "it opens"],
            ),
            (&[], &["box/swapped"], &["box"], "data", &["tool b", "box/swapped lies", "it opens"]),
            (&[], &[], &["box", "box/in"], "data", &[]),
            (&[], &[], &["box"], "box/data", &["tool b writes", "box/data lies", "`--data`"]),
            (&[], &[], &["box"], "inward/data", &["tool b writes", "inward/data lies"]),
            (&[], &[], &[], "box/data", &[]),
        ];
        for (a, b, writable, data, parts) in cases {
            let openings = [opening(&home, "a", a, &[]), opening(&home, "b", b, writable)];
            let case = format!("a opens {a:?}, b {b:?} and writes {writable:?}, data {data}");
            match check_openings(&openings, &home.join(data)) {
                Ok(()) => assert!(parts.is_empty(), "{case}"),
                Err(error) => {
                    assert!(!parts.is_empty(), "{case}: {error}");
                    assert_eq!(error.code, ErrorCode::ConfigInvalid);
                    for part in *parts {
                        assert!(error.message.contains(part), "{case}: no {part:?} in {error}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_no_sandbox_keeps_shares_no_folder_with_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        lay_out(&home);
        for (path, writable, is_refused) in [
            ("box", "box", true),
            ("box/in", "box", true),
            ("box/in/tool.sh", "box/in", true),
            ("inward", "box/in", true),
            ("box", "box/in", false),
            ("boxes", "box", false),
        ] {
            let free = Opening { is_free: true, ..opening(&home, "a", &[path], &[]) };
            let openings = [free, opening(&home, "b", &[], &[writable])];
            let checked = check_openings(&openings, &home.join("data"));
            let error = checked.err().map(|error| error.message).unwrap_or_default();
            let found = error.contains("tool b writes") && error.contains("outside of the sandbox");
            assert_eq!(found, is_refused, "{path}, {writable}: {error}");
        }
    }

    #[test]
    fn links_in_a_circle_come_to_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        symlink(home.join("two"), home.join("one")).unwrap();
        symlink(home.join("one"), home.join("two")).unwrap();
        assert!(places(&home.join("one/x")).ends_with(&[home.join("one/x")]));
    }
}
