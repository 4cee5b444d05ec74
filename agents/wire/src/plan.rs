//! What an agent may do and with what, fixed for as long as a run lasts.
//!
//! A plan is made from a team file and kept beside the journal under its digest, so that a run
//! that is taken up after a restart decides by the plan that it began with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::call::EffectClass;
use crate::capture::{Capture, Levels};
use crate::chat::ToolSpec;
use crate::entry::Planned;
use crate::hop::Hop;
use crate::id::{Digest, Name};
use crate::money::ModelPrice;

mod limits;
mod served;
mod text;

pub use limits::Limits;
pub use served::Served;
pub use text::{Audience, Prompts, Text};

/// How a model is asked for calls and how its reply is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The provider's own tool calling.
    Native,
    /// One JSON object under a schema, by constrained decoding.
    Schema,
    /// One JSON object with a thought and an action, by a prompt alone.
    Json,
    /// Thought, action and observation as text, by a prompt alone.
    React,
}

impl Dialect {
    /// Returns the word used in config and traces.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Schema => "schema",
            Self::Json => "json",
            Self::React => "react",
        }
    }
}

/// What becomes of a message that comes while a run of its session is in work.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WhenBusy {
    /// It waits until the run is over, and those that came before it.
    #[default]
    Queue,
    /// It is refused.
    Reject,
    /// It ends the run in work and begins its own.
    Interrupt,
    /// It joins the run in work, whose models are shown it before their next turn.
    Steer,
}

impl WhenBusy {
    /// Returns the word used in config.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Reject => "reject",
            Self::Interrupt => "interrupt",
            Self::Steer => "steer",
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One agent of a team, ready to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The team.
    pub team: Name,
    /// The agent.
    pub agent: Name,
    /// What it does, for those who call it.
    pub description: String,
    /// Its system text.
    pub instructions: String,
    /// The model that thinks first; absent means that the actor model does both in one turn.
    pub thinker: Option<Name>,
    /// The model that plans each step, in the thinker's place: it picks one tool and says in words
    /// what that tool is to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<AskedModel>,
    /// The model that makes the calls and the answer.
    pub actor: Name,
    /// How the actor model is asked for calls.
    pub dialect: Dialect,
    /// The word with which the actor model begins a reply that is not the answer yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_word: Option<String>,
    /// Whether arguments that are of another type only by their notation are mended.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub coerce: bool,
    /// The tools and agents that it may call, in the order in which models are told.
    pub tools: Vec<Offer>,
    /// What a run may use at most.
    pub limits: Limits,
    /// The texts that its models read in place of the runtime's own.
    #[serde(default, skip_serializing_if = "Prompts::is_empty")]
    pub prompts: Prompts,
    /// The words of the form in which dialect `json` asks for calls.
    #[serde(default, skip_serializing_if = "Form::is_default")]
    pub form: Form,
    /// Which calls are made, asked for or refused before [`Offer::permission`] is looked at.
    #[serde(default)]
    pub permissions: Permissions,
    /// What the models cost that may answer in a run, as far as that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<Name, ModelPrice>,
    /// What becomes of a message that comes while a run of its session is in work.
    #[serde(default, skip_serializing_if = "WhenBusy::is_default")]
    pub when_busy: WhenBusy,
    /// What is known beforehand of the models that may answer in a run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub served: BTreeMap<Name, Served>,
    /// How much of what is said its traces hold.
    #[serde(default, skip_serializing_if = "Levels::is_none")]
    pub traces: Levels,
    /// Whether a run that does not complete leaves something to the history of its session. Runs of
    /// plans in older journals left nothing, unless a further message ended them.
    #[serde(default, skip_serializing_if = "is_no")]
    pub keeps_unfinished: bool,
    /// By which rules its runs are decided: [`EDITION`] for a plan that is made now. A run goes on by
    /// those of its plan, since a journal has to tell the same whenever it is read.
    #[serde(default, skip_serializing_if = "is_first")]
    pub edition: u32,
}

/// The present rules by which runs are decided. Since 1 only calls that may be made count for
/// `repeats_max`, once a step, and prompts are estimated with the team's own texts, and for the
/// answer of a planner's agent by themselves. Since 2 a reply that cannot be used counts for the next
/// prompt by what is shown of it there, a model that has no price in the plan and stands in all the
/// same is paid at the highest price that is known, calls that are refused take no share of what is
/// left, none is refused for want of money where nothing can cost any, and a probe may answer with a
/// text of JSON or a list of one object, and with 0 or 1 for `done`. Since 3 the history that a run
/// is shown begins with the same exchange for some runs, a turn that ends with its run has a span, and
/// no call is made again when its key is as old as the tool knows it.
pub const EDITION: u32 = 3;

/// The words of dialect `json`: the keys of a reply and the types of the messages that answer it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Form {
    /// The key of the thought.
    pub thought: String,
    /// The key of the action; absent means that name and arguments stand beside the thought.
    pub action: Option<String>,
    /// The key of the tool's name.
    pub function: String,
    /// The key of the arguments.
    pub arguments: String,
    /// The name that ends the work.
    pub ending: String,
    /// The argument of the ending that holds the answer.
    pub answer: String,
    /// The type of a message that tells a result.
    pub success: String,
    /// The type of a message that tells a fault.
    pub error: String,
}

impl Form {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Form {
    fn default() -> Self {
        Self {
            thought: "thought".to_owned(),
            action: Some("action".to_owned()),
            function: "function".to_owned(),
            arguments: "arguments".to_owned(),
            ending: "respond_to_user".to_owned(),
            answer: "answer".to_owned(),
            success: "feedback_success".to_owned(),
            error: "feedback_error".to_owned(),
        }
    }
}

/// What plans did before they said it.
const fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_no(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_first(edition: &u32) -> bool {
    *edition == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_yes(value: &bool) -> bool {
    *value
}

impl Plan {
    /// Returns the plan's bytes and the digest under which they are kept.
    pub fn to_bytes(&self) -> Result<(Digest, Vec<u8>), serde_json::Error> {
        let bytes = serde_json::to_vec(self)?;
        Ok((Digest::of(&bytes), bytes))
    }

    /// Returns the offer of a name.
    pub fn offer(&self, name: &str) -> Option<&Offer> {
        self.tools.iter().find(|offer| offer.spec.name.as_str() == name)
    }

    /// Returns the tool that reads on in results that were cut, if there is one.
    pub fn reader(&self) -> Option<&Name> {
        let reader = self.tools.iter().find(|offer| offer.reads_results);
        reader.map(|offer| &offer.spec.name)
    }

    /// Returns a model that may answer in a run and that has no price.
    pub fn unpriced(&self) -> Option<&Name> {
        self.models().find_map(|model| match self.prices.get(model) {
            Some(price) => price.unpriced.as_ref(),
            None => Some(model),
        })
    }

    /// Iterates over the models that a run may ask, those that stand in for them not counted. One
    /// may come more than once.
    pub fn models(&self) -> impl Iterator<Item = &Name> {
        let of_tools = self.tools.iter().filter_map(|offer| offer.model.as_ref());
        self.turn_models().chain(of_tools)
    }

    /// Iterates over the models that take the turns of a run. One may come more than once.
    pub fn turn_models(&self) -> impl Iterator<Item = &Name> {
        // A model of an offer's own makes the arguments of what a planner selected.
        let planned = self.tools.iter().filter(|_| self.planner.is_some());
        let own = planned.filter_map(|offer| offer.actor.as_ref()).chain(&self.planner);
        own.map(|asked| &asked.model).chain(&self.thinker).chain([&self.actor])
    }

    /// Returns the model that begins a step in the thinker's role, if the actor model does not do
    /// both.
    pub fn thinking_model(&self) -> Option<&Name> {
        self.planner.as_ref().map(|planner| &planner.model).or(self.thinker.as_ref())
    }

    /// Returns the model that acts, and how it is asked: the own one of what the planner selected,
    /// if there is one, else the agent's.
    pub fn acting_model(&self, planned: Option<&Planned>) -> (&Name, Dialect) {
        let offer = planned.and_then(|planned| self.offer(&planned.tool));
        match offer.and_then(|offer| offer.actor.as_ref()) {
            Some(own) => (&own.model, own.dialect),
            None => (&self.actor, self.dialect),
        }
    }
}

/// A model and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedModel {
    /// Its name in the team.
    pub model: Name,
    /// How it is asked.
    pub dialect: Dialect,
}

/// One tool or agent that an agent may call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// What the model is told.
    pub spec: ToolSpec,
    /// What stands behind the name.
    pub target: Target,
    /// What may be repeated.
    pub effect: EffectClass,
    /// The longest time for one call, in milliseconds.
    pub timeout_ms: u64,
    /// What an agent is told, with `{name}` for the argument of that name; absent for tools, and
    /// where the argument `task` is all that it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The model that makes the arguments where a planner selects this; the agent's actor model if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<AskedModel>,
    /// Other names under which a planner may select this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What a call needs that no pattern of the plan's permissions names.
    #[serde(default)]
    pub permission: Permission,
    /// Times that a call may be made while no outcome comes.
    #[serde(default = "unbounded")]
    pub attempts_max: u32,
    /// How long the tool knows the key of a call, in milliseconds; absent means for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_ttl_ms: Option<u64>,
    /// What can be asked about a call whose outcome is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
    /// What follows if the outcome stays unknown.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// Whether the tool can wait for the outcome of a call that an earlier process made.
    #[serde(default, skip_serializing_if = "is_no")]
    pub rejoins: bool,
    /// Milliseconds that a person has to answer a question of a call under way; absent means that
    /// nobody is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_timeout_ms: Option<u64>,
    /// Whether it reads on in results that were cut.
    #[serde(default, skip_serializing_if = "is_no")]
    pub reads_results: bool,
    /// The model that a tool asks; what it uses counts against the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Name>,
    /// What comes in by it, and what goes out.
    #[serde(default, skip_serializing_if = "Labels::is_none")]
    pub labels: Labels,
    /// How its calls leave the process, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<Hop>,
    /// How much of its calls traces may hold at most; as much as the plan says if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<Capture>,
}

/// What comes in by a tool, and what goes out. Words of strangers, private data and effects
/// together are how an agent is turned against its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// Its results may hold words of others than the team and its users. A run that got one is
    /// tainted.
    pub untrusted: bool,
    /// Its results may hold what is not for everyone.
    pub private: bool,
    /// A call changes something outside the runtime, or tells something to somebody there.
    pub external: bool,
}

impl Labels {
    /// Nothing comes in or goes out.
    pub const NONE: Self = Self { untrusted: false, private: false, external: false };

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// Times that a call which changes nothing is made while no outcome comes.
pub const READ_ATTEMPTS_MAX: u32 = 3;

/// Times that a call is made under one key while no outcome comes: more than for one that changes
/// nothing, since giving it up leaves something unknown.
pub const KEYED_ATTEMPTS_MAX: u32 = 5;

impl Offer {
    /// Makes an offer with what follows from its effect class: a tool that must not be repeated
    /// needs leave.
    pub const fn new(spec: ToolSpec, target: Target, effect: EffectClass, timeout_ms: u64) -> Self {
        let permission = match (target, effect) {
            (Target::Tool, EffectClass::Once) => Permission::Ask,
            (Target::Tool, EffectClass::Read | EffectClass::Idempotent) | (Target::Agent, _) => {
                Permission::Allow
            }
        };
        let attempts_max = match effect {
            EffectClass::Read => READ_ATTEMPTS_MAX,
            // One that must not be repeated is made again only where somebody says that nothing
            // came of it.
            EffectClass::Idempotent | EffectClass::Once => KEYED_ATTEMPTS_MAX,
        };
        Self {
            spec,
            target,
            effect,
            timeout_ms,
            task: None,
            actor: None,
            aliases: Vec::new(),
            permission,
            attempts_max,
            key_ttl_ms: None,
            probe: None,
            on_unknown: OnUnknown::Tell,
            rejoins: false,
            question_timeout_ms: None,
            reads_results: false,
            model: None,
            labels: Labels::NONE,
            hop: None,
            capture: None,
        }
    }

    /// Tells whether its calls stay within the runtime, and neither a server, a model nor an agent
    /// hears of them.
    pub const fn is_internal(&self) -> bool {
        match self.target {
            Target::Agent => false,
            Target::Tool => self.hop.is_none() && self.model.is_none(),
        }
    }

    /// Tells whether a call draws on the run's tokens and money.
    pub const fn spends(&self) -> bool {
        match self.target {
            Target::Agent => true,
            Target::Tool => self.model.is_some(),
        }
    }
}

/// Plans of an earlier format know no bound but that of resuming.
const fn unbounded() -> u32 {
    u32::MAX
}

/// What a call needs before it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Nothing.
    #[default]
    Allow,
    /// The leave of a person.
    Ask,
    /// It is not made.
    Deny,
}

/// Patterns of calls, such as `send_mail(to=*@example.com)`. `deny` wins over `ask`, `ask` over
/// `allow_tainted` and `allow`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// Calls that are made without asking, those that go outside only in a run that is not tainted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Calls that are made without asking in a tainted run too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow_tainted: Vec<String>,
    /// Calls that a person has to allow, each by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Calls that are never made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Whether `100.0` is compared as `100` too, and letters are lowered one by one. Plans in older
    /// journals were decided on without.
    #[serde(default, skip_serializing_if = "is_no")]
    pub by_meaning: bool,
}

/// A tool that says whether a call took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The tool; it changes nothing.
    pub tool: Name,
    /// Whether it is given the arguments of the call beside its key.
    pub takes_arguments: bool,
    /// The longest time for one answer, in milliseconds.
    pub timeout_ms: u64,
}

/// What follows if it stays unknown whether a call took effect.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The run waits until a person says what came of it.
    Ask,
    /// The model is told.
    #[default]
    Tell,
    /// The run ends.
    Fail,
}

/// What stands behind the name of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A tool of the team.
    Tool,
    /// Another agent of the team.
    Agent,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn plan() -> Value {
        let spec = |name: &str| json!({"name": name, "description": "", "parameters": {}});
        let offer = |name: &str| json!({"spec": spec(name), "target": "tool", "effect": "read", "timeout_ms": 1});
        let limits = [
            "steps_max",
            "calls_per_step_max",
            "depth_max",
            "tokens_max",
            "reply_tokens_max",
            "feedback_max",
            "resumes_max",
            "deadline_ms",
            "model_timeout_ms",
            "queue_max",
            "history_messages_max",
        ];
        let limits: serde_json::Map<String, Value> =
            limits.iter().map(|name| ((*name).to_owned(), json!(1))).collect();
        json!({
            "team": "t", "agent": "a", "description": "", "instructions": "", "thinker": "big",
            "actor": "small", "dialect": "native", "tools": [offer("x"), offer("y")],
            "limits": limits,
        })
    }

    fn planned(tool: &str) -> Planned {
        serde_json::from_value(json!({"tool": tool, "task": "t"})).unwrap()
    }

    #[test]
    fn a_plan_from_before_there_were_planners_is_read() {
        let plan_of_old: Plan = serde_json::from_value(plan()).unwrap();
        let written = serde_json::to_value(&plan_of_old).unwrap();
        assert_eq!(serde_json::from_value::<Plan>(written.clone()).unwrap(), plan_of_old);
        assert!(plan_of_old.coerce && plan_of_old.planner.is_none());
        // What is left out when it is the default leaves the digests of older plans as they are.
        assert_eq!((plan_of_old.when_busy, written.get("when_busy")), (WhenBusy::Queue, None));
        assert_eq!((plan_of_old.keeps_unfinished, written.get("keeps_unfinished")), (false, None));
        assert_eq!((plan_of_old.edition, written.get("edition")), (0, None));
        let bound = written["limits"].get("history_tokens_max");
        assert_eq!((plan_of_old.limits.history_tokens_max, bound), (None, None));
        assert_eq!(plan_of_old.thinking_model().map(Name::as_str), Some("big"));
    }

    #[test]
    fn what_was_planned_says_who_acts() {
        let mut written = plan();
        written["planner"] = json!({"model": "planner", "dialect": "json"});
        written["thinker"] = Value::Null;
        written["tools"][1]["actor"] = json!({"model": "own", "dialect": "schema"});
        let plan: Plan = serde_json::from_value(written).unwrap();
        assert_eq!(plan.thinking_model().map(Name::as_str), Some("planner"));
        for (planned, model, dialect) in [
            (None, "small", Dialect::Native),
            (Some(planned("x")), "small", Dialect::Native),
            (Some(planned("y")), "own", Dialect::Schema),
            (Some(planned("respond_to_user")), "small", Dialect::Native),
        ] {
            let (found, asked) = plan.acting_model(planned.as_ref());
            assert_eq!((found.as_str(), asked), (model, dialect), "{planned:?}");
        }
    }
}
