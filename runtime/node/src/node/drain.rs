//! Ends a node: lets runs end, then everybody who waits go, and closes the data.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use telemetry::Metrics;
use tokio::task::{AbortHandle, JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, timeout};
use tools::mcp::Servers;
use tracing::{info, warn};

use super::Node;
use crate::context::TeamContext;
use crate::team::TeamMsg;
use crate::team_handle::TeamHandle;

/// How often a drain looks whether the last run has ended.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// In how many looks one after the other nothing must be in work: what goes from the session of one
/// agent to that of another, by the bus, is counted at neither for a moment.
const QUIET_LOOKS: u32 = 3;

/// How long the last answers and events may take to leave at the end of a drain; a bus that takes
/// longer is out of reach.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// How long calls that were told to stop may put things in order at the end of a drain: longer than
/// any program needs to end, and well below what a service manager gives a daemon to stop.
const TIDY_MAX: Duration = Duration::from_secs(4);

/// How long the actors have to stop at the end of a drain.
const STOP_MAX: Duration = Duration::from_secs(1);

/// How long the last spans and measures may take to leave at the end of a drain, all together; the
/// store has the spans as well.
const EXPORT_MAX: Duration = Duration::from_secs(1);

impl Node {
    /// Takes no new runs, gives those in work some time to end, and closes the data.
    ///
    /// A run that does not end in that time is not lost: it is taken up at the next start.
    pub async fn drain(&self, grace: Duration) {
        self.draining.store(true, Ordering::Relaxed);
        self.owners.leave();
        let end = Instant::now() + grace;
        for team in self.teams.values() {
            team.context.draining.store(true, Ordering::Relaxed);
        }
        let (mut left, mut quiet) = (self.busy().await, 1);
        while (left > 0 || quiet < QUIET_LOOKS) && Instant::now() < end {
            sleep(DRAIN_INTERVAL).await;
            left = self.busy().await;
            quiet = if left > 0 { 0 } else { quiet + 1 };
        }
        if left > 0 {
            info!(sessions = left, "what is in work goes on at the next start");
        }
        for team in self.teams.values() {
            drop(team.actor.cast(TeamMsg::Close));
        }
        self.supervisor.stop_children_and_wait(None, Some(STOP_MAX)).await;
        self.supervisor.stop(None);
        self.tasks.iter().for_each(AbortHandle::abort);
        self.leave().await;
        let servers = self.teams.values().filter_map(|team| team.context.servers.get());
        tokio::join!(self.tidy(), join_all(servers.map(Servers::close)));
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // What broke the node may be a run of it.
        let is_in_order = self.fault.borrow().is_none();
        for TeamHandle { context, lock, .. } in self.teams.values() {
            context.projector.sync().await;
            if is_in_order {
                note(context.clone()).await;
            }
            close(context).await;
            drop(lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        self.owners.release().await;
        let contexts = self.teams.values().map(|team| &*team.context);
        end_exports(contexts, self.metrics.clone()).await;
    }

    /// Lets those go who still wait, and what is on its way to them.
    async fn leave(&self) {
        // All of them before any is waited for: one that does not let go keeps nobody else's.
        for TeamHandle { context, .. } in self.teams.values() {
            context.work.stop_all();
            context.requests.close();
        }
        let left = async {
            join_all(self.teams.values().map(|team| team.context.requests.wait())).await;
            self.bus.flush().await
        };
        match timeout(LEAVE_MAX, left).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "bus not flushed"),
            Err(_) => warn!("the last answers were not sent in time"),
        }
        self.shared.herald.flush(LEAVE_MAX).await;
    }

    /// Waits until calls that were stopped have put things in order, so that no program of theirs
    /// outlives the process.
    async fn tidy(&self) {
        let tidied = self.teams.values().map(|TeamHandle { context, .. }| {
            context.stopping.close();
            context.stopping.wait()
        });
        if timeout(TIDY_MAX, join_all(tidied)).await.is_err() {
            warn!("a call that was stopped did not end in time");
        }
    }

    /// Counts the sessions that have work to do by themselves, and the replies on their way. What
    /// waits for a person does not count: it waits as well at the next start.
    async fn busy(&self) -> usize {
        let busy = self.teams.values().map(async |team| {
            let sessions = team.sessions_busy().await;
            sessions + team.context.replies.len()
        });
        join_all(busy).await.into_iter().sum()
    }
}

/// Notes for the next start which sessions of a team are let go of in order.
async fn note(context: Arc<TeamContext>) {
    let noted = spawn_blocking(move || {
        let TeamContext { store, journal, drained, .. } = &*context;
        if let Err(error) = drained.write(store, journal) {
            warn!(%error, "runs in work will be taken up as after a crash");
        }
    });
    noted.await.unwrap_or_default();
}

/// Ends journal and store of a team.
pub(super) async fn close(context: &TeamContext) {
    context.projector.sync().await;
    let (journal, store) = (context.journal.clone(), context.store.clone());
    let closed = spawn_blocking(move || {
        journal.close();
        if let Err(error) = store.close() {
            warn!(%error, "the store was not closed in order; it is mended at the next start");
        }
    });
    closed.await.unwrap_or_default();
}

/// Exports what is left, from all at the same time, once nothing of worth depends on it.
pub(super) async fn end_exports<'t>(
    contexts: impl Iterator<Item = &'t TeamContext> + Clone,
    of_node: Option<Arc<Metrics>>,
) {
    let spans = contexts.clone().filter_map(|context| context.exporter.clone()).map(|exporter| {
        spawn_blocking(move || {
            if let Err(error) = exporter.shutdown(EXPORT_MAX) {
                warn!(%error, "the last spans were not exported");
            }
        })
    });
    let measures = contexts.map(|context| context.metrics.clone()).chain(of_node).map(|metrics| {
        spawn_blocking(move || {
            if let Err(error) = metrics.shutdown(EXPORT_MAX) {
                warn!(%error, "what was measured last was not exported");
            }
        })
    });
    // Begun by the collecting, before any is waited for.
    let all: Vec<JoinHandle<()>> = spans.chain(measures).collect();
    join_all(all).await;
}

#[cfg(test)]
mod tests;
