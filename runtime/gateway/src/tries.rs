//! Bounds how often a token is tried.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Wrong tokens that one address may give at once.
pub const TRIES_MAX: u32 = 10;

/// The time after which one more wrong token may be given: ten a minute find no token, and whoever
/// mistypes theirs is not kept waiting.
pub const TRY_REGAINED: Duration = Duration::from_secs(6);

/// Addresses that are remembered; for one more the longest quiet one is forgotten.
const ADDRESSES_MAX: usize = 1_024;

/// What wrong tokens each address has given of late.
#[derive(Debug, Default)]
pub(crate) struct Tries(Mutex<HashMap<IpAddr, Spent>>);

/// Tries that an address has spent, as of a time.
#[derive(Clone, Copy, Debug)]
struct Spent {
    tries: u32,
    at: Instant,
}

impl Spent {
    /// Returns what is still spent, tries regained since left out.
    fn by(self, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.at);
        let regained = u32::try_from(passed.as_millis() / TRY_REGAINED.as_millis());
        let regained = regained.unwrap_or(u32::MAX).min(self.tries);
        let tries = self.tries - regained;
        let at = if tries == 0 { now } else { self.at + TRY_REGAINED * regained };
        Self { tries, at }
    }
}

impl Tries {
    /// Returns how long an address has to wait before a token of its is looked at.
    pub(crate) fn wait(&self, address: IpAddr) -> Option<Duration> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let spent = known.get(&network(address))?.by(now);
        (spent.tries >= TRIES_MAX).then(|| (spent.at + TRY_REGAINED).saturating_duration_since(now))
    }

    /// Notes a wrong token.
    pub(crate) fn fail(&self, address: IpAddr) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (address, now) = (network(address), Instant::now());
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&address) {
            let quiet = known.iter().min_by_key(|(_, spent)| spent.at).map(|(address, _)| *address);
            quiet.map(|quiet| known.remove(&quiet));
        }
        let spent = known.entry(address).or_insert(Spent { tries: 0, at: now });
        *spent = spent.by(now);
        spent.tries = spent.tries.saturating_add(1);
    }
}

/// Returns what counts as one address: of IPv6 a whole network, since a machine has many in it.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tries_are_spent_and_regained_by_address() {
        let tries = Tries::default();
        let one: IpAddr = "2001:db8::1".parse().unwrap();
        let neighbour: IpAddr = "2001:db8::2".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        for _ in 0..TRIES_MAX {
            assert_eq!(tries.wait(one), None);
            tries.fail(one);
        }
        assert_eq!(tries.wait(one), Some(TRY_REGAINED));
        assert!(tries.wait(neighbour).is_some(), "the same network");
        assert_eq!(tries.wait(other), None);
        advance(TRY_REGAINED).await;
        assert_eq!(tries.wait(one), None);
        tries.fail(one);
        assert!(tries.wait(one).is_some(), "one was regained");
        advance(TRY_REGAINED * 100).await;
        for _ in 0..TRIES_MAX {
            assert_eq!(tries.wait(one), None, "no more than all are regained");
            tries.fail(one);
        }
        assert!(tries.wait(one).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn few_addresses_are_remembered() {
        let tries = Tries::default();
        for number in 0..u32::try_from(ADDRESSES_MAX + 50).unwrap() {
            tries.fail(IpAddr::V4(number.into()));
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(tries.0.lock().unwrap().len(), ADDRESSES_MAX);
    }
}
