//! Runs that have read what strangers wrote: what they may do by themselves, and what they hand on.

use std::collections::HashMap;

use wire::plan::Labels;
use wire::run::RunState;
use wire::{Digest, Input, OpenKind, Plan, Timestamp};

use super::flow::START;
use super::team::{
    actor, allow, answer, call, calls, deny, done, done_tainted, failed, found, lost, name,
    offering, probed, run, session, submit, submit_below, submit_tainted,
};
use super::{Row, check_open};
use crate::session::SessionMachine;

/// The team in which `look` reads what strangers write, and `put` and `pay` go outside.
fn exposed() -> Plan {
    let labelled = |plan, tool: &str, labels| offering(plan, tool, |offer| offer.labels = labels);
    let external = Labels { external: true, ..Labels::NONE };
    let plan = labelled(actor(), "look", Labels { untrusted: true, ..Labels::NONE });
    labelled(labelled(plan, "put", external), "pay", external)
}

const LOOKED: &str = r#"call look 1/0 read {"n":0}, depth 1, by 5001"#;

const NEXT: &str = "ask small as actor for r, turn 1, step 2, 200 tokens, by 9003";

const PAID: &str = r#"call pay 3/0 once {"n":0}, depth 1, by 5004"#;

const ASKED: &str = "open approval 3/0 waits, attempt 0, with a notice
    expire 3/0 at 10004";

#[test]
fn what_a_call_brought_decides_whether_the_next_one_needs_leave() {
    let put = r#"call put 1/0 idempotent {"n":0}, depth 1, by 5001"#;
    let wrote = r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, by 5001"#;
    let cases = [
        ("look", LOOKED, done(1, 0), ASKED),
        ("look", LOOKED, failed(1, 0), ASKED),
        ("put", put, done(1, 0), PAID),
        ("put", put, failed(1, 0), PAID),
        ("put", put, done_tainted(1, 0), ASKED),
        ("writer", wrote, done(1, 0), PAID),
        ("writer", wrote, done_tainted(1, 0), ASKED),
    ];
    for (tool, made, settled, expected) in cases {
        let rows = [
            (0, submit("r"), START),
            (1, calls("r", 0, &[tool]), made),
            (3, settled, NEXT),
            (4, calls("r", 1, &["pay"]), expected),
        ];
        check_open(&exposed(), &rows);
    }
}

#[test]
fn a_tainted_run_reads_on_asks_for_the_rest_and_says_what_it_is() {
    let looked = r#"call look 3/1 read {"n":1}, depth 1, tainted, by 5004"#;
    let wrote = r#"call writer 3/2 idempotent {"n":2}, depth 1, tainted, 490 tokens, by 5004"#;
    check_open(
        &exposed(),
        &[
            (0, submit("r"), START),
            // What is asked for at once is asked for in ignorance of each other's results.
            (
                1,
                calls("r", 0, &["look", "pay"]),
                r#"call look 1/0 read {"n":0}, depth 1, by 5001
                   call pay 1/1 once {"n":1}, depth 1, by 5001"#,
            ),
            (2, done(1, 0), ""),
            (3, done(1, 1), NEXT),
            (
                4,
                calls("r", 1, &["put", "look", "writer"]),
                &format!(
                    "open approval 4/0 waits, attempt 0, with a notice\nexpire 4/0 at 10004\n{}\n{}",
                    looked.replace("3/", "4/"),
                    wrote.replace("3/", "4/")
                ),
            ),
            (5, done(4, 1), ""),
            (6, done(4, 2), ""),
            (
                7,
                allow(4, 0, "put"),
                r#"close 4/0
                   call put 4/0 idempotent {"n":0}, depth 1, tainted, by 5007"#,
            ),
            (8, done(4, 0), "ask small as actor for r, turn 2, step 3, 200 tokens, by 9008"),
            (
                9,
                answer("r", 2, "42"),
                r#"publish r completed "42", 30 used, tainted look=ok pay=ok put=ok look=ok writer=ok"#,
            ),
        ],
    );
}

#[test]
fn what_was_never_made_brings_nothing() {
    let careful = offering(exposed(), "look", |offer| {
        offer.permission = wire::plan::Permission::Ask;
    });
    check_open(
        &careful,
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["look"]),
                "open approval 1/0 waits, attempt 0
                 expire 1/0 at 10001",
            ),
            (3, deny(1, 0, "no"), &format!("close 1/0\n{NEXT}")),
            (4, calls("r", 1, &["pay"]), PAID),
        ],
    );
}

#[test]
fn an_answer_that_never_came_counts_as_one() {
    let gone = offering(exposed(), "look", |offer| offer.attempts_max = 1);
    check_open(
        &gone,
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["look"]), LOOKED),
            (3, lost(1, 0, 1), NEXT),
            (4, calls("r", 1, &["pay"]), ASKED),
        ],
    );
}

/// The same with untrusted words, though its tool is trusted.
fn tainted(mut input: Input) -> Input {
    if let Input::CallLost { tainted, .. } | Input::CallProbed { tainted, .. } = &mut input {
        *tainted = true;
    }
    input
}

#[test]
fn an_attempt_or_a_probe_that_brought_such_words_counts_though_its_tool_is_trusted() {
    let once = offering(exposed(), "put", |offer| offer.attempts_max = 1);
    let put = r#"call put 1/0 idempotent {"n":0}, depth 1, by 5001"#;
    let unknown = format!("open unknown 1/0 told, attempt 1\n{NEXT}");
    let seen = r#"probe 1 of 1/0: call seen 1/0?1 read {"key":"1/0","arguments":{"n":0}}, depth 1"#;
    let of_tainted = format!("{seen}, tainted, by 1002");
    let seen = format!("{seen}, by 1002");
    let probe = |says: &str| found(1, 0, 1, serde_json::json!({"done": true, "result": says}));
    for (miss, found, expected) in [
        (lost(1, 0, 1), None, PAID),
        (tainted(lost(1, 0, 1)), None, ASKED),
        (lost(1, 0, 1), Some(probe("it is")), PAID),
        (lost(1, 0, 1), Some(tainted(probe("it is"))), ASKED),
        (tainted(lost(1, 0, 1)), Some(probe("it is")), ASKED),
    ] {
        let is_tainted = miss == tainted(miss.clone());
        let mut rows: Vec<Row<'_>> =
            vec![(0, submit("r"), START), (1, calls("r", 0, &["put"]), put)];
        let plan = if let Some(found) = found {
            rows.push((2, miss, if is_tainted { &of_tainted } else { &seen }));
            rows.push((3, found, NEXT));
            probed(once.clone(), "put")
        } else {
            rows.push((3, miss, &unknown));
            once.clone()
        };
        let slot = rows.len() as u64;
        let expected = expected.replace("3/", &format!("{slot}/"));
        rows.push((4, calls("r", 1, &["pay"]), &expected));
        check_open(&plan, &rows);
    }
}

#[test]
fn a_called_run_is_asked_for_when_that_is_allowed_and_by_what_its_caller_knows() {
    let careful = offering(exposed(), "writer", |offer| {
        offer.permission = wire::plan::Permission::Ask;
    });
    let key = call(1, 0);
    let mut machine = check_open(
        &careful,
        &[
            (0, submit_tainted("r"), START),
            (
                1,
                calls("r", 0, &["writer", "look"]),
                r#"open approval 1/0 waits, attempt 0
                   expire 1/0 at 10001
                   call look 1/1 read {"n":1}, depth 2, tainted, by 5001"#,
            ),
        ],
    );
    assert_eq!(machine.called(&key), None, "nobody has allowed it");
    let plans = HashMap::from([(Digest::of(b"plan"), careful.into())]);
    machine.apply(Timestamp::from_micros(2000), &allow(1, 0, "writer"), &plans).unwrap();
    let made = machine.called(&key).unwrap();
    assert_eq!((made.name.as_str(), made.depth, made.tainted), ("writer", 2, true));
    assert_eq!(machine.called(&call(1, 1)), None, "a tool is no agent");
    machine.apply(Timestamp::from_micros(3000), &done(1, 0), &plans).unwrap();
    assert_eq!(machine.called(&key), None, "it has ended");
}

#[test]
fn a_session_that_a_client_began_is_no_called_runs() {
    let asked = |input| {
        let Input::Submitted(submitted) = input else { panic!("{input:?}") };
        submitted
    };
    let (client, caller) = (asked(submit("q")), asked(submit_below("q", 1)));
    // Who began the session, and whether it is another's for a client and for a caller.
    for (begun, expected) in [
        (None, [false, false]),
        (Some(submit("r")), [false, true]),
        (Some(submit_below("r", 1)), [false, false]),
    ] {
        let rows: Vec<Row<'_>> = begun.iter().map(|begun| (0, begun.clone(), START)).collect();
        let machine = check_open(&actor(), &rows);
        assert_eq!([&client, &caller].map(|s| machine.is_of_others(s)), expected, "{begun:?}");
    }
}

#[test]
fn a_run_that_a_tainted_one_asked_for_is_tainted() {
    check_open(
        &exposed(),
        &[
            (0, submit_tainted("r"), START),
            (
                4,
                calls("r", 0, &["pay"]),
                "open approval 1/0 waits, attempt 0, with a notice
                 expire 1/0 at 10004",
            ),
        ],
    );
}

/// A session whose first run read what strangers write, and its second did not.
fn looked() -> SessionMachine {
    check_open(
        &exposed(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["look"]), LOOKED),
            (3, done(1, 0), NEXT),
            (4, answer("r", 1, "42"), r#"publish r completed "42", 20 used, tainted look=ok"#),
        ],
    )
}

#[test]
fn later_runs_are_tainted_for_as_long_as_they_are_shown_what_one_said() {
    let snapshot = Input::Snapshot(Box::new(looked().snapshot(Timestamp::from_micros(0)).unwrap()));
    // Whether the answer is still shown, and whether the session goes on from a snapshot.
    for (history, from_snapshot, tainted) in
        [(20, false, true), (20, true, true), (0, false, false), (0, true, false)]
    {
        let mut plan = exposed();
        plan.limits.history_messages_max = history;
        let plans = HashMap::from([(Digest::of(b"plan"), plan.into())]);
        let mut machine = looked();
        if from_snapshot {
            machine = SessionMachine::new(name("team"), session());
            machine.apply(Timestamp::from_micros(9), &snapshot, &plans).unwrap();
        }
        for input in [submit("q"), calls("q", 0, &["pay"])] {
            machine.apply(Timestamp::from_micros(10_000), &input, &plans).unwrap();
        }
        let state = machine.view(&run("q")).unwrap().state;
        let waits = matches!(state, RunState::Waiting { kind: OpenKind::Approval, .. });
        assert_eq!(waits, tainted, "{history} messages, from a snapshot: {from_snapshot}");
    }
}
