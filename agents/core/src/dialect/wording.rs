//! Every text that a model reads: templates of our own, and those that a team sets in their place.
//!
//! Our own stand in `prompts`, one folder for each way in which a model is spoken to. A template
//! that fails while a run is under way is replaced by our own for that one text, so that a run
//! never hangs on it; `callboard check` finds such a template before.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use wire::plan::{Dialect, Text};
use wire::{ModelRole, Plan};

mod default;
mod engine;
pub(super) mod fact;
mod filter;
mod trial;

pub use engine::TEXT_BYTES_MAX;
pub use fact::facts;
pub(super) use trial::faults;
#[cfg(test)]
pub(super) use trial::turns;

use engine::Template;
use fact::{PlanFacts, Scene};

/// Follows a text after which the model wants to go on.
pub(super) const GO_ON: &str = "Go on.";

/// Follows a thought that the token limit cut.
pub(super) const THOUGHT_CUT: &str = "(The thought ends here because it reached the token limit.)";

/// What the way out of a run does, as models are told.
const ANSWER_DESCRIPTION: &str = "Gives the user the final answer and ends the work.";

/// The ways in which a model is spoken to; each has its own defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Voice {
    Thinker,
    Actor(Dialect),
}

impl Voice {
    const ALL: [Self; 5] = [
        Self::Thinker,
        Self::Actor(Dialect::Native),
        Self::Actor(Dialect::Schema),
        Self::Actor(Dialect::Json),
        Self::Actor(Dialect::React),
    ];
}

static DEFAULTS: LazyLock<HashMap<(Voice, Text), Template>> = LazyLock::new(|| {
    let mut environment = engine::environment();
    let mut named = Vec::new();
    for voice in Voice::ALL {
        for text in Text::ALL {
            let name = format!("{voice:?} {}", text.as_str());
            let source = default::source(voice, text);
            // That each of them compiles is tested below.
            if let Ok(uses) = engine::add(&mut environment, &name, text, source) {
                named.push(((voice, text), name, uses));
            }
        }
    }
    let environment = Arc::new(environment);
    let template = |name, uses| Template { environment: environment.clone(), name, uses };
    named.into_iter().map(|(key, name, uses)| (key, template(name, uses))).collect()
});

/// What is wrong with a template of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextFault {
    /// Whose text it is.
    pub role: ModelRole,
    /// Which text it is.
    pub text: Text,
    /// What is wrong.
    pub message: String,
    /// The bytes of the template that are at fault, if that is known.
    pub span: Option<std::ops::Range<usize>>,
}

impl fmt::Display for TextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prompts.{}.{}: {}", self.role.as_str(), self.text.as_str(), self.message)
    }
}

/// The texts of a plan, compiled once for all of its runs.
#[derive(Debug)]
pub struct Wording {
    facts: PlanFacts,
    thinker: Texts,
    actor: Texts,
    faults: Vec<TextFault>,
}

impl Wording {
    /// Compiles the texts of a plan. One that does not compile is replaced by our own.
    pub fn new(plan: &Plan) -> Self {
        let facts = PlanFacts::new(plan);
        let mut faults = Vec::new();
        let thinker = Texts::new(plan, ModelRole::Thinker, &facts, &mut faults);
        let actor = Texts::new(plan, ModelRole::Actor, &facts, &mut faults);
        Self { facts, thinker, actor, faults }
    }

    /// Begins the texts of one prompt.
    pub(super) fn of(&self, role: ModelRole) -> Speaker<'_> {
        let texts = match role {
            ModelRole::Thinker => &self.thinker,
            ModelRole::Actor => &self.actor,
        };
        let faults = self.faults.iter().filter(|fault| fault.role == role).cloned().collect();
        Speaker { texts, facts: &self.facts, faults }
    }

    /// Returns what a role is told before everything else.
    pub(super) fn before(&self, role: ModelRole) -> String {
        let speaker = self.of(role);
        let parts = [speaker.system(), speaker.opening()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n\n")
    }
}

/// The texts of one role.
#[derive(Debug)]
struct Texts {
    role: ModelRole,
    /// For each text the team's own template, if it has one, and then ours.
    templates: HashMap<Text, Vec<Template>>,
    /// Both are the same in every prompt of a plan.
    system: String,
    opening: String,
}

impl Texts {
    fn new(plan: &Plan, role: ModelRole, facts: &PlanFacts, faults: &mut Vec<TextFault>) -> Self {
        let mut environment = engine::environment();
        let mut own = HashMap::new();
        for (text, source) in plan.prompts.role(role) {
            match engine::add(&mut environment, text.as_str(), *text, source) {
                Ok(uses) => drop(own.insert(*text, uses)),
                Err((message, span)) => {
                    faults.push(TextFault { role, text: *text, message, span });
                }
            }
        }
        let environment = Arc::new(environment);
        let voice = match role {
            ModelRole::Thinker => Voice::Thinker,
            ModelRole::Actor => Voice::Actor(plan.dialect),
        };
        let chain = |text: Text| {
            let name = text.as_str().to_owned();
            let own = own.remove(&text).map(|uses| Template {
                environment: environment.clone(),
                name,
                uses,
            });
            (text, own.into_iter().chain(DEFAULTS.get(&(voice, text)).cloned()).collect())
        };
        let templates = Text::ALL.map(chain).into_iter().collect();
        let mut texts = Self { role, templates, system: String::new(), opening: String::new() };
        texts.system = texts.render(Text::System, &Scene::default(), facts, faults);
        texts.opening = texts.render(Text::Opening, &Scene::default(), facts, faults);
        texts
    }

    /// Renders a text by the first of its templates that does not fail.
    fn render(
        &self,
        text: Text,
        scene: &Scene<'_>,
        facts: &PlanFacts,
        faults: &mut Vec<TextFault>,
    ) -> String {
        for template in self.templates.get(&text).into_iter().flatten() {
            match template.render(|fact| scene.value(fact, facts)) {
                Ok(rendered) => return rendered,
                Err((message, span)) => {
                    faults.push(TextFault { role: self.role, text, message, span });
                }
            }
        }
        String::new()
    }
}

/// Speaks to one role in one prompt, and notes which texts failed.
pub(super) struct Speaker<'w> {
    texts: &'w Texts,
    facts: &'w PlanFacts,
    pub(super) faults: Vec<TextFault>,
}

impl<'w> Speaker<'w> {
    pub(super) fn system(&self) -> &'w str {
        &self.texts.system
    }

    pub(super) fn opening(&self) -> &'w str {
        &self.texts.opening
    }

    pub(super) fn render(&mut self, text: Text, scene: &Scene<'_>) -> String {
        self.texts.render(text, scene, self.facts, &mut self.faults)
    }

    /// Tells whether a text may change when further messages follow it.
    pub(super) fn depends_on_last(&self, text: Text) -> bool {
        let templates = self.texts.templates.get(&text).into_iter().flatten();
        templates.into_iter().any(|template| template.uses.contains(&fact::Fact::Last))
    }

    /// Writes a call as one object of the dialect.
    pub(super) fn object(&self, scene: &Scene<'_>) -> serde_json::Value {
        self.facts.object(scene)
    }
}

#[cfg(test)]
mod tests;
