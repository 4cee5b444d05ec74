//! Sessions that are taken up again after their process ended.

use wire::Input;

use super::flow::START;
use super::team::{
    RESUMED, actor, answer, call, calls, done, garbage, run, submit, suspend, thinker, thought,
    with,
};
use super::{Row, check};

#[test]
fn what_was_asked_is_asked_again_with_new_time() {
    let think = "timer r at 60000
        ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000";
    let thinking: Vec<Row<'_>> = vec![
        (0, submit("r"), think),
        (
            20_000,
            RESUMED,
            "timer r at 60000
             ask big as thinker for r, turn 0, step 1, 200 tokens, by 29000",
        ),
    ];
    check(&thinker(), &thinking);
    check(
        &thinker(),
        &[
            (0, submit("r"), think),
            (
                1,
                thought("r", 0, "x"),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001",
            ),
            (
                20_000,
                RESUMED,
                "timer r at 60000
                 ask small as actor for r, turn 1, step 1, 200 tokens, by 29000",
            ),
            (20_001, thought("r", 0, "x"), "rejected: turn 0 is not awaited"),
            (20_002, answer("r", 1, "42"), r#"publish r completed "42", 20 used"#),
        ],
    );
}

#[test]
fn calls_are_made_again_by_their_effect_class() {
    let machine = check(
        &with(actor(), |limits| limits.calls_per_step_max = 4),
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["look", "put", "pay", "writer"]),
                r#"call look 1/0 read {"n":0}, depth 1, by 5001
                   call put 1/1 idempotent {"n":1}, depth 1, by 5001
                   call pay 1/2 once {"n":2}, depth 1, by 5001
                   call writer 1/3 idempotent {"n":3}, depth 1, 495 tokens, by 5001"#,
            ),
            (
                20_000,
                RESUMED,
                r#"timer r at 60000
                   call look 1/0 read again 2 {"n":0}, depth 1, by 25000
                   call put 1/1 idempotent again 2 {"n":1}, depth 1, by 25000
                   call writer 1/3 idempotent again 2 {"n":3}, depth 1, 495 tokens, by 25000"#,
            ),
            (20_001, done(1, 2), "rejected: call 1/2 is not awaited"),
            (20_002, done(1, 0), ""),
            (20_003, done(1, 3), ""),
            (20_004, done(1, 1), "ask small as actor for r, turn 1, step 2, 200 tokens, by 29004"),
            (
                20_005,
                answer("r", 1, "42"),
                r#"publish r completed "42", 20 used look=ok put=ok pay=unknown writer=ok"#,
            ),
        ],
    );
    assert!(machine.resumption(false).is_none());
}

#[test]
fn a_step_whose_calls_are_all_unknown_is_over() {
    check(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), r#"call pay 1/0 once {"n":0}, depth 1, by 5001"#),
            (
                2,
                RESUMED,
                "timer r at 60000
                 ask small as actor for r, turn 1, step 2, 200 tokens, by 9002",
            ),
        ],
    );
}

#[test]
fn a_suspended_call_stays_suspended_however_often_the_process_ends() {
    let mut rows = vec![
        (0, submit("r"), START),
        (1, calls("r", 0, &["pay"]), r#"call pay 1/0 once {"n":0}, depth 1, by 5001"#),
        (2, suspend(1, 0), ""),
    ];
    rows.extend((3..10).map(|ms| (ms, RESUMED, "timer r at 60000")));
    let machine = check(&actor(), &rows);
    assert_eq!(machine.asks(&run("r")), [call(1, 0)]);
    rows.push((10, done(1, 0), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9010"));
    check(&actor(), &rows);
}

#[test]
fn a_run_that_ends_the_process_again_and_again_is_given_up() {
    let again = "timer r at 60000
        ask small as actor for r, turn 0, step 1, 200 tokens, by 9001";
    let rows = [
        (0, submit("r"), START),
        (0, submit("q"), "timer q at 60000"),
        (1, RESUMED, &format!("timer q at 60000\n{again}")),
        (1, RESUMED, &format!("timer q at 60000\n{again}")),
        (
            1,
            RESUMED,
            "abort r []
             publish r failed E4005, 0 used
             timer q at 60000
             ask small as actor for q, turn 0, step 1, 200 tokens, by 9001",
        ),
    ];
    check(&actor(), &rows);
}

#[test]
fn a_run_whose_process_was_drained_is_not_given_up() {
    let drained = Input::Resumed { waiting: false, drained: true };
    let again = "timer r at 60000
        ask small as actor for r, turn 0, step 1, 200 tokens, by 9001";
    let mut rows = vec![(0, submit("r"), START)];
    rows.extend((0..9).map(|_| (1, drained.clone(), again)));
    assert_eq!(check(&actor(), &rows).resumption(true), Some(drained.clone()));
    // Between two drains the process may end otherwise, and that counts.
    rows.extend([(1, RESUMED, again), (1, drained.clone(), again), (1, RESUMED, again)]);
    let given_up = "abort r []\npublish r failed E4005, 0 used";
    rows.extend([(1, drained, again), (1, RESUMED, given_up)]);
    check(&actor(), &rows);
}

#[test]
fn a_run_that_waits_for_called_agents_is_not_given_up() {
    let waiting = Input::Resumed { waiting: true, drained: false };
    let made = |ms: u64, attempt: &str| {
        let by = ms + 5000;
        format!("call writer 1/0 idempotent{attempt} {{\"n\":0}}, depth 1, 495 tokens, by {by}")
    };
    let first = made(1, "");
    let again: Vec<(u64, String)> = (2..9)
        .map(|ms| (ms, format!("timer r at 60000\n{}", made(ms, &format!(" again {ms}")))))
        .collect();
    let mut rows: Vec<Row<'_>> =
        vec![(0, submit("r"), START), (1, calls("r", 0, &["writer"]), &first)];
    rows.extend(again.iter().map(|(ms, lines)| (*ms, waiting.clone(), lines.as_str())));
    assert_eq!(check(&actor(), &rows).resumption(false), Some(waiting.clone()));
    // What is at work beside it may be the cause, and what a person was asked is not.
    let pay = r#"call pay 1/1 once {"n":1}, depth 1, by 5001"#;
    let both = format!("{first}\n{pay}");
    let mut rows = vec![(0, submit("r"), START), (1, calls("r", 0, &["writer", "pay"]), &*both)];
    assert_eq!(check(&actor(), &rows).resumption(false), Some(RESUMED));
    rows.push((2, suspend(1, 1), ""));
    assert_eq!(check(&actor(), &rows).resumption(false), Some(waiting));
}

#[test]
fn calls_of_a_run_that_is_given_up_are_told() {
    let made = r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, by 5001
        call pay 1/1 once {"n":1}, depth 1, by 5001"#;
    check(
        &with(actor(), |limits| limits.resumes_max = 0),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["writer", "pay"]), made),
            (
                2,
                RESUMED,
                "abort r [1/0, 1/1]\npublish r failed E4005, 10 used writer=error pay=unknown",
            ),
        ],
    );
}

#[test]
fn a_run_that_moves_on_is_not_given_up() {
    let ask = |turn: u32| {
        format!(
            "timer r at 60000
             ask small as actor for r, turn {turn}, step 1, 200 tokens, by 9001"
        )
    };
    let (zero, one) = (ask(0), ask(1));
    check(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, RESUMED, &zero),
            (1, RESUMED, &zero),
            (1, garbage("r", 0), "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001"),
            (1, RESUMED, &one),
            (1, RESUMED, &one),
            (
                1,
                calls("r", 1, &["look", "pay"]),
                r#"call look 6/0 read {"n":0}, depth 1, by 5001
                   call pay 6/1 once {"n":1}, depth 1, by 5001"#,
            ),
            (1, suspend(6, 1), ""),
            (
                1,
                RESUMED,
                "timer r at 60000\ncall look 6/0 read again 2 {\"n\":0}, depth 1, by 5001",
            ),
            (
                1,
                RESUMED,
                "timer r at 60000\ncall look 6/0 read again 3 {\"n\":0}, depth 1, by 5001",
            ),
            (1, done(6, 0), ""),
            (1, RESUMED, "timer r at 60000"),
        ],
    );
}

#[test]
fn a_reply_is_said_once_and_nothing_is_left_of_its_run() {
    let rows = [
        (0, RESUMED, "rejected: the input makes no sense where the run stands"),
        (0, submit("r"), START),
        (1, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
        (2, RESUMED, "rejected: the input makes no sense where the run stands"),
    ];
    let machine = check(&actor(), &rows);
    assert!(machine.is_idle() && machine.outstanding().is_empty());
    let next = [
        rows[1].clone(),
        rows[2].clone(),
        (
            2,
            submit("q"),
            "timer q at 60000\nask small as actor for q, turn 0, step 1, 200 tokens, by 9002",
        ),
        (
            3,
            RESUMED,
            "timer q at 60000\nask small as actor for q, turn 0, step 1, 200 tokens, by 9003",
        ),
    ];
    assert!(!check(&actor(), &next).is_idle());
}

#[test]
fn a_run_whose_time_passed_meanwhile_is_over() {
    check(
        &actor(),
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["look", "pay"]),
                r#"call look 1/0 read {"n":0}, depth 1, by 5001
               call pay 1/1 once {"n":1}, depth 1, by 5001"#,
            ),
            (2, suspend(1, 1), ""),
            (
                60_000,
                RESUMED,
                "abort r [1/0, 1/1]
                 publish r deadline E1007, 10 used look=error pay=error",
            ),
        ],
    );
}
