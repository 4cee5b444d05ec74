//! Executes a target, and measures its time and its memory.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::mutate::Input;
use crate::rng::Rng;

/// Executions of one target in an ordinary run, so few that all targets together take seconds
/// without optimization; `CALLBOARD_FUZZ` sets another count.
const EXECUTIONS: u64 = 250;

/// Executions of one thread. The name of a thread is all that is told of a stack that ran over, so
/// it says at which seed the thread began, and this many have to be tried to find the input.
const BATCH: u64 = 1000;

/// The stack of such a thread: what an asynchronous runtime gives the threads that read replies.
const STACK_BYTES: usize = 2 << 20;

/// The longest execution. Whatever takes longer would hold up the other agents of a thread.
const EXECUTION_MAX: Duration = Duration::from_secs(1);

/// The time after which an execution counts as one that never ends.
const HANG: Duration = Duration::from_secs(30);

/// The most kilobytes by which the peak of resident memory grows over all executions of a target.
///
/// The longest input has 64 KiB, a value in it costs less than 100 bytes per byte of text, and a
/// handful of copies live at once; what is leaked per execution shows after a million.
const PEAK_GROWTH_KB_MAX: u64 = 64 << 10;

/// What is executed.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Makes an input; it depends on the generator alone.
    pub(crate) make: fn(&mut Rng) -> Input,
    /// Reads an input in every way, and panics if a rule is broken.
    pub(crate) read: fn(&Input),
}

/// Targets run one after the other, so that the memory is that of one.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn setting(name: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test sets how much of it")]
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "what is measured is the machine's own time")]
    Instant::now()
}

/// Returns the peak of resident memory in kilobytes, where the system tells it.
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn input(target: &Target, seed: u64) -> Input {
    (target.make)(&mut Rng::new(seed))
}

/// Reads an input and returns how long it took. One that is too slow is read once more, since the
/// machine may have stood still.
fn timed(target: &Target, input: &Input) -> Duration {
    let once = || {
        let start = now();
        (target.read)(input);
        start.elapsed()
    };
    let took = once();
    let took = if took > EXECUTION_MAX { took.min(once()) } else { took };
    assert!(took <= EXECUTION_MAX, "it took {took:?}, at most {EXECUTION_MAX:?}");
    took
}

/// Executes a batch on a thread of its own; returns the longest execution.
fn batch(target: &Target, from: u64, to: u64) -> Duration {
    let at = Arc::new(AtomicU64::new(from));
    let (done, ended) = mpsc::channel();
    let (progress, make, read, name) = (Arc::clone(&at), target.make, target.read, target.name);
    let work = move || {
        let target = Target { name, make, read };
        let mut longest = Duration::ZERO;
        for seed in from..to {
            progress.store(seed, Ordering::Relaxed);
            longest = longest.max(timed(&target, &input(&target, seed)));
        }
        // Nobody waits any more only where this is taken for a hang.
        done.send(()).ok();
        longest
    };
    let named = format!("{name} from seed {from}");
    let thread = thread::Builder::new().name(named).stack_size(STACK_BYTES).spawn(work).unwrap();
    let mut seen = from;
    while ended.recv_timeout(HANG) == Err(RecvTimeoutError::Timeout) {
        let reached = at.load(Ordering::Relaxed);
        assert!(reached != seen || from == to, "{}", tell(target, reached, "it does not end"));
        seen = reached;
    }
    match thread.join() {
        Ok(longest) => longest,
        Err(fault) => {
            // The fault itself was told when it came up.
            eprintln!("{}", tell(target, at.load(Ordering::Relaxed), "it broke a rule"));
            resume_unwind(fault)
        }
    }
}

/// Says which input failed and how it is read again.
fn tell(target: &Target, seed: u64, why: &str) -> String {
    let Target { name, .. } = target;
    format!(
        "{name}, seed {seed}: {why}\n{:#?}\nrun it again with CALLBOARD_FUZZ_SEED={seed} \
         CALLBOARD_FUZZ=1 cargo fuzz {name}",
        input(target, seed)
    )
}

/// Executes a target as often as is set, and prints one row of the table.
pub(crate) fn run(target: &Target) {
    let _alone = alone();
    let first = setting("CALLBOARD_FUZZ_SEED", 1);
    let last = first + setting("CALLBOARD_FUZZ", EXECUTIONS);
    // What is built once for all executions is no growth.
    (target.read)(&input(target, first));
    let before = peak_kb();
    let start = now();
    let mut longest = Duration::ZERO;
    let mut from = first;
    while from < last {
        let to = last.min(from + BATCH);
        longest = longest.max(batch(target, from, to));
        from = to;
    }
    let took = start.elapsed();
    let peak = peak_kb();
    println!(
        "{:<10} {:>9} executions {:>7.1} s, longest {:>6.1} ms, peak {} MiB",
        target.name,
        last - first,
        took.as_secs_f64(),
        longest.as_secs_f64() * 1000.0,
        peak.map_or_else(|| "?".to_owned(), |peak| (peak >> 10).to_string()),
    );
    if let (Some(before), Some(peak)) = (before, peak) {
        let grown = peak.saturating_sub(before);
        assert!(grown <= PEAK_GROWTH_KB_MAX, "{}: memory grew by {grown} KiB", target.name);
    }
}
