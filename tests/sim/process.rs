//! The life of the process: when it ends, what is left of the journal, how it begins again.

use agents_core::session::SessionMachine;
use wire::SessionId;

use crate::check::snapshots;
use crate::node::{Node, Shell};
use crate::team::name;
use crate::world::{Crashes, Flaw, Position, World};

impl World {
    /// Decides where the process ends in the write that begins, if it does.
    pub(crate) fn draw_crash(&mut self) -> Option<Position> {
        let write = self.writes;
        self.writes += 1;
        match self.crashes {
            Crashes::At(at, position) => (write == at).then_some(position),
            Crashes::Random(0) => None,
            Crashes::Random(left) => {
                if !self.is_faulty() || !self.rng.percent(6) {
                    return None;
                }
                self.crashes = Crashes::Random(left - 1);
                Some(match self.rng.below(4) {
                    0 => Position::Before,
                    1 => Position::Unknown,
                    2 => Position::Durable,
                    _ => Position::Part(1 + usize::from(self.rng.percent(50))),
                })
            }
        }
    }

    /// Ends the process. What is not yet durable may be so after all, unless the crash says not.
    pub(crate) fn crash(&mut self, position: Option<Position>) {
        self.note(|| format!("crash {position:?}"));
        let Some(node) = self.node.take() else { return };
        for (session, shell) in node.shells {
            let Some(writing) = shell.writing else {
                self.compare_with_disk(&session, &shell.machine);
                continue;
            };
            let kept = match writing.crash {
                Some(Position::Unknown) => true,
                Some(Position::Before) => false,
                Some(Position::Durable | Position::Part(_)) | None => self.rng.percent(30),
            };
            if kept {
                self.disk.entry(session).or_default().push(writing.record);
            }
        }
        self.life += 1;
        let ms = 20 + self.rng.below(2000);
        self.restart_after(ms);
    }

    fn compare_with_disk(&mut self, session: &SessionId, machine: &SessionMachine) {
        if let Some(folded) = self.fold(session)
            && folded != *machine
        {
            self.fail(&format!("the fold of {session} differs from the live machine"));
        }
    }

    /// Folds a session from its first entry, or from any that holds all that came before it.
    fn fold(&mut self, session: &SessionId) -> Option<SessionMachine> {
        let records = self.disk.get(session).map(Vec::as_slice).unwrap_or_default();
        let mut begins: Vec<usize> = snapshots(records).collect();
        begins.push(0);
        let chosen = usize::try_from(self.rng.below(begins.len() as u64)).unwrap_or(0);
        match self.fold_from(session, begins[chosen]) {
            Ok(machine) => Some(machine),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// Folds a session from some slot on, as if nothing before it was left.
    pub(crate) fn fold_from(
        &self,
        session: &SessionId,
        slot: usize,
    ) -> Result<SessionMachine, String> {
        let records = self.disk.get(session).map(Vec::as_slice).unwrap_or_default();
        let entries = records.iter().skip(slot).map(|record| &record.entry);
        let machine = SessionMachine::beginning_at(name("team"), session.clone(), slot as u64);
        machine
            .fold_on(entries, &self.team.plans, |_, _, _| {})
            .map_err(|error| format!("{session} cannot be folded from slot {slot}: {error}"))
    }

    pub(crate) fn restart(&mut self) {
        self.note(|| "restart".to_owned());
        self.node = Some(Node::default());
        let sessions: Vec<SessionId> = self.disk.keys().cloned().collect();
        for session in &sessions {
            let Some(machine) = self.fold(session) else { return };
            if let Some(node) = &mut self.node {
                node.shells.insert(session.clone(), Shell::new(machine));
            }
        }
        for session in &sessions {
            let Some(shell) = self.shell(session) else { return };
            let resumed = shell.machine.resumption(false);
            let working = resumed.is_some();
            if let Some(resumed) = resumed
                && self.flaw != Some(Flaw::SkipsResumed)
            {
                self.input(session, resumed);
                continue;
            }
            if !working && self.flaw == Some(Flaw::SkipsParted) {
                continue;
            }
            let Some(shell) = self.shell(session) else { return };
            for effect in shell.machine.outstanding() {
                self.perform(session, effect);
            }
            self.work(session);
        }
    }
}
