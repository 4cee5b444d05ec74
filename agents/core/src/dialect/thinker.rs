//! The thinker: free text in, one thought out. It is the same for every dialect.

use wire::chat::Head;
use wire::entry::FeedbackCode;
use wire::{FinishReason, ModelReply, ModelRole, Reading};

use super::{Prompt, Transcript, calls, text, thinking, wording};
use crate::validate::Catalogue;

/// Renders the run as text, then the question.
pub(super) fn prompt(catalogue: &Catalogue, transcript: &Transcript<'_>) -> Prompt {
    text::prompt(ModelRole::Thinker, catalogue, transcript, Head::default())
}

/// Reads a thought. A cut thought is still one and says that it was cut.
pub(super) fn read(reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    let cut = spoken.cut || reply.finish == FinishReason::Length;
    match (spoken.text.is_empty(), cut) {
        (false, false) => Reading::Thought { text: spoken.text },
        (false, true) => {
            Reading::Thought { text: format!("{}\n{}", spoken.text, wording::THOUGHT_CUT) }
        }
        (true, true) => calls::fault(
            FeedbackCode::TruncatedReply,
            "the reply reached the token limit before it said anything; think less and say more",
            reply,
        ),
        (true, false) => {
            calls::fault(FeedbackCode::EmptyReply, "the reply is empty; say what comes next", reply)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::FinishReason::{Length, Stop};

    use super::super::fixture::{outline, reply};
    use super::*;

    #[test]
    fn a_thought_is_what_was_said() {
        let cases = [
            (Stop, " search first ", json!({"thought": "search first"})),
            (Stop, "<think>hm</think>search", json!({"thought": "search"})),
            (
                Length,
                "search fi",
                json!({"thought": format!("search fi\n{}", wording::THOUGHT_CUT)}),
            ),
            (Stop, "{\"tool\":1}", json!({"thought": "{\"tool\":1}"})),
            (Stop, " ", json!({"fault": "empty_reply"})),
            (Stop, "<think>hm</think>", json!({"fault": "empty_reply"})),
            (Length, "<think>hm", json!({"fault": "truncated_reply"})),
        ];
        for (finish, content, expected) in cases {
            assert_eq!(outline(&read(&reply(finish, content))), expected, "{content:?}");
        }
    }
}
