//! The names of spans and attributes: the GenAI conventions of OpenTelemetry v1.41.1, and ours.
//!
//! The conventions are still being renamed, so nothing outside this module writes a name out.

/// What an operation is, as `gen_ai.operation.name`; a span's name begins with it.
pub mod operation {
    /// One turn of a model.
    pub const CHAT: &str = "chat";
    /// One run of an agent.
    pub const INVOKE_AGENT: &str = "invoke_agent";
    /// One call of a tool, also of an agent called as a tool.
    pub const EXECUTE_TOOL: &str = "execute_tool";
    /// The making of an agent by a remote service.
    pub const CREATE_AGENT: &str = "create_agent";
    /// One run of a team as a whole.
    pub const INVOKE_WORKFLOW: &str = "invoke_workflow";
    /// The making of embeddings.
    pub const EMBEDDINGS: &str = "embeddings";
    /// A search, such as in memory.
    pub const RETRIEVAL: &str = "retrieval";
    /// One completion of a text without roles.
    pub const TEXT_COMPLETION: &str = "text_completion";
    /// One generation of content of several kinds.
    pub const GENERATE_CONTENT: &str = "generate_content";
}

/// What the operation is; a value of [`operation`].
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// Who serves the model: a value of [`provider`], or a free word.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";

/// Well-known values of [`PROVIDER_NAME`](super::PROVIDER_NAME).
pub mod provider {
    /// OpenAI itself.
    pub const OPENAI: &str = "openai";
    /// Anthropic itself.
    pub const ANTHROPIC: &str = "anthropic";
    /// A local Ollama; not in the conventions, which allow free words.
    pub const OLLAMA: &str = "ollama";
    /// A llama.cpp server; not in the conventions, which allow free words.
    pub const LLAMA_CPP: &str = "llama_cpp";
}

/// The id of the agent.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// The name of the agent.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// What the agent is for.
pub const AGENT_DESCRIPTION: &str = "gen_ai.agent.description";
/// The version of the agent.
pub const AGENT_VERSION: &str = "gen_ai.agent.version";
/// The conversation; here, the session.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The source that a retrieval searches.
pub const DATA_SOURCE_ID: &str = "gen_ai.data_source.id";
/// The name of the workflow; here, the team.
pub const WORKFLOW_NAME: &str = "gen_ai.workflow.name";

/// The model that was asked for.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The most tokens that the reply may have.
pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// The temperature.
pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
/// The probability mass that is sampled from.
pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
/// How many tokens are sampled from.
pub const REQUEST_TOP_K: &str = "gen_ai.request.top_k";
/// The penalty for frequent tokens.
pub const REQUEST_FREQUENCY_PENALTY: &str = "gen_ai.request.frequency_penalty";
/// The penalty for tokens that are present.
pub const REQUEST_PRESENCE_PENALTY: &str = "gen_ai.request.presence_penalty";
/// Texts at which the reply ends; an array of strings.
pub const REQUEST_STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";
/// The seed.
pub const REQUEST_SEED: &str = "gen_ai.request.seed";
/// How many replies were asked for; set only if not 1.
pub const REQUEST_CHOICE_COUNT: &str = "gen_ai.request.choice.count";
/// Whether the reply came as a stream.
pub const REQUEST_STREAM: &str = "gen_ai.request.stream";
/// The encodings of embeddings; an array of strings.
pub const REQUEST_ENCODING_FORMATS: &str = "gen_ai.request.encoding_formats";
/// What kind of reply was asked for: `text`, `json`, `image` or `speech`.
pub const OUTPUT_TYPE: &str = "gen_ai.output.type";

/// The provider's id of the reply.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// The model that answered, as the provider calls it.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Why the model stopped; an array of strings.
pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// The time until the first piece of a streamed reply, in seconds.
pub const RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";

/// Tokens read, those from a cache included.
pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens written, those of hidden reasoning included.
pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Tokens read from the provider's cache.
pub const USAGE_CACHE_READ_INPUT_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens written to the provider's cache.
pub const USAGE_CACHE_CREATION_INPUT_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
/// Tokens of hidden reasoning.
pub const USAGE_REASONING_OUTPUT_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";

/// The name of the tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// What the tool does.
pub const TOOL_DESCRIPTION: &str = "gen_ai.tool.description";
/// What the tool is: `function`, `extension` or `datastore`.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The id of the call; here, its key.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The arguments of the call; content, so only where capture is on.
pub const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// The result of the call; content, so only where capture is on.
pub const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";
/// The tools that were offered; content, so only where capture is on.
pub const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";

/// The instructions; content, so only where capture is on.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// What the model read; content, so only where capture is on.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// What the model wrote; content, so only where capture is on.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";

/// The kind of error, of low cardinality: here, an error code, or [`ERROR_OTHER`].
pub const ERROR_TYPE: &str = "error.type";
/// The value of [`ERROR_TYPE`] where nothing fits.
pub const ERROR_OTHER: &str = "_OTHER";
/// The host that was asked.
pub const SERVER_ADDRESS: &str = "server.address";
/// The port that was asked.
pub const SERVER_PORT: &str = "server.port";

/// The team.
pub const TEAM: &str = "callboard.team";
/// The run.
pub const RUN: &str = "callboard.run.id";
/// How the run ended: `completed`, `failed` or `cancelled`.
pub const RUN_STATUS: &str = "callboard.run.status";
/// The step of the run, from 1.
pub const STEP: &str = "callboard.step";
/// The number of the model turn in the run, from 0.
pub const TURN: &str = "callboard.turn";
/// The part that the model played: `thinker` or `actor`.
pub const MODEL_ROLE: &str = "callboard.model.role";
/// The model's name in the team.
pub const MODEL_NAME: &str = "callboard.model.name";
/// How often the provider was asked, retries included.
pub const ATTEMPTS: &str = "callboard.attempts";
/// How the call ended: `ok`, `error` or `unknown`.
pub const CALL_OUTCOME: &str = "callboard.call.outcome";
/// What the tool may do: `read`, `idempotent` or `once`.
pub const CALL_EFFECT: &str = "callboard.call.effect";
/// Why the reply of a model could not be used.
pub const FEEDBACK_CODE: &str = "callboard.feedback.code";
/// How many runs stand above this one.
pub const DEPTH: &str = "callboard.depth";
/// Whether the span was taken up again after a restart.
pub const RESUMED: &str = "callboard.resumed";

/// Names the span of an operation on something, such as `execute_tool calculate`.
pub fn span_name(operation: &str, target: &str) -> String {
    format!("{operation} {target}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_named_by_its_operation_and_target() {
        assert_eq!(span_name(operation::EXECUTE_TOOL, "calculate"), "execute_tool calculate");
    }
}
