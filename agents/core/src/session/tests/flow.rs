//! The way of a run that nothing disturbs, and of one whose models and tools err.

use wire::entry::FeedbackCode::{InvalidArguments, UnknownTool};
use wire::run::{OpenQuestion, RunState};
use wire::{OpenKind, Plan};

use super::team::{
    actor, answer, call, calls, continued, done, failed, faulty, garbage, model_failed, run,
    settle, submit, suspend, thinker, thought, unknown, with,
};
use super::{check, check_reports};
use crate::dialect::Act;

#[test]
fn thinks_and_then_acts() {
    let machine = check(
        &thinker(),
        &[
            (
                0,
                submit("r"),
                "timer r at 60000
                 ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000",
            ),
            (
                100,
                thought("r", 0, "look first"),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9100",
            ),
            (200, calls("r", 1, &["look"]), r#"call look 2/0 read {"n":0}, depth 1, by 5200"#),
            (300, done(2, 0), "ask big as thinker for r, turn 2, step 2, 200 tokens, by 9300"),
            (
                400,
                thought("r", 2, "enough"),
                "ask small as actor for r, turn 3, step 2, 200 tokens, by 9400",
            ),
            (500, answer("r", 3, "42"), r#"publish r completed "42", 40 used look=ok"#),
        ],
    );
    assert!(machine.is_idle());
    assert_eq!(machine.exchanges().map(|told| told.answer.as_str()).collect::<Vec<_>>(), ["42"]);
}

#[test]
fn one_model_does_both() {
    check(
        &actor(),
        &[
            (
                0,
                submit("r"),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 200 tokens, by 9000",
            ),
            (1, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
        ],
    );
}

#[test]
fn observers_are_told_in_order() {
    check_reports(
        &actor(),
        &[
            (
                0,
                submit("r"),
                r#"tell 0.0 accepted "ask r"
                   timer r at 60000
                   tell 0.1 started
                   tell 0.2 asked small
                   ask small as actor for r, turn 0, step 1, 200 tokens, by 9000"#,
            ),
            (
                10,
                calls("r", 0, &["look"]),
                r#"span chat small
                   tell 1.0 call look 1/0
                   call look 1/0 read {"n":0}, depth 1, by 5010"#,
            ),
            (
                30,
                failed(1, 0),
                r#"tell 2.0 ended 1/0 error "{\"error\":{\"code\":\"E3003\",\"message\":\"it broke\"}}" after 20
                   span execute_tool look: E3003 it broke
                   tell 2.1 asked small
                   ask small as actor for r, turn 1, step 2, 200 tokens, by 9030"#,
            ),
            (
                40,
                answer("r", 1, "42"),
                r#"span chat small
                   tell 3.0 over completed
                   span invoke_agent lead
                   publish r completed "42", 20 used look=error"#,
            ),
        ],
    );
}

#[test]
fn parallel_calls_are_answered_in_any_order() {
    let machine = check(
        &actor(),
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["look", "put", "pay"]),
                r#"call look 1/0 read {"n":0}, depth 1, by 5001
                   call put 1/1 idempotent {"n":1}, depth 1, by 5001
                   call pay 1/2 once {"n":2}, depth 1, by 5001"#,
            ),
            (2, done(1, 2), ""),
            (3, done(1, 2), "rejected: call 1/2 is not awaited"),
            (4, failed(1, 0), ""),
            (5, unknown(1, 1), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9005"),
            (6, done(1, 1), "rejected: call 1/1 is not awaited"),
        ],
    );
    let (_, transcript) = machine.transcript().unwrap();
    let Act::Calls { calls, .. } = &transcript.steps[0].acts[0] else { panic!("no calls") };
    let results: Vec<_> = calls.iter().map(|called| called.result.as_deref().unwrap()).collect();
    assert_eq!(
        results,
        [
            r#"{"error":{"code":"E3003","message":"it broke"}}"#,
            concat!(
                r#"{"status":"unknown","note":"no answer; it may have taken effect; "#,
                r#"do not repeat it; verify, or ask the user"}"#
            ),
            "done"
        ]
    );
}

/// What a submission to the one-model agent leads to.
pub(super) const START: &str = "timer r at 60000
    ask small as actor for r, turn 0, step 1, 200 tokens, by 9000";

#[test]
fn a_bad_reply_is_told_to_its_author() {
    let machine = check(
        &actor(),
        &[
            (0, submit("r"), START),
            (
                1,
                faulty("r", 0, &[], "lookk", UnknownTool),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001",
            ),
            (2, garbage("r", 1), "ask small as actor for r, turn 2, step 1, 200 tokens, by 9002"),
            (
                3,
                faulty("r", 2, &["look"], "put", InvalidArguments),
                r#"call look 3/0 read {"n":0}, depth 1, by 5003"#,
            ),
            (4, done(3, 0), "ask small as actor for r, turn 3, step 2, 200 tokens, by 9004"),
        ],
    );
    let (_, transcript) = machine.transcript().unwrap();
    let told: Vec<String> = transcript.steps[0]
        .acts
        .iter()
        .map(|act| match act {
            Act::Calls { calls, .. } => {
                let made = |called: &crate::dialect::Called| {
                    format!("{} made {}", called.read.name, called.key.is_some())
                };
                calls.iter().map(made).collect::<Vec<_>>().join(", ")
            }
            Act::Continued { text } => text.clone(),
            Act::Answered { text } => text.to_string(),
            Act::Steered { text } => format!("user: {text}"),
            Act::Feedback { raw, feedback } => format!("{raw}: {}", feedback.message),
        })
        .collect();
    assert_eq!(told, ["lookk made false", "{{: this is no JSON", "look made true, put made false"]);
}

#[test]
fn a_thinker_is_told_of_its_own_bad_replies_only() {
    let machine = check(
        &thinker(),
        &[
            (
                0,
                submit("r"),
                "timer r at 60000
                 ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000",
            ),
            (1, garbage("r", 0), "ask big as thinker for r, turn 1, step 1, 200 tokens, by 9001"),
        ],
    );
    let feedback = |machine: &crate::session::SessionMachine| {
        machine.transcript().unwrap().1.steps[0].acts.len()
    };
    assert_eq!(feedback(&machine), 1);
    let machine = check(
        &thinker(),
        &[
            (
                0,
                submit("r"),
                "timer r at 60000
                 ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000",
            ),
            (1, garbage("r", 0), "ask big as thinker for r, turn 1, step 1, 200 tokens, by 9001"),
            (
                2,
                thought("r", 1, "x"),
                "ask small as actor for r, turn 2, step 1, 200 tokens, by 9002",
            ),
        ],
    );
    assert_eq!(feedback(&machine), 0);
}

#[test]
fn a_model_that_fails_for_good_ends_the_run() {
    check(
        &actor(),
        &[(0, submit("r"), START), (1, model_failed("r", 0), "publish r failed E2002, 0 used")],
    );
}

#[test]
fn a_reply_out_of_turn_or_out_of_place_is_refused() {
    check(
        &thinker(),
        &[
            (0, thought("r", 0, "x"), "rejected: run r is not in work"),
            (
                1,
                submit("r"),
                "timer r at 60000
                 ask big as thinker for r, turn 0, step 1, 200 tokens, by 9001",
            ),
            (2, thought("r", 1, "x"), "rejected: turn 1 is not awaited"),
            (2, thought("r", u32::MAX, "x"), "rejected: turn 4294967295 is not awaited"),
            (3, answer("r", 0, "x"), "rejected: the input makes no sense where the run stands"),
            (4, thought("q", 0, "x"), "rejected: run q is not in work"),
            (
                5,
                thought("r", 0, "x"),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9005",
            ),
            (6, thought("r", 0, "x"), "rejected: turn 0 is not awaited"),
            (7, thought("r", 1, "x"), "rejected: the input makes no sense where the run stands"),
            (8, calls("r", 1, &["look"]), r#"call look 2/0 read {"n":0}, depth 1, by 5008"#),
            (9, thought("r", 1, "x"), "rejected: turn 1 is not awaited"),
        ],
    );
}

#[test]
fn a_suspended_call_waits_for_its_answer() {
    let rows = [
        (0, submit("r"), START),
        (1, suspend(1, 0), "rejected: call 1/0 is not awaited"),
        (
            2,
            calls("r", 0, &["pay", "look"]),
            r#"call pay 1/0 once {"n":0}, depth 1, by 5002
               call look 1/1 read {"n":1}, depth 1, by 5002"#,
        ),
        (3, suspend(1, 0), ""),
        (4, suspend(1, 0), "rejected: call 1/0 is not awaited"),
        (5, done(1, 1), ""),
    ];
    let machine = check(&actor(), &rows);
    assert_eq!(machine.asks(&run("r")), [call(1, 0)]);
    assert!(!machine.is_busy() && !machine.is_idle());
    let question = "may I?".to_owned();
    let state = machine.view(&run("r")).unwrap().state;
    let kind = OpenKind::Question;
    assert_eq!(state, RunState::Waiting { call: call(1, 0), question, kind, others: vec![] });

    let answered = (
        6,
        settle(1, 0, wire::CallOutcome::text("yes"), 0),
        "ask small as actor for r, turn 1, step 2, 200 tokens, by 9006",
    );
    let machine = check(&actor(), &rows.into_iter().chain([answered]).collect::<Vec<_>>());
    assert_eq!(machine.asks(&run("r")), []);
    assert!(machine.is_busy());
}

#[test]
fn several_questions_are_answered_in_any_order() {
    let mut rows = vec![
        (0, submit("r"), START),
        (
            1,
            calls("r", 0, &["look", "pay"]),
            r#"call look 1/0 read {"n":0}, depth 1, by 5001
               call pay 1/1 once {"n":1}, depth 1, by 5001"#,
        ),
        (2, suspend(1, 1), ""),
        (3, suspend(1, 0), ""),
    ];
    let machine = check(&actor(), &rows);
    assert_eq!(machine.asks(&run("r")), [call(1, 0), call(1, 1)]);
    assert_eq!(machine.asks(&run("q")), []);
    let question = || "may I?".to_owned();
    let kind = OpenKind::Question;
    let others = vec![OpenQuestion { call: call(1, 1), question: question(), kind }];
    let state = machine.view(&run("r")).unwrap().state;
    assert_eq!(state, RunState::Waiting { call: call(1, 0), question: question(), kind, others });

    rows.push((4, done(1, 1), ""));
    assert_eq!(check(&actor(), &rows).asks(&run("r")), [call(1, 0)]);
    rows.push((5, done(1, 0), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9005"));
    assert_eq!(check(&actor(), &rows).asks(&run("r")), []);
}

#[test]
fn the_same_call_is_refused_after_an_unknown_outcome() {
    let machine = check(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), r#"call pay 1/0 once {"n":0}, depth 1, by 5001"#),
            (2, unknown(1, 0), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9002"),
            (
                3,
                calls("r", 1, &["pay"]),
                "ask small as actor for r, turn 2, step 3, 200 tokens, by 9003",
            ),
            // Other arguments make another call.
            (
                4,
                calls("r", 2, &["look", "pay"]),
                r#"call look 4/0 read {"n":0}, depth 1, by 5004
                   call pay 4/1 once {"n":1}, depth 1, by 5004"#,
            ),
        ],
    );
    let (_, transcript) = machine.transcript().unwrap();
    let Act::Calls { calls, .. } = &transcript.steps[1].acts[0] else { panic!("no calls") };
    let result = calls[0].result.as_deref().unwrap();
    assert!(calls[0].key.is_none() && result.contains("is not made again"), "{result}");
}

#[test]
fn a_model_that_goes_on_is_asked_in_further_steps() {
    let plan = Plan { continue_word: Some("CONTINUE".to_owned()), ..thinker() };
    let machine = check_reports(
        &plan,
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
                thought("r", 0, "CONTINUE with one"),
                r#"span chat big
                   tell 1.0 thought "with one"
                   tell 1.1 asked small
                   ask small as actor for r, turn 1, step 1, 200 tokens, by 9001"#,
            ),
            (
                2,
                continued("r", 1, "CONTINUE one"),
                "span chat small
                   tell 2.0 asked big
                   ask big as thinker for r, turn 2, step 2, 200 tokens, by 9002",
            ),
            (
                2,
                continued("r", 2, "CONTINUE"),
                "rejected: the input makes no sense where the run stands",
            ),
            (
                3,
                thought("r", 2, "two"),
                r#"span chat big
                   tell 3.0 thought "two"
                   tell 3.1 asked small
                   ask small as actor for r, turn 3, step 2, 200 tokens, by 9003"#,
            ),
        ],
    );
    let (_, transcript) = machine.transcript().unwrap();
    assert_eq!(transcript.steps[0].acts, [Act::Continued { text: "CONTINUE one".to_owned() }]);
}

#[test]
fn a_model_that_goes_on_for_ever_is_stopped() {
    check(
        &with(actor(), |limits| limits.steps_max = 2),
        &[
            (0, submit("r"), START),
            (
                1,
                continued("r", 0, "CONTINUE"),
                "ask small as actor for r, turn 1, step 2, 200 tokens, by 9001",
            ),
            (2, continued("r", 1, "CONTINUE"), "publish r partial E4001, 20 used"),
        ],
    );
}
