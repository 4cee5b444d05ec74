//! Every point between the intent and the result of a call at which a process can end, with every
//! class and every answer of a probe: nothing that must not be is done twice.
//!
//! The outside is a tool that counts what it did by key. A crash takes away what the machine was
//! about to be told, never what the tool did.

use std::collections::HashMap;

use serde_json::json;
use wire::entry::{Body, Entry};
use wire::plan::{OnUnknown, Permission};
use wire::{
    CallKey, CallOutcome, Digest, EffectClass, ErrorCode, Input, Plan, Resolution, Timestamp,
    Usage, WireError, call_digest,
};

use super::team::{actor, answer, calls, name, offering, probed, session, submit};
use crate::effect::{CallEffect, Effect};
use crate::invariant::{self, Record};
use crate::session::SessionMachine;

/// Where the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    /// Nowhere.
    Never,
    /// When the call is decided and was not sent.
    Decided,
    /// When the call was sent and did nothing, and does nothing later.
    Sent,
    /// When the tool has done it and its answer is on the way.
    Done,
    /// When nothing ends, and the answer is lost.
    AnswerLost,
}

/// What the probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    None,
    Knows,
    /// It knows nothing.
    Unclear,
    /// It knows, and the process ends before it says so.
    CrashesOnce,
}

struct World {
    plan: Plan,
    plans: HashMap<Digest, std::sync::Arc<Plan>>,
    records: Vec<Record>,
    machine: SessionMachine,
    done: HashMap<CallKey, u32>,
    sent: u32,
    crash: Crash,
    probe: Probe,
    ms: u64,
}

impl World {
    fn new(plan: Plan, crash: Crash, probe: Probe) -> Self {
        let plans = HashMap::from([(Digest::of(b"plan"), plan.clone().into())]);
        let machine = SessionMachine::new(name("team"), session());
        let (records, done) = (Vec::new(), HashMap::new());
        Self { plan, plans, records, machine, done, sent: 0, crash, probe, ms: 0 }
    }

    /// Gives an input to the machine and does what follows until nothing more does.
    fn give(&mut self, input: Input) {
        self.ms += 1;
        let now = Timestamp::from_micros(self.ms * 1000);
        let Ok(effects) = self.machine.apply(now, &input, &self.plans) else { return };
        let entry = Entry::new(now, Body::Session(input));
        self.records.push(Record { entry, effects: effects.clone() });
        for effect in effects {
            if let Some(next) = self.perform(effect) {
                self.give(next);
            }
        }
    }

    /// Ends the process: the machine is folded anew, and told so if it was at work.
    fn restart(&mut self) {
        let entries = self.records.iter().map(|record| &record.entry);
        let folded =
            SessionMachine::fold(name("team"), session(), entries, &self.plans, |_, _, _| {});
        assert_eq!(folded.as_ref(), Ok(&self.machine));
        if let Some(resumed) = self.machine.resumption(false) {
            self.give(resumed);
        }
    }

    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            // What an earlier process sent is answered as far as it came; nothing is sent.
            Effect::Call(call) if call.is_awaited() => {
                let CallEffect { call, attempt, .. } = call;
                if self.done.contains_key(&call) {
                    let outcome = CallOutcome::text("done");
                    let usage = Usage::default();
                    return Some(Input::CallSettled {
                        call,
                        outcome,
                        usage,
                        tainted: false,
                        hop: None,
                    });
                }
                let error = WireError::new(ErrorCode::ToolTimeout, "no reply");
                Some(Input::CallLost {
                    call,
                    attempt,
                    error,
                    usage: Usage::default(),
                    tainted: false,
                    hop: None,
                })
            }
            Effect::Call(call) => {
                self.sent += 1;
                let crash = if self.sent == 1 { self.crash } else { Crash::Never };
                if crash == Crash::Decided {
                    self.restart();
                    return None;
                }
                let does = matches!(crash, Crash::Never | Crash::Done | Crash::AnswerLost);
                if does {
                    let times = self.done.entry(call.call.clone()).or_default();
                    // What honours the key does it once.
                    *times = if call.effect == EffectClass::Idempotent { 1 } else { *times + 1 };
                }
                match crash {
                    Crash::Never => {}
                    Crash::AnswerLost => {
                        let error = WireError::new(ErrorCode::ToolTimeout, "no answer");
                        return Some(Input::CallLost {
                            call: call.call,
                            attempt: 1,
                            error,
                            usage: Usage::default(),
                            tainted: false,
                            hop: None,
                        });
                    }
                    Crash::Sent | Crash::Done | Crash::Decided => {
                        self.restart();
                        return None;
                    }
                }
                let outcome = CallOutcome::text("done");
                Some(Input::CallSettled {
                    call: call.call,
                    outcome,
                    usage: Usage::default(),
                    tainted: false,
                    hop: None,
                })
            }
            Effect::Probe { of, number, call } => {
                assert_eq!(call.arguments["key"], json!(of), "a probe is asked by the key");
                if self.probe == Probe::CrashesOnce {
                    self.probe = Probe::Knows;
                    self.restart();
                    return None;
                }
                let outcome = match self.probe {
                    Probe::Unclear => CallOutcome::error(ErrorCode::ToolFailed, "down"),
                    Probe::None | Probe::Knows | Probe::CrashesOnce => {
                        let done = self.done.contains_key(&of);
                        CallOutcome::Ok { output: json!({"done": done, "result": "done"}) }
                    }
                };
                Some(Input::CallProbed { call: of, probe: number, outcome, tainted: false })
            }
            Effect::Opened(open) if open.waits => {
                let digest = call_digest(&open.tool, &open.arguments);
                match open.kind {
                    wire::OpenKind::Approval => {
                        Some(Input::CallApproved { call: open.call, digest })
                    }
                    // A person finds out the truth.
                    wire::OpenKind::Unknown => {
                        let resolution = if self.done.contains_key(&open.call) {
                            Resolution::Done { result: json!("done") }
                        } else {
                            Resolution::NotDone
                        };
                        let attempt = open.attempt;
                        Some(Input::CallResolved { call: open.call, attempt, resolution })
                    }
                    wire::OpenKind::Question => None,
                }
            }
            Effect::AskModel { turn, .. } if turn > 0 => Some(answer("r", turn, "42")),
            _ => None,
        }
    }
}

#[test]
fn nothing_is_done_twice_wherever_the_process_ends() {
    let tools =
        [("look", EffectClass::Read), ("put", EffectClass::Idempotent), ("pay", EffectClass::Once)];
    let crashes = [Crash::Never, Crash::Decided, Crash::Sent, Crash::Done, Crash::AnswerLost];
    let probes = [Probe::None, Probe::Knows, Probe::Unclear, Probe::CrashesOnce];
    let mut seen = HashMap::new();
    for (tool, class) in tools {
        for crash in crashes {
            for probe in probes {
                for on_unknown in [OnUnknown::Tell, OnUnknown::Ask, OnUnknown::Fail] {
                    for permission in [Permission::Allow, Permission::Ask] {
                        let plan = offering(actor(), tool, |offer| {
                            offer.on_unknown = on_unknown;
                            offer.permission = permission;
                        });
                        let plan = if probe == Probe::None { plan } else { probed(plan, tool) };
                        let what =
                            format!("{tool} {crash:?} {probe:?} {on_unknown:?} {permission:?}");
                        let ended = play(plan, tool, crash, probe, &what);
                        judge(class, crash, probe, on_unknown, &ended, &what);
                        *seen.entry(ended.status.clone()).or_insert(0) += 1;
                    }
                }
            }
        }
    }
    assert!(seen.contains_key("ok") && seen.contains_key("unknown"), "{seen:?}");
}

#[test]
fn an_outcome_that_comes_after_a_restart_is_taken_and_nothing_is_sent_again() {
    for (crash, status, done) in [
        (Crash::Never, "ok", 1),
        (Crash::Decided, "unknown", 0),
        (Crash::Sent, "unknown", 0),
        (Crash::Done, "ok", 1),
        (Crash::AnswerLost, "unknown", 1),
    ] {
        let plan = offering(actor(), "pay", |offer| {
            offer.rejoins = true;
            offer.permission = Permission::Allow;
        });
        let what = format!("{crash:?}");
        let ended = play(plan, "pay", crash, Probe::None, &what);
        assert_eq!((ended.status.as_str(), ended.sent, ended.done), (status, 1, done), "{what}");
    }
}

/// How a run ended.
struct Ended {
    status: String,
    done: u32,
    sent: u32,
    code: Option<ErrorCode>,
}

fn play(plan: Plan, tool: &str, crash: Crash, probe: Probe, what: &str) -> Ended {
    let mut world = World::new(plan, crash, probe);
    world.give(submit("r"));
    world.give(calls("r", 0, &[tool]));
    invariant::check(&world.records, &world.plans)
        .unwrap_or_else(|broken| panic!("{what}: {broken}"));
    invariant::check_at_rest(&world.records).unwrap_or_else(|broken| panic!("{what}: {broken}"));
    assert_eq!(world.plan.agent, name("lead"));
    let reply =
        world.records.iter().flat_map(|record| &record.effects).find_map(|effect| match effect {
            Effect::Publish { reply } => Some(reply.clone()),
            _ => None,
        });
    let reply = reply.unwrap();
    Ended {
        status: reply.sources[0].status.clone(),
        done: world.done.values().sum(),
        sent: world.sent,
        code: reply.error.as_ref().map(|error| error.code),
    }
}

fn judge(
    class: EffectClass,
    crash: Crash,
    probe: Probe,
    on_unknown: OnUnknown,
    ended: &Ended,
    what: &str,
) {
    let Ended { status, done, sent, code } = ended;
    let knows = matches!(probe, Probe::Knows | Probe::CrashesOnce);
    if class != EffectClass::Read {
        assert!(*done <= 1, "{what}: done {done} times");
    }
    let expected = match (class, crash) {
        (_, Crash::Never) | (EffectClass::Read | EffectClass::Idempotent, _) => "ok",
        (EffectClass::Once, _) if knows || on_unknown == OnUnknown::Ask => "ok",
        (EffectClass::Once, _) => "unknown",
    };
    assert_eq!(status, expected, "{what}");
    if class == EffectClass::Once && !knows && on_unknown != OnUnknown::Ask {
        assert_eq!(*sent, 1, "{what}: sent again though nobody knows");
    }
    if expected == "ok" && class != EffectClass::Read {
        assert_eq!(*done, 1, "{what}: told as done");
    }
    let fails = expected == "unknown" && on_unknown == OnUnknown::Fail;
    assert_eq!(*code, fails.then_some(ErrorCode::OutcomeUnknown), "{what}");
}
