//! Requests to models, tools and agents: made until they are answered, stopped if nobody waits.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, Content, Message, Parcel, Wait};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tools::Missed;
use tools::messenger::{is_refusal, may_pass};
use wire::error::ErrorBody;
use wire::{ErrorCode, Headers, Name, Timestamp, WireError, WorkId, header};

use crate::clock;
use crate::context::TeamContext;
use crate::worklist;

/// The first pause before a request is made again that nobody took.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause between two attempts.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How often a turn is asked for again because the connection was lost: each time another process
/// may be at work on it, and be paid for. After that the answer is waited for, which comes over the
/// connection that is there again, unless it was sent just as there was none.
pub(super) const REPEATS_MAX: u32 = 3;

/// As often as the connection is lost: for what is begun once however often it is asked for, or
/// costs nothing.
pub(super) const REPEATS_UNBOUNDED: u32 = u32::MAX;

/// A request to a model, a tool or an agent.
pub(crate) struct Asking {
    pub(crate) subject: String,
    pub(crate) headers: Headers,
    /// Until when the answer is of use.
    pub(crate) deadline: Timestamp,
    /// How much of that whoever answers is not told of, since it is for the way of the answer.
    pub(crate) grace: Duration,
    /// How it is stopped, if it can be.
    pub(crate) stop: Option<Stop>,
    /// How often it is made again because the connection was lost, although somebody may have taken
    /// it: a turn changes nothing, and a run is known by its id. That is once the connection is
    /// there again, unless the work is under way in this process, from where its answer needs none.
    pub(crate) repeats_max: u32,
    /// Whether it is made again while nobody listens.
    pub(crate) patient: bool,
    /// Whether the answer is that of a run or a person.
    pub(crate) is_long: bool,
}

/// How those who work on a request are told that nobody waits any more.
#[derive(Clone)]
pub(crate) struct Stop {
    pub(crate) whom: Stopped,
    pub(crate) work: WorkId,
}

/// Who works on what is to be stopped.
#[derive(Clone)]
pub(crate) enum Stopped {
    Model(Name),
    Tool(Name),
}

impl Stop {
    /// Returns where all who may work on it hear of stops.
    fn subject(&self, context: &TeamContext) -> String {
        let (subjects, team) = (&context.subjects, &context.team.name);
        match &self.whom {
            Stopped::Model(model) => subjects.model_stop(team, model),
            Stopped::Tool(tool) => subjects.tool_stop(team, tool),
        }
    }
}

impl Asking {
    /// Makes the request for a model's turn.
    pub(crate) fn of_model(
        context: &TeamContext,
        model: &Name,
        work: WorkId,
        headers: Headers,
        deadline: Timestamp,
    ) -> Self {
        let (subjects, team) = (&context.subjects, &context.team.name);
        let stop = Some(Stop { whom: Stopped::Model(model.clone()), work });
        let subject = subjects.model(team, model);
        let grace = Duration::ZERO;
        let (repeats_max, patient, is_long) = (REPEATS_MAX, true, false);
        Self { subject, headers, deadline, grace, stop, repeats_max, patient, is_long }
    }
}

/// One attempt at a request. Unless it is said to have ended, its drop stops the work.
pub(crate) struct Waiting {
    context: Arc<TeamContext>,
    stop: Stop,
    ended: bool,
}

impl Waiting {
    fn begin(context: &Arc<TeamContext>, stop: &Stop) -> Self {
        let stop = Stop { work: stop.work.attempt(), ..stop.clone() };
        Self { context: context.clone(), stop, ended: false }
    }

    pub(super) fn end(mut self) {
        self.ended = true;
    }

    /// Tells whether this process is at work on it.
    fn is_here(&self) -> bool {
        self.context.work.has(&self.stop.work)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.ended {
            stop(&self.context, &self.stop);
        }
    }
}

/// Tells that nobody waits for some work any more. This process heeds it at once: over a server that
/// stands still the stop comes behind the request, which would begin before it is stopped.
pub(crate) fn stop(context: &TeamContext, stop: &Stop) {
    context.work.stop(&stop.work);
    // A process that ends stops its work by ending.
    let Ok(runtime) = Handle::try_current() else { return };
    let (bus, subject, work) = (context.bus.clone(), stop.subject(context), stop.work.clone());
    runtime.spawn(async move { worklist::tell(&bus, &subject, &work).await });
}

/// Makes a request until it is answered or its time is over.
///
/// It is made again only where it is certain that nobody took it, or where the answer says that
/// nothing was begun. Whoever may be at work on it is told to stop if nobody waits any more,
/// because the time is over or because this future is dropped.
pub(crate) async fn request<T: Answer>(
    context: &Arc<TeamContext>,
    asking: &Asking,
    body: Arc<dyn Content>,
) -> Result<T, Missed> {
    let (answer, waiting) = request_held(context, asking, body).await?;
    if let Some(waiting) = waiting {
        waiting.end();
    }
    Ok(answer)
}

/// Like [`request`], for work that may go on after an answer: it is stopped by the drop of what
/// comes with the answer, unless that is ended.
pub(super) async fn request_held<T: Answer>(
    context: &Arc<TeamContext>,
    asking: &Asking,
    body: Arc<dyn Content>,
) -> Result<(T, Option<Waiting>), Missed> {
    let mut may_be_taken = false;
    let asked = ask(context, asking, body, &mut may_be_taken).await;
    asked.map_err(|missed| match missed {
        // What becomes of a later attempt says nothing of one whose answer was lost.
        Missed::NotDelivered(error) if may_be_taken => Missed::Unanswered(error),
        missed => missed,
    })
}

async fn ask<T: Answer>(
    context: &Arc<TeamContext>,
    asking: &Asking,
    body: Arc<dyn Content>,
    may_be_taken: &mut bool,
) -> Result<(T, Option<Waiting>), Missed> {
    let end = Instant::now() + clock::until(asking.deadline);
    let mut pause = PAUSE_MIN;
    let mut asks_server = false;
    let mut repeats = 0;
    loop {
        let remaining = end.saturating_duration_since(Instant::now());
        let wait = if asking.is_long { Wait::long(remaining) } else { remaining.into() };
        let wait = wait.with_grace(asking.grace);
        let mut headers = asking.headers.clone().with(header::REMAINING_MS, wait.told_ms());
        let waiting = asking.stop.as_ref().map(|stop| Waiting::begin(context, stop));
        if let Some(waiting) = &waiting {
            headers.insert(header::WORK, waiting.stop.work.clone());
        }
        // Who is in the process may be asked past the server. One that has no room is asked again
        // in turn with the others, which are asked over it.
        let near = if asks_server && context.bus.is_connected() {
            None
        } else {
            context.bus.near(&asking.subject)
        };
        let is_near = near.is_some();
        let bus = near.unwrap_or_else(|| context.bus.clone());
        let may_repeat = repeats < asking.repeats_max;
        let sent = {
            let request = pin!(bus.request_of(&asking.subject, headers, body.clone(), wait));
            attempt(&bus, request, waiting.as_ref(), may_repeat).await
        };
        let Some(sent) = sent else {
            *may_be_taken = true;
            repeats += 1;
            continue;
        };
        let ended = sent.as_ref().err().is_none_or(is_unheard);
        let missed = match sent.map(read::<T>) {
            Ok(Ok(answer)) => return Ok((answer, waiting)),
            Ok(Err(error)) => Ok(error),
            Err(error) => Err(error),
        };
        if let Some(waiting) = waiting
            && ended
        {
            waiting.end();
        }
        let (error, wait) = match missed {
            Ok(error) if may_pass(error.code) => {
                let wait = error.retry_after_ms.map(Duration::from_millis);
                (error, wait)
            }
            Ok(error) if is_refusal(error.code) => return Err(Missed::NotDelivered(error)),
            // Whoever answers so, or so that it cannot be read, may have done the work.
            Ok(error) => return Err(Missed::Unanswered(error)),
            Err(error @ bus::Error::NoResponders { .. }) if !asking.patient && !is_near => {
                return Err(Missed::NotDelivered(error.to_wire()));
            }
            Err(error @ (bus::Error::NoResponders { .. } | bus::Error::Overflow { .. })) => {
                (error.to_wire(), None)
            }
            // It has waited already.
            Err(bus::Error::NotSent { .. }) if Instant::now() < end => continue,
            Err(error @ bus::Error::Timeout { .. }) => {
                return Err(Missed::Unanswered(error.to_wire()));
            }
            Err(
                error @ (bus::Error::NotSent { .. }
                | bus::Error::TooLarge { .. }
                | bus::Error::InvalidSubject { .. }
                | bus::Error::Unwritable { .. }),
            ) => {
                return Err(Missed::NotDelivered(error.to_wire()));
            }
            Err(error) => return Err(Missed::Unanswered(error.to_wire())),
        };
        asks_server = is_near;
        let wait = wait.unwrap_or(pause).min(PAUSE_MAX);
        if Instant::now() + wait >= end {
            return Err(Missed::NotDelivered(error));
        }
        sleep(wait).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Waits for the answer to one attempt. Returns none if it is to be made again, since the
/// connection was lost meanwhile, and the request or its answer may be lost with it.
async fn attempt(
    bus: &Bus,
    mut request: Pin<&mut (dyn Future<Output = Result<Parcel, bus::Error>> + Send)>,
    waiting: Option<&Waiting>,
    may_repeat: bool,
) -> Option<Result<Parcel, bus::Error>> {
    let mut mended = bus.mended();
    loop {
        tokio::select! {
            // What is answered is not asked for again.
            biased;
            sent = &mut request => return Some(sent),
            () = &mut mended, if may_repeat => {
                mended = bus.mended();
                if !waiting.is_some_and(Waiting::is_here) {
                    return None;
                }
            }
        }
    }
}

/// Tells whether an error says that nobody has the request.
const fn is_unheard(error: &bus::Error) -> bool {
    matches!(
        error,
        bus::Error::NoResponders { .. } | bus::Error::Overflow { .. } | bus::Error::NotSent { .. }
    )
}

/// What an answer may hold.
pub(crate) trait Answer: DeserializeOwned + Clone + Send + Sync + 'static {}

impl<T: DeserializeOwned + Clone + Send + Sync + 'static> Answer for T {}

/// Takes what an answer holds: the body that was promised, or an error.
fn read<T: Answer>(answer: Parcel) -> Result<T, WireError> {
    match answer.read() {
        Ok(body) => {
            // Who answered in this process has let go of it.
            drop(answer);
            Ok(Arc::unwrap_or_clone(body))
        }
        Err(_) => decode(&answer.into_message()),
    }
}

/// Reads an answer: the body that was promised, or an error.
pub(crate) fn decode<T: DeserializeOwned>(message: &Message) -> Result<T, WireError> {
    match serde_json::from_slice::<T>(&message.payload) {
        Ok(answer) => Ok(answer),
        Err(error) => {
            if let Ok(body) = serde_json::from_slice::<ErrorBody>(&message.payload) {
                return Err(body.error);
            }
            let told = message.headers.get(header::SERVICE_ERROR).unwrap_or_default();
            let text = format!("the answer on {} cannot be read: {error} {told}", message.subject);
            Err(WireError::new(ErrorCode::ToolFailed, text.trim_end()))
        }
    }
}
