//! Holds what models are held to by a grammar of ours against what a grammar can express.

use agents_core::dialect;
use agents_core::grammar::to_gbnf;
use serde_json::Value;
use wire::plan::Dialect;
use wire::{Name, Plan};

use super::Compiler;
use crate::team::{Constrain, Model, Provider};

/// The cure of a schema that has no grammar.
const HELP: &str = "change the schema, or write `constrain = \"json_schema\"` on the model, which leaves out what its server does not know";

impl Compiler<'_> {
    /// Checks that a grammar can be made of the calls of an agent, if its model is held by one.
    pub(super) fn grammar_of_calls(&mut self, plan: &Plan, actor: &Model) {
        if plan.dialect != Dialect::Schema || !is_held_by_grammar(actor) {
            return;
        }
        let at = ["agents", plan.agent.as_str()];
        let mut sound = true;
        for offer in &plan.tools {
            if let Err(error) = to_gbnf(&offer.spec.parameters) {
                let tool = &offer.spec.name;
                let message = format!("agent `{}`, parameters of `{tool}`: {error}", plan.agent);
                self.fault(&at, message, HELP);
                sound = false;
            }
        }
        // Each may be small enough, and all together too large.
        if let Some(error) = to_gbnf(&dialect::offered(plan)).err().filter(|_| sound) {
            self.fault(&at, format!("agent `{}`, all its tools: {error}", plan.agent), HELP);
        }
    }

    /// Checks that a grammar can be made of what a model behind a tool is to reply.
    pub(super) fn grammar_of_output(&mut self, tool: &Name, schema: &Value, model: Option<&Model>) {
        if !model.is_some_and(is_held_by_grammar) {
            return;
        }
        if let Err(error) = to_gbnf(schema) {
            let at = ["tools", tool.as_str(), "schema"];
            self.fault(&at, format!("tool `{tool}`, its output: {error}"), HELP);
        }
    }
}

fn is_held_by_grammar(model: &Model) -> bool {
    match &model.provider {
        Provider::LlamaCpp(options) => match options.constrain {
            Constrain::Grammar => true,
            Constrain::JsonSchema => false,
        },
        Provider::OpenAi(_)
        | Provider::Ollama(_)
        | Provider::Anthropic(_)
        | Provider::Scripted(_) => false,
    }
}
