//! Who is let in: places for runs, taken before anything is done about a request and kept until
//! the run has its reply.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::{Name, RunId, Scope, SessionId, WireError};

use crate::metrics::Load;

/// Root runs that a node has in work or waiting at once, over all its teams; about 30 KiB of
/// memory each.
pub const RUNS_MAX: usize = 10_000;

/// Bytes of the requests of these runs, over all teams. Inputs may have a megabyte each, and with
/// them the runs of a node would not fit into its memory.
pub const REQUEST_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What one permit of the bytes stands for; a semaphore gives out no more than 2^29 at once.
const BYTES_EACH: usize = 1024;

/// When a run that found no place may come again, in milliseconds: about as long as a run takes.
const RETRY_MS: u64 = 1000;

/// The places of a node, shared by its teams.
#[derive(Debug)]
pub(crate) struct NodePlaces {
    runs: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// The places of one team.
#[derive(Debug)]
pub(crate) struct Places {
    team: Name,
    runs_max: u32,
    runs: Arc<Semaphore>,
    node: Arc<NodePlaces>,
    taken_up: Mutex<TakenUp>,
}

/// Runs that were begun before the node started, and the places for them. The places may be fewer,
/// if there are less of them than there were; then none is free until that is made up for.
#[derive(Debug, Default)]
struct TakenUp {
    runs: HashMap<RunId, SessionId>,
    places: Vec<Place>,
}

impl TakenUp {
    fn settle(&mut self) {
        self.places.truncate(self.runs.len());
    }
}

/// A place for one run; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _run: OwnedSemaphorePermit,
    _node: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl Default for NodePlaces {
    fn default() -> Self {
        Self::new(RUNS_MAX, REQUEST_BYTES_MAX)
    }
}

impl NodePlaces {
    fn new(runs: usize, bytes: usize) -> Self {
        let bytes = Arc::new(Semaphore::new(bytes / BYTES_EACH));
        Self { runs: Arc::new(Semaphore::new(runs)), bytes }
    }
}

impl Places {
    /// Makes the places of a team on a node.
    pub(crate) fn new(team: Name, runs_max: u32, node: Arc<NodePlaces>) -> Self {
        let runs = Arc::new(Semaphore::new(runs_max as usize));
        Self { team, runs_max, runs, node, taken_up: Mutex::default() }
    }

    /// Tells how many of the team's places are taken.
    pub(crate) fn load(&self) -> Load {
        let limit = self.runs_max as usize;
        Load { taken: limit.saturating_sub(self.runs.available_permits()), limit }
    }

    /// Takes places for runs that were begun before the node started, until they end. Their requests
    /// count as small ones.
    pub(crate) fn take_up(&self, runs: Vec<(RunId, SessionId)>) {
        let mut taken_up = self.taken_up();
        let places = (0..runs.len()).map_while(|_| self.admit(0).ok());
        taken_up.places.extend(places);
        taken_up.runs.extend(runs);
    }

    /// Gives back the place of a run that has ended, if it was taken up.
    pub(crate) fn end(&self, run: &RunId) {
        let mut taken_up = self.taken_up();
        taken_up.runs.remove(run);
        taken_up.settle();
    }

    /// Gives back the places of runs that were taken up, since nobody will end them: their session is
    /// set aside.
    pub(crate) fn set_aside(&self, session: &SessionId) {
        let mut taken_up = self.taken_up();
        taken_up.runs.retain(|_, of| of != session);
        taken_up.settle();
    }

    fn taken_up(&self) -> MutexGuard<'_, TakenUp> {
        self.taken_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a run whose request has so many bytes, or says whose places are taken.
    pub(crate) fn admit(&self, bytes: usize) -> Result<Place, WireError> {
        let full = |scope, text: String| WireError::overloaded(scope, text, RETRY_MS);
        let run = self.runs.clone().try_acquire_owned().map_err(|_| {
            let text = format!(
                "team {} has {} runs in work, as many as its `runs_max` allows",
                self.team, self.runs_max
            );
            full(Scope::Team, text)
        })?;
        let node = self.node.runs.clone().try_acquire_owned().map_err(|_| {
            let text = format!("the node has {RUNS_MAX} runs in work, as many as it takes");
            full(Scope::Node, text)
        })?;
        let units = u32::try_from(bytes.div_ceil(BYTES_EACH).max(1)).unwrap_or(u32::MAX);
        let bytes = self.node.bytes.clone().try_acquire_many_owned(units).map_err(|_| {
            let text = format!(
                "the requests of the runs in work have {REQUEST_BYTES_MAX} bytes together, as \
                 many as the node holds"
            );
            full(Scope::Node, text)
        })?;
        Ok(Place { _run: run, _node: node, _bytes: bytes })
    }
}

#[cfg(test)]
mod tests {
    use wire::ErrorCode;

    use super::*;

    #[test]
    fn who_finds_no_place_is_told_whose_are_taken() {
        let node = Arc::new(NodePlaces::new(3, 8 * BYTES_EACH));
        let places =
            |name: &str, runs_max| Places::new(Name::new(name).unwrap(), runs_max, node.clone());
        let (small, large) = (places("small", 1), places("large", 9));
        let scope = |refused: Result<Place, WireError>| {
            let error = refused.unwrap_err();
            assert_eq!((error.code, error.retry_after_ms), (ErrorCode::Overloaded, Some(RETRY_MS)));
            error.scope
        };
        let first = small.admit(0).unwrap();
        assert_eq!(scope(small.admit(1)), Some(Scope::Team));
        let second = large.admit(4 * BYTES_EACH).unwrap();
        assert_eq!(scope(large.admit(3 * BYTES_EACH + 1)), Some(Scope::Node), "bytes");
        let third = large.admit(1).unwrap();
        assert_eq!(scope(large.admit(1)), Some(Scope::Node), "runs");
        drop(first);
        assert_eq!(scope(large.admit(3 * BYTES_EACH + 1)), Some(Scope::Node), "bytes");
        let fourth = large.admit(3 * BYTES_EACH).unwrap();
        drop((second, third, fourth));
        // Nothing of a refused run stays taken.
        assert_eq!((node.runs.available_permits(), node.bytes.available_permits()), (3, 8));
        assert_eq!((small.runs.available_permits(), large.runs.available_permits()), (1, 9));
    }

    #[test]
    fn runs_that_are_taken_up_have_their_places_until_they_end() {
        let run = |id: &str| RunId::new(id).unwrap();
        let session = |id: &str| SessionId::new(id).unwrap();
        let node = Arc::new(NodePlaces::new(9, 9 * BYTES_EACH));
        let places = Places::new(Name::new("t").unwrap(), 2, node.clone());
        // More than there are places, as when the limit was lowered meanwhile.
        let taken = [("a", "s"), ("b", "s"), ("c", "t"), ("d", "u")];
        places.take_up(taken.iter().map(|(id, of)| (run(id), session(of))).collect());
        let free = || places.runs.available_permits();
        assert_eq!(free(), 0);
        for (ended, expected) in [("other", 0), ("a", 0), ("a", 0), ("b", 0), ("c", 1)] {
            places.end(&run(ended));
            assert_eq!(free(), expected, "{ended}");
        }
        let place = places.admit(0).unwrap();
        assert!(places.admit(0).is_err(), "the last one is still in work");
        places.set_aside(&session("s"));
        assert_eq!(free(), 0);
        places.set_aside(&session("u"));
        assert_eq!(free(), 1);
        drop(place);
        assert_eq!((free(), node.runs.available_permits()), (2, 9));
    }
}
