//! Several runs of one session: one at a time, in order, each accepted once.

use wire::run::{RunState, RunStatus};
use wire::{Digest, Input};

use super::check;
use super::flow::START;
use super::team::{actor, answer, run, submit, submitted};
use crate::session::REPLIES_MAX;

#[test]
fn runs_wait_in_order_and_see_what_was_said_before() {
    let rows = [
        (0, submit("r"), START),
        (1, submit("q"), "timer q at 60000"),
        (2, submit("p"), "timer p at 60000"),
        (3, submit("o"), "rejected: 2 runs of the session wait already"),
        (
            4,
            answer("r", 0, "42"),
            r#"publish r completed "42", 10 used
               ask small as actor for q, turn 0, step 1, 200 tokens, by 9004"#,
        ),
        (5, submit("o"), "timer o at 60000"),
    ];
    let machine = check(&actor(), &rows);
    let state = |id: &str| machine.view(&run(id)).map(|view| view.state);
    assert_eq!(state("r"), Some(RunState::Ended { status: RunStatus::Completed }));
    assert_eq!(state("q"), Some(RunState::Running { step: 1, phase: "acting".to_owned() }));
    assert_eq!(state("p"), Some(RunState::Queued));
    assert_eq!(state("x"), None);
    let (_, transcript) = machine.transcript().unwrap();
    let history: Vec<_> = transcript.history.iter().map(|told| told.user.as_str()).collect();
    assert_eq!((history.as_slice(), transcript.request), (["ask r"].as_slice(), "ask q"));
}

#[test]
fn a_run_id_is_taken_once() {
    let other =
        Input::Submitted(wire::entry::Submitted { body: Digest::of(b"other"), ..submitted("r") });
    let unplanned =
        Input::Submitted(wire::entry::Submitted { plan: Digest::of(b"lost"), ..submitted("q") });
    let machine = check(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, submit("r"), "rejected: run r was accepted before"),
            (2, other.clone(), "rejected: run id r was used before by another request"),
            (3, unplanned, "rejected: the plan of the run is not there"),
            (4, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
            (5, submit("r"), "rejected: run r was accepted before"),
            (6, other, "rejected: run id r was used before by another request"),
            (9, submit("r"), "rejected: run r was accepted before"),
        ],
    );
    assert_eq!(machine.reply(&run("r")).unwrap().output, "42");
}

#[test]
fn old_replies_leave_memory_and_the_ids_stay() {
    let ids: Vec<String> = (0..=REPLIES_MAX).map(|number| format!("r{number}")).collect();
    let lines: Vec<(String, String)> = ids
        .iter()
        .map(|id| {
            (
                format!(
                    "timer {id} at 60000
                     ask small as actor for {id}, turn 0, step 1, 200 tokens, by 9000"
                ),
                format!("publish {id} completed \"42\", 10 used"),
            )
        })
        .collect();
    let mut rows = Vec::new();
    for (id, (begins, ends)) in ids.iter().zip(&lines) {
        rows.push((0, submit(id), begins.as_str()));
        rows.push((0, answer(id, 0, "42"), ends.as_str()));
    }
    rows.push((1, submit("r0"), "rejected: run r0 was accepted before"));
    let machine = check(&actor(), &rows);
    assert_eq!(machine.reply(&run("r0")), None);
    assert_eq!(machine.ended(&run("r0")), Some(RunStatus::Completed));
    assert!(machine.reply(&run("r1")).is_some());
}
