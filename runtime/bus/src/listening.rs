//! A handler that is given the messages of one pattern.

use std::fmt;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::local::Registration;
use crate::parcel::Parcel;

/// What is done about a message. It must not wait.
pub(crate) type Handler = Arc<dyn Fn(Parcel) + Send + Sync>;

/// Gives the messages of one pattern to a handler for as long as it is held.
///
/// In the twin whoever publishes calls the handler, so that nobody has to be woken in between; on
/// NATS a task does, and who asks inside the process calls it as in the twin.
pub struct Listening(Kind);

enum Kind {
    Local { _registration: Registration },
    Task { task: JoinHandle<()>, _near: Option<Registration> },
}

impl Listening {
    pub(crate) const fn local(registration: Registration) -> Self {
        Self(Kind::Local { _registration: registration })
    }

    pub(crate) const fn of_task(task: JoinHandle<()>, near: Option<Registration>) -> Self {
        Self(Kind::Task { task, _near: near })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        match &self.0 {
            Kind::Local { .. } => {}
            Kind::Task { task, .. } => task.abort(),
        }
    }
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}
