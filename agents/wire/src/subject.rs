//! Subjects: the one place that knows how they are built and read.

use crate::id::{CallKey, Name, RunId, SessionId};

/// The subjects of one installation, all under one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects {
    prefix: String,
}

/// The prefix used unless the config names another.
pub const PREFIX_DEFAULT: &str = "callboard.v1";

/// The longest prefix, in characters; it leaves room for the tokens that follow.
pub const PREFIX_CHARS_MAX: usize = 100;

/// What the names of the services of teams begin with.
pub const SERVICE_PREFIX: &str = "callboard-";

/// Returns the name of the service as which a team is listed.
pub fn service_of(team: &Name) -> String {
    format!("{SERVICE_PREFIX}{team}")
}

/// What can be asked of a run by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunVerb {
    /// End it.
    Cancel,
    /// Where does it stand?
    Status,
    /// Its reply, as soon as there is one.
    Result,
    /// An answer for a run that waits for a person.
    Answer,
}

impl RunVerb {
    /// All verbs.
    pub const ALL: [Self; 4] = [Self::Cancel, Self::Status, Self::Result, Self::Answer];

    /// Returns the token used in subjects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Status => "status",
            Self::Result => "result",
            Self::Answer => "answer",
        }
    }
}

/// What can be said of an open call, or asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVerb {
    /// What is it?
    Show,
    /// Make it.
    Approve,
    /// Do not make it.
    Deny,
    /// What came of it.
    Resolve,
}

impl CallVerb {
    /// All verbs.
    pub const ALL: [Self; 4] = [Self::Show, Self::Approve, Self::Deny, Self::Resolve];

    /// Returns the token used in subjects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Show => "show",
            Self::Approve => "approve",
            Self::Deny => "deny",
            Self::Resolve => "resolve",
        }
    }
}

/// What a subject names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// A run is asked of an agent.
    AgentRun {
        /// The team.
        team: Name,
        /// The agent.
        agent: Name,
    },
    /// What observers of a session see.
    SessionEvents {
        /// The team.
        team: Name,
        /// The session.
        session: SessionId,
    },
    /// Control and look-up of a run.
    Run {
        /// The team.
        team: Name,
        /// The run.
        run: RunId,
        /// What is wanted.
        verb: RunVerb,
    },
    /// The open calls of a team.
    Calls {
        /// The team.
        team: Name,
    },
    /// Control and look-up of an open call.
    Call {
        /// The team.
        team: Name,
        /// The call.
        call: CallKey,
        /// What is wanted.
        verb: CallVerb,
    },
    /// One model turn.
    Model {
        /// The team.
        team: Name,
        /// The model.
        model: Name,
    },
    /// One tool call.
    Tool {
        /// The team.
        team: Name,
        /// The tool.
        tool: Name,
    },
    /// Events that answer those that the tools of a source of event types sent.
    EventReply {
        /// The team.
        team: Name,
        /// The source.
        source: Name,
    },
    /// A question of a tool that waits for its answer.
    Question {
        /// The team.
        team: Name,
        /// The tool.
        tool: Name,
        /// The question.
        question: Name,
    },
    /// Turns of a model that nobody waits for any more.
    ModelStop {
        /// The team.
        team: Name,
        /// The model.
        model: Name,
    },
    /// Calls of a tool that nobody waits for any more.
    ToolStop {
        /// The team.
        team: Name,
        /// The tool.
        tool: Name,
    },
    /// Which node serves the runs of a team.
    Owner {
        /// The team.
        team: Name,
    },
    /// What every node has of a trace.
    NodeTrace {
        /// The trace's id, the first digits of its id, or a run in it.
        trace: Name,
    },
    /// How every node fares.
    NodeStats,
}

/// Why a text is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a subject prefix is made of names joined by dots, at most {PREFIX_CHARS_MAX} characters, this is {0:?}"
)]
pub struct PrefixError(String);

impl Default for Subjects {
    fn default() -> Self {
        Self { prefix: PREFIX_DEFAULT.to_owned() }
    }
}

impl Subjects {
    /// Takes a prefix such as `callboard.v1`.
    pub fn new(prefix: &str) -> Result<Self, PrefixError> {
        let names = prefix.split('.').all(|token| Name::new(token).is_ok());
        if !names || prefix.len() > PREFIX_CHARS_MAX {
            return Err(PrefixError(prefix.to_owned()));
        }
        Ok(Self { prefix: prefix.to_owned() })
    }

    /// Joins tokens to a subject of the installation.
    fn of(&self, tokens: &[&str]) -> String {
        let length = self.prefix.len() + tokens.iter().map(|token| 1 + token.len()).sum::<usize>();
        let mut subject = String::with_capacity(length);
        subject.push_str(&self.prefix);
        for token in tokens {
            subject.push('.');
            subject.push_str(token);
        }
        subject
    }

    /// Where runs of an agent are asked for.
    pub fn agent_run(&self, team: &Name, agent: &Name) -> String {
        self.of(&[team.as_str(), "agent", agent.as_str(), "run"])
    }

    /// Where turns of a model are asked for.
    pub fn model(&self, team: &Name, model: &Name) -> String {
        self.of(&[team.as_str(), "model", model.as_str()])
    }

    /// Where calls of a tool are asked for.
    pub fn tool(&self, team: &Name, tool: &Name) -> String {
        self.of(&[team.as_str(), "tool", tool.as_str()])
    }

    /// Where a call of a tool waits for the answer to its question.
    pub fn question(&self, team: &Name, tool: &Name, question: &Name) -> String {
        self.of(&[team.as_str(), "tool", tool.as_str(), "question", question.as_str()])
    }

    /// Where events come that answer those that the tools of a source of event types sent.
    pub fn event_reply(&self, team: &Name, source: &Name) -> String {
        self.of(&[team.as_str(), "eventtypes", source.as_str(), "reply"])
    }

    /// Where all who serve a model are told of turns that nobody waits for any more.
    pub fn model_stop(&self, team: &Name, model: &Name) -> String {
        self.of(&[team.as_str(), "model", model.as_str(), "stop"])
    }

    /// Where all who serve a tool are told of calls that nobody waits for any more.
    pub fn tool_stop(&self, team: &Name, tool: &Name) -> String {
        self.of(&[team.as_str(), "tool", tool.as_str(), "stop"])
    }

    /// Matches the stops of all models and of all tools of a team.
    pub fn all_stops(&self, team: &Name) -> [String; 2] {
        ["model", "tool"].map(|kind| self.of(&[team.as_str(), kind, "*", "stop"]))
    }

    /// Where observers of a session listen.
    pub fn session_events(&self, team: &Name, session: &SessionId) -> String {
        self.of(&[team.as_str(), "session", session.as_str(), "events"])
    }

    /// Matches the events of all sessions of a team.
    pub fn all_session_events(&self, team: &Name) -> String {
        self.of(&[team.as_str(), "session", "*", "events"])
    }

    /// Where something is asked of a run.
    pub fn run(&self, team: &Name, run: &RunId, verb: RunVerb) -> String {
        self.of(&[team.as_str(), "run", run.as_str(), verb.as_str()])
    }

    /// Matches one verb for all runs of a team.
    pub fn all_runs(&self, team: &Name, verb: RunVerb) -> String {
        self.of(&[team.as_str(), "run", "*", verb.as_str()])
    }

    /// Where the open calls of a team are listed.
    pub fn calls(&self, team: &Name) -> String {
        self.of(&[team.as_str(), "calls"])
    }

    /// Where something is said of an open call.
    pub fn call(&self, team: &Name, call: &CallKey, verb: CallVerb) -> String {
        self.of(&[team.as_str(), "call", call.as_str(), verb.as_str()])
    }

    /// Matches one verb for all calls of a team.
    pub fn all_calls(&self, team: &Name, verb: CallVerb) -> String {
        self.of(&[team.as_str(), "call", "*", verb.as_str()])
    }

    /// Where the node that serves the runs of a team says so, and is asked.
    pub fn owner(&self, team: &Name) -> String {
        self.of(&[team.as_str(), "owner"])
    }

    /// Where every node is asked what it has of a trace. Teams have no subject of this form, so one
    /// that is named `node` is in nobody's way.
    pub fn node_trace(&self, trace: &Name) -> String {
        self.of(&["node", "trace", trace.as_str()])
    }

    /// Matches the look-ups of all traces.
    pub fn all_node_traces(&self) -> String {
        self.of(&["node", "trace", "*"])
    }

    /// Where every node is asked how it fares.
    pub fn node_stats(&self) -> String {
        self.of(&["node", "stats"])
    }

    /// Returns what all subjects begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Matches every subject of the installation.
    pub fn everything(&self) -> String {
        self.of(&[">"])
    }

    /// Tells whether a subject, of any form, belongs to the installation.
    pub fn owns(&self, subject: &str) -> bool {
        let rest = subject.strip_prefix(&self.prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Reads a subject; `None` if it is none of ours.
    pub fn parse(&self, subject: &str) -> Option<Route> {
        let rest = subject.strip_prefix(&self.prefix)?.strip_prefix('.')?;
        let tokens: Vec<&str> = rest.split('.').collect();
        let name = |token: &str| Name::new(token).ok();
        match *tokens.as_slice() {
            ["node", "trace", trace] => Some(Route::NodeTrace { trace: name(trace)? }),
            ["node", "stats"] => Some(Route::NodeStats),
            [team, "agent", agent, "run"] => {
                Some(Route::AgentRun { team: name(team)?, agent: name(agent)? })
            }
            [team, "session", session, "events"] => Some(Route::SessionEvents {
                team: name(team)?,
                session: SessionId::new(session).ok()?,
            }),
            [team, "run", run, verb] => Some(Route::Run {
                team: name(team)?,
                run: RunId::new(run).ok()?,
                verb: RunVerb::ALL.into_iter().find(|v| v.as_str() == verb)?,
            }),
            [team, "calls"] => Some(Route::Calls { team: name(team)? }),
            [team, "owner"] => Some(Route::Owner { team: name(team)? }),
            [team, "call", call, verb] => Some(Route::Call {
                team: name(team)?,
                call: CallKey::new(call).ok()?,
                verb: CallVerb::ALL.into_iter().find(|v| v.as_str() == verb)?,
            }),
            [team, "model", model] => Some(Route::Model { team: name(team)?, model: name(model)? }),
            [team, "tool", tool] => Some(Route::Tool { team: name(team)?, tool: name(tool)? }),
            [team, "tool", tool, "question", question] => Some(Route::Question {
                team: name(team)?,
                tool: name(tool)?,
                question: name(question)?,
            }),
            [team, "eventtypes", source, "reply"] => {
                Some(Route::EventReply { team: name(team)?, source: name(source)? })
            }
            [team, "model", model, "stop"] => {
                Some(Route::ModelStop { team: name(team)?, model: name(model)? })
            }
            [team, "tool", tool, "stop"] => {
                Some(Route::ToolStop { team: name(team)?, tool: name(tool)? })
            }
            _ => None,
        }
    }
}

/// Tells whether a subject belongs to NATS itself: its services, its streams, and inboxes.
pub fn is_of_nats(subject: &str) -> bool {
    let first = subject.split('.').next().unwrap_or_default();
    first.starts_with('$') || first.starts_with("_INBOX") || first.starts_with("_R_")
}

/// Tells whether a reply subject is an inbox, the only place that answers are sent to.
///
/// A reply subject is chosen by the sender; answering anywhere else would lend it our rights.
pub fn is_inbox(subject: &str) -> bool {
    let Some((first, rest)) = subject.split_once('.') else { return false };
    let first_is_inbox =
        first == "_INBOX" || first.strip_prefix("_INBOX_").is_some_and(|t| Name::new(t).is_ok());
    // No token is empty or a pattern. Every request is looked at, so all is seen in one go.
    let last = rest.bytes().try_fold(b'.', |before, byte| {
        let is_plain = !matches!(byte, b'*' | b'>' | b' ' | b'\t' | b'\r' | b'\n');
        (is_plain && (byte, before) != (b'.', b'.')).then_some(byte)
    });
    first_is_inbox && last.is_some_and(|last| last != b'.') && subject.len() <= 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_is_read_again() {
        let subjects = Subjects::new("acme.v2").unwrap();
        let team = Name::new("t").unwrap();
        let x = Name::new("x").unwrap();
        let session = SessionId::new("s").unwrap();
        let run = RunId::new("r").unwrap();
        let call = CallKey::new("c").unwrap();
        let cases = [
            (
                subjects.agent_run(&team, &x),
                Route::AgentRun { team: team.clone(), agent: x.clone() },
            ),
            (
                subjects.model_stop(&team, &x),
                Route::ModelStop { team: team.clone(), model: x.clone() },
            ),
            (
                subjects.tool_stop(&team, &x),
                Route::ToolStop { team: team.clone(), tool: x.clone() },
            ),
            (subjects.model(&team, &x), Route::Model { team: team.clone(), model: x.clone() }),
            (subjects.tool(&team, &x), Route::Tool { team: team.clone(), tool: x.clone() }),
            (
                subjects.question(&team, &x, &x),
                Route::Question { team: team.clone(), tool: x.clone(), question: x.clone() },
            ),
            (
                subjects.event_reply(&team, &x),
                Route::EventReply { team: team.clone(), source: x.clone() },
            ),
            (
                subjects.session_events(&team, &session),
                Route::SessionEvents { team: team.clone(), session },
            ),
            (
                subjects.run(&team, &run, RunVerb::Cancel),
                Route::Run { team: team.clone(), run, verb: RunVerb::Cancel },
            ),
            (subjects.node_trace(&x), Route::NodeTrace { trace: x.clone() }),
            (subjects.node_stats(), Route::NodeStats),
            (
                subjects.calls(&Name::new("node").unwrap()),
                Route::Calls { team: Name::new("node").unwrap() },
            ),
            (subjects.calls(&team), Route::Calls { team: team.clone() }),
            (subjects.owner(&team), Route::Owner { team: team.clone() }),
            (
                subjects.call(&team, &call, CallVerb::Deny),
                Route::Call { team, call, verb: CallVerb::Deny },
            ),
        ];
        for (subject, route) in cases {
            assert_eq!(subjects.parse(&subject), Some(route), "{subject}");
        }
    }

    #[test]
    fn foreign_subjects_are_not_read() {
        let subjects = Subjects::default();
        for subject in [
            "",
            "callboard.v1",
            "callboard.v1.t.agent.run",
            "callboard.v1.t.agent..run",
            "callboard.v1.t.agent.*.run",
            "callboard.v2.t.tool.x",
            "callboard.v1.t.run.r.explode",
            "callboard.v1.t.call.c.explode",
            "callboard.v1.t.calls.c",
            "callboard.v1.t.owner.x",
            "callboard.v1.t.tool.x.start",
            "callboard.v1.t.trace.x",
            "callboard.v1.t.stats",
            "callboard.v1.node.trace.a b",
            "$SYS.x",
        ] {
            assert_eq!(subjects.parse(subject), None, "{subject}");
        }
        for prefix in ["", "a..b", "a.*", ".a", "a b"] {
            assert!(Subjects::new(prefix).is_err(), "{prefix}");
        }
    }

    #[test]
    fn every_subject_has_its_owner() {
        let subjects = Subjects::default();
        // (subject, is ours, is of NATS)
        let cases = [
            ("callboard.v1.t.tool.x", true, false),
            ("callboard.v1.anything.else", true, false),
            ("callboard.v1", true, false),
            ("callboard.v10.t", false, false),
            ("orders.callboard.v1", false, false),
            ("$SRV.INFO", false, true),
            ("$JS.API.INFO", false, true),
            ("_INBOX.a", false, true),
            ("_INBOX_x.a", false, true),
            ("_R_.a", false, true),
            ("orders.$x", false, false),
        ];
        for (subject, ours, of_nats) in cases {
            assert_eq!(subjects.owns(subject), ours, "{subject}");
            assert_eq!(is_of_nats(subject), of_nats, "{subject}");
        }
    }

    #[test]
    fn only_inboxes_are_answered() {
        for good in ["_INBOX.abc", "_INBOX.abc.def", "_INBOX_tool.abc"] {
            assert!(is_inbox(good), "{good}");
        }
        for bad in [
            "",
            "_INBOX",
            "_INBOX.",
            "_INBOX.a.*",
            "_INBOX.>",
            "_INBOX..a",
            "_INBOX.a..b",
            "_INBOX.a.",
            "$JS.API.STREAM.LIST",
            "$SYS.REQ",
            "callboard.v1.t.tool.x",
            "_INBOXX.a",
            "_INBOX.a b",
            "_INBOX_.a",
        ] {
            assert!(!is_inbox(bad), "{bad}");
        }
    }
}
