//! Batches: as many changes as are written at once.

use crate::change::Change;
use crate::record::FILE_BYTES_MIN;

/// About the most bytes that are written at once: a batch is in memory until the last of it is
/// written.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// About what a change takes that writes some rows.
const ROWS_BYTES: usize = 1024;
/// About what a turn takes. Those of a run write one small row together, however many they are, and
/// what they hold is in memory anyway.
const TURN_BYTES: usize = 64;
/// About what a call takes about which a person has something to say, with its arguments.
const CALL_BYTES: usize = 16 * 1024;
/// About what a fact takes: a long one has thousands of words, each with a record of its own.
const FACT_BYTES: usize = 256 * 1024;

/// Returns the changes that are written next and those after them, if there are too many for one
/// batch.
///
/// A run that begins and ends within one batch is written once, so a batch is as large as memory
/// allows: the sessions in work at once take turns in it.
pub(crate) fn next_batch(changes: &[Change]) -> Option<(&[Change], &[Change])> {
    let mut bytes = 0_usize;
    let too_many = changes.iter().position(|change| {
        bytes = bytes.saturating_add(size(change));
        bytes > BATCH_BYTES_MAX
    });
    // A change that is too large by itself is written all the same.
    changes.split_at_checked(too_many?.max(1)).filter(|(_, later)| !later.is_empty())
}

/// Returns about how many bytes a change writes.
fn size(change: &Change) -> usize {
    match change {
        Change::Span(_) | Change::Turn(_) => TURN_BYTES,
        // What stands in a file is not in the batch.
        Change::RunEnded { reply, .. } if reply.len() < FILE_BYTES_MIN => ROWS_BYTES + reply.len(),
        Change::SessionSeen { .. }
        | Change::SessionForgotten(_)
        | Change::RunBegun(_)
        | Change::RunEnded { .. }
        | Change::CancelOwed { .. }
        | Change::CancelDelivered { .. } => ROWS_BYTES,
        Change::CallOpened(_) | Change::CallClosed(_) => CALL_BYTES,
        // It forgets nothing most often, since what was forgotten was told before.
        Change::Fact(_) | Change::OnlyFacts(_) => FACT_BYTES,
        Change::Forgot(ids) => ids.len().saturating_mul(FACT_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use wire::entry::Fact;
    use wire::{CallKey, Name, RunId, RunStatus, SessionId, Timestamp};

    use super::*;

    #[test]
    fn a_batch_ends_before_it_takes_too_much() {
        let (id, session) = (CallKey::new("f").unwrap(), SessionId::new("s").unwrap());
        let at = Timestamp::from_micros(1);
        let fact = Change::Fact(Box::new(Fact {
            id: id.clone(),
            text: "a fact".to_owned(),
            at,
            agent: Name::new("a").unwrap(),
            session: session.clone(),
            tainted: false,
        }));
        let forgot = |count: usize| Change::Forgot(vec![id.clone(); count]);
        let ended = |bytes: usize| Change::RunEnded {
            run: RunId::new("r").unwrap(),
            at,
            status: RunStatus::Completed,
            reply: vec![b'x'; bytes].into(),
        };
        let other = Change::SessionForgotten(session);
        let (rows, facts) = (BATCH_BYTES_MAX / ROWS_BYTES, BATCH_BYTES_MAX / FACT_BYTES);
        let some = |change: &Change, count: usize| vec![change.clone(); count];
        for (changes, first) in [
            (Vec::new(), None),
            (some(&other, rows), None),
            (some(&other, rows + 2), Some(rows)),
            (some(&fact, facts), None),
            (some(&fact, facts + 2), Some(facts)),
            ([some(&other, 1), some(&fact, facts)].concat(), Some(facts)),
            (some(&forgot(facts), 2), Some(1)),
            (some(&forgot(facts + 1), 1), None),
            (some(&forgot(facts + 1), 3), Some(1)),
            (some(&ended(FILE_BYTES_MIN - 1), 100), Some(63)),
            (some(&ended(FILE_BYTES_MIN), 100), None),
        ] {
            assert_eq!(next_batch(&changes).map(|(batch, _)| batch.len()), first);
        }
    }
}
