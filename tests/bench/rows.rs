//! All rows that can be measured, by their ids.

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
    Idle,
    Counted,
}

/// Returns the rows in the order in which they are measured.
fn all() -> Vec<(&'static str, Kind)> {
    let mut rows: Vec<(&str, Kind)> = floors::ids().map(|id| (id, Kind::Floor)).collect();
    rows.extend(work::rows().into_iter().map(|(id, work)| (id, Kind::Relay(work))));
    rows.extend(tokens::rows().into_iter().map(|(id, work)| (id, Kind::Tokens(work))));
    rows.extend([large::REPLY, large::RESULT].map(|id| (id, Kind::Large)));
    rows.push((start::EMPTY, Kind::StartEmpty));
    rows.push((start::FULL, Kind::StartFull));
    rows.push((start::BINARY, Kind::Binary));
    rows.extend([idle::IDLE, idle::HELD].map(|id| (id, Kind::Idle)));
    let counted = [allocations::STEP, allocations::MANY, allocations::HEAP];
    rows.extend(counted.map(|id| (id, Kind::Counted)));
    rows
}

/// Measures every chosen row, round after round, so that what disturbs the machine for a while
/// does not fall on one row alone.
pub(crate) fn measured(runs: usize, pick: &Pick) -> Sheet {
    let all = all();
    let ids: Vec<&str> = all.iter().map(|(id, _)| *id).collect();
    let chosen = pick.of(&ids);
    let rows = all.iter().filter(|(id, _)| chosen.contains(id));
    // What is counted hardly differs from round to round, and is measured once.
    let (counted, timed): (Vec<_>, Vec<_>) =
        rows.partition(|(_, kind)| matches!(kind, Kind::Counted));
    let stub = Stub::start();
    let mut sheet = Sheet::default();
    for round in 1..=runs {
        for (id, kind) in &timed {
            eprintln!("round {round} of {runs}: {id}");
            measure(id, kind, &stub, &mut sheet);
        }
    }
    let counted: Vec<&str> = counted.into_iter().map(|(id, _)| *id).collect();
    if !counted.is_empty() && allocations::now().is_none() {
        eprintln!("in a build that counts allocations: {}", counted.join(", "));
        allocations::elsewhere(&counted, &mut sheet);
    } else {
        for id in counted {
            allocations::measure(id, &stub, &mut sheet);
        }
    }
    sheet
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
        Kind::Idle => idle::measure(id, stub, sheet),
        Kind::Counted => allocations::measure(id, stub, sheet),
    }
}
