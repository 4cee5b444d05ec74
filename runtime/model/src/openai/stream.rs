//! Puts a streamed reply together.

use std::mem;

use super::calls::CallDrafts;
use super::sse::{SseEvent, SseParser};
use super::whole;
use crate::answer::Answer;
use crate::complaint::Complaint;
use crate::error::{Error, REPLY_BYTES_MAX};
use serde_json::Value;

/// Bytes kept of the beginning of a stream, enough to tell a web page from a reply.
const BEGINNING_BYTES: usize = 200;

/// Reads a stream of completion chunks, fed as bytes.
#[derive(Debug, Default)]
pub(super) struct StreamReader {
    sse: SseParser,
    answer: Answer,
    calls: CallDrafts,
    /// Bytes of text and arguments so far.
    len: usize,
    /// What came first, for the error if it is something else.
    beginning: Vec<u8>,
    /// Whether a chunk with a choice came.
    begun: bool,
    done: bool,
}

impl StreamReader {
    /// Returns whether the server has marked the end.
    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    /// Returns whether the model has said why it stopped, so that the reply is whole.
    pub(super) const fn is_finished(&self) -> bool {
        self.answer.finish.is_some()
    }

    /// Takes some bytes and passes on the pieces of text in them.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        let room = BEGINNING_BYTES.saturating_sub(self.beginning.len());
        self.beginning.extend(bytes.iter().take(room));
        for event in self.sse.push(bytes)? {
            if self.done {
                break;
            }
            self.on_event(&event, on_delta)?;
        }
        Ok(())
    }

    /// Takes the end of the bytes and returns the answer, if it is whole.
    pub(super) fn end(mut self, on_delta: &mut (dyn FnMut(&str) + Send)) -> Result<Answer, Error> {
        if !self.done
            && let Some(event) = mem::take(&mut self.sse).end().unwrap_or_default()
        {
            // Of another error, such as a torn event, only the cut below is of interest.
            if let Err(error @ (Error::InBand(_) | Error::TooLarge)) =
                self.on_event(&event, on_delta)
            {
                return Err(error);
            }
        }
        if !self.begun {
            let beginning = String::from_utf8_lossy(&self.beginning);
            return Err(Error::form("the answer is no stream of a reply", &beginning));
        }
        if !self.done && !self.is_finished() {
            return Err(Error::Cut { reason: "the stream ended too early".to_owned() });
        }
        self.answer.calls = self.calls.into_calls();
        Ok(self.answer)
    }

    fn on_event(
        &mut self,
        event: &SseEvent,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.kind == "error" {
            return Err(Error::InBand(Complaint::from_body(event.data.as_bytes()).into()));
        }
        let chunk: Value = serde_json::from_str(&event.data)
            .map_err(|_| Error::form("an event of the stream is no JSON", &event.data))?;
        if let Some(complaint) = Complaint::from_answer(&chunk) {
            return Err(Error::InBand(complaint.into()));
        }
        self.on_chunk(&chunk, on_delta)
    }

    fn on_chunk(
        &mut self,
        chunk: &Value,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        if let Some(usage) = whole::usage(chunk) {
            self.answer.usage = usage;
        }
        if self.answer.model.is_none() {
            self.answer.model = whole::model(chunk);
        }
        let first = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
        let Some(choice) = whole::list(chunk.get("choices")).iter().find(first) else {
            return Ok(());
        };
        self.begun = true;
        if let Some(complaint) = whole::complaint(choice) {
            return Err(Error::InBand(complaint.into()));
        }
        if let Some(delta) = choice.get("delta") {
            self.on_delta(delta, on_delta)?;
        }
        self.answer.finish = whole::finish(choice).or(self.answer.finish);
        Ok(())
    }

    fn on_delta(
        &mut self,
        delta: &Value,
        on_delta: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), Error> {
        let content = whole::text(delta.get("content"));
        let refusal = whole::text(delta.get("refusal"));
        self.grow(content.len() + refusal.len())?;
        self.answer.content.push_str(&content);
        self.answer.refusal.push_str(&refusal);
        for piece in whole::list(delta.get("tool_calls")) {
            let bytes = self.calls.push(piece)?;
            self.grow(bytes)?;
        }
        if !content.is_empty() {
            on_delta(&content);
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.len = self.len.saturating_add(bytes);
        if self.len > REPLY_BYTES_MAX { Err(Error::TooLarge) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use wire::{FinishReason, ToolCall, Usage};

    use super::*;
    use crate::error::CALLS_MAX;

    /// Feeds a stream in two pieces; returns the answer and the deltas joined.
    fn read(stream: &[u8], cut: usize) -> (Result<Answer, Error>, String) {
        let mut shown = String::new();
        let mut on_delta = |piece: &str| {
            assert!(!piece.is_empty());
            shown.push_str(piece);
        };
        let mut reader = StreamReader::default();
        let (first, second) = stream.split_at(cut);
        let result = reader
            .push(first, &mut on_delta)
            .and_then(|()| reader.push(second, &mut on_delta))
            .and_then(|()| reader.end(&mut on_delta));
        (result, shown)
    }

    fn sse(chunks: &[&str]) -> String {
        let events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        events.concat()
    }

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
    }

    fn answer(content: &str, calls: Vec<ToolCall>, finish: FinishReason) -> Answer {
        Answer { content: content.to_owned(), calls, finish: Some(finish), ..Answer::default() }
    }

    const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    const CALLS: &str = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;

    #[test]
    fn whole_streams_give_the_reply_wherever_they_are_split() {
        let text = r#"{"model":"m-1","choices":[{"index":0,"delta":{"content":"Hä"}}]}"#;
        let cases = [
            (
                "text, usage in a chunk of its own",
                sse(&[
                    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
                    text,
                    r#"{"choices":[{"index":0,"delta":{"content":"llo 😀"},"finish_reason":null}]}"#,
                    STOP,
                    r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
                    "[DONE]",
                ]),
                Answer {
                    usage: Usage { input_tokens: 3, output_tokens: 2 },
                    model: Some("m-1".to_owned()),
                    ..answer("Hällo 😀", vec![], FinishReason::Stop)
                },
            ),
            (
                "something after the end marker",
                sse(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, STOP, "[DONE]", "]["]),
                answer("a", vec![], FinishReason::Stop),
            ),
            (
                "no usage, no end marker",
                sse(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, STOP]),
                answer("a", vec![], FinishReason::Stop),
            ),
            (
                "an end marker and no reason",
                sse(&[r#"{"choices":[{"delta":{"content":"a"}}]}"#, "[DONE]"]),
                Answer { finish: None, ..answer("a", vec![], FinishReason::Stop) },
            ),
            (
                "two calls, joined by index, ids in the first pieces only",
                sse(&[
                    r#"{"choices":[{"delta":{"content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"add","arguments":""}}]}}]}"#,
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"mul","arguments":"{"}}]}}]}"#,
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}},{"index":1,"function":{"arguments":"}"}}]}}]}"#,
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":null,"function":{"name":null,"arguments":" 1}"}}]}}]}"#,
                    CALLS,
                    "[DONE]",
                ]),
                answer(
                    "",
                    vec![call("a", "add", r#"{"x": 1}"#), call("b", "mul", "{}")],
                    FinishReason::ToolCalls,
                ),
            ),
            (
                "an id and a name repeated in every piece",
                sse(&[
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"{"}}]}}]}"#,
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"}"}}]}}]}"#,
                    CALLS,
                ]),
                answer("", vec![call("a", "add", "{}")], FinishReason::ToolCalls),
            ),
            (
                "several calls, all of index 0, arguments as an object",
                sse(&[
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":{"x":1}}}]}}]}"#,
                    r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"add","arguments":{"x":2}}}]}}]}"#,
                    CALLS,
                ]),
                answer(
                    "",
                    vec![call("a", "add", r#"{"x":1}"#), call("b", "add", r#"{"x":2}"#)],
                    FinishReason::ToolCalls,
                ),
            ),
            (
                "calls without index",
                sse(&[
                    r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"add","arguments":"1"}},{"id":"b","function":{"name":"mul"}}]}}]}"#,
                    r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"2"}}]}}]}"#,
                    CALLS,
                ]),
                answer(
                    "",
                    vec![call("a", "add", "1"), call("b", "mul", "2")],
                    FinishReason::ToolCalls,
                ),
            ),
            (
                "reasoning, other choices and unknown fields are passed over",
                sse(&[
                    r#"{"choices":[{"delta":{"reasoning_content":"hm"}}],"timings":{},"error":null}"#,
                    r#"{"choices":[{"index":1,"delta":{"content":"second"}}]}"#,
                    r#"{"choices":[{"delta":{"content":[{"type":"text","text":"parts"}]}}]}"#,
                    STOP,
                ]),
                answer("parts", vec![], FinishReason::Stop),
            ),
            (
                "a refusal",
                sse(&[r#"{"choices":[{"delta":{"refusal":"I will not."}}]}"#, STOP]),
                Answer {
                    refusal: "I will not.".to_owned(),
                    ..answer("", vec![], FinishReason::Stop)
                },
            ),
        ];
        for (name, stream, expected) in cases {
            for ends in ["\n", "\r\n", "\r"] {
                let stream = stream.replace('\n', ends);
                for cut in 0..=stream.len() {
                    let (result, shown) = read(stream.as_bytes(), cut);
                    assert_eq!(result.unwrap(), expected, "{name}, split at {cut}");
                    assert_eq!(shown, expected.content, "{name}, split at {cut}");
                }
            }
        }
    }

    #[test]
    fn a_stream_that_ends_anywhere_before_the_finish_is_no_reply() {
        let open = sse(&[
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"pay","arguments":"{}"}}]}}]}"#,
        ]);
        let stream = open.clone() + &sse(&[CALLS, "[DONE]"]);
        // The finish is told once its JSON is whole, with or without the line ends after it.
        let told = open.len() + "data: ".len() + CALLS.len();
        for cut in 0..=stream.len() {
            let (result, _) = read(&stream.as_bytes()[..cut], cut / 2);
            match result {
                Ok(answer) => assert!(cut >= told && answer.calls.len() == 1, "cut at {cut}"),
                Err(Error::Cut { .. } | Error::Form { .. }) => assert!(cut < told, "cut at {cut}"),
                Err(error) => panic!("cut at {cut}: {error}"),
            }
        }
    }

    #[test]
    fn faults_amid_a_stream_are_told_apart() {
        let text = r#"{"choices":[{"delta":{"content":"a"}}]}"#;
        let cases: [(String, &str); 9] = [
            (
                sse(&[text, r#"{"error":{"type":"overloaded_error","message":"busy"}}"#]),
                "an error instead of the rest of the reply, overloaded_error: busy",
            ),
            (
                sse(&[text]) + "event: error\ndata: {\"message\":\"busy\"}\n\n",
                "an error instead of the rest of the reply, busy",
            ),
            (
                sse(&[text, r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#]),
                "an error instead of the rest of the reply, no reason given",
            ),
            (
                sse(&[text, r#"{"choices":[{"error":{"code":502,"message":"upstream"}}]}"#]),
                "an error instead of the rest of the reply, upstream",
            ),
            (
                sse(&[text, "{\"choices\":"]),
                "an event of the stream is no JSON: \"{\\\"choices\\\":\"",
            ),
            (sse(&[text, &"[".repeat(10_000)]), "an event of the stream is no JSON: "),
            (sse(&["[DONE]"]), "the answer is no stream of a reply: \"data: [DONE]"),
            (
                "<html>\n<p>Log in</p>".to_owned(),
                "the answer is no stream of a reply: \"<html>\\n<p>Log in</p>\"",
            ),
            (String::new(), "the answer is no stream of a reply: \"\""),
        ];
        for (stream, expected) in cases {
            for cut in [0, stream.len() / 2, stream.len()] {
                let error = read(stream.as_bytes(), cut).0.unwrap_err().to_string();
                assert!(error.starts_with(expected), "{error}\n{expected}");
            }
        }
    }

    #[test]
    fn replies_have_a_largest_size() {
        let piece = |index: usize| {
            sse(&[&format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"function":{{"name":"a"}}}}]}}}}]}}"#
            )])
        };
        let calls: String = (0..=CALLS_MAX).map(piece).collect();
        let long = "x".repeat(REPLY_BYTES_MAX / 8);
        let text = sse(&[&format!(r#"{{"choices":[{{"delta":{{"content":"{long}"}}}}]}}"#)]);
        for stream in [calls, text.repeat(9)] {
            let (result, _) = read(stream.as_bytes(), 0);
            assert!(matches!(result, Err(Error::TooLarge)), "{result:?}");
        }
    }
}
