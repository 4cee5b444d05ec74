//! Every text that a model reads: templates of our own, and those that a team sets in their place.
//!
//! Our own stand in `prompts`, one folder for each way in which a model is spoken to. A template
//! that fails while a run is under way is replaced by our own for that one text, so that a run
//! never hangs on it; `callboard check` finds such a template before.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use wire::plan::{Audience, Dialect, Form, Prompts, Text};
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

use engine::{Fault, Template};
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

/// Templates for one reader, by what they say.
type Templates = HashMap<Text, Template>;

/// Our own templates; those of a voice are compiled once it is heard, since most teams have few.
static OURS: LazyLock<HashMap<Voice, OnceLock<Templates>>> =
    LazyLock::new(|| Voice::ALL.map(|voice| (voice, OnceLock::new())).into());

/// Returns our own template of a text.
fn ours(voice: Voice, text: Text) -> Option<&'static Template> {
    let sources = || Text::ALL.map(|text| (text, default::source(voice, text)));
    // That each of them compiles is tested below.
    OURS.get(&voice)?.get_or_init(|| compiled(sources()).0).get(&text)
}

/// Compiles templates; what is wrong with one comes with its text.
fn compiled<'s>(
    sources: impl IntoIterator<Item = (Text, &'s str)>,
) -> (Templates, Vec<(Text, Fault)>) {
    let mut environment = engine::environment();
    let (mut sound, mut faults) = (Vec::new(), Vec::new());
    for (text, source) in sources {
        match engine::add(&mut environment, text, source) {
            Ok(parts) => sound.push((text, parts)),
            Err(fault) => faults.push((text, fault)),
        }
    }
    let environment = Arc::new(environment);
    let template = |(text, (uses, short))| {
        (text, Template { environment: environment.clone(), text, uses, short })
    };
    (sound.into_iter().map(template).collect(), faults)
}

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

/// The texts of a plan, those for an audience compiled once, when the first of them is needed.
#[derive(Debug)]
pub struct Wording {
    facts: PlanFacts,
    /// The team's own texts.
    prompts: Prompts,
    /// One for each of [`Audience::ALL`], in that order.
    texts: [OnceLock<Texts>; Audience::ALL.len()],
}

impl Wording {
    /// Takes the texts of a plan. One that does not compile is replaced by our own.
    pub fn new(plan: &Plan) -> Self {
        let (facts, prompts) = (PlanFacts::new(plan), plan.prompts.clone());
        Self { facts, prompts, texts: Default::default() }
    }

    fn texts(&self, audience: Audience) -> &Texts {
        let [thinker, actor, planner, task, answer] = &self.texts;
        let texts = match audience {
            Audience::Thinker => thinker,
            Audience::Actor => actor,
            Audience::Planner => planner,
            Audience::Task => task,
            Audience::Answer => answer,
        };
        texts.get_or_init(|| Texts::new(audience, self.prompts.of(audience), &self.facts))
    }

    /// Lists the templates that fail whatever happens in a run.
    fn faults(&self) -> Vec<TextFault> {
        Audience::ALL.iter().flat_map(|audience| self.texts(*audience).faults.clone()).collect()
    }

    /// Begins the texts of one prompt.
    pub(super) fn of(&self, audience: Audience) -> Speaker<'_> {
        let speaker = self.hearing(audience);
        Speaker { faults: speaker.texts.faults.clone(), ..speaker }
    }

    /// Begins the texts that tell what a reply was read as.
    pub(super) fn hearing(&self, audience: Audience) -> Speaker<'_> {
        Speaker { texts: self.texts(audience), facts: &self.facts, faults: Vec::new() }
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
    let fault = ours(Voice::Actor(dialect), Text::Fault).cloned();
    let templates = BTreeMap::from([(Text::Fault, fault.into_iter().collect())]);
    let texts = Texts { templates, ..Texts::none(Audience::Actor) };
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
    /// Which of them fail whatever happens in a run.
    faults: Vec<TextFault>,
}

impl Texts {
    fn none(audience: Audience) -> Self {
        let (templates, fixed) = (BTreeMap::new(), BTreeMap::new());
        Self { audience, templates, fixed, faults: Vec::new() }
    }

    fn new(audience: Audience, own: &BTreeMap<Text, String>, facts: &PlanFacts) -> Self {
        let sources = own.iter().map(|(text, source)| (*text, source.as_str()));
        let (mut own, broken) = if own.is_empty() { Default::default() } else { compiled(sources) };
        let broken = broken.into_iter().map(|(text, (message, span))| TextFault {
            audience,
            text,
            message,
            span,
        });
        let mut faults: Vec<TextFault> = broken.collect();
        let voice = Voice::to(audience, facts.dialect);
        let chain = |text| {
            let ours = ours(voice, text).cloned();
            (text, own.remove(&text).into_iter().chain(ours).collect())
        };
        let templates = Text::ALL.map(chain).into();
        let mut texts = Self { templates, ..Self::none(audience) };
        for text in [Text::System, Text::Opening] {
            let changes = |fact: &Fact| texts.uses(text, *fact);
            if ![Fact::Selected, Fact::Task, Fact::Steps, Fact::Dialect].iter().any(changes) {
                let rendered = texts.render(text, &Scene::default(), facts, &mut faults);
                texts.fixed.insert(text, rendered);
            }
        }
        Self { faults, ..texts }
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
