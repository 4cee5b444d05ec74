//! Counts allocations, in a build of its own, since counting takes time from what is measured.

use std::process::{Command, Stdio};

use tests::daemon::root;

use crate::SHEET;
use crate::idle;
use crate::party::Party;
use crate::servers::Stub;
use crate::sheet::Sheet;
use crate::work::{self, Work};

/// The ids of the rows that are measured where allocations are counted.
pub(crate) const STEP: &str = "allocations-1";
pub(crate) const MANY: &str = "allocations-32";
pub(crate) const HEAP: &str = "idle-heap";

/// The parties whose allocations are counted; those of a NATS server are not seen.
pub(crate) const PARTIES: [Party; 3] = [Party::Handmade, Party::Embedded, Party::Untraced];

#[cfg(feature = "allocations")]
mod counted {
    use std::alloc::System;

    use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

    #[global_allocator]
    static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    pub(super) fn now() -> super::Allocated {
        let stats = COUNTED.stats();
        let bytes = stats.bytes_allocated;
        super::Allocated {
            count: (stats.allocations + stats.reallocations) as u64,
            bytes: bytes as u64,
            live: bytes.saturating_sub(stats.bytes_deallocated) as u64,
        }
    }
}

#[cfg(not(feature = "allocations"))]
mod counted {
    /// That of the daemon.
    #[global_allocator]
    static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

    /// Nothing is known.
    pub(super) fn now() -> super::Allocated {
        super::Allocated::default()
    }
}

/// What this process has allocated.
#[derive(Default)]
pub(crate) struct Allocated {
    /// Allocations, those that were made larger or smaller counted again.
    pub(crate) count: u64,
    /// Bytes, including what was freed.
    pub(crate) bytes: u64,
    /// Bytes that are not freed.
    pub(crate) live: u64,
}

/// Returns what was allocated so far, if this build counts it.
pub(crate) fn now() -> Option<Allocated> {
    cfg!(feature = "allocations").then(counted::now)
}

/// Measures a row once, in a build that counts.
pub(crate) fn measure(id: &str, stub: &Stub, sheet: &mut Sheet) {
    if id == HEAP {
        idle::measure(&[HEAP], stub, sheet);
        return;
    }
    let sessions = if id == MANY { 32 } else { 1 };
    let work = Work { sessions, runs: 320 / sessions, ..work::chain() };
    for party in PARTIES {
        party.measure(id, &work, stub, sheet);
    }
}

/// Builds this program so that it counts, and has it measure rows.
pub(crate) fn elsewhere(ids: &[&str], sheet: &mut Sheet) {
    let output = Command::new(env!("CARGO"))
        .args(["bench", "--quiet", "-p", "bench", "--bench", "relay", "--locked"])
        .args(["--features", "allocations", "--", SHEET, "1", &ids.join(",")])
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "the build that counts allocations failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let told = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    sheet.merge(&told.expect("a sheet as JSON"));
}
