//! What a team's models and tools do at present on this node, so that it can be stopped by whoever
//! asked for it, from this node or another.

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus::{Bus, Message};
use foldhash::fast::RandomState;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use wire::look::Doing;
use wire::{Headers, Name, RunId, Subjects, WorkId, header};

use crate::feed::Feed;

/// Stops that are remembered, for requests that they overtake on the way here. A request is taken
/// within moments, and a thousand later stops take longer than that.
const STOPS_KEPT_MAX: usize = 1024;

/// Work under way. What is begun is stopped by [`WorkList::stop`], also if that came before.
#[derive(Debug, Default)]
pub(crate) struct WorkList {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    running: HashMap<WorkId, Vec<Running>, RandomState>,
    stopped: HashSet<WorkId, RandomState>,
    order: VecDeque<WorkId>,
}

#[derive(Debug)]
struct Running {
    number: u64,
    work: WorkId,
    stop: CancellationToken,
    run: Option<RunId>,
    doing: Doing,
}

/// Work that was begun; it is no longer under way when this is dropped.
#[derive(Debug)]
pub(crate) struct Begun {
    list: Arc<WorkList>,
    number: u64,
    work: WorkId,
    stop: CancellationToken,
}

impl WorkList {
    /// Notes that work begins, for a run if it is known for which.
    pub(crate) fn begin(self: &Arc<Self>, work: WorkId, run: Option<RunId>, doing: Doing) -> Begun {
        let stop = CancellationToken::new();
        let mut inner = self.lock();
        if inner.stopped.contains(&work) || inner.stopped.contains(&work.all_attempts()) {
            stop.cancel();
        }
        inner.next += 1;
        let number = inner.next;
        let running = Running { number, work: work.clone(), stop: stop.clone(), run, doing };
        // Nearly always there is one attempt, and a vector that grows has room for four.
        let attempts = inner.running.entry(work.all_attempts());
        attempts.or_insert_with(|| Vec::with_capacity(1)).push(running);
        drop(inner);
        Begun { list: self.clone(), number, work, stop }
    }

    /// Stops work, and keeps from beginning what was overtaken by this on the way.
    pub(crate) fn stop(&self, work: &WorkId) {
        let mut inner = self.lock();
        for running in inner.running.get(&work.all_attempts()).into_iter().flatten() {
            if work.covers(&running.work) {
                running.stop.cancel();
            }
        }
        if inner.stopped.insert(work.clone()) {
            inner.order.push_back(work.clone());
        }
        if inner.order.len() > STOPS_KEPT_MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.stopped.remove(&oldest);
        }
    }

    /// Tells whether an attempt at some work is under way here and not stopped.
    pub(crate) fn has(&self, attempt: &WorkId) -> bool {
        let inner = self.lock();
        let mut running = inner.running.get(&attempt.all_attempts()).into_iter().flatten();
        running.any(|running| running.work == *attempt && !running.stop.is_cancelled())
    }

    /// Stops everything.
    pub(crate) fn stop_all(&self) {
        self.lock().running.values().flatten().for_each(|running| running.stop.cancel());
    }

    /// Returns what is under way, and for which runs.
    pub(crate) fn under_way(&self) -> Vec<(Option<RunId>, Doing)> {
        let inner = self.lock();
        let running = inner.running.values().flatten();
        running.map(|running| (running.run.clone(), running.doing.clone())).collect()
    }

    /// Counts what is under way.
    pub(crate) fn len(&self) -> usize {
        self.lock().running.values().map(Vec::len).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    /// Returns what is cancelled when nobody wants the outcome any more.
    pub(crate) const fn stop(&self) -> &CancellationToken {
        &self.stop
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut inner = self.list.lock();
        let key = self.work.all_attempts();
        if let Some(running) = inner.running.get_mut(&key) {
            running.retain(|running| running.number != self.number);
            if running.is_empty() {
                inner.running.remove(&key);
            }
        }
    }
}

/// Listens for the stops of a team. Every node hears all of them, and those that have the work act.
pub(crate) async fn listen(
    bus: &Bus,
    subjects: &Subjects,
    team: &Name,
    list: &Arc<WorkList>,
) -> Result<Vec<Feed>, bus::Error> {
    let mut feeds = Vec::new();
    for pattern in subjects.all_stops(team) {
        let list = list.clone();
        let on_stop = move |message: Message| {
            if let Some(work) = work_of(&message) {
                list.stop(&work);
            } else {
                debug!(subject = %message.subject, "a stop that names no work");
            }
        };
        feeds.push(bus.listen(&pattern, None, on_stop).await?);
    }
    Ok(feeds)
}

/// Returns the work that a message says it is about.
pub(crate) fn work_of(message: &Message) -> Option<WorkId> {
    message.headers.read(header::WORK)
}

/// Lets work panic without those who wait for it: the error is what the panic says.
pub(crate) async fn contained<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        text.unwrap_or_else(|| "a panic without a text".to_owned())
    })
}

/// Tells all who serve a subject that nobody waits for some work any more. The journal already
/// says so; this only saves what the work would still cost, so it is tried once.
pub(crate) async fn tell(bus: &Bus, subject: &str, work: &WorkId) {
    let headers = Headers::new().with(header::WORK, work.clone());
    if let Err(error) = bus.publish(subject, headers, bytes::Bytes::new()).await {
        debug!(subject, %work, %error, "stop not sent");
    }
}

#[cfg(test)]
mod tests {
    use wire::look::DoingKind;
    use wire::{CallKey, Timestamp};

    use super::*;

    fn begin(list: &Arc<WorkList>, work: WorkId) -> Begun {
        let name = Name::new("x").unwrap();
        let doing = Doing { kind: DoingKind::Call, name, since: Timestamp::default() };
        list.begin(work, None, doing)
    }

    fn call(key: &str) -> WorkId {
        WorkId::of_call(CallKey::new(key).unwrap())
    }

    #[test]
    fn a_stop_finds_its_work_before_and_after_it_begins() {
        let list = Arc::new(WorkList::default());
        let (all, first, second) = (call("c"), call("c").attempt(), call("c").attempt());
        let begun = [first.clone(), second.clone(), call("d")].map(|work| begin(&list, work));
        let stopped = || begun.each_ref().map(|begun| begun.stop().is_cancelled());
        let known = || [&first, &second, &all].map(|work| list.has(work));
        assert_eq!(known(), [true, true, false], "each attempt by itself");
        list.stop(&first);
        assert_eq!(stopped(), [true, false, false]);
        assert_eq!(known(), [false, true, false]);
        list.stop(&all);
        assert_eq!(stopped(), [true, true, false]);
        assert!(begin(&list, call("c").attempt()).stop().is_cancelled(), "it came too late");
        assert!(!begin(&list, call("e")).stop().is_cancelled());
        assert_eq!(list.len(), 3);
        list.stop_all();
        assert_eq!(stopped(), [true, true, true]);
        drop(begun);
        assert_eq!(list.len(), 0);
        assert!(list.lock().running.is_empty());
    }

    #[tokio::test]
    async fn a_panic_is_told_and_goes_no_further() {
        assert_eq!(contained(async { 7 }).await, Ok(7));
        let fault = contained::<()>(async { panic!("no {}", "paper") }).await;
        assert_eq!(fault, Err("no paper".to_owned()));
        let fault = contained::<()>(async { panic!("none") }).await;
        assert_eq!(fault, Err("none".to_owned()));
    }

    #[test]
    fn stops_are_forgotten_in_their_order() {
        let list = Arc::new(WorkList::default());
        for n in 0..=STOPS_KEPT_MAX {
            list.stop(&call(&n.to_string()));
            list.stop(&call(&n.to_string()));
        }
        assert!(!begin(&list, call("0")).stop().is_cancelled());
        assert!(begin(&list, call("1")).stop().is_cancelled());
        assert_eq!(list.lock().stopped.len(), STOPS_KEPT_MAX);
    }
}
