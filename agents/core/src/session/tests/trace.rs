//! What the trace of a run tells: its spans with their times, attempts, errors and events, and what
//! each turn was told.

use serde_json::json;
use wire::Input;
use wire::entry::{FeedbackCode, ReadCall, Reading};
use wire::hop::Hop;
use wire::plan::{Permission, WhenBusy};
use wire::{
    Capture, Digest, Levels, ModelRole, Plan, SpanRecord, Timestamp, TraceSink, Usage, semconv,
};

use super::busy::when_busy;
use super::team::{
    RESUMED, actor, allow, answer, calls, cancel, deny, done, feedback, found, garbage, late, lost,
    name, offering, planned, planner, probed, read_call, replied, resolve, session, submit,
    submit_below, suspend, thinker, thought, unknown, unusable,
};
use crate::dialect::RESPOND_TO_USER;
use crate::effect::Effect;
use crate::session::SessionMachine;

/// The plan with a tool whose calls leave the process.
fn leaving(plan: Plan, tool: &str) -> Plan {
    let hop = Hop::Command { program: tool.to_owned() };
    offering(plan, tool, |offer| offer.hop = Some(hop))
}

/// Plays inputs, by milliseconds on the clock, and returns the spans in the order in which they end.
fn spans(plan: &Plan, rows: &[(u64, Input)]) -> Vec<SpanRecord> {
    let read = spans_for(TraceSink::Store, plan, rows);
    let measured = spans_for(TraceSink::Nowhere, plan, rows);
    assert_eq!(measured.len(), read.len());
    for (measured, read) in measured.iter().zip(&read) {
        for name in semconv::MEASURED {
            assert_eq!(measured.attributes.get(name), read.attributes.get(name), "{name}");
        }
        let attributes = read.attributes.clone();
        assert_eq!(SpanRecord { attributes, ..measured.clone() }, *read);
    }
    read
}

fn spans_for(sink: TraceSink, plan: &Plan, rows: &[(u64, Input)]) -> Vec<SpanRecord> {
    let plans = std::collections::HashMap::from([(Digest::of(b"plan"), plan.clone().into())]);
    let mut machine = SessionMachine::new(name("team"), session()).telling(sink);
    let mut spans = Vec::new();
    for (ms, input) in rows {
        let now = Timestamp::from_micros(ms * 1000);
        for effect in machine.apply(now, input, &plans).unwrap() {
            if let Effect::Span(span) = effect {
                spans.push(span.record);
            }
        }
    }
    spans
}

fn line(span: &SpanRecord) -> String {
    let ms = |at: Timestamp| at.as_micros() / 1000;
    let attempt = span.attributes.get(semconv::ATTEMPT);
    let attempt = attempt.map(|attempt| format!(" #{attempt:?}")).unwrap_or_default();
    let kind = span.attributes.text(semconv::ERROR_TYPE);
    let error = kind.map(|kind| format!(" {kind}")).unwrap_or_default();
    let events = span.events.iter().map(|event| {
        let name = event.name.strip_prefix("callboard.").unwrap();
        format!(" {name}@{}", ms(event.at))
    });
    let events: String = events.collect();
    format!("{} {}-{}{attempt}{error}{events}", span.name, ms(span.start), ms(span.end))
}

/// A tool, its plan, what is put in and when, and the lines of the trace.
type Case = (&'static str, Plan, Vec<(u64, Input)>, &'static [&'static str], String);

#[test]
fn a_trace_tells_of_every_attempt_and_of_what_people_said() {
    let pays = leaving(actor(), "pay");
    let careful = offering(pays.clone(), "pay", |offer| offer.permission = Permission::Ask);
    let run = |events: &str| format!("invoke_agent lead 0-10{events}");
    let cases: [Case; 7] = [
        (
            "pay",
            careful.clone(),
            vec![(3, allow(1, 0, "pay")), (9, done(1, 0))],
            &["pay 3-9 #1", "execute_tool pay 1-9 asked@1 approved@3"],
            run(""),
        ),
        (
            "pay",
            careful,
            vec![(3, deny(1, 0, "no"))],
            &["execute_tool pay 1-3 E3008 asked@1 denied@3"],
            run(""),
        ),
        // No answer came, so it is made again.
        (
            "look",
            leaving(actor(), "look"),
            vec![(2, lost(1, 0, 1)), (9, done(1, 0))],
            &["look 1-2 #1 E3004", "look 2-9 #2", "execute_tool look 1-9"],
            run(""),
        ),
        // The process ended meanwhile.
        (
            "look",
            leaving(actor(), "look"),
            vec![(5, RESUMED), (9, done(1, 0))],
            &["look 1-5 #1 E3005", "look 5-9 #2", "execute_tool look 1-9"],
            run(" resumed@5"),
        ),
        // The tool asked a person.
        (
            "look",
            leaving(actor(), "look"),
            vec![(2, suspend(1, 0)), (9, done(1, 0))],
            &["look 1-2 #1", "execute_tool look 1-9 asked@2 answered@9"],
            run(""),
        ),
        // No answer came, and its probe knows what came of it.
        (
            "pay",
            probed(pays.clone(), "pay"),
            vec![(2, lost(1, 0, 1)), (9, found(1, 0, 1, json!({"done": true})))],
            &["pay 1-2 #1 E3004", "execute_tool pay 1-9 probed@9"],
            run(""),
        ),
        // Nobody knew what came of it, and a person says so when the model has gone on.
        (
            "pay",
            pays,
            vec![(2, unknown(1, 0)), (9, resolve(1, 0, 1, Some("ok".into())))],
            &["pay 1-2 #1 _OTHER", "execute_tool pay 1-2 _OTHER"],
            run(" resolved@9"),
        ),
    ];
    for (tool, plan, rows, expected, run) in cases {
        let begun = [(0, submit("r")), (1, calls("r", 0, &[tool]))];
        let rows: Vec<(u64, Input)> =
            begun.into_iter().chain(rows).chain([(10, answer("r", 1, "42"))]).collect();
        let lines: Vec<String> = spans(&plan, &rows).iter().map(line).collect();
        let (turn, rest) = lines.split_first().unwrap();
        assert_eq!(turn, "chat small 0-1");
        let (told, end) = rest.split_at(expected.len());
        assert_eq!(told, expected, "{lines:?}");
        assert_eq!((end.len(), end.last()), (2, Some(&run)), "{lines:?}");
    }
}

#[test]
fn a_turn_that_ends_with_its_run_is_told_of() {
    let before = Plan { edition: 2, ..actor() };
    let resumed = vec![(3, RESUMED); 3];
    for (plan, rows, expected) in [
        (
            actor(),
            vec![(5, cancel("r"))],
            &["chat small 0-5 E4004", "invoke_agent lead 0-5 E4004"][..],
        ),
        (actor(), vec![(5, late("r"))], &["chat small 0-5 E1007", "invoke_agent lead 0-5 E1007"]),
        (thinker(), vec![(5, cancel("r"))], &["chat big 0-5 E4004", "invoke_agent lead 0-5 E4004"]),
        (
            actor(),
            resumed,
            &["chat small 3-3 E4005", "invoke_agent lead 0-3 E4005 resumed@3 resumed@3 resumed@3"],
        ),
        (before, vec![(5, cancel("r"))], &["invoke_agent lead 0-5 E4004"]),
    ] {
        let rows = [vec![(0, submit("r"))], rows].concat();
        let spans = spans(&plan, &rows);
        assert_eq!(spans.iter().map(line).collect::<Vec<_>>(), expected);
        // What a turn may have used of which nobody heard is no measure.
        let mut used = spans.iter().filter_map(SpanRecord::model_usage);
        assert!(used.all(|used| used == Usage::default()), "{expected:?}");
    }
}

#[test]
fn what_is_set_aside_for_a_call_that_ends_with_its_run_is_not_measured() {
    let asks = offering(actor(), "look", |offer| offer.model = Some(name("small")));
    for submitted in [submit("r"), submit_below("r", 1)] {
        let rows = [(0, submitted), (1, calls("r", 0, &["look"])), (2, cancel("r"))];
        let spans = spans(&asks, &rows);
        let used = spans.iter().filter_map(SpanRecord::model_usage).map(Usage::total);
        assert_eq!(used.sum::<u64>(), 10, "that of the turn");
    }
}

/// Says in short what a turn was told.
fn told(span: &SpanRecord) -> String {
    let messages = &span.attributes[semconv::INPUT_MESSAGES];
    let messages = messages.as_nested().unwrap().as_array().unwrap();
    let texts = messages.iter().flat_map(|message| {
        let parts = message["parts"].as_array().unwrap().iter();
        parts.map(|part| {
            let text = part.get("content").or_else(|| part.get("result")).unwrap();
            format!("{}: {}", message["role"].as_str().unwrap(), text.as_str().unwrap())
        })
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[test]
fn a_turn_is_told_of_with_what_is_new_to_it() {
    let plan = Plan { traces: Levels { store: Capture::Full, ..Levels::default() }, ..thinker() };
    let rows = [
        (0, submit("r")),
        (1, thought("r", 0, "look it up")),
        (2, garbage("r", 1)),
        (3, calls("r", 2, &["look", "put"])),
        (4, done(3, 0)),
        (5, done(3, 1)),
        (6, thought("r", 3, "I know")),
        (7, answer("r", 4, "42")),
    ];
    let spans = spans(&plan, &rows);
    let turns = spans.iter().filter(|span| span.name.starts_with("chat "));
    let told: Vec<String> = turns.map(told).collect();
    assert_eq!(
        told,
        [
            "user: ask r",
            "assistant: look it up",
            "user: this is no JSON",
            "tool: done, tool: done",
            "assistant: I know",
        ]
    );
}

#[test]
fn a_planned_task_is_held_as_the_calls_of_its_tool_are() {
    for (tool, capture, expected) in [
        ("look", None, 2),
        ("look", Some(Capture::Redacted), 2),
        ("look", Some(Capture::None), 0),
        // What is for the user is meant for no tool.
        (RESPOND_TO_USER, Some(Capture::None), 2),
    ] {
        let plan = offering(planner(), "look", |offer| offer.capture = capture);
        let plan = Plan { traces: Levels { store: Capture::Full, ..Levels::default() }, ..plan };
        let next = if tool == "look" { calls("r", 1, &["look"]) } else { answer("r", 1, "42") };
        let rows = [(0, submit("r")), (1, planned("r", 0, tool, "find the purse")), (2, next)];
        let spans = spans(&plan, &rows);
        let written = spans.iter().map(|span| serde_json::to_string(span).unwrap());
        let holding = written.filter(|span| span.contains("the purse")).count();
        assert_eq!(holding, expected, "{tool}, {capture:?}");
    }
}

#[test]
fn what_may_be_meant_for_any_tool_is_held_as_the_calls_of_the_one_held_least() {
    const SECRET: &str = "the purse";
    const KEY: &str = "sk-0123456789abcdefghijkl";
    let misspelt = || {
        let fault = feedback(FeedbackCode::UnknownTool, "there is no such tool");
        let call = read_call("lok", json!({"find": SECRET, "key": KEY}));
        let calls = vec![ReadCall { fault: Some(fault), ..call }];
        replied("r", 0, ModelRole::Actor, 10, Reading::Calls { text: String::new(), calls })
    };
    let unread = || unusable("r", 0, &format!("{{\"find\": \"{SECRET}\", \"key\": \"{KEY}\""));
    for (capture, is_held, with_key) in [
        (None, true, true),
        (Some(Capture::Full), true, true),
        (Some(Capture::Redacted), true, false),
        (Some(Capture::Metadata), false, false),
        (Some(Capture::None), false, false),
    ] {
        let plan = offering(actor(), "look", |offer| offer.capture = capture);
        let plan = Plan { traces: Levels { store: Capture::Full, ..Levels::default() }, ..plan };
        for (what, reply) in [("an unknown name", misspelt()), ("no JSON", unread())] {
            let spans = spans(&plan, &[(0, submit("r")), (1, reply)]);
            let written = serde_json::to_string(&spans).unwrap();
            let held = (written.contains(SECRET), written.contains(KEY));
            assert_eq!(held, (is_held, with_key), "{what}, {capture:?}: {written}");
        }
    }
}

#[test]
fn a_message_that_overtakes_a_thought_after_feedback_is_told_of() {
    let plan = Plan { traces: Levels { store: Capture::Full, ..Levels::default() }, ..thinker() };
    let plan = when_busy(WhenBusy::Steer, plan);
    let rows = [
        (0, submit("r")),
        (1, garbage("r", 0)),
        (2, submit("s")),
        (3, thought("r", 1, "look it up")),
        (4, thought("r", 2, "do both")),
    ];
    let spans = spans(&plan, &rows);
    let turns = spans.iter().filter(|span| span.name.starts_with("chat "));
    assert_eq!(
        turns.map(told).collect::<Vec<_>>(),
        ["user: ask r", "user: this is no JSON", "user: ask s"]
    );
}
