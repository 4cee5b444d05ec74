//! `callboard run`: one message to a team, on a node with the bus inside the process.

use std::future::pending;
use std::io::{BufRead as _, Read as _};
use std::time::Duration;

use bus::{Bus, Subscription};
use node::{Node, NodeOptions, RESERVE_BYTES_DEFAULT};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};
use wire::run::{AnswerRequest, INPUT_BYTES_MAX};
use wire::subject::{CallVerb, RunVerb};
use wire::{
    ErrorCode, Event, EventKind, Headers, Name, OpenKind, Plan, RunId, RunReply, RunRequest,
    RunStatus, Subjects, TraceId,
};

use crate::args::Run;
use crate::client;
use crate::dialog::Dialog;
use crate::failure::{Exit, Failure};
use crate::live::{Live, REDRAW_INTERVAL};
use crate::place::{Place, holder};
use crate::progress::{Question, question};
use crate::screen::{self, Screen};
use crate::text;

/// How long past its deadline the reply of a run is waited for.
const REPLY_GRACE: Duration = Duration::from_secs(10);

/// How long a look-up or an answer may take.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the last events may come after the reply.
const EVENTS_GRACE: Duration = Duration::from_millis(200);

/// How long the node has to close at the end.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// Lines of stdin that wait to be taken as answers.
const LINES_MAX: usize = 16;

/// What a person can say of a call whose outcome is unknown.
const UNKNOWN_HOW: &str = " [done RESULT, or not done]";

/// Asks the team of a file, and prints its answer.
pub(crate) async fn run(args: &Run, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let (_, team) = super::complete(&args.team, place, None, screen.err.paint).await?;
    let plan = super::tools::agent(&team, args.agent.as_ref().unwrap_or(&team.entry))?.clone();
    let input = message(&args.message)?;
    let bus = Bus::local();
    let options = NodeOptions {
        data: place.dir().to_owned(),
        holder: holder("run"),
        subjects: Subjects::default(),
        reserve_bytes: RESERVE_BYTES_DEFAULT,
    };
    let node = Node::start(vec![team], bus.clone(), options).await?;
    let request = RunRequest {
        input,
        session: args.session.clone(),
        run: Some(RunId::fresh()),
        timeout_ms: args.timeout.map(|seconds| seconds.saturating_mul(1000)),
        budget: None,
        parent: None,
    };
    let began = node::now();
    let asked = Asking::begin(bus, plan, request, *screen).await;
    let reply = match asked {
        Ok(asking) => asking.watch().await,
        Err(failure) => Err(failure),
    };
    node.drain(DRAIN_GRACE).await;
    let reply = reply?;
    if screen.err.is_terminal || !args.json {
        screen::note(&closing(&reply, node::now().since(began), place, screen));
    }
    show(&reply, args.json, screen)
}

/// Prints a reply and tells how it ended.
pub(crate) fn show(reply: &RunReply, json: bool, screen: &Screen) -> Result<Exit, Failure> {
    if json {
        screen::json(reply)?;
    }
    match (&reply.error, reply.status) {
        (_, RunStatus::Completed) => {
            if !json {
                screen.reply(&reply.output)?;
            }
            Ok(Exit::Done)
        }
        (error, _) => {
            if let Some(error) = error {
                screen::note(&Failure::from(error.clone()).render(screen.err.paint));
            }
            if !json && !reply.output.trim().is_empty() {
                let last = text::harmless(reply.output.trim_end());
                screen::note(&format!("It said last:\n{last}\n"));
            }
            Ok(Exit::Failed)
        }
    }
}

/// Says how a run went, and where to see more of it.
fn closing(reply: &RunReply, time: Duration, place: &Place, screen: &Screen) -> String {
    let paint = screen.err.paint;
    let status = match reply.status {
        RunStatus::Completed => paint.green("completed"),
        RunStatus::Failed | RunStatus::Unknown => paint.red(reply.status.as_str()),
        RunStatus::Partial
        | RunStatus::Refused
        | RunStatus::Cancelled
        | RunStatus::Budget
        | RunStatus::Deadline => paint.yellow(reply.status.as_str()),
    };
    let tokens = text::used(reply.usage);
    let id: String = reply.trace_id.chars().take(8).collect();
    let rest = format!(
        "in {} · {tokens} · callboard trace{} {id}\n",
        text::duration(time),
        place.option()
    );
    format!("{status} {}", paint.dim(&rest))
}

/// Joins the words of a message; a single `-` stands for stdin.
pub(crate) fn message(words: &[String]) -> Result<String, Failure> {
    if words != ["-"] {
        return Ok(words.join(" "));
    }
    let limit = u64::try_from(INPUT_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let unread = |why: &dyn std::fmt::Display| {
        Failure::new(ErrorCode::BadRequest, format!("read the message from stdin: {why}"))
    };
    std::io::stdin().lock().take(limit).read_to_end(&mut bytes).map_err(|error| unread(&error))?;
    if bytes.len() > INPUT_BYTES_MAX {
        let text = format!("the message on stdin has more than {INPUT_BYTES_MAX} bytes");
        return Err(Failure::new(ErrorCode::TooLarge, text));
    }
    String::from_utf8(bytes).map_err(|error| unread(&error.utf8_error()))
}

/// One run that was asked for over the bus, and is watched until its reply.
struct Asking {
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
    /// Whether the end of the run was shown.
    ended: bool,
}

impl Asking {
    async fn begin(
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
            ended: false,
        })
    }

    /// Shows what happens until the reply is there.
    async fn watch(mut self) -> Result<RunReply, Failure> {
        let mut frames = interval(REDRAW_INTERVAL);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut lines: Option<mpsc::Receiver<String>> = None;
        let mut trace: Option<TraceId> = None;
        let mut cancelled = false;
        let reply = loop {
            tokio::select! {
                biased;
                Some(message) = self.events.next() => {
                    let Ok(event) = serde_json::from_slice::<Event>(&message.payload) else {
                        continue;
                    };
                    self.on_event(&event, &mut trace);
                    if !self.questions.is_empty() && lines.is_none() {
                        lines = Some(stdin_lines());
                    }
                }
                line = next_line(&mut lines), if !self.questions.is_empty() => {
                    self.on_line(line).await;
                }
                reply = &mut self.reply => break reply,
                pressed = tokio::signal::ctrl_c() => {
                    pressed.unwrap_or_default();
                    if cancelled {
                        self.live.clear();
                        return Err(Failure::new(ErrorCode::Cancelled, "stopped at once; what was \
                            accepted is taken up when the team is next served"));
                    }
                    cancelled = true;
                    self.cancel().await;
                }
                _ = frames.tick(), if self.screen.err.is_terminal && self.questions.is_empty() => {
                    self.live.redraw(node::now());
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
        reply.map_err(|error| Failure::new(ErrorCode::Internal, format!("ask: {error}")))?
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
        let first = self.questions.first();
        self.dialog = first.and_then(|asked| asked.form.as_ref()).map(Dialog::new);
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

    async fn on_line(&mut self, line: Option<String>) {
        let Some(text) = line else {
            let way = self.questions.first().map(|asked| match asked.kind {
                OpenKind::Question => format!("callboard answer {} TEXT", asked.run),
                OpenKind::Approval => format!("callboard calls approve {}", asked.call),
                OpenKind::Unknown => format!("callboard calls resolve {}", asked.call),
            });
            self.questions.clear();
            screen::note(&format!(
                "stdin is at its end, so the question stays open; serve the team and use `{}`\n",
                way.unwrap_or_default()
            ));
            return;
        };
        let Some(asked) = self.questions.first() else { return };
        let said = match &mut self.dialog {
            Some(dialog) => dialog.on_line(&text).map(|said| filled(&self.team, asked, said)),
            None => reply_to(&self.team, asked, &text),
        };
        let Some((subject, body)) = said else {
            self.prompt();
            return;
        };
        self.questions.remove(0);
        if let Err(failure) = self.control(&subject, &body).await {
            screen::note(&failure.render(self.screen.err.paint));
        }
        self.next();
    }

    async fn cancel(&mut self) {
        self.live.clear();
        self.questions.clear();
        screen::note("cancels the run; press Ctrl-C again to stop at once\n");
        let subject = Subjects::default().run(&self.team, &self.run, RunVerb::Cancel);
        if let Err(failure) = self.control(&subject, &serde_json::json!({})).await {
            screen::note(&failure.render(self.screen.err.paint));
        }
    }

    async fn control(
        &self,
        subject: &str,
        body: &impl serde::Serialize,
    ) -> Result<wire::run::RunView, Failure> {
        let body = client::encode(body)?;
        let answer = self.bus.request(subject, Headers::new(), body, CONTROL_TIMEOUT).await?;
        client::decode(&answer.payload)
    }
}

/// Turns a form that is filled in into what is said about its question.
fn filled(team: &Name, asked: &Question, said: AnswerRequest) -> (String, Value) {
    let said = AnswerRequest { call: Some(asked.call.clone()), ..said };
    let subject = Subjects::default().run(team, &asked.run, RunVerb::Answer);
    (subject, json!(said))
}

/// Turns a line into what is said about a question; `None` if it says nothing.
fn reply_to(team: &Name, asked: &Question, line: &str) -> Option<(String, Value)> {
    let subjects = Subjects::default();
    let call = |verb| subjects.call(team, &asked.call, verb);
    let line = line.trim();
    match asked.kind {
        OpenKind::Question if line.is_empty() => None,
        OpenKind::Question => {
            let subject = subjects.run(team, &asked.run, RunVerb::Answer);
            Some((subject, json!({"call": asked.call, "text": line})))
        }
        OpenKind::Approval => Some(match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => (call(CallVerb::Approve), json!({})),
            "" | "n" | "no" => (call(CallVerb::Deny), json!({})),
            _ => (call(CallVerb::Deny), json!({"reason": line})),
        }),
        OpenKind::Unknown => match line.split_once(' ').unwrap_or((line, "")) {
            ("not", "done") => Some((call(CallVerb::Resolve), json!({"done": false}))),
            ("done", "") => Some((call(CallVerb::Resolve), json!({"done": true}))),
            ("done", result) => {
                let result: Value =
                    serde_json::from_str(result).unwrap_or_else(|_| Value::from(result));
                Some((call(CallVerb::Resolve), json!({"done": true, "result": result})))
            }
            _ => None,
        },
    }
}

async fn next_line(lines: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => pending().await,
    }
}

/// Reads lines from stdin on a thread of their own, since such a read cannot be ended.
fn stdin_lines() -> mpsc::Receiver<String> {
    let (tx, rx) = mpsc::channel(LINES_MAX);
    let read = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if tx.blocking_send(line).is_err() {
                return;
            }
        }
    };
    drop(std::thread::Builder::new().name("callboard-stdin".to_owned()).spawn(read));
    rx
}
