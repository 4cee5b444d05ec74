//! Calls without an answer: made again by their class, or found out about by a probe.

use serde_json::{Value, json};
use wire::plan::Plan;
use wire::{CallOutcome, ErrorCode, Input};

use super::flow::START;
use super::team::{
    RESUMED, actor, call, calls, done, found, lost, offering, probed, resolve, submit, with,
};
use super::{Row, check_open, check_reports};

const PUT: &str = r#"call put 1/0 idempotent {"n":0}, depth 1, by 5001"#;
const PAY: &str = r#"call pay 1/0 once {"n":0}, depth 1, by 5001"#;
const LOOK: &str = r#"call look 1/0 read {"n":0}, depth 1, by 5001"#;
const NEXT: &str = "ask small as actor for r, turn 1, step 2, 200 tokens, by 9900";

fn again(tool: &str, class: &str, attempt: u32, ms: u64) -> String {
    format!(r#"call {tool} 1/0 {class} again {attempt} {{"n":0}}, depth 1, by {}"#, ms + 5000)
}

#[test]
fn a_call_is_made_so_often_and_then_given_up() {
    for (tool, class, first, most, last) in [
        ("look", "read", LOOK, 3, NEXT.to_owned()),
        ("put", "idempotent", PUT, 5, format!("open unknown 1/0 told, attempt 5\n{NEXT}")),
        ("pay", "once", PAY, 1, format!("open unknown 1/0 told, attempt 1\n{NEXT}")),
    ] {
        let mut lines: Vec<(u64, Input, String)> = Vec::new();
        for attempt in 1..most {
            let ms = u64::from(attempt) * 100;
            lines.push((ms, lost(1, 0, attempt), again(tool, class, attempt + 1, ms)));
            // A second word about the same attempt is none about the next.
            let stale = "rejected: call 1/0 is not awaited".to_owned();
            lines.push((ms, lost(1, 0, attempt), stale));
        }
        lines.push((900, lost(1, 0, most), last));
        let mut rows: Vec<Row<'_>> =
            vec![(0, submit("r"), START), (1, calls("r", 0, &[tool]), first)];
        rows.extend(lines.iter().map(|(ms, input, line)| (*ms, input.clone(), line.as_str())));
        check_open(&actor(), &rows);
    }
}

#[test]
fn attempts_count_across_restarts() {
    let (two, three) = (again("look", "read", 2, 10), again("look", "read", 3, 20));
    check_open(
        &with(actor(), |limits| limits.resumes_max = 9),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["look"]), LOOK),
            (10, RESUMED, &format!("timer r at 60000\n{two}")),
            (20, lost(1, 0, 2), &three),
            (
                900,
                RESUMED,
                "timer r at 60000\nask small as actor for r, turn 1, step 2, 200 tokens, by 9900",
            ),
        ],
    );
}

#[test]
fn a_call_that_may_still_be_answered_is_waited_for_after_a_restart() {
    let plan = offering(actor(), "pay", |offer| offer.rejoins = true);
    let plan = with(probed(plan, "pay"), |limits| limits.resumes_max = 9);
    let waited = |attempt: u32, ms: u64| {
        let by = ms + 5000;
        format!(
            r#"timer r at 60000
call pay 1/0 once waited for {attempt} {{"n":0}}, depth 1, by {by}"#
        )
    };
    check_open(
        &plan,
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), PAY),
            (10, RESUMED, &waited(2, 10)),
            (20, RESUMED, &waited(3, 20)),
            (25, lost(1, 0, 2), "rejected: call 1/0 is not awaited"),
            // If no answer comes in its time, it is found out about as ever.
            (30, lost(1, 0, 3), &probe(1, 30)),
        ],
    );
    let open = offering(actor(), "pay", |offer| offer.rejoins = true);
    check_open(
        &open,
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), PAY),
            (10, RESUMED, &waited(2, 10)),
            (20, done(1, 0), &NEXT.replace("9900", "9020")),
        ],
    );
}

#[test]
fn nothing_is_made_again_when_there_is_no_time_for_it() {
    check_open(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["look"]), LOOK),
            (
                59_900,
                lost(1, 0, 1),
                "ask small as actor for r, turn 1, step 2, 200 tokens, by 60000",
            ),
        ],
    );
}

#[test]
fn a_key_that_the_tool_may_have_forgotten_is_not_used_again() {
    let forgetful = offering(actor(), "put", |offer| offer.key_ttl_ms = Some(1000));
    let older = Plan { edition: 2, ..forgetful.clone() };
    // Nor may an attempt begin then that is made before.
    let kept = |by| format!(r#"call put 1/0 idempotent again 2 {{"n":0}}, depth 1, by {by}"#);
    let unknown = "open unknown 1/0 told, attempt 1";
    let next =
        |ms: u64| format!("ask small as actor for r, turn 1, step 2, 200 tokens, by {}", ms + 9000);
    let timer = "timer r at 60000";
    for (plan, ms, line) in [
        (&forgetful, 500, Ok(kept(1001))),
        (&forgetful, 1000, Ok(kept(1001))),
        (&forgetful, 1001, Err(next(1001))),
        (&older, 1001, Ok(kept(1002))),
        (&older, 1002, Err(next(1002))),
    ] {
        let (lines, resumed) = match line {
            Ok(made) => (made.clone(), format!("{timer}\n{made}")),
            Err(next) => (format!("{unknown}\n{next}"), format!("{unknown}\n{timer}\n{next}")),
        };
        for (miss, lines) in [(lost(1, 0, 1), lines), (RESUMED, resumed)] {
            check_open(
                plan,
                &[(0, submit("r"), START), (1, calls("r", 0, &["put"]), PUT), (ms, miss, &lines)],
            );
        }
    }
    // What is known not to have been done is no second call, whenever it begins.
    let asked = probed(forgetful, "put");
    let made = after_all("put", 2, 1100).replace("once", "idempotent");
    check_open(
        &asked,
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["put"]), PUT),
            (1050, lost(1, 0, 1), &probe(1, 1050)),
            (1100, found(1, 0, 1, json!({"done": false})), &made),
        ],
    );
}

fn probe(number: u32, ms: u64) -> String {
    format!(
        r#"probe {number} of 1/0: call seen 1/0?{number} read {{"key":"1/0","arguments":{{"n":0}}}}, depth 1, by {}"#,
        ms + 1000
    )
}

fn unclear(number: u32) -> Input {
    let outcome = CallOutcome::error(ErrorCode::ToolUnavailable, "down");
    Input::CallProbed { call: call(1, 0), probe: number, outcome, tainted: false }
}

#[test]
fn an_attempt_without_an_answer_leaves_a_doubt_though_another_is_waited_for() {
    let plan = offering(actor(), "put", |offer| {
        offer.rejoins = true;
        offer.key_ttl_ms = Some(1000);
    });
    let waited = |how: &str, by: u64| {
        format!(
            "timer r at 60000\ncall put 1/0 idempotent waited for {how} {{\"n\":0}}, depth 1, by {by}"
        )
    };
    let begin = [(0, submit("r"), START), (1, calls("r", 0, &["put"]), PUT)];
    let tell = |rows: &[Row<'_>]| check_open(&plan, &[&begin, rows].concat());
    tell(&[(1500, RESUMED, &waited("2", 6500)), (1600, RESUMED, &waited("3", 6600))]);
    tell(&[
        (500, lost(1, 0, 1), &again("put", "idempotent", 2, 500).replace("5500", "1001")),
        (1500, RESUMED, &waited("in doubt 3", 6500)),
        (1600, RESUMED, &waited("in doubt 4", 6600)),
    ]);
}

/// A call that is made again because it is known that nothing came of it.
fn after_all(tool: &str, attempt: u32, ms: u64) -> String {
    again(tool, "once", attempt, ms).replace("again", "after all")
}

#[test]
fn a_probe_says_what_came_of_a_call() {
    let plan = probed(actor(), "pay");
    let asked = probe(1, 10);
    let resumed = format!("timer r at 60000\n{asked}");
    for (miss, line) in [(lost(1, 0, 1), &asked), (RESUMED, &resumed)] {
        let begin: Vec<Row<'_>> = vec![
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), PAY),
            (10, miss, line),
            (11, found(1, 0, 2, json!({"done": true})), "rejected: call 1/0 is not awaited"),
            (11, lost(1, 0, 1), "rejected: call 1/0 is not awaited"),
        ];
        let with = |rows: &[(u64, Input, String)]| {
            let mut all = begin.clone();
            all.extend(rows.iter().map(|(ms, input, line)| (*ms, input.clone(), line.as_str())));
            check_open(&plan, &all);
        };
        let done_is = |output: Value| found(1, 0, 1, output);
        with(&[(900, done_is(json!({"done": true, "result": 7})), NEXT.to_owned())]);
        with(&[(900, done(1, 0), NEXT.to_owned())]);
        with(&[
            (20, done_is(json!({"done": false})), after_all("pay", 2, 20)),
            (21, done_is(json!({"done": false})), "rejected: call 1/0 is not awaited".to_owned()),
            (30, lost(1, 0, 2), probe(2, 30)),
            (
                31,
                found(1, 0, 1, json!({"done": false})),
                "rejected: call 1/0 is not awaited".to_owned(),
            ),
            (900, found(1, 0, 2, json!({"done": true})), NEXT.to_owned()),
        ]);
        with(&[
            (20, unclear(1), probe(2, 20)),
            (30, found(1, 0, 2, json!("no idea")), probe(3, 30)),
            (40, RESUMED, format!("timer r at 60000\n{}", probe(3, 40))),
            (900, unclear(3), format!("open unknown 1/0 told, attempt 1\n{NEXT}")),
            (901, resolve(1, 0, 1, None), "close 1/0".to_owned()),
        ]);
    }
}

#[test]
fn a_probe_that_keeps_saying_no_ends_in_an_unknown_outcome() {
    let mut lines = Vec::new();
    for attempt in 1..5 {
        let ms = u64::from(attempt) * 10;
        lines.push((ms, lost(1, 0, attempt), probe(attempt, ms)));
        let made = after_all("pay", attempt + 1, ms);
        lines.push((ms, found(1, 0, attempt, json!({"done": false})), made));
    }
    lines.push((50, lost(1, 0, 5), probe(5, 50)));
    let last = format!("open unknown 1/0 told, attempt 5\n{NEXT}");
    lines.push((900, found(1, 0, 5, json!({"done": false})), last));
    let mut rows: Vec<Row<'_>> = vec![(0, submit("r"), START), (1, calls("r", 0, &["pay"]), PAY)];
    rows.extend(lines.iter().map(|(ms, input, line)| (*ms, input.clone(), line.as_str())));
    check_open(&probed(actor(), "pay"), &rows);
}

#[test]
fn observers_are_told_why_a_call_is_made_again() {
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
                1,
                calls("r", 0, &["put"]),
                r#"span chat small
                   tell 1.0 call put 1/0
                   call put 1/0 idempotent {"n":0}, depth 1, by 5001"#,
            ),
            (
                2,
                lost(1, 0, 1),
                r#"tell 2.0 repeated 1/0 2 "no answer"
                   call put 1/0 idempotent again 2 {"n":0}, depth 1, by 5002"#,
            ),
        ],
    );
}
