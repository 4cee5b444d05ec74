//! A handler that is given the messages of one pattern.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use crate::local::Registration;
use crate::parcel::Parcel;

/// What is left to do about a message because it takes time. It is done to its end, whoever waits.
pub type Work = BoxFuture<'static, ()>;

/// What is done about a message. It must not wait: what takes time it returns.
pub(crate) type Handler = Arc<dyn Fn(Parcel) -> Option<Work> + Send + Sync>;

/// Gives the messages of one pattern to a handler for as long as it is held.
///
/// In the twin whoever publishes calls the handler, and whoever asks does the work that it leaves
/// while waiting for the answer, so that nobody has to be woken in between. On NATS a task calls it
/// and others do the work, and who asks inside the process does as in the twin.
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
