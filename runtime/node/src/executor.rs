//! The threads that everything asynchronous shares.

use std::io;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Runtime};

/// The most threads that can be asked for: more than the cores of any machine that this runs on.
pub const THREADS_MAX: u16 = 1024;

/// After how many turns a thread with work of its own looks for more: what other threads woke, such
/// as the journal's, which connections have something to read, and which timers are due. It then has
/// done its own round first, and finds many of them together; at some ten microseconds a turn none
/// waits for longer than a few milliseconds. A thread whose round is over before that looks at once.
const TURNS_BEFORE_MORE: u32 = 500;

/// Starts the threads on which a node and all its actors live.
///
/// Whatever becomes ready runs in the order in which it did, and not at once on the thread that
/// woke it. So those that do the same follow one another: a busy node reads all the replies of
/// models that are there, then decides on all of them, then makes all of that durable together, and
/// the code of each stage stays in the caches of the core meanwhile. It takes a good third less of
/// the processor than tokio's own order does. That order can only be changed where tokio is built
/// with `--cfg tokio_unstable`, as `.cargo/config.toml` says; without it all is as right, and slower.
///
/// # Errors
///
/// The system's, when it gives no threads.
pub fn executor(threads: Option<u16>) -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = threads.map_or_else(
        || default_threads(cores),
        |threads| usize::from(threads.clamp(1, THREADS_MAX)),
    );
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(threads);
    builder.global_queue_interval(TURNS_BEFORE_MORE).event_interval(TURNS_BEFORE_MORE);
    #[cfg(tokio_unstable)]
    builder.disable_lifo_slot();
    builder.enable_all().build()
}

/// Returns how many threads are started unless somebody asks for another number: half as many as
/// there are cores. A thread too many finds little to do and is woken for it all the same; the
/// other cores have the journal, the store, what a tool computes and programs beside the node.
fn default_threads(cores: usize) -> usize {
    (cores / 2).max(1)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn there_is_a_thread_for_every_two_cores() {
        for (cores, threads) in [(1, 1), (2, 1), (3, 1), (4, 2), (64, 32)] {
            assert_eq!(default_threads(cores), threads, "{cores} cores");
        }
    }

    #[test]
    fn as_many_threads_start_as_asked_for() {
        for (asked, threads) in [(0, 1), (1, 1), (3, 3)] {
            let runtime = executor(Some(asked)).unwrap();
            assert_eq!(runtime.metrics().num_workers(), threads, "{asked} asked for");
        }
    }

    #[cfg(tokio_unstable)]
    #[test]
    fn what_becomes_ready_runs_in_its_turn() {
        let runtime = executor(Some(1)).unwrap();
        let (ran, order) = mpsc::channel();
        let ready = runtime.spawn(async move {
            for turn in 0..4 {
                let ran = ran.clone();
                tokio::spawn(async move { ran.send(turn) });
            }
        });
        runtime.block_on(ready).unwrap();
        assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
