//! Decisions of the machine as tables: what happens, and what is to be done about it.
//!
//! Every row is also a test of two rules: the machine folded from the accepted inputs equals the
//! live one, and a rejected input leaves the machine equal to what it was.

mod attempt;
mod busy;
mod circle;
mod crash;
mod cut;
mod ending;
mod flow;
mod history;
mod limit;
mod money;
mod person;
mod planning;
mod question;
mod queue;
mod reasoning;
mod resume;
mod show;
mod snapshot;
mod steer;
mod taint;
mod team;
mod trace;
mod written;

use std::collections::HashMap;

use wire::entry::{Body, Entry, Input};
use wire::{Digest, Plan, Timestamp};

use super::SessionMachine;
use crate::effect::Effect;
use crate::invariant::{self, Record};
use show::{Shown, show};

/// A row of a table: milliseconds on the clock, the input, the lines that follow from it.
type Row<'a> = (u64, Input, &'a str);

/// Plays the rows on a session of one agent and returns what was recorded.
fn check(plan: &Plan, rows: &[Row<'_>]) -> SessionMachine {
    play(plan, rows, Shown::Acts)
}

/// Like [`check`], with what is opened for people, and closed, among the lines.
fn check_open(plan: &Plan, rows: &[Row<'_>]) -> SessionMachine {
    play(plan, rows, Shown::ActsAndOpen)
}

/// Like [`check`], with everything that is told among the lines.
fn check_reports(plan: &Plan, rows: &[Row<'_>]) -> SessionMachine {
    play(plan, rows, Shown::Everything)
}

fn play(plan: &Plan, rows: &[Row<'_>], shown: Shown) -> SessionMachine {
    let plans = HashMap::from([(Digest::of(b"plan"), plan.clone().into())]);
    let mut machine = SessionMachine::new(team::name("team"), team::session());
    let mut records = Vec::new();
    for (number, (ms, input, expected)) in rows.iter().enumerate() {
        let now = Timestamp::from_micros(ms * 1000);
        let before = machine.clone();
        let lines = match machine.apply(now, input, &plans) {
            Ok(effects) => {
                let lines = lines(&effects, shown);
                let entry = Entry::new(now, Body::Session(input.clone()));
                records.push(Record { entry, effects });
                lines
            }
            Err(rejected) => {
                assert_eq!(machine, before, "row {number}: a rejected input changed the machine");
                vec![format!("rejected: {}", show::keys(&rejected.to_string()))]
            }
        };
        let expected: Vec<&str> =
            expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, expected, "row {number}: {}", show::input(input));
        let folded = SessionMachine::fold(
            team::name("team"),
            team::session(),
            records.iter().map(|record| &record.entry),
            &plans,
            |_, _, _| {},
        );
        assert_eq!(folded.as_ref(), Ok(&machine), "row {number}: replay differs");
    }
    invariant::check(&records, &plans).unwrap();
    machine
}

fn lines(effects: &[Effect], shown: Shown) -> Vec<String> {
    effects.iter().filter_map(|effect| show(effect, shown)).collect()
}
