//! Tools behind subjects: asked on the bus inside the process and on a nats-server alike.

use bus::testing::NatsServer;
use bus::{Bus, Message, NatsOptions};
use serde_json::{Value, json};
use wire::{CallKey, Headers, header};

use crate::house::{House, next};
use crate::server::{Server, chat, tool_call};

fn team(url: &str) -> String {
    format!(
        "[models.chat]\nprovider = 'openai'\nbase_url = '{url}/v1'\nmodel = 'm'\nstream = false\n\
         [permissions]\nallow = ['*']\n\
         [agents.clerk]\ninstructions = 'Look orders up.'\nmodel = 'chat'\n\
         tools = ['order', 'away']\n\
         [tools.order]\nkind = 'nats'\ndescription = 'Shows an order.'\n\
         subject = 'orders.{{id}}.show'\nheaders = {{ X-Desk = 'clerk' }}\n\
         parameters = {{ id = 'integer', full = 'boolean?' }}\n\
         [tools.away]\nkind = 'nats'\ndescription = 'Is not there.'\nsubject = 'orders.away'\n\
         timeout_ms = 1000\n"
    )
}

fn asks(calls: &[Value]) -> Value {
    chat(&json!({"role": "assistant", "content": null, "tool_calls": calls}))
}

fn says(text: &str) -> Value {
    chat(&json!({"role": "assistant", "content": text}))
}

async fn answer(bus: &Bus, request: &Message, headers: Headers, body: &str) {
    bus.reply(request, headers, body.to_owned().into()).await.unwrap();
}

async fn a_team_asks_on_subjects(bus: Bus) {
    let order = |id: &str, arguments: Value| tool_call(id, "order", &json!(arguments.to_string()));
    let calls = [
        order("c1", json!({"id": 7, "full": true})),
        order("c2", json!({"id": 8})),
        tool_call("c3", "away", &json!("{}")),
    ];
    let server = Server::start([asks(&calls), says("Done.")]).await;
    let mut orders = bus.subscribe("orders.*.show", Some("desk")).await.unwrap();
    bus.flush().await.unwrap();
    let house = House::on(bus.clone(), "clerks", &team(&server.url)).await;
    let desk = async {
        for _ in 0..2 {
            let request = next(&mut orders).await;
            let key = request.headers.get(header::IDEMPOTENCY_KEY).unwrap();
            assert!(CallKey::new(&key).is_ok(), "{key}");
            assert_eq!(request.headers.get(header::MESSAGE_ID), Some(key.clone()));
            assert_eq!(request.headers.get("X-Desk").as_deref(), Some("clerk"));
            assert!(request.headers.read::<u64>(header::REMAINING_MS).unwrap() <= 30_000);
            assert!(request.headers.get(header::TRACEPARENT).unwrap().starts_with("00-"));
            if request.subject == "orders.7.show" {
                assert_eq!(request.payload, "{\"full\":true}");
                answer(&bus, &request, Headers::new(), "{\"total\": 12.5}").await;
            } else {
                assert_eq!(
                    (request.subject.as_str(), &*request.payload),
                    ("orders.8.show", &b"{}"[..])
                );
                let error = Headers::new()
                    .with(header::SERVICE_ERROR, "no such order")
                    .with(header::SERVICE_ERROR_CODE, "404");
                answer(&bus, &request, error, "").await;
            }
        }
    };
    let (reply, ()) = tokio::join!(house.say("What do orders 7 and 8 cost?"), desk);
    let told: Vec<(&str, &str)> =
        reply.sources.iter().map(|source| (source.status.as_str(), &*source.output)).collect();
    let [seven, eight, away] = told[..] else { panic!("{told:?}") };
    assert_eq!(seven, ("ok", "{\"total\":12.5}"));
    assert!(eight.0 == "error" && eight.1.contains("error 404: no such order"), "{eight:?}");
    assert!(away.0 == "error" && away.1.contains("nobody listens there"), "{away:?}");
    house.end().await;
}

#[tokio::test]
async fn a_team_asks_on_subjects_of_the_bus_in_the_process() {
    a_team_asks_on_subjects(Bus::local()).await;
}

#[tokio::test]
async fn a_team_asks_on_subjects_of_a_nats_server() {
    let nats = NatsServer::start("").await.unwrap();
    let bus = Bus::connect(NatsOptions::new([nats.url()])).await.unwrap();
    a_team_asks_on_subjects(bus).await;
}
