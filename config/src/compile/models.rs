//! The models of a team.

use std::collections::BTreeMap;

use wire::Name;
use wire::plan::Dialect;

use super::Compiler;
use crate::bound::{
    MODEL_CONCURRENCY, MODEL_IDLE_TIMEOUT_MS, MODEL_QUEUE_MAX, MODEL_RETRIES_MAX, MODEL_TIMEOUT_MS,
    SCRIPT_BYTES_MAX,
};
use crate::raw::{RawModel, RawProvider};
use crate::script::Script;
use crate::team::{Model, OpenAi, Provider};

/// Fields that only a model of the provider `scripted` has.
const SCRIPTED_FIELDS: &[&str] = &["script"];

/// Fields that only a model of the provider `openai` has.
const OPENAI_FIELDS: &[&str] = &[
    "base_url",
    "model",
    "api_key_env",
    "api_key_file",
    "stream",
    "strict",
    "temperature",
    "extra_body",
];

/// Fields of the request body that the runtime writes itself.
const BODY_FIELDS: &[&str] = &["model", "messages", "tools", "response_format", "stream"];

impl Compiler<'_> {
    pub(super) fn models(&mut self, raw: BTreeMap<String, RawModel>) -> BTreeMap<Name, Model> {
        let named = self.named("models", raw);
        let models = named.into_iter().filter_map(|(name, raw)| {
            let model = self.model(&name, raw)?;
            Some((name, model))
        });
        models.collect()
    }

    fn model(&mut self, name: &Name, raw: RawModel) -> Option<Model> {
        let path = ["models", name.as_str()];
        let small = |given: Option<u32>, bound: crate::bound::Bound| {
            given.unwrap_or(u32::try_from(bound.default).unwrap_or(u32::MAX))
        };
        let (dialect, concurrency) = (raw.dialect, small(raw.concurrency, MODEL_CONCURRENCY));
        let queue_max = small(raw.queue_max, MODEL_QUEUE_MAX);
        let retries_max = small(raw.retries_max, MODEL_RETRIES_MAX);
        let timeout_ms = raw.timeout_ms.unwrap_or(MODEL_TIMEOUT_MS.default);
        let idle_timeout_ms = raw.idle_timeout_ms.unwrap_or(MODEL_IDLE_TIMEOUT_MS.default);
        let provider = match raw.provider {
            RawProvider::Scripted => {
                self.foreign_fields(&path, OPENAI_FIELDS, "`provider = \"openai\"`");
                Provider::Scripted(self.script(&path, raw.script.as_deref())?)
            }
            RawProvider::OpenAi => {
                self.foreign_fields(&path, SCRIPTED_FIELDS, "`provider = \"scripted\"`");
                Provider::OpenAi(self.openai(&path, raw)?)
            }
        };
        Some(Model {
            name: name.clone(),
            provider,
            dialect: dialect.unwrap_or(Dialect::Native),
            concurrency,
            queue_max,
            timeout_ms,
            idle_timeout_ms,
            retries_max,
        })
    }

    fn openai(&mut self, path: &[&str; 2], raw: RawModel) -> Option<OpenAi> {
        let [table, name] = *path;
        let base_url = self.needed(path, "base_url", raw.base_url, "the address of the server");
        let model = self.needed(path, "model", raw.model, "the model's name at the provider");
        if let Some(address) = &base_url {
            self.address(&[table, name, "base_url"], address);
        }
        let fields = ["api_key_env", "api_key_file"];
        let (env, file) = (raw.api_key_env.as_deref(), raw.api_key_file.as_deref());
        let api_key = self.secret(path, fields, env, file);
        let extra_body = raw.extra_body.unwrap_or_default();
        for field in BODY_FIELDS.iter().filter(|field| extra_body.contains_key(**field)) {
            self.fault_at_key(
                &[table, name, "extra_body", field],
                format!("`{field}` of the request is written by the runtime"),
                "remove it from `extra_body`",
            );
        }
        Some(OpenAi {
            base_url: base_url?.trim_end_matches('/').to_owned(),
            model: model?,
            api_key,
            stream: raw.stream.unwrap_or(true),
            strict: raw.strict.unwrap_or(false),
            temperature: raw.temperature,
            extra_body,
        })
    }

    fn script(&mut self, path: &[&str; 2], file: Option<&str>) -> Option<Script> {
        let [table, name] = *path;
        let help = "the file of replies, one JSON object a line";
        let file = self.needed(path, "script", file.map(str::to_owned), help)?;
        let text = self.read(&[table, name, "script"], &file, SCRIPT_BYTES_MAX)?;
        let faults = match Script::parse(&text) {
            Ok(script) => return Some(script),
            Err(faults) => faults,
        };
        let full = self.path_of(&file);
        let source = self.report.add_source(&full, &text);
        for fault in faults {
            let code = wire::ErrorCode::ConfigInvalid;
            let help = fault.help.to_owned();
            self.report.add_in(source, code, Some(fault.span), fault.message, help);
        }
        None
    }

    /// Returns a field that may be left out in other forms of its table, but not in this one.
    pub(super) fn needed(
        &mut self,
        path: &[&str; 2],
        field: &str,
        value: Option<String>,
        what: &str,
    ) -> Option<String> {
        let [table, name] = *path;
        match value {
            Some(text) if text.trim().is_empty() => {
                self.fault(
                    &[table, name, field],
                    format!("`{field}` is empty"),
                    format!("write {what}"),
                );
                None
            }
            Some(text) => Some(text),
            None => {
                // A field that is there but of the wrong type has been reported.
                if !self.document.has(&[table, name, field]) {
                    let message = format!("`{table}.{name}` lacks `{field}`");
                    self.fault(path, message, format!("add `{field}`: {what}"));
                }
                None
            }
        }
    }

    /// Reports the fields that belong to another form of the table.
    pub(super) fn foreign_fields(&mut self, path: &[&str; 2], fields: &[&str], owner: &str) {
        let [table, name] = *path;
        for field in fields.iter().filter(|field| self.document.has(&[table, name, field])) {
            self.fault_at_key(
                &[table, name, field],
                format!("`{field}` goes with {owner} only"),
                format!("remove `{field}`, or change `{table}.{name}` to {owner}"),
            );
        }
    }
}
