//! Why a command did not do what it was asked, and the exit code that says so.

use std::process::ExitCode;

use wire::{ErrorCode, WireError};

use crate::paint::Paint;
use crate::text;

/// How a command ended, as the shell is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// The run failed, or what was looked at is damaged.
    Failed,
    /// The command line or a team file is wrong.
    Usage,
    /// Something that is needed cannot be had at present.
    Unavailable,
    /// The daemon cannot go on; a supervisor should start it again.
    Fault,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 3,
            Exit::Fault => 70,
        })
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Something failed, with a code that `explain` knows.
    #[error(transparent)]
    Error(#[from] WireError),
    /// Team files are wrong; the text is their rendered reports.
    #[error("{0}")]
    Report(String),
}

impl Failure {
    /// Says that signals cannot be heard.
    #[expect(clippy::needless_pass_by_value, reason = "the signature is that of `map_err`")]
    pub(crate) fn of_signals(error: std::io::Error) -> Self {
        Self::new(ErrorCode::Internal, format!("listen for signals: {error}"))
    }

    /// Makes a failure of a code.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Error(WireError::new(code, message))
    }

    /// Says whose failure it is, where several were asked.
    pub(crate) fn of(self, who: &str) -> Self {
        let Self::Error(error) = self else { return self };
        let message = format!("{who}: {}", error.message);
        WireError { message, ..error }.into()
    }

    /// Returns the exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Report(_) => Exit::Usage,
            Self::Error(error) => exit_of(error.code),
        }
    }

    /// Draws the failure for stderr, with the way to its page.
    pub(crate) fn render(&self, paint: Paint) -> String {
        match self {
            Self::Report(text) => text.clone(),
            Self::Error(WireError { code, message, .. }) => {
                let label = paint.red(&format!("error[{code}]"));
                let help = paint.cyan("help");
                // Some messages carry what a model, a tool or a server said.
                let message = text::harmless(message);
                format!("{label}: {message}\n{help}: callboard explain {code}\n")
            }
        }
    }
}

impl From<node::Error> for Failure {
    fn from(error: node::Error) -> Self {
        Self::Error(error.to_wire())
    }
}

impl From<journal::Error> for Failure {
    fn from(error: journal::Error) -> Self {
        Self::Error(error.to_wire())
    }
}

impl From<bus::Error> for Failure {
    fn from(error: bus::Error) -> Self {
        Self::Error(error.to_wire())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let code = match &error {
            store::Error::InUse { .. } => ErrorCode::DataInUse,
            store::Error::AmbiguousTrace { .. } => ErrorCode::BadRequest,
            store::Error::TooLarge { .. } => ErrorCode::TooLarge,
            store::Error::Encode(_) => ErrorCode::Internal,
            store::Error::Closed { .. }
            | store::Error::Directory { .. }
            | store::Error::Engine { .. }
            | store::Error::Damaged { .. } => ErrorCode::StorageFailed,
        };
        Self::new(code, error.to_string())
    }
}

/// Sorts codes by whose turn it is: the user's, or that of what is not there.
fn exit_of(code: ErrorCode) -> Exit {
    match code {
        ErrorCode::BadRequest
        | ErrorCode::TooLarge
        | ErrorCode::UnknownAgent
        | ErrorCode::UnknownRun
        | ErrorCode::RunConflict
        | ErrorCode::UnknownSession
        | ErrorCode::NotWaiting
        | ErrorCode::UnknownCall
        | ErrorCode::ConfigInvalid
        | ErrorCode::FileUnreadable
        | ErrorCode::SecretMissing
        | ErrorCode::SandboxUnavailable
        | ErrorCode::NotSignedIn
        | ErrorCode::NatsUnprotected
        | ErrorCode::HttpUnprotected => Exit::Usage,
        ErrorCode::Overloaded
        | ErrorCode::SessionBusy
        | ErrorCode::Unavailable
        | ErrorCode::ToolUnavailable
        | ErrorCode::DataInUse
        | ErrorCode::TeamServed
        | ErrorCode::StorageFailed
        | ErrorCode::StorageFull
        | ErrorCode::NatsUnavailable
        | ErrorCode::NatsTooOld => Exit::Unavailable,
        ErrorCode::DeadlineExceeded
        | ErrorCode::ModelRefused
        | ErrorCode::ModelUnavailable
        | ErrorCode::ModelResting
        | ErrorCode::PrefixUnknown
        | ErrorCode::ReplyUnusable
        | ErrorCode::ModelProtocol
        | ErrorCode::UnknownTool
        | ErrorCode::InvalidArguments
        | ErrorCode::ToolFailed
        | ErrorCode::ToolTimeout
        | ErrorCode::AgentFailed
        | ErrorCode::CallDenied
        | ErrorCode::OutcomeUnknown
        | ErrorCode::ToolChanged
        | ErrorCode::AddressForbidden
        | ErrorCode::StepLimit
        | ErrorCode::BudgetExceeded
        | ErrorCode::DepthExceeded
        | ErrorCode::Cancelled
        | ErrorCode::ResumedTooOften
        | ErrorCode::CallLimit
        | ErrorCode::LoopDetected
        | ErrorCode::AnswerCut
        | ErrorCode::JournalDamaged
        | ErrorCode::SessionDamaged
        | ErrorCode::Internal => Exit::Failed,
    }
}
