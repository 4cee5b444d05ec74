//! Plan mode: one model selects the tool and states a task, another makes the call.

use serde_json::{Value, json};
use wire::RunStatus;

use super::{BY_GRAMMAR, GIRLFRIEND, QUESTION, call, start};
use crate::house::{House, changed, check, on_servers, shipped};
use crate::server::{Server, completion};

/// Returns the reply of a planner.
fn plan(task: &str, tool: &str) -> String {
    json!({"context_information_summary": "", "thoughts": "so", "task": task, "selected_tool": tool})
        .to_string()
}

fn served(planner: &Server, actor: &Server) -> String {
    on_servers(&shipped("grammar"), &[("planner", &planner.url), ("actor", &actor.url)])
}

#[tokio::test]
async fn seed_000_10_the_schema_limits_the_selected_tool() {
    let planner = Server::start([completion(&plan("Say hello.", "respond_to_user"))]).await;
    let actor = Server::start([completion("Hello!")]).await;
    let team = changed(&served(&planner, &actor), BY_GRAMMAR, "constrain = \"json_schema\"");
    let house = start(&team).await;
    let reply = house.ask("planner", json!({"input": "Hi"})).await;
    assert_eq!(reply.output, "Hello!", "{reply:?}");
    let body = planner.seen()[0].body.clone();
    let names =
        ["search_internet", "search_images", "create_event", "calculate", "respond_to_user"];
    let properties = &body["json_schema"]["properties"];
    assert_eq!(properties["selected_tool"]["enum"], json!(names));
    let keys: Vec<&String> = properties.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["context_information_summary", "thoughts", "task", "selected_tool"]);
    house.end().await;
}

#[tokio::test]
async fn seed_000_10_the_published_repairs_of_names_pass() {
    let search = json!({"query": "Vittoria"});
    let power = json!({"expression": "25^0.24"});
    let cases: [(&str, &str, &Value, &str); 4] = [
        ("search-internet", "search_internet", &search, "final_answer"),
        ("search_internet, calculate", "search_internet", &search, ""),
        ("calculate_number", "calculate", &power, "respond-to-user"),
        ("calculate", "calculate", &power, "respond_to_user"),
    ];
    let plans = cases
        .iter()
        .flat_map(|(written, .., ending)| [plan("Do it.", written), plan("Answer.", ending)]);
    let planner = Server::start(plans.map(|text| completion(&text))).await;
    let replies = cases
        .iter()
        .flat_map(|(_, tool, arguments, _)| [call(tool, arguments), "Done.".to_owned()]);
    let actor = Server::start(replies.map(|text| completion(&text))).await;
    let house = start(&served(&planner, &actor)).await;
    for (written, tool, _, ending) in cases {
        let reply = house.ask("planner", json!({"input": "Do it"})).await;
        assert_eq!((reply.status, reply.output.as_str()), (RunStatus::Completed, "Done."));
        let called: Vec<&str> = reply.sources.iter().map(|call| call.tool.as_str()).collect();
        assert_eq!(called, [tool], "{written:?}, then {ending:?}");
    }
    house.end().await;
}

#[tokio::test]
async fn seed_000_10_a_name_that_is_not_there_is_answered_with_those_that_are() {
    let plans = [plan("Fly.", "fly"), plan("Say that you cannot fly.", "respond_to_user")];
    let planner = Server::start(plans.iter().map(|text| completion(text))).await;
    let actor = Server::start([completion("I cannot fly.")]).await;
    let house = start(&served(&planner, &actor)).await;
    let reply = house.ask("planner", json!({"input": "Fly!"})).await;
    assert_eq!((reply.output.as_str(), reply.sources.len()), ("I cannot fly.", 0), "{reply:?}");
    let again = planner.seen()[1].clone();
    for part in ["unknown_tool", "fly", "search_images", "respond_to_user"] {
        assert!(again.prompt().contains(part), "{part} in {again:?}");
    }
    house.end().await;
}

#[tokio::test]
async fn seed_000_10_the_shipped_planner_makes_the_published_calls() {
    let house = House::shipped("grammar").await;
    let reply = house.ask("planner", json!({"input": QUESTION})).await;
    let search = json!({"query": "Leonardo DiCaprio's current girlfriend"});
    let calls = [
        ("search_internet", search, "ok", GIRLFRIEND),
        ("calculate", json!({"expression": "25^0.24"}), "ok", "2.16524"),
    ];
    check(&reply, &calls);
    assert!(reply.output.contains("2.16524"), "{reply:?}");
    house.end().await;
}
