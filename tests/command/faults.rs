//! Programs that misbehave: each is over in time, leaves no process, and costs little memory.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wire::{CallOutcome, ErrorCode, ToolReply};

use tests::results::{self, Row};

use crate::house::{Call, House, folder};

/// How much later than the end of its call a program may be gone.
const LATE_MAX: Duration = Duration::from_millis(2_500);

/// What the process of the tests may grow by, whatever a program writes.
const GROWTH_MAX_KIB: u64 = 32 * 1024;

/// What is expected of a call.
enum Expect {
    /// It ends well, and the text of its result has these parts.
    Ok(&'static [&'static str]),
    /// It is an error whose text has these parts.
    Error(&'static [&'static str]),
    /// Nobody knows what came of it.
    Lost(ErrorCode, &'static [&'static str]),
    /// It was stopped, or failed by itself, as the machine's limits have it.
    Over,
}

struct Case {
    name: &'static str,
    script: &'static str,
    fields: &'static str,
    within_ms: u64,
    expect: Expect,
}

fn case(name: &'static str, script: &'static str, within_ms: u64, expect: Expect) -> Case {
    Case { name, script, fields: "", within_ms, expect }
}

fn text(reply: &ToolReply) -> String {
    match reply {
        ToolReply::Settled { outcome: CallOutcome::Ok { output }, .. } => {
            output.as_str().map_or_else(|| output.to_string(), str::to_owned)
        }
        ToolReply::Settled { outcome: CallOutcome::Error { error }, .. }
        | ToolReply::Lost { error, .. } => error.message.clone(),
        other @ (ToolReply::Settled { .. }
        | ToolReply::Asks { .. }
        | ToolReply::Suspended { .. }) => format!("{other:?}"),
    }
}

fn check(case: &Case, reply: &ToolReply) {
    let text = text(reply);
    let shown: String =
        text.chars().rev().take(600).collect::<Vec<_>>().into_iter().rev().collect();
    let name = case.name;
    let parts: &[&str] = match (&case.expect, reply) {
        (Expect::Ok(parts), ToolReply::Settled { outcome: CallOutcome::Ok { .. }, .. }) => parts,
        (
            Expect::Error(parts),
            ToolReply::Settled { outcome: CallOutcome::Error { error }, .. },
        ) => {
            assert_eq!(error.code, ErrorCode::ToolFailed, "{name}: {shown}");
            parts
        }
        (Expect::Lost(code, parts), ToolReply::Lost { error, .. }) => {
            assert_eq!(error.code, *code, "{name}: {shown}");
            parts
        }
        (Expect::Over, ToolReply::Settled { .. } | ToolReply::Lost { .. }) => &[],
        _ => panic!("{name}: {shown}"),
    };
    for part in parts {
        assert!(text.contains(part), "{name}: no {part:?} in {shown}");
    }
}

/// Reads a line of the status of this process, in KiB.
fn status_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Waits until no process of a call is left.
async fn gone(name: &str, call: &Call, until: Instant) {
    loop {
        let left = call.processes();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{name}: still there: {left:?}");
        tokio::task::yield_now().await;
    }
}

async fn run(folder: &Path, case: &Case, sandbox: &str) {
    let fields = format!(
        "argv = ['/bin/sh', '-c', '''{}''']\n{sandbox}\n{}\nresponse_bytes_max = 1000",
        case.script, case.fields
    );
    let house = House::new(folder, &fields, &folder.join("data")).await;
    let within = Duration::from_millis(case.within_ms);
    let call = Call::new(within);
    let began = Instant::now();
    let reply = house.call(&call, &json!({})).await;
    check(case, &reply);
    let until = began + within + LATE_MAX;
    assert!(Instant::now() < until, "{}: late by {:?}", case.name, began.elapsed());
    gone(case.name, &call, until).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_that_misbehave_are_over_in_time_and_leave_nothing() {
    let timeout = ErrorCode::ToolTimeout;
    let cases = [
        case(
            "1 GB of output",
            "head -c 1000000000 /dev/zero | tr '\\0' a",
            60_000,
            Expect::Ok(&["aaaa", "\n[cut after 1000 bytes]"]),
        ),
        case(
            "1 GB of errors",
            "head -c 1000000000 /dev/zero | tr '\\0' a >&2; echo last >&2; exit 3",
            60_000,
            Expect::Error(&["exit code 3", ".. aaa", "last"]),
        ),
        case("fork bomb", "b() { b | b & }; b; sleep 300", 1_000, Expect::Over),
        case(
            "ignores TERM",
            "trap '' TERM; echo deaf >&2; while :; do sleep 1; done",
            500,
            Expect::Lost(timeout, &["did not end within", "was stopped", "deaf"]),
        ),
        case(
            "obeys TERM",
            "trap 'echo bye >&2; exit 0' TERM; echo hello >&2; sleep 300 & wait",
            500,
            Expect::Lost(timeout, &["hello\nbye"]),
        ),
        case("double fork", "(setsid sleep 300 &) ; echo done", 20_000, Expect::Ok(&["done"])),
        case(
            "daemon that holds no pipe",
            "(setsid sleep 300 </dev/null >/dev/null 2>&1 &) ; echo done",
            20_000,
            Expect::Ok(&["done"]),
        ),
        case(
            "closes its output",
            "echo done; exec >&- 2>&-; sleep 300",
            500,
            Expect::Lost(timeout, &["was stopped", "done"]),
        ),
        case("hang", "sleep 300", 500, Expect::Lost(timeout, &["was stopped"])),
        case(
            "exit by signal",
            "echo no more >&2; kill -9 $$",
            20_000,
            Expect::Lost(ErrorCode::ToolFailed, &["signal 9", "no more"]),
        ),
        case(
            "a code like that of seccomp",
            "exit 159",
            20_000,
            Expect::Lost(ErrorCode::ToolFailed, &["signal 31"]),
        ),
        case("a code like that of a signal", "exit 129", 20_000, Expect::Error(&["exit code 129"])),
        // It is marked while it runs already.
        case(
            "first to end",
            "until grep -x 1000 /proc/self/oom_score_adj; do :; done",
            20_000,
            Expect::Ok(&["1000"]),
        ),
        case("exit code", "echo bad >&2; exit 7", 20_000, Expect::Error(&["exit code 7: bad"])),
        case("says why on its output", "echo bad; exit 7", 20_000, Expect::Error(&["wrote: bad"])),
        case(
            "10^5 files",
            "i=0; while [ $i -lt 100000 ]; do : >f$i; i=$((i+1)); done; ls | wc -l",
            60_000,
            Expect::Ok(&["100000"]),
        ),
        case(
            "a large file",
            "head -c 100000000 /dev/zero >f; ls -l f | cut -d' ' -f5",
            60_000,
            Expect::Ok(&["67108864"]),
        ),
        case(
            "many large files",
            "for i in 1 2 3; do head -c 40000000 /dev/zero >f$i; done",
            60_000,
            Expect::Error(&["No space left"]),
        ),
        Case {
            name: "memory",
            script: "exec python3 -c \"x = bytearray(300000000)\"",
            fields: "memory_bytes_max = 100000000",
            within_ms: 60_000,
            expect: Expect::Error(&["MemoryError"]),
        },
        Case {
            name: "open files",
            script: "exec python3 -c \"x = [open('/dev/null') for _ in range(100)]\"",
            fields: "open_files_max = 50",
            within_ms: 60_000,
            expect: Expect::Error(&["Too many open files"]),
        },
    ];
    let folder = folder();
    let before = status_kib("VmRSS:");
    for case in &cases {
        run(folder.path(), case, "").await;
    }
    let grown = status_kib("VmHWM:").saturating_sub(before);
    assert!(grown <= GROWTH_MAX_KIB, "grown by {grown} KiB");
    results::record(&Row {
        id: "T24",
        what: "programs that flood, fork, hang, ignore TERM or leave daemons behind",
        held: &format!(
            "{} programs: all over within 2.5 s of their time, 0 processes left, {} MiB more memory",
            cases.len(),
            grown.div_ceil(1024)
        ),
        passes: "over within 2.5 s, 0 processes left, 32 MiB",
        command: "cargo test -p tests --test command programs_that -- --nocapture",
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_sandbox_the_group_of_processes_ends() {
    let timeout = ErrorCode::ToolTimeout;
    let cases = [
        case("output", "head -c 5000 /dev/zero | tr '\\0' a", 20_000, Expect::Ok(&["[cut after"])),
        case(
            "ignores TERM",
            "trap '' TERM; while :; do sleep 1; done",
            500,
            Expect::Lost(timeout, &["was stopped"]),
        ),
        case("hang", "sleep 300 & sleep 300", 500, Expect::Lost(timeout, &["was stopped"])),
        case("goes on behind", "sleep 300 & echo done", 20_000, Expect::Ok(&["done"])),
        case("signal", "kill -9 $$", 20_000, Expect::Lost(ErrorCode::ToolFailed, &["signal 9"])),
        case(
            "folder of the call",
            ": >f; pwd; ls",
            20_000,
            Expect::Ok(&["callboard-call-", "\nf"]),
        ),
    ];
    let folder = folder();
    for case in &cases {
        run(folder.path(), case, "sandbox = 'none'").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_stopped_or_forgotten_ends_its_processes() {
    let folder = folder();
    for (name, stops, sandbox) in [
        ("stopped", true, ""),
        ("forgotten", false, ""),
        ("stopped bare", true, "sandbox = 'none'"),
        ("forgotten bare", false, "sandbox = 'none'"),
    ] {
        let fields = format!("argv = ['/bin/sh', '-c', 'sleep 300 & sleep 300']\n{sandbox}");
        let house = House::new(folder.path(), &fields, &folder.path().join("data")).await;
        let call = Call::new(Duration::from_secs(60));
        let none = Value::Null;
        {
            let mut calling = Box::pin(house.call(&call, &none));
            while call.processes().iter().filter(|command| command.starts_with("sleep")).count() < 2
            {
                let ended = tokio::time::timeout(Duration::from_millis(5), &mut calling).await;
                assert!(ended.is_err(), "{name}: ended by itself");
            }
            if stops {
                call.context.stop.cancel();
                calling.await;
            }
        }
        gone(name, &call, Instant::now() + LATE_MAX).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_input_and_output_do_not_wait_for_each_other() {
    let folder = folder();
    let fields = "argv = ['cat']\nresponse_bytes_max = 393216\nparameters = { x = 'string' }";
    let house = House::new(folder.path(), fields, &folder.path().join("data")).await;
    let arguments = json!({"x": "y".repeat(380_000)});
    let reply = house.call(&Call::new(Duration::from_secs(60)), &arguments).await;
    assert_eq!(reply, ToolReply::settled(CallOutcome::Ok { output: arguments }));

    let fields = "argv = ['true']\nparameters = { x = 'string' }";
    let house = House::new(folder.path(), fields, &folder.path().join("data")).await;
    let arguments = json!({"x": "y".repeat(380_000)});
    let reply = house.call(&Call::new(Duration::from_secs(60)), &arguments).await;
    assert!(text(&reply).contains("wrote nothing"), "{reply:?}");
}
