//! The twin of NATS inside the process: same routing, limits of the same kinds, no copy of a payload.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::carried::Carried;
use crate::listening::{Handler, Work};
use crate::parcel::Parcel;
use crate::pending::Pending;
use crate::router::{Pick, Picks, Router, Sink, Target};
use crate::subscription::Subscription;
#[cfg(any(test, feature = "testing"))]
use crate::tap::{Moment, Tap};
use crate::wait::Wait;
use crate::{Error, PAYLOAD_BYTES_MAX_DEFAULT, SUBSCRIPTION_MESSAGES_MAX_DEFAULT};

/// Where answers to requests go on a bus that has nobody outside; the last token is the request's.
const INBOX: &str = "_INBOX.request.";

/// Bounds the twin.
#[derive(Clone, Copy, Debug)]
pub struct LocalLimits {
    /// The largest message, headers included, in bytes.
    pub payload_bytes_max: usize,
    /// How many messages wait in one subscription; at least one does.
    pub subscription_messages_max: usize,
}

impl Default for LocalLimits {
    fn default() -> Self {
        Self {
            payload_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT,
            subscription_messages_max: SUBSCRIPTION_MESSAGES_MAX_DEFAULT,
        }
    }
}

/// One bus inside the process.
#[derive(Debug)]
pub(crate) struct Local {
    payload_bytes_max: AtomicUsize,
    subscription_messages_max: usize,
    router: RwLock<Routing>,
    requests: Pending<Parcel>,
    draws: AtomicU64,
    dropped: AtomicU64,
    #[cfg(any(test, feature = "testing"))]
    pub(crate) tap: Option<Tap>,
}

#[derive(Debug, Default)]
struct Routing {
    router: Router,
    drained: bool,
}

/// Takes a subscription out of the routing when it is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    local: Arc<Local>,
    pattern: String,
    id: u64,
}

/// What became of a message.
#[derive(Default)]
struct Delivery {
    taken: usize,
    lost: usize,
    lost_by_queue: bool,
    /// What those who took it have left to do.
    work: Vec<Work>,
}

impl Local {
    pub(crate) fn new(limits: LocalLimits) -> Self {
        Self::with_inbox(limits, INBOX.to_owned())
    }

    /// Makes one whose answers go to subjects that begin so.
    pub(crate) fn with_inbox(limits: LocalLimits, inbox: String) -> Self {
        Self {
            payload_bytes_max: limits.payload_bytes_max.into(),
            subscription_messages_max: limits.subscription_messages_max.max(1),
            router: RwLock::default(),
            requests: Pending::new(inbox),
            draws: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            #[cfg(any(test, feature = "testing"))]
            tap: None,
        }
    }

    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max.load(Ordering::Relaxed)
    }

    /// Takes messages of another size from here on.
    pub(crate) fn set_payload_bytes_max(&self, bytes: usize) {
        self.payload_bytes_max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn new_inbox(&self) -> String {
        format!("_INBOX.{}", self.requests.number())
    }

    pub(crate) fn publish(&self, parcel: Parcel) {
        for work in self.deliver(parcel).work {
            tokio::spawn(work);
        }
    }

    /// Sends a request and waits for its answer, at work meanwhile on what is to be done about it.
    pub(crate) async fn request(&self, mut parcel: Parcel, wait: Wait) -> Result<Parcel, Error> {
        let subject = parcel.message().subject.clone();
        let Some(mut ticket) = self.requests.wait(wait, ()) else {
            return Err(Error::Overflow { subject });
        };
        parcel.message_mut().reply = Some(ticket.subject());
        let delivery = self.deliver(parcel);
        let mut carried = Carried::new(delivery.work);
        if delivery.lost_by_queue || (delivery.taken == 0 && delivery.lost > 0) {
            return Err(Error::Overflow { subject });
        }
        if delivery.taken == 0 {
            return Err(Error::NoResponders { subject });
        }
        let after_ms = u64::try_from(wait.within.as_millis()).unwrap_or(u64::MAX);
        match tokio::time::timeout(wait.within, carried.until(pin!(ticket.answer()))).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(_) => Err(Error::Timeout { subject, after_ms }),
        }
    }

    /// Tells whether a subject is that of an answer to a request made here.
    pub(crate) fn is_asked_at(&self, subject: &str) -> bool {
        self.requests.is_asked_at(subject)
    }

    pub(crate) fn is_heard(&self, subject: &str) -> bool {
        #[cfg(any(test, feature = "testing"))]
        if self.tap.is_some() {
            return true;
        }
        self.router.read().unwrap_or_else(PoisonError::into_inner).router.reaches(subject)
    }

    pub(crate) fn subscribe(
        self: &Arc<Self>,
        pattern: &str,
        queue: Option<&str>,
    ) -> Result<Subscription, Error> {
        let (sender, receiver) = mpsc::channel(self.subscription_messages_max);
        let registration = self.register(pattern, queue, Sink::Queue(sender))?;
        Ok(Subscription::new(receiver, Some(registration)))
    }

    pub(crate) fn listen(
        self: &Arc<Self>,
        pattern: &str,
        queue: Option<&str>,
        handler: Handler,
    ) -> Result<Registration, Error> {
        self.register(pattern, queue, Sink::Handler(handler))
    }

    fn register(
        self: &Arc<Self>,
        pattern: &str,
        queue: Option<&str>,
        sink: Sink,
    ) -> Result<Registration, Error> {
        let id = self.requests.number();
        let mut routing = self.router.write().unwrap_or_else(PoisonError::into_inner);
        if routing.drained {
            return Err(Error::Closed);
        }
        routing.router.insert(pattern, queue, Target { id, sink });
        Ok(Registration { local: self.clone(), pattern: pattern.to_owned(), id })
    }

    pub(crate) fn drain(&self) {
        let mut routing = self.router.write().unwrap_or_else(PoisonError::into_inner);
        routing.drained = true;
        routing.router.clear();
    }

    #[cfg(any(test, feature = "testing"))]
    fn deliver(&self, parcel: Parcel) -> Delivery {
        let Some(tap) = &self.tap else { return self.hand_over(parcel) };
        let parcel = parcel.written();
        tap.look(Moment::Before, parcel.message());
        let delivery = self.hand_over(parcel.clone());
        tap.look(Moment::After, parcel.message());
        delivery
    }

    #[cfg(not(any(test, feature = "testing")))]
    fn deliver(&self, parcel: Parcel) -> Delivery {
        self.hand_over(parcel)
    }

    fn hand_over(&self, mut parcel: Parcel) -> Delivery {
        // Handlers are called without the lock: they may subscribe.
        let picks: Picks = {
            let routing = self.router.read().unwrap_or_else(PoisonError::into_inner);
            routing.router.pick(&parcel.message().subject, self.draw())
        };
        let mut delivery = Delivery::default();
        let request = self.requests.take(&parcel.message().subject);
        if picks.len() + usize::from(request.is_some()) > 1 {
            parcel = parcel.written();
        }
        if let Some(request) = request {
            if picks.is_empty() {
                delivery.taken += usize::from(request.send(parcel).is_ok());
                return delivery;
            }
            delivery.taken += usize::from(request.send(parcel.clone()).is_ok());
        }
        if let Some((last, others)) = picks.split_last() {
            for pick in others {
                self.offer(pick, parcel.clone(), &mut delivery);
            }
            self.offer(last, parcel, &mut delivery);
        }
        delivery
    }

    fn offer(&self, pick: &Pick, parcel: Parcel, delivery: &mut Delivery) {
        let sender = match &pick.target.sink {
            Sink::Queue(sender) => sender,
            Sink::Handler(handler) => {
                delivery.work.extend(handler(parcel));
                delivery.taken += 1;
                return;
            }
        };
        match sender.try_send(parcel.into_message()) {
            Ok(()) => delivery.taken += 1,
            Err(TrySendError::Full(message)) => {
                delivery.lost += 1;
                delivery.lost_by_queue |= pick.queued;
                let lost = self.dropped.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                warn_of_loss(&message.subject, lost);
            }
            Err(TrySendError::Closed(_)) => {}
        }
    }

    /// Returns a number that looks random: a counter, mixed so that publishers that take turns do
    /// not always meet the same member of a group.
    fn draw(&self) -> u64 {
        let mut x = self.draws.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
}

/// Logs lost messages: the first, and then ever more rarely, so that a flood does not flood the log.
pub(crate) fn warn_of_loss(subject: &str, lost: u64) {
    if lost.is_power_of_two() {
        tracing::warn!(subject, lost, "subscriber too slow, message lost");
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut routing = self.local.router.write().unwrap_or_else(PoisonError::into_inner);
        routing.router.remove(&self.pattern, self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use wire::Headers;

    use super::*;
    use crate::Bus;

    #[tokio::test]
    async fn payloads_are_not_copied() {
        let bus = Bus::local();
        let mut subscriptions =
            [bus.subscribe("a", None).await.unwrap(), bus.subscribe(">", None).await.unwrap()];
        let payload = Bytes::from(vec![1; 1000]);
        bus.publish("a", Headers::new(), payload.clone()).await.unwrap();
        for subscription in &mut subscriptions {
            let received = subscription.next().await.unwrap().payload;
            assert_eq!(received.as_ptr(), payload.as_ptr());
        }
    }

    #[tokio::test]
    async fn a_tap_sees_each_message_before_and_after_it_is_there() {
        let seen = Arc::<std::sync::Mutex<Vec<(Moment, String)>>>::default();
        let noted = seen.clone();
        let bus = Bus::local_tapped(Tap::new(move |moment, message| {
            noted.lock().unwrap().push((moment, message.subject.clone()));
        }));
        let mut subscription = bus.subscribe("a", None).await.unwrap();
        bus.publish("a", Headers::new(), Bytes::new()).await.unwrap();
        assert_eq!(subscription.next().await.unwrap().subject, "a");
        let a = || "a".to_owned();
        assert_eq!(*seen.lock().unwrap(), [(Moment::Before, a()), (Moment::After, a())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_exactly_as_long_as_it_says() {
        let bus = Bus::local();
        let _silent = bus.subscribe("a", None).await.unwrap();
        let begun = tokio::time::Instant::now();
        let hour = Duration::from_hours(1);
        let result = bus.request("a", Headers::new(), Bytes::new(), hour).await;
        assert!(matches!(result, Err(Error::Timeout { after_ms: 3_600_000, .. })), "{result:?}");
        assert_eq!(begun.elapsed(), hour);
    }

    #[tokio::test]
    async fn a_full_onlooker_alone_is_no_answer() {
        let limits = LocalLimits { subscription_messages_max: 1, ..LocalLimits::default() };
        let bus = Bus::local_with(limits);
        let _full = bus.subscribe("a", None).await.unwrap();
        bus.publish("a", Headers::new(), Bytes::new()).await.unwrap();
        let hour = Duration::from_hours(1);
        let result = bus.request("a", Headers::new(), Bytes::new(), hour).await;
        assert!(matches!(result, Err(Error::Overflow { .. })), "{result:?}");
    }
}
