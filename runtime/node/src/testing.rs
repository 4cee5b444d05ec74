//! A team that is opened for a test, without its actors.

use std::path::Path;
use std::sync::Arc;

use bus::Bus;
use journal::Holder;
use wire::Subjects;

use crate::clock;
use crate::context::TeamContext;
use crate::node::{NodeOptions, open_team};

/// Opens the data of the quickstart team.
pub(crate) fn open(data: &Path) -> Arc<TeamContext> {
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
    Arc::new(open_team(team, Bus::local(), options).unwrap().context)
}
