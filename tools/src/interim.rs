//! What a call has to say before it is over: how far it has come, and what it wants to know of a
//! person. Its time stands still while a person is asked.

use std::future::pending;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use wire::Said;
use wire::question::Progress;

/// The end that a call has of its runtime.
#[derive(Clone, Debug)]
pub struct Interim {
    questions: mpsc::Sender<Box<Asked>>,
    progress: watch::Sender<Progress>,
    end: watch::Receiver<Option<Instant>>,
}

/// The end that the runtime has of a call.
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

impl Interim {
    /// Makes both ends for a call whose time is over at some time.
    pub fn open(end: Instant) -> (Self, Heard) {
        let (questions, on_question) = mpsc::channel(1);
        let progress = watch::Sender::new(Progress::default());
        let ends = watch::Sender::new(Some(end));
        let interim = Self { questions, progress: progress.clone(), end: ends.subscribe() };
        let heard = Heard { questions: on_question, progress: progress.subscribe(), end: ends };
        (interim, heard)
    }

    /// Makes the end of a call that nobody listens to, and which has some time.
    pub fn unheard(time: Duration) -> Self {
        Self::open(Instant::now() + time).0
    }

    /// Asks a person, and waits until one has spoken or it is certain that none will. Whoever asks
    /// while another question is open waits for that.
    pub async fn ask(&self, text: String, form: Value) -> Said {
        let (said, on_said) = oneshot::channel();
        if self.questions.send(Box::new(Asked { text, form, said })).await.is_err() {
            return Said::Cancel;
        }
        on_said.await.unwrap_or(Said::Cancel)
    }

    /// Says how far the call has come. What does not go on from the last is not said.
    pub fn progress(&self, progress: Progress) {
        self.progress.send_if_modified(|last| {
            let goes_on = progress.done > last.done || *last == Progress::default();
            if goes_on {
                *last = progress;
            }
            goes_on
        });
    }

    /// Waits until the call's time is nearly over: all of it but a margin.
    pub async fn nearly_over(&self, margin: Duration) {
        over(self.end.clone(), margin).await;
    }
}

impl Heard {
    /// Waits until the call's time is over.
    pub fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        over(self.end.subscribe(), Duration::ZERO)
    }
}

async fn over(mut end: watch::Receiver<Option<Instant>>, margin: Duration) {
    loop {
        let at = *end.borrow_and_update();
        let passed = async {
            match at {
                Some(at) => sleep_until(at.checked_sub(margin).unwrap_or(at)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = end.changed() => if changed.is_err() {
                // Nobody moves it any more.
                return match at {
                    Some(at) => sleep_until(at.checked_sub(margin).unwrap_or(at)).await,
                    None => pending().await,
                };
            },
            () = passed => return,
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
        let (interim, heard) = Interim::open(Instant::now() + 10 * SECOND);
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
        let (interim, mut heard) = Interim::open(Instant::now() + SECOND);
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
        let (interim, mut heard) = Interim::open(Instant::now() + SECOND);
        for (done, is_said) in [(0.0, false), (1.0, true), (1.0, false), (0.5, false), (2.0, true)]
        {
            interim.progress(Progress { done, total: Some(3.0), text: None });
            let told = heard.progress.has_changed().unwrap();
            heard.progress.mark_unchanged();
            // The first is said also if nothing is done yet.
            assert_eq!(told, is_said || done == 0.0, "{done}");
        }
    }
}
