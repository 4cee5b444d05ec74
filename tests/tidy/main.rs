//! Holds the rules of the house that no compiler knows: layers, owners of libraries, sizes, links.
//!
//! Every rule is a function from what it reads to a list of offences, each of which names the
//! place, what is wrong and the cure. Each is tried on a bad sample beside it, so that none of
//! them is true of everything.

#[cfg(test)]
mod documents;
#[cfg(test)]
mod house;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod sources;

#[cfg(test)]
use std::path::{Path, PathBuf};

/// Returns the folder of the workspace.
#[cfg(test)]
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Returns the files of the house with an ending, by their path from the root, in order.
#[cfg(test)]
fn files(ending: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, visit: &mut dyn FnMut(&Path)) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // Folders of tools are not ours: version control, editors, build output.
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                walk(&path, visit);
            } else if path.is_file() {
                visit(&path);
            }
        }
    }
    let root = root();
    let mut files = Vec::new();
    walk(&root, &mut |path| {
        if path.extension().is_some_and(|extension| extension == ending) {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            files.push((name, std::fs::read_to_string(path).unwrap()));
        }
    });
    files.sort();
    assert!(!files.is_empty(), "no .{ending} files below {}", root.display());
    files
}

/// Fails with all offences at once.
#[cfg(test)]
#[track_caller]
fn none(offences: &[String]) {
    assert!(offences.is_empty(), "{} offences:\n{}\n", offences.len(), offences.join("\n"));
}

/// Fails unless a bad sample gave one offence that says all of this.
#[cfg(test)]
#[track_caller]
fn one(offences: &[String], says: &[&str]) {
    let [offence] = offences else { panic!("one offence expected: {offences:?}") };
    for part in says {
        assert!(offence.contains(part), "{part:?} is not in {offence:?}");
    }
}
