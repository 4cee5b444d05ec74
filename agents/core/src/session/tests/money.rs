//! What cached input costs, and what is set aside for it.

use wire::chat::{Lost, TurnDetail};
use wire::entry::{ModelOutcome, ModelReplied};
use wire::hop::HopReport;
use wire::money::{ModelPrice, Price};
use wire::plan::EDITION;
use wire::run::Parent;
use wire::{CallOutcome, ErrorCode, Input, Plan, Usage, WireError};

use super::check;
use super::team::{actor, answer, call, calls, name, run, submit, with};

/// A millionth of a dollar for a token.
const MICRO: u64 = 1_000_000_000;

/// An agent whose model costs 10 and 40 millionths of a dollar a token, and what is cached other
/// amounts, if they are known.
fn paying(cache: Option<(u64, u64)>) -> Plan {
    let own = Price {
        input: 10 * MICRO,
        output: 40 * MICRO,
        cache_read: cache.map(|(read, _)| read * MICRO),
        cache_write: cache.map(|(_, write)| write * MICRO),
    };
    let plan = with(actor(), |limits| limits.cost_max_nano_usd = Some(3_000_000));
    Plan {
        prices: [(name("small"), ModelPrice { own, highest: own, unpriced: None })].into(),
        ..plan
    }
}

/// A turn that read 100 tokens and wrote 5, with what its provider says of its cache.
fn cached(mut input: Input, read: Option<u64>, written: Option<u64>) -> Input {
    if let Input::ModelReplied(ModelReplied { outcome: ModelOutcome::Read { turn, .. }, .. }) =
        &mut input
    {
        turn.usage = Usage::of_tokens(100, 5);
        turn.detail = TurnDetail {
            cache_read_tokens: read,
            cache_creation_tokens: written,
            ..TurnDetail::default()
        };
    }
    input
}

#[test]
fn cached_input_has_its_own_price() {
    let known = Some((1, 12));
    // The prompt of 55 tokens is paid ahead at the dearest price, and the rest buys the reply.
    for (cache, read, written, reply_tokens, micro_usd) in [
        (None, None, None, 61, 1200),
        (None, Some(90), Some(10), 61, 1200),
        (known, None, None, 58, 1200),
        (known, Some(90), None, 58, 90 + 100 + 200),
        (known, Some(60), Some(40), 58, 60 + 480 + 200),
        // More than was read cannot have been cached.
        (known, Some(900), Some(900), 58, 100 + 200),
        (Some((1, 10)), Some(0), Some(100), 61, 1200),
    ] {
        let asked = format!(
            "timer r at 60000
             ask small as actor for r, turn 0, step 1, {reply_tokens} tokens, by 9000"
        );
        let machine = check(
            &paying(cache),
            &[
                (0, submit("r"), &asked),
                (
                    1,
                    cached(answer("r", 0, "x"), read, written),
                    "publish r completed \"x\", 105 used",
                ),
            ],
        );
        let cost = machine.reply(&run("r")).unwrap().usage.cost_nano_usd;
        assert_eq!(cost, micro_usd * 1000, "{cache:?} {read:?} {written:?}");
    }
}

#[test]
fn cached_input_of_the_model_of_a_tool_has_its_own_price() {
    let report = HopReport {
        cache_read_tokens: Some(60),
        cache_creation_tokens: Some(30),
        ..HopReport::default()
    };
    let lost = vec![Lost { model: name("small"), usage: Usage::of_tokens(20, 0) }];
    let spoilt = HopReport { lost, ..HopReport::default() };
    for (hop, tokens, micro_usd) in [
        (None, 210, 1200),
        (report.boxed(), 210, 60 + 360 + 100 + 200),
        (spoilt.boxed(), 230, 1200 + 200),
    ] {
        let mut plan = with(paying(Some((1, 12))), |limits| limits.steps_max = 1);
        if let Some(look) = plan.tools.first_mut() {
            look.model = Some(name("small"));
        }
        let ended = Input::CallSettled {
            call: call(1, 0),
            outcome: CallOutcome::text("a"),
            usage: Usage::of_tokens(100, 5),
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
                     ask small as actor for r, turn 0, step 1, 58 tokens, by 9000",
                ),
                (
                    1,
                    cached(calls("r", 0, &["look"]), Some(100), None),
                    r#"call look 1/0 read {"n":0}, depth 1, 33 tokens, $0.00135, 0 calls, by 5001"#,
                ),
                (2, ended, &format!("publish r partial E4001, {tokens} used look=ok")),
            ],
        );
        let cost = machine.reply(&run("r")).unwrap().usage.cost_nano_usd;
        assert_eq!(cost, (300 + micro_usd) * 1000);
    }
}

#[test]
fn what_an_attempt_may_have_used_of_which_no_answer_came_is_counted() {
    let mut plan = with(paying(None), |limits| limits.steps_max = 1);
    if let Some(look) = plan.tools.first_mut() {
        look.model = Some(name("small"));
    }
    let lost = |attempt| Input::CallLost {
        call: call(1, 0),
        attempt,
        error: WireError::new(ErrorCode::ToolTimeout, "no answer"),
        usage: Usage::of_tokens(10, 4),
        tainted: false,
        hop: None,
    };
    let machine = check(
        &plan,
        &[
            (
                0,
                submit("r"),
                "timer r at 60000
                 ask small as actor for r, turn 0, step 1, 61 tokens, by 9000",
            ),
            (
                1,
                cached(calls("r", 0, &["look"]), Some(100), None),
                r#"call look 1/0 read {"n":0}, depth 1, 22 tokens, $0.0009, 0 calls, by 5001"#,
            ),
            (
                2,
                lost(1),
                r#"call look 1/0 read again 2 {"n":0}, depth 1, 8 tokens, $0.00064, 0 calls, by 5002"#,
            ),
            (
                3,
                lost(2),
                r#"call look 1/0 read again 3 {"n":0}, depth 1, 0 tokens, $0.00038, 0 calls, by 5003"#,
            ),
            (4, lost(3), "publish r partial E4001, 147 used look=error"),
        ],
    );
    let usage = machine.reply(&run("r")).unwrap().usage;
    assert_eq!((usage.total(), usage.cost_nano_usd), (105 + 3 * 14, (1200 + 3 * 260) * 1000));
}

#[test]
fn what_attempts_lost_is_paid_with_the_turn_and_with_its_failure() {
    let lost = |tokens| vec![Lost { model: name("small"), usage: Usage::of_tokens(tokens, 1) }];
    let asked = "timer r at 60000
         ask small as actor for r, turn 0, step 1, 61 tokens, by 9000";
    let failed = |code, tokens| {
        let error = WireError { lost: lost(tokens), ..WireError::new(code, "no") };
        Input::ModelReplied(ModelReplied {
            run: run("r"),
            turn: 0,
            outcome: ModelOutcome::Failed { error },
        })
    };
    let mut replied = cached(answer("r", 0, "x"), None, None);
    if let Input::ModelReplied(ModelReplied { outcome: ModelOutcome::Read { turn, .. }, .. }) =
        &mut replied
    {
        turn.detail.lost = lost(50);
    }
    let is_called = |mut submitted: Input| {
        if let Input::Submitted(submitted) = &mut submitted {
            let (session, run) = (super::team::session(), run("p"));
            submitted.parent = Some(Parent { session, run, depth: 1, tainted: false });
        }
        submitted
    };
    let unavailable = "publish r failed E2002, 51 used";
    for (begun, ended, told, micro_usd) in [
        (submit("r"), replied, "publish r completed \"x\", 156 used", 1200 + 540),
        (submit("r"), failed(ErrorCode::ModelUnavailable, 50), unavailable, 540),
        (
            submit("r"),
            failed(ErrorCode::DeadlineExceeded, 50),
            "publish r failed E1007, 51 used",
            540,
        ),
        // Of a called agent's turn that ran out of time all that it may be is counted.
        (
            is_called(submit("r")),
            failed(ErrorCode::DeadlineExceeded, 50),
            "publish r failed E1007, 116 used",
            550 + 2440,
        ),
    ] {
        let machine = check(&paying(None), &[(0, begun, asked), (1, ended, told)]);
        let reply = machine.reply(&run("r")).unwrap();
        assert_eq!(reply.usage.cost_nano_usd, micro_usd * 1000, "{told}");
        assert!(reply.error.as_ref().is_none_or(|error| error.lost.is_empty()));
    }
}

#[test]
fn where_nothing_may_cost_anything_what_costs_nothing_is_asked() {
    for (edition, told) in [
        (EDITION, r#"call writer 1/0 idempotent {"n":0}, depth 1, 495 tokens, $0.00, by 5001"#),
        (1, "ask small as actor for r, turn 1, step 2, 200 tokens, by 9001"),
    ] {
        let mut plan = with(paying(None), |limits| limits.cost_max_nano_usd = Some(0));
        plan.edition = edition;
        plan.prices.values_mut().for_each(|price| *price = ModelPrice::default());
        let start = "timer r at 60000
             ask small as actor for r, turn 0, step 1, 200 tokens, by 9000";
        check(&plan, &[(0, submit("r"), start), (1, calls("r", 0, &["writer"]), told)]);
    }
}
