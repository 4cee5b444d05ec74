//! Results of calls that were cut for the model: kept whole for a while, read piece by piece.
//!
//! They are no part of the journal: what the model was shown of a result is. So the oldest go when
//! there are too many, and a reader is told that they are gone.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tracing::warn;
use wire::{CallKey, SessionId};

/// Bytes of one result that are read and kept: a long document or log. A model reads some hundred
/// pieces at most, and each is held in memory while it is cut.
pub const RESULT_BYTES_MAX: usize = 4 << 20;

/// Bytes of all results that a team keeps, some hundred long ones; beyond it the oldest go.
pub const RESULTS_BYTES_MAX: u64 = 256 << 20;

/// What a file ends with while it is written.
const UNFINISHED: &str = "new";

/// The kept results of one team.
#[derive(Clone, Debug)]
pub struct Results {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    bytes_max: u64,
    held: Mutex<Held>,
}

/// Which call a result is of.
type Key = (SessionId, CallKey);

/// What is kept, in the order of its age.
#[derive(Debug, Default)]
struct Held {
    next: u64,
    by_age: BTreeMap<u64, (Key, u64)>,
    ages: HashMap<Key, u64>,
    bytes: u64,
}

/// What is known of a result; the first line of its file, before its text.
#[derive(Debug, Serialize, Deserialize)]
struct About {
    untrusted: bool,
}

/// A result that was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResult {
    /// All of it.
    pub text: String,
    /// Whether it may hold words of strangers.
    pub untrusted: bool,
}

impl Held {
    fn add(&mut self, key: Key, bytes: u64) {
        self.remove(&key);
        self.ages.insert(key.clone(), self.next);
        self.by_age.insert(self.next, (key, bytes));
        self.next += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, key: &Key) {
        let held = self.ages.remove(key).and_then(|age| self.by_age.remove(&age));
        self.bytes -= held.map_or(0, |(_, bytes)| bytes);
    }

    fn take_out(&mut self, is_wanted: impl Fn(&Key) -> bool) -> Vec<Key> {
        let keys: Vec<Key> = self.ages.keys().filter(|key| is_wanted(key)).cloned().collect();
        for key in &keys {
            self.remove(key);
        }
        keys
    }

    /// Takes out the oldest while there are too many bytes; one is always left.
    fn surplus(&mut self, bytes_max: u64) -> Vec<Key> {
        let mut gone = Vec::new();
        while self.bytes > bytes_max
            && self.by_age.len() > 1
            && let Some((_, (key, bytes))) = self.by_age.pop_first()
        {
            self.ages.remove(&key);
            self.bytes -= bytes;
            gone.push(key);
        }
        gone
    }
}

impl Results {
    /// Takes over what a folder holds; it is made by the first result. Blocks on the disk.
    pub fn open(dir: PathBuf, bytes_max: u64) -> Self {
        let mut held = Held::default();
        let mut found = found(&dir);
        found.sort();
        for (_, key, bytes) in found {
            held.add(key, bytes);
        }
        Self { shared: Arc::new(Shared { dir, bytes_max, held: Mutex::new(held) }) }
    }

    /// Keeps a result in the place of one that the same call had before.
    pub async fn keep(
        &self,
        session: SessionId,
        call: CallKey,
        result: KeptResult,
    ) -> io::Result<()> {
        let shared = self.shared.clone();
        spawn_blocking(move || shared.keep((session, call), &result)).await?
    }

    /// Returns a result of the session, if it is kept.
    pub async fn read(&self, session: SessionId, call: CallKey) -> io::Result<Option<KeptResult>> {
        let shared = self.shared.clone();
        spawn_blocking(move || shared.read(&(session, call))).await?
    }

    /// Drops the results of sessions that are no longer known. Blocks on the disk.
    pub fn retain(&self, is_known: impl Fn(&SessionId) -> bool) {
        let gone = self.shared.lock().take_out(|(session, _)| !is_known(session));
        for key in gone {
            self.shared.remove(&key);
        }
    }
}

/// Finds results with when they were written, and drops what a crash left half written. What
/// cannot be read is left alone.
fn found(dir: &Path) -> Vec<(SystemTime, Key, u64)> {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for session in entries(dir) {
        for file in entries(&session.path()) {
            if file.path().extension().is_some_and(|extension| extension == UNFINISHED) {
                drop(fs::remove_file(file.path()));
                continue;
            }
            let name = |entry: &fs::DirEntry| entry.file_name().into_string().ok();
            let session = name(&session).and_then(|name| SessionId::new(&name).ok());
            let call = name(&file).and_then(|name| CallKey::new(&name).ok());
            if let (Some(session), Some(call), Ok(about)) = (session, call, file.metadata()) {
                let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push((written, (session, call), about.len()));
            }
        }
    }
    found
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, (session, call): &Key) -> PathBuf {
        self.dir.join(session.as_str()).join(call.as_str())
    }

    fn keep(&self, key: Key, result: &KeptResult) -> io::Result<()> {
        let path = self.path(&key);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut about = serde_json::to_vec(&About { untrusted: result.untrusted })?;
        about.push(b'\n');
        let new = path.with_extension(UNFINISHED);
        let written = write(&new, &[&about, result.text.as_bytes()]);
        if let Err(error) = written.and_then(|()| fs::rename(&new, &path)) {
            drop(fs::remove_file(&new));
            return Err(error);
        }
        let surplus = {
            let mut held = self.lock();
            held.add(key, (about.len() + result.text.len()) as u64);
            held.surplus(self.bytes_max)
        };
        for gone in surplus {
            self.remove(&gone);
        }
        Ok(())
    }

    fn remove(&self, key: &Key) {
        let path = self.path(key);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!(path = %path.display(), %error, "cannot remove an old result");
            }
            Ok(()) | Err(_) => {}
        }
        // Goes only if it is empty.
        drop(path.parent().map(fs::remove_dir));
    }

    fn read(&self, key: &Key) -> io::Result<Option<KeptResult>> {
        let written = match fs::read_to_string(self.path(key)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            written => written?,
        };
        let (about, text) = written.split_once('\n').unwrap_or((&written, ""));
        let about: About = serde_json::from_str(about)?;
        Ok(Some(KeptResult { text: text.to_owned(), untrusted: about.untrusted }))
    }
}

/// Writes a file that is whole or not there after a crash: it is named once it is on the disk.
fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = File::create(path)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(session: &str, call: &str) -> (SessionId, CallKey) {
        (SessionId::new(session).unwrap(), CallKey::new(call).unwrap())
    }

    fn result(text: &str) -> KeptResult {
        KeptResult { text: text.to_owned(), untrusted: text.starts_with('u') }
    }

    #[test]
    fn the_oldest_results_go_when_there_are_too_many_bytes() {
        let dir = tempfile::tempdir().unwrap();
        // The first line of a file has some twenty bytes.
        let open = || Results::open(dir.path().join("results"), 300).shared;
        let text = |letter: &str| letter.repeat(100);
        let results = open();
        let [first, second, third, other] =
            [key("s", "1"), key("s", "2"), key("s", "3"), key("t", "1")];
        results.keep(first.clone(), &result(&text("a"))).unwrap();
        results.keep(second.clone(), &result(&text("u"))).unwrap();
        results.keep(first.clone(), &result(&text("b"))).unwrap();
        assert_eq!(results.read(&first).unwrap(), Some(result(&text("b"))));
        assert_eq!(results.read(&second).unwrap(), Some(result(&text("u"))));
        assert_eq!(results.read(&other).unwrap(), None, "each session has its own");
        results.keep(third.clone(), &result(&text("c"))).unwrap();
        assert_eq!(results.read(&second).unwrap(), None, "it was the oldest");
        assert_eq!(results.read(&first).unwrap(), Some(result(&text("b"))));

        fs::write(dir.path().join("results/s/9.new"), "half").unwrap();
        let results = open();
        assert!(!dir.path().join("results/s/9.new").exists());
        assert_eq!(results.lock().by_age.len(), 2);
        results.keep(other.clone(), &result(&"x".repeat(1000))).unwrap();
        assert_eq!(results.read(&other).unwrap(), Some(result(&"x".repeat(1000))));
        assert!(!dir.path().join("results/s").exists(), "nothing of the session is left");

        results.keep(first.clone(), &result("b")).unwrap();
        Results { shared: results.clone() }.retain(|session| *session == first.0);
        assert_eq!(results.read(&first).unwrap(), Some(result("b")));
        assert_eq!(results.read(&other).unwrap(), None);
    }
}
