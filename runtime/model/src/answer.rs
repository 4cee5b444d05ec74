//! What one attempt at a provider gave, before it becomes a reply.

use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;
use wire::chat::TurnDetail;
use wire::{Digest, FinishReason, ModelReply, ToolCall, Usage};

use crate::client::Conversation;
use crate::reasoning::Kept;

/// Bytes that are taken for one token as long as the provider has not counted.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// What ends a thought that a model wrote into its text.
const THOUGHT_END: &str = "</think>";

/// Places behind which a reply is sought, since each may be read to the end.
const THOUGHTS_MAX: usize = 8;

/// What came of a reply before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// The bytes of what the model wrote, its reasoning among them.
    pub(crate) bytes: u64,
    /// What the provider had counted.
    pub(crate) usage: Usage,
}

impl Received {
    /// Returns what an attempt of so many bytes that ended so may have used. Of what is written a
    /// provider counts the beginning first, and the rest at the end.
    pub(crate) fn used(self, sent: u64) -> Usage {
        let Usage { input_tokens, output_tokens, .. } = self.usage;
        let input_tokens = if input_tokens == 0 { tokens(sent) } else { input_tokens };
        Usage::of_tokens(input_tokens, output_tokens.max(tokens(self.bytes)))
    }
}

/// Estimates the tokens of some bytes.
const fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// A whole answer of a provider; ids may be missing and nothing is known of attempts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) content: String,
    /// The text by which the model refuses, in place of `content`.
    pub(crate) refusal: String,
    /// The calls, in order; an id is empty if the provider gave none.
    pub(crate) calls: Vec<ToolCall>,
    /// Why the model stopped; absent if the provider does not say.
    pub(crate) finish: Option<FinishReason>,
    /// What was used; zero if the provider does not say, until it is
    /// [estimated](Self::estimate_usage).
    pub(crate) usage: Usage,
    /// The model that answered, if the provider says.
    pub(crate) model: Option<String>,
    /// The reasoning behind the calls.
    pub(crate) reasoning: Kept,
    /// What else the provider says, for traces.
    pub(crate) detail: TurnDetail,
}

/// A reply whose schema was wrapped; its property is [`WRAPPER`](crate::lower::WRAPPER).
#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    reply: &'a RawValue,
}

impl Answer {
    /// Takes the reply out of the object around it, byte for byte. What stands before the object,
    /// such as a thought or a fence, and after it is left to who reads the reply, and so is what is
    /// no such object.
    pub(crate) fn unwrap_reply(&mut self) {
        if let Some((object, reply)) = wrapped(&self.content) {
            self.content.replace_range(object, &reply);
        }
    }

    /// Estimates the tokens that the provider does not count, by the bytes that were sent and
    /// came: limits of tokens and money would never be reached by what counts as nothing.
    pub(crate) fn estimate_usage(&mut self, sent: u64) {
        if self.usage.input_tokens == 0 {
            self.usage.input_tokens = tokens(sent);
        }
        if self.usage.output_tokens > 0 {
            return;
        }
        let of_call = |call: &ToolCall| call.name.len() + call.arguments.len();
        let calls: usize = self.calls.iter().map(of_call).sum();
        let came = (self.content.len() + self.refusal.len() + calls) as u64;
        self.usage.output_tokens = tokens(came);
    }

    /// Makes the reply of a turn, where it is said who was asked: the provider, the model as the
    /// provider calls it, and what names both for the reasoning, without which it is dropped.
    ///
    /// Calls without an id, or with one that occurred before, get `call<n>`, counted over the
    /// conversation, so that the answers to calls of several turns are told apart: of nine letters and
    /// digits, the only form that Mistral's servers take. A refusal is withheld content.
    pub(crate) fn into_reply(
        self,
        conversation: &Conversation,
        (provider, model, digest): (&str, &str, Option<Digest>),
        attempts: u32,
    ) -> ModelReply {
        let refused = self.content.is_empty() && !self.refusal.is_empty();
        let mut calls = self.calls;
        let mut count = None;
        for at in 0..calls.len() {
            let (before, rest) = calls.split_at_mut(at);
            let Some(call) = rest.first_mut() else { break };
            // A reply has few calls, and a conversation many: it is gone through, not kept as a set.
            let is_taken = |id: &str| {
                before.iter().any(|call| call.id == id)
                    || conversation.messages.call_ids().any(|it| it == id)
            };
            if call.id.is_empty() || is_taken(&call.id) {
                let count = *count.get_or_insert_with(|| conversation.messages.call_ids().count());
                let mut fresh = (count + at + 1..).map(|number| format!("call{number:05}"));
                call.id = fresh.find(|id| !is_taken(id)).unwrap_or_default();
            }
        }
        ModelReply {
            content: if refused { self.refusal } else { self.content }.into(),
            calls,
            reasoning: digest.and_then(|by| self.reasoning.of(by)),
            finish: if refused {
                FinishReason::ContentFilter
            } else {
                self.finish.unwrap_or(FinishReason::Other)
            },
            usage: self.usage,
            provider: provider.to_owned(),
            model: self.model.unwrap_or_else(|| model.to_owned()),
            attempts,
            served_by: None,
            detail: self.detail,
        }
    }
}

/// Finds the object around a reply, and returns its place and the reply. A text that begins with an
/// object begins with no thought; else the first one behind a thought's end counts, of which the
/// thought and the reply may both speak, and without one the first of all.
fn wrapped(content: &str) -> Option<(Range<usize>, String)> {
    let is_bare = content.trim_start().starts_with('{');
    let ends = content.match_indices(THOUGHT_END).filter(|_| !is_bare).take(THOUGHTS_MAX);
    let mut places = ends.map(|(at, tag)| at + tag.len()).chain([0]);
    places.find_map(|said| {
        let start = said + content.get(said..)?.find('{')?;
        let object = serde_json::Deserializer::from_str(content.get(start..)?);
        let mut objects = object.into_iter::<Wrapped<'_>>();
        let reply = objects.next()?.ok()?.reply.get().to_owned();
        Some((start..start + objects.byte_offset(), reply))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{call, conversation, said};

    #[test]
    fn no_two_calls_of_a_conversation_have_one_id() {
        let before = vec![said("", vec![call("a", "f", ""), call("call00004", "f", "")])];
        let asked = conversation(wire::chat::Head::default(), before, None);
        for (ids, expected) in [
            (vec!["b", "c"], vec!["b", "c"]),
            (vec!["", "b", ""], vec!["call00003", "b", "call00005"]),
            (vec!["a", "b", "b"], vec!["call00003", "b", "call00005"]),
            (vec!["x", ""], vec!["x", "call00005"]),
            (vec!["", "call00003"], vec!["call00003", "call00005"]),
        ] {
            let calls = ids.iter().map(|id| call(id, "f", "")).collect();
            let reply = Answer { calls, ..Answer::default() }.into_reply(
                &asked,
                ("p", "m", Some(crate::fixture::asked())),
                1,
            );
            let found: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(found, expected, "{ids:?}");
        }
    }

    #[test]
    fn what_was_not_counted_is_estimated() {
        for (bytes, counted, expected) in [
            (0, (0, 0), (25, 0)),
            (9, (0, 0), (25, 3)),
            (400, (7, 1), (7, 100)),
            (4, (0, 5), (25, 5)),
        ] {
            let usage = Usage::of_tokens(counted.0, counted.1);
            let used = Received { bytes, usage }.used(100);
            assert_eq!((used.input_tokens, used.output_tokens), expected, "{bytes} {counted:?}");
        }
    }

    #[test]
    fn a_wrapped_reply_comes_out_byte_for_byte() {
        for (content, expected) in [
            (r#"{"reply": {"b" :1.0,"a":1e400} }"#, r#"{"b" :1.0,"a":1e400}"#),
            (r#" {"reply":"text"}"#, r#" "text""#),
            (r#"<think></think>{"reply":{"a":1}}"#, r#"<think></think>{"a":1}"#),
            (
                "So {\"reply\":1}.</think>\n```json\n{\"reply\":{\"a\":1}}\n```",
                "So {\"reply\":1}.</think>\n```json\n{\"a\":1}\n```",
            ),
            (
                r#"<think>hm</think>{"reply":{"a":"close with </think>"}}"#,
                r#"<think>hm</think>{"a":"close with </think>"}"#,
            ),
            (
                r#"It is </think>{"b":1}</think>{"reply":{"a":1}}"#,
                r#"It is </think>{"b":1}</think>{"a":1}"#,
            ),
            ("```\n{\"reply\":{\"a\":\"</think>\"}}\n```", "```\n{\"a\":\"</think>\"}\n```"),
            ("Here: {\"reply\":1}.", "Here: 1."),
            (r#"{"reply":{"a":"</think>","reply":2}}"#, r#"{"a":"</think>","reply":2}"#),
            (r#"{"a":{"reply":1}}"#, r#"{"a":{"reply":1}}"#),
            (r#"{"reply":{"a":"#, r#"{"reply":{"a":"#),
            ("I refuse.", "I refuse."),
        ] {
            let mut answer = Answer { content: content.to_owned(), ..Answer::default() };
            answer.unwrap_reply();
            assert_eq!(answer.content, expected);
        }
    }
}
