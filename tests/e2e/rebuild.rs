//! A store that is deleted or damaged loses nothing: history, memory and results are back.

use std::path::Path;
use std::time::Duration;

use bus::testing::NatsServer;
use bytes::Bytes;
use serde_json::{Value, json};
use tests::daemon::Daemon;
use tests::job;
use wire::Headers;

use crate::setup::{connect, http_client, on_nats};

async fn ask(bus: &bus::Bus, body: &Value) -> Bytes {
    let subject = "callboard.v1.job.agent.foreman.run";
    let body = Bytes::from(body.to_string());
    bus.request(subject, Headers::new(), body, Duration::from_secs(20)).await.unwrap().payload
}

fn output(reply: &Bytes) -> String {
    let reply: Value = serde_json::from_slice(reply).unwrap();
    reply["output"].as_str().unwrap_or_default().to_owned()
}

/// What is done to the store while the daemon is down.
type Harm = fn(&Path);

fn delete(store: &Path) {
    std::fs::remove_dir_all(store).unwrap();
}

fn overwrite(store: &Path) {
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let length = usize::try_from(entry.metadata().unwrap().len()).unwrap();
                std::fs::write(entry.path(), vec![0xa5; length]).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn history_memory_and_results_come_back_from_the_journal() {
    let harms: [(&str, Harm); 2] = [("deleted", delete), ("overwritten", overwrite)];
    for (what, harm) in harms {
        let nats = NatsServer::start("").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let team = job::write(dir.path(), "http://127.0.0.1:9/charge", 0);
        let args = on_nats(&team, &data, &nats);
        let bus = connect(&nats).await;

        let mut daemon = Daemon::start(&args).await;
        let remember =
            json!({"input": "remember what the user likes", "run": "r1", "session": "s"});
        let first = ask(&bus, &remember).await;
        let _: Value = serde_json::from_slice(&first).unwrap();
        daemon.kill().await;
        harm(&data.join("job/store"));

        let mut daemon = Daemon::start(&args).await;
        assert_eq!(ask(&bus, &remember).await, first, "{what}: the result is another");
        let recall = json!({"input": "what do I like", "session": "t"});
        let recalled = output(&ask(&bus, &recall).await);
        assert_eq!(recalled, "you like herons", "{what}: the memory is gone");
        let client = http_client();
        let session = client.get(format!("{}/v1/teams/job/sessions/s", daemon.http));
        let session: Value =
            serde_json::from_str(&session.send().await.unwrap().text().await.unwrap()).unwrap();
        let exchange = session["exchanges"][0]["input"].as_str().unwrap_or_default().to_owned();
        assert_eq!(exchange, "remember what the user likes", "{what}: {session}");
        assert_eq!(daemon.terminate().await, Some(0));
    }
}
