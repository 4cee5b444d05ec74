//! The team of the world: a lead that thinks and calls two specialists, one that plans, and tools
//! of every class.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::json;
use wire::plan::{
    AskedModel, Dialect, Form, Labels, Limits, Offer, OnUnknown, Permission, Permissions, Probe,
    Prompts, Target, WhenBusy,
};
use wire::{Digest, EffectClass, Name, Plan, ToolSpec};

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// What may become of a message that comes while a run is in work.
pub(crate) const POLICIES: [WhenBusy; 4] =
    [WhenBusy::Queue, WhenBusy::Reject, WhenBusy::Interrupt, WhenBusy::Steer];

/// The plans by digest, and the digest of each agent's under each policy.
#[derive(Clone, Debug)]
pub(crate) struct Team {
    pub(crate) plans: HashMap<Digest, Arc<Plan>>,
    digests: HashMap<(Name, WhenBusy), Digest>,
}

impl Team {
    pub(crate) fn new() -> Self {
        let plans = [
            plan(
                "lead",
                Some("big"),
                &[
                    "look", "put", "pay", "ask", "mail", "wire", "order", "survey", "finder",
                    "writer",
                ],
            ),
            plan("finder", Some("big"), &["look", "pay", "mail", "stock", "poll", "writer"]),
            plan("writer", None, &["look", "put", "bet", "wire", "lead"]),
            planning("planner", "big", &["look", "put", "pay", "ask", "finder"]),
        ];
        let mut team = Self { plans: HashMap::new(), digests: HashMap::new() };
        for (plan, when_busy) in plans.iter().flat_map(|plan| POLICIES.map(|busy| (plan, busy))) {
            let mut plan = Plan { when_busy, ..plan.clone() };
            // Several messages may join a run, while a queue is to be full now and then.
            plan.limits.queue_max += u32::from(when_busy == WhenBusy::Steer);
            let (digest, _) = plan.to_bytes().unwrap();
            team.digests.insert((plan.agent.clone(), when_busy), digest);
            team.plans.insert(digest, Arc::new(plan));
        }
        team
    }

    /// Returns the plan of an agent under a policy, and its digest.
    pub(crate) fn plan(&self, agent: &Name, when_busy: WhenBusy) -> (Digest, &Arc<Plan>) {
        let digest = self.digests[&(agent.clone(), when_busy)];
        (digest, &self.plans[&digest])
    }
}

fn plan(agent: &str, thinker: Option<&str>, offers: &[&str]) -> Plan {
    Plan {
        team: name("team"),
        agent: name(agent),
        description: String::new(),
        instructions: String::new(),
        thinker: thinker.map(name),
        planner: None,
        actor: name("small"),
        dialect: Dialect::Native,
        continue_word: None,
        coerce: true,
        tools: offers.iter().map(|text| offer(text)).collect(),
        limits: Limits {
            steps_max: 4,
            calls_per_step_max: 3,
            depth_max: 2,
            tokens_max: 1500,
            reply_tokens_max: 100,
            feedback_max: 1,
            resumes_max: 2,
            deadline_ms: 12_000,
            model_timeout_ms: 4000,
            queue_max: 1,
            history_messages_max: 4,
            history_tokens_max: Some(400),
            approval_timeout_ms: 3000,
            calls_max: 12,
            repeats_max: 3,
            cost_max_nano_usd: None,
        },
        prompts: Prompts::default(),
        form: Form::default(),
        permissions: Permissions::default(),
        prices: BTreeMap::new(),
        when_busy: WhenBusy::Queue,
        served: BTreeMap::new(),
        traces: wire::Levels::default(),
        keeps_unfinished: true,
        edition: wire::plan::EDITION,
    }
}

fn planning(agent: &str, planner: &str, offers: &[&str]) -> Plan {
    let asked = |model: &str| Some(AskedModel { model: name(model), dialect: Dialect::Schema });
    let mut plan = Plan { planner: asked(planner), ..plan(agent, None, offers) };
    for offer in plan.tools.iter_mut().step_by(2) {
        offer.actor = asked("own");
    }
    plan
}

/// The tools: `look` reads, `put` and `stock` honour their keys, `stock` not for long, and the
/// rest must not be repeated. `mail` needs leave, `wire` has a probe, `order` waits for a person
/// when nobody knows what came of it, and `bet` ends the run then. What `look` reads taints the
/// run, in which `stock`, `wire` and `bet` need leave. `survey` and `poll` ask people while they are
/// under way.
fn offer(text: &str) -> Offer {
    let (target, effect) = match text {
        "look" | "ask" | "poll" => (Target::Tool, EffectClass::Read),
        "put" | "stock" => (Target::Tool, EffectClass::Idempotent),
        "pay" | "mail" | "wire" | "order" | "bet" | "survey" => (Target::Tool, EffectClass::Once),
        _ => (Target::Agent, EffectClass::Once),
    };
    let spec = ToolSpec {
        name: name(text),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    let on_unknown = match text {
        "order" => OnUnknown::Ask,
        "bet" => OnUnknown::Fail,
        _ => OnUnknown::Tell,
    };
    Offer {
        permission: if text == "mail" { Permission::Ask } else { Permission::Allow },
        key_ttl_ms: (text == "stock").then_some(2500),
        probe: (text == "wire").then(|| Probe {
            tool: name("seen"),
            takes_arguments: false,
            timeout_ms: 1000,
        }),
        on_unknown,
        question_timeout_ms: matches!(text, "survey" | "poll").then_some(2000),
        labels: Labels {
            untrusted: text == "look",
            private: false,
            external: matches!(text, "stock" | "wire" | "bet"),
        },
        ..Offer::new(spec, target, effect, if text == "stock" { 1500 } else { 3000 })
    }
}
