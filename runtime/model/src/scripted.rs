//! Plays a file of replies in place of a provider.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use config::script::{Script, ScriptedCall, ScriptedFault, ScriptedReply, matched_text};
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use wire::{Digest, ErrorCode, FinishReason, Message, ToolCall, Usage, WireError};

use crate::answer::Answer;
use crate::client::Conversation;
use crate::complaint::Complaint;
use crate::error::Error;
use crate::provider::Heard;
use crate::retry::Advice;

/// The most bytes that one compiled pattern may take, so that a script cannot fill the memory.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Conversations whose faults are counted. Beyond it the counts begin anew, since a script that
/// breaks this often is a test of faults, and one fault more does it no harm.
const FAULTS_COUNTED_MAX: usize = 65_536;

/// Characters of the last message that an error repeats.
const LAST_CHARS_MAX: usize = 200;

/// A model that says what its script says.
///
/// Which reply is played follows from the conversation alone. Only the faults that pass are
/// counted, in memory: after a restart they happen again.
pub(crate) struct ScriptedModel {
    conditional: Vec<(Regex, Line)>,
    plain: Vec<Line>,
    faults: Mutex<HashMap<Digest, u32>>,
}

/// One reply of the script.
struct Line {
    reply: ScriptedReply,
    /// When its fault was first met.
    met: OnceLock<Instant>,
}

impl Line {
    fn new(reply: &ScriptedReply) -> Self {
        Self { reply: reply.clone(), met: OnceLock::new() }
    }
}

impl ScriptedModel {
    /// Compiles the patterns of a script.
    pub(crate) fn new(script: &Script) -> Result<Self, WireError> {
        let mut conditional = Vec::new();
        let mut plain = Vec::new();
        for (number, reply) in (1..).zip(&script.replies) {
            let Some(when) = &reply.when else {
                plain.push(Line::new(reply));
                continue;
            };
            let pattern =
                RegexBuilder::new(when).size_limit(PATTERN_BYTES_MAX).build().map_err(|error| {
                    WireError::new(
                        ErrorCode::ConfigInvalid,
                        format!("compile `when` of reply {number} of the script: {error}"),
                    )
                })?;
            conditional.push((pattern, Line::new(reply)));
        }
        Ok(Self { conditional, plain, faults: Mutex::default() })
    }

    /// Plays the reply to a conversation, or its fault.
    pub(crate) async fn attempt(
        &self,
        conversation: &Conversation,
        on_heard: &mut (dyn FnMut(Heard<'_>) + Send),
    ) -> Result<Answer, Error> {
        let line = self.choose(conversation)?;
        let reply = &line.reply;
        sleep(Duration::from_millis(reply.delay_ms.unwrap_or(0))).await;
        if let Some(fault) =
            reply.fault.as_ref().filter(|fault| self.shows(fault, line, conversation))
        {
            return Err(broken(fault));
        }
        on_heard(Heard::Byte);
        for word in reply.content.split_inclusive(char::is_whitespace) {
            on_heard(Heard::Piece(word));
        }
        Ok(Answer {
            content: reply.content.clone(),
            calls: reply.calls.iter().map(to_call).collect(),
            finish: Some(reply.finish.unwrap_or(if reply.calls.is_empty() {
                FinishReason::Stop
            } else {
                FinishReason::ToolCalls
            })),
            usage: reply.usage.unwrap_or_else(|| estimate(conversation, reply)),
            ..Answer::default()
        })
    }

    fn choose(&self, conversation: &Conversation) -> Result<&Line, Error> {
        let text = matched_text(conversation.said());
        if let Some((_, line)) = self.conditional.iter().find(|(when, _)| when.is_match(&text)) {
            return Ok(line);
        }
        let is_reply = |message: &&Message| matches!(message, Message::Assistant { .. });
        let index = conversation.said().filter(is_reply).count();
        self.plain.get(index).ok_or_else(|| Error::ScriptOver {
            plain: self.plain.len(),
            number: index + 1,
            last: text.chars().take(LAST_CHARS_MAX).collect(),
        })
    }

    /// Decides whether a fault happens, and counts it.
    fn shows(&self, fault: &ScriptedFault, line: &Line, conversation: &Conversation) -> bool {
        let lasted = line.met.get_or_init(Instant::now).elapsed();
        if fault.for_ms.is_some_and(|ms| lasted >= Duration::from_millis(ms)) {
            return false;
        }
        let Some(times) = fault.times else { return true };
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() >= FAULTS_COUNTED_MAX {
            faults.clear();
        }
        let count = faults.entry(digest(conversation)).or_insert(0);
        let due = *count < times;
        *count = count.saturating_add(u32::from(due));
        due
    }
}

fn digest(conversation: &Conversation) -> Digest {
    conversation.said().fold(Digest::of(b""), |digest, message| {
        let message = serde_json::to_vec(message).unwrap_or_default();
        digest.then(&message)
    })
}

fn broken(fault: &ScriptedFault) -> Error {
    match fault.status {
        None => Error::Unreachable { reason: fault.message.clone() },
        Some(status) => Error::Status {
            status,
            complaint: Box::new(Complaint::from_body(fault.message.as_bytes())),
            advice: Advice {
                should_retry: None,
                after: fault.retry_after_ms.map(Duration::from_millis),
            },
            request: None,
        },
    }
}

fn to_call(call: &ScriptedCall) -> ToolCall {
    ToolCall {
        id: call.id.clone().unwrap_or_default(),
        name: call.name.clone(),
        arguments: match &call.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        },
    }
}

/// Estimates tokens as a quarter of the characters, as is usual for English.
fn estimate(conversation: &Conversation, reply: &ScriptedReply) -> Usage {
    let tokens = |chars: usize| u64::try_from(chars.div_ceil(4)).unwrap_or(u64::MAX);
    let read = conversation.said().map(|message| message.content().chars().count()).sum();
    let calls = reply.calls.iter().map(|call| {
        let call = to_call(call);
        call.name.chars().count() + call.arguments.chars().count()
    });
    let written = reply.content.chars().count() + calls.sum::<usize>();
    Usage::of_tokens(tokens(read), tokens(written))
}
