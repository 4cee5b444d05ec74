//! Brings events that answer calls to the calls that wait for them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::Name;

use super::event::CloudEvent;

/// Calls whose end is remembered, so that a reply which comes again is told from one to a call that
/// never was. Brokers repeat within minutes.
const OVER_MAX: usize = 4096;

/// Replies that are held for calls which are not waited for yet.
const HELD_MAX: usize = 256;

/// Bytes of data of all such replies.
const HELD_BYTES_MAX: usize = 8 << 20;

/// How long after the start of a team replies are held: by then every call that was under way when
/// the last process ended is waited for again.
pub const HOLD: Duration = Duration::from_secs(30);

/// The calls of a team that wait for events.
#[derive(Clone, Debug)]
pub struct Replies(Arc<Mutex<State>>);

/// What became of the replies to the calls of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Brought to the calls that waited for them.
    pub delivered: u64,
    /// To a call that had its reply before.
    pub duplicate: u64,
    /// To a call whose time was over.
    pub late: u64,
    /// To no call that is known, or to none at all.
    pub unknown: u64,
}

/// What became of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// Its call has it.
    Delivered,
    /// It is held for a call that may be about to wait for it.
    Held,
    /// Dropped: its call had a reply before.
    Duplicate,
    /// Dropped: the time of its call was over.
    Late,
    /// Dropped: no such call is known.
    Unknown,
    /// Not taken, for want of room; it may come again.
    Full,
}

impl Taken {
    /// Returns the word used in answers and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Held => "held",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::Unknown => "unknown",
            Self::Full => "full",
        }
    }
}

/// A source and the id of an event that was sent for it.
type Key = (Name, String);

#[derive(Debug)]
struct State {
    waiting: HashMap<Key, (u64, oneshot::Sender<CloudEvent>)>,
    serial: u64,
    /// Calls that wait no longer, and whether they had a reply; the oldest first.
    over: VecDeque<(Key, bool)>,
    held: VecDeque<(Key, CloudEvent)>,
    hold_until: Instant,
    counts: BTreeMap<Name, Counts>,
}

/// A call that waits; when this is dropped it does so no longer.
#[derive(Debug)]
pub(super) struct Waiting {
    replies: Replies,
    key: Key,
    serial: u64,
    reply: oneshot::Receiver<CloudEvent>,
}

impl Replies {
    /// Begins to hold replies for calls of an earlier process, for some time from here on.
    pub fn start(hold: Duration) -> Self {
        Self(Arc::new(Mutex::new(State {
            waiting: HashMap::new(),
            serial: 0,
            over: VecDeque::new(),
            held: VecDeque::new(),
            hold_until: Instant::now() + hold,
            counts: BTreeMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits from here on for the reply to an event of a source.
    pub(super) fn wait(&self, source: &Name, id: &str) -> Waiting {
        let key = (source.clone(), id.to_owned());
        let (told, reply) = oneshot::channel();
        let mut state = self.state();
        state.serial += 1;
        let serial = state.serial;
        // A call that is waited for again has not had its reply.
        state.over.retain(|(known, answered)| *answered || *known != key);
        let held = state.held.iter().position(|(known, _)| *known == key);
        match held.and_then(|position| state.held.remove(position)) {
            Some((_, event)) => {
                state.counts.entry(source.clone()).or_default().delivered += 1;
                state.is_over(key.clone(), true);
                drop(told.send(event));
            }
            None => {
                state.waiting.insert(key.clone(), (serial, told));
            }
        }
        drop(state);
        Waiting { replies: self.clone(), key, serial, reply }
    }

    /// Takes a reply to the event `id` of a source.
    pub fn take(&self, source: &Name, id: &str, event: CloudEvent) -> Taken {
        let key = (source.clone(), id.to_owned());
        let mut state = self.state();
        let is_early = Instant::now() < state.hold_until;
        state.release(is_early);
        let taken = if let Some((_, told)) = state.waiting.remove(&key) {
            let delivered = told.send(event).is_ok();
            state.is_over(key, delivered);
            if delivered { Taken::Delivered } else { Taken::Late }
        } else if let Some((_, answered)) = state.over.iter().find(|(known, _)| *known == key) {
            if *answered { Taken::Duplicate } else { Taken::Late }
        } else if state.held.iter().any(|(known, _)| *known == key) {
            Taken::Duplicate
        } else if is_early {
            state.hold(key, event)
        } else {
            Taken::Unknown
        };
        let counts = state.counts.entry(source.clone()).or_default();
        match taken {
            Taken::Delivered => counts.delivered += 1,
            Taken::Duplicate => counts.duplicate += 1,
            Taken::Late => counts.late += 1,
            Taken::Unknown => counts.unknown += 1,
            Taken::Held | Taken::Full => {}
        }
        taken
    }

    /// Counts a reply that names no call, or another one than it was given to.
    pub fn count_unknown(&self, source: &Name) {
        self.state().counts.entry(source.clone()).or_default().unknown += 1;
    }

    /// Returns what became of the replies to the calls of a source.
    pub fn counts(&self, source: &Name) -> Counts {
        let mut state = self.state();
        let is_early = Instant::now() < state.hold_until;
        state.release(is_early);
        state.counts.get(source).copied().unwrap_or_default()
    }
}

impl State {
    fn is_over(&mut self, key: Key, answered: bool) {
        if self.over.len() == OVER_MAX {
            self.over.pop_front();
        }
        self.over.push_back((key, answered));
    }

    fn hold(&mut self, key: Key, event: CloudEvent) -> Taken {
        let bytes: usize = self.held.iter().map(|(_, event)| event.data.len()).sum();
        if self.held.len() == HELD_MAX || bytes + event.data.len() > HELD_BYTES_MAX {
            return Taken::Full;
        }
        self.held.push_back((key, event));
        Taken::Held
    }

    /// Drops what was held for nobody once the time for it is over.
    fn release(&mut self, is_early: bool) {
        if !is_early {
            for ((source, _), _) in std::mem::take(&mut self.held) {
                self.counts.entry(source).or_default().unknown += 1;
            }
        }
    }
}

impl Waiting {
    /// Waits for the reply; nothing if the same call is waited for anew elsewhere.
    pub(super) async fn reply(&mut self) -> Option<CloudEvent> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.replies.state();
        if state.waiting.get(&self.key).is_some_and(|(serial, _)| *serial == self.serial) {
            state.waiting.remove(&self.key);
            state.is_over(self.key.clone(), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str) -> CloudEvent {
        CloudEvent { id: id.to_owned(), ..CloudEvent::default() }
    }

    fn source() -> Name {
        Name::new("crew").unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn each_call_gets_its_own_reply_and_the_others_are_counted() {
        let replies = Replies::start(Duration::ZERO);
        let source = source();
        let (mut one, mut two) = (replies.wait(&source, "1"), replies.wait(&source, "2"));
        assert_eq!(replies.take(&source, "2", event("b")), Taken::Delivered);
        assert_eq!(replies.take(&source, "1", event("a")), Taken::Delivered);
        assert_eq!(one.reply().await, Some(event("a")));
        assert_eq!(two.reply().await, Some(event("b")));
        assert_eq!(replies.take(&source, "1", event("c")), Taken::Duplicate);
        assert_eq!(replies.take(&source, "3", event("d")), Taken::Unknown);
        drop(replies.wait(&source, "4"));
        assert_eq!(replies.take(&source, "4", event("e")), Taken::Late);
        let other = Name::new("other").unwrap();
        assert_eq!(replies.take(&other, "1", event("f")), Taken::Unknown);
        let counts = Counts { delivered: 2, duplicate: 1, late: 1, unknown: 1 };
        assert_eq!(replies.counts(&source), counts);
        // A call whose time was over and that is waited for again takes what comes.
        let mut again = replies.wait(&source, "4");
        assert_eq!(replies.take(&source, "4", event("g")), Taken::Delivered);
        assert_eq!(again.reply().await, Some(event("g")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_before_its_call_waits_is_held_for_a_while() {
        let replies = Replies::start(HOLD);
        let source = source();
        assert_eq!(replies.take(&source, "1", event("a")), Taken::Held);
        assert_eq!(replies.take(&source, "1", event("b")), Taken::Duplicate);
        assert_eq!(replies.wait(&source, "1").reply().await, Some(event("a")));
        for n in 0..HELD_MAX {
            assert_eq!(replies.take(&source, &format!("x{n}"), event("x")), Taken::Held);
        }
        assert_eq!(replies.take(&source, "y", event("y")), Taken::Full);
        tokio::time::advance(HOLD).await;
        assert_eq!(replies.take(&source, "z", event("z")), Taken::Unknown);
        let counts = Counts { delivered: 1, duplicate: 1, late: 0, unknown: HELD_MAX as u64 + 1 };
        assert_eq!(replies.counts(&source), counts);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_waited_for_twice_has_one_reply() {
        let replies = Replies::start(Duration::ZERO);
        let source = source();
        let mut first = replies.wait(&source, "1");
        let mut second = replies.wait(&source, "1");
        assert_eq!(first.reply().await, None);
        drop(first);
        assert_eq!(replies.take(&source, "1", event("a")), Taken::Delivered);
        assert_eq!(second.reply().await, Some(event("a")));
    }
}
