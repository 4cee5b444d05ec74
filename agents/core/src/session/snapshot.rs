//! What a session at rest goes on with when its past is dropped.

use std::collections::HashMap;

use wire::Timestamp;
use wire::snapshot::{KeptExchange, KeptRun, Snapshot};

use super::{Activity, Known, SessionMachine};
use crate::dialect::Exchange;
use crate::effect::{Effect, Effects, Rejected};

impl SessionMachine {
    /// Returns what is to be kept of the session if runs that ended at some time or before are
    /// forgotten. Nothing unless it is at rest and has had a run.
    ///
    /// Given to the machine as an input it changes nothing but that these runs, and all replies
    /// that are held in memory, are gone.
    pub fn snapshot(&self, cutoff: Timestamp) -> Option<Snapshot> {
        let Activity { agent, is_called, begun, seen } = self.activity.clone()?;
        if !self.is_idle() {
            return None;
        }
        let mut runs: Vec<KeptRun> = self
            .known
            .iter()
            .filter_map(|(run, known)| {
                let (status, ended) = known.end.filter(|(_, ended)| *ended > cutoff)?;
                let Known { agent, body, trace, joined, .. } = (**known).clone();
                Some(KeptRun { run: run.clone(), agent, body, trace, status, ended, joined })
            })
            .collect();
        runs.sort_unstable_by(|a, b| (a.ended, &a.run).cmp(&(b.ended, &b.run)));
        let kept = |exchange: &Exchange| {
            let Exchange { user, answer, tainted } = exchange.clone();
            KeptExchange { user, answer, tainted }
        };
        let exchanges = self.exchanges.iter().map(kept).collect();
        let unresolved = self.unresolved.iter().cloned().collect();
        Some(Snapshot {
            cutoff,
            agent,
            is_called,
            begun,
            seen,
            exchanges,
            exchanges_total: self.exchanges_total,
            runs,
            unresolved,
        })
    }

    /// Counts the runs that are known, those that ended included.
    pub fn runs_known(&self) -> usize {
        self.known.len()
    }

    /// Tells whether a snapshot is what the machine makes now. One that kept more of what was said
    /// was made when a session was allowed to, and one that does not count it when none was counted.
    fn is_own(&self, snapshot: &Snapshot) -> bool {
        self.snapshot(snapshot.cutoff).is_some_and(|own| {
            let kept = own.exchanges;
            let is_counted = snapshot.exchanges_total > 0;
            let exchanges_total = if is_counted { own.exchanges_total } else { 0 };
            let own = Snapshot { exchanges: snapshot.exchanges.clone(), exchanges_total, ..own };
            let has_newest = snapshot.exchanges.ends_with(&kept);
            has_newest && kept.is_empty() == snapshot.exchanges.is_empty() && own == *snapshot
        })
    }

    /// Takes a snapshot: its own, or the one that its journal begins with.
    pub(super) fn on_snapshot(
        &mut self,
        snapshot: Snapshot,
        effects: &mut Effects,
    ) -> Result<(), Rejected> {
        if self.activity.is_some() && !self.is_own(&snapshot) {
            return Err(Rejected::OutOfPlace);
        }
        let begins = self.activity.is_none();
        let Snapshot {
            cutoff: _,
            agent,
            is_called,
            begun,
            seen,
            exchanges,
            exchanges_total,
            runs,
            unresolved,
        } = snapshot;
        self.activity = Some(Activity { agent, is_called, begun, seen });
        self.exchanges.clear();
        self.exchanges_total = exchanges_total.saturating_sub(exchanges.len() as u64);
        let kept = |KeptExchange { user, answer, tainted }| Exchange { user, answer, tainted };
        self.remember(exchanges.into_iter().map(kept).collect());
        self.ended.clear();
        self.known = runs
            .into_iter()
            .map(|KeptRun { run, agent, body, trace, status, ended, joined }| {
                let end = Some((status, ended));
                (run, Box::new(Known { body, agent, trace, end, reply: None, joined }))
            })
            .collect::<HashMap<_, _>>();
        if begins {
            // Who reads from here has not been told of them.
            for open in &unresolved {
                effects.push(Effect::Opened(Box::new(open.clone())));
            }
        }
        self.unresolved = unresolved.into();
        Ok(())
    }
}
