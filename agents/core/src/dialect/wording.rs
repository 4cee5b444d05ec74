//! Every text that a model reads: templates of our own, and those that a team sets in their place.
//!
//! Our own stand in `prompts`, one folder for each way in which a model is spoken to. A template
//! that fails while a run is under way is replaced by our own for that one text, so that a run
//! never hangs on it; `callboard check` finds such a template before.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use wire::plan::{Audience, Dialect, Form, Text};
use wire::{Plan, Reading};

mod default;
mod engine;
pub(super) mod fact;
mod fault;
mod filter;
mod trial;

pub use engine::TEXT_BYTES_MAX;
pub use fact::facts;
pub(super) use trial::faults;
#[cfg(test)]
pub(super) use trial::turns;

use engine::Template;
pub(super) use fact::Scene;
use fact::{Fact, PlanFacts};

/// What the way out of a run does, as models are told.
const ANSWER_DESCRIPTION: &str = "Gives the user the final answer and ends the work.";

/// The ways in which a model is spoken to; each has its own defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Voice {
    Thinker,
    Actor(Dialect),
    Planner,
    Task,
    Answer,
}

impl Voice {
    const ALL: [Self; 8] = [
        Self::Thinker,
        Self::Actor(Dialect::Native),
        Self::Actor(Dialect::Schema),
        Self::Actor(Dialect::Json),
        Self::Actor(Dialect::React),
        Self::Planner,
        Self::Task,
        Self::Answer,
    ];

    const fn to(audience: Audience, dialect: Dialect) -> Self {
        match audience {
            Audience::Thinker => Self::Thinker,
            Audience::Actor => Self::Actor(dialect),
            Audience::Planner => Self::Planner,
            Audience::Task => Self::Task,
            Audience::Answer => Self::Answer,
        }
    }
}

static DEFAULTS: LazyLock<HashMap<(Voice, Text), Template>> = LazyLock::new(|| {
    let mut environment = engine::environment();
    let mut named = Vec::new();
    for voice in Voice::ALL {
        for text in Text::ALL {
            let name = format!("{voice:?} {}", text.as_str());
            let source = default::source(voice, text);
            // That each of them compiles is tested below.
            if let Ok((uses, short)) = engine::add(&mut environment, &name, text, source) {
                named.push(((voice, text), name, uses, short));
            }
        }
    }
    let environment = Arc::new(environment);
    let template =
        |name, uses, short| Template { environment: environment.clone(), name, uses, short };
    named.into_iter().map(|(key, name, uses, short)| (key, template(name, uses, short))).collect()
});

/// What is wrong with a template of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFault {
    /// Who reads the text.
    pub audience: Audience,
    /// Which text it is.
    pub text: Text,
    /// What is wrong.
    pub message: String,
    /// The bytes of the template that are at fault, if that is known.
    pub span: Option<std::ops::Range<usize>>,
}

impl fmt::Display for TextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prompts.{}.{}: {}", self.audience.as_str(), self.text.as_str(), self.message)
    }
}

/// The texts of a plan, compiled once for all of its runs.
#[derive(Debug)]
pub struct Wording {
    facts: PlanFacts,
    /// One for each of [`Audience::ALL`], in that order.
    texts: [Texts; Audience::ALL.len()],
    faults: Vec<TextFault>,
}

impl Wording {
    /// Compiles the texts of a plan. One that does not compile is replaced by our own.
    pub fn new(plan: &Plan) -> Self {
        let facts = PlanFacts::new(plan);
        let mut faults = Vec::new();
        let texts = Audience::ALL.map(|audience| Texts::new(plan, audience, &facts, &mut faults));
        Self { facts, texts, faults }
    }

    /// Begins the texts of one prompt.
    pub(super) fn of(&self, audience: Audience) -> Speaker<'_> {
        let faults = self.faults.iter().filter(|fault| fault.audience == audience);
        Speaker { faults: faults.cloned().collect(), ..self.hearing(audience) }
    }

    /// Begins the texts that tell what a reply was read as.
    pub(super) fn hearing(&self, audience: Audience) -> Speaker<'_> {
        let [thinker, actor, planner, task, answer] = &self.texts;
        let texts = match audience {
            Audience::Thinker => thinker,
            Audience::Actor => actor,
            Audience::Planner => planner,
            Audience::Task => task,
            Audience::Answer => answer,
        };
        Speaker { texts, facts: &self.facts, faults: Vec::new() }
    }

    /// Returns what an audience is told before everything else.
    pub(super) fn before(&self, audience: Audience, scene: &Scene<'_>) -> String {
        let mut speaker = self.of(audience);
        let parts = [Text::System, Text::Opening].map(|text| speaker.render(text, scene));
        let parts: Vec<&str> =
            parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }
}

/// Says in our own words what is wrong with a reply that was read by itself.
pub(super) fn worded(dialect: Dialect, reading: Reading) -> Reading {
    let fault = DEFAULTS.get(&(Voice::Actor(dialect), Text::Fault)).cloned();
    let templates = BTreeMap::from([(Text::Fault, fault.into_iter().collect())]);
    let texts = Texts { audience: Audience::Actor, templates, fixed: BTreeMap::new() };
    let facts = PlanFacts::without_plan(dialect, &Form::default());
    let mut speaker = Speaker { texts: &texts, facts: &facts, faults: Vec::new() };
    speaker.worded(reading, &Scene::default())
}

/// The texts for one audience.
#[derive(Debug)]
struct Texts {
    audience: Audience,
    /// For each text the team's own template, if it has one, and then ours.
    templates: BTreeMap<Text, Vec<Template>>,
    /// Those that are the same in every prompt of a plan.
    fixed: BTreeMap<Text, String>,
}

impl Texts {
    fn new(
        plan: &Plan,
        audience: Audience,
        facts: &PlanFacts,
        faults: &mut Vec<TextFault>,
    ) -> Self {
        let mut environment = engine::environment();
        let mut own = HashMap::new();
        for (text, source) in plan.prompts.of(audience) {
            match engine::add(&mut environment, text.as_str(), *text, source) {
                Ok(uses) => drop(own.insert(*text, uses)),
                Err((message, span)) => {
                    faults.push(TextFault { audience, text: *text, message, span });
                }
            }
        }
        let environment = Arc::new(environment);
        let voice = Voice::to(audience, plan.dialect);
        let chain = |text: Text| {
            let name = text.as_str().to_owned();
            let own = own.remove(&text).map(|(uses, short)| Template {
                environment: environment.clone(),
                name,
                uses,
                short,
            });
            (text, own.into_iter().chain(DEFAULTS.get(&(voice, text)).cloned()).collect())
        };
        let templates = Text::ALL.map(chain).into_iter().collect();
        let mut texts = Self { audience, templates, fixed: BTreeMap::new() };
        for text in [Text::System, Text::Opening] {
            let changes = |fact: &Fact| texts.uses(text, *fact);
            if ![Fact::Selected, Fact::Task, Fact::Steps, Fact::Dialect].iter().any(changes) {
                let rendered = texts.render(text, &Scene::default(), facts, faults);
                texts.fixed.insert(text, rendered);
            }
        }
        texts
    }

    fn uses(&self, text: Text, fact: Fact) -> bool {
        let mut templates = self.templates.get(&text).into_iter().flatten();
        templates.any(|template| template.uses.contains(&fact))
    }

    /// Renders a text by the first of its templates that does not fail.
    fn render(
        &self,
        text: Text,
        scene: &Scene<'_>,
        facts: &PlanFacts,
        faults: &mut Vec<TextFault>,
    ) -> String {
        if let Some(rendered) = self.fixed.get(&text) {
            return rendered.clone();
        }
        let audience = self.audience;
        for template in self.templates.get(&text).into_iter().flatten() {
            match template.render(|fact| scene.value(fact, audience, facts)) {
                Ok(rendered) => return rendered,
                Err((message, span)) => {
                    faults.push(TextFault { audience, text, message, span });
                }
            }
        }
        String::new()
    }
}

/// Speaks to one audience in one prompt, and notes which texts failed.
pub(super) struct Speaker<'w> {
    texts: &'w Texts,
    facts: &'w PlanFacts,
    pub(super) faults: Vec<TextFault>,
}

impl<'w> Speaker<'w> {
    /// Returns a text that is the same in every prompt of a plan.
    pub(super) fn fixed(&self, text: Text) -> Option<&'w str> {
        self.texts.fixed.get(&text).map(String::as_str)
    }

    pub(super) fn render(&mut self, text: Text, scene: &Scene<'_>) -> String {
        self.texts.render(text, scene, self.facts, &mut self.faults)
    }

    /// Renders our own text, whatever the team set in its place.
    fn ours(&mut self, text: Text, scene: &Scene<'_>) -> String {
        let ours = self.texts.templates.get(&text).and_then(|templates| templates.last());
        let audience = self.texts.audience;
        let rendered = ours.map(|ours| ours.render(|fact| scene.value(fact, audience, self.facts)));
        match rendered {
            Some(Ok(rendered)) => rendered,
            Some(Err((message, span))) => {
                self.faults.push(TextFault { audience, text, message, span });
                String::new()
            }
            None => String::new(),
        }
    }

    /// Tells whether the team sets a text.
    fn is_set(&self, text: Text) -> bool {
        self.texts.templates.get(&text).is_some_and(|templates| templates.len() > 1)
    }

    /// Tells whether a text may name a fact, and so may change with it.
    pub(super) fn uses(&self, text: Text, fact: Fact) -> bool {
        self.texts.uses(text, fact)
    }

    /// Writes a call as one object of the dialect.
    pub(super) fn object(&self, scene: &Scene<'_>) -> serde_json::Value {
        self.facts.object(scene)
    }
}

#[cfg(test)]
mod tests;
