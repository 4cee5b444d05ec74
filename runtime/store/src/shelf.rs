//! The shelf: traces in segments by the time at which they began, the oldest of which go.
//!
//! sled gives nothing back of what a database took on the disk, so traces stand in several, and
//! room is made by removing the oldest of them with all that is in it. Traces that come in another
//! order than that of time, as when the store is filled anew, go where they belong, and a segment
//! that grows by it is cut in two. A database that is open takes megabytes of memory, so those that
//! nobody used for a while are closed, all but the one that grows; what is known of them tells which
//! to open for whoever looks for a trace.

pub(crate) mod arrived;
mod look;
mod outline;
pub(crate) mod segment;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::{RunId, Timestamp};

use crate::change::Telling;
use crate::error::Error;
use crate::key;
use crate::pending::{self, Pending};
use crate::trace::ended::EndedSpan;
use crate::trace::{Adding, Ended, Recent};
use crate::{database, home, record, trace};
use arrived::Arrived;
use segment::{End, Segment};

/// The most bytes that traces take on the disk unless it is said otherwise, sled's growth included.
pub const TRACE_BYTES_DEFAULT: u64 = 512 << 20;
/// The least that can be said: a segment of it is eight times what sled takes for nothing.
pub const TRACE_BYTES_MIN: u64 = 64 << 20;

/// The part of all bytes after which the next segment is begun. Three such parts stay free, for the
/// segment that grows and for one that is cut in two.
const SEGMENT_SHARE: u64 = 16;
const SHARES_FREE: u64 = 3;
/// Bytes of traces to which spans are added at once, or that are copied, so that a batch stays
/// within memory; all that are held go into one besides.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Spans after which segments are written out: what is folded again after a crash.
const UNFLUSHED_MAX: usize = 8192;

/// Spans after which segments that nobody used meanwhile are closed: several times those of the runs
/// that are in work when a segment is full, since one that is opened again has its log read.
const UNUSED_SPANS_MIN: usize = 4096;

/// What is on the shelf.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The segments by the time from which they are, with their numbers.
    segments: BTreeMap<Timestamp, u64>,
    /// The number of the next segment.
    next: u64,
    bytes_max: u64,
    dropped: TracesDropped,
}

/// What went to make room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracesDropped {
    /// How many traces; one that is told again afterwards and refused counts once more.
    pub traces: u64,
    /// Traces that began before this are not kept; absent as long as none went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
}

/// What traces take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceUsage {
    /// How many traces there are.
    pub traces: u64,
    /// Bytes of their files on the disk.
    pub bytes: u64,
    /// The most bytes that they may take.
    pub bytes_max: u64,
    /// What went to stay below it.
    pub dropped: TracesDropped,
}

/// Where a trace stands, or is to stand.
#[derive(Clone, Copy)]
struct Placed {
    /// The number of the segment among those that there are.
    at: usize,
    /// Whether there is anything of it already.
    is_stored: bool,
}

/// The segments of a store.
#[derive(Default)]
pub(crate) struct Shelf {
    dir: PathBuf,
    /// By the time from which they are; the first takes also what is older.
    segments: Vec<Segment>,
    kept: Kept,
    /// Spans that were added since segments were closed.
    since_rest: usize,
    /// Whether spans that memory alone had went with an error. They are told again once the store
    /// is opened again, as long as nothing is taken as durable until then.
    has_lost: bool,
}

impl Shelf {
    /// Begins an empty shelf.
    pub(crate) fn begin(dir: PathBuf) -> Self {
        let kept = Kept { bytes_max: TRACE_BYTES_DEFAULT, ..Kept::default() };
        Self { dir, kept, ..Self::default() }
    }

    /// Opens the segments that the store's own database names, and removes what else is there: a
    /// segment that was about to be made or removed when the process died.
    pub(crate) fn open(dir: PathBuf, main: &sled::Tree) -> Result<Self, Error> {
        let Some(bytes) = pending::get(main, key::SHELF)? else { return Ok(Self::begin(dir)) };
        let kept: Kept = record::from_json(&bytes)?;
        if let Ok(entries) = std::fs::read_dir(&dir) {
            for entry in entries.flatten() {
                let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
                if !number.is_some_and(|number| kept.segments.values().any(|n| *n == number)) {
                    home::remove(&entry.path())?;
                }
            }
        }
        let segments = Vec::with_capacity(kept.segments.len());
        let mut shelf = Self { dir, segments, kept, ..Self::default() };
        for (from, number) in shelf.kept.segments.clone() {
            match Segment::open(&shelf.dir, number, from) {
                Ok(segment) => shelf.segments.push(segment),
                Err(error) => {
                    if error.is_damage() {
                        shelf.abandon();
                    }
                    return Err(error);
                }
            }
        }
        Ok(shelf)
    }

    /// Leaves all segments as they are, because something is damaged.
    pub(crate) fn abandon(&mut self) {
        self.segments.drain(..).for_each(Segment::abandon);
    }

    /// Returns the directories of the databases.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        self.segments.iter().map(|segment| segment::dir(&self.dir, segment.number)).collect()
    }

    /// Sets how many bytes all segments may take.
    pub(crate) fn set_bytes_max(&mut self, main: &sled::Db, bytes_max: u64) -> Result<(), Error> {
        let bytes_max = bytes_max.max(TRACE_BYTES_MIN);
        if self.kept.bytes_max != bytes_max {
            self.kept.bytes_max = bytes_max;
            self.save(main)?;
        }
        self.shrink(main)
    }

    /// Returns what traces take.
    pub(crate) fn usage(&self) -> TraceUsage {
        TraceUsage {
            traces: self.segments.iter().map(Segment::traces).sum(),
            bytes: self.segments.iter().map(|segment| segment.bytes).sum(),
            bytes_max: self.kept.bytes_max,
            dropped: self.kept.dropped,
        }
    }

    /// Returns the records of all segments, and their bytes.
    pub(crate) fn records(&self) -> (u64, u64) {
        let states = self.segments.iter().map(Segment::state);
        states.fold((0, 0), |(n, bytes), state| (n + state.records, bytes + state.bytes))
    }

    /// Reads and counts every record.
    pub(crate) fn count(&self) -> Result<(), Error> {
        self.segments
            .iter()
            .try_for_each(|segment| database::count(&*segment.opened()?, None, segment.state()))
    }

    fn target(&self) -> u64 {
        self.kept.bytes_max / SEGMENT_SHARE
    }

    /// Adds spans to their traces.
    pub(crate) fn add<'s>(
        &mut self,
        main: &sled::Db,
        spans: impl Iterator<Item = &'s EndedSpan>,
        telling: Telling,
    ) -> Result<(), Error> {
        let added = self.add_in_groups(main, spans, telling);
        self.has_lost |= added.is_err();
        added
    }

    fn add_in_groups<'s>(
        &mut self,
        main: &sled::Db,
        spans: impl Iterator<Item = &'s EndedSpan>,
        telling: Telling,
    ) -> Result<(), Error> {
        let arrived = arrived::by_trace(spans);
        let mut rest = VecDeque::from(arrived::in_turn(&arrived));
        while let Some(spans) = rest.pop_front() {
            if self.segments.is_empty() {
                self.push(main, Timestamp::default())?;
            }
            let Some(place) = self.place(spans, telling)? else {
                // A trace whose time is over comes again only with a journal that is told again.
                // What began later in it is looked at by itself.
                let Some((first, later)) = spans.split_first() else { continue };
                self.kept.dropped.traces += u64::from(!first.span.has_parent);
                if !later.is_empty() {
                    rest.push_front(later);
                }
                continue;
            };
            let at = place.at;
            let Some(segment) = self.segments.get_mut(at) else { return Ok(()) };
            let pending = Pending::new(&*segment.database()?, *segment.state());
            // Not put back on an error, after which it may not be what is stored.
            let recent = std::mem::take(&mut segment.recent);
            let mut adding = Adding::new(pending, recent);
            adding.add(spans, place.is_stored)?;
            let mut added = spans.len();
            while adding.bytes() < GROUP_BYTES_MAX
                && let Some(spans) = rest.front()
                && let Some(is_stored) = self.place_beside(spans, telling, at, &adding)?
            {
                adding.add(spans, is_stored)?;
                added += spans.len();
                rest.pop_front();
            }
            let (pending, recent) = adding.finish()?;
            let state = pending.commit()?;
            if let Some(segment) = self.segments.get_mut(at) {
                segment.change(state, added);
                segment.recent = recent;
            }
            self.since_rest += added;
            self.settle(main, at)?;
        }
        if self.segments.iter().map(|segment| segment.unflushed).sum::<usize>() >= UNFLUSHED_MAX {
            self.flush()?;
        }
        if self.since_rest >= UNUSED_SPANS_MIN {
            self.rest()?;
        }
        Ok(())
    }

    /// Tells whether there is anything of a trace, if it belongs to a segment whose recent traces
    /// are away to be added to.
    fn place_beside(
        &self,
        spans: &[Arrived<'_>],
        telling: Telling,
        at: usize,
        adding: &Adding,
    ) -> Result<Option<bool>, Error> {
        if spans.first().is_some_and(|first| adding.has(&first.span.context.trace_bytes())) {
            return Ok(Some(true));
        }
        let place = self.place(spans, telling)?.filter(|place| place.at == at);
        Ok(place.map(|place| place.is_stored))
    }

    /// Finds the segment that the spans of a trace belong to: the one with their trace, else the one
    /// of their time, unless that is over.
    fn place(&self, spans: &[Arrived<'_>], telling: Telling) -> Result<Option<Placed>, Error> {
        let Some(Arrived { span, .. }) = spans.first() else { return Ok(None) };
        let trace = span.context.trace_bytes();
        if let Some(at) = self.segments.iter().position(|segment| segment.recent.has(&trace)) {
            return Ok(Some(Placed { at, is_stored: true }));
        }
        let by_time = self.segments.partition_point(|segment| segment.from <= span.start);
        let by_time = by_time.saturating_sub(1);
        let others = (0..self.segments.len()).rev().filter(|at| *at != by_time);
        for at in [by_time].into_iter().chain(others) {
            let Some(segment) = self.segments.get(at) else { continue };
            if segment.has(&trace)? {
                return Ok(Some(Placed { at, is_stored: true }));
            }
        }
        let dropped = self.kept.dropped.before.filter(|_| telling == Telling::Again);
        let is_over = dropped.is_some_and(|before| span.start < before);
        Ok((!is_over).then_some(Placed { at: by_time, is_stored: false }))
    }

    /// Begins the next segment, cuts one in two, or makes room, as the growth of one asks for.
    fn settle(&mut self, main: &sled::Db, at: usize) -> Result<(), Error> {
        let target = self.target();
        let is_last = at + 1 == self.segments.len();
        let Some(segment) = self.segments.get_mut(at) else { return Ok(()) };
        segment.measure();
        if is_last && segment.bytes >= target {
            segment.write_recent()?;
            // Traces may begin before their segment does, once spans above them are known.
            let last = segment.begin_of(End::Last)?.max(Some(segment.from)).unwrap_or_default();
            let from = Timestamp::from_micros(last.as_micros().saturating_add(1));
            if from > last {
                self.push(main, from)?;
            }
        } else if segment.bytes >= target.saturating_mul(2) {
            self.cut(main, at)?;
        }
        self.shrink(main)
    }

    /// Begins a segment behind all others.
    fn push(&mut self, main: &sled::Db, from: Timestamp) -> Result<(), Error> {
        let segment = Segment::create(&self.dir, self.kept.next, from)?;
        self.kept.next += 1;
        self.segments.push(segment);
        self.save(main)
    }

    /// Puts the traces of a segment into two new ones, the older half and the younger.
    fn cut(&mut self, main: &sled::Db, at: usize) -> Result<(), Error> {
        let Some(old) = self.segments.get_mut(at) else { return Ok(()) };
        old.write_recent()?;
        let (first, middle) = (old.begin_of(End::First)?, old.begin_of(End::Middle)?);
        let is_between = |middle: &Timestamp| Some(*middle) > first && *middle > old.from;
        let Some(middle) = middle.filter(is_between) else { return Ok(()) };
        let mut halves = Vec::with_capacity(2);
        for (from, until) in [(old.from, Some(middle)), (middle, None)] {
            let number = self.kept.next + halves.len() as u64;
            let mut half = Segment::create(&self.dir, number, from)?;
            copy(&*old.database()?, &mut half, until.is_none().then_some(middle), until)?;
            half.flush()?;
            half.measure();
            halves.push(half);
        }
        self.kept.next += 2;
        let gone: Vec<Segment> = self.segments.splice(at..=at, halves).collect();
        self.save(main)?;
        gone.into_iter().try_for_each(Segment::remove)
    }

    /// Removes the oldest segments until what is left has room.
    fn shrink(&mut self, main: &sled::Db) -> Result<(), Error> {
        let most = self.kept.bytes_max - self.target() * SHARES_FREE;
        while self.segments.len() > 1 && self.usage().bytes > most {
            let gone = self.segments.remove(0);
            self.kept.dropped.traces += gone.traces();
            self.kept.dropped.before = self.segments.first().map(|segment| segment.from);
            tracing::info!(
                traces = gone.traces(),
                dropped = self.kept.dropped.traces,
                "the oldest traces are dropped, so that all take no more than they may"
            );
            self.save(main)?;
            gone.remove()?;
        }
        Ok(())
    }

    /// Writes out all segments.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.segments.iter_mut().try_for_each(Segment::flush)
    }

    /// Tells whether all that was added survives the end of the process.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.has_lost && self.segments.iter().all(|segment| segment.unflushed == 0)
    }

    /// Says in the store's own database what there is. It is on the disk before a segment goes.
    fn save(&mut self, main: &sled::Db) -> Result<(), Error> {
        self.kept.segments =
            self.segments.iter().map(|segment| (segment.from, segment.number)).collect();
        let bytes = record::to_json(&self.kept)?;
        let encoded = record::encode(key::SHELF, &bytes)?;
        main.insert(key::SHELF, encoded.head)
            .map_err(|error| Error::engine("write the list of segments", error))?;
        database::flush(main)
    }

    /// Drops traces that were over at a time or before, some at once; returns how many records went.
    /// Those of runs in work stay, but no longer than all of them have room.
    pub(crate) fn drop_until(&mut self, main: &sled::Db, cutoff: Timestamp) -> Result<u64, Error> {
        for at in 0..self.segments.len() {
            let is_only = self.segments.len() == 1;
            let Some(segment) = self.segments.get_mut(at) else { continue };
            segment.write_recent()?;
            let ended = match segment.outline() {
                Some(outline) => outline.ended(cutoff),
                None => trace::ended(&*segment.opened()?, cutoff)?,
            };
            match ended {
                Ended::None => continue,
                Ended::All if segment.state().traces == 0 && is_only => continue,
                Ended::All => {
                    let gone = self.segments.remove(at);
                    self.save(main)?;
                    let records = gone.state().records;
                    gone.remove()?;
                    return Ok(records.max(1));
                }
                Ended::Some => {}
            }
            let database = segment.opened()?;
            let mut pending = Pending::new(&database, *segment.state());
            let is_open = |run: &RunId| {
                let found = main.contains_key(key::open(run));
                found.map_err(|error| Error::engine("drop old traces", error))
            };
            let dropped = trace::drop_until(&database, &mut pending, cutoff, is_open)?;
            if dropped > 0 {
                segment.recent = Recent::default();
                segment.change(pending.commit()?, 1);
                return Ok(dropped);
            }
        }
        Ok(0)
    }

    /// Closes the segments that nobody used since this was called before, but the one that grows.
    pub(crate) fn rest(&mut self) -> Result<(), Error> {
        self.since_rest = 0;
        let [rest @ .., _] = self.segments.as_mut_slice() else { return Ok(()) };
        rest.iter_mut().try_for_each(Segment::rest)
    }
}

/// Copies the traces that began from one time on, and before another.
fn copy(
    old: &sled::Tree,
    half: &mut Segment,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<(), Error> {
    let database = half.database()?;
    let mut pending = Pending::new(&database, *half.state());
    for key in old.scan_prefix(key::Space::TraceAt.key(&[])).keys() {
        let key = key.map_err(|error| Error::engine("copy a trace", error))?;
        let Some(start) = key::time_of(&key) else { continue };
        if from.is_some_and(|from| start < from) || until.is_some_and(|until| start >= until) {
            continue;
        }
        trace::copy(old, &mut pending, key::id_of(&key))?;
        if pending.bytes() >= GROUP_BYTES_MAX {
            pending = Pending::new(&database, pending.commit()?);
        }
    }
    half.change(pending.commit()?, 1);
    Ok(())
}
