//! The thinker: free text in, one thought out. It is the same for every dialect.

use wire::chat::Head;
use wire::entry::Reason;
use wire::plan::Audience;
use wire::{FinishReason, ModelReply, ModelRole, Reading};

use super::{Prompt, Transcript, calls, text, thinking};
use crate::validate::Catalogue;

/// Renders the run as text, then the question.
pub(super) fn prompt(catalogue: &Catalogue, transcript: &Transcript<'_>) -> Prompt {
    let head = catalogue.head(ModelRole::Thinker, |_| Head::default());
    text::prompt(Audience::Thinker, catalogue, transcript, head)
}

/// Reads a thought.
pub(super) fn read(reply: &ModelReply) -> Reading {
    let spoken = thinking::removed(&reply.content);
    match (spoken.text.is_empty(), is_cut(reply)) {
        (false, _) => Reading::Thought { text: spoken.text.into_owned() },
        (true, true) => calls::fault(Reason::Cut, reply),
        (true, false) => calls::fault(Reason::Empty, reply),
    }
}

/// Tells whether more would have followed. A cut thought is still one.
pub(super) fn is_cut(reply: &ModelReply) -> bool {
    reply.finish == FinishReason::Length || thinking::removed(&reply.content).cut
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
            (Length, "search fi", json!({"thought": "search fi"})),
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
