//! An assistant that is asked by its prompt alone for one JSON object: its published runs.

use serde_json::{Value, json};
use wire::{ErrorCode, RunReply, RunStatus};

use crate::house::{House, calls, said, seeds};
use crate::server::Server;

pub(crate) const QUESTION: &str = "What's the current weather for my location? Give me the \
    temperature in degrees Celsius and the wind speed in knots.";

pub(crate) const LOCATION: &str = r#"{"lat":-6.177,"lon":106.6284}"#;

/// The team with one agent whose model is at a server, as are the services that it calls.
pub(crate) async fn served(server: &Server) -> House {
    House::of("json-prompt", &at_server(server, "gpt-4o")).await
}

/// Writes the shipped team with one of its models and its services at a server.
pub(crate) fn at_server(server: &Server, model: &str) -> String {
    let shipped = std::fs::read_to_string(seeds().join("json-prompt.toml")).unwrap();
    let url = &server.url;
    let mut text = shipped;
    for (old, new) in [
        (
            format!("provider = \"scripted\"\nscript = \"json-prompt/{model}.jsonl\""),
            format!("provider = \"ollama\"\nmodel = \"{model}\"\nbase_url = \"{url}\""),
        ),
        (
            "kind = \"builtin\"\nbuiltin = \"say\"\ndescription = \"Get the user's".to_owned(),
            format!(
                "kind = \"http\"\nurl = \"{url}/json?fields=lat,lon\"\ndescription = \"Get the user's"
            ),
        ),
        (
            "kind = \"builtin\"\nbuiltin = \"say\"\ndescription = \"Get the current".to_owned(),
            format!(
                "kind = \"http\"\nurl = \"{url}/v1/forecast?current_weather=true\"\n\
                 query = {{ latitude = \"{{latitude}}\", longitude = \"{{longitude}}\", \
                 temperature_unit = \"{{temperature_unit}}\" }}\ndescription = \"Get the current"
            ),
        ),
    ] {
        assert!(text.contains(&old), "{old}");
        text = text.replacen(&old, &new, 1);
    }
    let lines = text.lines().filter(|line| !line.starts_with("text = '{"));
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn services() -> Vec<(&'static str, Value)> {
    let weather = json!({"current_weather": {"temperature": 24.5, "windspeed": 3.7}});
    vec![("/json", json!({"lat": -6.177, "lon": 106.6284})), ("/v1/forecast", weather)]
}

/// Returns the replies of a shipped script.
fn script(name: &str) -> Vec<String> {
    let path = seeds().join(format!("json-prompt/{name}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let replies = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    replies.map(|reply| reply["content"].as_str().unwrap().to_owned()).collect()
}

/// Returns what the model was told of each of its replies: the function and the code of the fault,
/// or the result.
fn feedback(server: &Server) -> Vec<(Option<String>, Value)> {
    let chats = server.chats();
    let last = said(chats.last().unwrap());
    let told = last.iter().skip(2).filter(|(who, _)| *who == "user").map(|(_, text)| {
        let told: Value = serde_json::from_str(text).unwrap();
        let what = match told["type"].as_str().unwrap() {
            "feedback_success" => told["result"].clone(),
            "feedback_error" => told["error"]["code"].clone(),
            other => panic!("{other}"),
        };
        (told["function"].as_str().map(str::to_owned), what)
    });
    told.collect()
}

fn told(function: &str, what: &str) -> (Option<String>, Value) {
    ((!function.is_empty()).then(|| function.to_owned()), json!(what))
}

#[tokio::test]
async fn seed_002_1_the_published_runs_of_five_models() {
    let weather = r#"{"current_weather":{"temperature":24.5,"windspeed":3.7}}"#;
    let here = || told("get_current_location", LOCATION);
    let now = || told("get_current_weather", weather);
    let failed = || told("calculate", "EXECUTION FAILED");
    let unfinished = || told("finish_conversation", "INVALID ARGUMENTS");
    for (model, expected, answer) in [
        (
            "gpt-4o",
            vec![here(), now(), told("calculate", "1.9978409000000001")],
            Some("It is 24.5°C where you are, with a wind of about 2 knots."),
        ),
        (
            "gpt-4-1106-preview",
            vec![here(), now(), told("calculate", "1.9978401727861772")],
            Some("It is 24.5°C and the wind speed is about 2.0 knots."),
        ),
        (
            "command-text",
            // Of the last reply the model is told nothing, since it is not asked again.
            [here(), now(), failed(), failed(), failed(), failed(), here(), now(), unfinished()]
                .into(),
            None,
        ),
        (
            "claude-3-sonnet",
            vec![
                here(),
                told("get_current_weather", "INVALID ARGUMENTS"),
                now(),
                told("", "MALFORMED PAYLOAD"),
                unfinished(),
            ],
            Some("It is 24.5°C with 2 knots of wind."),
        ),
        (
            "mixtral-8x22b",
            vec![here(), now(), told("calculate", "26.4978409")],
            Some("The temperature is 24.5°C and the wind speed is 26.49 knots."),
        ),
    ] {
        let replies = script(model);
        let server = Server::ollama(&replies, services()).await;
        let text = at_server(&server, model);
        let house = House::of("json-prompt", &text).await;
        let reply = house.ask(model, json!({"input": QUESTION})).await;
        assert_eq!(server.chats().len(), replies.len(), "{model}: {reply:?}");
        assert_eq!(feedback(&server), expected, "{model}");
        ended(model, &reply, answer);
        house.end().await;
    }
}

/// Expects an answer, or else that the replies were used up.
fn ended(model: &str, reply: &RunReply, answer: Option<&str>) {
    let code = reply.error.as_ref().map(|error| error.code);
    match answer {
        Some(answer) => {
            assert_eq!((reply.status, &*reply.output), (RunStatus::Completed, answer), "{model}");
        }
        None => {
            assert_eq!((reply.status, code), (RunStatus::Partial, Some(ErrorCode::StepLimit)));
        }
    }
}

#[tokio::test]
async fn seed_002_1_the_shipped_team_plays_them_without_a_server() {
    let house = House::shipped("json-prompt").await;
    for (model, tools, answer) in [
        ("gpt-4o", 3, Some("It is 24.5°C where you are, with a wind of about 2 knots.")),
        ("gpt-4-1106-preview", 3, Some("It is 24.5°C and the wind speed is about 2.0 knots.")),
        ("command-text", 9, None),
        ("claude-3-sonnet", 2, Some("It is 24.5°C with 2 knots of wind.")),
        ("mixtral-8x22b", 3, Some("The temperature is 24.5°C and the wind speed is 26.49 knots.")),
    ] {
        let reply = house.ask(model, json!({"input": QUESTION})).await;
        ended(model, &reply, answer);
        assert_eq!(calls(&reply).len(), tools, "{model}: {reply:?}");
    }
    house.end().await;
}

#[tokio::test]
async fn seed_002_9_formulas_in_words_fail_as_such_and_no_shell_is_there() {
    let house = House::shipped("json-prompt").await;
    let reply = house.ask("command-text", json!({"input": QUESTION})).await;
    let formulas: Vec<(String, &str)> = reply
        .sources
        .iter()
        .filter(|call| call.tool.as_str() == "calculate")
        .map(|call| (call.arguments["formula"].as_str().unwrap().to_owned(), &*call.status))
        .collect();
    let expected = [
        "3.7 kilometer per hour to knots",
        "1 kilometer per hour = 1.85 knots",
        "3.7 * 1.85 = knots",
        "1 kilometer per hour = 1.85 knots",
    ];
    assert_eq!(formulas, expected.map(|formula| (formula.to_owned(), "error")));
    house.end().await;

    let shell = json!({"thought": "t", "action": {
        "function": "run_shell_command", "arguments": {"command": "id"},
    }});
    let end = json!({"thought": "t", "action": {
        "function": "finish_conversation", "arguments": {"final_answer": "no"},
    }});
    let server = Server::ollama(&[shell, end], services()).await;
    let house = served(&server).await;
    let reply = house.put("Who am I?").await;
    assert_eq!(calls(&reply), []);
    assert_eq!(feedback(&server), [told("run_shell_command", "INVALID FUNCTION NAME")]);
    house.end().await;
}

#[tokio::test]
async fn seed_002_10_the_cap_and_why_it_ended_are_in_result_and_trace() {
    // The same call again and again would end the run before.
    let another = |n: u32| {
        json!({"thought": "t", "action": {
            "function": "calculate", "arguments": {"formula": format!("{n} + 1")},
        }})
    };
    let replies: Vec<_> = (0..10).map(another).collect();
    let server = Server::ollama(&replies, services()).await;
    let house = served(&server).await;
    let reply = house.put(QUESTION).await;
    assert_eq!(server.chats().len(), 10);
    ended("gpt-4o", &reply, None);
    let error = reply.error.clone().unwrap();
    assert!(error.message.contains("within 10 steps"), "{}", error.message);
    let spans = house.spans(&reply).await;
    let run = spans.iter().find(|span| span.name == "invoke_agent gpt-4o").unwrap();
    assert_eq!(run.error, Some(error.to_string()));
    assert_eq!(run.attributes.number("callboard.step"), Some(10));
    assert_eq!(run.attributes.text("error.type"), Some("E4001"));
    let turns = spans.iter().filter(|span| span.name == "chat gpt-4o").count();
    assert_eq!(turns, 10);
    house.end().await;
}
