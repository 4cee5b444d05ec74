//! All rows that can be measured, by their ids.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::party::Party;
use crate::pick::Pick;
use crate::servers::Stub;
use crate::sheet::Sheet;
use crate::work::Work;
use crate::{allocations, floors, idle, large, start, tokens, work};

/// What is done for a row.
enum Kind {
    Floor,
    Relay(Work),
    Tokens(Work),
    Large,
    StartEmpty,
    StartFull,
    Binary,
}

/// The rows of one round that are measured at the same time, after all others.
const IDLE: [&str; 2] = [idle::IDLE, idle::HELD];

/// The rows of what hardly differs from round to round, and is measured once.
const COUNTED: [&str; 3] = [allocations::STEP, allocations::MANY, allocations::HEAP];

/// Returns the other rows in the order in which they are measured.
fn timed() -> Vec<(&'static str, Kind)> {
    let mut rows: Vec<(&str, Kind)> = floors::ids().map(|id| (id, Kind::Floor)).collect();
    rows.extend(work::rows().into_iter().map(|(id, work)| (id, Kind::Relay(work))));
    rows.extend(tokens::rows().into_iter().map(|(id, work)| (id, Kind::Tokens(work))));
    rows.extend([large::REPLY, large::RESULT].map(|id| (id, Kind::Large)));
    rows.push((start::EMPTY, Kind::StartEmpty));
    rows.push((start::FULL, Kind::StartFull));
    rows.push((start::BINARY, Kind::Binary));
    rows
}

/// Returns the ids of all rows in the order in which they are measured.
pub(crate) fn ids() -> Vec<&'static str> {
    timed().into_iter().map(|(id, _)| id).chain(IDLE).chain(COUNTED).collect()
}

/// What was measured, and whether all of it could be.
pub(crate) struct Measured {
    pub(crate) sheet: Sheet,
    pub(crate) is_whole: bool,
}

/// Measures every chosen row, round after round, so that what disturbs the machine for a while
/// does not fall on one row alone.
pub(crate) fn measured(runs: usize, pick: &Pick) -> Measured {
    let mut timed = timed();
    let chosen = pick.of(&ids());
    timed.retain(|(id, _)| chosen.contains(id));
    let of = |rows: &[&'static str]| -> Vec<&str> {
        rows.iter().copied().filter(|id| chosen.contains(id)).collect()
    };
    let (idle, counted) = (of(&IDLE), of(&COUNTED));
    let mut measured = Measured { sheet: Sheet::default(), is_whole: true };
    for round in 1..=runs {
        measured.add(|sheet| {
            let stub = Stub::start();
            for (id, kind) in &timed {
                eprintln!("round {round} of {runs}: {id}");
                measure(id, kind, &stub, sheet);
            }
            if !idle.is_empty() {
                eprintln!("round {round} of {runs}: {}", idle.join(", "));
                idle::measure(&idle, &stub, sheet);
            }
        });
    }
    if !counted.is_empty() {
        measured.add(|sheet| count(&counted, sheet));
    }
    measured
}

impl Measured {
    /// Adds what is measured. If that fails, nothing of it counts, and the rest goes on: a page
    /// takes most of an hour.
    fn add(&mut self, measure: impl FnOnce(&mut Sheet)) {
        let mut sheet = self.sheet.clone();
        if catch_unwind(AssertUnwindSafe(|| measure(&mut sheet))).is_ok() {
            self.sheet = sheet;
        } else {
            eprintln!("that failed, and what was measured with it does not count");
            self.is_whole = false;
        }
    }
}

/// Measures rows where allocations are counted.
fn count(ids: &[&str], sheet: &mut Sheet) {
    if allocations::now().is_none() {
        eprintln!("in a build that counts allocations: {}", ids.join(", "));
        return allocations::elsewhere(ids, sheet);
    }
    let stub = Stub::start();
    for id in ids {
        allocations::measure(id, &stub, sheet);
    }
}

fn measure(id: &str, kind: &Kind, stub: &Stub, sheet: &mut Sheet) {
    match kind {
        Kind::Floor => floors::measure(id, stub, sheet),
        Kind::Relay(work) => {
            for party in Party::ALL {
                party.measure(id, work, stub, sheet);
            }
        }
        Kind::Tokens(work) => tokens::measure(id, work, stub, sheet),
        Kind::Large => large::measure(id, stub, sheet),
        Kind::StartEmpty => start::measure_empty(stub, sheet),
        Kind::StartFull => start::measure_full(stub, sheet),
        Kind::Binary => start::measure_binary(sheet),
    }
}
