//! NATS goes away or stands still under load: nothing is lost, and the daemon serves again soon.

use std::time::Duration;

use bus::testing::NatsServer;
use tests::daemon::Daemon;
use tests::ledger::Ledger;
use tests::results::{self, Row};
use tests::trade;
use tokio::process::Command;
use tokio::time::sleep;

use crate::compare::compare;
use crate::load::Load;
use crate::setup::{connect, on_nats, setting};

/// Clients that ask at once.
const CLIENTS: u32 = 8;

/// Milliseconds of one model turn.
const TURN_MS: u64 = 10;

/// How long after the server is ready again nobody may be served.
const SERVING_AFTER_RESTART: Duration = Duration::from_secs(3);

/// How long after the server goes on nobody may be served.
const SERVING_AFTER_PAUSE: Duration = Duration::from_secs(5);

/// What the daemon may take for what waits while NATS stands still, in MiB.
const GROWTH_MIB_MAX: u64 = 64;

/// A daemon on NATS that is asked without a pause.
struct House {
    nats: NatsServer,
    ledger: Ledger,
    daemon: Daemon,
    load: Load,
    bus: bus::Bus,
    _dir: tempfile::TempDir,
}

impl House {
    async fn start() -> Self {
        let nats = NatsServer::start("").await.unwrap();
        let ledger = Ledger::start().await;
        let dir = tempfile::tempdir().unwrap();
        let team = trade::write(dir.path(), &ledger.url(""), TURN_MS);
        let daemon = Daemon::start(&on_nats(&team, &dir.path().join("data"), &nats)).await;
        let bus = connect(&nats).await;
        let load = Load::start(&bus, CLIENTS);
        load.serving().await;
        Self { nats, ledger, daemon, load, bus, _dir: dir }
    }

    /// Ends the load and compares; returns what was found, in words.
    async fn end(self) -> String {
        let Self { ledger, mut daemon, load, bus, .. } = self;
        let answered = load.stop().await;
        let found = compare(&answered, &ledger.seen());
        for run in &answered {
            assert_eq!(run.ask_again(&bus).await, run.reply, "run {} has two replies", run.run);
        }
        assert!(daemon.is_running(), "{}", daemon.log());
        format!(
            "{} runs: 0 lost, 0 keyed duplicates, {} repeats of `once`, {} unknown, {} ended with an \
             error that says so",
            answered.len(),
            found.repeated,
            found.unknown,
            found.failed
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_nats_under_load_loses_nothing() {
    let restarts = setting("CALLBOARD_RESTARTS", 5);
    let mut house = House::start().await;
    let mut served = Vec::new();
    for _ in 0..restarts {
        sleep(Duration::from_millis(700)).await;
        house.nats.restart().await.unwrap();
        served.push(house.load.serving().await);
    }
    let found = house.end().await;
    let slowest = served.iter().max().copied().unwrap_or_default();
    let held =
        format!("{restarts} restarts, {found}; serving again within {} ms", slowest.as_millis());
    println!("{held}, {served:?}");
    assert!(slowest <= SERVING_AFTER_RESTART, "{held}");
    results::record(&Row {
        id: "T8",
        what: "nats-server is killed and started again under load",
        held: &held,
        passes: "0 lost, 0 keyed duplicates, serving within 3 s",
        command: "CALLBOARD_RESTARTS=50 cargo e2e a_restart_of_nats -- --nocapture",
    });
}

async fn signal(nats: &NatsServer, signal: &str) {
    let pid = nats.pid().unwrap().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status().await.unwrap();
    assert!(sent.success());
}

/// Returns the memory of a process, in MiB.
fn memory_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_that_stands_still_acknowledges_nothing_and_is_taken_up_again() {
    let seconds = setting("CALLBOARD_PAUSE_S", 5);
    let house = House::start().await;
    sleep(Duration::from_secs(1)).await;
    let before = memory_mib(house.daemon.pid());
    signal(&house.nats, "-STOP").await;
    // What the server had sent on before may still arrive.
    sleep(Duration::from_millis(500)).await;
    let stopped = house.load.count();
    let mut most = before;
    for _ in 0..seconds * 10 {
        sleep(Duration::from_millis(100)).await;
        most = most.max(memory_mib(house.daemon.pid()));
    }
    assert_eq!(house.load.count(), stopped, "somebody was told something while nobody could be");
    signal(&house.nats, "-CONT").await;
    let served = house.load.serving().await;
    sleep(Duration::from_secs(1)).await;
    most = most.max(memory_mib(house.daemon.pid()));
    let found = house.end().await;
    let grown = most.saturating_sub(before);
    let held = format!(
        "{seconds} s, {found}; serving again within {} ms, {grown} MiB more memory",
        served.as_millis()
    );
    println!("{held}");
    assert!(served <= SERVING_AFTER_PAUSE, "{held}");
    assert!(grown <= GROWTH_MIB_MAX, "{held}");
    results::record(&Row {
        id: "T9",
        what: "nats-server stands still under load",
        held: &held,
        passes: "0 false acknowledgements, serving within 5 s, 64 MiB",
        command: "CALLBOARD_PAUSE_S=30 cargo e2e nats_that_stands -- --nocapture",
    });
}
