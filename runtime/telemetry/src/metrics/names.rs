//! The names of what is measured, each with its meaning, and by which attributes it is told apart.

use wire::semconv;

/// A name and what it means.
type Named = (&'static str, &'static str);

pub(super) const MODEL_TIME: Named =
    ("gen_ai.client.operation.duration", "Time of the turns of models.");
pub(super) const TOKENS: Named =
    ("gen_ai.client.token.usage", "Tokens that models read and wrote.");
pub(super) const CALL_TIME: Named =
    ("callboard.call.duration", "Time of calls of tools and agents, from decision to outcome.");
pub(super) const RUN_TIME: Named =
    ("callboard.run.duration", "Time of runs, from acceptance to reply.");
pub(super) const COST: Named =
    ("callboard.cost", "What models cost by the prices of the team file, in US dollars.");
pub(super) const FEEDBACK: Named =
    ("callboard.feedback", "Replies of models that could not be used.");
pub(super) const SYNC_TIME: Named =
    ("callboard.journal.sync.duration", "Time in which commits of the journal became durable.");
pub(super) const ENTRIES: Named =
    ("callboard.journal.entries", "Entries that became durable in the journal.");
pub(super) const BYTES: Named = ("callboard.journal.written", "Bytes written to the journal.");
pub(super) const RESTARTS: Named =
    ("callboard.restarts", "Parts that failed and were started anew.");

/// Whether tokens were read or written.
pub(super) const TOKEN_TYPE: &str = "gen_ai.token.type";
/// What was started anew.
pub(super) const PART: &str = "callboard.part";

/// By what the turns of models are told apart.
pub(super) const OF_MODELS: &[&str] = &[
    semconv::OPERATION_NAME,
    semconv::PROVIDER_NAME,
    semconv::REQUEST_MODEL,
    semconv::RESPONSE_MODEL,
    semconv::SERVER_ADDRESS,
    semconv::SERVER_PORT,
    semconv::ERROR_TYPE,
    semconv::ROLE,
];
/// By what the tokens of models and their cost are told apart.
pub(super) const OF_TOKENS: &[&str] = &[
    semconv::OPERATION_NAME,
    semconv::PROVIDER_NAME,
    semconv::REQUEST_MODEL,
    semconv::RESPONSE_MODEL,
    semconv::SERVER_ADDRESS,
    semconv::SERVER_PORT,
    semconv::ROLE,
];
/// By what calls are told apart.
pub(super) const OF_CALLS: &[&str] = &[
    semconv::TOOL_NAME,
    semconv::AGENT_NAME,
    semconv::EFFECT,
    semconv::OUTCOME,
    semconv::ERROR_TYPE,
];
/// By what runs are told apart.
pub(super) const OF_RUNS: &[&str] = &[semconv::AGENT_NAME, semconv::OUTCOME, semconv::ERROR_TYPE];

#[cfg(test)]
mod tests {
    use wire::semconv::Kind;

    use super::*;

    #[test]
    fn what_is_measured_is_known_of_spans_that_nobody_reads() {
        for name in [OF_MODELS, OF_TOKENS, OF_CALLS, OF_RUNS].concat() {
            assert!(semconv::MEASURED.contains(&name), "{name}");
            // Others make no label.
            let attribute = semconv::ATTRIBUTES.iter().find(|attribute| attribute.name == name);
            assert!(matches!(attribute.unwrap().kind, Kind::Text | Kind::Whole), "{name}");
        }
    }
}
