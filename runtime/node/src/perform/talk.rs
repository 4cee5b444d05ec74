//! Calls of tools that ask people while they are under way: made, answered, and heard to their end.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use agents_core::effect::CallEffect;
use bus::Content;
use futures_util::future::OptionFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tools::Missed;
use wire::question::{QuestionRequest, Void};
use wire::{ErrorCode, Headers, Input, Name, Question, Said, SessionId, Timestamp, ToolReply};

use super::asking::{Asking, PAUSE_MAX, PAUSE_MIN, REPEATS_UNBOUNDED, request};
use super::begin_call;
use crate::clock;
use crate::context::TeamContext;

/// How long a question is watched for becoming void; longer than any is open.
const VOID_WAIT: Duration = Duration::from_secs(8 * 24 * 3600);

/// How long the process of a call that asked something may be away: after a loss of the server
/// nobody listens until its client is back, which tries again after five seconds at the latest, and
/// may have to do so twice.
const AWAY_MAX: Duration = Duration::from_secs(10);

/// How long the outcome of a call is awaited that ended while it was told an answer: it was sent
/// before that found nobody.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// What a call under way is told.
#[derive(Debug)]
pub(crate) struct Say {
    pub(crate) question: Name,
    pub(crate) said: Said,
    /// When the outcome must be there.
    pub(crate) deadline: Timestamp,
}

/// How a call that asked something is told what is said to it. In a box, since a queue has room for
/// many and few calls ask anything.
pub(crate) type Saying = mpsc::Sender<Box<Say>>;

/// Makes a call, reports what it asks and tells it what is said, until it is over. `asks` is given
/// how that is said before anything is asked. Dropped before its end, it stops the call.
pub(crate) async fn converse(
    context: &Arc<TeamContext>,
    session: &SessionId,
    call: &CallEffect,
    asks: impl Fn(Saying),
    report: impl Fn(Input),
) -> ToolReply {
    let (mut reply, held) = begin_call(context, session, call).await;
    let mut hearing = None;
    while let ToolReply::Asks { question } = reply {
        // Few calls ask anything, and the others need no queue.
        let said = hearing.get_or_insert_with(|| {
            let (saying, said) = mpsc::channel(1);
            asks(saying);
            said
        });
        let asked = question.clone();
        report(Input::CallAsked { call: call.call.clone(), attempt: call.attempt, question });
        reply = call.judge(Box::pin(answered(context, call, &asked, said, &report)).await);
    }
    // One of which nobody has heard the end may still be at work: it is stopped by the drop.
    if let Some(held) = held
        && !matches!(reply, ToolReply::Lost { .. })
    {
        held.end();
    }
    reply
}

/// Waits until somebody has answered a question or it is void, and returns what the call says next.
async fn answered(
    context: &Arc<TeamContext>,
    call: &CallEffect,
    question: &Question,
    saying: &mut mpsc::Receiver<Box<Say>>,
    report: &impl Fn(Input),
) -> ToolReply {
    let asking = |deadline, watches| Asking {
        subject: context.subjects.question(&context.team.name, &call.name, &question.id),
        headers: Headers::new(),
        deadline,
        grace: Duration::ZERO,
        stop: None,
        // To watch costs nothing.
        repeats_max: if watches { REPEATS_UNBOUNDED } else { 0 },
        // Only the tool that asked listens, and is waited for here.
        patient: false,
        is_long: watches,
    };
    let watch = u64::try_from(VOID_WAIT.as_millis()).unwrap_or(u64::MAX);
    let watching = asking(clock::now().plus_ms(watch), true);
    let void = pin!(watch_question(context, &watching));
    let mut void = Some(void);
    let say = loop {
        tokio::select! {
            // A call that is over has said its last, whatever it is still to be told.
            biased;
            Some(found) = OptionFuture::from(void.as_mut()) => match found {
                Ok(Void::Over { reply }) => return reply,
                Ok(Void::Withdrawn) => {
                    void = None;
                    let (call, question) = (call.call.clone(), question.id.clone());
                    report(Input::QuestionAnswered { call, question, said: Said::Cancel });
                }
                Err(Missed::Unanswered(error)) if error.code != ErrorCode::Unavailable => {
                    void = None;
                }
                // Nobody listens, though somebody may have before the connection was lost.
                Err(Missed::NotDelivered(error) | Missed::Unanswered(error)) => {
                    return gone(call, &error.message);
                }
            },
            say = saying.recv() => match say {
                Some(say) if say.question == question.id => break say,
                Some(_) => {}
                None => return gone(call, "its session has ended"),
            },
        }
    };
    deliver(context, call, &asking(say.deadline, false), say.said, void).await
}

/// Tells a call what was said to its question, though its process may be away, and returns what
/// the call says next. `void` is ready once the question is void, as long as that is watched.
async fn deliver(
    context: &Arc<TeamContext>,
    call: &CallEffect,
    telling: &Asking,
    said: Said,
    mut void: Option<Pin<&mut impl Future<Output = Result<Void, Missed>>>>,
) -> ToolReply {
    let told: Arc<dyn Content> = Arc::new(QuestionRequest::Say { said });
    let mut away = Away::begin();
    loop {
        let error = match request::<ToolReply>(context, telling, told.clone()).await {
            Ok(reply) => return reply,
            Err(Missed::Unanswered(error)) => return ToolReply::unanswered(error),
            Err(Missed::NotDelivered(error)) => error,
        };
        // The call was made before, so that nobody heard the answer does not undo it. It may have
        // ended at that moment, and what it came to is on its way.
        let pause = away.pause().filter(|_| error.code == ErrorCode::Unavailable);
        let wait = pause.unwrap_or(LAST_WAIT);
        match &mut void {
            Some(watched) => match timeout(wait, watched).await {
                Ok(Ok(Void::Over { reply })) => return reply,
                Ok(Ok(Void::Withdrawn) | Err(_)) => void = None,
                Err(_) => {}
            },
            None => sleep(wait).await,
        }
        if pause.is_none() {
            return gone(call, &error.message);
        }
    }
}

/// Waits until a question is void, while the process of its call is there or may come back.
async fn watch_question(context: &Arc<TeamContext>, watching: &Asking) -> Result<Void, Missed> {
    let watch: Arc<dyn Content> = Arc::new(QuestionRequest::Wait);
    let mut away = Away::begin();
    loop {
        let found = request::<Void>(context, watching, watch.clone()).await;
        let code = match &found {
            // It was there until the connection was lost.
            Err(Missed::Unanswered(error)) => {
                away = Away::begin();
                error.code
            }
            Err(Missed::NotDelivered(error)) => error.code,
            Ok(_) => return found,
        };
        match away.pause().filter(|_| code == ErrorCode::Unavailable) {
            Some(pause) => sleep(pause).await,
            None => return found,
        }
    }
}

/// How long somebody is looked for who is away.
struct Away {
    end: Instant,
    pause: Duration,
}

impl Away {
    fn begin() -> Self {
        Self { end: Instant::now() + AWAY_MAX, pause: PAUSE_MIN }
    }

    /// Returns how long to wait before it is looked again, unless it was looked for long enough.
    fn pause(&mut self) -> Option<Duration> {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        (Instant::now() + pause < self.end).then_some(pause)
    }
}

fn gone(call: &CallEffect, why: &str) -> ToolReply {
    let text = format!("{} asked a question and was gone before it was answered: {why}", call.name);
    ToolReply::lost(ErrorCode::ToolUnavailable, text)
}
