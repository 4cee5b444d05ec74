//! What a later request of a session is shown of the earlier ones.

use serde_json::{Value, json};
use wire::RunStatus;

use super::{call, respond, served, start};
use crate::house::{House, check};
use crate::server::{Server, completion};

const FIRST: &str = "find an image of a brown dog";
const SECOND: &str = "dog should be running too";
const LINK: &str = "[brown_dog_1.jpg](https://example.com/brown_dog_1.jpg)";

#[tokio::test]
async fn seed_000_7_the_second_request_has_the_first_with_its_answer_and_no_step() {
    for restarts in [false, true] {
        let answer = format!("Here: {LINK}");
        let running = call("search_images", &json!({"query": "brown dog running"}));
        let answers = [
            "I search images.",
            &call("search_images", &json!({"query": "brown dog"})),
            "The image is there.",
            &respond(&answer),
            "I search images of a running dog.",
            &running,
            "That image is there.",
            &respond("https://example.com/brown_dog_running_1.jpg"),
        ];
        let server = Server::start(answers.map(completion)).await;
        let mut house = start(&served(&server, &server)).await;
        let ask = |input: &str| json!({"input": input, "session": "dogs"});
        let reply = house.ask("assistant", ask(FIRST)).await;
        assert_eq!(reply.output, answer);
        check(&reply, &[("search_images", json!({"query": "brown dog"}), "ok", LINK)]);
        if restarts {
            house = house.restarted().await;
        }
        let reply = house.ask("assistant", ask(SECOND)).await;
        assert_eq!(reply.output, "https://example.com/brown_dog_running_1.jpg");
        let seen = server.seen();
        // The first thought and the first call after the second request.
        for request in &seen[4..=5] {
            let prompt = request.prompt();
            for part in [FIRST, &answer, SECOND] {
                assert!(prompt.contains(part), "{restarts}: {part:?} in {prompt}");
            }
            for step in ["I search images.", "The image is there.", "search_images {", "call 1"] {
                assert!(!prompt.contains(step), "{restarts}: {step:?} in {prompt}");
            }
        }
        house.end().await;
    }
}

#[tokio::test]
async fn seed_000_7_the_shipped_team_finds_the_running_dog() {
    let house = House::shipped("grammar").await;
    let ask = |input: &str| json!({"input": input, "session": "dogs"});
    let first = house.ask("assistant", ask(FIRST)).await;
    assert!(first.output.contains(LINK), "{first:?}");
    let house = house.restarted().await;
    let second = house.ask("assistant", ask(SECOND)).await;
    assert_eq!(second.status, RunStatus::Completed, "{second:?}");
    let queries: Vec<&Value> =
        second.sources.iter().map(|source| source.arguments.as_ref()).collect();
    assert_eq!(queries, [&json!({"query": "brown dog running"})]);
    assert!(second.output.ends_with("https://example.com/brown_dog_running_1.jpg"), "{second:?}");
    house.end().await;
}
