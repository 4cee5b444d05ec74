//! Sessions that have no work and no actor, whose machines stay so that the next message need not
//! have them folded again.

use std::collections::{BTreeMap, HashMap};

use agents_core::session::SessionMachine;
use tokio::time::{Duration, Instant};
use wire::SessionId;

/// How many bytes the machines take together at most, about. Most take a thousandth of what one
/// may that has held a long conversation.
pub(super) const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The machines, in the order in which they came.
#[derive(Default)]
pub(super) struct Resting {
    machines: HashMap<SessionId, Rests>,
    order: BTreeMap<u64, (SessionId, Instant)>,
    next: u64,
    /// What they take together.
    bytes: usize,
}

struct Rests {
    machine: Box<SessionMachine>,
    bytes: usize,
    /// Its place in the order.
    at: u64,
}

impl Resting {
    pub(super) fn len(&self) -> usize {
        self.machines.len()
    }

    /// Keeps a machine, and drops those that came first if they take too much together.
    pub(super) fn put(&mut self, session: SessionId, machine: Box<SessionMachine>) {
        self.take(&session);
        let (bytes, at) = (machine.bytes_at_rest(), self.next);
        self.order.insert(at, (session.clone(), Instant::now()));
        self.machines.insert(session, Rests { machine, bytes, at });
        self.next += 1;
        self.bytes += bytes;
        while self.bytes > BYTES_MAX && self.drop_first() {}
    }

    pub(super) fn take(&mut self, session: &SessionId) -> Option<Box<SessionMachine>> {
        let Rests { machine, bytes, at } = self.machines.remove(session)?;
        self.order.remove(&at);
        self.bytes -= bytes;
        Some(machine)
    }

    /// Drops the one that came first. Tells whether there was one.
    pub(super) fn drop_first(&mut self) -> bool {
        let first = self.order.first_key_value().map(|(_, (session, _))| session.clone());
        first.is_some_and(|session| self.take(&session).is_some())
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
    use std::collections::HashMap;
    use std::sync::Arc;

    use tokio::time::advance;
    use wire::snapshot::{KeptExchange, Snapshot};
    use wire::{Input, Name, Plan, Timestamp};

    use super::*;

    /// A machine at rest in which so much was said.
    fn talkative(session: SessionId, bytes: usize) -> Box<SessionMachine> {
        let exchange = KeptExchange { user: "x".repeat(bytes), answer: "".into(), tainted: false };
        let snapshot = Snapshot {
            cutoff: Timestamp::from_micros(0),
            agent: Name::new("a").unwrap(),
            is_called: false,
            begun: Timestamp::from_micros(0),
            seen: Timestamp::from_micros(0),
            exchanges: vec![exchange],
            exchanges_total: 1,
            runs: Vec::new(),
            unresolved: Vec::new(),
        };
        let mut machine = SessionMachine::new(Name::new("t").unwrap(), session);
        let plans = HashMap::<_, Arc<Plan>>::new();
        let input = Input::Snapshot(Box::new(snapshot));
        machine.apply(Timestamp::from_micros(0), &input, &plans).unwrap();
        Box::new(machine)
    }

    #[tokio::test(start_paused = true)]
    async fn machines_that_take_much_go_before_they_are_many() {
        let mut resting = Resting::default();
        // What is put, with thirds of the bound, and who is there afterwards.
        for (name, thirds, there) in [
            ("a", 1, "a"),
            ("b", 1, "a b"),
            ("c", 0, "a b c"),
            ("d", 2, "b c d"),
            ("d", 1, "b c d"),
            ("e", 1, "b c d e"),
            ("b", 2, "e b"),
            ("f", 4, ""),
            ("g", 2, "g"),
        ] {
            let id = SessionId::new(name).unwrap();
            resting.put(id.clone(), talkative(id, thirds * (BYTES_MAX / 3 - 1000)));
            let order: Vec<&str> = resting.order.values().map(|(id, _)| id.as_str()).collect();
            assert_eq!(order.join(" "), there, "after {name}");
            assert_eq!(resting.len(), order.len(), "after {name}");
        }
        while resting.drop_first() {}
        assert_eq!(resting.bytes, 0);
    }

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
