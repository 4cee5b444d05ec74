//! Error codes: stable, each with one help page under `codes/`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::chat::Lost;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $title:literal;)*) => {
        /// A stable code for everything that a user or a peer can be told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// All codes, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the code, such as `E1003`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// Returns what it means in a few words.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// Returns the help page: what happened, why, what to do.
            pub const fn page(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("../codes/", $code, ".md")),)* }
            }
        }
    };
}

codes! {
    /// The request is not of the form that the subject takes.
    BadRequest = "E1001", "bad request";
    /// The request is larger than is taken.
    TooLarge = "E1002", "too large";
    /// The team has no such agent.
    UnknownAgent = "E1003", "unknown agent";
    /// No such run is known.
    UnknownRun = "E1004", "unknown run";
    /// The run id is taken by another request.
    RunConflict = "E1005", "run id used twice";
    /// A queue is full.
    Overloaded = "E1006", "overloaded";
    /// The time was over before there was an answer.
    DeadlineExceeded = "E1007", "deadline exceeded";
    /// The node cannot take work at present.
    Unavailable = "E1008", "unavailable";
    /// No such session is known.
    UnknownSession = "E1009", "unknown session";
    /// The run does not wait for an answer.
    NotWaiting = "E1010", "run does not wait";
    /// No such call is open.
    UnknownCall = "E1012", "unknown call";
    /// A run of the session is in work, and the agent takes no message meanwhile.
    SessionBusy = "E1013", "session busy";
    /// The HTTP door asks for a token, and the request brought none that fits.
    NotSignedIn = "E1014", "not signed in";

    /// The provider refused for good.
    ModelRefused = "E2001", "model request refused";
    /// The provider could not be reached, or failed until retries were spent.
    ModelUnavailable = "E2002", "model unavailable";
    /// The model actor does not hold the prefix that a request builds on.
    PrefixUnknown = "E2003", "prefix unknown";
    /// The model's replies stayed unusable.
    ReplyUnusable = "E2004", "model reply unusable";
    /// The provider's answer is not of the form that it promises.
    ModelProtocol = "E2005", "model protocol error";
    /// The provider fails too often to be asked at present.
    ModelResting = "E2006", "model left alone";

    /// No such tool is offered.
    UnknownTool = "E3001", "unknown tool";
    /// The arguments do not obey the tool's schema.
    InvalidArguments = "E3002", "invalid arguments";
    /// The tool reported an error.
    ToolFailed = "E3003", "tool failed";
    /// The tool did not answer in time.
    ToolTimeout = "E3004", "tool timed out";
    /// Nobody serves the tool.
    ToolUnavailable = "E3005", "tool unavailable";
    /// The agent that was called did not complete.
    AgentFailed = "E3006", "called agent failed";
    /// The call was not allowed.
    CallDenied = "E3008", "call denied";
    /// It is not known whether a call took effect.
    OutcomeUnknown = "E3009", "outcome of a call unknown";
    /// A tool of a server is no longer what was pinned.
    ToolChanged = "E3011", "tool changed";
    /// An address that a call asked for is not to be reached.
    AddressForbidden = "E3012", "address forbidden";

    /// The run used all its steps.
    StepLimit = "E4001", "step limit reached";
    /// The run used all the tokens, money or calls that it has.
    BudgetExceeded = "E4002", "budget used up";
    /// Too many agents stand above the run.
    DepthExceeded = "E4003", "call depth exceeded";
    /// The run was cancelled.
    Cancelled = "E4004", "cancelled";
    /// The run was taken up again too often at one point.
    ResumedTooOften = "E4005", "taken up too often";
    /// More calls were asked for in one step than are made.
    CallLimit = "E4006", "too many calls in one step";
    /// The run asked for the same call again and again.
    LoopDetected = "E4007", "the same call again and again";
    /// The token limit of a reply cut the answer.
    AnswerCut = "E4008", "answer cut";

    /// The data directory belongs to another process.
    DataInUse = "E5001", "data directory in use";
    /// The journal is damaged.
    JournalDamaged = "E5002", "journal damaged";
    /// The journal cannot be written.
    StorageFailed = "E5003", "storage failed";
    /// The NATS server cannot be reached.
    NatsUnavailable = "E5004", "NATS unavailable";
    /// The NATS server is too old.
    NatsTooOld = "E5005", "NATS server too old";
    /// The session cannot be rebuilt from its journal.
    SessionDamaged = "E5006", "session damaged";
    /// A fault of the runtime itself.
    Internal = "E5007", "internal fault";
    /// The disk is full.
    StorageFull = "E5008", "storage full";
    /// The way to a NATS server on another machine is not protected.
    NatsUnprotected = "E5009", "NATS unprotected";
    /// Others than the users of this machine would reach the HTTP door without a token.
    HttpUnprotected = "E5010", "HTTP door unprotected";
    /// Another daemon serves the team on the same NATS server.
    TeamServed = "E5011", "team served elsewhere";

    /// The team file is not valid.
    ConfigInvalid = "E6001", "invalid team file";
    /// A file cannot be read.
    FileUnreadable = "E6002", "file unreadable";
    /// A secret that the config refers to is not there.
    SecretMissing = "E6003", "secret missing";
    /// A command cannot be started in the sandbox that its team file asks for.
    SandboxUnavailable = "E6004", "sandbox unavailable";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is no code of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown error code {0:?}")]
pub struct UnknownCode(String);

impl FromStr for ErrorCode {
    type Err = UnknownCode;
    fn from_str(text: &str) -> Result<Self, UnknownCode> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownCode(text.chars().take(40).collect()))
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An error as it travels: code, message, and when to come again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code} {message}")]
pub struct WireError {
    /// The stable code.
    pub code: ErrorCode,
    /// What happened, where, and what to do.
    pub message: String,
    /// Whose queue is full, if that is the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// How long to wait before asking again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// What a turn of a model that failed may have used all the same. Who asked for the turn counts
    /// it, and passes it on to nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
}

/// Whose queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One session's: others are served.
    Session,
    /// One model's.
    Model,
    /// One tool's.
    Tool,
    /// A team's: other teams are served.
    Team,
    /// The node's: another node may serve.
    Node,
}

impl WireError {
    /// Makes an error without advice on when to come again.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let (message, lost) = (message.into(), Vec::new());
        Self { code, message, scope: None, retry_after_ms: None, lost }
    }

    /// Makes the error of a full queue: whose it is, and when to come again, in milliseconds.
    pub fn overloaded(scope: Scope, message: impl Into<String>, ms: u64) -> Self {
        Self { scope: Some(scope), ..Self::new(ErrorCode::Overloaded, message).retry_after(ms) }
    }

    /// Says when to come again.
    #[must_use]
    pub fn retry_after(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }
}

/// The body of a message that reports an error: `{"error":{"code":..,"message":..}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: WireError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_page_that_helps() {
        for code in ErrorCode::ALL {
            let page = code.page();
            assert!(page.starts_with(&format!("# {code}: {}\n", code.title())), "{code}: {page}");
            for part in ["\n## What happened\n", "\n## What to do\n"] {
                assert!(page.contains(part), "{code} lacks {part:?}");
            }
            assert_eq!(code.as_str().parse::<ErrorCode>(), Ok(*code));
        }
        let pages =
            std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/codes")).unwrap().count();
        assert_eq!(pages, ErrorCode::ALL.len(), "a page without a code");
    }

    #[test]
    fn codes_are_unique() {
        let mut codes: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorCode::ALL.len());
    }

    #[test]
    fn an_error_survives_its_wire_form() {
        let late = r#"{"error":{"code":"E1007","message":"late"}}"#;
        let full =
            r#"{"error":{"code":"E1006","message":"full","scope":"team","retry_after_ms":50}}"#;
        for (error, expected) in [
            (WireError::new(ErrorCode::DeadlineExceeded, "late"), late),
            (WireError::overloaded(Scope::Team, "full", 50), full),
        ] {
            let body = ErrorBody { error };
            let text = serde_json::to_string(&body).unwrap();
            assert_eq!(text, expected);
            assert_eq!(serde_json::from_str::<ErrorBody>(&text).unwrap(), body);
        }
    }
}
