//! The main job over a real NATS server, asked by a client that is not ours.

use bus::testing::NatsServer;
use serde_json::json;
use tests::client;
use tests::daemon::Daemon;

use crate::setup::{QUESTION, on_nats, shipped};

#[tokio::test]
async fn a_foreign_client_gets_the_answer_and_sees_every_request_as_a_message() {
    asked_by_a_foreign_client(&[], true).await;
}

#[tokio::test]
async fn hops_inside_the_process_pass_the_server_unseen_if_they_may() {
    asked_by_a_foreign_client(&["--nats-near"], false).await;
}

async fn asked_by_a_foreign_client(more: &[&str], are_hops_seen: bool) {
    let nats = NatsServer::start("").await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let mut args = on_nats(&shipped("quickstart.toml"), data.path(), &nats);
    args.extend(more.iter().map(Into::into));
    let mut daemon = Daemon::start(&args).await;

    let request = json!({
        "subject": "callboard.v1.quickstart.agent.lead.run",
        "body": {"input": QUESTION},
    });
    let watch = json!({"verb": "watch", "pattern": "callboard.v1.>", "request": request});
    let seen = client::nats(&nats.url(), &watch).await;
    let reply = &seen["reply"]["body"];
    assert_eq!(reply["status"], "completed", "{reply}");
    assert!(reply["output"].as_str().unwrap().contains("2.16524"), "{reply}");
    let subjects: Vec<&str> =
        seen["subjects"].as_array().unwrap().iter().map(|s| s.as_str().unwrap()).collect();
    assert!(subjects.contains(&"callboard.v1.quickstart.agent.lead.run"), "{subjects:?}");
    for hop in [
        "callboard.v1.quickstart.agent.researcher.run",
        "callboard.v1.quickstart.agent.mathematician.run",
        "callboard.v1.quickstart.model.thinker",
        "callboard.v1.quickstart.model.actor",
        "callboard.v1.quickstart.tool.search_internet",
        "callboard.v1.quickstart.tool.calculate",
    ] {
        assert_eq!(subjects.contains(&hop), are_hops_seen, "{hop}: {subjects:?}");
    }
    assert!(subjects.iter().any(|subject| subject.ends_with(".events")), "{subjects:?}");

    assert_eq!(daemon.terminate().await, Some(0));
}

#[tokio::test]
async fn services_list_agents_and_tools_with_their_schemas() {
    let nats = NatsServer::start("").await.unwrap();
    let data = tempfile::tempdir().unwrap();
    let args = on_nats(&shipped("quickstart.toml"), data.path(), &nats);
    let _daemon = Daemon::start(&args).await;

    let gather = |subject: &str| json!({"verb": "gather", "subject": subject, "timeout": 1});
    let info = client::nats(&nats.url(), &gather("$SRV.INFO")).await;
    let service = &info[0];
    assert_eq!(service["type"], "io.nats.micro.v1.info_response");
    assert_eq!(service["name"], "callboard-quickstart");
    let endpoints = service["endpoints"].as_array().unwrap();
    let schema = |name: &str| {
        let endpoint = endpoints.iter().find(|endpoint| endpoint["name"] == name);
        let endpoint = endpoint.unwrap_or_else(|| panic!("no {name} in {endpoints:?}"));
        let text = endpoint["metadata"]["schema"].as_str().unwrap();
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    };
    assert_eq!(schema("tool-calculate")["required"], json!(["expression"]));
    assert_eq!(schema("agent-lead")["required"], json!(["input"]));
    for (subject, kind) in
        [("$SRV.PING", "ping_response"), ("$SRV.STATS.callboard-quickstart", "stats_response")]
    {
        let answers = client::nats(&nats.url(), &gather(subject)).await;
        assert_eq!(answers[0]["type"], format!("io.nats.micro.v1.{kind}"));
    }
}
