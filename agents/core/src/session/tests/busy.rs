//! Messages that come while a run is in work: refused, or the end of that run.

use wire::entry::{Input, Submitted};
use wire::plan::WhenBusy;
use wire::run::RunState;
use wire::{ErrorCode, Plan, RunStatus};

use super::check;
use super::flow::START;
use super::team::{
    actor, answer, calls, cancel, done, name, run, submit, submit_below, submitted, thinker,
    thought, with,
};
use crate::effect::Rejected;

pub(super) fn when_busy(when_busy: WhenBusy, plan: Plan) -> Plan {
    Plan { when_busy, ..plan }
}

const BUSY: &str =
    "rejected: run r of the session is in work, and the agent takes no message until it is over";

#[test]
fn a_message_is_refused_until_the_run_is_over() {
    let machine = check(
        &when_busy(WhenBusy::Reject, actor()),
        &[
            (0, submit("r"), START),
            (1, submit("q"), BUSY),
            // A request that is known is no further message.
            (2, submit("r"), "rejected: run r was accepted before"),
            // Another agent waits for this one, so it is not refused for a policy.
            (3, submit_below("p", 1), "timer p at 60000"),
            (
                4,
                answer("r", 0, "42"),
                r#"publish r completed "42", 10 used
                   ask small as actor for p, turn 0, step 1, 200 tokens, by 9004"#,
            ),
            (5, answer("p", 0, "43"), r#"publish p completed "43", 10 used"#),
            (6, submit("r"), "rejected: run r was accepted before"),
            (
                7,
                submit("q"),
                "timer q at 60000
                 ask small as actor for q, turn 0, step 1, 200 tokens, by 9007",
            ),
        ],
    );
    assert_eq!(machine.reply(&run("r")).unwrap().output, "42");
    let refused = Rejected::Busy { run: run("r") }.to_wire();
    assert_eq!((refused.code, refused.retry_after_ms), (ErrorCode::SessionBusy, Some(500)));
}

#[test]
fn a_message_ends_the_run_in_work_and_begins_its_own() {
    // No run waits, so that a queue is not needed.
    let plan = with(when_busy(WhenBusy::Interrupt, actor()), |limits| limits.queue_max = 0);
    let machine = check(
        &plan,
        &[
            (0, submit("r"), START),
            (
                1,
                calls("r", 0, &["look", "pay", "writer"]),
                r#"call look 1/0 read {"n":0}, depth 1, by 5001
                   call pay 1/1 once {"n":1}, depth 1, by 5001
                   call writer 1/2 idempotent {"n":2}, depth 1, 495 tokens, by 5001"#,
            ),
            (
                2,
                submit("q"),
                "timer q at 60000
                 abort r [1/0, 1/1, 1/2]
                 publish r cancelled E4004, 10 used look=error pay=unknown writer=error
                 ask small as actor for q, turn 0, step 1, 200 tokens, by 9002",
            ),
            (3, done(1, 0), "rejected: call 1/0 is not awaited"),
            (4, answer("r", 1, "late"), "rejected: run r is not in work"),
            (6, super::team::told(1, 2), ""),
            (7, answer("q", 0, "42"), r#"publish q completed "42", 10 used"#),
        ],
    );
    assert!(machine.is_idle());
    assert_eq!(machine.ended(&run("r")), Some(RunStatus::Cancelled));
    let error = machine.reply(&run("r")).unwrap().error.clone().unwrap();
    assert_eq!(error.message, "interrupted by run q");
    // Later models know of the message, and of what was done for it.
    let told: Vec<_> = machine.exchanges().collect();
    let [first, second] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((first.user.as_str(), second.user.as_str()), ("ask r", "ask q"));
    assert!(first.answer.starts_with("(The user's next message came"), "{}", first.answer);
    assert!(first.answer.contains("\n- pay {\"n\":1}: unknown: "), "{}", first.answer);
    assert_eq!(second.answer, "42");
}

#[test]
fn a_run_is_interrupted_in_any_phase_and_only_once() {
    let think = "timer r at 60000
        ask big as thinker for r, turn 0, step 1, 200 tokens, by 9000";
    check(
        &when_busy(WhenBusy::Interrupt, thinker()),
        &[
            (0, submit("r"), think),
            (
                1,
                submit("q"),
                "timer q at 60000
                 abort r []
                 publish r cancelled E4004, 0 used
                 ask big as thinker for q, turn 0, step 1, 200 tokens, by 9001",
            ),
            (2, submit("q"), "rejected: run q was accepted before"),
            (2, submit("r"), "rejected: run r was accepted before"),
            (3, thought("r", 0, "x"), "rejected: run r is not in work"),
            (
                4,
                thought("q", 0, "x"),
                "ask small as actor for q, turn 1, step 1, 200 tokens, by 9004",
            ),
            (
                5,
                submit("p"),
                "timer p at 60000
                 abort q []
                 publish q cancelled E4004, 10 used
                 ask big as thinker for p, turn 0, step 1, 200 tokens, by 9005",
            ),
            (6, cancel("q"), "rejected: run q is not in work"),
            (7, cancel("p"), "abort p []\npublish p cancelled E4004, 0 used"),
        ],
    );
}

#[test]
fn only_messages_of_users_interrupt_or_join_and_only_runs_of_users_with_the_same_agent() {
    let other = || Input::Submitted(Submitted { agent: name("other"), ..submitted("q") });
    for policy in [WhenBusy::Interrupt, WhenBusy::Steer] {
        for (first, second) in [
            (submit_below("r", 1), submit("q")),
            (submit("r"), submit_below("q", 1)),
            (submit("r"), other()),
        ] {
            let machine = check(
                &when_busy(policy, actor()),
                &[
                    (0, first, START),
                    (1, second, "timer q at 60000"),
                    (
                        2,
                        answer("r", 0, "42"),
                        r#"publish r completed "42", 10 used
                           ask small as actor for q, turn 0, step 1, 200 tokens, by 9002"#,
                    ),
                ],
            );
            let view = machine.view(&run("q")).unwrap();
            let running = RunState::Running { step: 1, phase: "acting".to_owned() };
            assert_eq!((view.state, view.joined), (running, None), "{policy:?}");
        }
    }
}
