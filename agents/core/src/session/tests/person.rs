//! Leave that is asked for, given, denied and not given, and people who say what came of a call.

use std::collections::HashMap;

use serde_json::json;
use wire::entry::Reading;
use wire::plan::{OnUnknown, Permission, Permissions};
use wire::run::RunState;
use wire::{Digest, ErrorCode, Input, ModelRole, OpenKind, Plan, Timestamp};

use super::flow::START;
use super::team::{
    RESUMED, actor, allow, answer, call, calls, cancel, deny, done, expire, found, late, lost,
    name, offering, probed, read_call, replied, resolve, run, session, submit, suspend, unknown,
    with,
};
use super::{Row, check_open, check_reports};
use crate::dialect::Act;
use crate::session::SessionMachine;

/// The team in which paying needs leave.
fn careful() -> Plan {
    offering(actor(), "pay", |offer| offer.permission = Permission::Ask)
}

/// The team that waits for a person if it does not know whether it paid.
fn asking() -> Plan {
    offering(actor(), "pay", |offer| offer.on_unknown = OnUnknown::Ask)
}

fn told(machine: &SessionMachine, step: usize, index: usize) -> String {
    let (_, transcript) = machine.transcript().unwrap();
    let Some(Act::Calls { calls, .. }) = transcript.steps[step].acts.first() else {
        panic!("no calls")
    };
    calls[index].result.clone().unwrap()
}

const ASKED: &str = "open approval 1/0 waits, attempt 0
    expire 1/0 at 10001";

const NEXT: &str = "ask small as actor for r, turn 1, step 2, 200 tokens, by 9009";

#[test]
fn a_call_that_needs_leave_is_made_when_a_person_allows_it() {
    check_open(
        &careful(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), ASKED),
            (2, done(1, 0), "rejected: call 1/0 is not awaited"),
            (2, suspend(1, 0), "rejected: call 1/0 is not awaited"),
            (2, lost(1, 0, 0), "rejected: call 1/0 is not awaited"),
            (
                2,
                allow(1, 0, "put"),
                "rejected: call 1/0 is not what was decided about: its arguments or its attempt differ",
            ),
            (2, allow(1, 1, "pay"), "rejected: call 1/1 is not awaited"),
            (
                3,
                allow(1, 0, "pay"),
                r#"close 1/0
                   call pay 1/0 once {"n":0}, depth 1, by 5003"#,
            ),
            (4, allow(1, 0, "pay"), "rejected: call 1/0 is not awaited"),
            (4, deny(1, 0, ""), "rejected: call 1/0 is not awaited"),
            (4, expire(1, 0), "rejected: call 1/0 is not awaited"),
            (9, done(1, 0), NEXT),
            (10, answer("r", 1, "42"), r#"publish r completed "42", 20 used pay=ok"#),
        ],
    );
}

#[test]
fn leave_is_asked_for_in_the_words_of_the_call() {
    let machine = check_reports(
        &careful(),
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
                1,
                calls("r", 0, &["pay"]),
                r#"span chat small
                   tell 1.0 call pay 1/0
                   tell 1.1 suspended 1/0 approval "allow pay {\"n\":0}?"
                   open approval 1/0 waits, attempt 0
                   expire 1/0 at 10001"#,
            ),
        ],
    );
    let question = r#"allow pay {"n":0}?"#.to_owned();
    let state =
        RunState::Waiting { call: call(1, 0), question, kind: OpenKind::Approval, others: vec![] };
    assert_eq!(machine.view(&run("r")).unwrap().state, state);
    assert_eq!(machine.asks(&run("r")), [], "nothing that an answer could settle");
}

#[test]
fn what_is_denied_is_not_asked_for_again() {
    let again = |ms| (ms, calls("r", 1, &["pay"]), "");
    let denials = [(5, deny(1, 0, "too dear")), (5, deny(1, 0, " ")), (10_001, expire(1, 0))];
    let texts = ["too dear", "a person denied this call; do not", "nobody allowed this call"];
    for ((ms, denial), text) in denials.into_iter().zip(texts) {
        let next = format!(
            "close 1/0\nask small as actor for r, turn 1, step 2, 200 tokens, by {}",
            ms + 9000
        );
        let refused =
            format!("ask small as actor for r, turn 2, step 3, 200 tokens, by {}", ms + 9001);
        let machine = check_open(
            &careful(),
            &[
                (0, submit("r"), START),
                (1, calls("r", 0, &["pay"]), ASKED),
                (ms, denial, &next),
                (ms + 1, again(ms).1, &refused),
            ],
        );
        for step in 0..2 {
            let told = told(&machine, step, 0);
            assert!(told.contains(text) && told.contains("E3008"), "{told}");
        }
    }
}

#[test]
fn one_of_two_like_calls_cannot_be_allowed_once_the_other_is_denied_or_unknown() {
    let two = vec![read_call("pay", json!({"n": 0})); 2];
    let asked = Reading::Calls { text: String::new(), calls: two };
    let asked = replied("r", 0, ModelRole::Actor, 10, asked);
    let waits = || offering(careful(), "pay", |offer| offer.on_unknown = OnUnknown::Ask);
    let probes = || probed(careful(), "pay");
    let made = |rows: &[Input]| [&[allow(1, 0, "pay"), lost(1, 0, 1)][..], rows].concat();
    let is_done = json!({"done": true, "result": 7});
    let unknown = Some("its outcome is unknown");
    for (plan, rows, expected) in [
        (careful(), vec![], None),
        (careful(), vec![deny(1, 0, "no")], Some("a person denied this call: no")),
        (careful(), vec![allow(1, 0, "pay"), done(1, 0)], None),
        (careful(), made(&[]), unknown),
        (careful(), made(&[resolve(1, 0, 1, None)]), None),
        (waits(), made(&[]), unknown),
        (waits(), made(&[resolve(1, 0, 1, None)]), None),
        (waits(), made(&[resolve(1, 0, 1, Some(json!(7)))]), None),
        (probes(), made(&[]), unknown),
        (probes(), made(&[found(1, 0, 1, is_done)]), None),
    ] {
        let plans = HashMap::from([(Digest::of(b"plan"), plan.into())]);
        let mut machine = SessionMachine::new(name("team"), session());
        let inputs = [submit("r"), asked.clone()].into_iter().chain(rows);
        for (ms, input) in (0u64..).zip(inputs) {
            machine.apply(Timestamp::from_micros(ms * 1000), &input, &plans).unwrap();
        }
        let bar = machine.bar_of(&call(1, 1));
        let is_expected = bar.as_deref().zip(expected).is_none_or(|(bar, part)| bar.contains(part));
        assert!(bar.is_some() == expected.is_some() && is_expected, "{bar:?}, not {expected:?}");
    }
}

#[test]
fn leave_comes_too_late_when_its_time_is_over() {
    check_open(
        &careful(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), ASKED),
            (10_001, allow(1, 0, "pay"), "rejected: call 1/0 is not awaited"),
        ],
    );
    // A run that ends before has to have time for its answer.
    check_open(
        &with(careful(), |limits| limits.approval_timeout_ms = 600_000),
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["pay"]),
                "open approval 1/0 waits, attempt 0
                 expire 1/0 at 57001",
            ),
        ],
    );
}

#[test]
fn other_calls_go_on_while_one_waits_for_leave() {
    check_open(
        &careful(),
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["look", "pay"]),
                r#"open approval 1/1 waits, attempt 0
                   call look 1/0 read {"n":0}, depth 1, by 5001
                   expire 1/1 at 10001"#,
            ),
            (2, done(1, 0), ""),
            (
                3,
                allow(1, 1, "pay"),
                r#"close 1/1
                   call pay 1/1 once {"n":1}, depth 1, by 5003"#,
            ),
            (9, done(1, 1), NEXT),
        ],
    );
}

#[test]
fn waiting_for_leave_survives_any_number_of_restarts() {
    let again = "timer r at 60000\nexpire 1/0 at 10001";
    let mut rows: Vec<Row<'_>> = vec![(0, submit("r"), START), (1, calls("r", 0, &["pay"]), ASKED)];
    rows.extend((2..9).map(|ms| (ms, RESUMED, again)));
    rows.push((
        9,
        allow(1, 0, "pay"),
        r#"close 1/0
           call pay 1/0 once {"n":0}, depth 1, by 5009"#,
    ));
    rows.push((
        10,
        RESUMED,
        "open unknown 1/0 told, attempt 1
         timer r at 60000
         ask small as actor for r, turn 1, step 2, 200 tokens, by 9010",
    ));
    check_open(&careful(), &rows);
}

#[test]
fn a_call_without_leave_is_not_made_when_its_run_ends() {
    for (ending, ms, line) in [
        (cancel("r"), 5, "publish r cancelled E4004, 10 used pay=error"),
        (late("r"), 60_000, "publish r deadline E1007, 10 used pay=error"),
        (RESUMED, 60_000, "publish r deadline E1007, 10 used pay=error"),
    ] {
        let lines = format!("abort r []\nclose 1/0\n{line}");
        check_open(
            &careful(),
            &[(0, submit("r"), START), (1, calls("r", 0, &["pay"]), ASKED), (ms, ending, &lines)],
        );
    }
}

#[test]
fn patterns_decide_before_the_offer_does() {
    let list = |text: &str| vec![text.to_owned()];
    let made = r#"call pay 1/0 once {"n":0}, depth 1, by 5001"#;
    let refused = "ask small as actor for r, turn 1, step 2, 200 tokens, by 9001";
    for (permissions, lines) in [
        (Permissions { allow: list("pay(n=0)"), ..Permissions::default() }, made),
        (Permissions { allow: list("pay(n=1)"), ..Permissions::default() }, ASKED),
        (Permissions { deny: list("p*"), ..Permissions::default() }, refused),
    ] {
        let plan = Plan { permissions, ..careful() };
        let machine =
            check_open(&plan, &[(0, submit("r"), START), (1, calls("r", 0, &["pay"]), lines)]);
        if lines == refused {
            let told = told(&machine, 0, 0);
            assert!(told.contains("\"p*\\\" is denied") || told.contains("is denied"), "{told}");
            assert!(told.contains(ErrorCode::CallDenied.as_str()), "{told}");
        }
    }
}

#[test]
fn a_called_agent_may_need_leave_too() {
    let permissions = Permissions { ask: vec!["writer".to_owned()], ..Permissions::default() };
    check_open(
        &Plan { permissions, ..actor() },
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["writer"]), ASKED),
            (
                2,
                allow(1, 0, "writer"),
                r#"close 1/0
                   call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, by 5002"#,
            ),
        ],
    );
}

const MADE: &str = r#"call pay 1/0 once {"n":0}, depth 1, by 5001"#;

#[test]
fn a_run_can_wait_until_a_person_knows() {
    let waits = "open unknown 1/0 waits, attempt 1";
    for miss in [unknown(1, 0), lost(1, 0, 1), RESUMED] {
        let lines =
            if miss == RESUMED { format!("{waits}\ntimer r at 60000") } else { waits.to_owned() };
        let rows = [
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), MADE),
            (2, miss, &*lines),
            (3, RESUMED, "timer r at 60000"),
            (
                4,
                resolve(1, 0, 2, None),
                "rejected: call 1/0 is not what was decided about: its arguments or its attempt differ",
            ),
        ];
        let done: Vec<Row<'_>> = rows
            .iter()
            .cloned()
            .chain([
                (
                    9,
                    resolve(1, 0, 1, Some(json!("paid"))),
                    "close 1/0\nask small as actor for r, turn 1, step 2, 200 tokens, by 9009",
                ),
                (10, resolve(1, 0, 1, None), "rejected: call 1/0 is not awaited"),
                (11, answer("r", 1, "42"), r#"publish r completed "42", 20 used pay=ok"#),
            ])
            .collect();
        check_open(&asking(), &done);
        // What was not done is done under the same key.
        let not_done: Vec<Row<'_>> = rows
            .iter()
            .cloned()
            .chain([
                (
                    9,
                    resolve(1, 0, 1, None),
                    r#"close 1/0
                       call pay 1/0 once after all 2 {"n":0}, depth 1, by 5009"#,
                ),
                (10, resolve(1, 0, 1, None), "rejected: call 1/0 is not awaited"),
                (11, lost(1, 0, 1), "rejected: call 1/0 is not awaited"),
                (12, lost(1, 0, 2), "open unknown 1/0 waits, attempt 2"),
                (
                    13,
                    resolve(1, 0, 1, None),
                    "rejected: call 1/0 is not what was decided about: its arguments or its attempt differ",
                ),
                (14, cancel("r"), "abort r [1/0]\nopen unknown 1/0 told, attempt 2\npublish r cancelled E4004, 10 used pay=unknown"),
                (15, resolve(1, 0, 2, Some(json!(1))), "close 1/0"),
            ])
            .collect();
        check_open(&asking(), &not_done);
    }
}

#[test]
fn nothing_is_made_or_asked_when_the_time_of_the_run_is_over() {
    check_open(
        &asking(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), MADE),
            (2, lost(1, 0, 1), "open unknown 1/0 waits, attempt 1"),
            (
                60_000,
                resolve(1, 0, 1, None),
                "close 1/0\npublish r deadline E1007, 10 used pay=error",
            ),
        ],
    );
    let probing = r#"probe 1 of 1/0: call seen 1/0?1 read {"key":"1/0","arguments":{"n":0}}, depth 1, by 1002"#;
    let unclear = found(1, 0, 1, json!("no idea"));
    for (ms, input) in [(60_000, lost(1, 0, 1)), (60_000, unclear)] {
        let mut rows = vec![(0, submit("r"), START), (1, calls("r", 0, &["pay"]), MADE)];
        if input != lost(1, 0, 1) {
            rows.push((2, lost(1, 0, 1), probing));
        }
        let ended =
            "open unknown 1/0 told, attempt 1\npublish r deadline E1007, 10 used pay=unknown";
        rows.push((ms, input, ended));
        check_open(&probed(actor(), "pay"), &rows);
    }
}

#[test]
fn a_late_answer_of_the_tool_settles_what_a_person_is_asked() {
    check_open(
        &asking(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), MADE),
            (2, lost(1, 0, 1), "open unknown 1/0 waits, attempt 1"),
            (
                9,
                done(1, 0),
                "close 1/0\nask small as actor for r, turn 1, step 2, 200 tokens, by 9009",
            ),
        ],
    );
}

#[test]
fn a_run_can_end_when_nobody_knows() {
    let failing = offering(actor(), "pay", |offer| offer.on_unknown = OnUnknown::Fail);
    let machine = check_open(
        &failing,
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["pay", "look"]),
                r#"call pay 1/0 once {"n":0}, depth 1, by 5001
                   call look 1/1 read {"n":1}, depth 1, by 5001"#,
            ),
            (
                2,
                lost(1, 0, 1),
                "open unknown 1/0 told, attempt 1
                 abort r [1/1]
                 publish r failed E3009, 10 used pay=unknown look=error",
            ),
            (3, done(1, 1), "rejected: call 1/1 is not awaited"),
        ],
    );
    assert_eq!(machine.decidable(&call(1, 0)).map(|(_, attempt)| attempt), Some(1));
    check_open(
        &failing,
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), MADE),
            (
                2,
                RESUMED,
                "open unknown 1/0 told, attempt 1
                 abort r []
                 publish r failed E3009, 10 used pay=unknown",
            ),
        ],
    );
}

/// Rows in which a call of the first step ends as unknown and the model is told.
fn told_unknown() -> [Row<'static>; 3] {
    [
        (0, submit("r"), START),
        (1, calls("r", 0, &["pay"]), MADE),
        (
            9,
            unknown(1, 0),
            "open unknown 1/0 told, attempt 1\nask small as actor for r, turn 1, step 2, 200 tokens, by 9009",
        ),
    ]
}

#[test]
fn what_a_person_says_later_is_what_the_same_call_comes_to() {
    let same = |turn: u32| calls("r", turn, &["pay"]);
    let refused = "ask small as actor for r, turn 2, step 3, 200 tokens, by 9020";
    // Nobody has said anything yet.
    let mut rows = told_unknown().to_vec();
    rows.push((20, same(1), refused));
    let machine = check_open(&actor(), &rows);
    assert!(told(&machine, 1, 0).contains("unknown"), "{}", told(&machine, 1, 0));

    let mut rows = told_unknown().to_vec();
    rows.push((10, resolve(1, 0, 1, Some(json!({"id": 7}))), "close 1/0"));
    rows.push((11, resolve(1, 0, 1, None), "rejected: call 1/0 is not awaited"));
    rows.push((20, same(1), refused));
    let machine = check_open(&actor(), &rows);
    assert_eq!(told(&machine, 1, 0), r#"{"id":7}"#);
    rows.push((21, answer("r", 2, "42"), r#"publish r completed "42", 30 used pay=ok"#));
    check_open(&actor(), &rows);

    let mut rows = told_unknown().to_vec();
    rows.push((10, resolve(1, 0, 1, None), "close 1/0"));
    rows.push((20, same(1), r#"call pay 4/0 once {"n":0}, depth 1, by 5020"#));
    check_open(&actor(), &rows);
}

#[test]
fn an_unknown_outcome_is_kept_for_people_when_its_run_is_over() {
    let mut rows = told_unknown().to_vec();
    rows.push((10, answer("r", 1, "42"), r#"publish r completed "42", 20 used pay=unknown"#));
    rows.push((
        12,
        resolve(1, 0, 2, None),
        "rejected: call 1/0 is not what was decided about: its arguments or its attempt differ",
    ));
    let machine = check_open(&actor(), &rows);
    assert!(machine.is_idle());
    rows.push((13, resolve(1, 0, 1, None), "close 1/0"));
    rows.push((14, resolve(1, 0, 1, None), "rejected: call 1/0 is not awaited"));
    let machine = check_open(&actor(), &rows);
    assert_eq!(machine.decidable(&call(1, 0)), None);
}

#[test]
fn the_same_call_is_known_however_it_is_written() {
    let one = |turn: u32, arguments: serde_json::Value| {
        let Input::ModelReplied(mut replied) = calls("r", turn, &["pay"]) else { panic!() };
        if let wire::entry::ModelOutcome::Read { reading: Reading::Calls { calls, .. }, .. } =
            &mut replied.outcome
        {
            calls[0] = read_call("pay", arguments);
        }
        Input::ModelReplied(replied)
    };
    assert_eq!(name("pay").as_str(), "pay");
    let machine = check_open(
        &actor(),
        &[
            (0, submit("r"), START),
            (
                1,
                one(0, json!({"to": "a", "amount": 7})),
                r#"call pay 1/0 once {"to":"a","amount":7}, depth 1, by 5001"#,
            ),
            (
                2,
                unknown(1, 0),
                "open unknown 1/0 told, attempt 1\nask small as actor for r, turn 1, step 2, 200 tokens, by 9002",
            ),
            (
                3,
                one(1, json!({"amount": 7.0, "to": "a"})),
                "ask small as actor for r, turn 2, step 3, 200 tokens, by 9003",
            ),
            (
                4,
                one(2, json!({"amount": 8, "to": "a"})),
                r#"call pay 4/0 once {"amount":8,"to":"a"}, depth 1, by 5004"#,
            ),
        ],
    );
    assert!(told(&machine, 1, 0).contains("unknown"));
}
