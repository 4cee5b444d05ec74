//! Drops from sessions and the memory what a later entry says anew.

use wire::entry::{Body, Entry, Input, MemoryChange, memory_session};
use wire::{SessionId, Timestamp};

use super::{Cutoffs, Keeper};
use crate::error::Error;

impl Keeper {
    /// Holds no longer what stands before the newest snapshot behind which no run is kept.
    pub(super) fn retire(&self, session: &SessionId, cutoffs: &Cutoffs) -> Result<bool, Error> {
        let first = self.journal.first_slot(session);
        let mut begins = self.journal.begins(session);
        begins.retain(|slot| *slot > first);
        if *session == memory_session() {
            return self.purge_memory(begins.last().copied());
        }
        let Some(until) = cutoffs.runs else { return Ok(false) };
        // Whoever says what came of a call looks at what was around it, whichever snapshot was before.
        if begins.is_empty() || self.store.has_open_calls(session)? {
            return Ok(false);
        }
        let newest = newest_until(&begins, until, |slot| {
            Ok(match self.begin(session, slot)? {
                Some(Body::Session(Input::Snapshot(snapshot))) => {
                    Some(snapshot.seen).filter(|_| snapshot.unresolved.is_empty())
                }
                _ => None,
            })
        });
        Ok(newest?.is_some_and(|slot| self.journal.retire(session, slot)))
    }

    /// Retires all sessions that can be; returns how many.
    pub(super) fn retire_all(&self, cutoffs: &Cutoffs) -> u64 {
        let mut retired = 0;
        for session in self.journal.with_begins() {
            match self.retire(&session, cutoffs) {
                Ok(done) => retired += u64::from(done),
                Err(error) => tracing::warn!(%session, %error, "the session is not shortened"),
            }
        }
        retired
    }

    /// Purges what stands before the entry that says last what is remembered: some of it was
    /// forgotten, and is to be gone.
    fn purge_memory(&self, newest: Option<u64>) -> Result<bool, Error> {
        let Some(slot) = newest else { return Ok(false) };
        let begin = self.begin(&memory_session(), slot)?;
        let is_restated = matches!(begin, Some(Body::Memory(MemoryChange::Restated { .. })));
        Ok(is_restated && self.journal.purge(&memory_session(), slot))
    }

    /// Reads an entry at which reading may begin; none if there is none, or it is of another kind
    /// than this version knows.
    fn begin(&self, session: &SessionId, slot: u64) -> Result<Option<Body>, Error> {
        let bytes = self.journal.read_begin(session, slot)?;
        Ok(bytes.and_then(|bytes| Some(serde_json::from_slice::<Entry>(&bytes).ok()?.body)))
    }
}

/// Returns the newest snapshot at which a session was last seen at some time or before. Since that
/// rises with the slot, few of many are looked at. One that does not tell counts as too new.
fn newest_until(
    slots: &[u64],
    until: Timestamp,
    mut seen: impl FnMut(u64) -> Result<Option<Timestamp>, Error>,
) -> Result<Option<u64>, Error> {
    let (mut newest, mut rest) = (None, slots);
    while let Some((older, [slot, newer @ ..])) = rest.split_at_checked(rest.len() / 2) {
        if seen(*slot)?.is_some_and(|seen| seen <= until) {
            (newest, rest) = (Some(*slot), newer);
        } else {
            rest = older;
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use store::Change;
    use wire::{CallKey, OpenCall};

    use super::*;
    use crate::retention::at_rest::AtRest;
    use crate::retention::pass::Hand as _;
    use crate::session::Tidied;
    use crate::{clock, testing};

    #[test]
    fn of_many_snapshots_few_are_read() {
        // How many there are, which of them are old enough, and how many are read at most.
        let cases = [(0, 0, 0), (1, 0, 1), (1, 1, 1), (7, 3, 3), (1000, 0, 10), (1000, 1000, 10)];
        let cases = cases.into_iter().chain((1..1000).map(|old| (1000, old, 10)));
        for (count, old, reads_max) in cases {
            let slots: Vec<u64> = (1..=count).map(|number| number * 256).collect();
            let mut reads = 0;
            let newest = newest_until(&slots, Timestamp::from_micros(old * 256), |slot| {
                reads += 1;
                Ok(Some(Timestamp::from_micros(slot)))
            });
            assert_eq!(newest.unwrap(), (old > 0).then_some(old * 256), "{old} of {count}");
            assert!(reads <= reads_max, "{old} of {count}: {reads} reads");
        }
        let silent = newest_until(&[1, 2, 3], Timestamp::from_micros(9), |_| Ok(None));
        assert_eq!(silent.unwrap(), None);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_session_with_an_open_call_stays_whole_whichever_snapshot_it_has() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let session = testing::journal_run(&context, "old", 40, None, true).await;
        let keeper = Keeper::of(&context);
        let cutoffs = Cutoffs { runs: Some(clock::now()), ..Cutoffs::default() };
        let hand = AtRest { keeper: keeper.clone(), now: clock::now() };
        assert_eq!(hand.tidy(&session, &cutoffs, false).await.unwrap(), Tidied::Shortened);
        let call = CallKey::new("c").unwrap();
        let open: OpenCall = serde_json::from_value(json!({
            "call": call, "kind": "unknown", "run": "old", "session": session, "agent": "a",
            "tool": "pay", "arguments": {}, "digest": "ab".repeat(32), "attempt": 1, "question": "?",
            "waits": false, "since": 3,
        }))
        .unwrap();
        for (change, is_retired) in
            [(Change::CallOpened(open.into()), false), (Change::CallClosed(call), true)]
        {
            context.projector.begin().project(vec![change]).await;
            context.projector.sync().await;
            assert_eq!(keeper.retire(&session, &cutoffs).unwrap(), is_retired);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_kept_for_ever_is_not_read() {
        let data = tempfile::tempdir().unwrap();
        let context = testing::open(data.path());
        let keeper = Keeper::of(&context);
        let session = SessionId::new("s").unwrap();
        for slot in 0..3 {
            // A blob, so that it is seen whether anybody asks for it.
            let entry = vec![b'x'; 64 << 10];
            context.journal.append_begin(&session, slot, entry.into()).await.unwrap();
        }
        let digest = wire::Digest::of(&vec![b'x'; 64 << 10]);
        let unreadable = testing::Unreadable::blob(data.path(), &context, &digest);
        for (runs, is_read) in [(None, false), (Some(Timestamp::from_micros(1)), true)] {
            let cutoffs = Cutoffs { runs, ..Cutoffs::default() };
            let retired = keeper.retire(&session, &cutoffs);
            assert_eq!(retired.is_err(), is_read, "{runs:?}: {retired:?}");
        }
        drop(unreadable);
        assert_eq!(context.journal.first_slot(&session), 0);
    }
}
