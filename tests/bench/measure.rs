//! CPU time, memory and writes of processes, and order statistics.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::allocations::{self, Allocated};

/// Clock ticks of `/proc/PID/stat` in a second, which Linux fixes for what it shows to programs.
const TICKS: u64 = 100;

/// Returns user and system time of a process and its threads.
fn cpu_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    // The name may hold spaces; what follows its closing bracket does not.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS)
}

/// Returns user and system time of this process, to the nanosecond, and that of the NATS server
/// which it was told to count, to a clock tick.
pub(crate) fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    let nats = std::env::var("BENCH_NATS_PID").ok().and_then(|pid| pid.parse().ok());
    Duration::new(time.tv_sec.unsigned_abs(), nanos) + nats.map(cpu_of).unwrap_or_default()
}

/// What had been used up when something began.
pub(crate) struct Began {
    cpu: Duration,
    allocated: Option<Allocated>,
}

impl Began {
    pub(crate) fn now() -> Self {
        Self { allocated: allocations::now(), cpu: cpu() }
    }

    /// Returns what has been used since for each of so many.
    pub(crate) fn each(&self, count: f64) -> Value {
        let cpu = cpu().saturating_sub(self.cpu);
        let mut told = json!({"cpu_us": cpu.as_secs_f64() * 1e6 / count});
        if let Some((before, now)) = self.allocated.as_ref().zip(allocations::now()) {
            told["allocations"] = (float(now.count - before.count) / count).into();
            told["allocated_bytes"] = (float(now.bytes - before.bytes) / count).into();
        }
        told
    }
}

/// Returns a number that the kernel tells of this process, of a file of lines such as `NAME: 12`.
fn told(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).expect("Linux tells it");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Returns the resident memory of this process at its peak, in KiB.
pub(crate) fn peak_kib() -> u64 {
    told("status", "VmHWM")
}

/// Returns the resident memory of this process, in KiB.
pub(crate) fn resident_kib() -> u64 {
    told("status", "VmRSS")
}

/// Has the peak of resident memory begin anew.
pub(crate) fn forget_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux forgets a peak");
}

/// Returns the bytes that this process had the kernel write to disks: whole pages, and a page
/// again for each time that it is synced with something new in it.
pub(crate) fn written_bytes() -> u64 {
    told("io", "write_bytes")
}

/// Returns the bytes that a folder holds.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => folder_bytes(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Returns a count as a number to divide by.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Returns the value below which a share of them lies.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index into a short list"
    )]
    let at = ((values.len().saturating_sub(1)) as f64 * share).round() as usize;
    values.get(at).copied().unwrap_or(f64::NAN)
}
