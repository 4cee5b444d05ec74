//! Replies of thought, action and observation as models write them, through the whole loop.

use serde_json::{Value, json};
use wire::{ErrorCode, RunReply, RunStatus};

use crate::house::{House, calls, said};
use crate::seed_004::{action, served};
use crate::server::Server;

/// The shipped team, and the server that speaks for its model.
async fn stage() -> (Server, House) {
    let server = Server::ollama(&[END], vec![]).await;
    let house = served(&server).await;
    (server, house)
}

/// Plays replies to one question, and returns the run with what the server was sent.
async fn played(
    (server, house): &(Server, House),
    replies: &[impl ToString],
) -> (RunReply, Vec<Value>) {
    server.play(replies);
    let reply = house.put("Q").await;
    (reply, server.chats())
}

/// The answer that ends every run in which the model is asked again.
const END: &str = "Thought: done.\nFinal Answer: end";

#[tokio::test]
async fn seed_004_2_fences_of_all_kinds_and_none() {
    let stage = stage().await;
    let blob = r#"{"action": "Smalltalk", "action_input": {"query": "Hey"}}"#;
    for reply in [
        format!("Thought: t\nAction:\n```json\n{blob}\n```"),
        format!("Thought: t\nAction:\n```\n{blob}\n```"),
        format!("Thought: t\nAction: ```json\n{blob}\n```"),
        format!("Thought: t\nAction:```{blob}```"),
        format!("Thought: t\nAction:\n    ```json\n    {blob}\n    ```"),
        format!("Thought: t\nAction:\n```json\n{blob}"),
        format!("Thought: t\nAction:\n{blob}"),
        format!("Thought: t\nAction: {blob}"),
    ] {
        let (run, _) = played(&stage, &[reply.as_str(), END]).await;
        let made = calls(&run);
        assert_eq!(made.len(), 1, "{reply}: {run:?}");
        assert_eq!((made[0].0, &made[0].1), ("Smalltalk", &json!({"query": "Hey"})), "{reply}");
        assert_eq!(run.output, "end", "{reply}");
    }
    stage.1.end().await;
}

#[tokio::test]
async fn seed_004_3_an_action_that_is_none_is_no_call() {
    let stage = stage().await;
    for action in [
        r#"{"action": null, "action_input": ""}"#,
        r#"{"action": null, "action_input": null}"#,
        r#"{"action": "Null", "action_input": ""}"#,
        r#"{"action": "None", "action_input": ""}"#,
        r#"{"action": "", "action_input": ""}"#,
        r#"[{"action": null, "action_input": null}]"#,
    ] {
        let fenced = format!("Action:\n```json\n{action}\n```");
        let (run, chats) = played(&stage, &[fenced.as_str(), END]).await;
        assert_eq!((run.output.as_str(), calls(&run).len()), ("end", 0), "{action}: {run:?}");
        assert_eq!(chats.len(), 2, "{action}");

        let with_answer = format!("Thought: t\nFinal Answer: I cannot tell.\n\n---\n{fenced}");
        let (run, _) = played(&stage, &[with_answer.as_str(), END]).await;
        let found = (run.status, run.output.as_str(), calls(&run).len());
        assert_eq!(found, (RunStatus::Completed, "I cannot tell.", 0), "{action}: {run:?}");
    }
    stage.1.end().await;
}

#[tokio::test]
async fn seed_004_5_and_6_what_follows_the_action_is_never_used() {
    let stage = stage().await;
    let call = action("Smalltalk", &json!("Hey"));
    for invented in [
        "\nObservation: He won.\nThought: So be it.\nFinal Answer: He won.",
        "\nObservation: He won.",
        "\nObs",
        "\nObservation",
    ] {
        let (run, chats) = played(&stage, &[format!("{call}{invented}"), END.to_owned()]).await;
        assert_eq!((run.output.as_str(), calls(&run).len()), ("end", 1), "{invented}: {run:?}");
        let told = chats[1]["messages"].to_string();
        assert!(!told.contains("He won"), "{told}");
        let shown = said(&chats[1]);
        let spoken: Vec<&str> =
            shown.iter().filter(|(who, _)| *who == "assistant").map(|(_, text)| *text).collect();
        assert!(matches!(spoken[..], [one] if one.contains("Smalltalk")), "{spoken:?}");
        assert!(!spoken[0].contains("Obs"), "{invented}: {spoken:?}");
    }
    // A server that ignores where a reply has to stop: the answer is cut there too.
    for rest in ["\nObservation: invented", "\nObservation"] {
        let (run, _) =
            played(&stage, &[format!("Thought: t\nFinal Answer: It is so.{rest}")]).await;
        assert_eq!(run.output, "It is so.", "{rest}");
    }
    stage.1.end().await;
}

#[tokio::test]
async fn seed_004_7_a_reply_that_goes_on_from_the_observation() {
    let stage = stage().await;
    let (run, _) =
        played(&stage, &["Observation: Three were found.\nFinal Answer: Keanu and two more."])
            .await;
    let found = (run.status, run.output.as_str(), calls(&run).len());
    assert_eq!(found, (RunStatus::Completed, "Keanu and two more.", 0));
    stage.1.end().await;
}

#[tokio::test]
async fn seed_004_9_unreadable_replies_are_answered_a_bounded_number_of_times() {
    const BROKEN: &str = "Thought: I had better ask Smalltalk.";
    let stage = stage().await;
    let (run, chats) = played(&stage, &[BROKEN, BROKEN, END]).await;
    assert_eq!((run.output.as_str(), chats.len()), ("end", 3), "{run:?}");
    let told = said(&chats[1]);
    assert_eq!(told[told.len() - 2], ("assistant", BROKEN));
    assert_eq!(told[told.len() - 1].0, "user");

    // The first and three more, as the limit says.
    let (run, chats) = played(&stage, &[BROKEN; 4]).await;
    assert_eq!((run.status, run.output.as_str(), chats.len()), (RunStatus::Failed, "", 4));
    let error = run.error.unwrap();
    assert_eq!(error.code, ErrorCode::ReplyUnusable);
    assert!(error.message.contains(BROKEN), "{}", error.message);
    stage.1.end().await;
}
