//! The tools of a team that are questions to a model.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tools::ToolKind;
use tools::model::{ModelOutput, ModelSpec};
use wire::plan::Offer;
use wire::{Name, ToolSpec};

use super::Compiler;
use super::fallback::chain_timeout_ms;
use super::tools::{concurrency, offer};
use crate::bound::{MODEL_TIMEOUT_MS, TOOL_REPLY_TOKENS_MAX};
use crate::raw::{RawOutput, RawTool};
use crate::team::{Model, TeamTool};

impl Compiler<'_> {
    pub(super) fn model_tool(
        &mut self,
        name: &Name,
        raw: RawTool,
        models: &BTreeMap<Name, Model>,
    ) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        let [table, own] = path;
        let what = "what the tool does, for models";
        let description = self.needed(&path, "description", raw.description, what);
        let model = self.needed(&path, "model", raw.model, "the model of the team that is asked");
        let model = model.and_then(|text| self.reference("models", &text, &[table, own, "model"]));
        let what = "what the model is asked, with `{parameter}` for arguments";
        let prompt = self.needed(&path, "prompt", raw.prompt, what);
        let output = self.output(&path, raw.output, raw.schema);
        let written = raw.parameters.unwrap_or_default();
        let parameters = self.object_schema(&path, "parameters", &written);
        let spec = ModelSpec {
            model: model?,
            instructions: raw.instructions.filter(|text| !text.trim().is_empty()),
            prompt: prompt?,
            output: output?,
            reply_tokens_max: raw.reply_tokens_max.unwrap_or(TOOL_REPLY_TOKENS_MAX.default),
        };
        let parameters = parameters?;
        for fault in spec.check(&parameters) {
            let message = format!("tool `{name}`: {fault}");
            self.fault_at_key(&path, message, "change the texts, or `parameters`");
        }
        if let ModelOutput::Json { schema } = &spec.output {
            self.grammar_of_output(name, schema, models.get(&spec.model));
        }
        let effect = raw.effect.unwrap_or_else(|| spec.effect());
        // The model may have faults of its own, which have been reported.
        let turn_ms = chain_timeout_ms(&spec.model, models).unwrap_or(MODEL_TIMEOUT_MS.default);
        let spec_of_tool = ToolSpec { name: name.clone(), description: description?, parameters };
        let offer = Offer {
            model: Some(spec.model.clone()),
            ..offer(spec_of_tool, effect, raw.timeout_ms.unwrap_or(turn_ms))
        };
        Some(TeamTool {
            offer,
            kind: ToolKind::Model(spec),
            concurrency: raw.concurrency.unwrap_or_else(concurrency),
        })
    }

    fn output(
        &mut self,
        path: &[&str; 2],
        output: Option<RawOutput>,
        schema: Option<Map<String, Value>>,
    ) -> Option<ModelOutput> {
        let [table, own] = *path;
        let has_schema = self.document.has(&[table, own, "schema"]);
        let output = match output {
            Some(RawOutput::Json) => {
                if !has_schema {
                    let message = format!("tool `{own}` promises JSON but not which");
                    let help = "add `schema`, such as `{ title = \"string\", year = \"integer\" }`";
                    self.fault(&[table, own, "output"], message, help);
                }
                let schema = self.object_schema(path, "schema", &schema?)?;
                return Some(ModelOutput::Json { schema });
            }
            Some(RawOutput::Calculate) => ModelOutput::Calculate,
            // A word that is there but not known has been reported.
            None if self.document.has(&[table, own, "output"]) => return None,
            Some(RawOutput::Text) | None => ModelOutput::Text,
        };
        if has_schema {
            let json = "`output = \"json\"`";
            self.fault_at_key(
                &[table, own, "schema"],
                format!("`schema` goes with {json} only"),
                format!("remove `schema`, or write {json}"),
            );
        }
        Some(output)
    }
}
