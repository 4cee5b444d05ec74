//! A team whose tools stand on a server: from the team file to the answer of a run.

use std::time::Duration;

use bus::Bus;
use journal::Holder;
use node::{Node, NodeOptions};
use serde_json::{Value, json};
use tests::postgres::{Postgres, USER};
use wire::{Headers, RunReply, RunStatus, Subjects, Timestamp};

use crate::house::{House, LONG, reading, spec_of, writing};

const REPLIES: &str = r#"{"content": "{\"tool\": \"films\", \"arguments\": {\"before\": 1980}}"}
{"content": "{\"tool\": \"note\", \"arguments\": {\"said\": \"'; drop table film; --\"}}"}
{"content": "{\"tool\": \"respond_to_user\", \"arguments\": {\"answer\": \"Jaws\"}}"}
"#;

fn team(port: u16, password: &str) -> String {
    format!(
        r#"
[team]
name = "films"
[models.m]
provider = "scripted"
script = "replies.jsonl"
dialect = "schema"
[agents.a]
instructions = "You know films."
model = "m"
tools = ["films", "note"]
[databases.d]
kind = "postgres"
port = {port}
database = "postgres"
user = "{USER}"
password = {{ file = "{password}" }}
[tools.films]
kind = "query"
description = "Lists films."
database = "d"
statement = "select title from film where year < :before order by year"
parameters = {{ before = "integer" }}
result = "{{% for row in rows %}}{{{{ row.title }}}} {{% endfor %}}"
[tools.note]
kind = "query"
description = "Notes something."
database = "d"
effect = "idempotent"
statement = "insert into note values (:call_key, :said) on conflict do nothing"
parameters = {{ said = "string" }}
"#
    )
}

#[tokio::test]
async fn a_team_works_on_postgres() {
    let server = Postgres::start(&[]).await;
    let house = House::at(spec_of(&server));
    let make = [
        "create table film (title text, year integer)",
        "insert into film values ('Alien', 1979), ('Jaws', 1975), ('Heat', 1995)",
        "create table note (key text primary key, said text)",
    ];
    house.output(&writing(&make), json!({})).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("films.toml");
    std::fs::write(folder.path().join("replies.jsonl"), REPLIES).unwrap();
    std::fs::write(&file, team(server.port, &server.password_file().display().to_string()))
        .unwrap();
    let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let bus = Bus::local();
    let holder = Holder::this_process("test", Timestamp::from_micros(0));
    let data = folder.path().join("data");
    let options = NodeOptions { data, holder, subjects: Subjects::default(), reserve_bytes: 0 };
    let node = Node::start(vec![team], bus.clone(), options).await.unwrap();
    let subject = "callboard.v1.films.agent.a.run";
    let body = json!({"input": "What is old?"}).to_string().into();
    let answer = bus.request(subject, Headers::new(), body, LONG).await.unwrap();
    let reply: RunReply = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(reply.status, RunStatus::Completed, "{reply:?}");
    assert_eq!(reply.output, "Jaws");
    let outputs: Vec<Value> = reply.sources.iter().map(|call| json!(call.output.clone())).collect();
    assert_eq!(outputs, [json!("Jaws Alien"), json!("{\"changed\":1}")]);
    node.drain(Duration::from_secs(5)).await;
    let noted = house.output(&reading(&["select said from note"]), json!({})).await;
    assert_eq!(noted, json!([{"said": "'; drop table film; --"}]));
}
