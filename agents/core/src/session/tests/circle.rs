//! Runs that ask for the same calls again and again.

use wire::entry::FeedbackCode::UnknownTool;
use wire::entry::{ModelOutcome, Reading};
use wire::plan::Permission;
use wire::{Input, Plan};

use super::check;
use super::flow::START;
use super::team::{actor, calls, done, faulty, offering, submit, with};
use crate::dialect::Act;

#[test]
fn a_run_that_goes_in_circles_is_told_and_then_stopped() {
    let plan = with(actor(), |limits| limits.steps_max = 20);
    let mut rows = vec![(0, submit("r"), START.to_owned())];
    for n in 0..4_u32 {
        let (at, slot) = (u64::from(n) * 2 + 1, u64::from(n) * 2 + 1);
        let made = format!(r#"call look {slot}/0 read {{"n":0}}, depth 1, by {}"#, 5000 + at);
        rows.push((at, calls("r", n, &["look"]), made));
        let asked = format!(
            "ask small as actor for r, turn {}, step {}, 200 tokens, by {}",
            n + 1,
            n + 2,
            9001 + at
        );
        rows.push((at + 1, done(slot, 0), asked));
    }
    let rows: Vec<(u64, Input, &str)> =
        rows.iter().map(|(at, input, lines)| (*at, input.clone(), lines.as_str())).collect();
    let machine = check(&plan, &rows);
    let (_, transcript) = machine.transcript().unwrap();
    let told = transcript.steps.iter().filter_map(|step| match step.acts.first()? {
        Act::Calls { calls, .. } => calls[0].result.as_ref(),
        Act::Feedback { .. }
        | Act::Continued { .. }
        | Act::Answered { .. }
        | Act::Steered { .. } => None,
    });
    let warned: Vec<bool> = told.map(|text| text.contains("asked for in")).collect();
    assert_eq!(warned, [false, false, true, true]);

    let mut rows = rows;
    rows.push((
        9,
        calls("r", 4, &["look"]),
        "publish r partial E4007, 50 used look=ok look=ok look=ok look=ok",
    ));
    check(&plan, &rows);
    // Other arguments are another call, and so are several of one step.
    let apart = [
        (0, submit("r"), START),
        (
            1,
            calls("r", 0, &["look", "look", "look"]),
            r#"call look 1/0 read {"n":0}, depth 1, by 5001
               call look 1/1 read {"n":1}, depth 1, by 5001
               call look 1/2 read {"n":2}, depth 1, by 5001"#,
        ),
    ];
    check(&with(actor(), |limits| limits.repeats_max = 2), &apart);
}

/// The same reply without its first calls.
fn without(input: Input, first: usize) -> Input {
    let Input::ModelReplied(mut replied) = input else { panic!("no reply") };
    let ModelOutcome::Read { reading: Reading::Calls { calls, .. }, .. } = &mut replied.outcome
    else {
        panic!("no calls")
    };
    calls.drain(..first);
    Input::ModelReplied(replied)
}

#[test]
fn what_is_to_be_asked_for_again_is_no_circle() {
    // As many as are left are asked for in each step, and the first of them is made.
    let all = ["look"; 4];
    let ask = |turn: u32| {
        let (step, by) = (turn + 1, 9000 + 2 * turn);
        format!("ask small as actor for r, turn {turn}, step {step}, 200 tokens, by {by}")
    };
    let made = |n: u32| {
        format!(r#"call look {}/0 read {{"n":{n}}}, depth 1, by {}"#, 2 * n + 1, 5001 + 2 * n)
    };
    let mut rows = vec![(0, submit("r"), START.to_owned())];
    for n in 0..4_u32 {
        let at = u64::from(2 * n + 1);
        rows.push((at, without(calls("r", n, &all), n as usize), made(n)));
        rows.push((at + 1, done(at, 0), ask(n + 1)));
    }
    let rows: Vec<(u64, Input, &str)> =
        rows.iter().map(|(at, input, lines)| (*at, input.clone(), lines.as_str())).collect();
    let plan = with(actor(), |limits| {
        (limits.calls_per_step_max, limits.repeats_max) = (1, 2);
        (limits.steps_max, limits.tokens_max) = (20, 10_000);
    });
    check(&plan, &rows);

    // Plans of older journals count them all.
    let older = Plan { edition: 0, ..plan };
    let stopped = "publish r partial E4007, 20 used look=ok";
    check(&older, &[&rows[..3], &[(3, rows[3].1.clone(), stopped)]].concat());
}

#[test]
fn what_several_replies_of_a_step_ask_for_counts_once() {
    let plan = offering(actor(), "look", |offer| offer.permission = Permission::Deny);
    let plan = with(plan, |limits| limits.repeats_max = 2);
    let again = |turn: u32| faulty("r", turn, &["look"], "lookk", UnknownTool);
    let rows = [
        (0, submit("r"), START),
        (1, again(0), "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001"),
        (2, again(1), "ask small as actor for r, turn 2, step 1, 200 tokens, by 9002"),
        (3, again(2), "publish r failed E2004, 30 used"),
    ];
    check(&plan, &rows);
    let older = Plan { edition: 0, ..plan };
    check(&older, &[&rows[..2], &[(2, again(1), "publish r partial E4007, 20 used")]].concat());
}
