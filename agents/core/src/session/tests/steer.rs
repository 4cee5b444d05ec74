//! Messages that join the run in work.

use std::collections::HashMap;
use std::sync::Arc;

use wire::entry::{Body, Entry, ModelOutcome};
use wire::plan::WhenBusy;
use wire::run::{RunReply, RunState, RunStatus};
use wire::{Digest, EventKind, Input, Plan, Timestamp, Usage};

use super::busy::when_busy;
use super::flow::START;
use super::team::{
    RESUMED, actor, answer, calls, cancel, done, garbage, late, name, planned, planner, run,
    submit, suspend, thinker, thought, with,
};
use super::{Row, check, check_reports};
use crate::dialect::Act;
use crate::effect::Effect;
use crate::invariant::{self, Record, Violation};
use crate::session::SessionMachine;

fn steering(plan: Plan) -> Plan {
    when_busy(WhenBusy::Steer, plan)
}

/// Writes what the models of the run in work are shown of each step.
fn told(machine: &SessionMachine) -> Vec<Vec<String>> {
    let (_, transcript) = machine.transcript().unwrap();
    let act = |act: &Act| match act {
        Act::Calls { calls, .. } => {
            let of = calls.iter().map(|call| format!("{}={:?}", call.read.name, call.result));
            of.collect::<Vec<_>>().join(" ")
        }
        Act::Continued { text } => format!("continued {text}"),
        Act::Answered { text } => format!("answered {text}"),
        Act::Steered { text } => format!("user: {text}"),
        Act::Feedback { .. } => "feedback".to_owned(),
    };
    transcript.steps.iter().map(|step| step.acts.iter().map(act).collect()).collect()
}

#[test]
fn an_answer_that_a_message_overtakes_is_not_the_last_word() {
    let mut rows: Vec<Row<'_>> = vec![
        (0, submit("r"), START),
        (1, submit("q"), "timer q at 60000"),
        (1, submit("q"), "rejected: run q was accepted before"),
        (2, answer("r", 0, "42"), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9002"),
    ];
    let machine = check(&steering(actor()), &rows);
    assert_eq!(told(&machine), [vec!["answered 42"], vec!["user: ask q"]]);
    let view = machine.view(&run("q")).unwrap();
    let running = RunState::Running { step: 2, phase: "acting".to_owned() };
    assert_eq!((view.state, view.joined), (running, Some(run("r"))));

    rows.push((
        3,
        answer("r", 1, "43"),
        r#"publish r completed "43", 20 used
           publish q completed "43", 0 used, joined r"#,
    ));
    let machine = check(&steering(actor()), &rows);
    assert!(machine.is_idle());
    let told: Vec<_> =
        machine.exchanges().map(|told| (told.user.as_str(), told.answer.as_str())).collect();
    assert_eq!(told, [("ask r", "42"), ("ask q", "43")]);
    // It is known as one that joined even when the rest of the past is dropped.
    let snapshot = machine.snapshot(Timestamp::default()).unwrap();
    let mut later =
        SessionMachine::beginning_at(name("team"), super::team::session(), machine.slot());
    let input = Input::Snapshot(Box::new(snapshot));
    let plans = HashMap::<Digest, Arc<Plan>>::new();
    later.apply(Timestamp::from_micros(5000), &input, &plans).unwrap();
    let view = later.view(&run("q")).unwrap();
    let ended = RunState::Ended { status: RunStatus::Completed };
    assert_eq!((view.state, view.joined), (ended, Some(run("r"))));
}

#[test]
fn a_message_is_never_shown_between_a_call_and_its_result() {
    let rows = [
        (0, submit("r"), START),
        (
            1,
            calls("r", 0, &["look", "put"]),
            r#"call look 1/0 read {"n":0}, depth 1, by 5001
               call put 1/1 idempotent {"n":1}, depth 1, by 5001"#,
        ),
        (2, suspend(1, 1), ""),
        (3, submit("q"), "timer q at 60000"),
        (4, done(1, 0), ""),
        (5, submit("p"), "timer p at 60000"),
        (6, done(1, 1), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9006"),
    ];
    let waiting = check(&steering(actor()), &rows[..6]);
    assert_eq!(told(&waiting).len(), 1);
    // Whoever joined may answer what the run asks.
    assert_eq!((waiting.asks(&run("q")).len(), waiting.asks(&run("x")).len()), (1, 0));
    let machine = check(&steering(actor()), &rows);
    let done = "look=Some(\"done\") put=Some(\"done\")";
    assert_eq!(told(&machine), [vec![done], vec!["user: ask q", "user: ask p"]]);
}

#[test]
fn a_model_that_replies_again_is_shown_the_message_too() {
    let rows = [
        (0, submit("r"), START),
        (1, submit("q"), "timer q at 60000"),
        (2, garbage("r", 0), "ask small as actor for r, turn 1, step 1, 200 tokens, by 9002"),
    ];
    assert_eq!(told(&check(&steering(actor()), &rows)), [["feedback", "user: ask q"]]);
}

#[test]
fn the_model_that_leads_decides_what_is_to_be_done_about_a_message() {
    let think = "timer r at 60000
        ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000";
    let again = "ask big as thinker for r, turn 1, step 1, 200 tokens, by 9002";
    // A thought or a plan that came without knowledge of the message is not carried out.
    for (plan, reply) in
        [(thinker(), thought("r", 0, "pay")), (planner(), planned("r", 0, "pay", "pay"))]
    {
        let machine = check(
            &steering(plan),
            &[(0, submit("r"), think), (1, submit("q"), "timer q at 60000"), (2, reply, again)],
        );
        assert_eq!(told(&machine), [["user: ask q"]]);
        let (_, transcript) = machine.transcript().unwrap();
        assert_eq!((&transcript.steps[0].thought, &transcript.steps[0].planned), (&None, &None));
    }
    // What the actor model has to say again is thought about anew.
    let machine = check(
        &steering(thinker()),
        &[
            (0, submit("r"), think),
            (
                1,
                thought("r", 0, "look"),
                "ask small as actor for r, turn 1, step 1, 200 tokens, by 9001",
            ),
            (2, submit("q"), "timer q at 60000"),
            (3, garbage("r", 1), "ask big as thinker for r, turn 2, step 2, 200 tokens, by 9003"),
            (
                4,
                thought("r", 2, "look"),
                "ask small as actor for r, turn 3, step 2, 200 tokens, by 9004",
            ),
        ],
    );
    assert_eq!(told(&machine), [["feedback"], ["user: ask q"]]);
}

#[test]
fn who_joined_leaves_alone_and_a_message_that_was_not_shown_is_taken_back() {
    for (end, status) in [
        (cancel as fn(&str) -> Input, "cancelled E4004"),
        (late as fn(&str) -> Input, "deadline E1007"),
    ] {
        let left = format!("publish q {status}, 0 used, joined r");
        let unshown = [
            (0, submit("r"), START),
            (1, submit("q"), "timer q at 60000"),
            (2, end("q"), left.as_str()),
            (3, end("q"), "rejected: run q is not in work"),
            (4, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
        ];
        let machine = check(&steering(actor()), &unshown);
        assert_eq!(machine.exchanges().next().unwrap().user, "ask r");
        let shown = [
            (0, submit("r"), START),
            (1, submit("q"), "timer q at 60000"),
            (2, garbage("r", 0), "ask small as actor for r, turn 1, step 1, 200 tokens, by 9002"),
            (3, end("q"), left.as_str()),
            (4, answer("r", 1, "42"), r#"publish r completed "42", 20 used"#),
        ];
        let machine = check(&steering(actor()), &shown);
        assert_eq!(machine.exchanges().next().unwrap().user, "ask r\n\nask q");

        let both = format!("abort r []\npublish r {status}, 0 used\n{left}");
        let machine = check(
            &steering(actor()),
            &[
                (0, submit("r"), START),
                (1, submit("q"), "timer q at 60000"),
                (2, end("r"), both.as_str()),
                (3, end("q"), "rejected: run q is not in work"),
            ],
        );
        assert!(machine.resumption(false).is_none());
    }
}

#[test]
fn so_many_messages_join_a_run_as_may_wait() {
    check(
        &steering(actor()),
        &[
            (0, submit("r"), START),
            (1, submit("q"), "timer q at 60000"),
            (2, submit("p"), "timer p at 60000"),
            (3, submit("o"), "rejected: 2 runs of the session wait already"),
            (4, cancel("q"), "publish q cancelled E4004, 0 used, joined r"),
            // One that left does not make room, so that a run cannot be kept going for ever.
            (5, submit("o"), "rejected: 2 runs of the session wait already"),
            (
                6,
                answer("r", 0, "42"),
                "ask small as actor for r, turn 1, step 2, 200 tokens, by 9006",
            ),
            (
                7,
                answer("r", 1, "43"),
                r#"publish r completed "43", 20 used
                   publish p completed "43", 0 used, joined r"#,
            ),
            (
                8,
                submit("o"),
                "timer o at 60000
                 ask small as actor for o, turn 0, step 1, 200 tokens, by 9008",
            ),
        ],
    );
}

#[test]
fn a_message_for_which_nothing_is_left_is_told_so_and_the_answer_holds() {
    let limited = [
        (with(actor(), |limits| limits.steps_max = 1), 2, 10, "partial E4001"),
        (with(actor(), |limits| limits.tokens_max = 255), 2, 200, "budget E4002"),
        (actor(), 60_000, 10, "deadline E1007"),
    ];
    for (plan, at, used, told) in limited {
        let ended = format!(
            "publish r completed \"42\", {used} used
             publish q {told}, 0 used, joined r"
        );
        let mut answered = answer("r", 0, "42");
        if let Input::ModelReplied(replied) = &mut answered
            && let ModelOutcome::Read { turn, .. } = &mut replied.outcome
        {
            turn.usage = Usage::of_tokens(used, 0);
        }
        let rows = [
            (0, submit("r"), START),
            (1, submit("q"), "timer q at 60000"),
            (at, answered, ended.as_str()),
        ];
        let machine = check(&steering(plan), &rows);
        assert_eq!(machine.exchanges().next().unwrap().user, "ask r");
    }
}

#[test]
fn a_restart_forgets_no_message() {
    let rows = [
        (0, submit("r"), START),
        (1, submit("q"), "timer q at 60000"),
        (
            2,
            RESUMED,
            "timer r at 60000
             timer q at 60000
             ask small as actor for r, turn 0, step 1, 200 tokens, by 9002",
        ),
        (3, answer("r", 0, "42"), "ask small as actor for r, turn 1, step 2, 200 tokens, by 9003"),
        (
            4,
            RESUMED,
            "timer r at 60000
             timer q at 60000
             ask small as actor for r, turn 1, step 2, 200 tokens, by 9004",
        ),
    ];
    assert_eq!(told(&check(&steering(actor()), &rows)), [["answered 42"], ["user: ask q"]]);
}

#[test]
fn observers_and_traces_are_told_who_joined_whom() {
    let machine = check_reports(
        &steering(actor()),
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
                submit("q"),
                r#"tell 1.0 accepted "ask q"
                   timer q at 60000
                   tell 1.1 joins r"#,
            ),
            (
                2,
                answer("r", 0, "42"),
                r#"span chat small
                   tell 2.0 steered by q "ask q"
                   tell 2.1 asked small
                   ask small as actor for r, turn 1, step 2, 200 tokens, by 9002"#,
            ),
            (
                3,
                answer("r", 1, "43"),
                r#"span chat small
                   tell 3.0 over completed
                   span invoke_agent lead
                   publish r completed "43", 20 used
                   tell 3.1 over completed
                   span invoke_agent lead
                   publish q completed "43", 0 used, joined r"#,
            ),
        ],
    );
    let (own, joined) = (machine.reply(&run("r")).unwrap(), machine.reply(&run("q")).unwrap());
    assert_ne!(own.trace_id, joined.trace_id);
}

/// Changes what was recorded of a run that a message joined, and returns whether that is found.
fn is_found(change: impl Fn(&mut Vec<Effect>)) -> bool {
    let plans = HashMap::from([(Digest::of(b"plan"), Arc::new(steering(actor())))]);
    let mut machine = SessionMachine::new(name("team"), super::team::session());
    let inputs = [submit("r"), submit("q"), answer("r", 0, "42"), answer("r", 1, "43")];
    let mut records = Vec::new();
    for input in inputs {
        let now = Timestamp::from_micros(1000);
        let mut effects = machine.apply(now, &input, &plans).unwrap();
        change(&mut effects);
        records.push(Record { entry: Entry::new(now, Body::Session(input)), effects });
    }
    matches!(invariant::joined_are_heard(&records), Err(Violation::NotHeard { .. }))
}

#[test]
fn a_message_that_is_swallowed_or_counted_twice_breaks_the_rule() {
    let is_shown = |effect: &Effect| matches!(effect, Effect::Tell(event) if matches!(event.kind, EventKind::Steered { .. }));
    let answered = |change: fn(&mut RunReply)| {
        move |effects: &mut Vec<Effect>| {
            for effect in effects {
                if let Effect::Publish { reply } = effect
                    && reply.joined.is_some()
                {
                    change(Arc::make_mut(reply));
                }
            }
        }
    };
    assert!(!is_found(|_| {}));
    assert!(is_found(|effects| effects.retain(|effect| !is_shown(effect))));
    assert!(is_found(|effects| {
        let again: Vec<Effect> =
            effects.iter().filter(|effect| is_shown(effect)).cloned().collect();
        effects.extend(again);
    }));
    assert!(is_found(|effects| effects.retain(|effect| {
        let asks_again = matches!(effect, Effect::AskModel { turn: 1, .. });
        !asks_again
    })));
    assert!(is_found(answered(|reply| reply.output = "42".into())));
    assert!(is_found(answered(|reply| reply.joined = None)));
    assert!(is_found(answered(|reply| reply.usage.input_tokens = 1)));
}
