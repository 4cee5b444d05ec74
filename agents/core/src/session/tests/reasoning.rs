//! The reasoning behind calls: who is shown it again, and who is not.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use wire::entry::{Body, Entry, ModelOutcome};
use wire::plan::Dialect;
use wire::{Capture, Digest, Input, Levels, Message, ModelRole, Plan, Reasoning, Timestamp};

use super::team::{
    actor, answer, calls, done, garbage, name, session, submit, thinker, thought, with,
};
use crate::dialect;
use crate::effect::Effect;
use crate::session::SessionMachine;
use crate::validate::Catalogue;

const THOUGHT: &str = "Nobody is to read this.";

fn reasoning() -> Arc<Reasoning> {
    let message = json!({"reasoning_content": THOUGHT});
    let calls = vec![json!(null), json!({"google": {"thought_signature": "x"}})];
    Arc::new(Reasoning { by: Digest::of(b"small"), message, calls })
}

/// The input with reasoning behind its calls.
fn reasoned(mut input: Input) -> Input {
    if let Input::ModelReplied(replied) = &mut input
        && let ModelOutcome::Read { reasoning, .. } = &mut replied.outcome
    {
        *reasoning = Some(self::reasoning());
    }
    input
}

struct Played {
    plan: Plan,
    machine: SessionMachine,
    entries: Vec<Entry>,
    effects: Vec<Effect>,
}

fn play(plan: Plan, inputs: &[Input]) -> Played {
    let machine = SessionMachine::new(name("team"), session());
    let mut played = Played { plan, machine, entries: Vec::new(), effects: Vec::new() };
    for input in inputs {
        played.apply(input.clone());
    }
    played
}

impl Played {
    fn plans(&self) -> HashMap<Digest, Arc<Plan>> {
        HashMap::from([(Digest::of(b"plan"), self.plan.clone().into())])
    }

    fn apply(&mut self, input: Input) {
        let entry = Entry::new(Timestamp::from_micros(0), Body::Session(input));
        let Body::Session(input) = &entry.body else { unreachable!() };
        self.effects.extend(self.machine.apply(entry.at, input, &self.plans()).unwrap());
        self.entries.push(entry);
    }

    /// Takes the session up again from what is written of it.
    fn restarted(&self) -> SessionMachine {
        let written = self
            .entries
            .iter()
            .map(|entry| serde_json::from_slice(&serde_json::to_vec(entry).unwrap()).unwrap());
        let entries: Vec<Entry> = written.collect();
        SessionMachine::fold(name("team"), session(), &entries, &self.plans(), |_, _, _| {})
            .unwrap()
    }

    fn told(&self, machine: &SessionMachine, role: ModelRole) -> Vec<Arc<Message>> {
        let catalogue = Catalogue::new(self.plan.clone().into());
        let (_, transcript) = machine.transcript().unwrap();
        dialect::prompt(role, &catalogue, &transcript).messages
    }
}

/// Returns the reasoning among some messages.
fn carried(messages: &[Arc<Message>]) -> Vec<Arc<Reasoning>> {
    let of = |message: &Arc<Message>| match &**message {
        Message::Assistant { reasoning, .. } => reasoning.clone(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    };
    messages.iter().filter_map(of).collect()
}

#[test]
fn the_next_turns_of_the_run_are_shown_it_also_after_a_restart() {
    let first = [submit("r"), reasoned(calls("r", 0, &["look", "put"])), done(1, 0), done(1, 1)];
    let more = [garbage("r", 1), reasoned(calls("r", 2, &["look"])), done(5, 0)];
    for (inputs, count) in [(first.to_vec(), 1), ([&first[..], &more].concat(), 2)] {
        let played = play(actor(), &inputs);
        let told = played.told(&played.machine, ModelRole::Actor);
        assert_eq!(carried(&told), vec![reasoning(); count]);
        let Body::Session(Input::ModelReplied(replied)) = &played.entries[1].body else { panic!() };
        let ModelOutcome::Read { reasoning: Some(journaled), .. } = &replied.outcome else {
            panic!("{replied:?}")
        };
        assert!(Arc::ptr_eq(&carried(&told)[0], journaled), "it is a copy");
        let restarted = played.restarted();
        assert_eq!(restarted, played.machine);
        let again = played.told(&restarted, ModelRole::Actor);
        assert_eq!(serde_json::to_vec(&again).unwrap(), serde_json::to_vec(&told).unwrap());
    }
}

#[test]
fn nobody_else_is_shown_it() {
    let acts = || [reasoned(calls("r", 0, &["look"])), done(1, 0)];
    for dialect in [Dialect::Schema, Dialect::Json, Dialect::React] {
        let played = play(Plan { dialect, ..actor() }, &[&[submit("r")], &acts()[..]].concat());
        assert_eq!(carried(&played.told(&played.machine, ModelRole::Actor)), [], "{dialect:?}");
    }
    let thinks = [submit("r"), thought("r", 0, "look first"), reasoned(calls("r", 1, &["look"]))];
    let played = play(thinker(), &[&thinks[..], &[done(2, 0)]].concat());
    assert_eq!(carried(&played.told(&played.machine, ModelRole::Thinker)), []);
    assert_eq!(carried(&played.told(&played.machine, ModelRole::Actor)).len(), 1);
    // A run that is over leaves what was said, and no more.
    let over = [answer("r", 1, "42"), submit("s")];
    let plan = Plan { traces: Levels { store: Capture::Full, ..Levels::default() }, ..actor() };
    let played = play(plan, &[&[submit("r")], &acts()[..], &over].concat());
    let told = played.told(&played.machine, ModelRole::Actor);
    assert!(told.iter().any(|message| message.content() == "42"), "{told:?}");
    assert_eq!(carried(&told), []);
    // Events, traces, replies and what else is made of a run hold nothing of it.
    let effects = format!("{:?}", played.effects);
    assert!(effects.contains("look") && !effects.contains(THOUGHT), "{effects}");
}

#[test]
fn it_takes_room_as_other_text_does() {
    let plan = || with(actor(), |limits| limits.reply_tokens_max = 1000);
    let tokens = |reply: Input| {
        let played = play(plan(), &[submit("r"), reply, done(1, 0)]);
        let asked = played.effects.iter().rev().find_map(|effect| match effect {
            Effect::AskModel { max_tokens, .. } => Some(*max_tokens),
            _ => None,
        });
        asked.unwrap()
    };
    let [without, with] =
        [calls("r", 0, &["look"]), reasoned(calls("r", 0, &["look"]))].map(tokens);
    let bytes = reasoning().bytes();
    let parts = [&reasoning().message, &reasoning().calls[1]].map(|part| part.to_string().len());
    assert_eq!(bytes, parts.iter().sum::<usize>() as u64, "what is null is not sent");
    assert!((bytes / 2..=bytes / 2 + 1).contains(&(without - with)), "{without} {with}");
}

#[test]
fn a_reply_without_it_is_written_as_before() {
    let entry = Entry::new(Timestamp::from_micros(0), Body::Session(calls("r", 0, &["look"])));
    let written = serde_json::to_string(&entry).unwrap();
    assert!(!written.contains("\"reasoning\""), "{written}");
    assert_eq!(serde_json::from_str::<Entry>(&written).unwrap(), entry);
}
