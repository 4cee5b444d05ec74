//! Work that models and tools do for a run, named so that it can be stopped from elsewhere.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use crate::id::{CallKey, Name, RunId};
use crate::text;

/// Names work under way: a call, or a turn of a run, in all its attempts or in one of them.
///
/// As text `call.KEY` or `turn.RUN.NUMBER`, with `:ATTEMPT` behind it for one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkId {
    what: What,
    attempt: Option<Name>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    Call(CallKey),
    Turn(RunId, u32),
}

impl WorkId {
    /// Names all attempts at a call, with what its tool asks of models.
    pub const fn of_call(call: CallKey) -> Self {
        Self { what: What::Call(call), attempt: None }
    }

    /// Names all attempts at a turn.
    pub const fn of_turn(run: RunId, turn: u32) -> Self {
        Self { what: What::Turn(run, turn), attempt: None }
    }

    /// Names one attempt that was not made before.
    #[must_use]
    pub fn attempt(&self) -> Self {
        Self { what: self.what.clone(), attempt: Some(Name::unique()) }
    }

    /// Names all attempts of which this is one.
    #[must_use]
    pub fn all_attempts(&self) -> Self {
        Self { what: self.what.clone(), attempt: None }
    }

    /// Returns the length of the text, in bytes.
    pub(crate) fn text_bytes(&self) -> usize {
        let what = match &self.what {
            What::Call(call) => "call.".len() + call.as_str().len(),
            What::Turn(run, turn) => {
                "turn..".len() + run.as_str().len() + text::digits(u64::from(*turn))
            }
        };
        what + self.attempt.as_ref().map_or(0, |attempt| ":".len() + attempt.as_str().len())
    }

    /// Tells whether a stop of this work concerns the other.
    pub fn covers(&self, other: &Self) -> bool {
        self.what == other.what && (self.attempt.is_none() || self.attempt == other.attempt)
    }
}

impl From<&WorkId> for String {
    fn from(work: &WorkId) -> Self {
        let mut text = Self::with_capacity(work.text_bytes());
        write!(text, "{work}").unwrap_or_default();
        text
    }
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Call(call) => write!(f, "call.{call}")?,
            What::Turn(run, turn) => write!(f, "turn.{run}.{turn}")?,
        }
        self.attempt.as_ref().map_or(Ok(()), |attempt| write!(f, ":{attempt}"))
    }
}

/// The text names no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("work is named as call.KEY or turn.RUN.NUMBER, with :ATTEMPT behind it or not")]
pub struct WorkIdError;

impl FromStr for WorkId {
    type Err = WorkIdError;

    fn from_str(text: &str) -> Result<Self, WorkIdError> {
        let (what, attempt) = match text.split_once(':') {
            Some((what, attempt)) => (what, Some(Name::new(attempt).map_err(|_| WorkIdError)?)),
            None => (text, None),
        };
        let what = match what.split_once('.') {
            Some(("call", key)) => What::Call(CallKey::new(key).map_err(|_| WorkIdError)?),
            Some(("turn", rest)) => {
                let (run, turn) = rest.split_once('.').ok_or(WorkIdError)?;
                let run = RunId::new(run).map_err(|_| WorkIdError)?;
                What::Turn(run, turn.parse().map_err(|_| WorkIdError)?)
            }
            Some(_) | None => return Err(WorkIdError),
        };
        Ok(Self { what, attempt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_named_by_what_it_is_done_for() {
        for text in ["call.c", "turn.r-1.0", "call.c:a", "turn.r.17:r-9"] {
            let work: WorkId = text.parse().unwrap();
            assert_eq!((work.to_string().as_str(), String::from(&work).as_str()), (text, text));
            assert_eq!(work.text_bytes(), text.len());
        }
        for text in ["", "call", "call.", "call.a.b", "turn.r", "turn.r.", "turn.r.-1", "turn..1"]
            .into_iter()
            .chain(["turn.r.4294967296", "call.c:", "call.c:a:b", "tool.c", "call.*"])
        {
            assert_eq!(text.parse::<WorkId>(), Err(WorkIdError), "{text}");
        }
    }

    #[test]
    fn a_stop_concerns_one_attempt_or_all() {
        let all = WorkId::of_call(CallKey::new("c").unwrap());
        let (first, second) = (all.attempt(), all.attempt());
        assert_ne!(first, second);
        assert_eq!(first.all_attempts(), all);
        let turn = WorkId::of_turn(RunId::new("c").unwrap(), 1);
        for (stop, work, expected) in [
            (&all, &all, true),
            (&all, &first, true),
            (&first, &first, true),
            (&first, &second, false),
            (&first, &all, false),
            (&all, &turn, false),
            (&turn, &WorkId::of_turn(RunId::new("c").unwrap(), 2), false),
        ] {
            assert_eq!(stop.covers(work), expected, "{stop} and {work}");
        }
    }
}
