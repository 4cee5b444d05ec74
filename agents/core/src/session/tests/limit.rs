//! Where a run is stopped because it has used what it may use.

use wire::entry::FeedbackCode::UnknownTool;

use super::check;
use super::flow::START;
use super::team::{
    actor, answer, calls, calls_using, done, faulty, garbage, settle, submit, submit_below,
    submit_with, with,
};
use crate::dialect::Act;

#[test]
fn bad_replies_are_bounded() {
    check(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, garbage("r", 0), "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001"),
            (
                2,
                faulty("r", 1, &[], "lookk", UnknownTool),
                "ask small as actor for r, turn 2, step 1, 200 tokens, by 9002",
            ),
            (3, garbage("r", 2), "publish r failed E2004, 30 used"),
        ],
    );
}

#[test]
fn a_usable_reply_begins_the_count_of_bad_ones_anew() {
    check(
        &with(actor(), |limits| limits.feedback_max = 1),
        &[
            (0, submit("r"), START),
            (1, garbage("r", 0), "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001"),
            (2, calls("r", 1, &["look"]), r#"call look 2/0 read {"n":0}, depth 1, by 5002"#),
            (3, done(2, 0), "ask small as actor for r, turn 2, step 2, 200 tokens, by 9003"),
            (4, garbage("r", 2), "ask small as actor for r, turn 3, step 2, 200 tokens, by 9004"),
            (5, garbage("r", 3), "publish r failed E2004, 40 used look=ok"),
        ],
    );
}

#[test]
fn steps_are_bounded() {
    let plan = with(actor(), |limits| limits.steps_max = 1);
    let one = [
        (0, submit("r"), START),
        (1, calls("r", 0, &["look"]), r#"call look 1/0 read {"n":0}, depth 1, by 5001"#),
        (2, done(1, 0), "publish r failed E4001, 10 used look=ok"),
    ];
    check(&plan, &one);
    let none =
        [(0, submit_with("r", None, Some(0)), "timer r at 60000\npublish r failed E4001, 0 used")];
    check(&actor(), &none);
    let request = [(0, submit_with("r", None, Some(1)), START), one[1].clone(), one[2].clone()];
    check(&actor(), &request);
}

#[test]
fn a_depth_that_no_run_has_is_borne() {
    // Anyone may write any depth into a request.
    let expected = format!(r#"call look 1/0 read {{"n":0}}, depth {}, by 5001"#, u32::MAX);
    check(
        &actor(),
        &[(0, submit_below("r", u32::MAX), START), (1, calls("r", 0, &["look"]), &expected)],
    );
}

#[test]
fn calls_of_a_step_are_bounded() {
    let machine = check(
        &with(actor(), |limits| limits.calls_per_step_max = 1),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["look", "put"]), r#"call look 1/0 read {"n":0}, depth 1, by 5001"#),
            (2, done(1, 0), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9002"),
        ],
    );
    let (_, transcript) = machine.transcript().unwrap();
    let Act::Calls { calls, .. } = &transcript.steps[0].acts[0] else { panic!("no calls") };
    assert!(calls[1].result.as_deref().unwrap().contains("E4006"), "{calls:?}");
}

#[test]
fn tokens_are_bounded_by_plan_and_request() {
    check(
        &actor(),
        &[
            (
                0,
                submit_with("r", Some(30), None),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 30 tokens, by 9000",
            ),
            (1, calls("r", 0, &["look"]), r#"call look 1/0 read {"n":0}, depth 1, by 5001"#),
            (2, done(1, 0), "ask small as actor for r, turn 1, step 2, 20 tokens, by 9002"),
            (
                3,
                calls_using("r", 1, 25, &["look"]),
                r#"call look 3/0 read {"n":0}, depth 1, by 5003"#,
            ),
            (4, done(3, 0), "publish r failed E4002, 35 used look=ok look=ok"),
        ],
    );
    check(
        &actor(),
        &[(0, submit_with("r", Some(0), None), "timer r at 60000\npublish r failed E4002, 0 used")],
    );
    // A request cannot raise what the plan allows.
    check(
        &with(actor(), |limits| limits.tokens_max = 15),
        &[(
            0,
            submit_with("r", Some(1000), None),
            "timer r at 60000
             ask small as actor for r, turn 0, step 1, 15 tokens, by 9000",
        )],
    );
}

#[test]
fn called_agents_share_what_is_left_and_give_back_what_they_do_not_use() {
    check(
        &actor(),
        &[
            (0, submit("r"), START),
            (
                1,
                calls_using("r", 0, 100, &["writer", "writer", "look"]),
                r#"call writer 1/0 idempotent {"n":0}, depth 1, 300 tokens, by 5001
                   call writer 1/1 idempotent {"n":1}, depth 1, 300 tokens, by 5001
                   call look 1/2 read {"n":2}, depth 1, by 5001"#,
            ),
            (2, settle(1, 0, wire::CallOutcome::text("a"), 50), ""),
            (3, done(1, 2), ""),
            (
                4,
                settle(1, 1, wire::CallOutcome::text("b"), 300),
                "ask small as actor for r, turn 1, step 2, 200 tokens, by 9004",
            ),
            (
                5,
                calls("r", 1, &["writer"]),
                r#"call writer 5/0 idempotent {"n":0}, depth 1, 270 tokens, by 5005"#,
            ),
            (
                6,
                settle(5, 0, wire::CallOutcome::text("c"), 530),
                "ask small as actor for r, turn 2, step 3, 10 tokens, by 9006",
            ),
            (
                7,
                answer("r", 2, "42"),
                r#"publish r completed "42", 1000 used writer=ok writer=ok look=ok writer=ok"#,
            ),
        ],
    );
}

#[test]
fn an_agent_is_not_called_without_tokens() {
    check(
        &actor(),
        &[
            (
                0,
                submit_with("r", Some(11), None),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 11 tokens, by 9000",
            ),
            (
                1,
                calls("r", 0, &["writer"]),
                "ask small as actor for r, turn 1, step 2, 1 tokens, by 9001",
            ),
        ],
    );
}

#[test]
fn agents_are_called_so_deep_and_no_deeper() {
    check(
        &actor(),
        &[
            (0, submit_below("r", 1), START),
            (
                1,
                calls("r", 0, &["writer"]),
                r#"call writer 1/0 idempotent {"n":0}, depth 2, 495 tokens, by 5001"#,
            ),
        ],
    );
    let machine = check(
        &actor(),
        &[
            (0, submit_below("r", 2), START),
            (
                1,
                calls("r", 0, &["writer", "look"]),
                r#"call look 1/1 read {"n":1}, depth 3, by 5001"#,
            ),
        ],
    );
    let (_, transcript) = machine.transcript().unwrap();
    let Act::Calls { calls, .. } = &transcript.steps[0].acts[0] else { panic!("no calls") };
    assert!(calls[0].result.as_deref().unwrap().contains("E4003"), "{calls:?}");
}
