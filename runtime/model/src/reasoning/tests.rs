//! What is kept of the reasoning behind calls, and to whom it goes back.

use config::team::{OpenAi, TokensField};
use serde_json::json;
use wire::chat::Head;

use super::*;
use crate::answer::Answer;
use crate::anthropic::AnthropicProtocol;
use crate::fixture::{asked, call, conversation, result, said, server, streamed, user};
use crate::http::read;
use crate::openai::OpenAiProtocol;
use crate::provider::Protocol;

fn openai(merge_adjacent: bool) -> OpenAiProtocol {
    let tokens_field = TokensField::MaxTokens;
    OpenAiProtocol::new(OpenAi {
        server: server(true),
        strict: false,
        merge_adjacent,
        tokens_field,
        stream_usage: true,
    })
}

fn anthropic() -> AnthropicProtocol {
    AnthropicProtocol::new(server(true))
}

/// Writes the chunks of a stream of chat completions.
fn chunks(deltas: &[&str]) -> String {
    let chunk = |delta: &&str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let end = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";
    deltas.iter().map(chunk).chain([end.to_owned()]).collect()
}

/// Writes the answer of chat completions in one piece.
fn completion(message: &str) -> String {
    format!(r#"{{"choices":[{{"message":{message},"finish_reason":"tool_calls"}}]}}"#)
}

fn events(events: &[&str]) -> String {
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#;
    let start = r#"{"type":"message_start","message":{}}"#;
    let events = [start].into_iter().chain(events.iter().copied()).chain([end]);
    let events: Vec<String> = events.map(|event| format!("data: {event}\n\n")).collect();
    events.concat()
}

fn blocks(blocks: &str) -> String {
    format!(r#"{{"content":[{blocks}],"stop_reason":"tool_use"}}"#)
}

/// Returns the messages of a request as they are sent.
fn sent(protocol: &dyn Protocol, messages: Vec<Message>, to: Option<&Digest>) -> String {
    let conversation = conversation(Head::default(), messages, None);
    let body = protocol.body(&conversation, to).unwrap();
    String::from_utf8(body.write().unwrap()).unwrap()
}

/// Makes the message of an answer that comes with the next request.
fn message(answer: Answer) -> Message {
    let asked_before = conversation(Head::default(), vec![], None);
    let reply = answer.into_reply(&asked_before, ("p", "m", Some(asked())), 1);
    let (content, calls) = (reply.content.to_string(), reply.calls);
    Message::Assistant { content, calls, reasoning: reply.reasoning }
}

const CALL: &str = r#"{"id":"a","type":"function","function":{"name":"now","arguments":"{}"}}"#;

const START: &str = r#"{"type":"content_block_start","index":"#;

#[test]
fn what_comes_with_calls_goes_back_byte_by_byte_streamed_or_not() {
    let use_of = r#"{"type":"tool_use","id":"a","name":"now","input":{}}"#;
    let delta = |index: u32, delta: &str| {
        format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
    };
    let cases: [(&str, &dyn Protocol, String, String, String); 11] = [
        (
            "DeepSeek and Kimi",
            &openai(false),
            completion(&format!(
                r#"{{"content":"","reasoning_content":"It is \"é\".\n","tool_calls":[{CALL}]}}"#
            )),
            chunks(&[
                r#"{"role":"assistant","content":null,"reasoning_content":""}"#,
                r#"{"reasoning_content":"It is"}"#,
                r#"{"reasoning_content":" \"\u00e9\".\n"}"#,
                &format!(r#"{{"reasoning_content":null,"tool_calls":[{CALL}]}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":null,"reasoning_content":"It is \"é\".\n","tool_calls":[{CALL}]}}"#
            ),
        ),
        (
            "reasoning that is empty is told as such",
            &openai(false),
            completion(&format!(
                r#"{{"content":"so","reasoning_content":"","tool_calls":[{CALL}]}}"#
            )),
            chunks(&[
                r#"{"content":"so","reasoning_content":""}"#,
                &format!(r#"{{"tool_calls":[{CALL}]}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":"so","reasoning_content":"","tool_calls":[{CALL}]}}"#
            ),
        ),
        (
            "no reasoning",
            &openai(false),
            completion(&format!(
                r#"{{"content":"so","reasoning_content":null,"reasoning":"","reasoning_details":[],"tool_calls":[{CALL}]}}"#
            )),
            chunks(&[
                r#"{"content":"so","reasoning_content":null,"reasoning":""}"#,
                &format!(r#"{{"tool_calls":[{CALL}]}}"#),
            ]),
            format!(r#"{{"role":"assistant","content":"so","tool_calls":[{CALL}]}}"#),
        ),
        (
            "vLLM",
            &openai(false),
            completion(&format!(
                r#"{{"content":null,"reasoning":"hm","reasoning_content":"hm","tool_calls":[{CALL}]}}"#
            )),
            chunks(&[
                r#"{"reasoning":"h","reasoning_content":"h"}"#,
                r#"{"reasoning":"m","reasoning_content":"m"}"#,
                &format!(r#"{{"tool_calls":[{CALL}]}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":null,"reasoning_content":"hm","reasoning":"hm","tool_calls":[{CALL}]}}"#
            ),
        ),
        (
            "OpenRouter",
            &openai(false),
            completion(&format!(
                r#"{{"content":null,"reasoning":"hm","reasoning_details":[{{"type":"reasoning.text","text":"hm","index":0,"id":null,"signature":"c2ln/+="}},{{"type":"reasoning.encrypted","data":"b/p+q=","id":"r1","index":1}}],"tool_calls":[{CALL}]}}"#
            )),
            chunks(&[
                r#"{"reasoning":"h","reasoning_details":[{"type":"reasoning.text","text":"h","index":0,"id":null}]}"#,
                r#"{"reasoning":"m","reasoning_details":[{"type":"reasoning.text","text":"m","index":0}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.text","signature":"c2ln/+=","index":0}]}"#,
                r#"{"reasoning_details":[{"type":"reasoning.encrypted","data":"b/p+q=","id":"r1","index":1}]}"#,
                &format!(r#"{{"tool_calls":[{CALL}]}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":null,"reasoning":"hm","reasoning_details":[{{"type":"reasoning.text","text":"hm","index":0,"id":null,"signature":"c2ln/+="}},{{"type":"reasoning.encrypted","data":"b/p+q=","id":"r1","index":1}}],"tool_calls":[{CALL}]}}"#
            ),
        ),
        (
            "Gemini, where one call of two is signed",
            &openai(false),
            completion(
                r#"{"content":null,"tool_calls":[{"id":"a","function":{"name":"now","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AZ/+=","n":1.5}}},{"id":"b","function":{"name":"now","arguments":"{}"}}]}"#,
            ),
            chunks(&[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":""},"extra_content":{"google":{"thought_signature":"AZ/+=","n":1.5}}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"now","arguments":"{}"}}]}"#,
            ]),
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"now","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AZ/+=","n":1.5}}},{"id":"b","type":"function","function":{"name":"now","arguments":"{}"}}]}"#.to_owned(),
        ),
        (
            "Gemini, where the other is, and it comes after the call",
            &openai(false),
            completion(
                r#"{"content":null,"tool_calls":[{"id":"a","function":{"name":"now","arguments":"{}"}},{"id":"b","function":{"name":"now","arguments":"{}"},"extra_content":{"google":{"thought_signature":"x"}}}]}"#,
            ),
            chunks(&[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"now","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"now","arguments":"{}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"extra_content":{"google":{"thought_signature":"x"}}}]}"#,
            ]),
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"now","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"now","arguments":"{}"},"extra_content":{"google":{"thought_signature":"x"}}}]}"#.to_owned(),
        ),
        (
            "Anthropic",
            &anthropic(),
            blocks(&format!(
                r#"{{"type":"thinking","thinking":"It is \"é\".","signature":"Eq/+="}},{{"type":"redacted_thinking","data":"Em/+="}},{{"type":"text","text":"so"}},{use_of}"#
            )),
            events(&[
                &format!(r#"{START}0,"content_block":{{"type":"thinking","thinking":"","signature":""}}}}"#),
                &delta(0, r#"{"type":"thinking_delta","thinking":"It is"}"#),
                &delta(0, r#"{"type":"thinking_delta","thinking":" \"é\"."}"#),
                &delta(0, r#"{"type":"signature_delta","signature":"Eq/+="}"#),
                r#"{"type":"content_block_stop","index":0}"#,
                &format!(r#"{START}1,"content_block":{{"type":"redacted_thinking","data":"Em/+="}}}}"#),
                &format!(r#"{START}2,"content_block":{{"type":"text","text":""}}}}"#),
                &delta(2, r#"{"type":"text_delta","text":"so"}"#),
                &format!(r#"{START}3,"content_block":{use_of}}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"It is \"é\".","signature":"Eq/+="}},{{"type":"redacted_thinking","data":"Em/+="}},{{"type":"text","text":"so"}},{use_of}]}}"#
            ),
        ),
        (
            "Anthropic, where the thinking is not told",
            &anthropic(),
            blocks(&format!(r#"{{"type":"thinking","thinking":"","signature":"Eq"}},{use_of}"#)),
            events(&[
                &format!(r#"{START}0,"content_block":{{"type":"thinking","thinking":""}}}}"#),
                &delta(0, r#"{"type":"signature_delta","signature":"Eq"}"#),
                &format!(r#"{START}1,"content_block":{use_of}}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"","signature":"Eq"}},{use_of}]}}"#
            ),
        ),
        (
            "Anthropic, where it thinks amid the text",
            &anthropic(),
            blocks(&format!(
                r#"{{"type":"thinking","thinking":"a","signature":"s"}},{{"type":"text","text":"so "}},{{"type":"thinking","thinking":"b","signature":"t"}},{{"type":"text","text":" "}},{{"type":"text","text":"and"}},{use_of}"#
            )),
            events(&[
                &format!(r#"{START}0,"content_block":{{"type":"thinking","thinking":"a","signature":"s"}}}}"#),
                &format!(r#"{START}1,"content_block":{{"type":"text","text":""}}}}"#),
                &delta(1, r#"{"type":"text_delta","text":"so "}"#),
                &format!(r#"{START}2,"content_block":{{"type":"thinking","thinking":"b","signature":""}}}}"#),
                &delta(2, r#"{"type":"signature_delta","signature":"t"}"#),
                &format!(r#"{START}3,"content_block":{{"type":"text","text":" "}}}}"#),
                &format!(r#"{START}4,"content_block":{{"type":"text","text":"a"}}}}"#),
                &delta(4, r#"{"type":"text_delta","text":"nd"}"#),
                &format!(r#"{START}5,"content_block":{use_of}}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"a","signature":"s"}},{{"type":"text","text":"so "}},{{"type":"thinking","thinking":"b","signature":"t"}},{{"type":"text","text":"and"}},{use_of}]}}"#
            ),
        ),
        (
            "Anthropic, where it thinks after the text",
            &anthropic(),
            blocks(&format!(
                r#"{{"type":"text","text":"so"}},{{"type":"thinking","thinking":"a","signature":"s"}},{use_of}"#
            )),
            events(&[
                &format!(r#"{START}0,"content_block":{{"type":"text","text":""}}}}"#),
                &delta(0, r#"{"type":"text_delta","text":"so"}"#),
                &format!(r#"{START}1,"content_block":{{"type":"thinking","thinking":"a","signature":"s"}}}}"#),
                &format!(r#"{START}2,"content_block":{use_of}}}"#),
            ]),
            format!(
                r#"{{"role":"assistant","content":[{{"type":"text","text":"so"}},{{"type":"thinking","thinking":"a","signature":"s"}},{use_of}]}}"#
            ),
        ),
    ];
    for (name, protocol, whole, stream, expected) in cases {
        let whole = read(protocol, whole.as_bytes()).unwrap();
        let (streamed, shown) = streamed(protocol, stream.as_bytes(), stream.len() / 2);
        let streamed = streamed.unwrap();
        assert_eq!(shown, whole.content, "{name}: only the text is shown");
        for (way, answer) in [("whole", whole), ("streamed", streamed)] {
            let results = answer.calls.iter().map(|call| result(&call.id, "1")).collect();
            let said = vec![user("hi"), message(answer)];
            let body = sent(protocol, [said, results].concat(), Some(&asked()));
            assert!(body.contains(&format!(",{expected},")), "{name}, {way}\n{body}\n{expected}");
        }
    }
}

fn with_reasoning(content: &str, reasoning: Reasoning) -> Message {
    let (content, calls) = (content.to_owned(), vec![call("a", "now", "{}")]);
    Message::Assistant { content, calls, reasoning: Some(Arc::new(reasoning)) }
}

#[test]
fn no_other_model_is_sent_it() {
    let bare = || vec![user("hi"), said("so", vec![call("a", "now", "{}")]), result("a", "1")];
    let thinking = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
    let text = json!({"reasoning_content": "hm"});
    let cases: [(&dyn Protocol, Value); 2] = [(&openai(false), text), (&anthropic(), thinking)];
    for (protocol, kept) in cases {
        let calls = vec![json!({"google": "s"})];
        let reasoning = Reasoning { by: asked(), message: kept, calls };
        let mut messages = bare();
        messages[1] = with_reasoning("so", reasoning);
        let own = sent(protocol, messages.clone(), Some(&asked()));
        let none = sent(protocol, bare(), Some(&asked()));
        assert!(own.contains("hm") && !none.contains("hm"), "{own}");
        // The parts of a conversation are written once for whom they are sent to first.
        let (own_digest, other, nobody) = (Some(asked()), Some(Digest::of(b"other")), None);
        for order in [[own_digest, other, own_digest], [other, own_digest, nobody]] {
            let conversation = conversation(Head::default(), messages.clone(), None);
            for to in order {
                let body = protocol.body(&conversation, to.as_ref()).unwrap().write().unwrap();
                let expected = if to == own_digest { &own } else { &none };
                assert_eq!(&String::from_utf8(body).unwrap(), expected);
            }
        }
    }
}

#[test]
fn a_message_with_its_own_reasoning_stands_apart_where_neighbours_are_merged() {
    let message = json!({"reasoning_content": "hm"});
    let reasoning = Reasoning { by: asked(), message, calls: vec![] };
    let messages = || vec![user("hi"), said("a", vec![]), with_reasoning("b", reasoning.clone())];
    for (to, merged) in [(Some(asked()), false), (Some(Digest::of(b"other")), true), (None, true)] {
        let body = sent(&openai(true), messages(), to.as_ref());
        assert_eq!(body.contains(r#""content":"a\n\nb""#), merged, "{body}");
        assert_eq!(body.contains("hm"), !merged, "{body}");
    }
}

#[test]
fn reasoning_is_kept_whole_or_not_at_all_and_only_with_calls() {
    let long = |bytes: usize| "x".repeat(bytes);
    let text = |bytes| format!(r#"{{"reasoning_content":"{}"}}"#, long(bytes));
    let detail = |bytes| {
        let text = long(bytes);
        format!(
            r#"{{"reasoning_details":[{{"type":"reasoning.text","text":"{text}","index":0}}]}}"#
        )
    };
    let called = format!(r#"{{"tool_calls":[{CALL}]}}"#);
    let signed = |bytes| {
        let signature = long(bytes);
        format!(
            r#"{{"tool_calls":[{{"id":"a","function":{{"name":"now","arguments":"{{}}"}},"extra_content":{{"s":"{signature}"}}}}]}}"#
        )
    };
    let half = REASONING_BYTES_MAX / 2;
    let cases = [
        ("as much as is kept", vec![text(half), text(half), called.clone()], (true, false)),
        (
            "more of a text",
            vec![text(half), text(half + 1), text(1), called.clone()],
            (false, true),
        ),
        ("more of an entry", vec![detail(half), detail(half), called.clone()], (false, true)),
        ("more with a call", vec![text(half), signed(half)], (false, true)),
        ("no calls", vec![text(half)], (false, false)),
        ("no calls, and too much", vec![text(half), text(half + 1)], (false, false)),
    ];
    for (name, deltas, expected) in cases {
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        let answer = streamed(&openai(false), chunks(&deltas).as_bytes(), 0).0.unwrap();
        let is_over = answer.reasoning.is_over;
        assert_eq!((answer.reasoning.of(asked()).is_some(), is_over), expected, "{name}");
    }
    let block = |kind: &str, bytes| format!(r#"{{"type":"{kind}","data":"{}"}}"#, long(bytes));
    let use_of = r#"{"type":"tool_use","id":"a","name":"now","input":{}}"#;
    for (bytes, expected) in [(half - 100, (true, false)), (half, (false, true))] {
        let block = block("redacted_thinking", bytes);
        let body = blocks(&format!("{block},{block},{use_of}"));
        let answer = read(&anthropic(), body.as_bytes()).unwrap();
        let is_over = answer.reasoning.is_over;
        assert_eq!((answer.reasoning.of(asked()).is_some(), is_over), expected, "{bytes}");
    }
}

#[test]
fn pieces_of_an_entry_are_joined_and_other_entries_are_not() {
    let text =
        |index: u32, text: &str| json!({"type": "reasoning.text", "index": index, "text": text});
    let summary = |text: &str| json!({"type": "reasoning.summary", "index": 0, "summary": text});
    let data = |id: &str| json!({"type": "reasoning.encrypted", "index": 0, "data": "d", "id": id});
    let signature = json!({"type": "reasoning.text", "index": 0, "signature": "s"});
    let signed = json!({"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s"});
    let bare = |text: &str| json!({"type": "reasoning.text", "text": text});
    let cases = [
        ("texts of one place", vec![text(0, "a"), text(0, "b")], vec![text(0, "ab")]),
        (
            "texts of two places, mixed",
            vec![text(0, "a"), text(1, "x"), text(0, "b"), text(1, "y")],
            vec![text(0, "ab"), text(1, "xy")],
        ),
        ("no places", vec![bare("a"), bare("b")], vec![bare("ab")]),
        (
            "two kinds in one place",
            vec![summary("a"), text(0, "x"), summary("b")],
            vec![summary("ab"), text(0, "x")],
        ),
        (
            "a signature ends an entry",
            vec![text(0, "a"), text(0, "b"), signature, text(0, "c")],
            vec![signed, text(0, "c")],
        ),
        (
            "what is encrypted",
            vec![data("a"), data("b"), data("b")],
            vec![data("a"), data("b"), data("b")],
        ),
    ];
    for (name, pieces, expected) in cases {
        for (is_streamed, expected) in [(true, expected), (false, pieces.clone())] {
            let mut draft = ReasoningDraft::default();
            for piece in &pieces {
                draft.add_detail(&Json::from(piece), is_streamed);
            }
            let kept = draft.end(vec![Value::Null]);
            assert_eq!(kept.message, json!({"reasoning_details": expected}), "{name}");
        }
    }
}
