//! Looks on as journals handle their files, for tests that stop between two steps.
//!
//! Whoever watches a data directory is told of each step of every journal that is opened there,
//! before it is taken and after. Nothing of this is in a program that does not ask for it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::medium::{Disk, Medium};
use crate::rewrite::{Bench, DiskBench};

/// Something that a journal does to its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Begins a segment.
    Create,
    /// Adds bytes to the segment.
    Append(&'a [u8]),
    /// Makes the segment durable.
    Sync,
    /// Makes the name of a segment durable.
    SyncDir,
    /// Replaces the frontier.
    Frontier,
    /// Cuts the segment back, or takes back one that was begun.
    Undo,
    /// Begins the file of a rewritten segment.
    RewriteCreate,
    /// Adds bytes to that file.
    RewriteAppend,
    /// Makes that file durable.
    RewriteSync,
    /// Gives that file its name.
    RewriteName,
    /// Removes a segment that was rewritten.
    RewriteRemove,
    /// Makes the names durable.
    RewriteSyncDir,
}

/// Is told of every step, on the thread that takes it.
pub trait Watch: Send + Sync {
    /// A step is about to be taken.
    fn before(&self, step: Step<'_>);
    /// A step was taken, or failed.
    fn after(&self, step: Step<'_>);
    /// Has a step fail that is about to be taken, if it returns an error.
    fn refuse(&self, _step: Step<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Watches a data directory until it is dropped.
pub struct Watching(PathBuf);

type Watches = HashMap<PathBuf, Arc<dyn Watch>>;

static WATCHES: Mutex<Option<Watches>> = Mutex::new(None);

fn watches() -> MutexGuard<'static, Option<Watches>> {
    WATCHES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the journals that are opened in a data directory from here on.
pub fn watch(dir: &Path, watch: Arc<dyn Watch>) -> Watching {
    watches().get_or_insert_default().insert(dir.to_owned(), watch);
    Watching(dir.to_owned())
}

impl Drop for Watching {
    fn drop(&mut self) {
        watches().get_or_insert_default().remove(&self.0);
    }
}

fn watch_of(dir: &Path) -> Option<Arc<dyn Watch>> {
    watches().as_ref()?.get(dir).cloned()
}

/// Takes a step before somebody's eyes.
fn take<T>(
    watch: Option<&dyn Watch>,
    step: Step<'_>,
    action: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let Some(watch) = watch else { return action() };
    watch.before(step);
    let done = watch.refuse(step).and_then(|()| action());
    watch.after(step);
    done
}

struct WatchedDisk {
    disk: Disk,
    watch: Arc<dyn Watch>,
}

/// Returns the medium of a data directory, watched if somebody does.
pub(crate) fn medium(dir: &Path, disk: Disk) -> Box<dyn Medium> {
    match watch_of(dir) {
        Some(watch) => Box::new(WatchedDisk { disk, watch }),
        None => Box::new(disk),
    }
}

impl Medium for WatchedDisk {
    fn create(&mut self, base: u64) -> io::Result<()> {
        take(Some(&*self.watch), Step::Create, || self.disk.create(base))
    }

    fn take_back(&mut self, created: u64, base: Option<u64>) -> io::Result<()> {
        take(Some(&*self.watch), Step::Undo, || self.disk.take_back(created, base))
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        take(Some(&*self.watch), Step::Append(bytes), || self.disk.append(bytes))
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        take(Some(&*self.watch), Step::Undo, || self.disk.cut(length))
    }

    fn sync(&mut self) -> io::Result<()> {
        take(Some(&*self.watch), Step::Sync, || self.disk.sync())
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        take(Some(&*self.watch), Step::SyncDir, || self.disk.sync_dir())
    }

    fn store_frontier(&mut self, bytes: &[u8]) -> io::Result<()> {
        take(Some(&*self.watch), Step::Frontier, || self.disk.store_frontier(bytes))
    }
}

pub(crate) struct WatchedBench {
    bench: DiskBench,
    watch: Option<Arc<dyn Watch>>,
}

/// Returns the bench of a journal directory, watched if somebody watches its data directory.
pub(crate) fn bench(journal: &Path, bench: DiskBench) -> WatchedBench {
    WatchedBench { bench, watch: journal.parent().and_then(watch_of) }
}

impl Bench for WatchedBench {
    fn create(&mut self) -> io::Result<()> {
        take(self.watch.as_deref(), Step::RewriteCreate, || self.bench.create())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        take(self.watch.as_deref(), Step::RewriteAppend, || self.bench.append(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        take(self.watch.as_deref(), Step::RewriteSync, || self.bench.sync())
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        take(self.watch.as_deref(), Step::RewriteName, || self.bench.name(name))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        take(self.watch.as_deref(), Step::RewriteRemove, || self.bench.remove(name))
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        take(self.watch.as_deref(), Step::RewriteSyncDir, || self.bench.sync_dir())
    }

    fn discard(&mut self) {
        self.bench.discard();
    }
}
