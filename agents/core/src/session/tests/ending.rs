//! Runs that are ended from outside: by a person, or by the clock.

use wire::Input;

use super::flow::START;
use super::show::{Shown, show};
use super::team::{
    actor, answer, calls, cancel, done, late, published, run, submit, suspend, thinker, thought,
    told,
};
use super::{Row, check};

/// Ends a run in each of its phases and compares what that leads to.
fn check_endings(end: fn(&str) -> Input, status: &str) {
    let think = "timer r at 60000
        ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000";
    let act = "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001";
    let made = r#"call look 2/0 read {"n":0}, depth 1, by 5002
        call put 2/1 idempotent {"n":1}, depth 1, by 5002
        call pay 2/2 once {"n":2}, depth 1, by 5002"#;
    let thinking: Vec<Row<'_>> = vec![(0, submit("r"), think)];
    let mut acting = thinking.clone();
    acting.push((1, thought("r", 0, "x"), act));
    let mut calling = acting.clone();
    calling.push((2, calls("r", 1, &["look", "put", "pay"]), made));
    let mut suspended = calling.clone();
    suspended.push((3, suspend(2, 2), ""));
    suspended.push((3, done(2, 0), ""));
    let cases = [
        (thinking, "abort r []", "0 used"),
        (acting, "abort r []", "10 used"),
        // A call that may not be repeated may have taken effect; of the others nobody has to know.
        (calling, "abort r [2/0, 2/1, 2/2]", "20 used look=error put=error pay=unknown"),
        // What waits for a person has not taken effect.
        (suspended, "abort r [2/1, 2/2]", "20 used look=ok put=error pay=error"),
    ];
    for (mut rows, abort, used) in cases {
        let ended = format!("{abort}\npublish r {status}, {used}");
        rows.push((10, end("r"), &ended));
        rows.push((11, end("r"), "rejected: run r is not in work"));
        rows.push((13, done(2, 1), "rejected: call 2/1 is not awaited"));
        assert!(check(&thinker(), &rows).is_idle());
    }
}

#[test]
fn a_run_is_cancelled_in_any_phase() {
    check_endings(cancel, "cancelled E4004");
}

#[test]
fn a_run_ends_with_its_time_in_any_phase() {
    check_endings(late, "deadline E1007");
}

#[test]
fn a_waiting_run_is_ended_where_it_waits() {
    for (end, status) in [
        (cancel as fn(&str) -> Input, "cancelled E4004"),
        (late as fn(&str) -> Input, "deadline E1007"),
    ] {
        let ended = format!("abort q []\npublish q {status}, 0 used");
        let machine = check(
            &actor(),
            &[
                (0, submit("r"), START),
                (1, submit("q"), "timer q at 60000"),
                (2, end("q"), &ended),
                (3, end("x"), "rejected: run x is not in work"),
                (4, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
            ],
        );
        assert!(machine.ended(&run("q")).is_some() && machine.resumption(false).is_none());
    }
}

#[test]
fn nothing_is_begun_once_the_time_is_over() {
    let machine = check(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, submit("q"), "timer q at 60000"),
            // The models' answers and the timers of the runs come at the same moment.
            (
                60_000,
                calls("r", 0, &["pay", "writer"]),
                "publish r deadline E1007, 10 used
                 publish q deadline E1007, 0 used",
            ),
        ],
    );
    assert!(machine.resumption(false).is_none());
}

#[test]
fn calls_have_their_outcome_before_the_run_is_over() {
    check(
        &actor(),
        &[
            (0, submit("r"), START),
            // A twentieth of the time that is left is the caller's own.
            (
                56_000,
                calls("r", 0, &["writer"]),
                r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, by 59800"#,
            ),
            (57_000, done(1, 0), "ask small as actor for r, turn 1, step 2, 200 tokens, by 60000"),
            // What is left is the caller's own, so nothing more is called.
            (
                59_801,
                calls("r", 1, &["look", "writer"]),
                "ask small as actor for r, turn 2, step 3, 200 tokens, by 60000",
            ),
            (
                59_900,
                answer("r", 2, "half of it"),
                r#"publish r completed "half of it", 30 used writer=ok"#,
            ),
        ],
    );
}

#[test]
fn called_agents_are_told_until_it_is_known_that_they_were() {
    let mut rows: Vec<Row<'_>> = vec![
        (0, submit("r"), START),
        (
            1,
            calls("r", 0, &["writer", "look", "writer"]),
            r#"call writer 1/0 idempotent {"n":0}, depth 1, 330 tokens, by 5001
               call look 1/1 read {"n":1}, depth 1, by 5001
               call writer 1/2 idempotent {"n":2}, depth 1, 330 tokens, by 5001"#,
        ),
        (2, told(1, 0), "rejected: call 1/0 is not awaited"),
        (
            3,
            cancel("r"),
            "abort r [1/0, 1/1, 1/2]
             publish r cancelled E4004, 10 used writer=error look=error writer=error",
        ),
        // A tool is not told: its call ended with what made it.
        (6, told(1, 1), "rejected: call 1/1 is not awaited"),
        (7, told(1, 2), ""),
        (8, told(1, 2), "rejected: call 1/2 is not awaited"),
    ];
    let machine = check(&actor(), &rows);
    assert!(!machine.is_idle() && machine.resumption(false).is_none() && machine.is_busy());
    assert!(machine.is_telling(&run("r")) && !machine.is_telling(&run("q")));
    let again: Vec<_> = machine.outstanding().iter().filter_map(|e| show(e, Shown::Acts)).collect();
    assert_eq!(again, ["abort r [1/0]"]);
    rows.push((9, told(1, 0), ""));
    let machine = check(&actor(), &rows);
    assert!(machine.is_idle() && !machine.is_telling(&run("r")));
}

#[test]
fn an_older_program_that_says_a_reply_was_handed_over_is_understood() {
    let end = "abort r [1/0, 1/1]\npublish r cancelled E4004, 10 used writer=error look=error";
    let rows = [
        (0, submit("r"), START),
        (
            1,
            calls("r", 0, &["writer", "look"]),
            r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, by 5001
               call look 1/1 read {"n":1}, depth 1, by 5001"#,
        ),
        (2, published("r"), "rejected: run r is not in work"),
        (3, cancel("r"), end),
        (4, published("r"), ""),
        (5, told(1, 0), ""),
        (
            6,
            submit("q"),
            "timer q at 60000\nask small as actor for q, turn 0, step 1, 200 tokens, by 9006",
        ),
        (7, answer("q", 0, "42"), r#"publish q completed "42", 10 used"#),
        (8, published("q"), ""),
        (9, published("x"), "rejected: run x is not in work"),
    ];
    assert!(!check(&actor(), &rows[..5]).is_idle());
    let machine = check(&actor(), &rows);
    assert!(machine.is_idle());
    assert_eq!(machine.slot(), 8);
}
