//! Looks on as the twin hands messages over, for tests that stop between two of them.

use std::fmt;
use std::sync::Arc;

use crate::message::Message;

/// When a message is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nobody has it yet.
    Before,
    /// Everybody has it who takes it.
    After,
}

/// What is done about a message.
type Look = dyn Fn(Moment, &Message) + Send + Sync;

/// Sees every message that is sent on a bus inside the process, from within the sending.
#[derive(Clone)]
pub struct Tap(Arc<Look>);

impl Tap {
    /// Makes a tap of what is to be done about each message, twice.
    pub fn new(look: impl Fn(Moment, &Message) + Send + Sync + 'static) -> Self {
        Self(Arc::new(look))
    }

    pub(crate) fn look(&self, moment: Moment, message: &Message) {
        (self.0)(moment, message);
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}
