//! The store: opened or replaced, changed in batches by one, read by many.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use wire::entry::Fact;
use wire::{CallKey, OpenCall, OpenKind, RunId, SessionId, SpanRecord, Timestamp};

use crate::batch::next_batch;
use crate::change::{Change, Gathered, Telling};
use crate::database::{self, abandon, guard};
use crate::error::Error;
use crate::home::{Home, Left, wait_until_free};
use crate::load::{Loaded, load, start};
use crate::pending::{Pending, State};
use crate::replies::Replies;
use crate::run::{self, RunRow};
use crate::session::{self, SessionRow};
use crate::shelf::{Shelf, TraceUsage};
use crate::trace::query::{TracePage, TraceQuery};
use crate::trace::told::{SpanSource, TraceSpans};
use crate::usage::{self, UsageRow};
use crate::{call, fact};

/// The store of one team. Clones share it; the last one to go closes it, unless
/// [`Store::close`] did.
///
/// Every call blocks. Look-ups see whole batches.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// How a store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// As it was left.
    Ready,
    /// Empty, because there was none.
    Fresh,
    /// Empty, because what was there could not be used.
    Replaced {
        /// Where that is now.
        moved_to: PathBuf,
        /// What was wrong with it.
        reason: String,
    },
}

struct Shared {
    /// Taken out while it is opened again or when it is closed, or left behind when it is damaged.
    database: RwLock<Option<sled::Db>>,
    /// Gone once it is closed.
    home: Mutex<Option<Home>>,
    /// Held for as long as the database is used, so that it can be opened again.
    ///
    /// Held alone while flushing, since two flushes at once can block each other for good.
    state: RwLock<State>,
    /// Taken after the state by those who take both.
    shelf: RwLock<Shelf>,
    replies: Arc<Replies>,
    /// Set once, by what was found; from then on nothing is read or written.
    damage: Mutex<Option<String>>,
    /// Tells the spans of traces.
    spans: Mutex<Option<Arc<dyn SpanSource>>>,
}

impl Store {
    /// Opens the store of a directory, or replaces it where it is damaged, of another schema, or
    /// was open when the machine stopped.
    pub fn open(dir: &Path) -> Result<(Self, Opened), Error> {
        let (mut home, left) = Home::take(dir)?;
        let reason = match left {
            Left::Absent => return Ok((Self::begin(home)?, Opened::Fresh)),
            Left::Unsound(reason) => reason,
            Left::Sound => {
                // What is opened is written to, and none of that need be on the disk.
                home.mark_open()?;
                match load(&home, Arc::new(Replies::of(home.replies()))) {
                    Ok(loaded) => return Ok((Self::hold(home, loaded), Opened::Ready)),
                    Err(Error::Damaged { doing, reason }) => format!("{doing}: {reason}"),
                    Err(error) => return Err(error),
                }
            }
        };
        let (home, moved_to) = home.replace()?;
        Ok((Self::begin(home)?, Opened::Replaced { moved_to, reason }))
    }

    fn begin(mut home: Home) -> Result<Self, Error> {
        home.mark_new()?;
        let doing = "create the store";
        let database = guard(doing, || start(&home))?;
        guard(doing, || database::begin(&database, doing))?;
        let segments = Shelf::begin(home.traces());
        let replies = Arc::new(Replies::of(home.replies()));
        home.mark_open()?;
        Ok(Self::hold(home, Loaded { database, state: State::default(), segments, replies }))
    }

    /// Shares what was opened in a directory that is marked as open.
    fn hold(home: Home, loaded: Loaded) -> Self {
        let Loaded { database, state, segments, replies } = loaded;
        Self {
            shared: Arc::new(Shared {
                database: RwLock::new(Some(database)),
                home: Mutex::new(Some(home)),
                state: RwLock::new(state),
                shelf: RwLock::new(segments),
                replies,
                damage: Mutex::new(None),
                spans: Mutex::new(None),
            }),
        }
    }

    /// Returns the journal position up to which changes are applied; 0 when the store is fresh.
    pub fn position(&self) -> u64 {
        self.shared.state.read().unwrap_or_else(PoisonError::into_inner).position
    }

    /// Makes changes, in order, and moves the position along with the last of them.
    ///
    /// A position never goes back. On an error some of the changes may have been made and the
    /// position has not moved, so they may be applied again. What was dropped stays so.
    pub fn apply(&self, changes: &[Change], position: Option<u64>) -> Result<(), Error> {
        self.make(changes, Telling::Again, position)
    }

    /// Makes changes that were decided a moment ago, in order: none of them was ever dropped, whatever
    /// the clock said then and says now.
    pub fn apply_new(&self, changes: &[Change]) -> Result<(), Error> {
        self.make(changes, Telling::First, None)
    }

    fn make(
        &self,
        changes: &[Change],
        telling: Telling,
        position: Option<u64>,
    ) -> Result<(), Error> {
        let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.shared.shelf.write().unwrap_or_else(PoisonError::into_inner);
        let replies = &self.shared.replies;
        self.shared.guard("apply changes", |database| {
            segments.add(database, changes.iter().filter_map(Change::span), telling)?;
            let mut rest = changes;
            while let Some((batch, later)) = next_batch(rest) {
                *state = write(database, replies, *state, batch, telling)?;
                rest = later;
            }
            let position = state.position.max(position.unwrap_or(0));
            // Spans that a crash would take are folded again, so what is written waits for them.
            let durable = if segments.is_flushed() { position } else { state.durable };
            let moved = State { durable, position, ..*state };
            *state = write(database, replies, moved, rest, telling)?;
            replies.tidy(database);
            Ok(())
        })
    }

    /// Opens the database again, for all who share the store. One that met a full disk reads on, but
    /// in segments that are closed, and writes nothing more until then; what it had not written by then is lost, so the position may
    /// go back.
    pub fn reopen(&self) -> Result<(), Error> {
        let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.shared.shelf.write().unwrap_or_else(PoisonError::into_inner);
        let doing = "open the store again";
        if let Some(reason) = self.shared.damaged() {
            return Err(Error::damaged(doing, reason));
        }
        let held = self.shared.home.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(home) = &*held else { return Err(Error::Closed { doing }) };
        drop(self.shared.database.write().unwrap_or_else(PoisonError::into_inner).take());
        let dirs = segments.dirs();
        drop(std::mem::take(&mut *segments));
        let free = dirs.iter().try_for_each(|dir| wait_until_free(dir));
        let loaded = free.and_then(|()| load(home, self.shared.replies.clone()));
        drop(held);
        match loaded {
            Ok(loaded) => {
                (*state, *segments) = (loaded.state, loaded.segments);
                *self.shared.database.write().unwrap_or_else(PoisonError::into_inner) =
                    Some(loaded.database);
                Ok(())
            }
            Err(error) => {
                self.shared.note(&error);
                Err(error)
            }
        }
    }

    /// Writes out what was applied, so that it survives the end of the process.
    pub fn flush(&self) -> Result<(), Error> {
        let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.shared.shelf.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.guard("flush the store", |database| {
            *state = flush(database, *state, &mut segments)?;
            Ok(())
        })
    }

    /// Writes out what was applied and lets go of the directory, whoever else shares the store:
    /// they are told from then on that it is closed.
    pub fn close(&self) -> Result<(), Error> {
        self.shared.close()
    }

    /// Gives the store up as damaged, for what its owner found: nothing is read or written from then
    /// on, and who opens it next replaces it, for this reason.
    pub fn give_up(&self, reason: &str) {
        self.shared.note(&Error::damaged("use the store", reason));
    }

    /// Sets how many bytes traces may take on the disk, sled's growth included; it is remembered.
    /// The oldest go until what is left takes no more. Less than
    /// [`TRACE_BYTES_MIN`](crate::TRACE_BYTES_MIN) is taken for that.
    pub fn set_trace_bytes_max(&self, bytes_max: u64) -> Result<(), Error> {
        let _state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.shared.shelf.write().unwrap_or_else(PoisonError::into_inner);
        self.shared
            .guard("make room for traces", |database| segments.set_bytes_max(database, bytes_max))
    }

    /// Returns what traces take on the disk, and what went so that they take no more.
    pub fn trace_usage(&self) -> TraceUsage {
        self.shared.shelf.read().unwrap_or_else(PoisonError::into_inner).usage()
    }

    /// Reads and counts every record, replies in files among them; returns how many there are, or what is damaged.
    pub fn verify(&self) -> Result<u64, Error> {
        self.read("verify the store", |database, state| {
            let segments = self.shared.shelf.read().unwrap_or_else(PoisonError::into_inner);
            database::count(database, Some(&self.shared.replies), state)?;
            segments.count()?;
            Ok(state.records + segments.records().0)
        })
    }

    /// Drops runs with their replies that ended at a time or before; some at once. Those that a run in
    /// work asked for stay, and those of sessions with open calls. Returns how many records went: as
    /// long as there are any, there may be more.
    ///
    /// What was dropped does not come back, and its turns count no second time, when changes are
    /// made that tell of it again.
    pub fn drop_runs_until(&self, cutoff: Timestamp) -> Result<u64, Error> {
        let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.guard("drop old runs", |database| {
            let replies = &self.shared.replies;
            let mut pending = Pending::new(database, *state).with_replies(replies);
            let dropped = run::drop_until(database, &mut pending, cutoff)?;
            *state = pending.commit()?;
            replies.tidy(database);
            Ok(dropped)
        })
    }

    /// Drops what was used more than [`USAGE_DAYS_MAX`](crate::USAGE_DAYS_MAX) days before the last
    /// one of which there is anything, or before today where that one is still to come, as after a
    /// clock that was ahead; some at once.
    pub fn drop_old_usage(&self, now: Timestamp) -> Result<(), Error> {
        let mut state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.guard("drop old usage", |database| {
            let mut pending = Pending::new(database, *state);
            usage::drop_old(database, &mut pending, now)?;
            *state = pending.commit()?;
            Ok(())
        })
    }

    /// Drops traces that ended at a time or before; some at once. Those with a run in work stay.
    /// Returns how many records went: as long as there are any, there may be more.
    pub fn drop_traces_until(&self, cutoff: Timestamp) -> Result<u64, Error> {
        let _state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.shared.shelf.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.guard("drop old traces", |database| segments.drop_until(database, cutoff))
    }

    /// Closes what nobody used since this was called before, of what is opened when it is needed.
    /// Spans that are added do so too from time to time.
    pub fn rest(&self) -> Result<(), Error> {
        let _state = self.shared.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.shared.shelf.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.guard("close what is not used", |_| segments.rest())
    }

    /// Returns when the oldest of so many newest runs that are over began, if there are as many.
    pub fn newest_since(&self, count: u64) -> Result<Option<Timestamp>, Error> {
        self.read("count runs", |database, _| run::newest_since(database, count))
    }

    /// Returns the sessions that were last active at a time or before, the longest ago first.
    pub fn quiet_since(&self, cutoff: Timestamp) -> Result<Vec<SessionId>, Error> {
        self.read("list sessions", |database, _| session::quiet_since(database, cutoff))
    }

    /// Returns a run.
    pub fn run(&self, run: &RunId) -> Result<Option<RunRow>, Error> {
        self.read("look up a run", |database, _| run::one(database, run))
    }

    /// Returns the newest runs, at most [`LIST_MAX`](crate::LIST_MAX).
    pub fn runs(&self, limit: usize) -> Result<Vec<RunRow>, Error> {
        self.read("list runs", |database, _| run::list(database, limit))
    }

    /// Returns the sessions that have something to do: a run that has not ended, or called agents
    /// that are still to be told to end.
    pub fn unfinished(&self) -> Result<Vec<SessionId>, Error> {
        self.read("list unfinished runs", |database, _| run::unfinished(database))
    }

    /// Returns the reply of a run that ended, byte for byte as it was applied.
    pub fn reply(&self, run: &RunId) -> Result<Option<Vec<u8>>, Error> {
        self.read("look up a reply", |database, _| run::reply(database, &self.shared.replies, run))
    }

    /// Returns the sessions that were active last, at most [`LIST_MAX`](crate::LIST_MAX).
    pub fn sessions(&self, limit: usize) -> Result<Vec<SessionRow>, Error> {
        self.read("list sessions", |database, _| session::list(database, limit))
    }

    /// Returns a session.
    pub fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, Error> {
        self.read("look up a session", |database, _| session::one(database, session))
    }

    /// Returns an open call.
    pub fn open_call(&self, call: &CallKey) -> Result<Option<OpenCall>, Error> {
        self.read("look up an open call", |database, _| call::one(database, call))
    }

    /// Tells whether a session has open calls.
    pub fn has_open_calls(&self, session: &SessionId) -> Result<bool, Error> {
        self.read("look up open calls", |database, _| call::any_written(database, session))
    }

    /// Returns the open calls, all or those of a kind, at most [`LIST_MAX`](crate::LIST_MAX): those
    /// for which a run waits before the others, each the oldest first.
    pub fn open_calls(&self, kind: Option<OpenKind>, limit: usize) -> Result<Vec<OpenCall>, Error> {
        self.read("list open calls", |database, _| call::list(database, kind, limit))
    }

    /// Returns the open calls for which a run waits, at most [`LIST_MAX`](crate::LIST_MAX), the
    /// oldest first.
    pub fn waiting_calls(&self) -> Result<Vec<OpenCall>, Error> {
        self.read("list waiting calls", |database, _| call::waiting(database))
    }

    /// Finds facts by words, best first; a query without words returns the newest.
    pub fn recall(&self, query: &str, limit: usize) -> Result<Vec<Fact>, Error> {
        self.read("recall facts", |database, state| fact::recall(database, state, query, limit))
    }

    /// Returns a fact.
    pub fn fact(&self, id: &CallKey) -> Result<Option<Fact>, Error> {
        self.read("look up a fact", |database, _| fact::one(database, id))
    }

    /// Finds a fact that has the words of a text, as often each, and is as it is wanted.
    ///
    /// It is looked for among [`POSTINGS_SCANNED_MAX`](crate::POSTINGS_SCANNED_MAX) facts that have
    /// the longest of the words, or, for a text without words, among the newest
    /// [`LIST_MAX`](crate::LIST_MAX).
    pub fn fact_like(
        &self,
        text: &str,
        is_wanted: impl Fn(&Fact) -> bool,
    ) -> Result<Option<Fact>, Error> {
        self.read("look for a fact", |database, _| fact::like(database, text, &is_wanted))
    }

    /// Returns the newest facts, at most [`LIST_MAX`](crate::LIST_MAX).
    pub fn facts(&self, limit: usize) -> Result<Vec<Fact>, Error> {
        self.read("list facts", |database, _| fact::list(database, limit))
    }

    /// Returns the runs that have not ended, the oldest first, at most
    /// [`LIST_MAX`](crate::LIST_MAX).
    pub fn open_runs(&self, limit: usize) -> Result<Vec<RunRow>, Error> {
        self.read("list unfinished runs", |database, _| run::open(database, limit))
    }

    /// Returns the spans of a trace by their begin; none if it is not known.
    ///
    /// The trace is named by its id, by a run in it, or by the first digits of its id, four or
    /// more, if no other begins so. Its spans are told by the source that was
    /// [set](Self::set_spans); what that cannot tell is left out.
    pub fn trace(&self, name: &str) -> Result<Vec<SpanRecord>, Error> {
        let found = self.read("look up a trace", |database, _| {
            let segments = self.shared.shelf.read().unwrap_or_else(PoisonError::into_inner);
            match segments.resolve(database, name)? {
                Some(trace) => segments.parts(&trace).map(|parts| Some((trace, parts))),
                None => Ok(None),
            }
        })?;
        let source = self.shared.spans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some((trace, parts)), Some(source)) = (found, source) else { return Ok(Vec::new()) };
        let mut spans = TraceSpans::of(trace);
        for part in &parts {
            if let Err(error) = source.tell(part, &mut spans) {
                tracing::warn!(session = %part.session, %error, "a part of a trace is left out");
            }
        }
        Ok(spans.sorted())
    }

    /// Sets who tells the spans of traces; it is let go of when the store is closed.
    pub fn set_spans(&self, source: Arc<dyn SpanSource>) {
        *self.shared.spans.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    /// Finds traces, the newest first, at most [`LIST_MAX`](crate::LIST_MAX).
    ///
    /// A page may have fewer rows than `limit` and yet be followed by more: see
    /// [`TRACES_SCANNED_MAX`](crate::TRACES_SCANNED_MAX).
    pub fn traces(&self, query: &TraceQuery, limit: usize) -> Result<TracePage, Error> {
        self.read("list traces", |database, _| {
            let segments = self.shared.shelf.read().unwrap_or_else(PoisonError::into_inner);
            let Some(run) = &query.run else { return segments.find(query, limit) };
            match run::trace(database, run)? {
                Some(trace) => segments.find_one(query, &trace),
                None => Ok(TracePage::default()),
            }
        })
    }

    /// Returns what models used from the day of a time on, by day, agent and model.
    pub fn usage(&self, since: Timestamp) -> Result<Vec<UsageRow>, Error> {
        self.read("look up usage", |database, _| usage::since(database, since))
    }

    fn read<T>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&sled::Tree, &State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let state = self.shared.state.read().unwrap_or_else(PoisonError::into_inner);
        self.shared.guard(doing, |database| read(database, &state))
    }
}

impl Shared {
    /// Runs something on the database; damage, in whatever form it shows, ends the store's use.
    fn guard<T>(
        &self,
        doing: &'static str,
        run: impl FnOnce(&sled::Db) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(reason) = self.damaged() {
            return Err(Error::damaged(doing, reason));
        }
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner).clone();
        // It is away when it was closed, or could not be opened again on a disk that is still full.
        let Some(database) = database else { return Err(Error::Closed { doing }) };
        let result = guard(doing, || run(&database));
        if let Err(error) = &result {
            self.note(error);
        }
        result
    }

    fn damaged(&self) -> Option<String> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes what is open; the directory is free from then on.
    fn close(&self) -> Result<(), Error> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut segments = self.shelf.write().unwrap_or_else(PoisonError::into_inner);
        drop(self.spans.lock().unwrap_or_else(PoisonError::into_inner).take());
        let taken = self.database.write().unwrap_or_else(PoisonError::into_inner).take();
        let home = self.home.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (taken, home) {
            (Some(database), _) if self.damaged().is_some() => {
                segments.abandon();
                abandon(database);
                Ok(())
            }
            (Some(database), Some(mut home)) => {
                let mut dirs = segments.dirs();
                dirs.push(home.database());
                guard("close the store", || {
                    *state = flush(&database, *state, &mut segments)?;
                    drop((database, std::mem::take(&mut *segments)));
                    dirs.iter().try_for_each(|dir| wait_until_free(dir))?;
                    home.mark_closed()
                })
            }
            (_, _) => Ok(()),
        }
    }

    /// Notes damage, if an error is that.
    fn note(&self, error: &Error) {
        let Error::Damaged { reason, .. } = error else { return };
        self.damage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| reason.clone());
        let mut home = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(home) = &mut *home
            && let Err(error) = home.mark_damaged(reason)
        {
            tracing::warn!(%error, "cannot mark the store as damaged");
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "store was not closed in order");
        }
    }
}

/// Makes the changes of all but spans, and writes the state with them.
fn write(
    database: &sled::Db,
    replies: &Arc<Replies>,
    state: State,
    changes: &[Change],
    telling: Telling,
) -> Result<State, Error> {
    let mut pending = Pending::new(database, state).with_replies(replies).telling(telling);
    let mut gathered = Gathered::default();
    changes.iter().try_for_each(|change| change.make(&mut pending, &mut gathered))?;
    gathered.put(&mut pending)?;
    pending.commit()
}

fn flush(database: &sled::Db, state: State, segments: &mut Shelf) -> Result<State, Error> {
    segments.flush()?;
    let durable = if segments.is_flushed() { state.position } else { state.durable };
    let state = State { durable, ..state };
    let state = Pending::new(database, state).commit()?;
    database::flush(database)?;
    Ok(state)
}

#[cfg(test)]
mod tests;
