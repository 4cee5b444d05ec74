//! What a call has to say before it is over: how far it has come, and what it wants to know of a
//! person. Its time stands still while a person is asked.

use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use wire::Said;
use wire::question::Progress;

/// The end that a call has of its runtime.
#[derive(Clone, Debug)]
pub struct Interim(Arc<Shared>);

/// The end that the runtime has of a call to which it does not listen yet. Dropped, it never will.
#[derive(Debug)]
pub struct Ear(Arc<Shared>);

/// What both ends are made of.
#[derive(Debug)]
struct Shared {
    /// When the call's time is over, as it was at its beginning.
    end: Instant,
    state: Mutex<State>,
}

/// Most calls are over before anybody listens and say nothing, so that nothing is made for them.
#[derive(Debug)]
enum State {
    Unused,
    /// The call has its ends; the runtime's are kept here until it listens.
    Open(Ends, Option<Heard>),
    /// Nobody will listen.
    Deaf,
}

/// What a call says, and what it is told.
#[derive(Clone, Debug)]
struct Ends {
    questions: mpsc::Sender<Box<Asked>>,
    progress: watch::Sender<Progress>,
    end: watch::Receiver<Option<Instant>>,
}

/// The end that the runtime has of a call to which it listens.
#[derive(Debug)]
pub struct Heard {
    /// The questions, one after the other. In boxes, since a queue has room for many and few calls
    /// ask anything.
    pub questions: mpsc::Receiver<Box<Asked>>,
    /// How far the call has come; what is not looked at in time is lost.
    pub progress: watch::Receiver<Progress>,
    /// When the call's time is over; absent while it stands still.
    pub end: watch::Sender<Option<Instant>>,
}

/// A question that waits for what a person says; the sender is closed when nobody wants to know
/// any more.
#[derive(Debug)]
pub struct Asked {
    /// What the person is asked.
    pub text: String,
    /// The JSON Schema of what is to be filled in.
    pub form: Value,
    /// Where to say it. Dropped, it says that nobody answers.
    pub said: oneshot::Sender<Said>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self) -> (Ends, Heard) {
        let (questions, on_question) = mpsc::channel(1);
        let progress = watch::Sender::new(Progress::default());
        let end = watch::Sender::new(Some(self.end));
        let on_progress = progress.subscribe();
        let ends = Ends { questions, progress, end: end.subscribe() };
        (ends, Heard { questions: on_question, progress: on_progress, end })
    }
}

impl Interim {
    /// Makes both ends for a call whose time is over at some time.
    pub fn open(end: Instant) -> (Self, Ear) {
        let shared = Arc::new(Shared { end, state: Mutex::new(State::Unused) });
        (Self(shared.clone()), Ear(shared))
    }

    /// Makes the end of a call that nobody listens to, and which has some time.
    pub fn unheard(time: Duration) -> Self {
        Self::open(Instant::now() + time).0
    }

    /// Asks a person, and waits until one has spoken or it is certain that none will. Whoever asks
    /// while another question is open waits for that.
    pub async fn ask(&self, text: String, form: Value) -> Said {
        let Some(Ends { questions, .. }) = self.ends() else { return Said::Cancel };
        let (said, on_said) = oneshot::channel();
        if questions.send(Box::new(Asked { text, form, said })).await.is_err() {
            return Said::Cancel;
        }
        on_said.await.unwrap_or(Said::Cancel)
    }

    /// Says how far the call has come. What does not go on from the last is not said.
    pub fn progress(&self, progress: Progress) {
        let Some(ends) = self.ends() else { return };
        ends.progress.send_if_modified(|last| {
            let goes_on = progress.done > last.done || *last == Progress::default();
            if goes_on {
                *last = progress;
            }
            goes_on
        });
    }

    /// Waits until the call's time is nearly over: all of it but a margin.
    pub async fn nearly_over(&self, margin: Duration) {
        match self.ends() {
            Some(ends) => over(ends.end, margin).await,
            None => sleep_until(before(self.0.end, margin)).await,
        }
    }

    /// Returns what the call says and is told through, unless nobody will listen.
    fn ends(&self) -> Option<Ends> {
        let mut state = self.0.state();
        if matches!(*state, State::Unused) {
            let (ends, heard) = self.0.make();
            *state = State::Open(ends, Some(heard));
        }
        match &*state {
            State::Open(ends, _) => Some(ends.clone()),
            State::Unused | State::Deaf => None,
        }
    }
}

impl Ear {
    /// Listens from here on, also to what the call said before.
    pub fn listen(self) -> Heard {
        let mut state = self.0.state();
        if let State::Open(_, heard) = &mut *state
            && let Some(heard) = heard.take()
        {
            return heard;
        }
        let (ends, heard) = self.0.make();
        *state = State::Open(ends, None);
        heard
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let has_listened = matches!(*state, State::Open(_, None));
        if !has_listened {
            *state = State::Deaf;
        }
    }
}

impl Heard {
    /// Waits until the call's time is over.
    pub fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        over(self.end.subscribe(), Duration::ZERO)
    }
}

fn before(end: Instant, margin: Duration) -> Instant {
    end.checked_sub(margin).unwrap_or(end)
}

async fn over(mut end: watch::Receiver<Option<Instant>>, margin: Duration) {
    loop {
        let at = *end.borrow_and_update();
        let passed = || async move {
            match at {
                Some(at) => sleep_until(before(at, margin)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = end.changed() => if changed.is_err() {
                // Nobody moves it any more.
                return passed().await;
            },
            () = passed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::{advance, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn time_stands_still_while_a_person_is_asked() {
        let (interim, ear) = Interim::open(Instant::now() + 10 * SECOND);
        let heard = ear.listen();
        assert!(timeout(8 * SECOND, interim.nearly_over(SECOND)).await.is_err());
        heard.end.send_replace(None);
        assert!(timeout(100 * SECOND, heard.over()).await.is_err());
        heard.end.send_replace(Some(Instant::now() + 2 * SECOND));
        let began = Instant::now();
        interim.nearly_over(SECOND).await;
        assert_eq!(began.elapsed(), SECOND);
        heard.over().await;
        assert_eq!(began.elapsed(), 2 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_is_answered_or_nobody_is_there() {
        let (interim, ear) = Interim::open(Instant::now() + SECOND);
        let mut heard = ear.listen();
        let ask = |text: &'static str| interim.ask(text.to_owned(), json!({}));
        let (said, ()) = tokio::join!(ask("a"), async {
            let asked = heard.questions.recv().await.unwrap();
            assert_eq!(asked.text, "a");
            asked.said.send(Said::Decline).unwrap();
        });
        assert_eq!(said, Said::Decline);
        let (said, ()) = tokio::join!(ask("b"), async {
            drop(heard.questions.recv().await.unwrap());
        });
        assert_eq!(said, Said::Cancel);
        // Who does not want to know any more is noticed.
        let mut asked = {
            let mut waits = Box::pin(ask("c"));
            assert!(timeout(SECOND, &mut waits).await.is_err());
            heard.questions.recv().await.unwrap()
        };
        asked.said.closed().await;
        drop(heard);
        assert_eq!(ask("d").await, Said::Cancel);
        let unheard = Interim::unheard(SECOND);
        assert_eq!(unheard.ask("e".to_owned(), json!({})).await, Said::Cancel);
        advance(SECOND).await;
        unheard.nearly_over(Duration::ZERO).await;
    }

    #[tokio::test]
    async fn progress_goes_on_or_is_not_said() {
        let (interim, ear) = Interim::open(Instant::now() + SECOND);
        let mut heard = ear.listen();
        for (done, is_said) in [(0.0, false), (1.0, true), (1.0, false), (0.5, false), (2.0, true)]
        {
            interim.progress(Progress { done, total: Some(3.0), text: None });
            let told = heard.progress.has_changed().unwrap();
            heard.progress.mark_unchanged();
            // The first is said also if nothing is done yet.
            assert_eq!(told, is_said || done == 0.0, "{done}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_before_anybody_listened_is_heard_and_nobody_waits_for_the_deaf() {
        let (interim, ear) = Interim::open(Instant::now() + SECOND);
        interim.progress(Progress { done: 2.0, total: None, text: None });
        let ask = interim.ask("a".to_owned(), json!({}));
        let listen = async {
            // The question is there before anybody listens.
            tokio::task::yield_now().await;
            let mut heard = ear.listen();
            let progress = Progress { done: 2.0, total: None, text: None };
            assert_eq!(*heard.progress.borrow_and_update(), progress);
            let asked = heard.questions.recv().await.unwrap();
            assert_eq!(asked.text, "a");
            asked.said.send(Said::Decline).unwrap();
            heard
        };
        let (said, heard) = tokio::join!(ask, listen);
        assert_eq!(said, Said::Decline);
        // The time is moved also for who began to wait before anybody listened.
        let (other, ear) = Interim::open(Instant::now() + SECOND);
        let mut waits = Box::pin(other.nearly_over(Duration::ZERO));
        assert!(timeout(SECOND / 2, &mut waits).await.is_err());
        let moves = ear.listen();
        moves.end.send_replace(Some(Instant::now() + 5 * SECOND));
        let began = Instant::now();
        waits.await;
        assert_eq!(began.elapsed(), 5 * SECOND);
        drop(heard);
        // A question that is open when it is certain that nobody listens is not waited for.
        let (interim, ear) = Interim::open(Instant::now() + SECOND);
        let ask = interim.ask("b".to_owned(), json!({}));
        let leave = async {
            tokio::task::yield_now().await;
            drop(ear);
        };
        let (said, ()) = tokio::join!(ask, leave);
        assert_eq!(said, Said::Cancel);
        assert_eq!(interim.ask("c".to_owned(), json!({})).await, Said::Cancel);
    }
}
