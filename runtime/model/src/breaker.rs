//! Whether a server is asked at present.
//!
//! Pure: time is an argument, since the same beginning for all calls, and so is chance.

use std::collections::VecDeque;
use std::time::Duration;

/// The attempts by which a server is judged.
const LAST_MAX: usize = 20;

/// The attempts without which it is not: fewer say little, and one run alone makes as many only
/// when its retries fail twice.
const LAST_MIN: usize = 10;

/// How long a server that fails is left alone.
pub(crate) const OPEN: Duration = Duration::from_secs(5);

/// The first pause for a server that asks for less and does not say how long; it doubles with each.
const PAUSE_MS_MIN: u64 = 500;

/// The longest of these pauses, so that a server that is well again is asked within ten seconds.
const PAUSE_MS_MAX: u64 = 8_000;

/// When to come again while the one request that goes ahead has no answer yet.
const PROBE_WAIT: Duration = Duration::from_secs(1);

/// What the end of an attempt tells of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It works, whether or not it liked the request.
    Up,
    /// It works and wants to be asked less.
    Throttled,
    /// It failed.
    Down,
    /// It said nothing for long, and its answer is awaited no more: it failed, unless it answered
    /// others in that time.
    Silent,
}

/// Why a server is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It fails too often.
    Failing,
    /// It asked to be left alone.
    Throttling,
}

/// A server is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Why.
    pub(crate) cause: Cause,
    /// When to come again.
    pub(crate) after: Duration,
}

/// One attempt, by which its end is told from those of other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    round: u64,
    began: Duration,
}

impl Ticket {
    /// Returns how long the attempt has been under way.
    pub(crate) const fn waited(self, now: Duration) -> Duration {
        now.saturating_sub(self.began)
    }
}

/// What is known of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker {
    phase: Phase,
    /// How the last attempts ended; `true` for a failure.
    last: VecDeque<bool>,
    /// Counts the changes of the phase: who began in an earlier one says nothing about this one.
    round: u64,
    /// Pauses in a row that the server gave no length for.
    pauses: u32,
    /// When an answer of the server was last heard.
    heard: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// It is asked.
    #[default]
    Closed,
    /// It is left alone, and then asked once.
    Resting { cause: Cause, until: Duration },
    /// One request is under way, and all others wait for its end.
    Probing { cause: Cause },
}

impl Breaker {
    /// Tells why an attempt would not be let through, if so.
    pub(crate) fn rest(&self, now: Duration) -> Option<Rest> {
        match self.phase {
            Phase::Resting { cause, until } if now < until => {
                Some(Rest { cause, after: until.saturating_sub(now) })
            }
            Phase::Closed | Phase::Resting { .. } => None,
            Phase::Probing { cause } => Some(Rest { cause, after: PROBE_WAIT }),
        }
    }

    /// Lets an attempt through, or says why not.
    pub(crate) fn begin(&mut self, now: Duration) -> Result<Ticket, Rest> {
        if let Some(rest) = self.rest(now) {
            return Err(rest);
        }
        if let Phase::Resting { cause, .. } = self.phase {
            self.enter(Phase::Probing { cause });
        }
        Ok(Ticket { round: self.round, began: now })
    }

    /// Takes in that something was heard of an answer.
    pub(crate) const fn hear(&mut self, now: Duration) {
        self.heard = Some(now);
    }

    /// Takes in that an attempt is being answered. A server that wanted to be left alone is then
    /// asked by all again, since a reply may take long to its end.
    pub(crate) fn answered(&mut self, ticket: Ticket) -> Ticket {
        let ahead = Phase::Probing { cause: Cause::Throttling };
        if ticket.round != self.round || self.phase != ahead {
            return ticket;
        }
        self.pauses = 0;
        self.last.clear();
        self.enter(Phase::Closed);
        Ticket { round: self.round, ..ticket }
    }

    /// Takes in the end of an attempt: nothing if it was given up, and when to come again if the
    /// server said so.
    pub(crate) fn end(
        &mut self,
        now: Duration,
        ticket: Ticket,
        sign: Option<Sign>,
        advice: Option<Duration>,
        random: u64,
    ) {
        let sign = sign.filter(|sign| *sign != Sign::Silent || self.heard <= Some(ticket.began));
        if matches!(sign, Some(Sign::Up | Sign::Throttled)) {
            self.hear(now);
        }
        if ticket.round == self.round {
            match (self.phase, sign) {
                (Phase::Probing { cause }, None) => {
                    self.enter(Phase::Resting { cause, until: now });
                }
                (Phase::Closed | Phase::Resting { .. }, None) => {}
                (_, Some(sign)) => self.on_sign(now, sign, advice, random),
            }
        } else if let Some(wait) = advice.filter(|_| sign.is_some_and(|sign| sign != Sign::Up)) {
            self.extend(now + wait);
        }
    }

    fn on_sign(&mut self, now: Duration, sign: Sign, advice: Option<Duration>, random: u64) {
        let probed = match self.phase {
            Phase::Probing { cause } => Some(cause),
            Phase::Closed | Phase::Resting { .. } => None,
        };
        match sign {
            Sign::Up => {
                self.pauses = 0;
                if probed.is_some() {
                    self.last.clear();
                    self.enter(Phase::Closed);
                } else {
                    self.note(false);
                }
            }
            Sign::Throttled => {
                let wait = self.pause(advice, random);
                self.enter(Phase::Resting { cause: Cause::Throttling, until: now + wait });
            }
            Sign::Down | Sign::Silent => {
                self.note(true);
                let failed = self.last.iter().filter(|failed| **failed).count();
                let failing = self.last.len() >= LAST_MIN && failed * 2 >= self.last.len();
                if failing || probed == Some(Cause::Failing) {
                    let until = now + advice.unwrap_or_default().max(OPEN);
                    self.enter(Phase::Resting { cause: Cause::Failing, until });
                } else if advice.is_some() || probed.is_some() {
                    let wait = self.pause(advice, random);
                    self.enter(Phase::Resting { cause: Cause::Throttling, until: now + wait });
                }
            }
        }
    }

    fn note(&mut self, failed: bool) {
        self.last.push_back(failed);
        if self.last.len() > LAST_MAX {
            self.last.pop_front();
        }
    }

    /// Returns how long to leave the server alone: as long as it says, or else the upper half of a
    /// bound that doubles, spread so that not all nodes come at once.
    fn pause(&mut self, advice: Option<Duration>, random: u64) -> Duration {
        if let Some(wait) = advice {
            return wait;
        }
        let doubled = 1_u64.checked_shl(self.pauses).unwrap_or(u64::MAX);
        self.pauses = self.pauses.saturating_add(1);
        let half = PAUSE_MS_MIN.saturating_mul(doubled).min(PAUSE_MS_MAX) / 2;
        Duration::from_millis(half + random % (half + 1))
    }

    /// Obeys an attempt that was under way when the rest began, and was told a later time.
    fn extend(&mut self, until: Duration) {
        if let Phase::Resting { until: old, .. } = &mut self.phase {
            *old = until.max(*old);
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.round = self.round.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use Cause::{Failing, Throttling};
    use Sign::{Down, Silent, Throttled, Up};

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Makes attempts one after the other and tells how many were let through.
    fn attempts(breaker: &mut Breaker, now: Duration, signs: &[Sign]) -> usize {
        let passed = |sign: &&Sign| match breaker.begin(now) {
            Ok(ticket) => {
                breaker.end(now, ticket, Some(**sign), None, 0);
                true
            }
            Err(_) => false,
        };
        signs.iter().filter(passed).count()
    }

    #[test]
    fn half_of_the_last_twenty_opens_it() {
        let cases: [(&[Sign], usize, bool); 8] = [
            (&[Down; 9], 9, false),
            (&[Down; 12], 10, true),
            (&[Up; 50], 50, false),
            (&[Up, Down, Up, Down, Up, Down, Up, Down, Up, Down], 10, true),
            (&[Down, Up, Down, Up, Down, Up, Down, Up, Up, Up, Up], 11, false),
            // Attempts before the last twenty say nothing.
            (&[[Up; 30].as_slice(), &[Down; 9]].concat(), 39, false),
            (&[[Up; 30].as_slice(), &[Down; 12]].concat(), 40, true),
            (&[[Down; 9].as_slice(), &[Up; 20], &[Down; 9]].concat(), 38, false),
        ];
        for (signs, passed, open) in cases {
            let mut breaker = Breaker::default();
            assert_eq!(attempts(&mut breaker, ms(0), signs), passed, "{signs:?}");
            let rest = open.then_some(Rest { cause: Failing, after: OPEN });
            assert_eq!(breaker.rest(ms(0)), rest, "{signs:?}");
        }
    }

    #[test]
    fn one_goes_ahead_and_decides() {
        for (sign, after) in [
            (Some(Up), None),
            (Some(Down), Some(Rest { cause: Failing, after: OPEN })),
            (Some(Throttled), Some(Rest { cause: Throttling, after: ms(250) })),
            (Some(Silent), Some(Rest { cause: Failing, after: OPEN })),
            // Who gives up leaves the place to the next.
            (None, None),
        ] {
            let mut breaker = Breaker::default();
            attempts(&mut breaker, ms(0), &[Down; 10]);
            let early = breaker.begin(ms(4_999)).unwrap_err();
            assert_eq!(early, Rest { cause: Failing, after: ms(1) });
            let ahead = breaker.begin(ms(5_000)).unwrap();
            let second = breaker.begin(ms(5_000)).unwrap_err();
            assert_eq!(second, Rest { cause: Failing, after: PROBE_WAIT });
            breaker.end(ms(6_000), ahead, sign, None, 0);
            assert_eq!(breaker.rest(ms(6_000)), after, "{sign:?}");
            let open = breaker.begin(ms(6_000)).is_ok() && breaker.begin(ms(6_000)).is_ok();
            assert_eq!(open, sign == Some(Up), "{sign:?}");
        }
    }

    #[test]
    fn silence_is_a_failure_unless_others_were_answered_meanwhile() {
        /// How another attempt ended, or that its answer began, and when.
        type Other = (Option<Sign>, u64);
        // What is heard of another one; each attempt begins at 1 s and is given up at 31 s.
        let cases: [(Option<Other>, bool); 7] = [
            (None, true),
            (Some((None, 1_000)), true),
            (Some((None, 1_001)), false),
            (Some((None, 500)), true),
            (Some((Some(Up), 20_000)), false),
            (Some((Some(Throttled), 20_000)), false),
            (Some((Some(Down), 20_000)), true),
        ];
        for (heard, is_failure) in cases {
            let mut breaker = Breaker::default();
            let other = breaker.begin(ms(0)).unwrap();
            let mut tickets = Vec::new();
            for _ in 0..LAST_MIN {
                tickets.push(breaker.begin(ms(1_000)).unwrap());
            }
            match heard {
                Some((Some(sign), at)) => breaker.end(ms(at), other, Some(sign), None, 0),
                Some((None, at)) => breaker.hear(ms(at)),
                None => {}
            }
            // Whether they are of an earlier round is no matter here.
            breaker.round = 0;
            breaker.phase = Phase::Closed;
            for ticket in tickets {
                assert_eq!(ticket.waited(ms(31_000)), ms(30_000));
                breaker.end(ms(31_000), ticket, Some(Silent), None, 0);
            }
            let rest = is_failure.then_some(Rest { cause: Failing, after: OPEN });
            assert_eq!(breaker.rest(ms(31_000)), rest, "{heard:?}");
        }
    }

    #[test]
    fn after_a_rest_the_past_is_forgotten() {
        let mut breaker = Breaker::default();
        attempts(&mut breaker, ms(0), &[Down; 10]);
        attempts(&mut breaker, ms(5_000), &[Up]);
        assert_eq!(attempts(&mut breaker, ms(5_000), &[Down; 9]), 9);
        assert_eq!(breaker.rest(ms(5_000)), None);
    }

    #[test]
    fn throttling_pauses_and_never_opens() {
        let mut breaker = Breaker::default();
        let mut now = ms(0);
        for bound in [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000] {
            for random in [0, bound / 2] {
                let mut once = breaker.clone();
                let ticket = once.begin(now).unwrap();
                once.end(now, ticket, Some(Throttled), None, random);
                let rest = Rest { cause: Throttling, after: ms(bound / 2 + random) };
                assert_eq!(once.rest(now), Some(rest));
            }
            assert_eq!(attempts(&mut breaker, now, &[Throttled; 30]), 1);
            now += ms(bound);
        }
        assert_eq!(attempts(&mut breaker, now, &[Up; 3]), 3);
        attempts(&mut breaker, now, &[Throttled]);
        assert_eq!(breaker.rest(now), Some(Rest { cause: Throttling, after: ms(250) }));
    }

    #[test]
    fn the_beginning_of_a_reply_ends_throttling_but_not_failing() {
        for (sign, count, ends) in [(Throttled, 1, true), (Down, 10, false)] {
            let mut breaker = Breaker::default();
            attempts(&mut breaker, ms(0), &vec![sign; count]);
            let ahead = breaker.begin(ms(5_000)).unwrap();
            let ahead = breaker.answered(ahead);
            assert_eq!(breaker.rest(ms(5_000)).is_none(), ends, "{sign:?}");
            // Its end counts in either case.
            breaker.end(ms(5_000), ahead, Some(Throttled), Some(ms(9_000)), 0);
            let rest = Rest { cause: Throttling, after: ms(9_000) };
            assert_eq!(breaker.rest(ms(5_000)), Some(rest), "{sign:?}");
        }
    }

    #[test]
    fn what_the_server_says_is_obeyed() {
        for (sign, advice, cause, after) in [
            (Throttled, 7_000, Throttling, 7_000),
            (Throttled, 60_000, Throttling, 60_000),
            (Down, 7_000, Throttling, 7_000),
        ] {
            let mut breaker = Breaker::default();
            let tickets = [(); 3].map(|()| breaker.begin(ms(0)).unwrap());
            breaker.end(ms(0), tickets[0], Some(sign), Some(ms(advice)), 9);
            assert_eq!(breaker.rest(ms(0)), Some(Rest { cause, after: ms(after) }));
            // Who was under way may be told a later time; its other news is old.
            breaker.end(ms(100), tickets[1], Some(sign), Some(ms(advice)), 9);
            breaker.end(ms(100), tickets[2], Some(Up), Some(ms(0)), 9);
            assert_eq!(breaker.rest(ms(100)), Some(Rest { cause, after: ms(after) }));
        }
        let mut breaker = Breaker::default();
        attempts(&mut breaker, ms(0), &[Down; 9]);
        let ticket = breaker.begin(ms(0)).unwrap();
        breaker.end(ms(0), ticket, Some(Down), Some(ms(30_000)), 0);
        assert_eq!(breaker.rest(ms(0)), Some(Rest { cause: Failing, after: ms(30_000) }));
    }
}
