//! Waits for room on a full disk, and lets the team go on when there is.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::warn;

use crate::context::TeamContext;

/// How often a full disk is asked for room: often enough that nobody notices the wait.
const ROOM_INTERVAL: Duration = Duration::from_millis(250);

/// Looks after the disk of a team for as long as the node runs.
///
/// While it is full the journal says so, and whoever begins something new asks it.
pub(crate) async fn watch(context: Arc<TeamContext>) {
    let mut fullness = context.journal.fullness();
    while fullness.wait_for(|full| *full).await.is_ok() {
        loop {
            sleep(ROOM_INTERVAL).await;
            let journal = context.journal.clone();
            match spawn_blocking(move || journal.regain()).await {
                Ok(Ok(true)) => break,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => warn!(%error, "cannot tell whether there is room on the disk"),
                Err(_) => return,
            }
        }
        context.projector.catch_up().await;
    }
}
