//! What a node tells of itself while a team of it has no store that can be read.

use bus::Bus;
use node::{gather_stats, gather_trace};
use serde_json::json;
use wire::{Headers, Name, Subjects};

use crate::house;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_team_without_a_store_is_left_out_of_what_its_node_tells() {
    let dir = tempfile::tempdir().unwrap();
    let script = json!({"when": ".", "content": "noted"}).to_string();
    std::fs::write(dir.path().join("script.jsonl"), script).unwrap();
    let team = "[models.m]\nprovider = 'scripted'\nscript = 'script.jsonl'\n\
                [agents.a]\ninstructions = 'Note it.'\nmodel = 'm'\n";
    let files = ["one", "two"].map(|name| dir.path().join(format!("{name}.toml")));
    for file in &files {
        std::fs::write(file, team).unwrap();
    }
    let node =
        house::start_teams(&Bus::local(), &[&files[0], &files[1]], &dir.path().join("data")).await;
    let (bus, subjects) = (node.bus(), Subjects::default());
    let name = |text: &str| Name::new(text).unwrap();
    let subject = subjects.agent_run(&name("two"), &name("a"));
    let body = json!({"input": "x", "run": "r-1"}).to_string();
    house::ask(&node, &subject, Headers::new(), body.into()).await;

    node.team("one").unwrap().store().close().unwrap();
    let found = gather_trace(bus, &subjects, &name("r-1")).await.unwrap();
    assert_eq!((found.spans.len(), found.silent.len()), (2, 0));
    let unknown = gather_trace(bus, &subjects, &name("r-2")).await.unwrap_err();
    assert!(unknown.message.contains("closed"), "who cannot be asked may know it: {unknown}");
    let (nodes, silent) = gather_stats(bus, &subjects).await.unwrap();
    let teams: Vec<&str> = nodes[0].teams.iter().map(|team| team.team.as_str()).collect();
    assert_eq!((teams, silent.len()), (vec!["two"], 0));
}
