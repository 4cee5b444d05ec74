//! Sessions whose past is dropped: what they go on with, and that nothing else changes.

use std::collections::HashMap;

use wire::entry::{Body, Entry};
use wire::snapshot::{KeptExchange, Snapshot};

use wire::{CallOutcome, Digest, Input, Plan, Timestamp};

use super::check;
use super::flow::START;
use super::team::{actor, answer, calls, name, run, session, settle, submit, submit_below, with};
use crate::session::{EXCHANGES_BYTES_MAX, EXCHANGES_MAX, REPLIES_BYTES_MAX, SessionMachine};

fn at(ms: u64) -> Timestamp {
    Timestamp::from_micros(ms * 1000)
}

fn snapshot(machine: &SessionMachine, cutoff_ms: u64) -> Input {
    Input::Snapshot(Box::new(machine.snapshot(at(cutoff_ms)).unwrap()))
}

#[test]
fn only_a_session_at_rest_has_a_snapshot() {
    let machine = check(&actor(), &[]);
    assert_eq!(machine.snapshot(at(0)), None, "nothing has happened");
    let rows = [
        (0, submit("r"), START),
        (4, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
    ];
    for count in 1..rows.len() {
        assert_eq!(check(&actor(), &rows[..count]).snapshot(at(0)), None, "after {count} entries");
    }
    let machine = check(&actor(), &rows);
    let kept = machine.snapshot(at(3)).unwrap();
    assert_eq!((kept.begun, kept.seen, kept.is_called), (at(0), at(4), false));
    assert_eq!(kept.runs.iter().map(|kept| &kept.run).collect::<Vec<_>>(), [&run("r")]);
    assert_eq!(machine.snapshot(at(4)).unwrap().runs, [], "it ended at the cutoff");
}

#[test]
fn a_called_session_says_so() {
    let machine = check(
        &actor(),
        &[
            (0, submit_below("r", 1), START),
            (4, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
        ],
    );
    assert!(machine.snapshot(at(0)).unwrap().is_called);
}

#[test]
fn a_snapshot_of_something_else_is_refused() {
    let rows = [
        (0, submit("r"), START),
        (4, answer("r", 0, "42"), r#"publish r completed "42", 10 used"#),
    ];
    let machine = check(&actor(), &rows);
    let own = machine.snapshot(at(0)).unwrap();
    let (mut other, mut miscounted) = (own.clone(), own.clone());
    other.exchanges[0].answer = "43".into();
    miscounted.exchanges_total = 7;
    let refused = "rejected: the input makes no sense where the run stands";
    let mut rows = rows.to_vec();
    rows.push((6, Input::Snapshot(Box::new(other)), refused));
    rows.push((6, Input::Snapshot(Box::new(miscounted)), refused));
    rows.push((7, Input::Snapshot(Box::new(own.clone())), ""));
    rows.push((8, submit("r"), "rejected: run r was accepted before"));
    rows.push((
        9,
        submit("q"),
        "timer q at 60000\nask small as actor for q, turn 0, step 1, 200 tokens, by 9009",
    ));
    rows.push((10, Input::Snapshot(Box::new(own)), refused));
    check(&actor(), &rows);
}

#[test]
fn a_snapshot_that_kept_more_of_what_was_said_is_taken() {
    let plans = HashMap::from([(Digest::of(b"plan"), actor().into())]);
    let mut machine = SessionMachine::new(name("team"), session());
    for input in [submit("r"), answer("r", 0, "42")] {
        machine.apply(at(0), &input, &plans).unwrap();
    }
    // What kept more did not count.
    let mut kept = Snapshot { exchanges_total: 0, ..machine.snapshot(at(0)).unwrap() };
    let earlier = kept.exchanges[0].clone();
    kept.exchanges.insert(0, earlier);
    machine.apply(at(1), &Input::Snapshot(Box::new(kept.clone())), &plans).unwrap();
    assert_eq!(machine.exchanges().count(), 2);
    let large = "x".repeat(EXCHANGES_BYTES_MAX).into();
    kept.exchanges.insert(0, KeptExchange { answer: large, ..kept.exchanges[0].clone() });
    machine.apply(at(2), &Input::Snapshot(Box::new(kept)), &plans).unwrap();
    assert_eq!(machine.exchanges().count(), 2);
}

#[test]
fn a_session_of_which_nothing_was_kept_has_a_snapshot() {
    let plan = Plan { keeps_unfinished: false, ..actor() };
    let plans = HashMap::from([(Digest::of(b"plan"), plan.into())]);
    let mut machine = SessionMachine::new(name("team"), session());
    let cancel = Input::CancelRequested { run: run("r"), reason: "enough".to_owned() };
    for input in [submit("r"), cancel] {
        machine.apply(at(0), &input, &plans).unwrap();
    }
    let kept = snapshot(&machine, 0);
    machine.apply(at(1), &kept, &plans).unwrap();
    assert_eq!(machine.exchanges().count(), 0);
}

/// A small source of numbers; the same seed gives the same schedule.
fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |limit| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    }
}

#[test]
fn a_fold_from_any_snapshot_comes_to_the_live_machine() {
    let plans = HashMap::from([(Digest::of(b"plan"), actor().into())]);
    for seed in 0..300 {
        let mut below = numbers(seed);
        let mut live = SessionMachine::beginning_at(name("team"), session(), below(3) * 1000);
        let (first, mut entries) = (live.slot(), Vec::new());
        let mut snapshots = Vec::new();
        let (mut now, mut asked) = (0, 0);
        while entries.len() < 60 {
            now += below(20);
            let input = if live.is_idle() {
                match below(3) {
                    0 if live.snapshot(at(0)).is_some() => {
                        let cutoff = [0, now / 2, now][usize::try_from(below(3)).unwrap()];
                        snapshots.push(entries.len());
                        snapshot(&live, cutoff)
                    }
                    _ => {
                        asked += 1;
                        submit(&format!("r{asked}"))
                    }
                }
            } else {
                answer(&format!("r{asked}"), 0, &format!("answer {asked}"))
            };
            live.apply(at(now), &input, &plans).unwrap();
            entries.push(Entry::new(at(now), Body::Session(input)));
        }
        for from in [0].into_iter().chain(snapshots.iter().copied()) {
            let machine =
                SessionMachine::beginning_at(name("team"), session(), first + from as u64);
            let mut slots = Vec::new();
            let folded = machine.fold_on(&entries[from..], &plans, |_, slot, _| slots.push(slot));
            assert_eq!(folded.as_ref(), Ok(&live), "seed {seed}, from {from} of {snapshots:?}");
            assert_eq!(slots.first(), Some(&(first + from as u64)));
        }
    }
}

#[test]
fn what_is_known_of_a_long_session_is_bounded() {
    let plans = HashMap::from([(Digest::of(b"plan"), actor().into())]);
    let mut machine = SessionMachine::new(name("team"), session());
    for number in 0..1000 {
        let id = format!("r{number}");
        for input in [submit(&id), answer(&id, 0, "x")] {
            machine.apply(at(number * 10), &input, &plans).unwrap();
        }
        if number % 100 == 99 {
            // What ended in the last 50 turns is kept.
            let kept = snapshot(&machine, number.saturating_sub(50) * 10);
            machine.apply(at(number * 10 + 1), &kept, &plans).unwrap();
            assert_eq!(machine.runs_known(), 50);
        }
    }
    assert_eq!(machine.exchanges().count(), EXCHANGES_MAX);
}

#[test]
fn large_answers_leave_memory_before_there_are_many() {
    // Shown to a model, they would use the tokens of the runs up.
    let plan = with(actor(), |limits| limits.history_messages_max = 0);
    let plans = HashMap::from([(Digest::of(b"plan"), plan.into())]);
    let mut machine = SessionMachine::new(name("team"), session());
    let half = "x".repeat(REPLIES_BYTES_MAX / 2);
    // The answers, and how many exchanges and replies are there after each.
    let too_large = "x".repeat(EXCHANGES_BYTES_MAX + REPLIES_BYTES_MAX);
    for (number, text, exchanges, replies) in [
        (0, half.as_str(), 1, 1),
        (1, "small", 2, 2),
        (2, half.as_str(), 2, 2),
        (3, half.as_str(), 1, 2),
        (4, too_large.as_str(), 1, 1),
        (5, "small", 1, 1),
        (6, "small", 2, 2),
    ] {
        let id = format!("r{number}");
        for input in [submit(&id), answer(&id, 0, text)] {
            machine.apply(at(number * 10), &input, &plans).unwrap();
        }
        let held = (0..=number).filter(|n| machine.reply(&run(&format!("r{n}"))).is_some());
        assert_eq!((machine.exchanges().count(), held.count()), (exchanges, replies), "{number}");
    }
}

#[test]
fn what_is_kept_counts_at_rest() {
    let plan = with(actor(), |limits| {
        limits.history_messages_max = 0;
        limits.tokens_max = 1_000_000;
    });
    let plans = HashMap::from([(Digest::of(b"plan"), plan.into())]);
    let mut machine = SessionMachine::new(name("team"), session());
    let mut bytes = machine.bytes_at_rest();
    let grown = |machine: &SessionMachine, bytes: &mut usize| {
        let before = std::mem::replace(bytes, machine.bytes_at_rest());
        *bytes - before
    };
    let text = "x".repeat(10_000);
    for input in [submit("r"), answer("r", 0, &text)] {
        machine.apply(at(0), &input, &plans).unwrap();
    }
    let more = grown(&machine, &mut bytes);
    assert!((20_000..21_000).contains(&more), "an answer in the history and in the reply: {more}");
    let result = settle(3, 0, CallOutcome::text(&*text), 0);
    for input in [submit("q"), calls("q", 0, &["look"]), result, answer("q", 1, "done")] {
        machine.apply(at(1), &input, &plans).unwrap();
    }
    let more = grown(&machine, &mut bytes);
    assert!((10_000..11_000).contains(&more), "the result of a call in the reply: {more}");
    let kept = snapshot(&machine, 1);
    machine.apply(at(2), &kept, &plans).unwrap();
    assert!((10_000..11_000).contains(&machine.bytes_at_rest()), "the history alone");
}
