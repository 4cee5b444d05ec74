//! `kill -9` of the daemon at random moments under load: nothing is lost and nothing done twice.

use std::time::Duration;

use bus::testing::NatsServer;
use tests::daemon::Daemon;
use tests::ledger::Ledger;
use tests::results::{self, Row};
use tests::trade;
use tokio::time::Instant;

use crate::compare::compare;
use crate::load::Load;
use crate::looked_up;
use crate::setup::{connect, on_nats, setting};

/// Kills in an ordinary test run; `CALLBOARD_KILLS` asks for more.
const KILLS_DEFAULT: u64 = 25;

/// Clients that ask at once: few in an ordinary run, whose other tests measure times beside it.
const CLIENTS_DEFAULT: u32 = 8;
const CLIENTS_LONG: u32 = 24;

/// Milliseconds of one model turn, so that a kill mostly hits some turns and some calls.
const TURN_MS: u64 = 10;

/// A small generator, so that a printed seed repeats the moments of the kills.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(50 + self.0 % 1950)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_accepted_run_is_lost_and_no_effect_is_repeated() {
    let kills = setting("CALLBOARD_KILLS", KILLS_DEFAULT);
    let seed = setting("CALLBOARD_SEED", 0x0ca1_1b0a);
    println!("{kills} kills, seed {seed}");
    let nats = NatsServer::start("").await.unwrap();
    let ledger = Ledger::start().await;
    let dir = tempfile::tempdir().unwrap();
    let team = trade::write(dir.path(), &ledger.url(""), TURN_MS);
    let args = on_nats(&team, &dir.path().join("data"), &nats);
    let mut daemon = Daemon::start(&args).await;

    let bus = connect(&nats).await;
    let clients = if kills > KILLS_DEFAULT { CLIENTS_LONG } else { CLIENTS_DEFAULT };
    let load = Load::start(&bus, clients);
    let mut moments = Moments(seed);
    let mut ready = Vec::new();
    for _ in 0..kills {
        tokio::time::sleep(moments.next()).await;
        daemon.kill().await;
        let began = Instant::now();
        daemon = Daemon::start(&args).await;
        ready.push(began.elapsed());
    }
    let answered = load.stop().await;
    let found = compare(&answered, &ledger.seen());
    assert_eq!(found.failed, 0, "{found:?}");
    for run in &answered {
        assert_eq!(run.ask_again(&bus).await, run.reply, "run {} has two replies", run.run);
    }
    looked_up::check(&daemon.http, &answered).await;
    ready.sort_unstable();
    let at = |share: usize| ready[(ready.len() * share / 100).min(ready.len() - 1)].as_millis();
    let held = format!(
        "{kills} kills, {} runs accepted: 0 lost, {} keys of which 0 belong to two calls, {} \
         repeats of `once`, {} unknown of which {} did not happen; ready after a kill p50 {} ms, \
         p99 {} ms",
        answered.len(),
        found.keys,
        found.repeated,
        found.unknown,
        found.missing,
        at(50),
        at(99),
    );
    println!("{held}");
    results::record(&Row {
        id: "T2",
        what: "`kill -9` at random moments under load",
        held: &held,
        passes: "0 lost, 0 keyed duplicates, 0 repeats; unknown only if in flight",
        command: "CALLBOARD_KILLS=500 cargo e2e kill -- --nocapture",
    });
    let in_flight_max = usize::try_from(kills).unwrap() * clients as usize;
    assert!(found.unknown <= in_flight_max, "{held}");
    assert!(answered.len() as u64 >= kills, "there was no load: {held}");
}
