//! Takes pictures of a daemon's data at named points: what a crash there would leave behind.
//!
//! The daemon goes on as if nothing had happened, so one life of it gives the pictures of many
//! crashes. A picture holds the files as the disk would have them and the world as it stands.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};

use bus::Message;
use bus::tap::{Moment, Tap};
use journal::testing::{Step, Watch};
use tempfile::TempDir;
use wire::subject::RunVerb;
use wire::{Route, Subjects};

use crate::life::Entries;
use crate::outside::{State, World};
use crate::scene::TEAM;

/// Where the pictures are kept: in memory where that is possible, since there are many.
const SHELF: &str = "/dev/shm";

/// One crash.
pub(crate) struct Shot {
    /// The point at which it happens.
    pub(crate) point: String,
    /// Which time that point was come to.
    pub(crate) time: u32,
    pub(crate) image: TempDir,
    pub(crate) outside: State,
    /// Entries that are durable for certain.
    pub(crate) durable: usize,
    /// What the life came to of which this is a picture.
    pub(crate) origin: Arc<OnceLock<Entries>>,
}

/// What a crash does to the end of the newest segment.
#[derive(Clone, Copy)]
enum Harm {
    None,
    /// So many bytes of the end are not there.
    Cut(u64),
    /// The file is not there: its name did not reach the disk.
    Gone,
}

/// Where the journal stands.
#[derive(Default)]
struct Progress {
    /// A file is being changed, so that no picture can be taken.
    busy: bool,
    /// The kind of the first entry that was written last.
    entry: String,
    written: usize,
    durable: usize,
}

/// Takes pictures of the data of one team.
pub(crate) struct Camera {
    dir: PathBuf,
    world: Arc<World>,
    /// The one point that is wanted, none for all.
    wanted: Option<String>,
    progress: Mutex<Progress>,
    idle: Condvar,
    on: AtomicBool,
    times: Mutex<HashMap<String, u32>>,
    shots: Mutex<Vec<Shot>>,
    origin: Arc<OnceLock<Entries>>,
}

impl Camera {
    /// Makes a camera for a data directory that holds so many entries.
    pub(crate) fn new(
        dir: &Path,
        world: Arc<World>,
        wanted: Option<String>,
        held: usize,
    ) -> Arc<Self> {
        let progress = Progress { written: held, durable: held, ..Progress::default() };
        Arc::new(Self {
            dir: dir.to_owned(),
            world,
            wanted,
            progress: Mutex::new(progress),
            idle: Condvar::new(),
            on: AtomicBool::new(true),
            times: Mutex::default(),
            shots: Mutex::default(),
            origin: Arc::default(),
        })
    }

    /// Ends the life: returns the pictures, which learn what it came to.
    pub(crate) fn finish(&self, entries: Entries) -> Vec<Shot> {
        self.on.store(false, Ordering::SeqCst);
        drop(self.origin.set(entries));
        std::mem::take(&mut self.shots.lock().unwrap())
    }

    /// Takes a picture between two steps of the journal.
    pub(crate) fn shoot(&self, point: &str) {
        let mut progress = self.progress.lock().unwrap();
        while progress.busy {
            progress = self.idle.wait(progress).unwrap();
        }
        self.take(&progress, point, Harm::None);
    }

    /// Returns a tap that takes pictures before and after each message.
    pub(crate) fn tap(self: &Arc<Self>) -> Tap {
        let camera = self.clone();
        Tap::new(move |moment, message| {
            if let Some(what) = named(message) {
                let when = if moment == Moment::Before { "before" } else { "after" };
                camera.shoot(&format!("{when} {what}"));
            }
        })
    }

    fn take(&self, progress: &MutexGuard<'_, Progress>, point: &str, harm: Harm) {
        if !self.on.load(Ordering::SeqCst) {
            return;
        }
        let time = {
            let mut times = self.times.lock().unwrap();
            let time = times.entry(point.to_owned()).or_default();
            *time += 1;
            *time
        };
        let wanted = match &self.wanted {
            Some(wanted) => wanted == point && time == 1,
            // There are as many events as entries; the first tells as much as the rest.
            None => !point.ends_with("an event") || time == 1,
        };
        if !wanted {
            return;
        }
        let image = shelf();
        let dir = image.path().join(TEAM);
        fs::create_dir(&dir).unwrap();
        copy(&self.dir, &dir);
        harm_end(&dir.join("journal"), harm);
        let outside = self.world.state();
        let (point, origin, durable) = (point.to_owned(), self.origin.clone(), progress.durable);
        let shot = Shot { point, time, image, outside, durable, origin };
        self.shots.lock().unwrap().push(shot);
    }
}

impl Watch for Camera {
    fn before(&self, step: Step<'_>) {
        let mut progress = self.progress.lock().unwrap();
        match step {
            Step::Append(bytes) => {
                progress.entry = entry_of(bytes);
                let point = format!("{}: before it is written", progress.entry);
                self.take(&progress, &point, Harm::None);
                progress.written += entries_in(bytes);
            }
            Step::Sync => {}
            Step::Undo => panic!("the disk is not full"),
            other => self.take(&progress, &format!("before {}", file_step(other)), Harm::None),
        }
        progress.busy = true;
    }

    fn after(&self, step: Step<'_>) {
        let mut progress = self.progress.lock().unwrap();
        progress.busy = false;
        match step {
            Step::Append(bytes) => {
                let length = bytes.len() as u64;
                let entry = progress.entry.clone();
                let at = |what: &str| format!("{entry}: {what}");
                self.take(&progress, &at("written, and survives"), Harm::None);
                self.take(&progress, &at("torn in the middle"), Harm::Cut(length / 2));
            }
            Step::Sync => {
                progress.durable = progress.written;
                let point = format!("{}: durable, and nobody knows", progress.entry);
                self.take(&progress, &point, Harm::None);
            }
            Step::Undo => {}
            other => {
                let name = file_step(other);
                self.take(&progress, &format!("after {name}"), Harm::None);
                if other == Step::Create {
                    self.take(&progress, &format!("after {name}, lost with the power"), Harm::Gone);
                }
            }
        }
        self.idle.notify_all();
    }
}

fn file_step(step: Step<'_>) -> &'static str {
    match step {
        Step::Create => "a segment is begun",
        Step::Append(_) => "an append",
        Step::Sync => "a sync",
        Step::SyncDir => "the name of a segment is durable",
        Step::Frontier => "the frontier is replaced",
        Step::Undo => "a write is undone",
        Step::RewriteCreate => "a rewriting is begun",
        Step::RewriteAppend => "a rewriting writes",
        Step::RewriteSync => "a rewriting is durable",
        Step::RewriteName => "a rewriting takes its name",
        Step::RewriteRemove => "a rewritten segment is removed",
        Step::RewriteSyncDir => "the names of a rewriting are durable",
    }
}

/// Names a message by what it does.
fn named(message: &Message) -> Option<&'static str> {
    if wire::subject::is_inbox(&message.subject) {
        return Some(answer_of(message));
    }
    Some(match Subjects::default().parse(&message.subject)? {
        Route::AgentRun { .. } if message.headers.get(wire::header::DEPTH).is_some() => {
            "a called agent is asked"
        }
        Route::AgentRun { .. } => "a run is asked for",
        Route::SessionEvents { .. } => "an event",
        Route::Run { verb: RunVerb::Cancel, .. } => "a run is cancelled",
        // Those who look change nothing.
        Route::Run { .. }
        | Route::Calls { .. }
        | Route::Owner { .. }
        | Route::NodeTrace { .. }
        | Route::NodeStats => return None,
        Route::Call { .. } => "a person decides",
        Route::Model { .. } => "a model is asked",
        Route::EventReply { .. } => "an event answers a call",
        Route::Question { .. } => "a call hears what a person says",
        Route::ModelStop { .. } | Route::ToolStop { .. } => "work is stopped",
        Route::Tool { tool, .. } if tool.as_str() == "seen" => "a probe is asked",
        Route::Tool { .. } => "a tool is called",
    })
}

fn answer_of(message: &Message) -> &'static str {
    let body: serde_json::Value = serde_json::from_slice(&message.payload).unwrap_or_default();
    let has = |field: &str| body.get(field).is_some();
    if has("finish") {
        "a model's answer"
    } else if has("sources") {
        "a reply"
    } else if has("error") {
        "an error"
    } else if has("run") {
        "a view"
    } else {
        "an answer"
    }
}

/// Returns the kind of the first entry among the bytes of an append.
fn entry_of(bytes: &[u8]) -> String {
    const MARK: &[u8] = br#""of":"session","input":""#;
    let at = bytes.windows(MARK.len()).position(|window| window == MARK);
    let Some(rest) = at.and_then(|at| bytes.get(at + MARK.len()..)) else {
        return "a frame without entries".to_owned();
    };
    let kind = rest.split(|byte| *byte == b'"').next().unwrap_or_default();
    String::from_utf8_lossy(kind).into_owned()
}

fn entries_in(bytes: &[u8]) -> usize {
    const MARK: &[u8] = br#"{"v":1,"at":"#;
    bytes.windows(MARK.len()).filter(|window| *window == MARK).count()
}

/// Makes a folder for data.
pub(crate) fn shelf() -> TempDir {
    let in_memory = Path::new(SHELF).is_dir().then(|| tempfile::tempdir_in(SHELF).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// Copies data as it lies there; the store is left out, since it may be lost, and so is the lock.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (name, path) = (entry.file_name(), entry.path());
        if path.is_dir() && name != "store" {
            fs::create_dir(to.join(&name)).unwrap();
            copy(&path, &to.join(&name));
        } else if path.is_file() && name != "lock" {
            fs::copy(&path, to.join(&name)).unwrap();
        }
    }
}

fn harm_end(journal: &Path, harm: Harm) {
    let segments = fs::read_dir(journal).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "log");
    let Some(newest) = segments.filter(is_segment).max() else { return };
    match harm {
        Harm::None => {}
        Harm::Cut(bytes) => {
            let length = fs::metadata(&newest).unwrap().len();
            let file = OpenOptions::new().write(true).open(&newest).unwrap();
            file.set_len(length - bytes).unwrap();
        }
        Harm::Gone => fs::remove_file(newest).unwrap(),
    }
}
