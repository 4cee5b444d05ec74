//! The models of a team.

use std::collections::BTreeMap;

use serde_json::Value;
use wire::Name;
use wire::money::Price;
use wire::plan::Dialect;

use super::prices::price;
use super::{Compiler, owners_text};
use crate::bound::{
    MODEL_CONCURRENCY, MODEL_IDLE_TIMEOUT_MS, MODEL_QUEUE_MAX, MODEL_RETRIES_MAX, MODEL_TIMEOUT_MS,
    SCRIPT_BYTES_MAX,
};
use crate::raw::RawProvider::{self, Anthropic, LlamaCpp, Ollama, OpenAi, Scripted};
use crate::raw::{RawModel, RawThink};
use crate::script::Script;
use crate::team::{self, Constrain, Model, Provider, Sampling, Server, Template};

/// The providers that are reached over HTTP.
const SERVED: &[RawProvider] = &[OpenAi, LlamaCpp, Ollama, Anthropic];

/// Fields that not every provider has, and the providers that have them.
const OWNERS: &[(&str, &[RawProvider])] = &[
    ("script", &[Scripted]),
    ("record", SERVED),
    ("server_concurrency", SERVED),
    ("base_url", SERVED),
    ("model", SERVED),
    ("api_key_env", SERVED),
    ("api_key_file", SERVED),
    ("stream", SERVED),
    ("temperature", SERVED),
    ("stop", SERVED),
    ("extra_body", SERVED),
    ("strict", &[OpenAi]),
    ("merge_adjacent", &[OpenAi, LlamaCpp]),
    ("reasoning", &[OpenAi, LlamaCpp, Anthropic]),
    ("tokens_field", &[OpenAi]),
    ("stream_usage", &[OpenAi]),
    ("template", &[LlamaCpp]),
    ("constrain", &[LlamaCpp]),
    ("n_predict", &[LlamaCpp]),
    ("num_predict", &[Ollama]),
    ("num_ctx", &[Ollama]),
    ("keep_alive", &[Ollama]),
    ("think", &[Ollama]),
    ("top_k", &[LlamaCpp, Ollama]),
    ("top_p", &[LlamaCpp, Ollama]),
    ("repeat_penalty", &[LlamaCpp, Ollama]),
    ("repeat_last_n", &[LlamaCpp, Ollama]),
    ("seed", &[LlamaCpp, Ollama]),
];

/// Tells whether the runtime turns messages into prompts, not the server.
fn writes_prompts(raw: &RawModel) -> bool {
    raw.template.is_some_and(|template| template != Template::Server)
}

impl RawProvider {
    /// Returns the word by which a team file names it.
    const fn word(self) -> &'static str {
        match self {
            OpenAi => "openai",
            LlamaCpp => "llamacpp",
            Ollama => "ollama",
            Anthropic => "anthropic",
            Scripted => "scripted",
        }
    }

    /// Returns where its server is unless the team file says otherwise.
    const fn address(self) -> Option<&'static str> {
        match self {
            LlamaCpp => Some("http://127.0.0.1:8080"),
            Ollama => Some("http://127.0.0.1:11434"),
            Anthropic => Some("https://api.anthropic.com"),
            OpenAi | Scripted => None,
        }
    }

    /// Returns the fields of the request body that the runtime writes itself. Those that bound the
    /// reply are among them by every name that the server knows: a limit that a field of the same
    /// meaning replaces would hold nothing.
    const fn body_fields(self) -> &'static [&'static str] {
        match self {
            OpenAi => &[
                "model",
                "messages",
                "tools",
                "response_format",
                "max_tokens",
                "max_completion_tokens",
                "temperature",
                "stop",
                "stream",
                "stream_options",
            ],
            LlamaCpp => &[
                "prompt",
                "model",
                "messages",
                "tools",
                "response_format",
                "json_schema",
                "grammar",
                "max_tokens",
                "max_completion_tokens",
                "n_predict",
                "temperature",
                "top_k",
                "top_p",
                "repeat_penalty",
                "repeat_last_n",
                "seed",
                "stop",
                "stream",
                "stream_options",
            ],
            Ollama => &[
                "model",
                "messages",
                "tools",
                "format",
                "stream",
                "options",
                "keep_alive",
                "think",
            ],
            Anthropic => &[
                "model",
                "messages",
                "system",
                "tools",
                "output_config",
                "max_tokens",
                "temperature",
                "stop_sequences",
                "stream",
            ],
            Scripted => &[],
        }
    }

    /// Returns what to do about a field of the request body that the runtime writes.
    fn instead(self, field: &str) -> String {
        let own = OWNERS.iter().any(|(name, owners)| *name == field && owners.contains(&self));
        let said = match field {
            _ if own => format!("`{field}` beside it"),
            "max_tokens" | "max_completion_tokens" => {
                "`reply_tokens_max` in the limits of an agent".to_owned()
            }
            "stop_sequences" => "`stop` beside it".to_owned(),
            "stream_options" if self == OpenAi => "`stream_usage` beside it".to_owned(),
            "options" => "its options beside it, such as `num_ctx`".to_owned(),
            _ => return "remove it from `extra_body`".to_owned(),
        };
        format!("remove it from `extra_body`, and write {said} if it is to be said")
    }
}

impl Compiler<'_> {
    pub(super) fn models(&mut self, mut raw: BTreeMap<String, RawModel>) -> BTreeMap<Name, Model> {
        let fallbacks = raw.iter_mut().filter_map(|(text, raw)| {
            let fallbacks = raw.fallback.take()?;
            Some((text.clone(), fallbacks))
        });
        let fallbacks = fallbacks.collect();
        let named = self.named("models", raw);
        let models = named.into_iter().filter_map(|(name, raw)| {
            let model = self.model(&name, raw)?;
            Some((name, model))
        });
        let mut models = models.collect();
        self.fallbacks(&fallbacks, &mut models);
        models
    }

    fn model(&mut self, name: &Name, raw: RawModel) -> Option<Model> {
        let path = ["models", name.as_str()];
        let small = |given: Option<u32>, bound: crate::bound::Bound| {
            given.unwrap_or(u32::try_from(bound.default).unwrap_or(u32::MAX))
        };
        let kind = raw.provider;
        for (field, owners) in OWNERS.iter().filter(|(_, owners)| !owners.contains(&kind)) {
            self.foreign_fields(&path, &[field], &providers_text(owners));
        }
        if kind == LlamaCpp && writes_prompts(&raw) {
            self.foreign_fields(&path, &["merge_adjacent", "reasoning"], "`template = \"server\"`");
        }
        let concurrency = small(raw.concurrency, MODEL_CONCURRENCY);
        let queue_max = small(raw.queue_max, MODEL_QUEUE_MAX);
        let retries_max = small(raw.retries_max, MODEL_RETRIES_MAX);
        let timeout_ms = raw.timeout_ms.unwrap_or(MODEL_TIMEOUT_MS.default);
        // Templates of llama.cpp refuse it beside a text, and need it nowhere.
        let reasoning = raw.reasoning.unwrap_or(raw.provider != LlamaCpp);
        let idle_timeout_ms = raw.idle_timeout_ms.unwrap_or(MODEL_IDLE_TIMEOUT_MS.default);
        let (requests_per_minute, tokens_per_minute) =
            (raw.requests_per_minute, raw.tokens_per_minute);
        let dialect = self.dialect(&path, &raw);
        // A script asks nobody, so it costs nothing.
        let free = (kind == Scripted).then(Price::default);
        let price = raw.price.as_ref().map(price).or(free);
        let record = match raw.record.as_deref() {
            Some(file) if file.trim().is_empty() => {
                let place = ["models", name.as_str(), "record"];
                self.fault(&place, "`record` is empty", "write the file to add replies to");
                None
            }
            file => file.map(|file| self.path_of(file)),
        };
        Some(Model {
            name: name.clone(),
            provider: self.provider(&path, raw)?,
            dialect,
            concurrency,
            queue_max,
            timeout_ms,
            idle_timeout_ms,
            reasoning,
            retries_max,
            requests_per_minute,
            tokens_per_minute,
            fallback: Vec::new(),
            record,
            price,
        })
    }

    /// Returns the dialect: prompts that we write have no place for tools, so that models behind
    /// them are held to a schema.
    fn dialect(&mut self, path: &[&str; 2], raw: &RawModel) -> Dialect {
        let [table, name] = *path;
        let plain = writes_prompts(raw);
        if plain && raw.dialect == Some(Dialect::Native) {
            self.fault(
                &[table, name, "dialect"],
                "dialect `native` goes with `template = \"server\"` only",
                "only the server can tell the model of tools in its own way: choose another dialect, or let the server write the prompt",
            );
        }
        raw.dialect.unwrap_or(if plain { Dialect::Schema } else { Dialect::Native })
    }

    fn provider(&mut self, path: &[&str; 2], mut raw: RawModel) -> Option<Provider> {
        if raw.provider == Scripted {
            return Some(Provider::Scripted(self.script(path, raw.script.as_deref())?));
        }
        let server = self.server(path, &mut raw)?;
        let sampling = Sampling {
            top_k: raw.top_k,
            top_p: raw.top_p,
            repeat_penalty: raw.repeat_penalty,
            repeat_last_n: raw.repeat_last_n,
            seed: raw.seed,
        };
        Some(match raw.provider {
            OpenAi => Provider::OpenAi(team::OpenAi {
                server,
                strict: raw.strict.unwrap_or(false),
                merge_adjacent: raw.merge_adjacent.unwrap_or(false),
                tokens_field: raw.tokens_field.unwrap_or_default(),
                stream_usage: raw.stream_usage.unwrap_or(true),
            }),
            LlamaCpp => Provider::LlamaCpp(team::LlamaCpp {
                server,
                template: raw.template.unwrap_or(Template::Server),
                constrain: raw.constrain.unwrap_or(Constrain::JsonSchema),
                n_predict: raw.n_predict,
                sampling,
                merge_adjacent: raw.merge_adjacent.unwrap_or(false),
            }),
            Ollama => Provider::Ollama(team::Ollama {
                server,
                num_ctx: raw.num_ctx,
                num_predict: raw.num_predict,
                sampling,
                keep_alive: raw.keep_alive,
                think: raw.think.map(|think| match think {
                    RawThink::Truth(truth) => Value::Bool(truth),
                    RawThink::Word(word) => serde_json::to_value(word).unwrap_or_default(),
                }),
            }),
            Anthropic => Provider::Anthropic(server),
            Scripted => return None,
        })
    }

    fn server(&mut self, path: &[&str; 2], raw: &mut RawModel) -> Option<Server> {
        let [table, name] = *path;
        let kind = raw.provider;
        let given = raw.base_url.take();
        let base_url = match kind.address() {
            Some(address) if !self.document.has(&[table, name, "base_url"]) => {
                Some(address.to_owned())
            }
            _ => self.needed(path, "base_url", given, "the address of the server"),
        };
        if let Some(address) = &base_url {
            self.address(&[table, name, "base_url"], address);
        }
        let model = match raw.model.take() {
            // A server of llama.cpp has one model, whatever it is called.
            None if kind == LlamaCpp => Some(name.to_owned()),
            model => self.needed(path, "model", model, "the model's name at the provider"),
        };
        let fields = ["api_key_env", "api_key_file"];
        let (env, file) = (raw.api_key_env.as_deref(), raw.api_key_file.as_deref());
        let api_key = self.secret(path, fields, env, file);
        if kind != LlamaCpp && raw.temperature.is_some_and(|temperature| temperature < 0.0) {
            self.fault(
                &[table, name, "temperature"],
                format!("`temperature` below 0 goes with {} only", providers_text(&[LlamaCpp])),
                "write 0 for the likeliest reply",
            );
        }
        let extra_body = raw.extra_body.take().unwrap_or_default();
        for field in kind.body_fields().iter().filter(|field| extra_body.contains_key(**field)) {
            self.fault_at_key(
                &[table, name, "extra_body", field],
                format!("`{field}` of the request is written by the runtime"),
                kind.instead(field),
            );
        }
        Some(Server {
            base_url: base_url?.trim_end_matches('/').to_owned(),
            model: model?,
            api_key,
            concurrency: raw.server_concurrency,
            stream: raw.stream.unwrap_or(true),
            temperature: raw.temperature,
            stop: raw.stop.take().unwrap_or_default(),
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
}

/// Tells with which providers a field goes.
fn providers_text(owners: &[RawProvider]) -> String {
    owners_text("provider", owners.iter().map(|owner| owner.word()))
}
