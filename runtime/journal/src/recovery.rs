//! Reads the log back after a start: what is whole, what a crash left unfinished, what is damaged.
//!
//! Bad bytes at or above everything that is known to have been durable are the torn end of the
//! last write; nobody was told of them. Bad bytes below it are damage. The frame that follows a
//! damaged place says how many commits are lost and, up to [`RECENT`] of them, of which sessions;
//! the frontier says how long each session was at the last start, roll or close. Where neither
//! tells, every session that wrote nothing after the place is set aside: it cannot prove that it
//! lost nothing, and a session that forgot an effect would repeat it.
//!
//! A commit that begins holds all that those before it came to, and a session that is forgotten
//! needs none. So whatever is missing of a session before the last such frame is missed by nobody:
//! rewriting segments drops it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use wire::SessionId;

use crate::error::Error;
use crate::frame::{self, Frame, Kind, Place, RECENT, Tag};
use crate::frontier::{self, Frontier};
use crate::index::{Index, Segment, Spot};
use crate::kept::{self, Frames};
use crate::report::{Damage, Report};
use crate::segment::{self, Listed, Listing, Piece, Pieces};

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) index: Index,
    pub(crate) report: Report,
    /// Where the next frame goes.
    pub(crate) place: Place,
    /// The last segment, if it can be gone on with.
    pub(crate) tail: Option<Tail>,
    /// Segments whose creation or removal a crash cut short; they hold nothing that is needed.
    pub(crate) unfinished: Vec<PathBuf>,
}

/// The last segment.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) base: u64,
    pub(crate) path: PathBuf,
    /// Everything from this position on is torn.
    pub(crate) end: u64,
    /// Everything before this position is known to be durable.
    pub(crate) durable: u64,
}

/// Scans a journal directory, and changes nothing there.
pub(crate) fn scan(dir: &Path) -> Result<Scan, Error> {
    // The frontier comes first, so that a log which grows meanwhile is never behind it.
    let known = frontier::load(dir)?;
    let Listing { mut segments, replaced } = segment::list(dir)?;
    let mut scanner = Scanner::default();
    scanner.report.segments = segments.len() as u64;
    match known.as_deref().map(frontier::decode) {
        Some(Some(known)) => scanner.known = known,
        Some(None) => scanner.note("frontier", "is not readable, a missing end would not show"),
        None if segments.is_empty() => {}
        None => scanner.note("frontier", "is missing, a missing end would not show"),
    }

    let mut frameless = Vec::new();
    let mut last = None;
    while let Some(Listed { base, path, .. }) = segments.pop_if(|last| last.kept_end.is_none()) {
        let bytes = segment::load(&path)?;
        if Pieces::of(&bytes, base).any(|piece| matches!(piece, Piece::Frame(_))) {
            last = Some((base, path, bytes));
            break;
        }
        frameless.push((base, path, bytes.len() as u64));
    }
    for Listed { base, kept_end, path } in segments {
        let bytes = segment::load(&path)?;
        match kept_end {
            Some(end) => scanner.kept(base, end, &bytes),
            None => scanner.segment(base, &bytes),
        }
    }
    let tail = last.and_then(|(base, path, bytes)| scanner.last_segment(base, path, &bytes));
    let mut unfinished = replaced;
    for (base, path, length) in frameless.into_iter().rev() {
        scanner.report.bytes += length;
        if base == scanner.end && base >= scanner.known.position {
            scanner.report.torn_tail_bytes += length;
            unfinished.push(path);
        } else {
            scanner.note(&segment_file(base), "holds nothing that belongs to the log");
        }
    }
    Ok(scanner.finish(tail, unfinished))
}

/// Bytes that were durable and are bad.
#[derive(Debug)]
struct Hole {
    segment: String,
    offset: u64,
    start: u64,
    end: u64,
    what: String,
    /// The sessions of the commits that are lost in it, as far as they are known.
    tags: Vec<Tag>,
    /// More commits are lost than `tags` tells.
    unnamed: bool,
}

/// A session whose frames do not fit together.
struct Suspect {
    session: SessionId,
    segment: String,
    offset: u64,
    what: String,
}

#[derive(Default)]
struct Scanner {
    index: Index,
    report: Report,
    known: Frontier,
    /// The position after all that was scanned.
    end: u64,
    /// Commits before that position, those that are lost included.
    number: u64,
    epoch: u32,
    recent: [Tag; RECENT],
    /// The segment that was scanned last, and its file.
    base: u64,
    name: String,
    /// A hole that no frame has followed yet.
    open: Option<Hole>,
    holes: Vec<Hole>,
    suspects: Vec<Suspect>,
}

impl Scanner {
    fn note(&mut self, segment: &str, what: &str) {
        let (segment, what) = (segment.to_owned(), what.to_owned());
        self.report.damage.push(Damage { segment, offset: 0, sessions: Vec::new(), what });
    }

    /// Scans a segment that others follow: all of it was durable when the next one was begun.
    fn segment(&mut self, base: u64, bytes: &[u8]) {
        if self.begin(base, bytes.len() as u64) {
            self.pieces(base, bytes, u64::MAX);
        }
    }

    /// Scans the last segment, whose end may be torn. Returns it if it can be gone on with.
    fn last_segment(&mut self, base: u64, path: PathBuf, bytes: &[u8]) -> Option<Tail> {
        if !self.begin(base, bytes.len() as u64) {
            return None;
        }
        let synced_to = Pieces::of(bytes, base).filter_map(|piece| match piece {
            Piece::Frame(frame) => Some(frame.place.synced_to),
            Piece::Bad(..) => None,
        });
        let durable = synced_to.max().unwrap_or(0).max(self.known.position).max(base);
        self.pieces(base, bytes, durable);
        self.report.torn_tail_bytes += (base + bytes.len() as u64).saturating_sub(self.end);
        (self.open.is_none() && self.end >= self.known.position).then_some(Tail {
            base,
            path,
            end: self.end,
            durable,
        })
    }

    fn begin(&mut self, base: u64, length: u64) -> bool {
        self.report.bytes += length;
        if base < self.end {
            self.note(&segment_file(base), "begins before the end of the segment before it");
            return false;
        }
        if base > self.end {
            self.bad(self.end, base, "bytes are missing");
        }
        self.base = base;
        self.name = segment::name(base);
        let segment = Segment { end: base, bytes: length, ..Segment::default() };
        self.index.segments.insert(base, segment);
        true
    }

    /// Scans a rewritten segment: all of it was durable before it took its name.
    fn kept(&mut self, base: u64, end: u64, bytes: &[u8]) {
        if !self.begin(base, bytes.len() as u64) {
            return;
        }
        self.name = segment::kept_name(base, end);
        let Some((head, frame)) = kept::open(bytes, base, end) else {
            self.bad(base, end, "bytes are no rewritten segment");
            self.end = end;
            self.finish_segment(base, Some(Vec::new()), 0, true);
            return;
        };
        self.frame(&frame);
        let (mut offsets, mut bad) = (Vec::new(), None);
        let mut missing = head.counts.clone();
        for (offset, piece) in Frames::of(bytes, &head, frame.bytes.len()) {
            match piece {
                Piece::Bad(from, to) => drop(bad.get_or_insert((from, to))),
                Piece::Frame(frame) => {
                    offsets.push((frame.place.position, offset));
                    if let Ok(session) = SessionId::new(frame.session) {
                        if let Some(count) = missing.get_mut(&session) {
                            *count = count.saturating_sub(1);
                        }
                        self.of_session(&session, &frame);
                    }
                }
            }
        }
        let tags: Vec<Tag> =
            missing.iter().filter(|(_, count)| **count > 0).map(|(s, _)| frame::tag(s)).collect();
        let is_harmed = bad.is_some() || !tags.is_empty();
        if is_harmed {
            let (from, to) = bad.unwrap_or_default();
            let what = format!("{} bytes are no frame", to - from);
            let (segment, _) = self.locate(base);
            let hole = Hole { segment, offset: from, start: base, end, what, tags, unnamed: false };
            self.holes.push(hole);
        }
        (self.end, self.number, self.recent) = (end, head.number_end, head.recent_end);
        self.epoch = self.epoch.max(head.epoch);
        self.index.floor = self.index.floor.max(head.floor);
        self.finish_segment(base, Some(offsets), frame.bytes.len() as u64, is_harmed);
    }

    fn finish_segment(
        &mut self,
        base: u64,
        offsets: Option<Vec<(u64, u64)>>,
        fixed_bytes: u64,
        is_harmed: bool,
    ) {
        if let Some(segment) = self.index.segments.get_mut(&base) {
            segment.end = self.end;
            segment.offsets = offsets;
            segment.fixed_bytes = fixed_bytes;
            segment.is_harmed |= is_harmed;
        }
    }

    /// Takes the pieces of a segment, up to the first bad one at or above `durable`.
    fn pieces(&mut self, base: u64, bytes: &[u8], durable: u64) {
        let (mut head_bytes, mut is_harmed) = (0, false);
        for piece in Pieces::of(bytes, base) {
            match piece {
                Piece::Bad(start, _) if start >= durable => break,
                Piece::Bad(start, end) => {
                    self.bad(start, end, "bytes are no frame");
                    self.end = end;
                    is_harmed = true;
                }
                Piece::Frame(frame) => {
                    if frame.kind == Kind::Segment {
                        head_bytes += frame.bytes.len() as u64;
                    }
                    self.end = frame.place.position + frame.bytes.len() as u64;
                    self.frame(&frame);
                }
            }
        }
        self.end = self.end.max(base);
        self.finish_segment(base, None, head_bytes, is_harmed);
        if let Some(segment) = self.index.segments.get_mut(&base) {
            segment.bytes = self.end - base;
        }
    }

    fn bad(&mut self, start: u64, end: u64, what: &str) {
        let what = format!("{} {what}", end.saturating_sub(start));
        if let Some(hole) = &mut self.open {
            hole.end = end;
            hole.what = format!("{}, then {what}", hole.what);
            return;
        }
        let (segment, offset) = self.locate(start);
        self.open =
            Some(Hole { segment, offset, start, end, what, tags: Vec::new(), unnamed: false });
    }

    fn locate(&self, position: u64) -> (String, u64) {
        (format!("journal/{}", self.name), position.saturating_sub(self.base))
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        let place = &frame.place;
        let lost = place.number.saturating_sub(self.number);
        if lost > 0 && self.open.is_none() {
            self.bad(place.position, place.position, "bytes are bad, but commits are missing");
            if let Some(segment) = self.index.segments.get_mut(&self.base) {
                segment.is_harmed = true;
            }
        }
        if let Some(mut hole) = self.open.take() {
            let named = place.recent.iter().take(usize::try_from(lost).unwrap_or(usize::MAX));
            hole.tags = named.copied().filter(|tag| *tag != 0).collect();
            hole.unnamed = (hole.tags.len() as u64) < lost;
            self.holes.push(hole);
        }
        self.number = self.number.max(place.number);
        self.recent = place.recent;
        if frame.session.is_empty() {
            if !matches!(frame.kind, Kind::Segment | Kind::Kept | Kind::Gap) {
                let (segment, _) = self.locate(place.position);
                self.note(&segment, "holds a frame that this version does not know");
            }
        } else if let Ok(session) = SessionId::new(frame.session) {
            self.number += 1;
            push_recent(&mut self.recent, frame::tag(&session));
            self.of_session(&session, frame);
        }
        self.epoch = self.epoch.max(place.epoch);
    }

    /// Takes a frame of a session.
    fn of_session(&mut self, session: &SessionId, frame: &Frame<'_>) {
        match frame.kind {
            Kind::Gone => self.index.forget(session, spot(frame)),
            Kind::Begin if !self.follows(session, frame) => {
                self.index.sessions.entry(session.clone()).or_default().reset();
            }
            Kind::Begin | Kind::Commit | Kind::Newer => {}
            Kind::Segment | Kind::Frontier | Kind::Kept | Kind::Gap => return,
        }
        if frame.kind == Kind::Gone || frame.kind == Kind::Begin {
            self.suspects.retain(|suspect| suspect.session != *session);
        }
        if frame.kind != Kind::Gone
            && let Err(what) = self.commit(session, frame)
        {
            let (segment, offset) = self.locate(frame.place.position);
            self.index.set_aside(session, &what);
            self.suspects.push(Suspect { session: session.clone(), segment, offset, what });
        }
    }

    /// Tells whether a commit that begins also follows what is held of its session.
    fn follows(&self, session: &SessionId, frame: &Frame<'_>) -> bool {
        let found = self.index.sessions.get(session).filter(|found| found.damage.is_none());
        found.zip(frame.commit()).is_some_and(|(found, commit)| {
            !found.spots.is_empty()
                && (commit.first_slot, commit.prev) == (found.slots, found.chain)
        })
    }

    /// Adds a commit to its session, unless it does not fit.
    fn commit(&mut self, session: &SessionId, frame: &Frame<'_>) -> Result<(), String> {
        let found = self.index.sessions.entry(session.clone()).or_default();
        if found.damage.is_some() {
            return Ok(());
        }
        if frame.kind == Kind::Newer {
            return Err("an entry was written by a newer version, start that one again".into());
        }
        found.oldest.get_or_insert(frame.place.position);
        let commit = frame.commit().ok_or("a commit is not readable")?;
        if frame.place.epoch < self.epoch {
            return Err(format!("slot {} was written by an earlier start", commit.first_slot));
        }
        if frame.kind == Kind::Begin {
            found.begin(commit.first_slot);
            found.push(spot(frame), u64::from(commit.count), frame::chain(frame.bytes));
            return Ok(());
        }
        if commit.first_slot != found.slots {
            return Err(format!("slot {} is missing", found.slots));
        }
        if commit.prev != found.chain {
            return Err(format!("slot {} does not follow the one before it", found.slots));
        }
        found.push(spot(frame), u64::from(commit.count), frame::chain(frame.bytes));
        Ok(())
    }

    fn finish(mut self, tail: Option<Tail>, unfinished: Vec<PathBuf>) -> Scan {
        if self.end < self.known.position {
            self.bad(self.end, self.known.position, "bytes at the end are missing");
            self.end = self.known.position;
        }
        if self.number < self.known.number {
            // What comes next must not seem to know whose the lost commits were.
            self.number = self.known.number;
            self.recent = [0; RECENT];
        }
        // Of one that nothing follows nobody tells whose commits are lost in it.
        let unnamed = self.holes.iter().filter(|hole| hole.unnamed).chain(&self.open);
        let unsure_from = unnamed.map(|hole| hole.start).max();
        self.holes.extend(self.open.take());
        self.name_lost();
        self.compare_with_known(unsure_from);
        self.report_suspects();

        let readable = self.index.sessions.values().filter(|found| found.damage.is_none());
        for found in readable.filter(|found| !found.spots.is_empty()) {
            self.report.sessions += 1;
            self.report.commits += found.spots.len() as u64;
            self.report.entries += found.slots - found.first_slot;
            let lengths = found.spots.iter().map(|spot| u64::from(spot.length));
            self.report.live_bytes += lengths.sum::<u64>();
        }
        self.index.end = self.end;
        self.index.count_live();
        let place = Place {
            position: self.end,
            number: self.number,
            synced_to: self.end,
            epoch: self.epoch.max(self.known.epoch).saturating_add(1),
            recent: self.recent,
        };
        Scan { index: self.index, report: self.report, place, tail, unfinished }
    }

    /// Sets aside the sessions that lost commits in a hole.
    fn name_lost(&mut self) {
        // Each session with the position from which on it is held, or was forgotten.
        let mut by_tag: HashMap<Tag, Vec<(SessionId, u64)>> = HashMap::new();
        if self.holes.iter().any(|hole| !hole.tags.is_empty()) {
            let gone = self.index.gone.iter().map(|(id, gone)| (id, gone.spot.position));
            let held = self.index.sessions.iter().map(|(id, found)| {
                let first = found.spots.first().filter(|_| found.first_slot > 0);
                (id, first.map_or(0, |spot| spot.position))
            });
            for (session, from) in held.chain(gone) {
                by_tag.entry(frame::tag(session)).or_default().push((session.clone(), from));
            }
        }
        for hole in std::mem::take(&mut self.holes) {
            let mut sessions = HashSet::new();
            for tag in &hole.tags {
                match by_tag.get(tag) {
                    Some(named) => {
                        // Nobody misses what stood before that.
                        for (session, _) in named.iter().filter(|(_, from)| *from < hole.end) {
                            if self.index.sessions.contains_key(session) {
                                sessions.insert(session.clone());
                            } else {
                                self.index.lost.insert(*tag);
                            }
                        }
                    }
                    None => drop(self.index.lost.insert(*tag)),
                }
            }
            if hole.unnamed && hole.end > self.known.position {
                let silent = |last: Option<&Spot>| last.map(|l| l.position) < Some(hole.start);
                let all = self.index.sessions.iter();
                let unproven = all.filter(|(_, found)| silent(found.spots.last()));
                sessions.extend(unproven.map(|(session, _)| session.clone()));
            }
            for session in &sessions {
                self.index.set_aside(session, &format!("entries are lost, {}", hole.what));
            }
            let mut sessions: Vec<SessionId> = sessions.into_iter().collect();
            sessions.sort_unstable();
            let Hole { segment, offset, what, .. } = hole;
            self.report.damage.push(Damage { segment, offset, sessions, what });
        }
    }

    /// Sets aside the sessions that were longer at the frontier, and those that were set aside before
    /// it and may still lack something. That the log is whole again, as after a file was put back,
    /// shows by itself: rewriting leaves holes as they are. What is not sure is whose commits are
    /// lost in holes that do not name them, the last of which begins at some position.
    fn compare_with_known(&mut self, unsure_from: Option<u64>) {
        for known in std::mem::take(&mut self.known.sessions) {
            let found = self.index.sessions.get(&known.session);
            if found.is_none() && self.index.gone.contains_key(&known.session) {
                continue;
            }
            let slots = found.map_or(0, |found| found.slots);
            if found.is_some_and(|found| found.damage.is_some()) {
                continue;
            }
            let last = found.and_then(|found| found.spots.last()).map(|spot| spot.position);
            let what = if slots < known.slots {
                format!("{slots} entries are left of {}", known.slots)
            } else if known.damaged && (last.is_none() || last < unsure_from) {
                "it was set aside at an earlier start".to_owned()
            } else {
                continue;
            };
            self.index.set_aside(&known.session, &what);
            let (segment, offset) = self.locate(self.end);
            self.report.damage.push(Damage {
                segment,
                offset,
                sessions: vec![known.session],
                what,
            });
        }
    }

    /// Reports the suspects that no hole explains.
    fn report_suspects(&mut self) {
        let named: HashSet<SessionId> =
            self.report.damage.iter().flat_map(|damage| damage.sessions.clone()).collect();
        for suspect in std::mem::take(&mut self.suspects) {
            if !named.contains(&suspect.session) {
                let Suspect { session, segment, offset, what } = suspect;
                self.report.damage.push(Damage { segment, offset, sessions: vec![session], what });
            }
        }
    }
}

/// Puts a session in front of the recent ones.
pub(crate) fn push_recent(recent: &mut [Tag; RECENT], tag: Tag) {
    recent.rotate_right(1);
    if let Some(newest) = recent.first_mut() {
        *newest = tag;
    }
}

fn spot(frame: &Frame<'_>) -> Spot {
    let length = u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX);
    Spot { position: frame.place.position, length }
}

fn segment_file(base: u64) -> String {
    format!("journal/{}", segment::name(base))
}

#[cfg(test)]
mod tests;
