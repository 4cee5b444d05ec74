//! Which models answer at once, as far as that is known.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use wire::Name;

/// The longest turn after which another one of the same model is expected to be over while an input
/// is held for it: half of the time for which one is held at most.
pub(crate) const QUICK_TIME_MAX: Duration = Duration::from_millis(5);

/// What is known of the models of a team, by their last turns in any session.
#[derive(Debug)]
pub(crate) struct Paces(HashMap<Name, AtomicBool, RandomState>);

impl Paces {
    /// Nothing is known of these models yet.
    pub(crate) fn of<'m>(models: impl IntoIterator<Item = &'m Name>) -> Self {
        Self(models.into_iter().map(|model| (model.clone(), AtomicBool::new(false))).collect())
    }

    /// Notes how long a turn of a model took.
    pub(crate) fn note(&self, model: &Name, took: Duration) {
        if let Some(is_quick) = self.0.get(model) {
            is_quick.store(took < QUICK_TIME_MAX, Ordering::Relaxed);
        }
    }

    /// Tells whether the last turn of a model was over at once.
    pub(crate) fn is_quick(&self, model: &Name) -> bool {
        self.0.get(model).is_some_and(|is_quick| is_quick.load(Ordering::Relaxed))
    }
}
