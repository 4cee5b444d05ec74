//! The thinker: free text in, one thought out. It is the same for every dialect.

use wire::chat::Head;
use wire::entry::FeedbackCode;
use wire::{FinishReason, ModelReply, Reading};

use super::text::Conversation;
use super::{Act, Prompt, Transcript, calls, shown, thinking, wording};

pub(super) fn prompt(transcript: &Transcript<'_>) -> Prompt {
    let (finished, current) = transcript.split();
    let mut told = Conversation::finished(wording::thinker_system(transcript.plan), transcript);
    let keep = told.messages.len();
    let question = if finished.is_empty() { wording::THINK_FIRST } else { wording::THINK_NEXT };
    told.user(question.to_owned());
    for act in current.map(|step| step.acts.as_slice()).unwrap_or_default() {
        if let Act::Feedback { raw, feedback } = act {
            if !raw.is_empty() {
                told.assistant(shown(raw));
            }
            told.user(format!("{}\n\n{}", feedback.to_text(), wording::THINK_AGAIN));
        }
    }
    Prompt { head: Head::default(), messages: told.messages, keep }
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
