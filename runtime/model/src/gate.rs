//! Places of a model or of a server, and the order of those who wait for one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::fair::{FairQueue, Flow, WaitId};

/// Lets as many through as there are places, and the others in fair order.
#[derive(Debug)]
pub(crate) struct Gate(Mutex<State>);

#[derive(Debug)]
struct State {
    places: usize,
    taken: usize,
    waiting: FairQueue<oneshot::Sender<Place>>,
}

/// A place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place(Option<Arc<Gate>>);

impl Gate {
    /// Makes a gate with a number of places, at least one.
    pub(crate) fn new(places: usize) -> Arc<Self> {
        let state = State { places: places.max(1), taken: 0, waiting: FairQueue::default() };
        Arc::new(Self(Mutex::new(state)))
    }

    /// Takes places away until there are no more than a number of them.
    pub(crate) fn narrow(&self, places: usize) {
        let mut state = self.lock();
        state.places = state.places.min(places.max(1));
    }

    /// Waits for a place.
    pub(crate) async fn enter(self: &Arc<Self>, flow: &Flow) -> Place {
        loop {
            let (id, rx) = {
                let mut state = self.lock();
                if state.taken < state.places {
                    state.taken += 1;
                    return Place(Some(Arc::clone(self)));
                }
                let (tx, rx) = oneshot::channel();
                (state.waiting.push(flow, tx), rx)
            };
            let _leave = Leave { gate: self, flow, id };
            if let Ok(place) = rx.await {
                return place;
            }
        }
    }

    /// Hands a place on to the next who waits, or takes it back.
    fn release(self: &Arc<Self>) {
        loop {
            let next = {
                let mut state = self.lock();
                let wanted = state.taken <= state.places;
                let Some(next) = wanted.then(|| state.waiting.pop()).flatten() else {
                    state.taken = state.taken.saturating_sub(1);
                    return;
                };
                next
            };
            match next.send(Place(Some(Arc::clone(self)))) {
                Ok(()) => return,
                // Gave up just then.
                Err(mut place) => drop(place.0.take()),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(gate) = self.0.take() {
            gate.release();
        }
    }
}

/// Takes one who gives up out of the queue.
struct Leave<'a> {
    gate: &'a Gate,
    flow: &'a Flow,
    id: WaitId,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.gate.lock().waiting.remove(self.flow, self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use wire::{Name, SessionId};

    use super::*;

    type Entering<'a> = Pin<Box<dyn Future<Output = Place> + 'a>>;

    fn flow(session: &str) -> Flow {
        let session = Some(SessionId::new(session).unwrap());
        Flow { team: Name::new("t").unwrap(), weight: 1, session }
    }

    fn poll(entering: &mut Entering<'_>) -> Option<Place> {
        match entering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn places_are_handed_on_in_fair_order() {
        let (gate, busy, other) = (Gate::new(1), flow("busy"), flow("other"));
        let mut inside = poll(&mut (Box::pin(gate.enter(&busy)) as Entering)).unwrap();
        let flows = [&busy, &busy, &busy, &other];
        let mut waiting: Vec<Entering> =
            flows.into_iter().map(|flow| Box::pin(gate.enter(flow)) as Entering).collect();
        assert!(waiting.iter_mut().all(|entering| poll(entering).is_none()));
        let mut left = vec![0, 1, 2, 3];
        for expected in [0, 3, 1, 2] {
            drop(inside);
            let mut ready = None;
            for at in left.clone() {
                if let Some(place) = poll(&mut waiting[at]) {
                    assert!(ready.is_none(), "two places for one");
                    ready = Some((at, place));
                }
            }
            let (at, place) = ready.expect("a place was handed on");
            assert_eq!(at, expected);
            left.retain(|other| *other != at);
            inside = place;
        }
    }

    #[test]
    fn who_gives_up_takes_no_place() {
        let (gate, flow) = (Gate::new(1), flow("s"));
        let inside = poll(&mut (Box::pin(gate.enter(&flow)) as Entering)).unwrap();
        let mut waiting: Vec<Entering> =
            (0..4).map(|_| Box::pin(gate.enter(&flow)) as Entering).collect();
        assert!(waiting.iter_mut().all(|entering| poll(entering).is_none()));
        // One gives up before a place is free, and one after it was handed to it.
        drop(waiting.remove(0));
        drop(inside);
        drop(waiting.remove(0));
        let place = poll(&mut waiting[0]);
        assert!(place.is_some() && poll(&mut waiting[1]).is_none());
        drop(place);
        assert!(poll(&mut waiting[1]).is_some());
        assert_eq!(gate.lock().taken, 0);
    }

    #[test]
    fn places_can_be_taken_away() {
        let (gate, flow) = (Gate::new(usize::MAX), flow("s"));
        let enter = || poll(&mut (Box::pin(gate.enter(&flow)) as Entering));
        let mut inside: Vec<Place> = (0..3).filter_map(|_| enter()).collect();
        gate.narrow(2);
        gate.narrow(5);
        assert!(enter().is_none());
        inside.pop();
        assert!(enter().is_none());
        inside.pop();
        assert!(enter().is_some());
    }
}
