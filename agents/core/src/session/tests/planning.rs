//! The way of a run whose steps are planned: plan, act, call, and again until the answer.

use std::sync::Arc;

use wire::entry::FeedbackCode::UnknownTool;
use wire::entry::{Body, Entry};
use wire::plan::EDITION;
use wire::run::RunState;
use wire::{EventKind, Plan, Timestamp, TraceSink};

use super::team::{
    RESUMED, answer, call, calls, cancel, done, faulty, garbage, name, planned, planner, run,
    session, submit, submitted, thought, unknown, with,
};
use super::{Row, check, check_reports};
use crate::dialect::{Act, RESPOND_TO_USER};
use crate::effect::{Effect, Effects};
use crate::invariant::{Record, Violation, called_as_planned};

/// What a submission to the agent with a planner leads to.
const START: &str = "timer r at 60000
    ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000";

/// A run that has planned a call, made it, and plans again.
fn begun() -> [Row<'static>; 4] {
    [
        (0, submit("r"), START),
        (
            100,
            planned("r", 0, "look", "find x"),
            "ask small as actor for r, turn 1, step 1, 200 tokens, by 9100",
        ),
        (200, calls("r", 1, &["look"]), r#"call look 2/0 read {"n":0}, depth 1, by 5200"#),
        (300, done(2, 0), "ask big as thinker for r, turn 2, step 2, 200 tokens, by 9300"),
    ]
}

#[test]
fn plans_acts_calls_and_plans_again_until_it_answers() {
    let rest = [
        (
            400,
            planned("r", 2, "put", "keep x"),
            "ask clerk as actor for r, turn 3, step 2, 200 tokens, by 9400",
        ),
        (500, calls("r", 3, &["put"]), r#"call put 5/0 idempotent {"n":0}, depth 1, by 5500"#),
        (600, done(5, 0), "ask big as thinker for r, turn 4, step 3, 200 tokens, by 9600"),
        (
            700,
            planned("r", 4, RESPOND_TO_USER, "say that x is kept"),
            "ask small as actor for r, turn 5, step 3, 200 tokens, by 9700",
        ),
        (
            800,
            answer("r", 5, "x is kept"),
            r#"publish r completed "x is kept", 60 used look=ok put=ok"#,
        ),
    ];
    let rows: Vec<Row<'_>> = [&begun()[..], &rest].concat();
    let machine = check(&planner(), &rows[..8]);
    let (_, transcript) = machine.transcript().unwrap();
    let tasks: Vec<(&str, &str)> = transcript
        .steps
        .iter()
        .filter_map(|step| step.planned.as_ref())
        .map(|planned| (planned.tool.as_str(), planned.task.as_str()))
        .collect();
    let answers = (RESPOND_TO_USER, "say that x is kept");
    assert_eq!(tasks, [("look", "find x"), ("put", "keep x"), answers]);
    assert!(check(&planner(), &rows).is_idle());
}

#[test]
fn the_answer_reads_more_than_a_task_did() {
    // The prompt has 1310 bytes, which are taken for 655 tokens; a task has 10, as is told then.
    for (edition, tokens) in [(EDITION, 184), (0, 200)] {
        let plan = with(planner(), |limits| limits.tokens_max = 880);
        let answers = format!("ask small as actor for r, turn 3, step 2, {tokens} tokens, by 9400");
        let rest = [(400, planned("r", 2, RESPOND_TO_USER, "say x"), answers.as_str())];
        check(&Plan { edition, ..plan }, &[&begun()[..], &rest].concat());
    }
}

#[test]
fn observers_are_told_the_plan() {
    check_reports(
        &planner(),
        &[
            (
                0,
                submit("r"),
                r#"tell 0.0 accepted "ask r"
                   timer r at 60000
                   tell 0.1 started
                   tell 0.2 asked big
                   ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000"#,
            ),
            (
                1,
                planned("r", 0, "put", "keep x"),
                "span chat big
                 tell 1.0 planned put: keep x
                 tell 1.1 asked clerk
                 ask clerk as actor for r, turn 1, step 1, 200 tokens, by 9001",
            ),
        ],
    );
}

#[test]
fn feedback_goes_to_whom_it_concerns() {
    let rows: Vec<Row<'_>> = vec![
        (0, submit("r"), START),
        (1, garbage("r", 0), "ask big as thinker for r, turn 1, step 1, 200 tokens, by 9001"),
        (
            2,
            planned("r", 1, "put", "keep x"),
            "ask clerk as actor for r, turn 2, step 1, 200 tokens, by 9002",
        ),
        (
            3,
            faulty("r", 2, &[], "look", UnknownTool),
            "ask clerk as actor for r, turn 3, step 1, 200 tokens, by 9003",
        ),
    ];
    let machine = check(&planner(), &rows);
    let acts = |machine: &crate::session::SessionMachine| {
        let acts = &machine.transcript().unwrap().1.steps[0].acts;
        acts.iter().map(|act| matches!(act, Act::Calls { .. })).collect::<Vec<_>>()
    };
    assert_eq!(acts(&machine), [true], "feedback to the planner is not the clerk's");

    let rows = rows.into_iter().chain([(4, garbage("r", 3), "publish r failed E2004, 40 used")]);
    check(&planner(), &rows.collect::<Vec<_>>());
    check(
        &planner(),
        &[
            (0, submit("r"), START),
            (1, garbage("r", 0), "ask big as thinker for r, turn 1, step 1, 200 tokens, by 9001"),
            (2, garbage("r", 1), "ask big as thinker for r, turn 2, step 1, 200 tokens, by 9002"),
            (3, garbage("r", 2), "publish r failed E2004, 30 used"),
        ],
    );
}

#[test]
fn only_what_was_planned_is_done() {
    let refused = "rejected: the input makes no sense where the run stands";
    check(
        &planner(),
        &[
            (0, submit("r"), START),
            (1, thought("r", 0, "look first"), refused),
            (1, planned("r", 0, "fly", "to x"), refused),
            (1, calls("r", 0, &["look"]), refused),
            (
                2,
                planned("r", 0, "look", "find x"),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9002",
            ),
            (3, planned("r", 1, "look", "find x"), refused),
            (3, calls("r", 1, &["put"]), refused),
            (3, calls("r", 1, &["look", "put"]), refused),
            (3, answer("r", 1, "42"), refused),
            (
                4,
                calls("r", 1, &["look", "look"]),
                r#"call look 2/0 read {"n":0}, depth 1, by 5004
                   call look 2/1 read {"n":1}, depth 1, by 5004"#,
            ),
            (5, done(2, 1), ""),
            (6, done(2, 0), "ask big as thinker for r, turn 2, step 2, 200 tokens, by 9006"),
            (
                7,
                planned("r", 2, RESPOND_TO_USER, ""),
                "ask small as actor for r, turn 3, step 2, 200 tokens, by 9007",
            ),
            (8, calls("r", 3, &["look"]), refused),
            (9, answer("r", 3, "42"), r#"publish r completed "42", 40 used look=ok look=ok"#),
        ],
    );
    let plan = super::team::thinker();
    check(&plan, &[(0, submit("r"), START), (1, planned("r", 0, "look", "find x"), refused)]);
}

#[test]
fn a_step_is_taken_up_again_where_it_stood() {
    let ask = "timer r at 60000
        ask clerk as actor for r, turn 1, step 1, 200 tokens, by 29000";
    let rows: Vec<Row<'_>> = vec![
        (0, submit("r"), START),
        (
            1,
            RESUMED,
            "timer r at 60000\nask big as thinker for r, turn 0, step 1, 200 tokens, by 9001",
        ),
        (
            2,
            planned("r", 0, "put", "keep x"),
            "ask clerk as actor for r, turn 1, step 1, 200 tokens, by 9002",
        ),
        (20_000, RESUMED, ask),
        (20_001, planned("r", 0, "put", "keep x"), "rejected: turn 0 is not awaited"),
        (20_002, calls("r", 1, &["put"]), r#"call put 4/0 idempotent {"n":0}, depth 1, by 25002"#),
        (
            20_003,
            RESUMED,
            r#"timer r at 60000
               call put 4/0 idempotent again 2 {"n":0}, depth 1, by 25003"#,
        ),
        (20_004, done(4, 0), "ask big as thinker for r, turn 2, step 2, 200 tokens, by 29004"),
    ];
    let machine = check(&planner(), &rows);
    let state = RunState::Running { step: 2, phase: "thinking".to_owned() };
    assert_eq!(machine.view(&run("r")).unwrap().state, state);
    let step = &machine.transcript().unwrap().1.steps[0];
    assert_eq!(step.planned.as_ref().unwrap().task, "keep x");
}

#[test]
fn limits_hold_where_steps_are_planned() {
    check(
        &with(planner(), |limits| limits.steps_max = 1),
        &[
            (0, submit("r"), START),
            (
                1,
                planned("r", 0, "pay", "pay x"),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001",
            ),
            (2, calls("r", 1, &["pay"]), r#"call pay 2/0 once {"n":0}, depth 1, by 5002"#),
            (3, unknown(2, 0), "publish r partial E4001, 20 used pay=unknown"),
        ],
    );
    check(
        &planner(),
        &[
            (0, submit("r"), START),
            (
                1,
                planned("r", 0, "writer", "write x"),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001",
            ),
            (2, cancel("r"), "abort r []\npublish r cancelled E4004, 10 used"),
        ],
    );
}

#[test]
fn a_call_of_another_tool_than_the_planned_one_breaks_a_rule() {
    let told = |run: &str, kind: EventKind| {
        let mut effects = Effects::new(session(), 0, Timestamp::from_micros(0), TraceSink::Export);
        effects.tell(&submitted(run), kind);
        effects.into_vec()
    };
    let plans = |run: &str, tool: &str| {
        let (tool, task, thoughts) = (tool.to_owned(), String::new(), String::new());
        told(run, EventKind::Planned { step: 1, tool, task, thoughts })
    };
    let calls = |run: &str, tool: &str| {
        let (call, tool, arguments) = (call(0, 0), name(tool), Arc::default());
        told(run, EventKind::CallStarted { call, tool, arguments, is_agent: false })
    };
    let check = |effects: Vec<Vec<Effect>>| {
        let entry = Entry::new(Timestamp::from_micros(0), Body::Session(RESUMED));
        called_as_planned(&[Record { entry, effects: effects.concat() }])
    };
    let broken = Err(Violation::NotPlanned { call: call(0, 0) });
    let cases = [
        (vec![calls("r", "look")], Ok(())),
        (vec![plans("r", "look"), calls("r", "look"), calls("r", "look")], Ok(())),
        (vec![plans("r", "look"), plans("r", "put"), calls("r", "put")], Ok(())),
        (vec![plans("r", "look"), calls("q", "put")], Ok(())),
        (vec![plans("r", "look"), calls("r", "put")], broken.clone()),
        (vec![plans("r", RESPOND_TO_USER), calls("r", "put")], broken),
    ];
    for (index, (effects, expected)) in cases.into_iter().enumerate() {
        assert_eq!(check(effects), expected, "case {index}");
    }
}
