//! Where a run is stopped because it has used what it may use.

use wire::entry::FeedbackCode::UnknownTool;
use wire::entry::{ModelOutcome, ModelReplied, Submitted};
use wire::hop::HopReport;
use wire::money::{ModelPrice, Price};
use wire::plan::{EDITION, Text};
use wire::run::Budget;
use wire::{CallOutcome, ErrorCode, FinishReason, Input, Plan, RunStatus, Usage, WireError};

use super::check;
use super::flow::START;
use super::team::{
    actor, answer, call, calls, calls_using, cancel, done, faulty, garbage, model_failed, name,
    run, settle, submit, submit_below, submit_with, submitted, unusable, with,
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
        (2, done(1, 0), "publish r partial E4001, 10 used look=ok"),
    ];
    check(&plan, &one);
    let none =
        [(0, submit_with("r", None, Some(0)), "timer r at 60000\npublish r partial E4001, 0 used")];
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
                // The prompt has 110 bytes, which are taken for 55 tokens.
                submit_with("r", Some(85), None),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 30 tokens, by 9000",
            ),
            // It had 10, and 11 bytes came to it.
            (1, calls("r", 0, &["look"]), r#"call look 1/0 read {"n":0}, depth 1, by 5001"#),
            (2, done(1, 0), "ask small as actor for r, turn 1, step 2, 59 tokens, by 9002"),
            (
                3,
                calls_using("r", 1, 35, &["look"]),
                r#"call look 3/0 read {"n":0}, depth 1, by 5003"#,
            ),
            (4, done(3, 0), "publish r budget E4002, 45 used look=ok look=ok"),
        ],
    );
    check(
        &actor(),
        &[(0, submit_with("r", Some(0), None), "timer r at 60000\npublish r budget E4002, 0 used")],
    );
    // A request cannot raise what the plan allows.
    check(
        &with(actor(), |limits| limits.tokens_max = 60),
        &[(
            0,
            submit_with("r", Some(1000), None),
            "timer r at 60000
             ask small as actor for r, turn 0, step 1, 5 tokens, by 9000",
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
            (2, settle(1, 0, CallOutcome::text("a"), 50), ""),
            (3, done(1, 2), ""),
            (
                4,
                settle(1, 1, CallOutcome::text("b"), 300),
                "ask small as actor for r, turn 1, step 2, 200 tokens, by 9004",
            ),
            (
                5,
                calls("r", 1, &["writer"]),
                r#"call writer 5/0 idempotent {"n":0}, depth 1, 270 tokens, by 5005"#,
            ),
            (
                6,
                settle(5, 0, CallOutcome::text("c"), 430),
                "ask small as actor for r, turn 2, step 3, 96 tokens, by 9006",
            ),
            (
                7,
                answer("r", 2, "42"),
                r#"publish r completed "42", 900 used writer=ok writer=ok look=ok writer=ok"#,
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
                submit_with("r", Some(66), None),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 11 tokens, by 9000",
            ),
            (1, calls_using("r", 0, 65, &["writer"]), "publish r budget E4002, 65 used"),
        ],
    );
}

/// An agent whose models cost 1 and 4 millionths of a dollar a token, and which has some money.
fn paying(micro_usd: u64) -> Plan {
    let own = Price { input: 1_000_000_000, output: 4_000_000_000, ..Price::default() };
    let highest = Price { output: 5_000_000_000, ..own };
    let prices = [("small", own), ("spare", Price { input: 7_000_000_000, ..own })];
    let prices =
        prices.map(|(text, own)| (name(text), ModelPrice { own, highest, unpriced: None }));
    let plan = with(actor(), |limits| limits.cost_max_nano_usd = Some(micro_usd * 1000));
    Plan { prices: prices.into(), ..plan }
}

#[test]
fn money_is_bounded_by_plan_and_request() {
    // A prompt of 55 tokens costs 55, and the rest buys a reply at the highest price.
    let first = "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 9 tokens, by 9000";
    let machine = check(
        &paying(100),
        &[
            (0, submit("r"), first),
            (1, calls("r", 0, &["look"]), r#"call look 1/0 read {"n":0}, depth 1, by 5001"#),
            // 10 were used, and the prompt of 16 costs 16 of the other 90.
            (2, done(1, 0), "ask small as actor for r, turn 1, step 2, 14 tokens, by 9002"),
            (
                3,
                calls_using("r", 1, 60, &["put"]),
                r#"call put 3/0 idempotent {"n":0}, depth 1, by 5003"#,
            ),
            (4, done(3, 0), "publish r budget E4002, 70 used look=ok put=ok"),
        ],
    );
    let reply = machine.reply(&run("r")).unwrap();
    assert_eq!((reply.usage.cost_nano_usd, reply.usage.calls), (70_000, 2));
    let budget = |cost_nano_usd| Budget { cost_nano_usd: Some(cost_nano_usd), ..Budget::default() };
    let below = |budget| Input::Submitted(Submitted { budget, ..submitted("r") });
    check(&paying(1000), &[(0, below(budget(100_000)), first)]);
    let nothing = "timer r at 60000\npublish r budget E4002, 0 used";
    check(&paying(1000), &[(0, below(budget(0)), nothing)]);
    check(&paying(0), &[(0, submit("r"), nothing)]);
    check(&paying(55), &[(0, submit("r"), nothing)]);
}

#[test]
fn called_agents_draw_on_the_money_of_their_caller() {
    check(
        &paying(300),
        &[
            (
                0,
                submit("r"),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 49 tokens, by 9000",
            ),
            (
                1,
                calls("r", 0, &["writer", "writer"]),
                r#"call writer 1/0 idempotent {"n":0}, depth 1, 330 tokens, $0.000097, by 5001
                   call writer 1/1 idempotent {"n":1}, depth 1, 330 tokens, $0.000097, by 5001"#,
            ),
        ],
    );
}

#[test]
fn a_model_that_stands_in_is_paid_at_its_own_price() {
    let mut reply = calls("r", 0, &["look"]);
    if let Input::ModelReplied(replied) = &mut reply
        && let ModelOutcome::Read { turn, .. } = &mut replied.outcome
    {
        turn.served_by = Some(name("spare"));
    }
    let machine = check(
        &paying(1000),
        &[
            (
                0,
                submit("r"),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 189 tokens, by 9000",
            ),
            (1, reply, r#"call look 1/0 read {"n":0}, depth 1, by 5001"#),
            (2, cancel("r"), "abort r [1/0]\npublish r cancelled E4004, 10 used look=error"),
        ],
    );
    assert_eq!(machine.reply(&run("r")).unwrap().usage.cost_nano_usd, 70_000);
}

#[test]
fn a_model_that_stands_in_by_a_newer_team_file_is_paid_at_the_highest_price_known() {
    let free = Some(name("free"));
    for (edition, unpriced, micro_usd) in
        [(EDITION, None, 10 * 3), (EDITION, free.clone(), 0), (1, None, 0), (1, free, 0)]
    {
        let mut plan = Plan { edition, ..paying(1000) };
        for price in plan.prices.values_mut() {
            price.highest.input = 3_000_000_000;
            price.unpriced = unpriced.clone();
        }
        let mut reply = calls("r", 0, &["look"]);
        if let Input::ModelReplied(replied) = &mut reply
            && let ModelOutcome::Read { turn, .. } = &mut replied.outcome
        {
            turn.served_by = Some(name("later"));
        }
        let machine = check(
            &plan,
            &[
                (
                    0,
                    submit("r"),
                    "timer r at 60000
                     ask small as actor for r, turn 0, step 1, 167 tokens, by 9000",
                ),
                (1, reply, r#"call look 1/0 read {"n":0}, depth 1, by 5001"#),
                (2, cancel("r"), "abort r [1/0]\npublish r cancelled E4004, 10 used look=error"),
            ],
        );
        let cost = machine.reply(&run("r")).unwrap().usage.cost_nano_usd;
        assert_eq!(cost, micro_usd * 1000, "edition {edition}");
    }
}

#[test]
fn calls_that_are_refused_take_no_share() {
    // Of four calls that are asked for at once two are made.
    for (edition, tokens) in [(EDITION, 330), (1, 198)] {
        let plan = with(actor(), |limits| limits.calls_per_step_max = 2);
        let made = format!(
            r#"call writer 1/0 idempotent {{"n":0}}, depth 1, {tokens} tokens, by 5001
               call writer 1/1 idempotent {{"n":1}}, depth 1, {tokens} tokens, by 5001"#
        );
        let asked = calls("r", 0, &["writer"; 4]);
        check(&Plan { edition, ..plan }, &[(0, submit("r"), START), (1, asked, &made)]);
    }
}

#[test]
fn the_model_of_a_tool_is_paid_at_the_price_of_the_one_that_answered() {
    let spare = HopReport { served_by: Some(name("spare")), ..HopReport::default() };
    // The turn before cost 10, and the tool's model read 3 tokens and wrote 2.
    for (hop, told, cost_nano_usd) in
        [(None, 0, 21_000), (spare.clone().boxed(), 0, 39_000), (spare.boxed(), 5_000, 15_000)]
    {
        let mut plan = with(paying(1000), |limits| limits.steps_max = 1);
        if let Some(look) = plan.tools.first_mut() {
            look.model = Some(name("small"));
        }
        let ended = Input::CallSettled {
            call: call(1, 0),
            outcome: CallOutcome::text("a"),
            usage: Usage { cost_nano_usd: told, ..Usage::of_tokens(3, 2) },
            tainted: false,
            hop,
        };
        let machine = check(
            &plan,
            &[
                (
                    0,
                    submit("r"),
                    "timer r at 60000
                     ask small as actor for r, turn 0, step 1, 189 tokens, by 9000",
                ),
                (
                    1,
                    calls("r", 0, &["look"]),
                    r#"call look 1/0 read {"n":0}, depth 1, 99 tokens, $0.000495, 0 calls, by 5001"#,
                ),
                (2, ended, "publish r partial E4001, 15 used look=ok"),
            ],
        );
        assert_eq!(machine.reply(&run("r")).unwrap().usage.cost_nano_usd, cost_nano_usd);
    }
}

#[test]
fn calls_of_the_tree_are_bounded() {
    let machine = check(
        &with(actor(), |limits| limits.calls_max = 5),
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["look", "writer"]),
                r#"call look 1/0 read {"n":0}, depth 1, by 5001
                   call writer 1/1 idempotent {"n":1}, depth 1, 495 tokens, 1 calls, by 5001"#,
            ),
            (2, done(1, 0), ""),
            (
                3,
                Input::CallSettled {
                    call: call(1, 1),
                    outcome: CallOutcome::text("a"),
                    usage: Usage { calls: 2, ..Usage::default() },
                    tainted: false,
                    hop: None,
                },
                "ask small as actor for r, turn 1, step 2, 200 tokens, by 9003",
            ),
            (
                4,
                calls("r", 1, &["put", "put"]),
                r#"call put 4/0 idempotent {"n":0}, depth 1, by 5004"#,
            ),
        ],
    );
    let (_, transcript) = machine.transcript().unwrap();
    let Act::Calls { calls, .. } = &transcript.steps[1].acts[0] else { panic!("no calls") };
    let refused = calls[1].result.as_deref().unwrap();
    assert!(refused.contains("E4002") && refused.contains("answer with what"), "{refused}");
}

#[test]
fn the_own_texts_of_a_team_are_part_of_its_prompts() {
    // 110 bytes are taken for 55 tokens, and 1000 for 500.
    for (edition, tokens) in [(EDITION, 145), (0, 200)] {
        let mut plan = Plan { edition, ..actor() };
        plan.prompts.actor.insert(Text::System, "x".repeat(1000));
        let start = format!(
            "timer r at 60000
             ask small as actor for r, turn 0, step 1, {tokens} tokens, by 9000"
        );
        check(&plan, &[(0, submit_with("r", Some(700), None), &start)]);
    }
}

#[test]
fn a_reply_that_cannot_be_used_is_part_of_the_next_prompt_as_it_is_shown() {
    let thought = format!("<think>{}</think>{{{{", "x".repeat(800));
    let (short, long) = ("{{".to_owned(), "x".repeat(5000));
    for (edition, raw, tokens) in [
        (EDITION, &short, 2947),
        (EDITION, &thought, 2947),
        (EDITION, &long, 1945),
        (1, &short, 2947),
        (1, &thought, 2539),
    ] {
        let plan = with(actor(), |limits| {
            (limits.tokens_max, limits.reply_tokens_max) = (3000, 3000);
        });
        let start = "timer r at 60000
             ask small as actor for r, turn 0, step 1, 2945 tokens, by 9000";
        let again = format!("ask small as actor for r, turn 1, step 1, {tokens} tokens, by 9001");
        let plan = Plan { edition, ..plan };
        check(&plan, &[(0, submit("r"), start), (1, unusable("r", 0, raw), &again)]);
    }
}

#[test]
fn how_a_called_agent_ended_is_told_with_what_it_said() {
    let error = WireError::new(ErrorCode::BudgetExceeded, "no tokens");
    let outcome =
        CallOutcome::Ended { status: RunStatus::Budget, output: "half".to_owned(), error };
    let machine = check(
        &actor(),
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["writer"]),
                r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, by 5001"#,
            ),
            (
                2,
                settle(1, 0, outcome, 5),
                "ask small as actor for r, turn 1, step 2, 200 tokens, by 9002",
            ),
            (3, answer("r", 1, "42"), r#"publish r completed "42", 25 used writer=budget"#),
        ],
    );
    let told = &machine.reply(&run("r")).unwrap().sources[0].output;
    let told: serde_json::Value = serde_json::from_str(told).unwrap();
    let error = serde_json::json!({"code": "E4002", "message": "no tokens"});
    let expected = serde_json::json!({"status": "budget", "said_last": "half", "error": error});
    assert_eq!(told, expected);
}

#[test]
fn a_withheld_reply_is_no_answer() {
    let mut reply = answer("r", 0, "I would");
    if let Input::ModelReplied(replied) = &mut reply
        && let ModelOutcome::Read { turn, .. } = &mut replied.outcome
    {
        turn.finish = FinishReason::ContentFilter;
    }
    let machine =
        check(&actor(), &[(0, submit("r"), START), (1, reply, "publish r refused E2001, 10 used")]);
    assert_eq!(machine.reply(&run("r")).unwrap().output, "I would");
}

#[test]
fn an_agent_of_whose_end_nobody_heard_used_all_that_it_was_given() {
    // What it says to have used, as entries of older journals do, and what counts with two turns.
    for (status, said, used) in
        [(RunStatus::Unknown, 0, 515), (RunStatus::Unknown, 300, 320), (RunStatus::Refused, 0, 20)]
    {
        let error = WireError::new(ErrorCode::Unavailable, "no answer");
        let outcome = CallOutcome::Ended { status, output: String::new(), error };
        let published =
            format!(r#"publish r completed "42", {used} used writer={}"#, status.as_str());
        check(
            &actor(),
            &[
                (0, submit("r"), START),
                (
                    1,
                    calls("r", 0, &["writer"]),
                    r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, by 5001"#,
                ),
                (
                    2,
                    settle(1, 0, outcome, said),
                    "ask small as actor for r, turn 1, step 2, 200 tokens, by 9002",
                ),
                (3, answer("r", 1, "42"), &published),
            ],
        );
    }
}

#[test]
fn a_called_run_that_ends_early_counts_what_it_gave_away() {
    let given = r#"call writer 1/0 idempotent {"n":0}, depth 2, 495 tokens, by 5001
                   call look 1/1 read {"n":1}, depth 2, by 5001"#;
    let told = |used| {
        format!(
            "abort r [1/0, 1/1]\npublish r cancelled E4004, {used} used writer=error look=error"
        )
    };
    let asked = calls("r", 0, &["writer", "look"]);
    check(
        &actor(),
        &[
            (0, submit_below("r", 1), START),
            (1, asked.clone(), given),
            (2, cancel("r"), &told(505)),
        ],
    );
    // Nobody bounds what a person asks for next by what this one left.
    let given = given.replace("depth 2", "depth 1");
    check(&actor(), &[(0, submit("r"), START), (1, asked, &given), (2, cancel("r"), &told(10))]);
}

#[test]
fn a_called_run_that_ends_during_a_turn_counts_the_turn() {
    // The prompt of 55 tokens and the longest reply. Of a turn that was refused nothing is paid.
    let late = WireError::new(ErrorCode::DeadlineExceeded, "no reply in 9000 ms");
    let failed = |error| {
        let (run, outcome) = (run("r"), ModelOutcome::Failed { error });
        Input::ModelReplied(ModelReplied { run, turn: 0, outcome })
    };
    for (ms, end, below, expected) in [
        (2, cancel("r"), 1, "abort r []\npublish r cancelled E4004, 255 used"),
        (9000, failed(late.clone()), 1, "publish r failed E1007, 255 used"),
        (2, model_failed("r", 0), 1, "publish r failed E2002, 0 used"),
        (2, cancel("r"), 0, "abort r []\npublish r cancelled E4004, 0 used"),
        (9000, failed(late), 0, "publish r failed E1007, 0 used"),
    ] {
        let submitted = if below > 0 { submit_below("r", below) } else { submit("r") };
        check(&actor(), &[(0, submitted, START), (ms, end, expected)]);
    }
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

#[test]
fn steps_that_were_asked_for_bound_each_run_below() {
    let machine = check(
        &actor(),
        &[
            (0, submit_with("r", None, Some(2)), START),
            (
                1,
                calls("r", 0, &["writer"]),
                r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, 2 steps, by 5001"#,
            ),
        ],
    );
    assert!(!machine.is_busy(), "what goes on does so in the session of the called agent");
}
