//! Each published system on the daemon as its users run it, which is killed between two requests of
//! a session: the second one is told what the first came to, and what was kept is kept.

use serde_json::{Value, json};
use tests::daemon::Daemon;

use crate::broker::Script;
use crate::house::{furnish, on_servers, shipped};
use crate::knative::at_broker;
use crate::seed_002::{LOCATION, at_server, services};
use crate::seed_004::{action, at_ollama};
use crate::server::{Server, chat, completion, tool_call};

/// A team with its model at a server, and two requests of one session.
struct Seed {
    /// The shipped team.
    name: &'static str,
    agent: &'static str,
    server: Server,
    team: String,
    /// What is asked, and answered.
    requests: [[&'static str; 2]; 2],
    /// What the model's last request must hold, in this order.
    told: Vec<String>,
    /// What the tools of the second request answered, or a part of each.
    results: Vec<&'static str>,
}

async fn ask(daemon: &Daemon, seed: &Seed, input: &str) -> Value {
    let url = format!("{}/v1/teams/{}/agents/{}/runs", daemon.http, seed.name, seed.agent);
    let body = json!({"input": input, "session": "s"}).to_string();
    let answer = reqwest::Client::new().post(url).body(body).send().await.unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// Asks twice, with the death of the daemon between.
async fn killed_between(seed: Seed) {
    // A second installation in one process is refused, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let name = seed.name;
    let folder = tempfile::tempdir().unwrap();
    let file = furnish(folder.path(), name, &seed.team);
    let args = ["--data".into(), folder.path().join("data"), file];
    let mut daemon = Daemon::start(&args).await;
    let [[first, answered], [second, answer]] = seed.requests;
    let reply = ask(&daemon, &seed, first).await;
    assert_eq!(
        (&reply["status"], &reply["output"]),
        (&json!("completed"), &json!(answered)),
        "{name}: {reply}"
    );
    daemon.kill().await;
    let mut daemon = Daemon::start(&args).await;
    let reply = ask(&daemon, &seed, second).await;
    assert_eq!(
        (&reply["status"], &reply["output"]),
        (&json!("completed"), &json!(answer)),
        "{name}: {reply}"
    );
    let sources = reply["sources"].as_array().unwrap();
    assert_eq!(sources.len(), seed.results.len(), "{name}: {reply}");
    for (source, result) in sources.iter().zip(&seed.results) {
        assert!(source["output"].as_str().unwrap().contains(result), "{name}: {source}");
    }
    let last = seed.server.seen().pop().unwrap();
    let text = last.body.to_string();
    let mut rest = text.as_str();
    for part in &seed.told {
        let quoted = json!(part).to_string();
        let Some((_, after)) = rest.split_once(quoted.trim_matches('"')) else {
            panic!("{name}: {part} is not in {rest}")
        };
        rest = after;
    }
    assert_eq!(daemon.terminate().await, Some(0), "{name}");
}

fn texts(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_000_calls_under_a_grammar_go_on_after_a_crash() {
    let call =
        |tool: &str, arguments: Value| json!({"tool": tool, "arguments": arguments}).to_string();
    let search = |words: &str| call("search_images", json!({"query": words}));
    let respond = |answer: &str| call("respond_to_user", json!({"answer": answer}));
    let answers = [
        "I search.",
        &search("brown dog"),
        "It is there.",
        &respond("Here it is."),
        "I search again.",
        &search("brown dog running"),
        "That is there.",
        &respond("It runs."),
    ];
    let server = Server::start(answers.map(completion)).await;
    let at = [("thinker", server.url.as_str()), ("actor", &server.url)];
    let requests = [
        ["find an image of a brown dog", "Here it is."],
        ["dog should be running too", "It runs."],
    ];
    killed_between(Seed {
        name: "grammar",
        agent: "assistant",
        team: on_servers(&shipped("grammar"), &at),
        told: texts(&[requests[0][0], "Here it is.", requests[1][0], "brown dog running"]),
        server,
        requests,
        results: vec!["brown_dog_running"],
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_001_a_model_that_goes_on_by_a_word_goes_on_after_a_crash() {
    let arguments = json!({"resourceKind": "memory", "usage": 1, "unit": "GiB"}).to_string();
    let call = tool_call("c1", "resource_cost_calculator", &json!(arguments));
    let says = |text: &str| chat(&json!({"role": "assistant", "content": text}));
    let answers = [
        says("CONTINUE I think."),
        says("It costs much."),
        chat(&json!({"role": "assistant", "content": "CONTINUE", "tool_calls": [call]})),
        says("It costs $16.38."),
    ];
    let server = Server::start(answers).await;
    let url = format!("{}/v1", server.url);
    let broker = Script::shipped(&[]).await;
    let requests = [
        ["What does it cost?", "It costs much."],
        ["And one more GiB of memory?", "It costs $16.38."],
    ];
    killed_between(Seed {
        name: "knative",
        agent: "assistant",
        team: on_servers(&at_broker(broker.url()), &[("chat", &url)]),
        told: texts(&[requests[0][0], "It costs much.", requests[1][0], "16.384"]),
        server,
        requests,
        results: vec!["16.384"],
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_002_objects_by_prompt_alone_go_on_after_a_crash() {
    let call = |name: &str, arguments: Value| {
        json!({"thought": "t", "action": {"function": name, "arguments": arguments}}).to_string()
    };
    let finish = |answer: &str| call("finish_conversation", json!({"final_answer": answer}));
    let here = call("get_current_location", json!({}));
    let replies = [here.clone(), finish("In Jakarta."), here, finish("Still there.")];
    let server = Server::ollama(&replies, services()).await;
    let requests = [["Where am I?", "In Jakarta."], ["And now?", "Still there."]];
    killed_between(Seed {
        name: "json-prompt",
        agent: "gpt-4o",
        team: at_server(&server, "gpt-4o"),
        told: texts(&["Where am I?", "In Jakarta.", "And now?", "feedback_success"]),
        server,
        requests,
        results: vec![LOCATION],
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_003_calls_of_a_provider_go_on_after_a_crash() {
    let calling = |tool: &str, a: u32, b: u32| {
        let arguments = json!({"a": a, "b": b}).to_string();
        let call = tool_call(&format!("call_{tool}"), tool, &json!(arguments));
        chat(&json!({"role": "assistant", "content": null, "tool_calls": [call]}))
    };
    let says = |text: &str| chat(&json!({"role": "assistant", "content": text}));
    let answers =
        [calling("int_mult", 12, 34), says("It is 408."), calling("int_add", 408, 1), says("409.")];
    let server = Server::start(answers).await;
    let url = format!("{}/v1", server.url);
    let requests = [["What is 12*34?", "It is 408."], ["And one more?", "409."]];
    killed_between(Seed {
        name: "tool-calls",
        agent: "assistant",
        team: on_servers(&shipped("tool-calls"), &[("large", &url)]),
        told: texts(&["What is 12*34?", "It is 408.", "And one more?", "call_int_add", "409"]),
        server,
        requests,
        results: vec!["409"],
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_004_8_what_the_user_liked_is_known_after_a_crash() {
    let replies = [
        action("Memory", &json!({"movie": "Keanu", "rating": 5})),
        "Final Answer: I keep that.".to_owned(),
        action("Recommender", &json!({"movie": null, "genre": null})),
        "Final Answer: The Matrix.".to_owned(),
    ];
    let server = Server::ollama(&replies, Vec::new()).await;
    let requests =
        [["I give Keanu 5 of 5.", "I keep that."], ["What should I watch?", "The Matrix."]];
    killed_between(Seed {
        name: "movies",
        agent: "critic",
        team: at_ollama(&server),
        told: texts(&[requests[0][0], "I keep that.", requests[1][0], "title:The Matrix"]),
        server,
        requests,
        // Without the rating it would ask what the user liked.
        results: vec!["title:The Matrix"],
    })
    .await;
}
