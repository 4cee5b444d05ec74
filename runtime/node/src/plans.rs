//! The plans of a team: those of its present form, and those that older runs began with.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agents_core::session::Plans;
use agents_core::validate::Catalogue;
use foldhash::fast::RandomState;
use journal::Journal;
use wire::{Digest, Name, Plan};

/// Finds plans by digest, in memory or beside the journal.
pub(crate) struct PlanShelf {
    journal: Journal,
    shelf: Mutex<Shelf>,
    /// Held while blobs are swept and while plans are put, so that none is swept before it counts.
    sweeping: Mutex<()>,
}

#[derive(Default)]
struct Shelf {
    /// What new runs begin with.
    current: HashMap<Name, Digest>,
    /// What they began with until the last change: a run that was just taken may not be durable.
    before: HashSet<Digest>,
    known: HashMap<Digest, Arc<Catalogue>, RandomState>,
}

impl PlanShelf {
    /// Makes the plans of a team durable and keeps them at hand. Blocks on the disk.
    pub(crate) fn open<'p>(
        journal: Journal,
        plans: impl IntoIterator<Item = &'p Plan>,
    ) -> Result<Self, journal::Error> {
        let empty = Self { journal, shelf: Mutex::default(), sweeping: Mutex::default() };
        empty.replace(plans)?;
        Ok(empty)
    }

    /// Makes plans durable and lets new runs begin with them. Blocks on the disk.
    ///
    /// Compiled schemas that nobody uses are dropped; they are there again when they are needed.
    pub(crate) fn replace<'p>(
        &self,
        plans: impl IntoIterator<Item = &'p Plan>,
    ) -> Result<(), journal::Error> {
        let _one = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = HashMap::new();
        let mut added = Vec::new();
        for plan in plans {
            let Ok((_, bytes)) = plan.to_bytes() else { continue };
            let digest = self.journal.put_blob(&bytes)?;
            current.insert(plan.agent.clone(), digest);
            if !self.lock().known.contains_key(&digest) {
                added.push((digest, Arc::new(Catalogue::new(Arc::new(plan.clone())))));
            }
        }
        let mut held = self.lock();
        held.known.extend(added);
        let before = std::mem::replace(&mut held.current, current);
        held.before = before.into_values().collect();
        let Shelf { current, known, .. } = &mut *held;
        let current: HashSet<&Digest> = current.values().collect();
        known.retain(|digest, found| current.contains(digest) || Arc::strong_count(found) > 1);
        Ok(())
    }

    /// Does something that removes plans which do not count; is told those that do.
    pub(crate) fn sweep<T>(&self, remove: impl FnOnce(HashSet<Digest>) -> T) -> T {
        let _one = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = {
            let held = self.lock();
            held.current.values().chain(&held.before).copied().collect()
        };
        remove(kept)
    }

    /// Returns the plan that new runs of an agent begin with.
    pub(crate) fn current(&self, agent: &Name) -> Option<(Digest, Arc<Plan>)> {
        let digest = *self.lock().current.get(agent)?;
        Some((digest, self.plan(&digest)?))
    }

    /// Returns a plan with its compiled schemas, or why there is none. May read a file.
    pub(crate) fn catalogue(&self, digest: &Digest) -> Result<Arc<Catalogue>, journal::Error> {
        let held = self.lock().known.get(digest).cloned();
        if let Some(held) = held {
            return Ok(held);
        }
        let bytes = self.journal.blob(digest)?;
        // Its bytes are those that its name says, so no other reading of them is to come.
        let plan: Plan =
            serde_json::from_slice(&bytes).map_err(|_| journal::Error::BlobDamaged(*digest))?;
        let catalogue = Arc::new(Catalogue::new(Arc::new(plan)));
        self.lock().known.insert(*digest, catalogue.clone());
        Ok(catalogue)
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plans for PlanShelf {
    fn plan(&self, digest: &Digest) -> Option<Arc<Plan>> {
        self.catalogue(digest).ok().map(|catalogue| catalogue.plan().clone())
    }
}
