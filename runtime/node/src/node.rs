//! One daemon process: opens the data of its teams, starts their actors, drains them at the end.

mod drain;
mod opened;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bus::Bus;
use journal::Holder;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde::{Deserialize, Serialize};
use telemetry::Metrics;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use wire::look::NodeStats;
use wire::{Name, Subjects, WireError};

pub use opened::OpenedNode;

use crate::context::Shared;
use crate::error::Error;
use crate::feed::Feed;
use crate::look::Look;
use crate::owner::{Owners, claim_of};
use crate::team::{TeamArgs, TeamMsg, TeamSupervisor};
use crate::team_handle::TeamHandle;

/// What a team sets aside on its disk: the steps of some hundred runs in work.
pub const RESERVE_BYTES_DEFAULT: u64 = 32 << 20;

/// How a node is started.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The directory below which each team has its own.
    pub data: PathBuf,
    /// Names the process to those who find its data directory in use.
    pub holder: Holder,
    /// The subjects.
    pub subjects: Subjects,
    /// Bytes that each team sets aside on its disk, so that runs in work can end when it is full;
    /// [`RESERVE_BYTES_DEFAULT`] unless somebody knows better.
    pub reserve_bytes: u64,
}

/// Why a node takes no runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unready {
    /// A team cannot go on, and the node ends.
    Failed,
    /// Another node serves a team, and the node ends.
    Superseded,
    /// The node is on its way to its end.
    Draining,
    /// The bus is not connected.
    BusGone,
    /// The disk is full.
    DiskFull,
}

/// A running node.
pub struct Node {
    teams: BTreeMap<Name, TeamHandle>,
    bus: Bus,
    supervisor: ActorRef<NodeMsg>,
    fault: watch::Receiver<Option<String>>,
    draining: AtomicBool,
    /// What looks after the data.
    tasks: Vec<AbortHandle>,
    shared: Arc<Shared>,
    /// What is measured apart from the teams; there once they are.
    metrics: Option<Arc<Metrics>>,
    subjects: Subjects,
    /// Answers those who ask all nodes.
    looks: Mutex<Vec<Feed>>,
    /// Keeps others from serving the teams.
    owners: Owners,
}

impl Node {
    /// Opens the data of all teams and starts them.
    pub async fn start(
        teams: Vec<config::Team>,
        bus: Bus,
        options: NodeOptions,
    ) -> Result<Self, Error> {
        Self::open(teams, bus, options).await?.start().await
    }

    /// Opens the data of all teams, which nobody else can then, and has none of them at work.
    pub async fn open(
        teams: Vec<config::Team>,
        bus: Bus,
        options: NodeOptions,
    ) -> Result<OpenedNode, Error> {
        let (fault_tx, fault) = watch::channel(None);
        let (supervisor, _) = Actor::spawn(None, NodeSupervisor, fault_tx.clone()).await?;
        let shared = Shared::start(bus.clone());
        // Before anything is opened, so that a node that is refused leaves nothing behind.
        let owners = own(&teams, &bus, &options, &shared).await?;
        let node = Self {
            teams: BTreeMap::new(),
            bus,
            supervisor,
            fault,
            draining: AtomicBool::new(false),
            tasks: Vec::new(),
            shared,
            metrics: None,
            subjects: options.subjects.clone(),
            looks: Mutex::default(),
            owners,
        };
        OpenedNode::open(node, teams, &options, fault_tx).await
    }

    /// Starts the actors of a team; the node ends with them.
    async fn spawn(&self, args: TeamArgs) -> Result<ActorRef<TeamMsg>, Error> {
        let supervisor = self.supervisor.get_cell();
        Ok(TeamSupervisor::spawn_linked(None, TeamSupervisor, args, supervisor).await?.0)
    }

    fn look(&self) -> Look {
        Look {
            bus: self.bus.clone(),
            subjects: self.subjects.clone(),
            shared: self.shared.clone(),
            teams: self.teams.values().cloned().collect(),
        }
    }

    /// Returns how the node fares; a team whose store cannot be read is left out.
    pub async fn stats(&self) -> NodeStats {
        self.look().stats().await
    }

    /// Returns the subjects.
    pub fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    /// Returns a team.
    pub fn team(&self, name: &str) -> Option<&TeamHandle> {
        self.teams.get(name)
    }

    /// Iterates over the teams.
    pub fn teams(&self) -> impl Iterator<Item = &TeamHandle> {
        self.teams.values()
    }

    /// Writes what is measured of the node and all its teams, in the text format of Prometheus.
    /// Blocks for a moment.
    pub fn metrics(&self) -> Result<String, Error> {
        let teams = self.teams.values().map(|team| &*team.context.metrics);
        Ok(telemetry::metrics::text(teams.chain(self.metrics.as_deref()))?)
    }

    /// Returns the bus.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Tells whether runs are taken.
    pub fn is_ready(&self) -> bool {
        self.unready().is_none()
    }

    /// Says why no runs are taken, if none are.
    pub fn unready(&self) -> Option<Unready> {
        if self.fault.borrow().is_some() {
            Some(Unready::Failed)
        } else if self.owners.check().is_err() {
            Some(Unready::Superseded)
        } else if self.is_draining() {
            Some(Unready::Draining)
        } else if !self.bus.is_connected() {
            Some(Unready::BusGone)
        } else if self.teams.values().any(|team| team.journal().is_full()) {
            // The data of all teams are below one directory; one that has nothing to write does not
            // notice that the disk is full.
            Some(Unready::DiskFull)
        } else {
            None
        }
    }

    /// Tells whether the node is on its way to its end.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Waits until the node cannot go on, and says why.
    pub async fn failed(&self) -> String {
        let mut fault = self.fault.clone();
        match fault.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the node's supervisor ended".to_owned(),
        }
    }

    /// Waits until another node is found to serve a team of this one since before, and says which.
    /// This node is to be drained then.
    pub async fn superseded(&self) -> WireError {
        self.owners.lost().await
    }

    /// Counts the events that were dropped because the bus did not take them.
    pub fn events_lost(&self) -> u64 {
        self.shared.herald.lost()
    }
}

/// Claims the teams of a node. On the bus inside the process the lock on the data directory is all
/// that is needed.
async fn own(
    teams: &[config::Team],
    bus: &Bus,
    options: &NodeOptions,
    shared: &Shared,
) -> Result<Owners, Error> {
    let NodeOptions { data, holder, subjects, .. } = options;
    let claims = teams.iter().filter(|_| bus.is_shared()).map(|team| {
        (team.name.clone(), claim_of(&shared.node, shared.since, holder.pid, data, &team.name))
    });
    Owners::claim(bus, subjects, claims.collect()).await
}

struct NodeSupervisor;

enum NodeMsg {}

impl Actor for NodeSupervisor {
    type Msg = NodeMsg;
    type State = watch::Sender<Option<String>>;
    type Arguments = watch::Sender<Option<String>>;

    async fn pre_start(
        &self,
        _: ActorRef<NodeMsg>,
        fault: watch::Sender<Option<String>>,
    ) -> Result<watch::Sender<Option<String>>, ActorProcessingErr> {
        Ok(fault)
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<NodeMsg>,
        event: SupervisionEvent,
        state: &mut watch::Sender<Option<String>>,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(_, fault) => {
                state.send_replace(Some(format!("a team cannot go on: {fault}")));
            }
            SupervisionEvent::ActorTerminated(..)
            | SupervisionEvent::ActorStarted(_)
            | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}
