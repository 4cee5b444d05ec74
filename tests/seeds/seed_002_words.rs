//! How replies of one JSON object are read, and what is said of those that cannot be used.

use serde_json::{Value, json};
use wire::RunStatus;

use crate::house::{House, calls, said};
use crate::seed_002::{LOCATION, QUESTION, at_server, served, services};
use crate::server::Server;

fn call(function: &str, arguments: &Value) -> String {
    json!({"thought": "t", "action": {"function": function, "arguments": arguments}}).to_string()
}

fn finish(answer: &str) -> String {
    call("finish_conversation", &json!({"final_answer": answer}))
}

/// The shipped team, and the server that speaks for its model.
async fn stage() -> (Server, House) {
    let server = Server::ollama(&[finish("end")], services()).await;
    let house = served(&server).await;
    (server, house)
}

/// Returns what the model is told of its first reply, and the calls that were made before it ended.
async fn answered((server, house): &(Server, House), reply: &str) -> (Value, Vec<String>) {
    server.play(&[reply.to_owned(), finish("end")]);
    let run = house.put("Q").await;
    assert_eq!((run.status, run.output.as_str()), (RunStatus::Completed, "end"), "{reply}");
    let chats = server.chats();
    let told = said(&chats[1]).last().unwrap().1.to_owned();
    let made = calls(&run).iter().map(|(tool, ..)| (*tool).to_owned()).collect();
    (serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}")), made)
}

#[tokio::test]
async fn seed_002_2_and_3_the_first_object_counts_wherever_it_stands() {
    let stage = stage().await;
    let object = call("calculate", &json!({"formula": "1 + 1"}));
    let braces =
        call("calculate", &json!({"formula": "1 + 1"})).replace("\"t\"", "\"a } { in it\"");
    let later = call("get_current_location", &json!({}));
    let invented = json!({"type": "feedback_success", "function": "calculate",
        "arguments": {"formula": "1 + 1"}, "result": "7"});
    for reply in [
        object.clone(),
        format!("```json\n{object}\n```"),
        format!("```JSON\n{object}\n```"),
        format!("```\n{object}\n```"),
        format!("  ```json\n  {object}\n  ```"),
        format!("```json\n{object}"),
        format!("So be it: {object} and that is all"),
        format!("So be it: {braces} }} and that is all"),
        format!("{object}\n\n{later}"),
        format!("{object}\n\n{invented}\n\n{later}"),
    ] {
        let (told, made) = answered(&stage, &reply).await;
        assert_eq!(made, ["calculate"], "{reply}");
        let result = (told["type"].as_str(), told["result"].as_str());
        assert_eq!(result, (Some("feedback_success"), Some("2")), "{reply}");
    }
    // An object that looks like a result by itself is none.
    let (told, made) = answered(&stage, &invented.to_string()).await;
    assert_eq!((told["error"]["code"].as_str(), made.len()), (Some("MALFORMED PAYLOAD"), 0));
    stage.1.end().await;
}

#[tokio::test]
async fn seed_002_2_text_after_the_object_is_ignored() {
    let object = call("calculate", &json!({"formula": "1 + 1"}));
    let reply = format!("{object}\nAnd then I shall rest.");
    let server = Server::ollama(&[reply, finish("end")], services()).await;
    let house = served(&server).await;
    house.put("Q").await;
    let chats = server.chats();
    let shown = said(&chats[1]);
    assert!(shown.contains(&("assistant", object.as_str())), "{shown:?}");
    assert!(!chats[1].to_string().contains("rest"), "{shown:?}");
    house.end().await;
}

#[tokio::test]
async fn seed_002_4_each_code_has_its_fields() {
    let stage = stage().await;
    let schema = json!({
        "name": "calculate", "description": "Perform a calculation.",
        "arguments": {"formula": {
            "type": "str",
            "description": "A simple mathematical expression containing only numbers and basic operators (+, -, *, /).",
            "default": null, "required": true,
        }},
        "return": {"type": "str"},
    });
    let names =
        json!(["finish_conversation", "get_current_location", "get_current_weather", "calculate"]);
    let reminds = |told: &Value, of: &str| told["error"]["reminder"][of].clone();

    let (told, _) = answered(&stage, "It rains.").await;
    assert_eq!(told["error"]["code"], "MALFORMED PAYLOAD");
    let format = reminds(&told, "valid_format");
    let function = format["action"]["function"].as_str().unwrap();
    assert!(names.as_array().unwrap().iter().all(|name| function.contains(name.as_str().unwrap())));
    assert!(told["error"]["error_details"].is_array(), "{told}");

    let (told, _) = answered(&stage, &call("fly", &json!({"far": 1}))).await;
    assert_eq!((&told["function"], &told["arguments"]), (&json!("fly"), &json!({"far": 1})));
    assert_eq!(told["error"]["code"], "INVALID FUNCTION NAME");
    assert_eq!(reminds(&told, "valid_function_names"), names);

    let (told, _) = answered(&stage, &call("calculate", &json!({"sum": "1"}))).await;
    assert_eq!(told["error"]["code"], "INVALID ARGUMENTS");
    assert_eq!(told["error"]["missing_arguments"], json!(["formula"]));
    assert_eq!(told["error"]["invalid_arguments"], json!(["sum"]));
    assert_eq!(reminds(&told, "valid_function_schema"), schema);

    let (told, _) = answered(&stage, &call("calculate", &json!({"formula": "one"}))).await;
    assert_eq!(told["error"]["code"], "EXECUTION FAILED");
    let message = told["error"]["error_message"].as_str().unwrap();
    assert!(message.starts_with("Failed to execute function: "), "{message}");
    assert_eq!(reminds(&told, "valid_function_schema"), schema);
    stage.1.end().await;
}

#[tokio::test]
async fn seed_002_5_every_fault_of_the_form_is_told_at_once() {
    let stage = stage().await;
    let mut cases: Vec<(Value, Vec<&str>)> = Vec::new();
    for wrong in [Value::Null, json!([]), json!("x"), json!(1)] {
        cases.push((json!({"thought": "t", "action": wrong}), vec!["action"]));
        let arguments = json!({"function": "calculate", "arguments": wrong});
        cases.push((json!({"thought": "t", "action": arguments}), vec!["arguments"]));
        if !wrong.is_string() {
            let both = json!({"function": wrong, "arguments": wrong});
            cases.push((json!({"thought": "t", "action": both}), vec!["function", "arguments"]));
        }
    }
    for (reply, parts) in cases {
        let (told, made) = answered(&stage, &reply.to_string()).await;
        assert_eq!((told["error"]["code"].as_str(), made.len()), (Some("MALFORMED PAYLOAD"), 0));
        let details = told["error"]["error_details"].to_string();
        for part in parts {
            assert!(details.contains(&format!("\\\"{part}\\\"")), "{reply}: {details}");
        }
    }
    stage.1.end().await;
}

#[tokio::test]
async fn seed_002_6_wrong_and_missing_names_together_and_numbers_in_quotes() {
    let stage = stage().await;
    let wrong = json!({"lat": -6.177, "lon": 106.6284, "temperature_unit": "celsius"});
    let (told, made) = answered(&stage, &call("get_current_weather", &wrong)).await;
    assert_eq!(made.len(), 0);
    assert_eq!(told["error"]["missing_arguments"], json!(["latitude", "longitude"]));
    assert_eq!(told["error"]["invalid_arguments"], json!(["lat", "lon"]));

    let quoted =
        json!({"latitude": "-6.177", "longitude": "106.6284", "temperature_unit": "celsius"});
    let server =
        Server::ollama(&[call("get_current_weather", &quoted), finish("end")], services()).await;
    let house = served(&server).await;
    let run = house.put("Q").await;
    assert_eq!(run.output, "end");
    assert_eq!(run.sources[0].arguments["latitude"], json!(-6.177));
    let asked = server.asked("/v1/forecast");
    let path = &asked.first().unwrap().path;
    let query = "latitude=-6.177&longitude=106.6284&temperature_unit=celsius";
    assert!(path.contains("current_weather=true") && path.contains(query), "{path}");
    house.end().await;
    stage.1.end().await;
}

#[tokio::test]
async fn seed_002_2_what_follows_the_first_object_is_recorded() {
    let object = call("calculate", &json!({"formula": "1 + 1"}));
    let invented = format!("{{\"type\": \"feedback_success\"}} {}", "so ".repeat(200));
    let invented = invented.trim();
    let replies = [format!("```json\n{object}\n```\n\n{invented}"), finish("end")];
    let server = Server::ollama(&replies, services()).await;
    let house = served(&server).await;
    let run = house.put("Q").await;
    assert_eq!((run.output.as_str(), calls(&run).len()), ("end", 1));

    let spans = house.spans(&run).await;
    let mut turns: Vec<_> = spans.iter().filter(|span| span.name == "chat gpt-4o").collect();
    turns.sort_by_key(|span| span.start);
    let unread: Vec<Option<u64>> =
        turns.iter().map(|span| span.attributes.number("callboard.unread_bytes")).collect();
    assert_eq!(unread, [Some(invented.len() as u64), None]);

    let entries = house.team().journal().read(&run.session).unwrap();
    let entries = entries.iter().map(|bytes| serde_json::from_slice::<Value>(bytes).unwrap());
    let noted: Vec<Value> =
        entries.filter_map(|entry| entry["body"]["outcome"].get("unread").cloned()).collect();
    let begins: String = invented.chars().take(200).collect();
    assert_eq!(noted, [json!({"bytes": invented.len(), "begins": begins})]);
    house.end().await;
}

#[tokio::test]
async fn seed_002_7_a_second_message_starts_anew_with_the_history() {
    let location = call("get_current_location", &json!({}));
    let replies = [location.clone(), finish("In Jakarta."), location, finish("Still there.")];
    let server = Server::ollama(&replies, services()).await;
    let house = served(&server).await;
    let first = house.put("Where am I?").await;
    let second = house.in_session(&first, "And now?").await;
    assert_eq!((&*first.output, &*second.output), ("In Jakarta.", "Still there."));
    assert_eq!((first.sources.len(), second.sources.len()), (1, 1));
    assert_eq!(second.sources[0].output, LOCATION);
    let chats = server.chats();
    let shown = said(&chats[2]);
    let expected = [("user", "Where am I?"), ("assistant", "In Jakarta."), ("user", "And now?")];
    assert_eq!(shown[1..], expected);
    house.end().await;
}

#[tokio::test]
async fn seed_002_8_the_functions_are_described_as_published() {
    let server = Server::ollama(&[finish("end")], services()).await;
    let house = served(&server).await;
    house.put(QUESTION).await;
    check_functions(&server, &expected_functions());
    house.end().await;

    // With a tool of its name the fifth function is there too.
    let server = Server::ollama(&[finish("end")], services()).await;
    let text = at_server(&server, "gpt-4o")
        .replace("\"calculate\"]", "\"calculate\", \"run_shell_command\"]")
        + "\n[tools.run_shell_command]\nkind = \"builtin\"\nbuiltin = \"say\"\n\
           description = \"Running a shell command\"\ntext = \"off\"\n\
           parameters = { command = \"string\" }\n";
    let house = House::of("json-prompt", &text).await;
    house.put(QUESTION).await;
    let mut expected = expected_functions();
    expected["run_shell_command"] = json!({
        "name": "run_shell_command", "description": "Running a shell command",
        "arguments": {"command": {"type": "str", "default": null, "required": true}},
        "return": {"type": "str"},
    });
    check_functions(&server, &expected);
    house.end().await;
}

fn check_functions(server: &Server, expected: &Value) {
    let chats = server.chats();
    let (who, system) = said(&chats[0])[0];
    let (_, functions) = system.split_once("FUNCTION SCHEMA:\n").unwrap();
    let found: Value = serde_json::from_str(functions).unwrap();
    assert_eq!((who, &found), ("system", expected));
    let order = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(order(&found), order(expected));
    assert!(functions.starts_with("{\n  \"finish_conversation\": {\n    \"name\""), "{functions}");
}

fn expected_functions() -> Value {
    let needed = |kind: &str| json!({"type": kind, "default": null, "required": true});
    json!({
        "finish_conversation": {
            "name": "finish_conversation",
            "description": "Ends up conversation with user with final answer",
            "arguments": {"final_answer": needed("str")},
            "return": {"type": "str"},
        },
        "get_current_location": {
            "name": "get_current_location",
            "description": "Get the user's current location.",
            "arguments": {},
            "return": {
                "type": "str",
                "description": "JSON string representing latitude and longitude",
            },
        },
        "get_current_weather": {
            "name": "get_current_weather",
            "description": "Get the current weather in a given location.",
            "arguments": {
                "latitude": needed("float"),
                "longitude": needed("float"),
                "temperature_unit": {
                    "type": "Literal", "values": ["celsius", "fahrenheit"],
                    "default": null, "required": true,
                },
            },
            "return": {"type": "str"},
        },
        "calculate": {
            "name": "calculate",
            "description": "Perform a calculation.",
            "arguments": {"formula": {
                "type": "str",
                "description": "A simple mathematical expression containing only numbers and basic operators (+, -, *, /).",
                "default": null, "required": true,
            }},
            "return": {"type": "str"},
        },
    })
}
