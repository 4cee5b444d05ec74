//! A model that says that its text is not the answer yet.

use std::time::Duration;

use serde_json::json;
use wire::event::EventKind;
use wire::{Event, Message, ModelRequest, Name, RunStatus, SessionId};

use crate::house;

const TEAM: &str = r#"
[models.m]
provider = "scripted"
script = "m.jsonl"

[agents.a]
instructions = "Begin a reply that is not the answer yet with CONTINUE."
model = "m"
tools = ["calculate"]
continue_word = "CONTINUE"
"#;

#[tokio::test]
async fn the_model_goes_on_and_the_word_reaches_nobody_but_it() {
    let folder = tempfile::tempdir().unwrap();
    let replies = [
        json!({"when": "^[^\n]*\n\nWhat does it cost\\?$", "content": "CONTINUE: I look up the use."}),
        json!({"when": "look up the use\\.\n\nGo on\\.$", "content": "**CONTINUE** and then the sum",
            "calls": [{"name": "calculate", "arguments": {"expression": "2 * 3"}}]}),
        json!({"when": "\n\n6$", "content": "It costs 6. CONTINUE"}),
        json!({"when": "Sure\\?$", "content": "Yes."}),
    ];
    let node = house::start_with(folder.path(), TEAM, &[("m.jsonl", &replies)]).await;
    let team = node.team("team").unwrap();
    let subjects = team.subjects();
    let name = &team.team().name.clone();
    let mut events = node.bus().subscribe(&subjects.all_session_events(name), None).await.unwrap();
    let model = subjects.model(name, &Name::new("m").unwrap());
    let mut questions = node.bus().subscribe(&model, None).await.unwrap();
    let session = SessionId::new("s").unwrap();

    let reply = house::say(&node, "What does it cost?", Some(&session)).await;
    assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "It costs 6."));
    let mut written = String::new();
    let mut asked = 0;
    loop {
        let message = events.next().await.unwrap();
        let text = String::from_utf8(message.payload.to_vec()).unwrap();
        assert!(!text.contains("CONTINUE"), "{text}");
        let kind = serde_json::from_str::<Event>(&text).unwrap().kind;
        if let EventKind::Delta { text, .. } = &kind {
            written.push_str(text);
        }
        asked += usize::from(matches!(kind, EventKind::ModelAsked { .. }));
        if matches!(kind, EventKind::RunEnded { .. }) {
            break;
        }
    }
    assert_eq!(asked, 3);
    assert!(written.contains("I look up the use."), "{written}");

    let reply = house::say(&node, "Sure?", Some(&session)).await;
    assert_eq!(reply.output, "Yes.");
    let mut heard = Vec::new();
    for _turn in 0..4 {
        let message = questions.next().await.unwrap();
        let request: ModelRequest = serde_json::from_slice(&message.payload).unwrap();
        heard.push(request.messages);
    }
    let said = |messages: &[std::sync::Arc<Message>]| {
        messages.iter().map(|message| message.content().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(said(&heard[1]), ["CONTINUE: I look up the use.", "Go on."]);
    assert_eq!(said(&heard[3])[1..], ["What does it cost?", "It costs 6.", "Sure?"]);
    node.drain(Duration::from_secs(5)).await;
}
