//! Reads stores and journals for those who look things up, a few at once.

use std::sync::Arc;
use std::time::Duration;

use node::TeamHandle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use wire::ErrorCode;

use crate::refusal::Refusal;

/// The longest time for a look-up in the store.
pub const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// Look-ups that are made at once; further ones wait. Each takes memory for what it reads, and one of
/// the threads on which runs wait for the disk as well, also when nobody waits for it any longer.
pub const LOOKS_MAX: usize = 16;

/// The places of look-ups.
#[derive(Clone, Debug)]
pub(crate) struct Looks(Arc<Semaphore>);

impl Default for Looks {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKS_MAX)))
    }
}

impl Looks {
    /// Reads what a thread may be kept by, once there is a place, which is taken until it is read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let given_up = || Refusal::new(ErrorCode::Unavailable, "the look-up was given up");
        let place = self.0.clone().acquire_owned().await.map_err(|_| given_up())?;
        let reading = spawn_blocking(move || {
            let found = read();
            drop(place);
            found
        });
        reading.await.map_err(|_| given_up())
    }

    /// Reads the store of a team, which then shows everything that was committed before, and its
    /// journal.
    pub(crate) async fn look_at<T: Send + 'static>(
        &self,
        team: &TeamHandle,
        read: impl FnOnce(&TeamHandle) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        in_time(async {
            team.settle().await;
            let team = team.clone();
            self.read(move || read(&team)).await?
        })
        .await
    }
}

/// Waits for a look-up for as long as one may take.
pub(crate) async fn in_time<T>(
    reading: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    timeout(LOOKUP_TIMEOUT, reading).await.unwrap_or_else(|_| {
        let text = format!("the look-up took more than {} s", LOOKUP_TIMEOUT.as_secs());
        Err(Refusal::new(ErrorCode::DeadlineExceeded, text))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[tokio::test]
    async fn a_place_is_taken_until_the_work_is_done_though_nobody_waits_for_it() {
        let looks = Looks::default();
        let (begun, mut begins) = unbounded_channel();
        let look = || {
            let (gate, closed) = channel::<()>();
            let (looks, begun) = (looks.clone(), begun.clone());
            let waiting = tokio::spawn(async move {
                let read = move || {
                    begun.send(()).unwrap();
                    // Until the gate is dropped.
                    closed.recv().unwrap_err();
                };
                looks.read(read).await.unwrap();
            });
            (gate, waiting)
        };
        let mut gates = Vec::new();
        for _ in 0..LOOKS_MAX {
            let (gate, waiting) = look();
            begins.recv().await.unwrap();
            waiting.abort();
            assert!(waiting.await.unwrap_err().is_cancelled());
            gates.push(gate);
        }
        assert_eq!(looks.0.available_permits(), 0, "all are at work");
        let (gate, waiting) = look();
        drop(gate);
        tokio::task::yield_now().await;
        assert!(begins.try_recv().is_err(), "it waits for a place");
        gates.pop();
        waiting.await.unwrap();
    }
}
