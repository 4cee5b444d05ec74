//! Rewrites segments without what is no longer held, so that the disk follows what is.
//!
//! The new file is whole and durable before it takes its name, the name is durable before the old
//! files go, and a scan passes over old files that a crash left beside it. Before all that the
//! frontier is written anew, so that it asks for nothing that was dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wire::SessionId;

use crate::error::Error;
use crate::index::{Index, Segment};
use crate::kept::{Head, Survey};
use crate::queue::Shared;
use crate::read::Files;
use crate::room;
use crate::segment::{self, Listed};

/// A segment is rewritten if more than one part in so many of it is not held, or anything of it is
/// purged. What is left stays below 1.2 times of what is held.
const DEAD_SHARE: u64 = 6;

/// Segments below one part in so many of a full one are put together.
const SMALL_SHARE: u64 = 4;

/// How many small segments are put together, if nothing of them is to be dropped.
const SMALL_COUNT: usize = 8;

/// What a journal takes on the disk, and what of it is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes of the commits that are held.
    pub live_bytes: u64,
}

/// What one rewriting came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Segments that were replaced by one.
    pub segments: usize,
    /// Bytes of those.
    pub bytes_before: u64,
    /// Bytes of the one.
    pub bytes_after: u64,
}

/// The file operations of a rewriting. A seam for tests that stop between two of them.
pub(crate) trait Bench {
    /// Begins the new file, or begins it over.
    fn create(&mut self) -> io::Result<()>;
    /// Adds bytes to it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when it is on the disk.
    fn sync(&mut self) -> io::Result<()>;
    /// Gives it its name.
    fn name(&mut self, name: &str) -> io::Result<()>;
    /// Removes a segment.
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Returns when the names are on the disk.
    fn sync_dir(&mut self) -> io::Result<()>;
    /// Removes the new file, if it has no name yet.
    fn discard(&mut self);
}

/// The bench of a journal directory.
pub(crate) struct DiskBench {
    dir: PathBuf,
    file: Option<File>,
}

impl DiskBench {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), file: None }
    }

    fn new_path(&self) -> PathBuf {
        self.dir.join("rewritten.new")
    }

    fn file(&mut self) -> io::Result<&mut File> {
        self.file.as_mut().ok_or_else(|| io::Error::other("no file is begun"))
    }
}

impl Bench for DiskBench {
    fn create(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        self.file = Some(options.open(self.new_path())?);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_all()
    }

    fn name(&mut self, name: &str) -> io::Result<()> {
        fs::rename(self.new_path(), self.dir.join(name))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }

    fn discard(&mut self) {
        self.file = None;
        drop(fs::remove_file(self.new_path()));
    }
}

impl Index {
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            bytes: self.segments.values().map(|segment| segment.bytes).sum(),
            live_bytes: self.segments.values().map(|segment| segment.live_bytes).sum(),
        }
    }

    /// Chooses neighbours that are to become one segment, by their bases; none if none should.
    /// What stays of them is no more than there is room for, in bytes.
    ///
    /// The last one is the segment that is being written, which has to be ended first.
    pub(crate) fn to_rewrite(&self, segment_bytes_max: u64, room: u64) -> Vec<u64> {
        let (mut chosen, mut held, mut stays, mut due) = (Vec::new(), 0, 0, false);
        let mut end = None;
        for (base, segment) in &self.segments {
            // What is missing between two would not show in one.
            let is_next = end.replace(segment.end).is_none_or(|end| end == *base);
            let live = segment.live_bytes;
            let dead = segment.bytes.saturating_sub(segment.fixed_bytes).saturating_sub(live);
            let left = segment.bytes - dead;
            let is_due = segment.is_purged || dead.saturating_mul(DEAD_SHARE) > segment.bytes;
            let is_last = segment.end == self.end;
            let is_small = segment.bytes < segment_bytes_max / SMALL_SHARE && !is_last;
            let is_chosen = !segment.is_harmed && (is_due || is_small) && left <= room;
            let fits = held + live <= segment_bytes_max && stays + left <= room;
            if !is_chosen || !fits || !is_next {
                if due || chosen.len() >= SMALL_COUNT {
                    return chosen;
                }
                (chosen, held, stays, due) = (Vec::new(), 0, 0, false);
            }
            if is_chosen {
                chosen.push(*base);
                held += live;
                stays += left;
                due |= is_due;
            }
        }
        if due || chosen.len() >= SMALL_COUNT { chosen } else { Vec::new() }
    }
}

/// Rewrites neighbours that are to become one segment, if there are such. Blocks.
///
/// Segments for which there is hardly room are left as they are: on a full disk the runs in work need
/// what is left. An error before the new file has its name changes nothing. One after it stops the
/// journal.
pub(crate) fn next(
    shared: &Shared,
    files: &Files,
    bench: &mut dyn Bench,
) -> Result<Option<Rewritten>, Error> {
    let room = shared.room.spare()?;
    let (chosen, rolls) = {
        let state = shared.lock();
        let chosen = state.index.to_rewrite(shared.options.segment_bytes_max, room);
        let last = state.index.segments.keys().next_back().copied();
        (chosen.clone(), chosen.last().copied() == last)
    };
    if chosen.is_empty() {
        return Ok(None);
    }
    shared.settle(rolls)?;
    let sources: Vec<Listed> = {
        let state = shared.lock();
        // The last segment is being written.
        let last = state.index.segments.keys().next_back().copied();
        if chosen.last().copied() >= last {
            return Ok(None);
        }
        let listed = |base: &u64| {
            let segment = state.index.segments.get(base)?;
            let kept_end = segment.offsets.as_ref().map(|_| segment.end);
            let path = files.journal.join(segment::file_name(*base, kept_end));
            Some(Listed { base: *base, kept_end, path })
        };
        chosen.iter().filter_map(listed).collect()
    };
    let job = Job { shared, journal: &files.journal, sources };
    let Some((head, live)) = job.survey()? else { return Ok(None) };
    let name = segment::kept_name(head.base, head.end);
    let replaced = job
        .write(bench, &head, &live)
        .and_then(|segment| job.replace(bench, &head, &name, segment));
    if replaced.is_err() {
        bench.discard();
    }
    let bytes_before =
        replaced.map_err(|error| room::full_or("rewrite segments in", &files.journal, error))?;
    job.finish(bench, &name, bytes_before).map(Some).map_err(|error| {
        shared.fail(&error.to_string());
        Error::file("replace segments in", &files.journal)(error)
    })
}

/// One rewriting.
struct Job<'a> {
    shared: &'a Shared,
    journal: &'a Path,
    sources: Vec<Listed>,
}

impl Job<'_> {
    /// Reads all that is to be rewritten; returns the head of the new segment, and the positions of
    /// the frames that stay. None if it holds something that is no frame.
    fn survey(&self) -> Result<Option<(Head, Vec<u64>)>, Error> {
        let Some(base) = self.sources.first().map(|source| source.base) else { return Ok(None) };
        let mut survey = Survey::default();
        let mut found: Vec<(SessionId, u64)> = Vec::new();
        for Listed { base, kept_end, path } in &self.sources {
            let bytes = segment::load(path)?;
            let is_whole = survey.segment(&bytes, *base, *kept_end, |_, frame| {
                if let Ok(session) = SessionId::new(frame.session) {
                    found.push((session, frame.place.position));
                }
            });
            if !is_whole {
                tracing::error!(segment = %path.display(), "a segment is damaged and stays as it is");
                if let Some(segment) = self.shared.lock().index.segments.get_mut(base) {
                    segment.is_harmed = true;
                }
                return Ok(None);
            }
        }
        let mut head = survey.head;
        let state = self.shared.lock();
        found.retain(|(session, position)| state.index.is_live(session, *position, base));
        drop(state);
        for (session, _) in &found {
            *head.counts.entry(session.clone()).or_default() += 1;
        }
        Ok(Some((head, found.into_iter().map(|(_, position)| position).collect())))
    }

    /// Writes the new file and makes it durable; returns the segment that it will be.
    fn write(&self, bench: &mut dyn Bench, head: &Head, live: &[u64]) -> io::Result<Segment> {
        let encoded = head.encode();
        bench.create()?;
        bench.append(&encoded)?;
        let mut offsets = Vec::with_capacity(live.len());
        let mut offset = encoded.len() as u64;
        for Listed { base, kept_end, path } in &self.sources {
            let bytes = fs::read(path)?;
            let mut out = Vec::new();
            Survey::default().segment(&bytes, *base, *kept_end, |_, frame| {
                let position = frame.place.position;
                if live.binary_search(&position).is_ok() {
                    offsets.push((position, offset));
                    offset += frame.bytes.len() as u64;
                    out.extend_from_slice(frame.bytes);
                }
            });
            bench.append(&out)?;
        }
        if offsets.len() != live.len() {
            return Err(io::Error::other("a segment changed while it was rewritten"));
        }
        bench.sync()?;
        Ok(Segment {
            end: head.end,
            bytes: offset,
            offsets: Some(offsets),
            live_bytes: 0,
            fixed_bytes: encoded.len() as u64,
            is_harmed: false,
            is_purged: false,
        })
    }

    /// Puts the new segment in the place of the old ones; returns how many bytes these had.
    fn replace(
        &self,
        bench: &mut dyn Bench,
        head: &Head,
        name: &str,
        mut segment: Segment,
    ) -> io::Result<u64> {
        let mut state = self.shared.lock();
        // The file has its name from the moment on from which the index speaks of it: the name may
        // be that of an old one, in which whoever looks up a place by the old index would find
        // another frame there, and take the session for damaged.
        bench.name(name)?;
        let index = &mut state.index;
        let mut bytes_before = 0;
        for old in self.sources.iter().filter_map(|old| index.segments.remove(&old.base)) {
            bytes_before += old.bytes;
            // What is held stays where it is in the log.
            segment.live_bytes += old.live_bytes;
        }
        index.segments.insert(head.base, segment);
        forget_dropped(index, head);
        if let Some(segment) = index.segments.get_mut(&head.base) {
            // Frames of sessions that are set aside stay, and are not held.
            segment.fixed_bytes = segment.bytes.saturating_sub(segment.live_bytes);
        }
        index.rewrites += 1;
        Ok(bytes_before)
    }

    /// Makes the new name durable, and removes the old files.
    fn finish(
        &self,
        bench: &mut dyn Bench,
        name: &str,
        bytes_before: u64,
    ) -> io::Result<Rewritten> {
        bench.sync_dir()?;
        let bytes_after = fs::metadata(self.journal.join(name))?.len();
        for source in &self.sources {
            let old = segment::file_name(source.base, source.kept_end);
            if old != name {
                bench.remove(&old)?;
            }
        }
        bench.sync_dir()?;
        self.shared.room.note_freed();
        Ok(Rewritten { segments: self.sources.len(), bytes_before, bytes_after })
    }
}

/// Notes that the frames are gone that a rewritten segment no longer has.
///
/// A session of which it has any may have been forgotten or retired since these were chosen. Its
/// oldest frame stays known then, or it would seem that nothing could bring it back.
fn forget_dropped(index: &mut Index, head: &Head) {
    let range = head.base..head.end;
    let is_left = |session: &SessionId| head.counts.contains_key(session);
    let sessions = index.sessions.iter_mut().filter(|(_, found)| found.damage.is_none());
    for (_, found) in sessions.filter(|(session, _)| !is_left(session)) {
        if found.oldest.is_some_and(|oldest| range.contains(&oldest)) {
            let first = found.spots.first().map_or(head.end, |spot| spot.position);
            found.oldest = Some(first.min(head.end));
        }
    }
    let mut done = Vec::new();
    for (session, gone) in &mut index.gone {
        if gone.oldest >= head.base && range.contains(&gone.spot.position) {
            // The frame that said so was dropped too.
            done.push((session.clone(), gone.spot));
        } else if range.contains(&gone.oldest) && !is_left(session) {
            gone.oldest = head.end;
        }
    }
    for (session, spot) in done {
        index.gone.remove(&session);
        index.release(spot);
    }
}

#[cfg(test)]
mod tests;
