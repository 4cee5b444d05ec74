//! The machine under thousands of seeded faults.
//!
//! Each schedule is a small world: a node with its sessions and its journal, a network that loses,
//! repeats, reorders and delays, models that answer anything, tools that keep a ledger, and a
//! process that ends at any write of the journal. When the faults are over and everything has come
//! to rest, the rules are checked. A failure names its seed; the same seed gives the same world.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that is not as it was written to be has failed"
)]

mod check;
mod corner;
mod ending;
mod ledger;
mod message;
mod model;
mod node;
mod person;
mod process;
mod rng;
mod team;
mod world;

use tests::results::{self, Row};

use check::check;
use team::Team;
use world::{Crashes, Flaw, Position, World};

/// Schedules of one test run; `CALLBOARD_SIM_SCHEDULES` sets another count.
const SCHEDULES: u64 = 20_000;

/// Threads that share them: one per core of the smallest machine that runs the tests.
const THREADS: u64 = 2;

/// Crashes of one schedule. More than `resumes_max`, so that runs are given up too.
const CRASHES: u32 = 5;

/// Lines of a failed schedule that are shown.
const LINES_SHOWN: usize = 60;

fn setting(name: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test sets how much of it")]
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

fn schedule(team: &Team, seed: u64, crashes: Crashes, flaw: Option<Flaw>) -> World {
    let mut world = World::new(team.clone(), seed, crashes, flaw);
    world.run();
    world
}

/// Runs a schedule once more to tell how it failed.
fn tell(team: &Team, seed: u64, crashes: Crashes, broken: &str) -> String {
    let mut world = World::new(team.clone(), seed, crashes, None);
    world.log = Some(Vec::new());
    world.run();
    let log = world.log.unwrap_or_default();
    let shown = log.get(log.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default().join("\n");
    format!(
        "{shown}\nseed {seed}, {crashes:?}: {broken}\n\
         run it again with CALLBOARD_SIM_SEED={seed} CALLBOARD_SIM_SCHEDULES=1"
    )
}

#[test]
fn no_schedule_breaks_a_rule() {
    let first = setting("CALLBOARD_SIM_SEED", 1);
    let count = setting("CALLBOARD_SIM_SCHEDULES", SCHEDULES);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let team = Team::new();
                    let mine = (first..first.saturating_add(count))
                        .filter(|seed| seed % THREADS == thread);
                    for seed in mine {
                        let crashes = Crashes::Random(CRASHES);
                        let world = schedule(&team, seed, crashes, None);
                        if let Err(broken) = check(&world) {
                            panic!("{}", tell(&team, seed, crashes, &broken));
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    results::record(&Row {
        id: "T3",
        what: "the machine under seeded schedules of crashes, losses, repetitions and delays",
        held: &format!("{count} schedules from seed {first}: 0 violations"),
        passes: "20,000 schedules, 0 violations",
        command: "cargo sim -- --nocapture",
    });
}

#[test]
fn a_crash_at_any_write_breaks_no_rule() {
    let team = Team::new();
    for seed in 1..=8 {
        let writes = schedule(&team, seed, Crashes::Random(0), None).writes;
        for write in 0..writes {
            for position in [
                Position::Before,
                Position::Unknown,
                Position::Durable,
                Position::Part(1),
                Position::Part(2),
            ] {
                let crashes = Crashes::At(write, position);
                let world = schedule(&team, seed, crashes, None);
                if let Err(broken) = check(&world) {
                    panic!("{}", tell(&team, seed, crashes, &broken));
                }
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let team = Team::new();
    let log = |seed| {
        let mut world = World::new(team.clone(), seed, Crashes::Random(CRASHES), None);
        world.log = Some(Vec::new());
        world.run();
        world.log.unwrap_or_default()
    };
    for seed in 1..50 {
        assert_eq!(log(seed), log(seed), "seed {seed}");
        assert_ne!(log(seed), log(seed + 1), "seed {seed}");
    }
}

#[test]
fn every_flaw_of_a_shell_is_found() {
    let team = Team::new();
    for (flaw, seeds) in [
        (Flaw::EffectsFirst, 500),
        (Flaw::RepeatsOnce, 500),
        (Flaw::SkipsResumed, 500),
        // Few schedules crash between the end of a caller and that of whom it had called.
        (Flaw::SkipsParted, 1000),
        (Flaw::NoTimers, 500),
        (Flaw::AcceptsTwice, 500),
        (Flaw::SkipsLeave, 500),
        (Flaw::TellsOnce, 500),
        (Flaw::TellsNobody, 500),
    ] {
        let found = (1..=seeds).find_map(|seed| {
            check(&schedule(&team, seed, Crashes::Random(CRASHES), Some(flaw))).err()
        });
        assert!(found.is_some(), "{flaw:?} went unseen");
    }
}

#[test]
fn schedules_reach_every_corner() {
    let team = Team::new();
    let mut missing = corner::all();
    for seed in 1..=400 {
        for corner in corner::of(&schedule(&team, seed, Crashes::Random(CRASHES), None)) {
            missing.remove(corner.as_str());
        }
    }
    assert!(missing.is_empty(), "no schedule comes to {missing:?}");
}
