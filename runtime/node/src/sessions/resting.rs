//! Sessions that have no work and no actor, whose machines stay so that the next message need not
//! have them folded again.

use std::collections::{BTreeMap, HashMap};

use agents_core::session::SessionMachine;
use tokio::time::{Duration, Instant};
use wire::SessionId;

/// The machines, in the order in which they came.
#[derive(Default)]
pub(super) struct Resting {
    machines: HashMap<SessionId, (u64, Box<SessionMachine>)>,
    order: BTreeMap<u64, (SessionId, Instant)>,
    next: u64,
}

impl Resting {
    pub(super) fn len(&self) -> usize {
        self.machines.len()
    }

    pub(super) fn put(&mut self, session: SessionId, machine: Box<SessionMachine>) {
        self.take(&session);
        self.order.insert(self.next, (session.clone(), Instant::now()));
        self.machines.insert(session, (self.next, machine));
        self.next += 1;
    }

    pub(super) fn take(&mut self, session: &SessionId) -> Option<Box<SessionMachine>> {
        let (at, machine) = self.machines.remove(session)?;
        self.order.remove(&at);
        Some(machine)
    }

    /// Drops the one that came first. Tells whether there was one.
    pub(super) fn drop_first(&mut self) -> bool {
        let Some((_, (session, _))) = self.order.pop_first() else { return false };
        self.machines.remove(&session);
        true
    }

    /// Drops those that came so long ago, and returns when the next one will have.
    pub(super) fn expire(&mut self, after: Duration) -> Option<Instant> {
        loop {
            let (_, (_, since)) = self.order.first_key_value()?;
            let until = *since + after;
            if until > Instant::now() {
                return Some(until);
            }
            self.drop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use wire::Name;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn machines_go_in_the_order_in_which_they_came() {
        const SECOND: Duration = Duration::from_secs(1);
        let id = |text: &str| SessionId::new(text).unwrap();
        let machine = |text: &str| {
            Box::new(SessionMachine::beginning_at(Name::new("t").unwrap(), id(text), 7))
        };
        let mut resting = Resting::default();
        for name in ["a", "b", "c", "d"] {
            resting.put(id(name), machine(name));
            advance(SECOND).await;
        }
        resting.put(id("a"), machine("a"));
        assert_eq!(resting.len(), 4);
        assert_eq!(resting.take(&id("c")).map(|machine| machine.slot()), Some(7));
        assert!(resting.take(&id("c")).is_none());
        // What is left is b of a second, d of three, and a, which came again, of four.
        let begun = Instant::now() - 4 * SECOND;
        assert_eq!(resting.expire(3 * SECOND), Some(begun + 6 * SECOND));
        assert_eq!(resting.len(), 2, "b is gone");
        assert!(resting.drop_first());
        assert!(resting.take(&id("d")).is_none());
        assert_eq!(resting.expire(3 * SECOND), Some(begun + 7 * SECOND));
        advance(3 * SECOND).await;
        assert_eq!(resting.expire(3 * SECOND), None);
        assert!(!resting.drop_first());
    }
}
