//! Requests that wait for their answer, each on a subject of its own.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use crate::wait::Wait;

/// How many requests wait at once: many more than nodes have turns and calls under way.
pub(crate) const REQUESTS_MAX: usize = 32_768;

/// How many of them wait for runs and people. Did these take all the places, neither could the runs
/// go on for which they wait, nor could anybody end them.
const LONG_MAX: usize = REQUESTS_MAX / 2;

/// The digits of the largest token, in hexadecimal.
const TOKEN_DIGITS_MAX: usize = 32;

/// Keeps the waiting requests, and of each what is known of how it was sent.
#[derive(Debug)]
pub(crate) struct Pending<T, R = ()> {
    /// What the subjects of answers begin with, up to the last token, which is the request's.
    inbox: String,
    next: AtomicU64,
    /// Draws the parts of tokens that nobody can guess, by a hash that keeps its key.
    seal: std::hash::RandomState,
    waiting: Mutex<Waiting<T, R>>,
}

/// Those who wait, by their tokens.
#[derive(Debug)]
struct Waiting<T, R> {
    short: HashMap<u128, Waiter<T, R>, RandomState>,
    /// Those who wait for runs and people.
    long: HashMap<u128, Waiter<T, R>, RandomState>,
}

#[derive(Debug)]
struct Waiter<T, R> {
    answer: oneshot::Sender<T>,
    sent: R,
}

impl<T, R> Waiting<T, R> {
    fn remove(&mut self, token: u128) -> Option<Waiter<T, R>> {
        self.short.remove(&token).or_else(|| self.long.remove(&token))
    }

    fn get_mut(&mut self, token: u128) -> Option<&mut Waiter<T, R>> {
        self.short.get_mut(&token).or_else(|| self.long.get_mut(&token))
    }
}

/// Stands for one waiting request; dropping it gives up waiting.
#[derive(Debug)]
pub(crate) struct Ticket<'a, T, R = ()> {
    pending: &'a Pending<T, R>,
    token: u128,
    answer: oneshot::Receiver<T>,
}

impl<T, R> Pending<T, R> {
    /// Makes one whose requests are answered on subjects that begin so.
    pub(crate) fn new(inbox: String) -> Self {
        let waiting = Waiting { short: HashMap::default(), long: HashMap::default() };
        let (next, seal) = (AtomicU64::new(1), std::hash::RandomState::new());
        Self { inbox, next, seal, waiting: Mutex::new(waiting) }
    }

    /// Returns what the subjects of answers begin with.
    pub(crate) fn inbox(&self) -> &str {
        &self.inbox
    }

    /// Tells whether a subject is that of an answer to a request made here.
    pub(crate) fn is_asked_at(&self, subject: &str) -> bool {
        self.token_of(subject).is_some()
    }

    fn token_of(&self, subject: &str) -> Option<u128> {
        u128::from_str_radix(subject.strip_prefix(&self.inbox)?, 16).ok()
    }

    /// Returns a number that was never given out.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a token that was never given out, and that nobody knows by others. Whoever answers
    /// one request has seen a subject, and must not be able to answer the next ones as well.
    fn token(&self) -> u128 {
        let number = self.number();
        u128::from(number) << 64 | u128::from(self.seal.hash_one(number))
    }

    /// Begins to wait for the answer to what is sent so; `None` if too many wait already.
    pub(crate) fn wait(&self, wait: Wait, sent: R) -> Option<Ticket<'_, T, R>> {
        let token = self.token();
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.lock();
        let Waiting { short, long } = &mut *waiting;
        let is_full = short.len() + long.len() >= REQUESTS_MAX;
        if is_full || (wait.is_long && long.len() >= LONG_MAX) {
            return None;
        }
        let waiter = Waiter { answer: sender, sent };
        if wait.is_long { long } else { short }.insert(token, waiter);
        Some(Ticket { pending: self, token, answer })
    }

    /// Takes out the request that waits for an answer on a subject; late and second answers find
    /// nobody.
    pub(crate) fn take(&self, subject: &str) -> Option<oneshot::Sender<T>> {
        let token = self.token_of(subject)?;
        // What was sent may be large, and is given up without the lock.
        let waiter = self.lock().remove(token);
        waiter.map(|waiter| waiter.answer)
    }

    /// Takes what is known of how the request was sent that is answered on a subject, the first time.
    pub(crate) fn take_sent(&self, subject: &str) -> Option<R>
    where
        R: Default,
    {
        let token = self.token_of(subject)?;
        self.lock().get_mut(token).map(|waiter| std::mem::take(&mut waiter.sent))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<T, R>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, R> Ticket<'_, T, R> {
    /// Returns the subject on which this request is answered.
    pub(crate) fn subject(&self) -> String {
        let inbox = &self.pending.inbox;
        let mut subject = String::with_capacity(inbox.len() + TOKEN_DIGITS_MAX);
        // A text takes all that is written to it.
        write!(subject, "{inbox}{:x}", self.token).unwrap_or_default();
        subject
    }

    /// Waits for the answer; `None` if it was given up.
    pub(crate) async fn answer(&mut self) -> Option<T> {
        (&mut self.answer).await.ok()
    }
}

impl<T, R> Drop for Ticket<'_, T, R> {
    fn drop(&mut self) {
        let waiter = self.pending.lock().remove(self.token);
        drop(waiter);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn short() -> Wait {
        Duration::ZERO.into()
    }

    #[tokio::test]
    async fn nothing_stays_behind() {
        let pending = Pending::new("inbox.".to_owned());
        let mut answered = pending.wait(short(), ()).unwrap();
        let given_up = pending.wait(Wait::long(Duration::ZERO), ()).unwrap();
        assert_ne!(answered.subject(), given_up.subject());
        pending.take(&answered.subject()).unwrap().send(7).unwrap();
        assert!(pending.take(&answered.subject()).is_none(), "the second answer finds nobody");
        assert_eq!(answered.answer().await, Some(7));
        drop((answered, given_up));
        assert!(pending.lock().short.is_empty() && pending.lock().long.is_empty());
    }

    #[tokio::test]
    async fn how_a_request_was_sent_is_taken_once() {
        let pending = Pending::<(), Option<u8>>::new("inbox.".to_owned());
        let tickets = [short(), Wait::long(Duration::ZERO)].map(|wait| pending.wait(wait, Some(7)));
        for subject in tickets.iter().flatten().map(Ticket::subject) {
            assert_eq!(pending.take_sent(&subject), Some(Some(7)));
            assert_eq!(pending.take_sent(&subject), Some(None), "taken before");
        }
        let [gone, _] = tickets.map(Option::unwrap);
        let subject = gone.subject();
        drop(gone);
        assert_eq!(pending.take_sent(&subject), None);
    }

    #[tokio::test]
    async fn answers_are_known_by_their_subjects() {
        let pending = Pending::<()>::new("inbox.".to_owned());
        let ticket = pending.wait(short(), ()).unwrap();
        let cases = [
            (ticket.subject(), true),
            ("inbox.18446744073709551615".to_owned(), true),
            (format!("x{}", ticket.subject()), false),
            (format!("{}.x", ticket.subject()), false),
            ("inbox.".to_owned(), false),
            ("inbox1".to_owned(), false),
        ];
        for (subject, expected) in cases {
            assert_eq!(pending.is_asked_at(&subject), expected, "{subject}");
        }
    }

    #[tokio::test]
    async fn a_subject_says_nothing_of_others() {
        let [one, other] = [(); 2].map(|()| Pending::<()>::new("inbox.".to_owned()));
        let tickets = [&one, &one, &other].map(|pending| pending.wait(short(), ()).unwrap());
        let [first, second, elsewhere] = tickets.each_ref().map(|ticket| ticket.token);
        assert_eq!([first, second, elsewhere].map(|token| token >> 64), [1, 2, 1]);
        let seals = [first, second, elsewhere].map(|token| token & u128::from(u64::MAX));
        assert!(seals[0] != seals[1] && seals[0] != seals[2], "{seals:x?}");
        // What follows from the number alone finds nobody.
        for guess in [2 << 64, (2 << 64) | seals[0], second ^ 1] {
            assert!(one.take(&format!("inbox.{guess:x}")).is_none(), "{guess:x}");
        }
        assert!(one.take(&tickets[1].subject()).is_some());
    }

    #[tokio::test]
    async fn waiting_is_bounded() {
        let pending = Pending::<()>::new("inbox.".to_owned());
        let long = Wait::long(Duration::ZERO);
        let mut tickets = Vec::new();
        let mut fill = |wait, count| {
            for _ in 0..count {
                tickets.push(pending.wait(wait, ()).unwrap());
            }
            assert!(pending.wait(wait, ()).is_none());
        };
        fill(long, LONG_MAX);
        fill(short(), REQUESTS_MAX - LONG_MAX);
        // One more place is anybody's, where those who wait long have not their part.
        tickets.pop();
        assert!(pending.wait(long, ()).is_none());
        tickets.push(pending.wait(short(), ()).unwrap());
        tickets.swap_remove(0);
        assert!(pending.wait(long, ()).is_some());
        tickets.push(pending.wait(short(), ()).unwrap());
        assert!(pending.wait(long, ()).is_none());
    }
}
