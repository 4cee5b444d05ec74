//! Places at the door for requests that need none of a run: what looks at runs or controls them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wire::subject::{CallVerb, RunVerb};
use wire::{Scope, WireError};

use crate::admission::RUNS_MAX;

/// Look-ups that wait for a result at once, and requests for a run that is known; as many as there
/// may be runs to wait for.
const AWAITED_MAX: usize = RUNS_MAX;

/// Other requests of one kind at once, of those that look at runs or control them and of those that
/// ask for a run in the name of another. They are short, so a thousand of them wait for a part of a
/// second, and with their bodies they take 16 MiB.
const PASSING_MAX: usize = 1024;

/// What one place stands for, in bytes: a request with a short body, and the task that answers it. A
/// longer body takes more of them.
const PLACE_BYTES: usize = 16 * 1024;

/// When a request that found no place may come again, in milliseconds: most of those that have one
/// are answered within that.
const PASSING_RETRY_MS: u64 = 200;

/// The same of a look-up that waits for a result: about as long as a run takes.
const AWAITED_RETRY_MS: u64 = 1000;

/// So many places. They are taken and left without a lock.
#[derive(Debug)]
pub(super) struct Gate {
    whose: &'static str,
    places: usize,
    free: AtomicUsize,
    retry_ms: u64,
}

/// A place at a gate; it is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    places: usize,
}

impl Gate {
    /// Makes a gate; `whose` says in the plural which requests pass it, and who finds no place may
    /// come again after `retry_ms` milliseconds.
    fn new(whose: &'static str, places: usize, retry_ms: u64) -> Arc<Self> {
        Arc::new(Self { whose, places, free: AtomicUsize::new(places), retry_ms })
    }

    /// Lets a request in that has so many bytes, or says that there is no place for it. A body that
    /// is larger than all places has to be alone.
    pub(super) fn enter(self: &Arc<Self>, bytes: usize) -> Result<Pass, WireError> {
        let places = (1 + bytes / PLACE_BYTES).min(self.places);
        let left = |free: usize| free.checked_sub(places);
        let taken = self.free.fetch_update(Ordering::AcqRel, Ordering::Relaxed, left);
        taken.map_err(|_| self.full())?;
        Ok(Pass { gate: self.clone(), places })
    }

    fn full(&self) -> WireError {
        let Self { whose, places, retry_ms, .. } = self;
        let text = format!(
            "{whose} have taken the {places} places that there are for them; ask again later"
        );
        WireError::overloaded(Scope::Team, text, *retry_ms)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.free.fetch_add(self.places, Ordering::AcqRel);
    }
}

/// Who takes places from whom: look-ups keep neither a cancel out nor a run that another one awaits.
#[derive(Debug)]
pub(super) struct Gates {
    pub(super) looks: Arc<Gate>,
    /// One that cancels a run has the runs cancelled that it asked for, through the same gate, and
    /// waits for these; so there is a place for as many as there may be runs.
    pub(super) cancels: Arc<Gate>,
    pub(super) controls: Arc<Gate>,
    /// For requests for which there is no place of a run, until it is certain whether they name one
    /// that is known.
    pub(super) joins: Arc<Gate>,
    pub(super) awaited: Arc<Gate>,
    /// For runs in the name of another until it is certain that it asks for them. A place is never
    /// kept while a run is waited for, so agents that call each other in a chain cannot hold the
    /// places that the next of them needs.
    pub(super) claims: Arc<Gate>,
}

impl Gates {
    pub(super) fn new() -> Self {
        let passing = |whose| Gate::new(whose, PASSING_MAX, PASSING_RETRY_MS);
        let cancels = Gate::new("requests that cancel runs", RUNS_MAX, PASSING_RETRY_MS);
        let whose = "look-ups that wait for a result";
        Self {
            looks: passing("look-ups"),
            cancels,
            controls: passing("requests that decide for people"),
            joins: passing("requests for runs while no new one is taken"),
            awaited: Gate::new(whose, AWAITED_MAX, AWAITED_RETRY_MS),
            claims: passing("runs that are said to be asked for by others"),
        }
    }

    pub(super) const fn of_run(&self, verb: RunVerb) -> &Arc<Gate> {
        match verb {
            RunVerb::Status => &self.looks,
            RunVerb::Cancel => &self.cancels,
            RunVerb::Answer => &self.controls,
            RunVerb::Result => &self.awaited,
        }
    }

    pub(super) const fn of_call(&self, verb: CallVerb) -> &Arc<Gate> {
        match verb {
            CallVerb::Show => &self.looks,
            CallVerb::Approve | CallVerb::Deny | CallVerb::Resolve => &self.controls,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::ErrorCode;

    use super::*;

    #[test]
    fn who_finds_no_place_is_told_when_to_come_again() {
        let gate = Gate::new("look-ups", 4, 200);
        // The bytes of requests that stay, and of one that comes then, and whether it finds a place.
        let cases: [(&[usize], usize, bool); 8] = [
            (&[0, 0, 0], 0, true),
            (&[0, 0, 0, 0], 0, false),
            (&[PLACE_BYTES - 1], 3 * PLACE_BYTES - 1, true),
            (&[PLACE_BYTES], 2 * PLACE_BYTES, false),
            (&[], 4 * PLACE_BYTES, true),
            (&[], usize::MAX, true),
            (&[0], usize::MAX, false),
            (&[usize::MAX], 0, false),
        ];
        for (stay, bytes, expected) in cases {
            let staying: Vec<Pass> = stay.iter().map(|bytes| gate.enter(*bytes).unwrap()).collect();
            let came = gate.enter(bytes);
            assert_eq!(came.is_ok(), expected, "{bytes} beside {stay:?}");
            if let Err(error) = &came {
                assert_eq!((error.code, error.retry_after_ms), (ErrorCode::Overloaded, Some(200)));
                assert!(error.message.starts_with("look-ups have taken the 4 places"), "{error}");
            }
            drop((staying, came));
            assert_eq!(gate.free.load(Ordering::Relaxed), 4, "all are free again");
        }
    }
}
