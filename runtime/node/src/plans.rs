//! The plans of a team: those of its present file, and those that older runs began with.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agents_core::session::Plans;
use agents_core::validate::Catalogue;
use journal::Journal;
use wire::{Digest, Name, Plan};

/// Finds plans by digest, in memory or beside the journal.
pub(crate) struct PlanShelf {
    journal: Journal,
    current: HashMap<Name, Digest>,
    known: Mutex<HashMap<Digest, Arc<Catalogue>>>,
}

impl PlanShelf {
    /// Makes the plans of a team durable and keeps them at hand. Blocks on the disk.
    pub(crate) fn open<'p>(
        journal: Journal,
        plans: impl IntoIterator<Item = &'p Plan>,
    ) -> Result<Self, journal::Error> {
        let mut current = HashMap::new();
        let mut known = HashMap::new();
        for plan in plans {
            let Ok((_, bytes)) = plan.to_bytes() else { continue };
            let digest = journal.put_blob(&bytes)?;
            current.insert(plan.agent.clone(), digest);
            known.insert(digest, Arc::new(Catalogue::new(Arc::new(plan.clone()))));
        }
        Ok(Self { journal, current, known: Mutex::new(known) })
    }

    /// Iterates over the plans that new runs begin with.
    pub(crate) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.current.values().copied()
    }

    /// Returns the plan that new runs of an agent begin with.
    pub(crate) fn current(&self, agent: &Name) -> Option<(Digest, Arc<Plan>)> {
        let digest = *self.current.get(agent)?;
        Some((digest, self.plan(&digest)?))
    }

    /// Returns a plan with its compiled schemas. May read a file.
    pub(crate) fn catalogue(&self, digest: &Digest) -> Option<Arc<Catalogue>> {
        let held = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned();
        if held.is_some() {
            return held;
        }
        let bytes = self.journal.blob(digest).ok()?;
        let plan: Plan = serde_json::from_slice(&bytes).ok()?;
        let catalogue = Arc::new(Catalogue::new(Arc::new(plan)));
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(*digest, catalogue.clone());
        Some(catalogue)
    }
}

impl Plans for PlanShelf {
    fn plan(&self, digest: &Digest) -> Option<Arc<Plan>> {
        self.catalogue(digest).map(|catalogue| catalogue.plan().clone())
    }
}
