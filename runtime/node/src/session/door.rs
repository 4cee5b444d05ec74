//! What the door asks of a session.

use agents_core::effect::CallEffect;
use tokio::sync::oneshot;
use wire::entry::Submitted;
use wire::run::{Accepted, AnswerRequest, RunView};
use wire::{CallKey, Digest, Resolution, RunId, WireError};

use super::tidy::Tidied;
use crate::reply::Final;
use crate::retention::Cutoffs;

/// The answer to a message of the door.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, WireError>>;

/// What the door asks of a session.
pub(crate) enum Door {
    Submit(Box<Submit>),
    Cancel {
        run: RunId,
        reason: String,
        answer: Answer<RunView>,
    },
    Reply {
        run: RunId,
        said: AnswerRequest,
        answer: Answer<RunView>,
    },
    /// What a person decides about an open call.
    Decide {
        run: RunId,
        call: CallKey,
        decision: Decision,
        answer: Answer<RunView>,
    },
    View {
        run: RunId,
        answer: Answer<RunView>,
    },
    Await {
        run: RunId,
        done: Answer<Final>,
    },
    /// Drop what need not be kept. The answer is whether something was.
    Tidy {
        cutoffs: Cutoffs,
        /// A run in work may still ask for the run of this session, if that was called.
        is_asked: bool,
        answer: Answer<Tidied>,
    },
    /// How the run in work of the session asks for the run of a called agent, if it does.
    Awaits {
        call: CallKey,
        answer: Answer<Option<Box<CallEffect>>>,
    },
}

/// What a person decides about an open call. What was not said of which form of the call it is
/// decided, is decided of its present one.
pub(crate) enum Decision {
    Approve { digest: Option<Digest> },
    Deny { reason: String },
    Resolve { attempt: Option<u32>, resolution: Resolution },
}

/// A run that is asked for.
pub(crate) struct Submit {
    pub(crate) submitted: Submitted,
    /// What is answered in place of beginning a run that the session does not know.
    pub(crate) unless_known: Option<WireError>,
    /// Whoever asks is to be told at once that the run is taken, and does not wait for its reply.
    pub(crate) is_let_go: bool,
    pub(crate) accepted: Answer<Receipt>,
    pub(crate) done: Answer<Final>,
}

/// What a session says of a run that it has taken.
pub(crate) struct Receipt {
    pub(crate) accepted: Accepted,
    /// The session knew the run before it was asked.
    pub(crate) is_repeated: bool,
}

impl Door {
    /// Answers with an error in place of the session.
    pub(crate) fn refuse(self, error: WireError) {
        // Whoever asked may have gone; then nobody is to be told.
        match self {
            Self::Submit(submit) => drop(submit.accepted.send(Err(error))),
            Self::Cancel { answer, .. }
            | Self::Reply { answer, .. }
            | Self::Decide { answer, .. }
            | Self::View { answer, .. } => {
                drop(answer.send(Err(error)));
            }
            Self::Await { done, .. } => drop(done.send(Err(error))),
            Self::Awaits { answer, .. } => drop(answer.send(Err(error))),
            Self::Tidy { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}
