//! Hands a conversation over in pieces that is too large for one message.

use std::sync::Arc;

use wire::chat::Mark;
use wire::{Message, ModelRequest};

use super::{extended, mark_of};

/// Room for what stands beside the messages of a request, in bytes: its headers, the digest of what
/// went before, and who observes it.
const BESIDE_BYTES: usize = 4 * 1024;

/// Splits a request into requests of so many bytes at most, to be made one after the other: those
/// that only hand over what is kept, and the one that asks. A message that is larger by itself stays
/// as it is.
pub(crate) fn in_pieces(
    request: &ModelRequest,
    bytes_max: usize,
) -> (Vec<ModelRequest>, ModelRequest) {
    let room = bytes_max.saturating_sub(BESIDE_BYTES);
    let ModelRequest { messages, keep, .. } = request;
    let (kept, rest) = messages.split_at(*keep.min(&messages.len()));
    let mut pieces = Pieces::begin(request);
    for message in kept {
        let bytes = length(message);
        if pieces.bytes + bytes > room {
            pieces.cut();
        }
        pieces.last.push(message.clone());
        pieces.bytes += bytes;
    }
    if pieces.bytes + rest.iter().map(length).sum::<usize>() > room {
        pieces.cut();
    }
    pieces.end(rest)
}

/// Returns the bytes of a message among others.
fn length(message: &Arc<Message>) -> usize {
    // What cannot be measured is refused when it is written.
    wire::json::measure(message).map_or(0, |bytes| bytes + 1)
}

struct Pieces<'a> {
    request: &'a ModelRequest,
    done: Vec<ModelRequest>,
    /// What the pieces that are done come to.
    mark: Mark,
    last: Vec<Arc<Message>>,
    /// Of the last piece, with the head if it is the first.
    bytes: usize,
}

impl<'a> Pieces<'a> {
    fn begin(request: &'a ModelRequest) -> Self {
        let (mark, bytes) = match (&request.base, &request.head) {
            (Some(base), _) => (Mark { digest: *base, bytes: 0 }, 0),
            (None, Some(head)) => (mark_of(head), wire::json::measure(head).unwrap_or_default()),
            (None, None) => (mark_of(&wire::chat::Head::default()), 0),
        };
        Self { request, done: Vec::new(), mark, last: Vec::new(), bytes }
    }

    /// Makes a piece of what came last, unless there is nothing to be said by it.
    fn cut(&mut self) {
        if self.bytes > 0 {
            let messages = std::mem::take(&mut self.last);
            let mark = extended(self.mark, &messages);
            let piece = self.piece(messages);
            let piece = ModelRequest { fills: true, max_tokens: None, observed: None, ..piece };
            self.done.push(piece);
            self.mark = mark;
            self.bytes = 0;
        }
    }

    fn piece(&self, messages: Vec<Arc<Message>>) -> ModelRequest {
        let (base, head) = if self.done.is_empty() {
            (self.request.base, self.request.head.clone())
        } else {
            (Some(self.mark.digest), None)
        };
        let ModelRequest { role, max_tokens, observed, .. } = self.request;
        let (role, max_tokens, observed) = (*role, *max_tokens, observed.clone());
        let keep = messages.len();
        let (fills, marks) = (false, None);
        ModelRequest { role, base, head, messages, keep, fills, max_tokens, observed, marks }
    }

    fn end(mut self, rest: &[Arc<Message>]) -> (Vec<ModelRequest>, ModelRequest) {
        let messages = std::mem::take(&mut self.last);
        let mut last = self.piece(messages);
        last.messages.extend_from_slice(rest);
        (self.done, last)
    }
}

#[cfg(test)]
mod tests {
    use wire::chat::Head;
    use wire::{ModelRole, ToolSpec};

    use super::super::HeldPrefixes;
    use super::*;

    fn message(bytes: usize) -> Arc<Message> {
        Arc::new(Message::User { content: "x".repeat(bytes) })
    }

    fn head(bytes: usize) -> Arc<Head> {
        let tool = ToolSpec {
            name: wire::Name::new("t").unwrap(),
            description: "x".repeat(bytes),
            parameters: serde_json::json!({}),
        };
        Arc::new(Head { tools: vec![tool], ..Head::default() })
    }

    #[test]
    fn a_large_conversation_is_held_as_if_it_had_come_at_once() {
        // Bytes of the head, of each message, how many are kept, and how many pieces there are.
        let cases: [(usize, &[usize], usize, usize); 8] = [
            (100, &[300, 300], 1, 1),
            (100, &[3000, 3000, 3000, 3000], 4, 2),
            (100, &[3000, 3000, 3000, 3000], 2, 2),
            (100, &[9000, 9000, 9000], 3, 3),
            (100, &[3000, 3000, 3000, 6000], 3, 2),
            (7000, &[5000, 100], 2, 2),
            (9000, &[9000], 1, 2),
            (100, &[90_000, 100], 2, 3),
        ];
        for (head_bytes, sizes, keep, expected) in cases {
            let case = format!("{head_bytes} {sizes:?} {keep}");
            let request = ModelRequest {
                role: ModelRole::Actor,
                base: None,
                head: Some(head(head_bytes)),
                messages: sizes.iter().map(|bytes| message(*bytes)).collect(),
                keep,
                fills: false,
                max_tokens: Some(7),
                observed: None,
                marks: None,
            };
            let bytes_max = 10_000 + BESIDE_BYTES;
            let (pieces, last) = in_pieces(&request, bytes_max);
            assert_eq!(pieces.len() + 1, expected, "{case}");
            assert!(pieces.iter().all(|piece| piece.fills), "{case}");
            assert_eq!((last.fills, last.max_tokens), (false, Some(7)), "{case}");
            let fits = |piece: &ModelRequest| serde_json::to_vec(piece).unwrap().len() <= bytes_max;
            let all: Vec<ModelRequest> = pieces.into_iter().chain([last]).collect();
            assert_eq!(all.iter().all(fits), sizes.iter().all(|bytes| *bytes < 10_000), "{case}");

            let whole = HeldPrefixes::default().complete(&request).unwrap();
            let mut held = HeldPrefixes::default();
            let handed: Vec<_> = all.iter().map(|piece| held.complete(piece).unwrap()).collect();
            let handed = handed.last().unwrap();
            assert_eq!(handed.digest, whole.digest, "{case}");
            let texts = |held: &super::super::Held| {
                held.messages.iter().map(|message| message.content().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(texts(handed), texts(&whole), "{case}");
        }
    }

    #[test]
    fn what_follows_a_conversation_that_is_held_is_handed_over_likewise() {
        let mut held = HeldPrefixes::default();
        let first = ModelRequest {
            role: ModelRole::Actor,
            base: None,
            head: Some(head(100)),
            messages: vec![message(10)],
            keep: 1,
            fills: false,
            max_tokens: None,
            observed: None,
            marks: None,
        };
        let base = held.complete(&first).unwrap().digest;
        let messages = vec![message(6000), message(6000), message(10)];
        let more =
            ModelRequest { base: Some(base), head: None, messages, keep: 2, ..first.clone() };
        let (pieces, last) = in_pieces(&more, 10_000 + BESIDE_BYTES);
        assert_eq!(pieces.len(), 1);
        let handed = pieces
            .iter()
            .chain([&last])
            .map(|piece| held.complete(piece).unwrap().messages.iter().count());
        assert_eq!(handed.collect::<Vec<_>>(), [2, 4]);
    }
}
