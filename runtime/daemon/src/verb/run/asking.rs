//! A run that was asked for over the bus of this process, and is watched until its reply: what
//! happens is shown, and what people are asked is put to the one at the terminal.

use std::time::Duration;

use bus::{Bus, Subscription};
use node::Node;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use wire::run::RunView;
use wire::subject::RunVerb;
use wire::{
    ErrorCode, Event, EventKind, Headers, Name, OpenCall, OpenKind, Plan, RunId, RunReply,
    RunRequest, Subjects, TraceId, WireError,
};

use super::said::{filled, reply_to};
use crate::client;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::live::{Live, REDRAW_INTERVAL};
use crate::progress::{Question, question};
use crate::screen::{self, Screen};
use crate::text;
use crate::typed::{Line, Lines};

/// How long past its deadline the reply of a run is waited for.
const REPLY_GRACE: Duration = Duration::from_secs(10);

/// How long a look-up or an answer may take.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last events may come after the reply.
const EVENTS_GRACE: Duration = Duration::from_millis(200);

/// How long nothing is done until a run waits for nothing but people: longer than what is asked for
/// again waits for that.
const REST: Duration = Duration::from_secs(3);

/// What a person can say of a call whose outcome is unknown.
const UNKNOWN_HOW: &str = " [done RESULT, or not done]";

/// What came of a run as far as it was watched.
pub(super) enum Outcome {
    Reply(Box<RunReply>),
    /// It waits for people, and nobody can be asked.
    Open(Vec<OpenCall>),
}

/// One run that was asked for over the bus, and is watched until its reply.
pub(super) struct Asking {
    bus: Bus,
    team: Name,
    run: RunId,
    events: Subscription,
    reply: tokio::task::JoinHandle<Result<RunReply, Failure>>,
    live: Live,
    screen: Screen,
    /// Questions that wait for a line from stdin, oldest first.
    questions: Vec<Question>,
    /// The form of the first of them, as far as it is filled in.
    dialog: Option<Dialog>,
    /// When the first of them was put.
    put: Instant,
    lines: Lines,
    /// Whether stdin is at its end.
    is_deaf: bool,
    /// Since when nothing is done, as far as was seen.
    rests_since: Option<Instant>,
    /// Whether the end of the run was shown.
    ended: bool,
}

impl Asking {
    pub(super) async fn begin(
        bus: Bus,
        plan: Plan,
        request: RunRequest,
        screen: Screen,
    ) -> Result<Self, Failure> {
        let subjects = Subjects::default();
        let events = bus.subscribe(&subjects.all_session_events(&plan.team), None).await?;
        let run = request.run.clone().unwrap_or_else(RunId::fresh);
        let limit = Duration::from_millis(plan.limits.deadline_ms) + REPLY_GRACE;
        let subject = subjects.agent_run(&plan.team, &plan.agent);
        let reply = {
            let bus = bus.clone();
            tokio::spawn(async move {
                let body = client::encode(&request)?;
                let message = bus.request(&subject, Headers::new(), body, limit).await?;
                client::decode(&message.payload)
            })
        };
        let live = Live::new(screen);
        let team = plan.team;
        Ok(Self {
            bus,
            team,
            run,
            events,
            reply,
            live,
            screen,
            questions: Vec::new(),
            dialog: None,
            put: Instant::now(),
            lines: Lines::default(),
            is_deaf: false,
            rests_since: None,
            ended: false,
        })
    }

    /// Shows what happens until the reply is there, or nothing can happen any more.
    pub(super) async fn watch(mut self, node: &Node) -> Result<Outcome, Failure> {
        let mut frames = interval(REDRAW_INTERVAL);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut trace: Option<TraceId> = None;
        let mut cancelled = false;
        // One for all the time, so that what is pressed while something is done is not lost.
        let mut interrupts = signal(SignalKind::interrupt()).map_err(Failure::of_signals)?;
        let reply = loop {
            tokio::select! {
                biased;
                Some(message) = self.events.next() => {
                    let Ok(event) = serde_json::from_slice::<Event>(&message.payload) else {
                        continue;
                    };
                    self.on_event(&event, &mut trace);
                }
                line = self.lines.next(), if !self.questions.is_empty() && !self.is_deaf => {
                    match line {
                        Some(line) => self.on_line(line).await,
                        None => self.is_deaf = true,
                    }
                }
                reply = &mut self.reply => break reply,
                _ = interrupts.recv() => {
                    let is_first = !std::mem::replace(&mut cancelled, true);
                    let goes_on = tokio::select! {
                        () = self.cancel(), if is_first => true,
                        _ = interrupts.recv(), if is_first => false,
                        else => false,
                    };
                    if !goes_on {
                        self.live.clear();
                        return Err(Failure::new(ErrorCode::Cancelled, "stopped at once; what was \
                            accepted is taken up when the team is next served"));
                    }
                }
                _ = frames.tick() => {
                    if self.questions.is_empty() && self.screen.err.is_terminal {
                        self.live.redraw(node::now());
                    }
                    if self.is_deaf && let Some(open) = self.left_open(node).await {
                        self.live.clear();
                        return Ok(Outcome::Open(open));
                    }
                }
            }
        };
        // What was published before the reply may still be under way.
        while !self.ended {
            let Ok(Some(message)) = timeout(EVENTS_GRACE, self.events.next()).await else { break };
            if let Ok(event) = serde_json::from_slice::<Event>(&message.payload) {
                self.on_event(&event, &mut trace);
            }
        }
        self.live.clear();
        let reply =
            reply.map_err(|error| Failure::new(ErrorCode::Internal, format!("ask: {error}")))??;
        Ok(Outcome::Reply(Box::new(reply)))
    }

    /// Returns what the run waits for, if nothing has been done for some time.
    async fn left_open(&mut self, node: &Node) -> Option<Vec<OpenCall>> {
        let team = node.team(self.team.as_str())?;
        if self.questions.is_empty() || team.work_under_way() > 0 {
            self.rests_since = None;
            return None;
        }
        if self.rests_since.get_or_insert_with(Instant::now).elapsed() < REST {
            return None;
        }
        let subject = Subjects::default().run(&self.team, &self.run, RunVerb::Status);
        let view = self.control(&subject, &json!({})).await.ok()?;
        Some(view.waiting).filter(|open| !open.is_empty())
    }

    fn on_event(&mut self, event: &Event, trace: &mut Option<TraceId>) {
        // Others may be at work in the team: runs that are taken up from an earlier time.
        if event.run == self.run {
            trace.get_or_insert(event.trace_id);
        }
        if *trace != Some(event.trace_id) {
            return;
        }
        self.live.on_event(event, node::now());
        self.rests_since = None;
        self.ended |= event.run == self.run && matches!(event.kind, EventKind::RunEnded { .. });
        if let EventKind::CallEnded { call, .. }
        | EventKind::CallRepeated { call, .. }
        | EventKind::QuestionEnded { call, .. } = &event.kind
        {
            // Somebody else decided, or its time is over.
            let first = self.questions.first().is_some_and(|asked| asked.call == *call);
            self.questions.retain(|asked| asked.call != *call);
            if first {
                self.next();
            }
        }
        if let Some(asked) = question(event) {
            self.questions.push(asked);
            if self.questions.len() == 1 {
                self.next();
            }
        }
    }

    /// Puts the first question, if there is one.
    fn next(&mut self) {
        let Some(first) = self.questions.first() else { return };
        self.dialog = first.form.as_ref().map(Dialog::new);
        if self.lines.begin() {
            screen::note("what was typed before anything was asked is dropped\n");
        }
        self.put = Instant::now();
        self.prompt();
    }

    fn prompt(&mut self) {
        let Some(asked) = self.questions.first() else { return };
        self.live.clear();
        let paint = self.screen.err.paint;
        let (question, how) = match asked.kind {
            OpenKind::Question => (text::harmless(&asked.text), ""),
            OpenKind::Approval => (text::visible(&asked.text), " [y/N, or why not]"),
            OpenKind::Unknown => (text::visible(&asked.text), UNKNOWN_HOW),
        };
        let fields = self.dialog.as_ref().map(|dialog| format!("\n{}", dialog.prompt()));
        let how = fields.as_deref().unwrap_or(how);
        let mark = paint.yellow("?");
        screen::note(&format!("{mark} {question}{}\n{} ", paint.dim(how), paint.yellow(">")));
    }

    async fn on_line(&mut self, line: Line) {
        let Some(asked) = self.questions.first() else { return };
        if line.is_before(self.put) {
            let text = text::one_line(&line.text);
            screen::note(&format!("{text:?} was typed before this was asked, and is dropped\n"));
            self.prompt();
            return;
        }
        let text = line.text;
        let said = match &mut self.dialog {
            Some(dialog) => dialog.on_line(&text).map(|said| filled(&self.team, asked, said)),
            None => reply_to(&self.team, asked, &text),
        };
        let Some((subject, body)) = said else {
            self.prompt();
            return;
        };
        let call = asked.call.clone();
        let is_settled = match self.control(&subject, &body).await {
            Ok(_) => true,
            Err(failure) => {
                screen::note(&failure.render(self.screen.err.paint));
                is_over(&failure)
            }
        };
        // What was refused and is still asked is put again, for something else to be said to it.
        if is_settled {
            self.questions.retain(|asked| asked.call != call);
        }
        self.next();
    }

    async fn cancel(&mut self) {
        self.live.clear();
        self.questions.clear();
        screen::note("cancels the run; press Ctrl-C again to stop at once\n");
        let subject = Subjects::default().run(&self.team, &self.run, RunVerb::Cancel);
        if let Err(failure) = self.control(&subject, &json!({})).await {
            screen::note(&failure.render(self.screen.err.paint));
        }
    }

    async fn control(
        &self,
        subject: &str,
        body: &impl serde::Serialize,
    ) -> Result<RunView, Failure> {
        let body = client::encode(body)?;
        let answer = self.bus.request(subject, Headers::new(), body, CONTROL_TIMEOUT).await?;
        client::decode(&answer.payload)
    }
}

/// Tells whether a decision was refused because nothing is asked any more.
const fn is_over(failure: &Failure) -> bool {
    let Failure::Error(WireError { code, .. }) = failure else { return false };
    matches!(code, ErrorCode::NotWaiting | ErrorCode::UnknownCall | ErrorCode::UnknownRun)
}
