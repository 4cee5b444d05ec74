//! A node that runs one team in this process.

use std::path::Path;
use std::time::Duration;

use bus::Bus;
use journal::Holder;
use node::{Node, NodeOptions};
use serde_json::Value;
use tempfile::TempDir;
use wire::{Headers, Name, RunReply, Subjects, Timestamp};

/// The longest wait for a reply, on a busy machine.
const REPLY_MAX: Duration = Duration::from_secs(60);

pub(crate) struct House {
    folder: TempDir,
    bus: Bus,
    node: Node,
}

impl House {
    /// Starts a team whose file is called `team.toml`, in a folder that is there.
    pub(crate) async fn start(folder: TempDir, text: &str) -> Self {
        let file = folder.path().join("team.toml");
        std::fs::write(&file, text).unwrap();
        let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
        let holder = Holder::this_process("test", Timestamp::from_micros(0));
        let data = folder.path().join("data");
        let options = NodeOptions { data, holder, subjects: Subjects::default(), reserve_bytes: 0 };
        let bus = Bus::local();
        let node = Node::start(vec![team], bus.clone(), options).await.unwrap();
        Self { folder, bus, node }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Asks an agent and waits for its reply.
    pub(crate) async fn ask(&self, agent: &str, request: &Value) -> RunReply {
        let team = self.node.team("team").unwrap();
        let subject = team.subjects().agent_run(&team.team().name, &Name::new(agent).unwrap());
        let body = request.to_string().into();
        let answer = self.bus.request(&subject, Headers::new(), body, REPLY_MAX).await.unwrap();
        serde_json::from_slice(&answer.payload)
            .unwrap_or_else(|error| panic!("{error}: {:?}", answer.payload))
    }
}
