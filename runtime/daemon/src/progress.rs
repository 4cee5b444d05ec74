//! What a run is doing, told line by line from its events.

use std::time::Duration;

use serde_json::Value;
use wire::question::QuestionEnd;
use wire::{CallKey, Event, EventKind, ModelRole, Name, OpenKind, RunId, RunStatus, Timestamp};

use crate::paint::Paint;
use crate::text;

/// The columns by which the lines of a called agent stand in.
const INDENT: usize = 2;

/// The deepest agent whose lines stand in further than those of its caller.
const DEPTH_SHOWN_MAX: u32 = 12;

/// The fewest columns that are left for what is said.
const DETAIL_WIDTH_MIN: usize = 12;

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// One line for each event, for a log.
    Every,
    /// A line for what is over; what is under way shows in [`Progress::under_way`].
    Finished,
}

/// Follows the runs of one trace.
#[derive(Debug)]
pub(crate) struct Progress {
    detail: Detail,
    runs: Vec<RunInWork>,
}

/// One run that has not ended.
#[derive(Debug)]
struct RunInWork {
    run: RunId,
    agent: Name,
    depth: u32,
    /// What it does at present, if it is a model turn or a wait, and since when.
    activity: Option<(String, Timestamp)>,
    calls: Vec<CallInWork>,
    began: Timestamp,
}

#[derive(Debug)]
struct CallInWork {
    call: CallKey,
    tool: Name,
    arguments: String,
    is_agent: bool,
    since: Timestamp,
    /// How far it has come, as it was last told.
    progress: String,
    /// The tenth that was told in a log.
    tenth: Option<u32>,
}

/// One line, before it is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    depth: u32,
    agent: String,
    tone: Tone,
    /// A short text that is never cut.
    lead: String,
    /// What was said, cut to the width.
    detail: String,
    /// What came of it, cut to what is left of the width.
    outcome: String,
    time: Option<Duration>,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Quiet,
    Good,
    Bad,
    Asks,
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The run that waits.
    pub(crate) run: RunId,
    /// The call that asked.
    pub(crate) call: CallKey,
    /// The agent.
    pub(crate) agent: Name,
    /// The question.
    pub(crate) text: String,
    /// What has to be done about it.
    pub(crate) kind: OpenKind,
    /// Its id, if the call goes on with the answer.
    pub(crate) id: Option<Name>,
    /// The schema of what is to be filled in, if the tool asks for that.
    pub(crate) form: Option<Value>,
}

/// Returns what an event asks of a person.
pub(crate) fn question(event: &Event) -> Option<Question> {
    match &event.kind {
        EventKind::CallSuspended { call, question, kind, question_id, form } => Some(Question {
            kind: *kind,
            id: question_id.clone(),
            form: form.clone(),
            run: event.run.clone(),
            call: call.clone(),
            agent: event.agent.clone(),
            text: question.clone(),
        }),
        _ => None,
    }
}

impl Progress {
    /// Begins with nothing under way.
    pub(crate) fn new(detail: Detail) -> Self {
        Self { detail, runs: Vec::new() }
    }

    /// Takes an event and returns the lines that it is worth.
    pub(crate) fn on_event(&mut self, event: &Event) -> Vec<Line> {
        let every = self.detail == Detail::Every;
        let line = |tone, lead: String, detail: &str, time| Line {
            depth: event.depth,
            agent: event.agent.to_string(),
            tone,
            lead,
            detail: text::one_line(detail),
            outcome: String::new(),
            time,
        };
        let run = self.run_of(event);
        match &event.kind {
            EventKind::RunAccepted { input } => {
                run.activity = Some(("waits for its turn".to_owned(), event.at));
                let told = every && event.depth == 0;
                Vec::from_iter(told.then(|| line(Tone::Plain, "is asked".to_owned(), input, None)))
            }
            EventKind::RunJoined { joined } => {
                run.activity = Some((format!("joins run {joined}"), event.at));
                vec![line(Tone::Quiet, "joins a run in work".to_owned(), joined.as_str(), None)]
            }
            EventKind::Steered { input, .. } => {
                vec![line(Tone::Plain, "is told more".to_owned(), input, None)]
            }
            EventKind::RunStarted => {
                run.began = event.at;
                run.activity = Some(("begins".to_owned(), event.at));
                Vec::new()
            }
            EventKind::ModelAsked { role, model, .. } => {
                let what = match role {
                    ModelRole::Thinker => format!("thinks ({model})"),
                    ModelRole::Actor => format!("acts ({model})"),
                };
                run.activity = Some((what.clone(), event.at));
                Vec::from_iter(every.then(|| line(Tone::Quiet, what, "", None)))
            }
            EventKind::Delta { .. } => Vec::new(),
            EventKind::ModelRetried { model, error, .. } => {
                let lead = format!("asks {model} again");
                run.activity = Some((lead.clone(), event.at));
                vec![line(Tone::Bad, lead, &error.message, None)]
            }
            EventKind::ModelSwitched { from, to, error, .. } => {
                let lead = format!("asks {to} in place of {from}");
                run.activity = Some((lead.clone(), event.at));
                vec![line(Tone::Bad, lead, &error.message, None)]
            }
            EventKind::Thought { text, .. } => {
                let time = run.since(event.at);
                vec![line(Tone::Quiet, "thought".to_owned(), text, time)]
            }
            EventKind::Planned { tool, task, .. } => {
                let time = run.since(event.at);
                vec![line(Tone::Quiet, format!("plans {tool}"), task, time)]
            }
            EventKind::FeedbackGiven { feedback, .. } => {
                let time = run.since(event.at);
                vec![line(Tone::Bad, "is corrected".to_owned(), &feedback.message, time)]
            }
            EventKind::CallStarted { call, tool, arguments, is_agent } => {
                run.activity = None;
                let arguments = arguments.to_string();
                let told = every || *is_agent;
                let lead = format!("→ {tool}");
                let lines = told.then(|| line(Tone::Plain, lead, &arguments, None));
                run.calls.push(CallInWork {
                    call: call.clone(),
                    tool: tool.clone(),
                    arguments,
                    is_agent: *is_agent,
                    since: event.at,
                    progress: String::new(),
                    tenth: None,
                });
                Vec::from_iter(lines)
            }
            EventKind::CallSuspended { question, kind, .. } => {
                let (activity, lead) = match kind {
                    OpenKind::Approval => ("waits for your leave", "asks for leave"),
                    OpenKind::Question => ("waits for your answer", "asks"),
                    OpenKind::Unknown => ("waits to be told what came of a call", "does not know"),
                };
                run.activity = Some((activity.to_owned(), event.at));
                // On a terminal the question itself is put below.
                Vec::from_iter(every.then(|| line(Tone::Asks, lead.to_owned(), question, None)))
            }
            EventKind::QuestionEnded { end, .. } => {
                run.activity = None;
                let lead = format!("goes on, its question {}", how(*end));
                vec![line(Tone::Quiet, lead, "", None)]
            }
            EventKind::CallProgress { call, tool, progress } => {
                let known = run.calls.iter_mut().find(|known| known.call == *call);
                let news = known.and_then(|known| known.come(progress)).filter(|_| every);
                let told = |news: String| line(Tone::Quiet, format!("· {tool}"), &news, None);
                Vec::from_iter(news.map(told))
            }
            EventKind::CallRepeated { call, attempt, reason } => {
                run.activity = None;
                let known = run.calls.iter().find(|known| known.call == *call);
                let tool = known.map_or_else(|| call.to_string(), |call| call.tool.to_string());
                let lead = match attempt {
                    1 => format!("makes {tool}"),
                    _ => format!("makes {tool} again"),
                };
                vec![line(Tone::Quiet, lead, reason, None)]
            }
            EventKind::CallResolved { done, .. } => {
                let said = if *done { "it was done" } else { "it was not done" };
                vec![line(Tone::Quiet, "is told of an unknown outcome:".to_owned(), said, None)]
            }
            EventKind::CallEnded { call, tool, status, output, duration_us } => {
                let started = run.calls.iter().position(|known| known.call == *call);
                let started = started.map(|at| run.calls.remove(at));
                run.activity = None;
                let good = status == "ok";
                let tone = if good { Tone::Good } else { Tone::Bad };
                let time = Some(Duration::from_micros(*duration_us));
                let output = if good { output.clone() } else { format!("{status}: {output}") };
                vec![match started {
                    // Nothing was said of the call yet, so its line has to say what was asked.
                    Some(CallInWork { arguments, is_agent: false, .. }) if !every => {
                        let outcome = format!(" = {}", text::one_line(&output));
                        Line { outcome, ..line(tone, format!("→ {tool}"), &arguments, time) }
                    }
                    _ => line(tone, format!("← {tool}"), &output, time),
                }]
            }
            EventKind::RunResumed => {
                vec![line(Tone::Quiet, "goes on after a restart".to_owned(), "", None)]
            }
            EventKind::RunEnded { status, output, error, .. } => {
                let time = Some(event.at.since(run.began));
                self.runs.retain(|known| known.run != event.run);
                match status {
                    RunStatus::Completed if every => {
                        vec![line(Tone::Good, "answers".to_owned(), output, time)]
                    }
                    RunStatus::Completed => Vec::new(),
                    RunStatus::Partial
                    | RunStatus::Refused
                    | RunStatus::Failed
                    | RunStatus::Cancelled
                    | RunStatus::Budget
                    | RunStatus::Deadline
                    | RunStatus::Unknown => {
                        let why = error.as_ref().map(ToString::to_string).unwrap_or_default();
                        vec![line(Tone::Bad, status.as_str().to_owned(), &why, time)]
                    }
                }
            }
        }
    }

    /// Returns a line for each run that is in work, in the order of their calls.
    pub(crate) fn under_way(&self, now: Timestamp) -> Vec<Line> {
        let lines = self.runs.iter().map(|run| {
            let (lead, since) = match (&run.activity, run.calls.as_slice()) {
                (Some((what, since)), _) => (what.clone(), *since),
                (None, [call]) => (format!("waits for {}", call.tool), call.since),
                (None, [first, ..]) => {
                    let names: Vec<&str> = run.calls.iter().map(|c| c.tool.as_str()).collect();
                    (format!("waits for {}", names.join(", ")), first.since)
                }
                (None, []) => ("decides".to_owned(), now),
            };
            let detail = match (&run.activity, run.calls.as_slice()) {
                (None, [call]) => text::one_line(&call.progress),
                (Some(_) | None, _) => String::new(),
            };
            Line {
                depth: run.depth,
                agent: run.agent.to_string(),
                tone: Tone::Plain,
                lead,
                detail,
                outcome: String::new(),
                time: Some(now.since(since)),
            }
        });
        lines.collect()
    }

    fn run_of(&mut self, event: &Event) -> &mut RunInWork {
        let known = self.runs.iter().position(|run| run.run == event.run);
        let at = known.unwrap_or_else(|| {
            // Below its caller, which is the last run of a lesser depth that calls the agent.
            let calls = |run: &RunInWork| {
                run.depth < event.depth && run.calls.iter().any(|call| call.tool == event.agent)
            };
            let below = self.runs.iter().rposition(calls).map_or(self.runs.len(), |caller| {
                let deeper = |run: &&RunInWork| run.depth >= event.depth;
                caller + 1 + self.runs.iter().skip(caller + 1).take_while(deeper).count()
            });
            let run = RunInWork {
                run: event.run.clone(),
                agent: event.agent.clone(),
                depth: event.depth,
                activity: None,
                calls: Vec::new(),
                began: event.at,
            };
            self.runs.insert(below, run);
            below
        });
        #[expect(clippy::indexing_slicing, reason = "the position was found or made above")]
        &mut self.runs[at]
    }
}

impl CallInWork {
    /// Takes how far the call has come, and returns it if that is worth a line of a log: with a
    /// further tenth done, or something else being done.
    fn come(&mut self, progress: &wire::question::Progress) -> Option<String> {
        let share = progress.total.filter(|total| *total > 0.0).map(|total| progress.done / total);
        let far = match (share, progress.total) {
            (Some(share), Some(total)) => {
                format!("{} of {total} ({:.0} %)", progress.done, share * 100.0)
            }
            (None, _) | (_, None) => progress.done.to_string(),
        };
        let text = progress.text.as_deref().map(|text| format!(" {text}")).unwrap_or_default();
        let tenths = share.map(|share| (share * 10.0).clamp(0.0, 10.0).floor());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10")]
        let tenth = tenths.map(|tenths| tenths as u32);
        let is_news = self.tenth != tenth || !self.progress.ends_with(&text);
        self.tenth = tenth;
        self.progress = far + &text;
        is_news.then(|| self.progress.clone())
    }
}

/// Says how a question ended.
const fn how(end: QuestionEnd) -> &'static str {
    match end {
        QuestionEnd::Accepted => "is answered",
        QuestionEnd::Declined => "is declined",
        QuestionEnd::Cancelled => "is cancelled",
        QuestionEnd::Expired => "was answered by nobody in time",
        QuestionEnd::Lost => "is void: the call that asked is lost",
    }
}

impl RunInWork {
    fn since(&mut self, now: Timestamp) -> Option<Duration> {
        self.activity.take().map(|(_, since)| now.since(since))
    }
}

impl Line {
    /// Lays the line out within a width; `mark` stands before it, such as a spinner.
    pub(crate) fn render(&self, paint: Paint, width: usize, mark: &str) -> String {
        let indent = usize::try_from(self.depth.min(DEPTH_SHOWN_MAX)).unwrap_or(0) * INDENT;
        let time = self.time.map(text::duration).unwrap_or_default();
        let gap = if time.is_empty() { 0 } else { 2 };
        let fixed = indent
            + text::width(mark)
            + text::width(&self.agent)
            + 1
            + text::width(&self.lead)
            + gap
            + text::width(&time);
        let detail = self.said(width.saturating_sub(fixed + 1));
        let (lead, detail) = match self.tone {
            Tone::Plain => (self.lead.clone(), detail),
            Tone::Quiet => (paint.dim(&self.lead), paint.dim(&detail)),
            Tone::Good => (paint.green(&self.lead), detail),
            Tone::Bad => (paint.red(&self.lead), paint.red(&detail)),
            Tone::Asks => (paint.yellow(&self.lead), detail),
        };
        let time = if time.is_empty() { time } else { format!("  {}", paint.dim(&time)) };
        let agent = paint.bold(&self.agent);
        format!("{}{}{agent} {lead}{detail}{time}", " ".repeat(indent), paint.cyan(mark))
    }

    /// Cuts what was said and what came of it; what came of it has a right to half of the room.
    fn said(&self, room: usize) -> String {
        if self.detail.is_empty() || room < DETAIL_WIDTH_MIN {
            return String::new();
        }
        let half = room.saturating_sub(text::width(&self.outcome)).max(room / 2);
        let detail = text::shorten(&self.detail, half);
        let outcome = text::shorten(&self.outcome, room.saturating_sub(text::width(&detail)));
        format!(" {detail}{outcome}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Makes an event from a time in milliseconds, `run/agent/depth` and its kind.
    fn event(ms: u64, who: (&str, &str, u32), mut kind: Value) -> Event {
        let (run, agent, depth) = who;
        let mut event = json!({
            "at": ms * 1000, "trace_id": "0af7651916cd43dd8448eb211c80319c", "session": "s", "run": run, "agent": agent,
            "depth": depth,
        });
        event.as_object_mut().unwrap().append(kind.as_object_mut().unwrap());
        serde_json::from_value(event).unwrap()
    }

    fn story() -> Vec<Event> {
        let (lead, find) = (("r1", "lead", 0), ("k1", "researcher", 1));
        let asked =
            |role, model| json!({"event": "model_asked", "step": 1, "role": role, "model": model});
        let thought = |text| json!({"event": "thought", "step": 1, "text": text});
        let usage = json!({"input_tokens": 1, "output_tokens": 2});
        vec![
            event(0, lead, json!({"event": "run_accepted", "input": "Who is\nshe?"})),
            event(0, lead, json!({"event": "run_started"})),
            event(0, lead, asked("thinker", "big")),
            event(300, lead, thought("I ask the researcher.")),
            event(300, lead, asked("actor", "small")),
            event(
                310,
                lead,
                json!({"event": "call_started", "call": "k1", "tool": "researcher",
                       "arguments": {"task": "Find her."}, "is_agent": true}),
            ),
            event(311, find, json!({"event": "run_accepted", "input": "Find her."})),
            event(311, find, json!({"event": "run_started"})),
            event(311, find, asked("actor", "small")),
            event(
                320,
                find,
                json!({"event": "call_started", "call": "k2", "tool": "search",
                       "arguments": {"query": "her"}, "is_agent": false}),
            ),
            event(
                323,
                find,
                json!({"event": "call_ended", "call": "k2", "tool": "search", "status": "ok",
                       "output": "Vittoria \u{1b}[31mCeretti", "duration_us": 3000}),
            ),
            event(
                400,
                find,
                json!({"event": "run_ended", "status": "completed", "output": "Vittoria Ceretti.",
                       "usage": usage}),
            ),
            event(
                401,
                lead,
                json!({"event": "call_ended", "call": "k1", "tool": "researcher",
                       "status": "error", "output": "E3006 it failed", "duration_us": 91000}),
            ),
            event(
                500,
                lead,
                json!({"event": "run_ended", "status": "failed", "output": "", "usage": usage,
                       "error": {"code": "E4001", "message": "out of steps"}}),
            ),
        ]
    }

    fn told(detail: Detail, width: usize) -> String {
        let mut progress = Progress::new(detail);
        let lines = story().iter().flat_map(|event| progress.on_event(event)).collect::<Vec<_>>();
        assert_eq!(progress.under_way(Timestamp::from_micros(0)), []);
        let lines = lines.iter().map(|line| line.render(Paint::new(false), width, "") + "\n");
        lines.collect()
    }

    #[test]
    fn a_log_has_a_line_for_each_event() {
        let expected = "\
lead is asked Who is she?
lead thinks (big)
lead thought I ask the researcher.  300 ms
lead acts (small)
lead → researcher {\"task\":\"Find her.\"}
  researcher acts (small)
  researcher → search {\"query\":\"her\"}
  researcher ← search Vittoria [31mCeretti  3.0 ms
  researcher answers Vittoria Ceretti.  89 ms
lead ← researcher error: E3006 it failed  91 ms
lead failed E4001 out of steps  500 ms
";
        assert_eq!(told(Detail::Every, 80), expected);
    }

    #[test]
    fn a_terminal_keeps_what_is_over() {
        let expected = "\
lead thought I ask the researcher.  300 ms
lead → researcher {\"task\":\"Find her.\"}
  researcher → search {\"query\"… = Vitto…  3.0 ms
lead ← researcher error: E3006 it failed  91 ms
lead failed E4001 out of steps  500 ms
";
        let shown = told(Detail::Finished, 48);
        for line in shown.lines() {
            assert!(text::width(line) <= 48, "{line}");
        }
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_under_way_stands_below_its_caller() {
        let mut progress = Progress::new(Detail::Finished);
        let steps: [(usize, &[&str]); 4] = [
            (3, &["⠋ lead thinks (big)  1.0 s"]),
            (6, &["⠋ lead waits for researcher  690 ms"]),
            (9, &["⠋ lead waits for researcher  690 ms", "  ⠋ researcher acts (small)  689 ms"]),
            (
                10,
                &["⠋ lead waits for researcher  690 ms", "  ⠋ researcher waits for search  680 ms"],
            ),
        ];
        let mut events = story().into_iter();
        let mut taken = 0;
        for (until, expected) in steps {
            while taken < until {
                progress.on_event(&events.next().unwrap());
                taken += 1;
            }
            let lines = progress.under_way(Timestamp::from_micros(1_000_000));
            let shown: Vec<String> =
                lines.iter().map(|line| line.render(Paint::new(false), 60, "⠋ ")).collect();
            assert_eq!(shown, expected, "after {until} events");
        }
    }

    #[test]
    fn a_call_tells_how_far_it_has_come() {
        let who = ("r", "lead", 0);
        let started = json!({"event": "call_started", "call": "k", "tool": "dig", "arguments": {},
                             "is_agent": false});
        let come = |done: f64, total: Option<f64>, text: &str| {
            let mut told = json!({"event": "call_progress", "call": "k", "tool": "dig", "done": done,
                                  "text": text});
            told["total"] = json!(total);
            event(0, who, told)
        };
        let mut progress = Progress::new(Detail::Every);
        progress.on_event(&event(0, who, started));
        let cases = [
            (come(1.0, Some(40.0), "digs"), Some("lead · dig 1 of 40 (2 %) digs")),
            (come(2.0, Some(40.0), "digs"), None),
            (come(4.0, Some(40.0), "digs"), Some("lead · dig 4 of 40 (10 %) digs")),
            (come(5.0, Some(40.0), "rests"), Some("lead · dig 5 of 40 (12 %) rests")),
            (come(6.0, None, "rests"), Some("lead · dig 6 rests")),
        ];
        for (told, expected) in cases {
            let lines = progress.on_event(&told);
            let lines: Vec<String> =
                lines.iter().map(|line| line.render(Paint::new(false), 80, "")).collect();
            assert_eq!(lines, Vec::from_iter(expected), "{told:?}");
        }
        let shown = progress.under_way(Timestamp::from_micros(0));
        assert_eq!(shown[0].render(Paint::new(false), 80, ""), "lead waits for dig 6 rests  0 µs");
    }

    #[test]
    fn a_question_is_found() {
        let who = ("r", "lead", 0);
        let asks =
            event(0, who, json!({"event": "call_suspended", "call": "k", "question": "Which?"}));
        let found = question(&asks).unwrap();
        assert_eq!(
            (found.run.as_str(), found.call.as_str(), found.text.as_str()),
            ("r", "k", "Which?")
        );
        assert_eq!(question(&event(0, who, json!({"event": "run_started"}))), None);
    }
}
