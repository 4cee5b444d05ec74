//! A team that is opened for a test, without its actors.

use std::path::Path;
use std::sync::Arc;

use bus::Bus;
use journal::Holder;
use wire::Subjects;

use crate::clock;
use crate::context::{Shared, TeamContext};
use crate::node::NodeOptions;
use crate::opening::open_team;

/// Opens the data of the quickstart team, on a bus of its own.
pub(crate) fn open(data: &Path) -> Arc<TeamContext> {
    open_on(data, Bus::local())
}

/// Opens the data of the quickstart team, as one of several nodes on a bus.
pub(crate) fn open_on(data: &Path, bus: Bus) -> Arc<TeamContext> {
    let teams = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/teams");
    let team = config::load(&teams.join("quickstart.toml")).unwrap();
    let holder = Holder {
        pid: std::process::id(),
        program: "test".to_owned(),
        listen: None,
        nats: None,
        since: clock::now(),
    };
    let options = NodeOptions {
        data: data.to_owned(),
        holder,
        subjects: Subjects::default(),
        reserve_bytes: 0,
    };
    let shared = Shared::start(bus.clone());
    let http = tools::client::http_client().unwrap();
    open_team(team, bus, options, shared, &http).unwrap().context
}
