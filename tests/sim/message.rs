//! What travels between processes.

use std::sync::Arc;

use agents_core::effect::CallEffect;
use wire::entry::ModelReplied;
use wire::run::{Budget, Parent};
use wire::{
    CallKey, Input, Name, OpenCall, RunId, RunReply, Said, SessionId, Timestamp, ToolReply,
};

/// A message. It may be lost, repeated or late, and outlives a crash.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Ask(Ask),
    Cancel {
        session: SessionId,
        run: RunId,
        /// Who wants to know that it arrived.
        parent: Option<SessionId>,
    },
    /// The run of a called agent is over, or there is none.
    CancelDelivered {
        session: SessionId,
        call: CallKey,
    },
    ModelReplied {
        session: SessionId,
        replied: ModelReplied,
    },
    ToolAsked {
        session: SessionId,
        call: CallEffect,
    },
    ToolReplied {
        session: SessionId,
        call: CallKey,
        attempt: u32,
        reply: ToolReply,
    },
    /// What a person says to the question of a call under way.
    Said {
        question: Name,
        said: Said,
    },
    /// A call with an open question ends by itself.
    Ends {
        question: Name,
    },
    /// What a person answers to a suspended call.
    Answered {
        session: SessionId,
        call: CallKey,
    },
    ProbeAsked {
        session: SessionId,
        of: CallKey,
        number: u32,
    },
    /// What a person decides about an open call.
    Decided {
        session: SessionId,
        input: Input,
    },
    /// A person looks at a call whose outcome is unknown, and finds out what came of it.
    Inspected {
        open: Box<OpenCall>,
    },
    Reply {
        asker: Asker,
        reply: Answer,
    },
}

/// A request to an agent.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) session: SessionId,
    pub(crate) run: RunId,
    pub(crate) agent: Name,
    pub(crate) text: String,
    pub(crate) budget: Budget,
    pub(crate) until: Option<Timestamp>,
    pub(crate) parent: Option<Parent>,
    pub(crate) asker: Asker,
}

/// Who waits for a reply.
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    Client(usize),
    Call { session: SessionId, call: CallKey },
}

/// What a request comes to.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Reply(Arc<RunReply>),
    Conflict,
}
