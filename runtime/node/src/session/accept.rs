//! Decides about inputs, makes them durable, and only then has done what follows from them, but for
//! what is held (`held.rs`) and the turn of a model, which is asked for meanwhile.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;
use journal::Due;
use store::Change;
use tokio::time::Instant;
use wire::entry::{Body, Entry, Input};
use wire::{RunId, WireError};

use agents_core::effect::{Effect, Rejected, is_outcome};

use super::held::{Ahead, Following, Taken};
use super::work::Work;
use super::{ROOM_PAUSE, SessionMsg, SessionState};
use crate::changes::changes_of;
use crate::clock;
use crate::error::Error;

/// Why an input was not accepted.
pub(super) enum Refusal {
    /// The machine does not take it.
    Machine(Rejected),
    /// There is no room for it on the disk; here it is again.
    NoRoom(WireError, Box<Input>),
}

impl Refusal {
    pub(super) fn to_wire(&self) -> WireError {
        match self {
            Self::Machine(rejected) => rejected.to_wire(),
            Self::NoRoom(error, _) => error.clone(),
        }
    }
}

/// What is to be done about an input.
enum Decided {
    Refused(Refusal),
    /// It is held.
    Held(Ahead),
    /// It is to be made durable, after those that were held.
    Ready(Vec<Taken>, Due),
}

/// What is to be given again of inputs that found no room on the disk together.
struct Refused {
    /// The first of those that were held, if any were. The others follow from it, and do so anew.
    held: Option<Box<Input>>,
    /// The one that came last, unless it follows as well.
    last: Option<Box<Input>>,
}

impl Refused {
    fn of(entries: Vec<Entry>) -> Self {
        let input = |entry: Entry| match entry.body {
            Body::Session(input) => Some(Box::new(input)),
            Body::Memory(_) => None,
        };
        let mut inputs = entries.into_iter().filter_map(input);
        let (first, last) = (inputs.next(), inputs.next_back());
        // Whoever sent a run is told, and what follows from it goes with it.
        let first = first.filter(|first| !matches!(**first, Input::Submitted(_)));
        match last {
            Some(last) => Self { held: first, last: Some(last).filter(|last| !is_outcome(last)) },
            None => Self { held: None, last: first },
        }
    }
}

/// Returns the bytes of a reply, which the store and those who asked for it are given alike.
fn written(change: &Change) -> Option<(RunId, Bytes)> {
    let Change::RunEnded { run, reply, .. } = change else { return None };
    Some((run.clone(), reply.clone()))
}

/// Returns the run of a turn that is to be asked for.
fn turn_of(effect: &Effect) -> Option<RunId> {
    if let Effect::AskModel { run, .. } = effect { Some(run.clone()) } else { None }
}

impl SessionState {
    /// Decides about an input, makes it durable and performs what follows from it. One that may be
    /// held becomes durable with later ones.
    ///
    /// On a full disk nothing has happened, and the input may be given again, but for a run of which
    /// whoever sent it has been told.
    pub(super) async fn accept(&mut self, input: Input) -> Result<Result<(), Refusal>, Error> {
        let resumes = matches!(input, Input::Resumed { .. });
        let (inputs, due) = match self.decide_on(input) {
            Decided::Refused(refusal) => return Ok(Err(refusal)),
            Decided::Held(Ahead { calls, turn, time }) => {
                for call in calls {
                    let outcome = self.call_held(call, time).await;
                    self.outcomes.extend(outcome);
                }
                if let Some(turn) = turn {
                    self.ask(*turn, 1);
                }
                // A drain waits for it from here on.
                self.say_busy();
                return Ok(Ok(()));
            }
            Decided::Ready(inputs, due) => (inputs, due),
        };
        if let Err(Refused { held, last }) = Box::pin(self.commit(inputs, due)).await? {
            self.is_resume_due |= resumes;
            if let Some(held) = held {
                self.give_again(held);
            }
            // Whoever gave the last does with it what is right.
            let full = journal::Error::StorageFull.to_wire();
            return Ok(last.map_or(Ok(()), |input| Err(Refusal::NoRoom(full, input))));
        }
        self.is_resume_due &= !resumes;
        Ok(Ok(()))
    }

    /// Gives an input to the machine, and holds it if it may be.
    fn decide_on(&mut self, input: Input) -> Decided {
        let resumes = matches!(input, Input::Resumed { .. });
        let is_early = self.is_resume_due && !resumes;
        // What is held must not wait for room without a word to anybody.
        let waits = is_early || (self.held.is_empty() && !self.may_try(&input));
        // Without a machine nothing is done and nothing is due.
        let Ok(machine) = &mut self.machine else { return Decided::Ready(Vec::new(), Due::Now) };
        if waits {
            self.is_resume_due |= resumes;
            let full = journal::Error::StorageFull.to_wire();
            return Decided::Refused(Refusal::NoRoom(full, input.into()));
        }
        let now = clock::now();
        let slot = machine.slot();
        let effects = match machine.apply(now, &input, &*self.context.plans) {
            Ok(effects) => effects,
            Err(rejected) => return Decided::Refused(Refusal::Machine(rejected)),
        };
        let here = Instant::now();
        let is_full = self.context.journal.is_full();
        let is_held = !is_full && self.held.may_take(&input, &effects, &self.context.paces, here);
        // Whoever sent a run waits to be told, and on a full disk no turn is asked for ahead.
        let is_awaited = is_full || self.unsaid.is_some();
        let due = if is_awaited {
            Due::Now
        } else {
            self.held.due(&input, &effects, &self.context.paces)
        };
        let following = Following { effects, is_asked: false };
        let taken = Taken { slot, entry: Entry::new(now, Body::Session(input)), following };
        if is_held {
            return Decided::Held(self.held.take(taken, here));
        }
        let mut inputs = self.held.give();
        inputs.push(taken);
        Decided::Ready(inputs, due)
    }

    /// Tells whether an input is to be tried: a machine that took one for which there is no room is
    /// folded anew from its journal. One that it only says no to needs none.
    fn may_try(&self, input: &Input) -> bool {
        let Ok(machine) = &self.machine else { return true };
        let is_refused = match input {
            Input::Submitted(submitted) => machine.view(&submitted.run).is_some(),
            Input::CancelRequested { run, .. } => machine.ended(run).is_some(),
            _ => false,
        };
        is_refused || self.context.journal.may_try()
    }

    /// Makes durable what is held.
    pub(super) async fn commit_held(&mut self) -> Result<(), Error> {
        let held = self.held.give();
        if let Err(Refused { held, last }) = self.commit(held, Due::Now).await? {
            held.into_iter().chain(last).for_each(|input| self.give_again(input));
        }
        Ok(())
    }

    /// Makes inputs that the machine has taken durable, all of them or none, and performs what
    /// follows from them. Without room for them the machine is as it was, and what is to be given
    /// again of them is returned.
    async fn commit(&mut self, inputs: Vec<Taken>, due: Due) -> Result<Result<(), Refused>, Error> {
        let Some(slot) = inputs.first().map(|first| first.slot) else { return Ok(Ok(())) };
        let (entries, mut following): (Vec<_>, Vec<_>) =
            inputs.into_iter().map(|taken| (taken.entry, taken.following)).unzip();
        // A drain must not take the session for idle while this becomes durable.
        self.busy.store(true, Ordering::Relaxed);
        // Durable before anyone can see what follows. A fault here ends this actor, whose machine
        // is ahead of the journal by then and must not be used again.
        let entries = Arc::new(entries);
        let appended = {
            let (context, session) = (self.context.clone(), self.session.clone());
            let mut append = pin!(context.append_due(due, &session, slot, &entries));
            let begun = poll_fn(|task| Poll::Ready(append.as_mut().poll(task))).await;
            match begun {
                Poll::Ready(appended) => appended,
                Poll::Pending => {
                    self.ask_ahead(&mut following);
                    append.await
                }
            }
        };
        let commit = match appended {
            Err(Error::Journal(journal::Error::StorageFull)) => {
                let asked = following.iter().filter(|following| following.is_asked);
                for run in asked.flat_map(|asked| &asked.effects).filter_map(turn_of) {
                    self.end(&Work::Turn(run.clone()));
                    self.prefixes.clear();
                    // Its reply may be on the way already, to what is asked no more. Another run of
                    // the session may wait for its own.
                    self.void.insert(run, self.asked);
                }
                self.rebuild().await?;
                self.say_busy();
                self.give_up_run(entries.len() > 1);
                return Ok(Err(Refused::of(Arc::unwrap_or_clone(entries))));
            }
            appended => appended?,
        };
        let mut changes = Vec::new();
        for ((slot, entry), Following { effects, .. }) in
            (slot..).zip(&*entries).zip(&mut following)
        {
            self.context.export(effects);
            changes.extend(changes_of(&self.session, entry, slot, effects, &self.context.plans));
        }
        self.context.counters.note(&changes);
        let written: Vec<_> = changes.iter().filter_map(written).collect();
        commit.project(changes).await;
        for (run, _) in &written {
            self.context.places.end(run);
            self.void.remove(run);
        }
        for Following { mut effects, is_asked } in following {
            self.context.counters.note_steps(&effects, &mut self.step_counted);
            effects.retain(|effect| !is_asked || !effect.goes_ahead());
            self.perform_all(effects, &written);
        }
        self.say_accepted();
        self.say_busy();
        Ok(Ok(()))
    }

    /// Asks for the turn that follows from inputs while they are made durable, unless it is asked
    /// for already, and notes that. A crash takes its reply with them, as it takes that of every turn
    /// under way: a turn changes nothing, and nobody is told of it before they are durable.
    fn ask_ahead(&mut self, following: &mut [Following]) {
        // They will hardly be taken, and the turn would be paid for nothing.
        if self.context.journal.is_full() {
            return;
        }
        for Following { effects, is_asked } in following {
            if let Some(ask) = effects.iter().find(|effect| effect.goes_ahead() && !*is_asked) {
                self.ask(ask.clone(), 1);
                *is_asked = true;
            }
        }
    }

    /// Gives an input again when there may be room for it. One whose turn comes too early is not
    /// awaited, and comes again with what it is the outcome of.
    pub(super) fn give_again(&self, input: Box<Input>) {
        self.myself.send_after(ROOM_PAUSE, move || SessionMsg::Input(input));
    }
}

#[cfg(test)]
mod tests {
    use wire::entry::{ModelOutcome, ModelReplied};
    use wire::{CallKey, CallOutcome, ErrorCode, Timestamp, Usage};

    use super::*;
    use crate::testing;

    fn run() -> RunId {
        RunId::new("r").unwrap()
    }

    fn replied(turn: u32) -> Input {
        let error = WireError::new(ErrorCode::Internal, "any");
        let outcome = ModelOutcome::Failed { error };
        Input::ModelReplied(ModelReplied { run: run(), turn, outcome })
    }

    fn submitted() -> Input {
        Input::Submitted(testing::message(&run(), "hello"))
    }

    fn settled(call: &str) -> Input {
        Input::CallSettled {
            call: CallKey::new(call).unwrap(),
            outcome: CallOutcome::text("x"),
            usage: Usage::default(),
            tainted: false,
            hop: None,
        }
    }

    #[test]
    fn of_what_found_no_room_only_what_does_not_follow_by_itself_is_given_again() {
        let late = || Input::DeadlinePassed { run: run() };
        let cases = [
            (vec![late()], None, Some(late())),
            (vec![replied(0)], None, Some(replied(0))),
            (vec![settled("a")], None, Some(settled("a"))),
            (vec![replied(0), settled("a")], Some(replied(0)), None),
            (vec![replied(0), settled("a"), replied(1)], Some(replied(0)), None),
            (vec![replied(0), settled("a"), late()], Some(replied(0)), Some(late())),
            (vec![submitted()], None, None),
            (vec![submitted(), replied(0)], None, None),
            (vec![submitted(), replied(0), settled("a")], None, None),
            (vec![submitted(), replied(0), late()], None, Some(late())),
            (vec![], None, None),
        ];
        for (inputs, held, last) in cases {
            let case = format!("{inputs:?}");
            let entry = |input| Entry::new(Timestamp::default(), Body::Session(input));
            let refused = Refused::of(inputs.into_iter().map(entry).collect());
            assert_eq!(refused.held.map(|input| *input), held, "{case}");
            assert_eq!(refused.last.map(|input| *input), last, "{case}");
        }
    }
}
