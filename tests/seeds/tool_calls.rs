//! 003: calls by a provider's own means, and agents as tools.

use bus::testing::NatsServer;
use bus::{Bus, NatsOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use wire::{ErrorCode, RunStatus};

use crate::house::{House, check, next, on_servers, shipped};
use crate::server::{Server, chat, tool_call};

const PRODUCT: &str = "What is the result of the 12*34?";
const REQUEST: &str =
    "Please create a random joke and provide the translated result in Simplified Chinese.";
const JOKE: &str = "Why did the scarecrow win an award? Because he was outstanding in his field!";
const TRANSLATED: &str = "为什么稻草人获奖了?因为他在自己的领域里出类拔萃!";

async fn served(server: &Server) -> House {
    served_at(&server.url).await
}

async fn served_at(url: &str) -> House {
    let team = on_servers(&shipped("tool-calls"), &[("large", &format!("{url}/v1"))]);
    House::of("tool-calls", &team).await
}

/// Makes a message that calls tools.
fn calling(calls: &[Value]) -> Value {
    chat(&json!({"role": "assistant", "content": null, "tool_calls": calls}))
}

fn saying(text: &str) -> Value {
    chat(&json!({"role": "assistant", "content": text}))
}

/// Returns the messages of the request of a number, from 0.
fn messages(server: &Server, index: usize) -> Vec<Value> {
    let seen = server.seen();
    let request = seen.get(index).unwrap_or_else(|| panic!("no request {index}: {seen:?}"));
    request.body["messages"].as_array().unwrap().clone()
}

fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn seed_003_1_tools_and_agents_are_offered_as_published() {
    let server = Server::start([saying("Hello!")]).await;
    let house = served(&server).await;
    house.say("hi").await;
    let tool = |name: &str, description: &str, parameters: Value| {
        let function = json!({"name": name, "description": description, "parameters": parameters});
        json!({"type": "function", "function": function})
    };
    let two = json!({"type": "object", "properties": {"a": {"title": "A", "type": "integer"},
        "b": {"title": "B", "type": "integer"}}, "required": ["a", "b"]});
    let text = json!({"type": "object", "properties": {"string": {"title": "String",
        "type": "string"}}, "required": ["string"]});
    let expected = json!([
        tool(
            "int_mult",
            "int_mult(a: int, b: int) -> int\nMultiplies two whole numbers.",
            two.clone()
        ),
        tool("int_add", "int_add(a: int, b: int) -> int\nAdds two whole numbers.", two),
        tool(
            "random_joke",
            "random_joke() -> str\nTells a random joke.",
            json!({"type": "object", "properties": {}})
        ),
        tool(
            "translate",
            "translate(string: str) -> str\nTranslates a text into Simplified Chinese.",
            text
        ),
    ]);
    // As texts, so that the order of keys counts as well.
    assert_eq!(server.seen()[0].body["tools"].to_string(), expected.to_string());
    house.end().await;
}

#[tokio::test]
async fn seed_003_2_the_call_comes_back_byte_for_byte_with_its_result() {
    let written = "{ \"a\" : 12,\n\"b\":34}";
    let call = tool_call("call_7", "int_mult", &json!(written));
    let server = Server::start([calling(&[call]), saying("It is 408.")]).await;
    let house = served(&server).await;
    let reply = house.say(PRODUCT).await;
    assert_eq!(reply.output, "It is 408.");
    check(&reply, &[("int_mult", json!({"a": 12, "b": 34}), "ok", "408")]);
    let messages = messages(&server, 1);
    assert_eq!(roles(&messages), ["system", "user", "assistant", "tool"]);
    let [_, user, assistant, tool] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(user["content"], PRODUCT);
    let echoed = &assistant["tool_calls"][0];
    assert_eq!(
        (&echoed["id"], &echoed["function"]["arguments"]),
        (&json!("call_7"), &json!(written))
    );
    assert_eq!((&tool["tool_call_id"], &tool["content"]), (&json!("call_7"), &json!("408")));
    house.end().await;
}

#[tokio::test]
async fn seed_003_3_a_text_without_calls_ends_the_run() {
    let replies = [
        json!({"role": "assistant", "content": "Hello!"}),
        json!({"role": "assistant", "content": "Hello!", "tool_calls": null}),
        json!({"role": "assistant", "content": "Hello!", "tool_calls": []}),
    ];
    let server = Server::start(replies.iter().map(chat)).await;
    let house = served(&server).await;
    for (count, message) in (1..).zip(&replies) {
        let reply = house.say("hi").await;
        assert_eq!((reply.output.as_str(), reply.sources.len()), ("Hello!", 0), "{message}");
        assert_eq!(server.seen().len(), count, "{message}");
    }
    house.end().await;
}

#[tokio::test]
async fn seed_003_4_each_of_several_calls_is_answered_once_before_the_next_request() {
    let numbers = |a: i64, b: i64| json!(json!({"a": a, "b": b}).to_string());
    let calls = [
        tool_call("c1", "int_mult", &numbers(12, 34)),
        tool_call("c2", "int_add", &numbers(12, 34)),
        tool_call("c3", "int_add", &json!("{\"a\": 12}")),
        tool_call("c4", "int_mult", &numbers(-3, 5)),
    ];
    let server = Server::start([calling(&calls), saying("408, 46 and -15")]).await;
    let house = served(&server).await;
    assert_eq!(house.say("Compute").await.output, "408, 46 and -15");
    let messages = messages(&server, 1);
    let answers: Vec<(&Value, &Value)> =
        messages[3..].iter().map(|tool| (&tool["tool_call_id"], &tool["content"])).collect();
    assert_eq!(roles(&messages[3..]), ["tool"; 4]);
    let [first, second, (third, fault), fourth] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(first, (&json!("c1"), &json!("408")));
    assert_eq!(second, (&json!("c2"), &json!("46")));
    assert_eq!(third, "c3");
    assert!(fault.as_str().unwrap().contains("invalid_arguments"), "{fault}");
    assert_eq!(fourth, (&json!("c4"), &json!("-15")));
    house.end().await;
}

#[tokio::test]
async fn seed_003_5_the_joke_and_its_translation_come_from_agents_over_nats() {
    let nats = NatsServer::start("").await.unwrap();
    let bus = Bus::connect(NatsOptions::new([nats.url()])).await.unwrap();
    let house = House::on(bus.clone(), "tool-calls", &shipped("tool-calls")).await;
    let mut hops = Vec::new();
    for agent in ["random_joke", "translate"] {
        hops.push((agent, bus.subscribe(&house.agent(agent), None).await.unwrap()));
    }
    let reply = house.say(REQUEST).await;
    assert_eq!(reply.output, TRANSLATED);
    check(
        &reply,
        &[
            ("random_joke", json!({}), "ok", JOKE),
            ("translate", json!({"string": JOKE}), "ok", TRANSLATED),
        ],
    );
    house.team().settle().await;
    let spans = house.team().store().trace(&reply.trace_id).unwrap();
    let find = |name: &str| {
        spans
            .iter()
            .find(|span| span.name == name)
            .unwrap_or_else(|| panic!("no {name}: {spans:?}"))
    };
    let caller = find("invoke_agent assistant");
    for (agent, hop) in &mut hops {
        let heard = next(hop).await;
        let call = find(&format!("execute_tool {agent}"));
        assert_eq!(call.parent, Some(caller.context), "{agent}");
        let sent = heard.headers.get(wire::header::TRACEPARENT).unwrap();
        assert!(sent.contains(&reply.trace_id), "{agent}: {sent}");
        let answering = find(&format!("invoke_agent {agent}"));
        assert_eq!(answering.parent, Some(call.context), "{agent}");
    }
    assert!(spans.iter().all(|span| span.context.trace_id() == reply.trace_id));
    house.end().await;
}

#[tokio::test]
async fn seed_003_6_the_reply_lists_its_sources_in_order() {
    let numbers = json!("{\"a\": 2, \"b\": 3}");
    let server = Server::start([
        calling(&[tool_call("c1", "int_add", &numbers), tool_call("c2", "int_mult", &numbers)]),
        calling(&[tool_call("c3", "translate", &json!({"string": JOKE}))]),
        saying("Done."),
    ])
    .await;
    let house = served(&server).await;
    let reply = house.say("Compute and translate").await;
    let numbers = json!({"a": 2, "b": 3});
    check(
        &reply,
        &[
            ("int_add", numbers.clone(), "ok", "5"),
            ("int_mult", numbers, "ok", "6"),
            ("translate", json!({"string": JOKE}), "ok", TRANSLATED),
        ],
    );
    house.end().await;
}

#[tokio::test]
async fn seed_003_7_arguments_of_every_kind_are_taken_or_answered() {
    let object = json!({"a": 12, "b": 34});
    let text = object.to_string();
    let twice = json!(text).to_string();
    let cases = [
        ("random_joke", Some(json!("")), Ok(JOKE)),
        ("random_joke", None, Ok(JOKE)),
        ("random_joke", Some(json!("{}")), Ok(JOKE)),
        ("int_mult", Some(json!(text)), Ok("408")),
        ("int_mult", Some(json!(twice)), Ok("408")),
        ("int_mult", Some(object), Ok("408")),
        ("int_mult", Some(json!("")), Err("invalid_arguments")),
        ("int_mult", Some(json!("12 * 34")), Err("invalid_arguments")),
        ("int_mult", Some(json!("{\"a\": 12, \"b\"")), Err("invalid_arguments")),
        ("int_mult", Some(json!("[12, 34]")), Err("invalid_arguments")),
        ("int_mult", Some(json!([12, 34])), Err("invalid_arguments")),
        ("int_mult", Some(json!("null")), Err("invalid_arguments")),
        ("int_mult", Some(json!("7")), Err("invalid_arguments")),
    ];
    let calls = cases.clone().map(|(tool, arguments, _)| {
        let mut call = tool_call("c9", tool, &arguments.clone().unwrap_or_default());
        if arguments.is_none() {
            call["function"].as_object_mut().unwrap().shift_remove("arguments");
        }
        call
    });
    let answers =
        calls.iter().flat_map(|call| [calling(std::slice::from_ref(call)), saying("Done.")]);
    let server = Server::start(answers).await;
    let house = served(&server).await;
    for (index, (call, (.., expected))) in calls.iter().zip(cases).enumerate() {
        assert_eq!(house.say("Go").await.output, "Done.", "{call}");
        let messages = messages(&server, 2 * index + 1);
        let [_, _, _, answer] = &messages[..] else { panic!("{call}: {messages:?}") };
        assert_eq!((&answer["role"], &answer["tool_call_id"]), (&json!("tool"), &json!("c9")));
        let content = answer["content"].as_str().unwrap();
        match expected {
            Ok(result) => assert_eq!(content, result, "{call}"),
            Err(code) => assert!(content.contains(code), "{call}: {content}"),
        }
    }
    house.end().await;
}

#[tokio::test]
async fn seed_003_8_an_unknown_tool_is_answered_with_the_names_that_there_are() {
    let call = tool_call("c1", "python", &json!("print(12 * 34)"));
    let right = tool_call("c2", "int_mult", &json!("{\"a\": 12, \"b\": 34}"));
    let server = Server::start([calling(&[call]), calling(&[right]), saying("408")]).await;
    let house = served(&server).await;
    assert_eq!(house.say(PRODUCT).await.output, "408");
    let messages = messages(&server, 1);
    let answer = messages.last().unwrap();
    assert_eq!(answer["tool_call_id"], "c1");
    let content = answer["content"].as_str().unwrap();
    for part in ["unknown_tool", "int_mult", "int_add", "random_joke", "translate"] {
        assert!(content.contains(part), "{part} in {content}");
    }
    house.end().await;
}

#[tokio::test]
async fn seed_003_9_steps_and_time_are_limited() {
    let call = || calling(&[tool_call("c", "int_add", &json!("{\"a\": 1, \"b\": 1}"))]);
    let server = Server::start([call(), call(), call()]).await;
    let house = served(&server).await;
    let reply = house.ask("assistant", json!({"input": "Count", "budget": {"steps": 2}})).await;
    assert_eq!((reply.status, server.seen().len()), (RunStatus::Partial, 2), "{reply:?}");
    assert_eq!(reply.error.unwrap().code, ErrorCode::StepLimit);
    house.end().await;

    // A server that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = served_at(&format!("http://{}", silent.local_addr().unwrap())).await;
    let reply = house.ask("assistant", json!({"input": "Count", "timeout_ms": 300})).await;
    assert_eq!(reply.status, RunStatus::Deadline, "{reply:?}");
    assert_eq!(reply.error.unwrap().code, ErrorCode::DeadlineExceeded);
    house.end().await;
}

#[tokio::test]
async fn seed_003_9_conversations_do_not_mix() {
    let server = Server::start(["One.", "Two.", "Three."].map(saying)).await;
    let house = served(&server).await;
    let first = house.say("first").await;
    house.say("second").await;
    let request = json!({"input": "third", "session": first.session});
    assert_eq!(house.ask("assistant", request).await.output, "Three.");
    let said = |index: usize| -> Vec<String> {
        let messages = messages(&server, index);
        let texts = messages[1..].iter().map(|message| message["content"].as_str().unwrap());
        texts.map(str::to_owned).collect()
    };
    assert_eq!(said(0), ["first"]);
    assert_eq!(said(1), ["second"]);
    assert_eq!(said(2), ["first", "One.", "third"]);
    house.end().await;
}

#[tokio::test]
async fn seed_003_the_shipped_team_plays_the_published_runs() {
    let house = House::shipped("tool-calls").await;
    let reply = house.say(PRODUCT).await;
    check(&reply, &[("int_mult", json!({"a": 12, "b": 34}), "ok", "408")]);
    assert!(reply.output.contains("408"), "{reply:?}");
    let reply = house.say("hi").await;
    assert_eq!(
        (reply.output.as_str(), reply.sources.len()),
        ("Hello! How can I assist you today?", 0)
    );
    house.end().await;
}
