//! Two daemons that serve one team on one NATS server, each with data of its own: one goes on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Bus, NatsOptions};
use tempfile::TempDir;
use tests::daemon::{Daemon, binary};
use tests::job;
use tests::results::{self, Row};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use wire::RunId;

use crate::setup::{ask_until_answered, connect, on_nats};

const SUBJECT: &str = "callboard.v1.job.agent.foreman.run";

/// How long a daemon may take until it is refused, on a busy machine.
const END_MAX: Duration = Duration::from_secs(60);

/// How often two daemons are started at the same moment.
const ROUNDS: usize = 4;

/// A server, and a team that anybody may serve on it.
struct House {
    nats: NatsServer,
    dir: TempDir,
    team: PathBuf,
}

impl House {
    async fn new() -> Self {
        let nats = NatsServer::start("").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let team = job::write(dir.path(), "http://127.0.0.1:9/charge", 0);
        Self { nats, dir, team }
    }

    /// Returns the arguments of a daemon with its data in a folder of its own.
    fn args(&self, data: &str) -> Vec<OsString> {
        on_nats(&self.team, &self.dir.path().join(data), &self.nats)
    }

    async fn start(&self, data: &str) -> Daemon {
        Daemon::start(&self.args(data)).await
    }

    /// Starts a daemon without waiting for it.
    fn spawn(&self, data: &str) -> Child {
        let mut command = Command::new(binary());
        command.arg("serve").args(self.args(data)).args(["--listen", "none"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.kill_on_drop(true).spawn().unwrap()
    }

    /// Starts a daemon that is refused, and returns what it says.
    async fn refused(&self, data: &str) -> String {
        told(self.spawn(data)).await
    }
}

/// Returns what a daemon says that ends since somebody else serves the team.
async fn told(daemon: Child) -> String {
    let output = timeout(END_MAX, daemon.wait_with_output()).await.unwrap().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("error[E5011]: team job is served by another daemon"), "{told}");
    told
}

async fn ask(bus: &Bus, run: &str) -> String {
    let run = RunId::new(run).unwrap();
    let reply = ask_until_answered(bus, SUBJECT, "hello", &run).await;
    String::from_utf8(reply.to_vec()).unwrap()
}

async fn signal(daemon: &Daemon, signal: &str) {
    let pid = daemon.pid().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
}

fn is_there(path: &Path) -> bool {
    path.try_exists().unwrap()
}

#[tokio::test]
async fn a_second_daemon_of_a_team_is_refused_and_a_successor_is_not() {
    let house = House::new().await;
    let mut first = house.start("one").await;
    let bus = connect(&house.nats).await;
    let before = ask(&bus, "r-1").await;
    assert!(before.contains("completed"), "{before}");
    for _ in 0..2 {
        let why = house.refused("two").await;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let data = house.dir.path().join("one/job");
        let by = format!("process {} on {} since 20", first.pid(), host.trim());
        assert!(why.contains(&by) && why.contains(data.to_str().unwrap()), "{by}: {why}");
        assert!(!is_there(&house.dir.path().join("two")), "it has left something behind");
    }
    assert_eq!(ask(&bus, "r-1").await, before, "the same run has the same reply");
    assert!(first.is_running(), "{}", first.log());

    // Other subjects on the same server are another installation.
    let mut args = house.args("apart");
    args.extend(["--subject-prefix".into(), "apart.v1".into()]);
    let mut apart = Daemon::start(&args).await;
    assert_eq!(apart.terminate().await, Some(0));

    first.kill().await;
    assert!(first.log().contains("and is refused"), "{}", first.log());
    let mut second = house.start("two").await;
    second.kill().await;
    let mut first = house.start("one").await;
    assert_eq!(ask(&bus, "r-1").await, before);
    assert_eq!(first.terminate().await, Some(0));
    let mut second = house.start("two").await;
    assert_eq!(second.terminate().await, Some(0));
}

#[tokio::test]
async fn of_two_daemons_that_start_at_once_one_goes_on() {
    let house = House::new().await;
    let bus = connect(&house.nats).await;
    for round in 0..ROUNDS {
        let (mut one, mut two) = (house.spawn("one"), house.spawn("two"));
        let (ended, mut rest) = tokio::select! {
            _ = one.wait() => (one, two),
            _ = two.wait() => (two, one),
            () = sleep(END_MAX) => panic!("both go on"),
        };
        told(ended).await;
        let reply = ask(&bus, &format!("r-{round}")).await;
        assert!(reply.contains("completed"), "{reply}");
        assert!(rest.try_wait().unwrap().is_none(), "nobody is left");
        rest.kill().await.unwrap();
    }
}

#[tokio::test]
async fn a_daemon_that_hung_goes_on_and_the_one_in_its_place_ends() {
    let house = House::new().await;
    let mut first = house.start("one").await;
    let bus = connect(&house.nats).await;
    let before = ask(&bus, "r-1").await;

    signal(&first, "-STOP").await;
    let mut second = house.start("two").await;
    signal(&first, "-CONT").await;
    assert_eq!(second.ended().await, Some(3), "{}", second.log());
    assert!(second.log().contains("error[E5011]"), "{}", second.log());
    assert_eq!(ask(&bus, "r-1").await, before);
    assert_eq!(first.terminate().await, Some(0));
    assert!(first.log().contains("another node serves the team as well"), "{}", first.log());
}

#[tokio::test]
async fn daemons_that_were_apart_meet_when_the_server_is_back() {
    let mut house = House::new().await;
    let mut first = house.start("one").await;
    let before = ask(&connect(&house.nats).await, "r-1").await;

    // The first one is not on the server when the second one asks.
    signal(&first, "-STOP").await;
    house.nats.restart().await.unwrap();
    let mut second = house.start("two").await;
    signal(&first, "-CONT").await;
    assert_eq!(second.ended().await, Some(3), "{}", second.log());
    assert!(second.log().contains("error[E5011]"), "{}", second.log());
    let bus = Bus::connect(NatsOptions::new([house.nats.url()])).await.unwrap();
    assert_eq!(ask(&bus, "r-1").await, before);
    assert_eq!(first.terminate().await, Some(0));
    assert!(first.log().contains("another node serves the team as well"), "{}", first.log());
    results::record(&Row {
        id: "T13, one NATS",
        what: "two daemons with data of their own for one team on one nats-server, one after the \
               other, at once, after one hung, and after the server was away",
        held: "the later one ends with code 3 and names the other; the first goes on, and whoever \
               follows it after `kill -9` starts",
        passes: "one goes on, unharmed",
        command: "cargo e2e rivals -- --nocapture",
    });
}
