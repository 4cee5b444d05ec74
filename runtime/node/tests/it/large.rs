//! Conversations that are larger than one message of the bus.

use bus::{Bus, LocalLimits};
use serde_json::json;
use wire::{RunStatus, SessionId};

use crate::house;

const TEAM: &str = r#"
[team]
entry = "clerk"

[models.small]
provider = "scripted"
script = "small.jsonl"

[agents.clerk]
instructions = "You listen."
model = "small"
"#;

#[tokio::test]
async fn a_conversation_that_is_larger_than_a_message_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("team.toml"), TEAM).unwrap();
    let replies = (0..4).map(|n| json!({"content": format!("heard {n}")}).to_string());
    let script = replies.collect::<Vec<_>>().join("\n");
    std::fs::write(folder.path().join("small.jsonl"), script).unwrap();
    let limits = LocalLimits { payload_bytes_max: 64 * 1024, ..LocalLimits::default() };
    let bus = Bus::local_with(limits);
    let (team, data) = (folder.path().join("team.toml"), folder.path().join("data"));
    let session = SessionId::new("long").unwrap();
    let node = house::start_teams(&bus, &[&team], &data).await;
    // Of each new run the model is told all that was said before.
    for n in 0..4 {
        let reply = house::say(&node, &"word ".repeat(6_000), Some(&session)).await;
        let expected = (RunStatus::Completed, format!("heard {n}"));
        assert_eq!((reply.status, reply.output.to_string()), expected, "{:?}", reply.error);
    }
    node.drain(std::time::Duration::from_secs(5)).await;
}
