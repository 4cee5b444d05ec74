//! The reasoning behind calls, between a model and the one that stands in for it.

use config::team::{Model, Provider};
use serde_json::{Value, json};
use wire::{Message, ModelReply, Name};

use crate::server::{Server, Step, answer, whole};
use crate::setup::{client_of, conversation, model, openai, turn, user};

fn named(name: &str, server: &Server) -> Model {
    let provider = Provider::OpenAi(openai(&server.base_url, false));
    Model { name: Name::new(name).unwrap(), retries_max: 0, ..model(provider) }
}

/// Makes a reply with a call and the reasoning behind it.
fn called(id: &str, reasoning: &str) -> Vec<Step> {
    let call = json!({"id": id, "function": {"name": "now", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": reasoning}}});
    let message = json!({"content": null, "reasoning_content": reasoning, "tool_calls": [call]});
    let body = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
    vec![Step::Send(whole(&body.to_string()))]
}

/// Returns the messages that go on with a reply.
fn going_on(reply: ModelReply) -> Vec<Message> {
    let ModelReply { content, calls, reasoning, .. } = reply;
    let result = |call_id: &str| Message::Tool {
        call_id: call_id.to_owned(),
        name: "now".to_owned(),
        content: "1".to_owned(),
    };
    let results: Vec<Message> = calls.iter().map(|call| result(&call.id)).collect();
    let said = Message::Assistant { content: content.to_string(), calls, reasoning };
    [vec![said], results].concat()
}

/// Returns the reasoning that a request carries, each with what its call has.
fn carried(request: &Value) -> Vec<(&Value, &Value)> {
    let messages = request["messages"].as_array().unwrap();
    let said = messages.iter().filter(|message| message["role"] == "assistant");
    said.map(|message| {
        let signature = &message["tool_calls"][0]["extra_content"]["google"]["thought_signature"];
        (&message["reasoning_content"], signature)
    })
    .collect()
}

#[tokio::test]
async fn it_goes_back_to_its_model_and_to_no_other() {
    let down = vec![Step::Send(answer(503, "", "down"))];
    let mut first = Server::start(vec![called("a", "first's"), down, called("c", "again")]).await;
    let mut second = Server::start(vec![called("b", "second's")]).await;
    let client = client_of(vec![named("first", &first), named("second", &second)]);
    let mut messages = vec![user("hi")];
    for served_by in [None, Some("second"), None] {
        let (reply, _) = turn(&client, &conversation(messages.clone())).await;
        let reply = reply.unwrap();
        assert_eq!(reply.served_by.as_ref().map(Name::as_str), served_by);
        messages.extend(going_on(reply));
    }
    let null = Value::Null;
    let own = Value::from("first's");
    let requests = first.requests();
    let [_, (_, failed), (_, last)] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(carried(failed), [(&own, &own)]);
    assert_eq!(carried(last), [(&own, &own), (&null, &null)]);
    let requests = second.requests();
    let [(_, stood_in)] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(carried(stood_in), [(&null, &null)]);
}

#[tokio::test]
async fn a_model_without_it_neither_leaves_any_nor_is_sent_what_it_left_before() {
    let mut server = Server::start(vec![called("a", "kept"), called("b", "x"), vec![]]).await;
    let keeps = named("first", &server);
    let drops = Model { reasoning: false, ..keeps.clone() };
    let mut messages = vec![user("hi")];
    for (model, is_left) in [(keeps, true), (drops, false)] {
        let (reply, _) = turn(&client_of(vec![model]), &conversation(messages.clone())).await;
        let reply = reply.unwrap();
        assert_eq!(reply.reasoning.is_some(), is_left);
        messages.extend(going_on(reply));
    }
    let requests = server.requests();
    let [_, (_, second)] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(carried(second), [(&Value::Null, &Value::Null)]);
}
