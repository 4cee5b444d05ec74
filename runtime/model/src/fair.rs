//! Who is next where many wait: teams by their weights, and the sessions of a team in turn.
//!
//! Pure: what waits is of any type, and the order follows from the calls alone.

use std::collections::{BTreeMap, VecDeque};

use wire::{Name, SessionId};

/// What one turn costs a team of weight one; divisible by all small weights.
const TURN_COST: u64 = 5_040;

/// For whom somebody waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The team.
    pub(crate) team: Name,
    /// Its share, at least one.
    pub(crate) weight: u32,
    /// The session, if it is known.
    pub(crate) session: Option<SessionId>,
}

/// A number by which one who waits can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitId(u64);

/// Those who wait.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    /// Never shrinks: a node has as many teams as it was started with.
    teams: BTreeMap<Name, Team<T>>,
    /// What the team that was served last had paid before.
    now: u64,
    ids: u64,
}

#[derive(Debug)]
struct Team<T> {
    /// What it has paid for its turns.
    paid: u64,
    weight: u32,
    /// Sessions with somebody who waits, the next one first.
    sessions: VecDeque<Session<T>>,
}

#[derive(Debug)]
struct Session<T> {
    id: Option<SessionId>,
    waiting: VecDeque<(WaitId, T)>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { teams: BTreeMap::new(), now: 0, ids: 0 }
    }
}

impl<T> FairQueue<T> {
    /// Adds one who waits.
    pub(crate) fn push(&mut self, flow: &Flow, item: T) -> WaitId {
        self.ids = self.ids.wrapping_add(1);
        let id = WaitId(self.ids);
        let fresh = || Team { paid: 0, weight: 1, sessions: VecDeque::new() };
        let team = self.teams.entry(flow.team.clone()).or_insert_with(fresh);
        team.weight = flow.weight.max(1);
        if team.sessions.is_empty() {
            // Who did not wait has saved nothing up.
            team.paid = team.paid.max(self.now);
        }
        match team.sessions.iter_mut().find(|session| session.id == flow.session) {
            Some(session) => session.waiting.push_back((id, item)),
            None => team.sessions.push_back(Session {
                id: flow.session.clone(),
                waiting: VecDeque::from([(id, item)]),
            }),
        }
        id
    }

    /// Takes out who is next.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let waiting = self.teams.values_mut().filter(|team| !team.sessions.is_empty());
        let team = waiting.min_by_key(|team| team.paid)?;
        let mut session = team.sessions.pop_front()?;
        let (_, item) = session.waiting.pop_front()?;
        if !session.waiting.is_empty() {
            team.sessions.push_back(session);
        }
        self.now = team.paid;
        team.paid = team.paid.saturating_add(TURN_COST / u64::from(team.weight));
        Some(item)
    }

    /// Takes out one who waits no more.
    pub(crate) fn remove(&mut self, flow: &Flow, id: WaitId) {
        let Some(team) = self.teams.get_mut(&flow.team) else { return };
        let Some(at) = team.sessions.iter().position(|session| session.id == flow.session) else {
            return;
        };
        if let Some(session) = team.sessions.get_mut(at) {
            session.waiting.retain(|(waiting, _)| *waiting != id);
            if session.waiting.is_empty() {
                team.sessions.remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(team: &str, weight: u32, session: &str) -> Flow {
        let session = (!session.is_empty()).then(|| SessionId::new(session).unwrap());
        Flow { team: Name::new(team).unwrap(), weight, session }
    }

    fn order(queue: &mut FairQueue<String>) -> String {
        std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn sessions_of_a_team_take_turns() {
        for (waiting, expected) in [
            ("a1 a2 a3 b1 c1", "a1 b1 c1 a2 a3"),
            ("a1 a2 b1 b2 a3", "a1 b1 a2 b2 a3"),
            ("a1 a2 a3", "a1 a2 a3"),
            ("", ""),
        ] {
            let mut queue = FairQueue::default();
            for item in waiting.split_whitespace() {
                queue.push(&flow("t", 1, item.split_at(1).0), item.to_owned());
            }
            assert_eq!(order(&mut queue), expected, "{waiting}");
        }
    }

    #[test]
    fn a_session_that_comes_later_waits_for_one_turn_of_a_busy_one() {
        let mut queue = FairQueue::default();
        for number in 0..100 {
            queue.push(&flow("t", 1, "busy"), format!("busy{number}"));
        }
        queue.pop();
        queue.push(&flow("t", 1, "other"), "other".to_owned());
        queue.push(&flow("t", 1, ""), "tool".to_owned());
        let next: Vec<_> = (0..4).filter_map(|_| queue.pop()).collect();
        assert_eq!(next, ["busy1", "other", "tool", "busy2"]);
    }

    #[test]
    fn teams_get_their_shares() {
        for (weights, shares) in [([1, 1], [20, 20]), ([3, 1], [30, 10]), ([1, 7], [5, 35])] {
            let mut queue = FairQueue::default();
            for _ in 0..100 {
                for (team, weight) in ["a", "b"].into_iter().zip(weights) {
                    queue.push(&flow(team, weight, "s"), team.to_owned());
                }
            }
            let served: Vec<_> = (0..40).filter_map(|_| queue.pop()).collect();
            let count = |team: &str| served.iter().filter(|served| *served == team).count();
            assert_eq!([count("a"), count("b")], shares, "{weights:?}");
        }
    }

    #[test]
    fn who_did_not_wait_has_saved_nothing_up() {
        let mut queue = FairQueue::default();
        for _ in 0..100 {
            queue.push(&flow("a", 1, "s"), "a".to_owned());
        }
        (0..50).for_each(|_| drop(queue.pop()));
        for _ in 0..3 {
            queue.push(&flow("b", 1, "s"), "b".to_owned());
        }
        let next: Vec<_> = (0..6).filter_map(|_| queue.pop()).collect();
        assert_eq!(next.iter().filter(|team| *team == "b").count(), 3, "{next:?}");
        assert!(next.windows(2).all(|two| two != ["b", "b"]), "{next:?}");
    }

    #[test]
    fn who_gives_up_is_gone() {
        let mut queue = FairQueue::default();
        let ids: Vec<_> = ["a", "a", "b"]
            .iter()
            .map(|session| queue.push(&flow("t", 1, session), (*session).to_owned()))
            .collect();
        queue.remove(&flow("t", 1, "b"), ids[2]);
        queue.remove(&flow("t", 1, "a"), ids[0]);
        queue.remove(&flow("u", 1, "a"), ids[1]);
        assert_eq!(order(&mut queue), "a");
        queue.remove(&flow("t", 1, "a"), ids[1]);
        assert_eq!(order(&mut queue), "");
    }
}
