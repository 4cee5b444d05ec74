//! What ten thousand sessions take of the memory that nobody talks to.

use std::thread;
use std::time::Duration;

use bus::Bus;
use node::Node;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::servers::{Stub, figures, role};
use crate::sheet::Sheet;
use crate::work::{self, Work};
use crate::{allocations, measure, profile, team};

/// The ids of the rows, and the party that is measured. In the second what is freed is given back at
/// once: what the allocator keeps otherwise differs from run to run by more than what is held.
pub(crate) const IDLE: &str = "idle";
pub(crate) const HELD: &str = "idle-held";
pub(crate) const NODE: &str = "embedded";

/// Sessions, each with one run of one answer.
pub(crate) const SESSIONS: usize = 10_000;

/// Those that are measured while all of them are in memory: no more than stay there.
pub(crate) const LIVE: usize = 3200;

/// Sessions that have come and gone before anything is measured, and runs of each. After them the
/// process has most of what sessions share; what the store still takes counts as theirs.
const WARM: usize = 2000;
const WARM_RUNS: usize = 10;

/// Runs at once, and the few sessions that do as many runs as [`LIVE`] before these come: what so
/// many runs leave with the allocator for a while is no session's.
const AT_ONCE: usize = 64;

/// After so long a session without work has no actor any more, and what was freed is given back:
/// mimalloc does that when a thread ends, as those do that blocked for something ten seconds ago.
/// Sooner it is chance whether what the work before took for a while is counted.
const RESTS: Duration = Duration::from_secs(15);

/// The longest wait for the last session to leave memory: idle ones stay a minute.
const LEAVE_MAX: Duration = Duration::from_secs(180);

/// How mimalloc is told to give back at once what is freed.
const GIVE_BACK: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "0");

/// Measures rows once, all of them at the same time: most of it is waiting, and what one process
/// takes of the memory does not depend on another.
pub(crate) fn measure(rows: &[&str], stub: &Stub, sheet: &mut Sheet) {
    let one = |row: &str| {
        let mut command = role(IDLE, [stub.url.as_str()]);
        if row == HELD {
            command.env(GIVE_BACK.0, GIVE_BACK.1);
        }
        figures(profile::recorded(row, NODE, command))
    };
    let told = thread::scope(|scope| {
        let running: Vec<_> = rows.iter().map(|row| scope.spawn(|| one(row))).collect();
        running.into_iter().map(|told| told.join().expect("figures")).collect::<Vec<_>>()
    });
    for (row, told) in rows.iter().zip(told) {
        sheet.add(row, NODE, &told);
    }
}

/// Does it in a process of its own and prints its figures.
pub(crate) fn idle(url: &str) {
    let runtime = node::executor(None).expect("a runtime");
    let told = runtime.block_on(async {
        let work = Work { url: url.to_owned(), ..work::chain() };
        let home = tempfile::tempdir().expect("a temporary folder");
        let file = team::write(&work, home.path());
        let node = team::start(&file, &home.path().join("data"), team::bus(&work).await).await;
        fill(node.bus(), "warm", WARM, WARM_RUNS).await;
        left(&node).await;
        fill(node.bus(), "few", AT_ONCE, LIVE.div_ceil(AT_ONCE)).await;
        let before = memory(&node).await;
        fill(node.bus(), "live", LIVE, 1).await;
        let live = memory(&node).await;
        let in_memory = team::of(&node).sessions_in_memory().await;
        assert_eq!(in_memory, AT_ONCE + LIVE, "sessions left before they were measured");
        fill(node.bus(), "idle", SESSIONS - LIVE, 1).await;
        let full = memory(&node).await;
        left(&node).await;
        let after = memory(&node).await;
        node.drain(Duration::ZERO).await;
        json!({
            "before_kib": before.resident_kib, "live_kib": live.resident_kib,
            "full_kib": full.resident_kib, "left_kib": after.resident_kib,
            "before_heap": before.heap, "live_heap": live.heap,
            "full_heap": full.heap, "left_heap": after.heap,
        })
    });
    // Heaps are known where allocations are counted.
    let told: serde_json::Map<String, Value> = match told {
        Value::Object(told) => told.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => panic!("an object"),
    };
    println!("{}", Value::from(told));
}

struct Memory {
    resident_kib: u64,
    /// Bytes that are allocated.
    heap: Option<u64>,
}

async fn memory(node: &Node) -> Memory {
    sleep(RESTS).await;
    team::of(node).settle().await;
    Memory {
        resident_kib: measure::resident_kib(),
        heap: allocations::now().map(|allocated| allocated.live),
    }
}

/// Waits until no session is in memory.
async fn left(node: &Node) {
    let began = Instant::now();
    while team::of(node).sessions_in_memory().await > 0 {
        assert!(began.elapsed() < LEAVE_MAX, "sessions without work stay in memory");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Has so many sessions do so many runs of one answer each.
pub(crate) async fn fill(bus: &Bus, name: &str, sessions: usize, runs: usize) {
    let one = Work { calls: 0, ..work::chain() };
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..AT_ONCE {
        let (bus, one, name) = (bus.clone(), one.clone(), name.to_owned());
        tasks.spawn(async move {
            for session in (at..sessions).step_by(AT_ONCE) {
                let session = format!("{name}{session}");
                for run in 0..runs {
                    let input = one.request(&format!("{session}-{run}"));
                    team::ask_in(Some(&session), &bus, "lead", &input).await;
                }
            }
        });
    }
    tasks.join_all().await;
}
