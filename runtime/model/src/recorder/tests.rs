//! Records that are played again.

use std::path::PathBuf;

use config::script::Script;
use wire::{FinishReason, Message, Usage};

use super::*;
use crate::fixture::{call, conversation, said, user};

fn file(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("callboard-record-{}-{name}", std::process::id()));
    drop(std::fs::remove_file(&path));
    path
}

fn reply(content: &str, calls: Vec<wire::ToolCall>) -> ModelReply {
    ModelReply {
        content: content.into(),
        calls,
        reasoning: None,
        finish: FinishReason::Stop,
        usage: Usage::of_tokens(3, 2),
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        attempts: 1,
        served_by: None,
        detail: wire::chat::TurnDetail::default(),
    }
}

fn asked(messages: Vec<Message>) -> Conversation {
    conversation(wire::chat::Head::default(), messages, None)
}

/// Returns the only reply of the file that matches a conversation.
fn found<'a>(script: &'a Script, conversation: &Conversation) -> &'a ScriptedReply {
    let text = matched_text(conversation.said());
    let matches =
        |reply: &&ScriptedReply| Regex::new(reply.when.as_ref().unwrap()).unwrap().is_match(&text);
    let mut matching = script.replies.iter().filter(matches);
    let reply = matching.next().unwrap();
    assert!(matching.next().is_none(), "{text}");
    reply
}

#[tokio::test]
async fn a_record_is_a_script_of_the_same_replies() {
    let path = file("same");
    let conversations = [
        asked(vec![user("what is (2 * 5)?")]),
        asked(vec![user("what is (2 * 5)?"), said("10\n", vec![]), user("sure? [y/n]")]),
        asked(vec![user(&("long ".repeat(40_000) + "a"))]),
        asked(vec![user(&("long ".repeat(40_000) + "b"))]),
        asked(vec![user("é😀".repeat(2000).as_str())]),
        asked(vec![]),
    ];
    let calls = vec![call("a", "f", "{\"x\": 1.0"), call("", "g", "")];
    for round in 0..2 {
        // A recorder that is opened again adds to what is there.
        let recorder = Recorder::open(&path, Vec::new()).unwrap();
        for (number, conversation) in
            conversations.iter().enumerate().filter(|(n, _)| n % 2 == round)
        {
            recorder.add(conversation, &reply(&format!("reply {number}"), calls.clone())).await;
        }
    }
    let script = Script::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(script.replies.len(), conversations.len());
    for (number, conversation) in conversations.iter().enumerate() {
        let reply = found(&script, conversation);
        assert_eq!(reply.content, format!("reply {number}"));
        assert_eq!(reply.calls[0].arguments, "{\"x\": 1.0");
        assert_eq!((reply.calls[0].id.as_deref(), reply.calls[1].id.as_deref()), (Some("a"), None));
        assert_eq!(reply.usage, Some(Usage::of_tokens(3, 2)));
        assert_eq!(reply.finish, Some(FinishReason::Stop));
    }
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn secrets_never_reach_the_file() {
    let path = file("secret");
    let own = "can\"ary\\0123";
    let canaries = [
        own,
        "can\\\"ary\\\\0123",
        "sk-proj-0123456789abcdefXYZ",
        "ghp_0123456789abcdef0123",
        "AKIA0123456789ABCDEF",
        "Bearer 0123456789abcdef0123456789",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3.SflKxwRJSMeKKF2QT4",
    ];
    let recorder = Recorder::open(&path, vec![SecretString::from(own)]).unwrap();
    for canary in canaries {
        let text = format!("before {canary} after");
        let conversation = asked(vec![user(&text)]);
        let called = call(canary, canary, &serde_json::json!({"key": text}).to_string());
        recorder.add(&conversation, &reply(&text, vec![called])).await;
        let written = std::fs::read_to_string(&path).unwrap();
        let script = Script::parse(&written).unwrap();
        let last = script.replies.last().unwrap();
        assert_eq!(last.content, "before *** after", "{canary}");
        assert_eq!(last.calls[0].arguments, "{\"key\":\"before *** after\"}", "{canary}");
        let when = Regex::new(last.when.as_ref().unwrap()).unwrap();
        assert!(when.is_match(&text) && !when.is_match("another"), "{canary}");
    }
    let written = std::fs::read_to_string(&path).unwrap();
    for part in ["ary", "0123", "eyJ"] {
        assert!(!written.contains(part), "{part} in {written}");
    }
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn a_record_has_a_largest_size() {
    let path = file("large");
    let recorder = Recorder::open(&path, Vec::new()).unwrap();
    let conversation = asked(vec![user("hi")]);
    let large = reply(&"x".repeat(1 << 20), Vec::new());
    for _ in 0..6 {
        recorder.add(&conversation, &large).await;
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.len() <= SCRIPT_BYTES_MAX);
    assert_eq!(Script::parse(&written).unwrap().replies.len(), 3);
    std::fs::write(&path, "{}\n".repeat(SCRIPT_REPLIES_MAX)).unwrap();
    let mut end = End::open(&path).unwrap();
    assert_eq!(end.append(b"{}\n").unwrap(), Outcome::Full);
    assert_eq!(end.append(b"{}\n").unwrap(), Outcome::FullAsTold);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_line_that_a_crash_tore_stays_alone() {
    let path = file("torn");
    std::fs::write(&path, "{}\n{\"content\":\"a").unwrap();
    let mut end = End::open(&path).unwrap();
    assert_eq!(end.append(b"{}\n").unwrap(), Outcome::Written);
    assert_eq!(end.append(b"{}\n").unwrap(), Outcome::Written);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{}\n{\"content\":\"a\n{}\n{}\n");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_file_that_cannot_be_opened_is_told() {
    let error = Recorder::open(Path::new("/no/such/file"), Vec::new()).map(drop).unwrap_err();
    assert_eq!(error.code, ErrorCode::FileUnreadable);
    assert!(error.message.contains("/no/such/file"), "{error}");
}
