//! The line between a call under way and whoever made it: questions one way, answers the other,
//! and how far the call has come for those who watch.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bus::{Message, Subscription};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tools::interim::{Asked, Heard};
use tools::secret::clean;
use tracing::debug;
use wire::event::EventKind;
use wire::question::{Progress, QUESTIONS_MAX, QuestionRequest, Void};
use wire::{
    Event, Headers, Name, Question, RunId, Said, Timestamp, ToolReply, ToolRequest, TraceContext,
    WireError, header,
};

use super::{Served, shortened};
use crate::clean;
use crate::clock;
use crate::feed::{self, QUEUE_GROUP};

/// How long past its time a question is kept open for the session, which ends it in time unless it
/// is gone.
const QUESTION_GRACE: Duration = Duration::from_secs(10);

/// How long a call that ends with an open question waits to be asked about it.
const LINGER: Duration = Duration::from_secs(5);

/// How long it waits where the session knows that the question is withdrawn, and comes once that is
/// durable: a disk that was full may have room again.
const VOID_LINGER: Duration = Duration::from_secs(60);

/// The least time between two events of one call's progress: people see no more, and a server may
/// say a thousand things a second.
const PROGRESS_PAUSE: Duration = Duration::from_millis(250);

/// The line of one call.
pub(super) struct Line {
    served: Arc<Served>,
    /// Who is to be answered next; nobody while a question is open.
    caller: Option<Message>,
    open: Option<Open>,
    asked: u32,
    /// Whether nobody wants the outcome any more.
    is_stopped: bool,
}

/// A question that is open.
struct Open {
    subscription: Subscription,
    /// Where to say what was said; absent once the tool does not want to know any more.
    said: Option<oneshot::Sender<Said>>,
    /// Who waits to hear that the question is void.
    waiting: Option<Message>,
    until: Instant,
    /// Whether whoever made the call knows that the question is withdrawn. The only way to him is
    /// then the answer that he gives in the place of a person.
    is_known_void: bool,
}

/// What happens to an open question.
enum Turn {
    Asked(Message, QuestionRequest),
    Withdrawn,
    /// Nobody came.
    Forgotten,
}

impl Open {
    async fn next(&mut self) -> Turn {
        loop {
            let withdrawn = async {
                match &mut self.said {
                    Some(said) => said.closed().await,
                    None => pending().await,
                }
            };
            let message = tokio::select! {
                message = self.subscription.next() => message,
                () = withdrawn => return Turn::Withdrawn,
                () = sleep_until(self.until) => return Turn::Forgotten,
            };
            let Some(message) = message else { return Turn::Forgotten };
            // As everywhere, only inboxes are answered.
            if !message.reply.as_deref().is_some_and(wire::subject::is_inbox) {
                continue;
            }
            match serde_json::from_slice(&message.payload) {
                Ok(request) => return Turn::Asked(message, request),
                Err(error) => debug!(subject = %message.subject, %error, "no answer to a question"),
            }
        }
    }
}

impl Line {
    pub(super) const fn new(served: Arc<Served>, caller: Message) -> Self {
        Self { served, caller: Some(caller), open: None, asked: 0, is_stopped: false }
    }

    /// Notes that nobody wants the outcome any more.
    pub(super) const fn stopped(&mut self) {
        self.is_stopped = true;
    }

    /// Attends to what the call says, until nobody is left who wants to know what comes of it.
    pub(super) async fn attend(&mut self, heard: &mut Heard, teller: &mut Teller) {
        loop {
            let turn = match &mut self.open {
                None => {
                    tokio::select! {
                        asked = heard.questions.recv() => match asked {
                            Some(asked) => Box::pin(self.ask(*asked, heard)).await,
                            None => pending().await,
                        },
                        () = teller.tell(&mut heard.progress) => {}
                    }
                    continue;
                }
                Some(open) => open.next().await,
            };
            match turn {
                Turn::Asked(message, QuestionRequest::Say { said }) => {
                    self.go_on(message, said, heard);
                }
                Turn::Asked(message, QuestionRequest::Wait) => {
                    let Some(open) = &mut self.open else { continue };
                    open.waiting = Some(message);
                    if open.said.is_none() {
                        self.tell_withdrawn().await;
                    }
                }
                Turn::Withdrawn => {
                    if let Some(open) = &mut self.open {
                        open.said = None;
                    }
                    self.tell_withdrawn().await;
                }
                Turn::Forgotten => return,
            }
        }
    }

    /// Puts a question to whoever made the call; its time stands still from here on.
    async fn ask(&mut self, asked: Asked, heard: &Heard) {
        let Served { context, definition, name, .. } = &*self.served;
        let Some(timeout_ms) = definition.offer.question_timeout_ms else { return };
        self.asked += 1;
        let Ok(id) = Name::new(RunId::fresh().as_str()) else { return };
        if self.asked > QUESTIONS_MAX || self.caller.is_none() {
            return;
        }
        let subject = context.subjects.question(&context.team.name, name, &id);
        let subscription = match context.bus.subscribe(&subject, Some(QUEUE_GROUP)).await {
            Ok(subscription) => subscription,
            Err(error) => {
                debug!(tool = %name, %error, "a question cannot be asked");
                return;
            }
        };
        heard.end.send_replace(None);
        let Asked { text, form, said } = asked;
        let until = Instant::now() + Duration::from_millis(timeout_ms) + QUESTION_GRACE;
        let said = Some(said);
        self.open = Some(Open { subscription, said, waiting: None, until, is_known_void: false });
        let Some(caller) = self.caller.take() else { return };
        let reply = clean::tool_reply(ToolReply::Asks { question: Question { id, text, form } });
        // Sent whatever becomes of the call meanwhile, since the caller has to know of the question.
        let bus = context.bus.clone();
        let told = tokio::spawn(async move {
            feed::answer(&bus, &caller, Headers::new(), &reply).await;
        });
        drop(told.await);
    }

    /// Lets the call go on with what was said, in the time that its caller gives it.
    fn go_on(&mut self, message: Message, said: Said, heard: &Heard) {
        let remaining = message.headers.read(header::REMAINING_MS).map(Duration::from_millis);
        let remaining = remaining.unwrap_or_default();
        heard.end.send_replace(Some(Instant::now() + shortened(remaining)));
        if let Some(Open { said: Some(sender), .. }) = self.open.take() {
            // Whoever asked may have ended a moment ago.
            drop(sender.send(said));
        }
        self.caller = Some(message);
    }

    /// Tells whoever watches the open question that it is withdrawn.
    async fn tell_withdrawn(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(message) = open.waiting.take() else { return };
        open.is_known_void = true;
        let bus = &self.served.context.bus;
        Box::pin(feed::answer(bus, &message, Headers::new(), &Void::Withdrawn)).await;
    }

    /// Says what came of the call to whoever waits for it.
    pub(super) async fn end(&mut self, done: Result<ToolReply, WireError>) {
        if let Some(open) = self.open.take() {
            let reply = done.unwrap_or_else(ToolReply::unanswered);
            return Box::pin(self.end_open(open, reply)).await;
        }
        let Some(caller) = self.caller.take() else { return };
        let bus = &self.served.context.bus;
        match done {
            Ok(reply) => feed::answer_of(bus, &caller, Arc::new(reply)).await,
            Err(error) => feed::answer_error(bus, &caller, &error).await,
        }
    }

    /// Says it where a question is open: to whoever watches it, or comes to do so.
    async fn end_open(&self, mut open: Open, reply: ToolReply) {
        let bus = &self.served.context.bus;
        open.said = None;
        if let Some(message) = open.waiting.take() {
            return feed::answer(bus, &message, Headers::new(), &Void::Over { reply }).await;
        }
        let comes_late = open.is_known_void && !self.is_stopped;
        let linger = if comes_late { VOID_LINGER } else { LINGER };
        match timeout(linger, open.next()).await {
            Ok(Turn::Asked(message, QuestionRequest::Wait)) => {
                feed::answer(bus, &message, Headers::new(), &Void::Over { reply }).await;
            }
            Ok(Turn::Asked(message, QuestionRequest::Say { .. })) => {
                feed::answer(bus, &message, Headers::new(), &reply).await;
            }
            Ok(Turn::Withdrawn | Turn::Forgotten) | Err(_) => {
                debug!(tool = %self.served.name, "a call ended and nobody wanted to know");
            }
        }
    }
}

/// Tells observers how far a call has come.
pub(super) struct Teller {
    served: Arc<Served>,
    event: Event,
    next: Instant,
}

impl Teller {
    pub(super) fn new(
        served: Arc<Served>,
        request: &ToolRequest,
        now: Timestamp,
        trace: TraceContext,
    ) -> Self {
        let progress = Progress::default();
        let (call, tool) = (request.call.clone(), served.name.clone());
        let event = Event {
            id: None,
            at: now,
            trace_id: trace.trace(),
            session: request.session.clone(),
            run: request.run.clone(),
            agent: request.agent.clone(),
            depth: request.depth,
            kind: EventKind::CallProgress { call, tool, progress },
        };
        Self { served, event, next: Instant::now() }
    }

    /// Tells of the newest progress, unless it told of one a moment ago.
    async fn tell(&mut self, progress: &mut watch::Receiver<Progress>) {
        sleep_until(self.next).await;
        if progress.changed().await.is_err() {
            pending::<()>().await;
        }
        let newest = progress.borrow_and_update().clone();
        self.event.at = clock::now();
        if let EventKind::CallProgress { progress, .. } = &mut self.event.kind {
            *progress = Progress { text: newest.text.map(clean), ..newest };
        }
        self.served.context.tell(&self.event);
        self.next = Instant::now() + PROGRESS_PAUSE;
    }
}
