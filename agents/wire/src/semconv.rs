//! The names of spans, events and attributes, the only place where they are written out.
//!
//! Those that are not ours are of the OpenTelemetry semantic conventions v1.41.1, the last version
//! whose text holds generative AI and MCP beside the rest; a test compares them with its registry.
//! Ours begin with `callboard.` and are described in `runtime/TRACES.md`.

/// The version of the conventions that the names are from.
pub const VERSION: &str = "1.41.1";

/// What an operation is, as [`OPERATION_NAME`] says it; a span's name begins with it.
pub mod operation {
    /// One turn of a model.
    pub const CHAT: &str = "chat";
    /// One run of an agent.
    pub const INVOKE_AGENT: &str = "invoke_agent";
    /// One call of a tool, also of an agent called as a tool.
    pub const EXECUTE_TOOL: &str = "execute_tool";
}

/// What happened within a span, at a time.
pub mod event {
    /// The run was taken up again after its actor or its process ended.
    pub const RESUMED: &str = "callboard.resumed";
    /// The call was put before a person.
    pub const ASKED: &str = "callboard.asked";
    /// A person allowed the call.
    pub const APPROVED: &str = "callboard.approved";
    /// A person denied the call, or nobody allowed it in time.
    pub const DENIED: &str = "callboard.denied";
    /// A person answered the question of a tool.
    pub const ANSWERED: &str = "callboard.answered";
    /// A person said what came of a call whose outcome was unknown.
    pub const RESOLVED: &str = "callboard.resolved";
    /// A tool was asked what came of a call, and answered.
    pub const PROBED: &str = "callboard.probed";
    /// A message of another run joined this one.
    pub const STEERED: &str = "callboard.steered";

    /// All events.
    pub const ALL: &[&str] =
        &[RESUMED, ASKED, APPROVED, DENIED, ANSWERED, RESOLVED, PROBED, STEERED];
}

/// The value of [`ERROR_TYPE`] where nothing fits.
pub const ERROR_OTHER: &str = "_OTHER";
/// The value of [`PROVIDER_NAME`] of what the runtime does itself.
pub const PROVIDER_SELF: &str = "callboard";
/// The value of [`PROVIDER_NAME`] of a model whose provider is not known, because none answered.
pub const PROVIDER_UNKNOWN: &str = "unknown";

/// An attribute of a span or an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Where the name is from.
    pub source: Source,
}

/// What the values of an attribute are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A list of texts.
    Texts,
    /// A whole number.
    Whole,
    /// A number.
    Real,
    /// A truth value.
    Truth,
    /// A text that is JSON and holds what was said.
    Content,
}

/// Where a name is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The conventions, as stable.
    Stable,
    /// The conventions, as in development.
    Development,
    /// Ours.
    Own,
}

/// The attributes that measures and the store read of spans, which therefore all spans have that
/// have something to say there, whoever else reads them.
pub const MEASURED: &[&str] = &[
    OPERATION_NAME,
    AGENT_NAME,
    PROVIDER_NAME,
    REQUEST_MODEL,
    RESPONSE_MODEL,
    SERVER_ADDRESS,
    SERVER_PORT,
    MODEL,
    ROLE,
    TURN,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    COST_NANO_USD,
    FEEDBACK,
    TOOL_NAME,
    EFFECT,
    OUTCOME,
    ERROR_TYPE,
];

macro_rules! attributes {
    ($($(#[doc = $doc:expr])+ $constant:ident = $name:literal, $kind:ident, $source:ident;)+) => {
        $($(#[doc = $doc])+ pub const $constant: &str = $name;)+

        /// All attributes.
        pub const ATTRIBUTES: &[Attribute] = &[
            $(Attribute { name: $name, kind: Kind::$kind, source: Source::$source },)+
        ];
    };
}

attributes! {
    /// What the operation is; a value of [`operation`].
    OPERATION_NAME = "gen_ai.operation.name", Text, Development;
    /// Who serves the model; of what the runtime does itself, [`PROVIDER_SELF`].
    PROVIDER_NAME = "gen_ai.provider.name", Text, Development;
    /// The agent.
    AGENT_NAME = "gen_ai.agent.name", Text, Development;
    /// What the agent is for.
    AGENT_DESCRIPTION = "gen_ai.agent.description", Text, Development;
    /// The session.
    CONVERSATION_ID = "gen_ai.conversation.id", Text, Development;
    /// The model as its provider calls it; as the team does, where that is not known.
    REQUEST_MODEL = "gen_ai.request.model", Text, Development;
    /// The most tokens that the reply may have.
    REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens", Whole, Development;
    /// The sampling temperature.
    REQUEST_TEMPERATURE = "gen_ai.request.temperature", Real, Development;
    /// The likelihood that the tokens have together among which the next one is chosen.
    REQUEST_TOP_P = "gen_ai.request.top_p", Real, Development;
    /// Among how many tokens the next one is chosen.
    REQUEST_TOP_K = "gen_ai.request.top_k", Real, Development;
    /// Where chance begins.
    REQUEST_SEED = "gen_ai.request.seed", Whole, Development;
    /// Texts at which the reply ends.
    REQUEST_STOP_SEQUENCES = "gen_ai.request.stop_sequences", Texts, Development;
    /// `json` if the reply is held to a schema.
    OUTPUT_TYPE = "gen_ai.output.type", Text, Development;
    /// Set, and true, if the reply came as a stream.
    REQUEST_STREAM = "gen_ai.request.stream", Truth, Development;
    /// The provider's id of the reply.
    RESPONSE_ID = "gen_ai.response.id", Text, Development;
    /// The model that answered, as its provider calls it.
    RESPONSE_MODEL = "gen_ai.response.model", Text, Development;
    /// Why the model stopped; one word for each reply, and there is one.
    FINISH_REASONS = "gen_ai.response.finish_reasons", Texts, Development;
    /// The time until the first piece of a streamed reply, in seconds.
    TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk", Real, Development;
    /// Tokens read, those from a cache included.
    INPUT_TOKENS = "gen_ai.usage.input_tokens", Whole, Development;
    /// Tokens written, those of hidden reasoning included.
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens", Whole, Development;
    /// Tokens read from the provider's cache.
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens", Whole, Development;
    /// Tokens written to the provider's cache.
    CACHE_CREATION_TOKENS = "gen_ai.usage.cache_creation.input_tokens", Whole, Development;
    /// Tokens of hidden reasoning.
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens", Whole, Development;
    /// The tool or agent that is called.
    TOOL_NAME = "gen_ai.tool.name", Text, Development;
    /// `function` for a tool, `extension` for an agent called as a tool.
    TOOL_TYPE = "gen_ai.tool.type", Text, Development;
    /// The call's key, the same on every attempt.
    TOOL_CALL_ID = "gen_ai.tool.call.id", Text, Development;
    /// The arguments of the call.
    TOOL_CALL_ARGUMENTS = "gen_ai.tool.call.arguments", Content, Development;
    /// What the model read as the result of the call.
    TOOL_CALL_RESULT = "gen_ai.tool.call.result", Content, Development;
    /// The agent's system text.
    SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions", Content, Development;
    /// What is told; of a model turn, what is new since the turn before.
    INPUT_MESSAGES = "gen_ai.input.messages", Content, Development;
    /// What is answered.
    OUTPUT_MESSAGES = "gen_ai.output.messages", Content, Development;
    /// What went wrong, of few values: an error code, the status of an HTTP answer, or
    /// [`ERROR_OTHER`].
    ERROR_TYPE = "error.type", Text, Stable;
    /// The host that was asked.
    SERVER_ADDRESS = "server.address", Text, Stable;
    /// The port that was asked.
    SERVER_PORT = "server.port", Whole, Stable;
    /// The method of a request.
    HTTP_METHOD = "http.request.method", Text, Stable;
    /// The status of an answer.
    HTTP_STATUS = "http.response.status_code", Whole, Stable;
    /// The address, without its query and with the names of arguments in place of their values.
    URL_FULL = "url.full", Text, Stable;
    /// The path with the names of arguments in place of their values.
    URL_TEMPLATE = "url.template", Text, Development;
    /// `http` for MCP over HTTP.
    PROTOCOL_NAME = "network.protocol.name", Text, Stable;
    /// The version of HTTP.
    PROTOCOL_VERSION = "network.protocol.version", Text, Stable;
    /// `pipe` for an MCP server that is a process, `tcp` for one over HTTP.
    TRANSPORT = "network.transport", Text, Stable;
    /// The method of MCP.
    MCP_METHOD = "mcp.method.name", Text, Development;
    /// The revision of MCP that was agreed on.
    MCP_VERSION = "mcp.protocol.version", Text, Development;
    /// Always `nats`.
    MESSAGING_SYSTEM = "messaging.system", Text, Development;
    /// `request`, or `publish` where no answer is awaited.
    MESSAGING_OPERATION = "messaging.operation.name", Text, Development;
    /// Always `send`.
    MESSAGING_OPERATION_TYPE = "messaging.operation.type", Text, Development;
    /// The subject, where no argument is part of it.
    MESSAGING_DESTINATION = "messaging.destination.name", Text, Development;
    /// The subject with the names of arguments in place of their values.
    MESSAGING_TEMPLATE = "messaging.destination.template", Text, Development;
    /// The `Nats-Msg-Id`: the call's key.
    MESSAGE_ID = "messaging.message.id", Text, Development;
    /// The session.
    MESSAGE_CONVERSATION = "messaging.message.conversation_id", Text, Development;
    /// The id of the event: the call's key.
    EVENT_ID = "cloudevents.event_id", Text, Development;
    /// The source of the event.
    EVENT_SOURCE = "cloudevents.event_source", Text, Development;
    /// The type of the event.
    EVENT_TYPE = "cloudevents.event_type", Text, Development;
    /// The version of `CloudEvents`.
    EVENT_VERSION = "cloudevents.event_spec_version", Text, Development;
    /// The program.
    PROGRAM = "process.executable.name", Text, Development;
    /// What the program ended with.
    EXIT_CODE = "process.exit.code", Whole, Development;
    /// The process; of a program in a sandbox, the one that made the sandbox.
    PROCESS_ID = "process.pid", Whole, Development;
    /// `sqlite`, `postgresql` or `neo4j`.
    DB_SYSTEM = "db.system.name", Text, Stable;
    /// The database, as the team calls it.
    DB_NAMESPACE = "db.namespace", Text, Stable;

    /// The team.
    TEAM = "callboard.team", Text, Own;
    /// The run.
    RUN_ID = "callboard.run.id", Text, Own;
    /// The part that a model plays: `thinker` or `actor`.
    ROLE = "callboard.role", Text, Own;
    /// The model as the team calls it.
    MODEL = "callboard.model", Text, Own;
    /// The step of the run, from 1; on a run, how many steps it took.
    STEP = "callboard.step", Whole, Own;
    /// The model turn of the run, from 0; of a call of a tool that asks a model, the one before it.
    TURN = "callboard.turn", Whole, Own;
    /// What the planner selected for the step: a tool, an agent, or the answer.
    SELECTED_TOOL = "callboard.selected_tool", Text, Own;
    /// How the actor model is asked.
    DIALECT = "callboard.dialect", Text, Own;
    /// What may be repeated of a call: `read`, `idempotent` or `once`.
    EFFECT = "callboard.effect", Text, Own;
    /// How often the provider was asked, or the call was made.
    ATTEMPTS = "callboard.attempts", Whole, Own;
    /// Which attempt of the call it is, from 1.
    ATTEMPT = "callboard.attempt", Whole, Own;
    /// Set, and true, if the attempt only waited for the outcome of an earlier one.
    REJOINED = "callboard.rejoined", Truth, Own;
    /// The model as the team calls it, if another one stood in.
    SERVED_BY = "callboard.served_by", Text, Own;
    /// How often the run was taken up again.
    RESUMES = "callboard.resumes", Whole, Own;
    /// Questions and answers of earlier runs that the models of the run were shown.
    HISTORY_SHOWN = "callboard.history.shown", Whole, Own;
    /// Those that the session has beside and that they were not shown.
    HISTORY_LEFT_OUT = "callboard.history.left_out", Whole, Own;
    /// The run that the message joined, or the run that joined.
    JOINED = "callboard.joined", Text, Own;
    /// Set, and true, if the run read untrusted words.
    TAINTED = "callboard.tainted", Truth, Own;
    /// How it ended.
    OUTCOME = "callboard.outcome", Text, Own;
    /// Why a reply could not be used.
    FEEDBACK = "callboard.feedback", Text, Own;
    /// What the model was told of a reply that could not be used.
    FEEDBACK_TEXT = "callboard.feedback.text", Content, Own;
    /// How many replies of the run could not be used.
    FEEDBACK_ROUNDS = "callboard.feedback.rounds", Whole, Own;
    /// How many bytes of a reply stand after what counts of it, and were not read.
    UNREAD_BYTES = "callboard.unread_bytes", Whole, Own;
    /// What was used cost so much by the prices of the team file, in billionths of a US dollar.
    COST_NANO_USD = "callboard.usage.cost_nano_usd", Whole, Own;
    /// Calls that were made, those of called agents included.
    CALLS = "callboard.usage.calls", Whole, Own;
    /// Tokens that the run had left at the end of the span.
    TOKENS_LEFT = "callboard.budget.tokens_left", Whole, Own;
    /// Steps that the run had left at the end of the span.
    STEPS_LEFT = "callboard.budget.steps_left", Whole, Own;
    /// Calls that the run had left at the end of the span, if they are bounded.
    CALLS_LEFT = "callboard.budget.calls_left", Whole, Own;
    /// Money that the run had left at the end of the span, in billionths of a US dollar, if it is
    /// bounded.
    COST_LEFT_NANO_USD = "callboard.budget.cost_left_nano_usd", Whole, Own;
    /// What was decided about: the digest of a call's tool and arguments.
    DIGEST = "callboard.digest", Text, Own;
    /// The call that an event is about, where that is not the span's own.
    CALL = "callboard.call", Text, Own;
    /// What a person is asked for: `approval`, `question` or `unknown`.
    OPEN_KIND = "callboard.open.kind", Text, Own;
    /// Whether a person or a probe found that the call was done.
    DONE = "callboard.done", Truth, Own;
    /// Bytes of the agent's system text.
    INSTRUCTIONS_BYTES = "callboard.content.instructions_bytes", Whole, Own;
    /// Bytes of what is told.
    INPUT_BYTES = "callboard.content.input_bytes", Whole, Own;
    /// Bytes of what is answered.
    OUTPUT_BYTES = "callboard.content.output_bytes", Whole, Own;
    /// Bytes of the arguments.
    ARGUMENTS_BYTES = "callboard.content.arguments_bytes", Whole, Own;
    /// Bytes of the result.
    RESULT_BYTES = "callboard.content.result_bytes", Whole, Own;
    /// Bytes of what the model was told of its reply.
    FEEDBACK_BYTES = "callboard.content.feedback_bytes", Whole, Own;
}

/// Finds an attribute by its name.
pub fn attribute(name: &str) -> Option<&'static Attribute> {
    ATTRIBUTES.iter().find(|attribute| attribute.name == name)
}

/// Content attributes, each with the one that tells its size.
pub const CONTENT: &[(&str, &str)] = &[
    (SYSTEM_INSTRUCTIONS, INSTRUCTIONS_BYTES),
    (INPUT_MESSAGES, INPUT_BYTES),
    (OUTPUT_MESSAGES, OUTPUT_BYTES),
    (TOOL_CALL_ARGUMENTS, ARGUMENTS_BYTES),
    (TOOL_CALL_RESULT, RESULT_BYTES),
    (FEEDBACK_TEXT, FEEDBACK_BYTES),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_stands_once_and_says_whose_it_is() {
        let names: BTreeSet<&str> = ATTRIBUTES.iter().map(|attribute| attribute.name).collect();
        assert_eq!(names.len(), ATTRIBUTES.len());
        for Attribute { name, source, .. } in ATTRIBUTES {
            assert_eq!(name.starts_with("callboard."), *source == Source::Own, "{name}");
        }
        assert!(event::ALL.iter().all(|name| name.starts_with("callboard.")));
    }

    #[test]
    fn every_content_has_a_size() {
        let contents = ATTRIBUTES.iter().filter(|attribute| attribute.kind == Kind::Content);
        let sized: BTreeSet<&str> = CONTENT.iter().map(|(content, _)| *content).collect();
        assert_eq!(contents.map(|content| content.name).collect::<BTreeSet<_>>(), sized);
        for (_, size) in CONTENT {
            assert_eq!(attribute(size).map(|size| size.kind), Some(Kind::Whole), "{size}");
        }
    }
}
