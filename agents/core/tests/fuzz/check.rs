//! Reads a mutated reply in every way, and holds the outcome against what must be true of it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use agents_core::dialect::{Parsed, RESPOND_TO_USER, Read, parse, read, toolbox};
use agents_core::validate::{Catalogue, Toolbox, validator};
use jsonschema::Validator;
use serde_json::{Value, json};
use wire::entry::ReadCall;
use wire::plan::Dialect;
use wire::{FinishReason, ModelReply, ModelRole, Planned, Reading, ToolCall};

use crate::agent;
use crate::mutate::{self, Input};
use crate::rng::Rng;

/// What is built once for all executions.
struct World {
    /// The tools without parameters, and with them.
    toolboxes: [Toolbox; 2],
    validators: BTreeMap<&'static str, Validator>,
    agents: BTreeMap<&'static str, [Catalogue; 2]>,
    planning: Vec<Catalogue>,
    thinking: Catalogue,
}

/// How the tags of thoughts end, and what the messages of a reply in channels consist of.
const THINKING: [&str; 10] = [
    "think>",
    "thinking>",
    "thought>",
    "THINK]",
    "THINKING|>",
    "thinking｜>",
    "channel",
    "<|start|>",
    "<|message|>",
    "<|end|>",
];

const DIALECTS: [Dialect; 4] = [Dialect::Native, Dialect::Schema, Dialect::Json, Dialect::React];

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let tools = agent::tools();
    let names: Vec<&str> = tools.iter().map(|(name, _)| *name).collect();
    let full: Vec<Value> = tools
        .iter()
        .map(|(name, parameters)| json!({"function": {"name": name, "parameters": parameters}}))
        .collect();
    World {
        toolboxes: [json!(names), json!(full)].map(|list| toolbox(&list.to_string()).unwrap()),
        validators: tools.iter().map(|(name, it)| (*name, validator(it).unwrap())).collect(),
        agents: DIALECTS.map(|it| (it.as_str(), agent::catalogues(it))).into(),
        planning: DIALECTS.map(agent::planning).into(),
        thinking: agent::thinking(),
    }
});

pub(crate) fn native_input(rng: &mut Rng) -> Input {
    mutate::reply(rng, &["native", "message"], &[])
}

pub(crate) fn schema_input(rng: &mut Rng) -> Input {
    mutate::reply(rng, &["schema"], &[])
}

pub(crate) fn json_input(rng: &mut Rng) -> Input {
    mutate::reply(rng, &["json"], &[])
}

pub(crate) fn react_input(rng: &mut Rng) -> Input {
    mutate::reply(rng, &["react"], &[])
}

pub(crate) fn planner_input(rng: &mut Rng) -> Input {
    mutate::reply(rng, &[], mutate::PLANS)
}

pub(crate) fn native(input: &Input) {
    dialect(Dialect::Native, input);
    provided(input);
}

pub(crate) fn schema(input: &Input) {
    dialect(Dialect::Schema, input);
}

pub(crate) fn json(input: &Input) {
    dialect(Dialect::Json, input);
}

pub(crate) fn react(input: &Input) {
    dialect(Dialect::React, input);
}

/// Reads a text by itself and as the reply of an agent's model, whole and cut.
fn dialect(dialect: Dialect, input: &Input) {
    let world = &*WORLD;
    for (toolbox, has_schemas) in world.toolboxes.iter().zip([false, true]) {
        let parsed = parse(dialect, toolbox, &input.text);
        assert_eq!(parsed, parse(dialect, toolbox, &input.text), "it is read in two ways");
        single(&parsed, has_schemas);
    }
    let [plain, _] = &world.agents[dialect.as_str()];
    let whole = agent::reply(FinishReason::Stop, &input.text, Vec::new());
    let made = sound(plain, None, &whole);
    cut_gives_no_more(plain, None, &whole, &made, input);
    let [_, going_on] = &world.agents[dialect.as_str()];
    sound(going_on, None, &whole);
}

fn single(parsed: &Parsed, has_schemas: bool) {
    match parsed {
        Parsed::ToolCalls { calls } => {
            assert!(!calls.is_empty(), "no calls are read as calls");
            for call in calls {
                let validator = WORLD.validators.get(call.name.as_str());
                let validator = validator.unwrap_or_else(|| panic!("{call:?} is not offered"));
                assert!(!has_schemas || validator.is_valid(&call.arguments), "{call:?} is faulty");
            }
        }
        Parsed::Final { text } => assert!(!text.trim().is_empty(), "nothing is read as an answer"),
        Parsed::Error { why, .. } => assert!(!why.is_empty(), "a fault says nothing"),
    }
}

/// Reads the text as the arguments of a call that the provider reports, whole and cut.
fn provided(input: &Input) {
    let world = &*WORLD;
    let [plain, _] = &world.agents[Dialect::Native.as_str()];
    let names = ["weather", "sum", "note", "clock", RESPOND_TO_USER];
    let name = names[usize::try_from(input.choice % 5).unwrap()];
    let call = |arguments: &str| ToolCall {
        id: "1".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let first = call(r#"{"city": "Oslo"}"#);
    let whole = agent::reply(FinishReason::ToolCalls, "", vec![first.clone(), call(&input.text)]);
    let made = sound(plain, None, &whole);
    let short = prefix(&input.text, input.choice);
    for arguments in [input.text.as_str(), short] {
        let cut = ModelReply {
            finish: FinishReason::Length,
            calls: vec![first.clone(), call(arguments)],
            ..whole.clone()
        };
        let cut_made = sound(plain, None, &cut);
        // A first call that is faulty here, as no call is, would say nothing about the second.
        if arguments.len() == input.text.len() || made.len() == whole.calls.len() {
            among(&cut_made, &made, arguments);
        }
    }
}

/// Reads the text as the planner's reply, and as that of a model that does what was planned.
pub(crate) fn planner(input: &Input) {
    let world = &*WORLD;
    let thinking = agent::reply(FinishReason::Stop, &input.text, Vec::new());
    sound(&world.thinking, None, &thinking);
    let at = usize::try_from(input.choice % 4).unwrap();
    let planning = &world.planning[at];
    for finish in [FinishReason::Stop, FinishReason::Length] {
        let reply = ModelReply { finish, ..thinking.clone() };
        let planned = reading(ModelRole::Thinker, planning, None, &reply);
        let Reading::Planned(Planned { tool, task, .. }) = &planned else { continue };
        let answers = tool == RESPOND_TO_USER;
        assert!(answers || planning.plan().offer(tool).is_some(), "{tool} is not offered");
        assert!(answers || !task.is_empty(), "nothing is planned");
        if finish == FinishReason::Length {
            let whole = read(ModelRole::Thinker, planning, None, &thinking);
            assert_eq!(planned, whole.reading, "a cut plan is another one");
        }
    }
    let tools = ["weather", "sum", "note", "clock", RESPOND_TO_USER];
    let planned = agent::planned(tools[usize::try_from(input.choice / 4 % 5).unwrap()]);
    let made = sound(planning, Some(&planned), &thinking);
    assert!(made.iter().all(|call| call.name == planned.tool), "{made:?} was not planned");
    cut_gives_no_more(planning, Some(&planned), &thinking, &made, input);
}

/// Reads a reply, twice.
fn reading(
    role: ModelRole,
    catalogue: &Catalogue,
    planned: Option<&Planned>,
    reply: &ModelReply,
) -> Reading {
    let Read { reading: first, unread, reasoning: _, faults } =
        read(role, catalogue, planned, reply);
    let again = read(role, catalogue, planned, reply);
    assert_eq!(first, again.reading, "it is read in two ways");
    assert_eq!(faults, [], "a text of ours failed");
    if let Some(unread) = unread {
        let bytes = usize::try_from(unread.bytes).unwrap();
        assert!(0 < bytes && bytes < reply.content.len(), "{bytes} bytes were not read");
    }
    first
}

/// Reads a reply of the acting model, or of a thinker, and returns the calls that may run.
fn sound(catalogue: &Catalogue, planned: Option<&Planned>, reply: &ModelReply) -> Vec<ReadCall> {
    let thinks = catalogue.plan().thinker.is_some();
    let role = if thinks { ModelRole::Thinker } else { ModelRole::Actor };
    match reading(role, catalogue, planned, reply) {
        Reading::Thought { text } => {
            assert!(thinks && !text.trim().is_empty(), "nothing is thought");
            Vec::new()
        }
        Reading::Continued { .. } => {
            assert!(catalogue.plan().continue_word.is_some(), "nobody goes on");
            Vec::new()
        }
        Reading::Planned(planned) => panic!("nobody plans: {planned:?}"),
        Reading::Final { text } => {
            let may_be_empty = catalogue.plan().continue_word.is_some();
            assert!(may_be_empty || !text.trim().is_empty(), "nothing is read as an answer");
            Vec::new()
        }
        Reading::Cut { .. } => {
            assert_eq!(reply.finish, FinishReason::Length, "a whole answer is read as cut");
            Vec::new()
        }
        Reading::Fault { feedback, .. } => {
            assert!(!feedback.message.is_empty(), "a fault says nothing");
            Vec::new()
        }
        Reading::Calls { mut calls, .. } => {
            assert!(!thinks && !calls.is_empty(), "no calls are read as calls");
            calls.retain(|call| call.fault.is_none());
            for call in &calls {
                let validator = WORLD.validators.get(call.name.as_str());
                let validator = validator.unwrap_or_else(|| panic!("{call:?} is not offered"));
                assert!(validator.is_valid(&call.arguments), "{call:?} is faulty");
            }
            calls
        }
    }
}

/// A reply that its token limit cut gives no call that the whole one does not give: neither where
/// the same text is said to be cut, nor where the text is cut somewhere.
fn cut_gives_no_more(
    catalogue: &Catalogue,
    planned: Option<&Planned>,
    whole: &ModelReply,
    made: &[ReadCall],
    input: &Input,
) {
    let cut = ModelReply { finish: FinishReason::Length, ..whole.clone() };
    among(&sound(catalogue, planned, &cut), made, &whole.content);
    let short = prefix(&input.text, input.choice);
    // Where the end of the text makes a fault or an answer of what precedes it, or takes it for
    // thinking, the whole is no measure.
    if !made.is_empty() && thinking_tags(short) == thinking_tags(&input.text) {
        let cut = ModelReply { content: short.into(), ..cut };
        among(&sound(catalogue, planned, &cut), made, short);
    }
}

/// Counts what begins and ends thoughts in a text, and the backticks that may quote it.
fn thinking_tags(text: &str) -> usize {
    let tags: usize = THINKING.iter().map(|tag| text.matches(tag).count()).sum();
    if tags == 0 { 0 } else { tags + text.matches('`').count() }
}

fn among(cut: &[ReadCall], whole: &[ReadCall], text: &str) {
    let same = |call: &ReadCall, other: &ReadCall| {
        call.name == other.name && call.arguments == other.arguments
    };
    for call in cut {
        let found = whole.iter().any(|other| same(call, other));
        assert!(found, "{text:?}, cut, gives {call:?}, which the whole does not give: {whole:?}");
    }
}

/// Returns a beginning of a text.
fn prefix(text: &str, choice: u64) -> &str {
    let at = usize::try_from(choice % (text.len() as u64 + 1)).unwrap();
    &text[..text.floor_char_boundary(at)]
}
