//! What a template may name, and what stands for it.

use minijinja::Value;
use minijinja::value::Serde;
use serde_json::json;
use wire::entry::{Feedback, Reason};
use wire::plan::{Audience, Dialect, Form, Offer, Text};
use wire::{Name, Plan, Planned};

use super::super::{Act, Called, RESPOND_TO_USER, Step, form, shown, union};
use super::ANSWER_DESCRIPTION;

/// A name that a template may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The agent's name.
    Agent,
    /// What the agent does.
    Description,
    /// The agent's instructions.
    Instructions,
    /// Who reads the text.
    Reader,
    /// The dialect of the model that acts.
    Dialect,
    /// Whether a thinker precedes the actor model.
    HasThinker,
    /// The tools in order.
    Tools,
    /// The way out.
    RespondToUser,
    /// The words of dialect `json`.
    Form,
    /// What the planner selected.
    Selected,
    /// The task that the planner states.
    Task,
    /// The steps that the planner had done.
    Steps,
    /// What the user wants.
    Request,
    /// Whether nothing stands between this message and the question.
    Last,
    /// Whether this is the first of its kind.
    First,
    /// The number of the call in the run.
    Number,
    /// The name that was called.
    Name,
    /// The arguments.
    Arguments,
    /// The arguments as the model wrote them.
    Raw,
    /// The call as one object of the dialect.
    Json,
    /// The thinker's thought.
    Thought,
    /// What the model said beside its calls.
    Text,
    /// What the model wrote up to the end of the call.
    Reply,
    /// The tool that was called.
    Tool,
    /// The answer as text.
    Result,
    /// The answer as a value.
    Value,
    /// The error that the answer is.
    Error,
    /// The kind of fault.
    Code,
    /// Which fault it is.
    Reason,
    /// What is wrong, in a sentence.
    Message,
    /// Each fault by itself.
    Faults,
    /// What the reply or the arguments have to obey.
    Schema,
    /// The names that would have been valid.
    ValidNames,
    /// The needed arguments that are not there.
    Missing,
    /// The arguments that the tool does not have.
    Unknown,
    /// Everything about the fault as one object.
    Feedback,
    /// Whether the model is asked to reply again.
    Again,
}

impl Fact {
    /// Returns the name as templates write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Description => "description",
            Self::Instructions => "instructions",
            Self::Reader => "reader",
            Self::Dialect => "dialect",
            Self::HasThinker => "has_thinker",
            Self::Tools => "tools",
            Self::RespondToUser => "respond_to_user",
            Self::Form => "form",
            Self::Selected => "selected",
            Self::Task => "task",
            Self::Steps => "steps",
            Self::Request => "request",
            Self::Last => "last",
            Self::First => "first",
            Self::Number => "number",
            Self::Name => "name",
            Self::Arguments => "arguments",
            Self::Raw => "raw",
            Self::Json => "json",
            Self::Thought => "thought",
            Self::Text => "text",
            Self::Reply => "reply",
            Self::Tool => "tool",
            Self::Result => "result",
            Self::Value => "value",
            Self::Error => "error",
            Self::Code => "code",
            Self::Reason => "reason",
            Self::Message => "message",
            Self::Faults => "faults",
            Self::Schema => "schema",
            Self::ValidNames => "valid_names",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
            Self::Feedback => "feedback",
            Self::Again => "again",
        }
    }
}

/// Returns what the template of a text may name.
pub fn facts(text: Text) -> impl Iterator<Item = Fact> {
    use Fact as F;
    let plan: &[Fact] = &[
        F::Agent,
        F::Description,
        F::Instructions,
        F::Reader,
        F::Dialect,
        F::HasThinker,
        F::Tools,
        F::RespondToUser,
        F::Form,
        F::Selected,
        F::Task,
    ];
    let call: &[Fact] =
        &[F::Steps, F::Request, F::Number, F::Name, F::Arguments, F::Tool, F::First];
    let fault: &[Fact] = &[
        F::Code,
        F::Reason,
        F::Message,
        F::Faults,
        F::Schema,
        F::ValidNames,
        F::Missing,
        F::Unknown,
    ];
    let own: [&[Fact]; 3] = match text {
        Text::System | Text::Opening => [&[F::Steps], &[], &[]],
        Text::Request => [&[F::Steps, F::Request, F::First, F::Last], &[], &[]],
        Text::Call => [call, &[F::Raw, F::Json, F::Thought, F::Text, F::Reply], &[]],
        Text::Result => [call, &[F::Result, F::Value, F::Error, F::Last], &[]],
        Text::Feedback => [call, &[F::Raw, F::Result, F::Feedback, F::Last, F::Again], fault],
        Text::Fault => [&[F::Name], &[], fault],
        Text::Thought => [&[F::Request, F::Thought], &[], &[]],
        Text::Cut => [&[F::Thought], &[], &[]],
        Text::GoOn => [&[F::Request, F::Text], &[], &[]],
        Text::Ask => [&[F::Steps, F::Request, F::Thought, F::First], &[], &[]],
    };
    plan.iter().chain(own.into_iter().flatten()).copied()
}

/// What is the same in all texts of a plan.
#[derive(Debug)]
pub(super) struct PlanFacts {
    agent: Value,
    description: Value,
    instructions: Value,
    pub(super) dialect: Dialect,
    has_thinker: bool,
    /// The tools in order, and the way out.
    tools: Vec<(Name, Value)>,
    tool_list: Value,
    respond_to_user: Value,
    words: Form,
    form: Value,
}

impl PlanFacts {
    pub(super) fn new(plan: &Plan) -> Self {
        let tool = |offer: &Offer| {
            let tool = json!({
                "name": offer.spec.name,
                "description": offer.spec.description,
                "parameters": offer.spec.parameters,
                "effect": offer.effect,
            });
            (offer.spec.name.clone(), Value::from(Serde(tool)))
        };
        let tools: Vec<(Name, Value)> = plan.tools.iter().map(tool).collect();
        Self {
            agent: plan.agent.as_str().into(),
            description: plan.description.as_str().into(),
            instructions: plan.instructions.as_str().into(),
            has_thinker: plan.thinker.is_some(),
            tool_list: tools.iter().map(|(_, tool)| tool.clone()).collect(),
            tools,
            ..Self::without_plan(plan.dialect, &plan.form)
        }
    }

    /// Makes what is known where a reply is read by itself.
    pub(super) fn without_plan(dialect: Dialect, words: &Form) -> Self {
        let (ending, answer) = match dialect {
            Dialect::Json => (words.ending.as_str(), words.answer.as_str()),
            Dialect::Native | Dialect::Schema | Dialect::React => (RESPOND_TO_USER, "answer"),
        };
        Self {
            agent: "".into(),
            description: "".into(),
            instructions: "".into(),
            dialect,
            has_thinker: false,
            tools: Vec::new(),
            tool_list: Vec::<Value>::new().into(),
            respond_to_user: way_out(ending, answer),
            words: words.clone(),
            form: Value::from(Serde(words)),
        }
    }

    /// Returns what stands behind a name: a tool, or a way out.
    fn tool(&self, name: &str) -> Value {
        if let Some((_, tool)) = self.tools.iter().find(|(known, _)| known.as_str() == name) {
            return tool.clone();
        }
        let endings = form::endings(&self.words);
        let ending = endings.iter().find(|ending| ending.name == name);
        ending.map_or(Value::from(()), |ending| way_out(ending.name, ending.answer))
    }

    /// Writes a call as one object of the dialect.
    pub(super) fn object(&self, scene: &Scene<'_>) -> serde_json::Value {
        let Some(call) = scene.call else { return serde_json::Value::Null };
        let (name, arguments) = (&call.read.name, arguments(call));
        let said = if scene.text.is_empty() { scene.thought } else { scene.text };
        match scene.dialect.unwrap_or(self.dialect) {
            Dialect::Native => json!({"name": name, "arguments": arguments}),
            Dialect::Schema if scene.text.is_empty() => {
                json!({"tool": name, "arguments": arguments})
            }
            Dialect::Schema => {
                json!({"thought": scene.text, "tool": name, "arguments": arguments})
            }
            Dialect::Json => form::object(&self.words, said, name, &arguments),
            Dialect::React => json!({"action": name, "action_input": arguments}),
        }
    }
}

fn way_out(name: &str, answer: &str) -> Value {
    Value::from(Serde(json!({
        "name": name,
        "description": ANSWER_DESCRIPTION,
        "parameters": union::text_parameter(answer),
    })))
}

/// Returns the arguments of a call, or as the model wrote them if they are no JSON.
fn arguments(call: &Called) -> serde_json::Value {
    match call.read.arguments.as_ref() {
        serde_json::Value::Null => shown(&call.read.raw).into(),
        arguments => arguments.clone(),
    }
}

/// What one text is about; what it is not about is left empty.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Scene<'a> {
    pub(in super::super) request: &'a str,
    /// How the model that acts is asked, if not as the agent's actor model.
    pub(in super::super) dialect: Option<Dialect>,
    /// What the planner wants done.
    pub(in super::super) planned: Option<&'a Planned>,
    /// The steps that the planner had done.
    pub(in super::super) steps: &'a [Step],
    /// The step in work, in which the user may have said something more.
    pub(in super::super) in_work: Option<&'a Step>,
    /// The thought of the step, empty where there is none or where it was told before.
    pub(in super::super) thought: &'a str,
    /// What the model said beside its calls.
    pub(in super::super) text: &'a str,
    pub(in super::super) call: Option<&'a Called>,
    /// The call's number in the run, from 1.
    pub(in super::super) number: usize,
    pub(in super::super) feedback: Option<&'a Feedback>,
    /// A reply that cannot be used.
    pub(in super::super) raw: &'a str,
    pub(in super::super) first: bool,
    pub(in super::super) last: bool,
    pub(in super::super) again: bool,
}

impl Scene<'_> {
    /// Tells the steps, and in its place what the user said more; who carries out a task is told
    /// the task, in which the planner has seen to that.
    fn so_far(&self, reader: Audience) -> Value {
        let heeds = match reader {
            Audience::Thinker | Audience::Actor | Audience::Planner | Audience::Answer => true,
            Audience::Task => false,
        };
        let steps = self.steps.iter().map(|step| (step, done(step)));
        let in_work = self.in_work.map(|step| (step, None));
        let told = steps.chain(in_work).flat_map(|(step, done)| {
            let added = heeds.then(|| added(step)).into_iter().flatten();
            added.chain(done)
        });
        told.collect()
    }

    /// Returns what stands for a name; `none` where the scene has no such thing.
    pub(super) fn value(&self, fact: Fact, reader: Audience, plan: &PlanFacts) -> Value {
        let read = self.call.map(|call| &call.read);
        match fact {
            Fact::Agent => plan.agent.clone(),
            Fact::Description => plan.description.clone(),
            Fact::Instructions => plan.instructions.clone(),
            Fact::Reader => reader.as_str().into(),
            Fact::Dialect => self.dialect.unwrap_or(plan.dialect).as_str().into(),
            Fact::HasThinker => plan.has_thinker.into(),
            Fact::Tools => plan.tool_list.clone(),
            Fact::RespondToUser => plan.respond_to_user.clone(),
            Fact::Form => plan.form.clone(),
            Fact::Selected => self.planned.map(|planned| plan.tool(&planned.tool)).into(),
            Fact::Task => self.planned.map_or("", |planned| planned.task.as_str()).into(),
            Fact::Steps => self.so_far(reader),
            Fact::Request => self.request.into(),
            Fact::Last => self.last.into(),
            Fact::First => self.first.into(),
            Fact::Again => self.again.into(),
            Fact::Number => read.map(|_| self.number).into(),
            Fact::Name => read.map(|read| read.name.as_str()).into(),
            Fact::Arguments => self.call.map(|call| Value::from(Serde(arguments(call)))).into(),
            Fact::Raw => read.map_or_else(|| shown(self.raw), |read| shown(&read.raw)).into(),
            Fact::Json => Value::from(Serde(plan.object(self))),
            Fact::Thought => self.thought.into(),
            Fact::Text => self.text.into(),
            Fact::Reply => match read {
                Some(read) if !read.written.is_empty() => read.written.as_str().into(),
                Some(_) | None => plan.object(self).to_string().into(),
            },
            Fact::Tool => read.map(|read| plan.tool(&read.name)).into(),
            Fact::Result => self.result().into(),
            Fact::Value => {
                let result = self.result();
                let value = serde_json::from_str(&result);
                Value::from(Serde(value.unwrap_or(serde_json::Value::String(result))))
            }
            Fact::Error => error(&self.result()).map(|error| Value::from(Serde(error))).into(),
            Fact::Code => self.feedback.map(|feedback| feedback.code.as_str()).into(),
            Fact::Reason => {
                let reason = self.feedback.and_then(|feedback| feedback.reason);
                reason.map(Reason::as_str).into()
            }
            Fact::Message => self.feedback.map(|feedback| feedback.message.as_str()).into(),
            Fact::Faults => {
                Value::from(Serde(self.feedback.map_or(&[][..], |feedback| &feedback.faults)))
            }
            Fact::Schema => Value::from(Serde(self.schema())),
            Fact::ValidNames => {
                Value::from(Serde(self.feedback.map_or(&[][..], |feedback| &feedback.valid_names)))
            }
            Fact::Missing => self.missing(),
            Fact::Unknown => self.unknown(),
            Fact::Feedback => Value::from(Serde(self.feedback.map(Feedback::told))),
        }
    }

    fn result(&self) -> String {
        match (self.call.and_then(|call| call.result.clone()), self.feedback) {
            (Some(result), _) => result,
            (None, Some(feedback)) => feedback.to_text(),
            (None, None) => String::new(),
        }
    }

    fn schema(&self) -> Option<&serde_json::Value> {
        self.feedback?.schema.as_ref()
    }

    fn given(&self) -> Option<&serde_json::Map<String, serde_json::Value>> {
        self.call?.read.arguments.as_object()
    }

    /// Lists the arguments that the schema needs and that are not there.
    fn missing(&self) -> Value {
        let schema = self.schema().filter(|_| self.call.is_some());
        let required = schema.and_then(|schema| schema.get("required")?.as_array());
        let is_given = |name: &str| self.given().is_some_and(|given| given.contains_key(name));
        let names = required.into_iter().flatten().filter_map(serde_json::Value::as_str);
        names.filter(|name| !is_given(name)).collect()
    }

    /// Lists the arguments that the schema does not have.
    fn unknown(&self) -> Value {
        let Some(schema) = self.schema() else { return Vec::<&str>::new().into_iter().collect() };
        let known = schema.get("properties").and_then(serde_json::Value::as_object);
        let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
        let given = self.given().into_iter().flat_map(serde_json::Map::keys);
        given.map(String::as_str).filter(|name| !is_known(name)).collect()
    }
}

/// Tells a step that is over and came to something: what was wanted, and what the calls came to or
/// what was answered.
fn done(step: &Step) -> Option<Value> {
    let called = step.acts.iter().rev().find_map(Act::settled);
    let answer = step.acts.iter().find_map(|act| match act {
        Act::Answered { text } => Some(text),
        Act::Calls { .. } | Act::Continued { .. } | Act::Steered { .. } | Act::Feedback { .. } => {
            None
        }
    });
    if called.is_none() && answer.is_none() {
        return None;
    }
    let results = called.into_iter().flat_map(|(_, calls)| calls);
    let results: Vec<&str> = results.filter_map(|call| call.result.as_deref()).collect();
    let planned = step.planned.as_ref();
    Some(Value::from(Serde(json!({
        "tool": planned.map(|planned| &planned.tool),
        "task": planned.map(|planned| &planned.task),
        "thoughts": planned.map(|planned| &planned.thoughts),
        "summary": planned.map(|planned| &planned.summary),
        "result": results.join("\n"),
        "answer": answer,
    }))))
}

/// Tells what the user said more in a step.
fn added(step: &Step) -> impl Iterator<Item = Value> {
    let said = step.acts.iter().filter_map(Act::steered);
    said.map(|text| Value::from(Serde(json!({"added": text}))))
}

/// Returns the error of a result that is nothing else.
fn error(result: &str) -> Option<serde_json::Value> {
    let value: serde_json::Value = serde_json::from_str(result).ok()?;
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.get("error").filter(|error| error.is_object()).cloned()
}
