//! What a large reply and a large result of a tool take of the memory.

use std::time::Duration;

use serde_json::json;

use crate::idle::NODE;
use crate::servers::{Stub, figures, role};
use crate::sheet::Sheet;
use crate::work::{self, Shape, Work};
use crate::{measure, profile, team};

/// The ids of the rows.
pub(crate) const REPLY: &str = "large-reply";
pub(crate) const RESULT: &str = "large-result";

/// The role.
pub(crate) const ROLE: &str = "large";

/// Bytes of a reply and of a result: just below the 4 MiB that the runtime takes of either.
pub(crate) const BYTES: usize = 4_000_000;

/// Further runs after the first one, each in a session of its own, which show what stays.
const AGAIN: usize = 4;

/// Measures a row once.
pub(crate) fn measure(id: &str, stub: &Stub, sheet: &mut Sheet) {
    let command = role(ROLE, [id, stub.url.as_str()]);
    sheet.add(id, NODE, &figures(profile::recorded(id, NODE, command)));
}

/// Does a row in a process of its own and prints its figures.
pub(crate) fn large(id: &str, url: &str) {
    let (shape, agent) =
        if id == RESULT { (Shape::Result, "reader") } else { (Shape::Large, "lead") };
    let work = Work { shape, calls: 1, stream: true, url: url.to_owned(), ..work::chain() };
    let runtime = node::executor(None).expect("a runtime");
    let told = runtime.block_on(async {
        let home = tempfile::tempdir().expect("a temporary folder");
        let file = team::write(&work, home.path());
        let node = team::start(&file, &home.path().join("data"), team::bus(&work).await).await;
        // A small one first, after which the process has what all runs share: the store opens a
        // database for traces with the first.
        team::ask(node.bus(), agent, &work.request("small")).await;
        team::of(&node).settle().await;
        let work = Work { calls: BYTES, ..work };
        let before = measure::resident_kib();
        let began = measure::Began::now();
        measure::forget_peak();
        let reply = team::ask(node.bus(), agent, &work.request("large")).await;
        team::of(&node).settle().await;
        let peak = measure::peak_kib();
        let mut told = began.each(1.0);
        if shape == Shape::Large {
            assert_eq!(team::Told::of(&reply).output.len(), BYTES, "the whole reply");
        }
        for run in 0..AGAIN {
            team::ask(node.bus(), agent, &work.request(&format!("again{run}"))).await;
        }
        team::of(&node).settle().await;
        told["times"] = times(peak.saturating_sub(before)).into();
        told["before_kib"] = json!(before);
        told["peak_kib"] = json!(peak);
        told["times_of_five"] = times(measure::peak_kib().saturating_sub(before)).into();
        node.drain(Duration::ZERO).await;
        told
    });
    println!("{told}");
}

/// Returns how many times a large text so much memory is.
fn times(kib: u64) -> f64 {
    measure::float(kib * 1024) / measure::float(BYTES as u64)
}
