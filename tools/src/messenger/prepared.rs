//! A messenger whose answers are prepared.

use std::collections::VecDeque;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use futures_util::stream;
use tokio::time::sleep;
use wire::{ErrorCode, Subjects};

use super::{BoxFuture, BoxStream, Duration, Letter, Messenger, Missed, WireError};

/// How much later than asked for a wait may end.
const TICK: Duration = Duration::from_millis(1);

/// Answers requests in order with what was prepared, and keeps them.
#[derive(Default)]
pub(crate) struct PreparedMessenger {
    /// `None` is a request that is never answered.
    pub(crate) answers: Mutex<VecDeque<Option<Result<Letter, Missed>>>>,
    pub(crate) sent: Mutex<Vec<Letter>>,
    pub(crate) subjects: Subjects,
    /// Whether a request that is never answered does not leave either.
    pub(crate) is_away: bool,
}

impl Messenger for PreparedMessenger {
    fn request(&self, letter: Letter, wait: Duration) -> BoxFuture<'_, Result<Letter, Missed>> {
        self.sent.lock().unwrap().push(letter);
        let missing = || {
            let error = WireError::new(ErrorCode::Unavailable, "no answer is prepared");
            Some(Err(Missed::NotDelivered(error)))
        };
        match self.answers.lock().unwrap().pop_front().unwrap_or_else(missing) {
            Some(answer) => async { answer }.boxed(),
            None if self.is_away => async move {
                sleep(wait + TICK).await;
                let error = WireError::new(ErrorCode::NatsUnavailable, "nothing was sent");
                Err(Missed::NotDelivered(error))
            }
            .boxed(),
            None => async move {
                sleep(wait).await;
                let error = WireError::new(ErrorCode::DeadlineExceeded, "no answer in time");
                Err(Missed::Unanswered(error))
            }
            .boxed(),
        }
    }

    fn publish(&self, letter: Letter) -> BoxFuture<'_, Result<(), Missed>> {
        self.sent.lock().unwrap().push(letter);
        async { Ok(()) }.boxed()
    }

    fn subscribe<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Letter>, WireError>> {
        async { Ok::<BoxStream<'static, Letter>, _>(Box::pin(stream::pending())) }.boxed()
    }

    fn new_inbox(&self) -> String {
        "_INBOX.prepared".to_owned()
    }

    fn is_own(&self, subject: &str) -> bool {
        self.subjects.owns(subject)
    }
}
