//! The tools of a team.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tools::ToolKind;
use tools::builtin::{Builtin, LookupRow};
use tools::http::{BodyTemplate, HeaderSource, HttpSpec};
use wire::plan::{Offer, Target};
use wire::{EffectClass, Name, ToolSpec};

use super::Compiler;
use super::doubt::Doubt;
use crate::bound::{RESPONSE_BYTES_MAX, TOOL_CONCURRENCY, TOOL_TIMEOUT_MS};
use crate::parameters;
use crate::raw::{RawBody, RawBodyForm, RawBodyWord, RawHeader, RawKind, RawTool};
use crate::suggest::nearest;
use crate::team::{Model, TeamTool};
use tools::schema::check_parameters;

/// Fields that only a tool of the kind `builtin` has.
pub(super) const BUILTIN_FIELDS: &[&str] = &["builtin", "rows"];

/// Fields that only a tool of the kind `http` has.
pub(super) const HTTP_FIELDS: &[&str] =
    &["method", "url", "query", "headers", "body", "response_bytes_max"];

/// Fields that only a tool of the kind `model` has.
const MODEL_FIELDS: &[&str] =
    &["model", "instructions", "prompt", "output", "schema", "reply_tokens_max"];

/// Fields that tools have whose calls the team file describes.
const DESCRIBED_FIELDS: &[&str] = &["effect", "parameters", "key_ttl_ms", "probe", "on_unknown"];

/// The kinds of tools, as they stand in a team file.
pub(super) const BUILTIN: &str = "`kind = \"builtin\"`";
pub(super) const HTTP: &str = "`kind = \"http\"`";
const MODEL: &str = "`kind = \"model\"`";

/// The builtin that needs a table of answers.
const LOOKUP: &str = "lookup";

impl Compiler<'_> {
    pub(super) fn tools(
        &mut self,
        raw: BTreeMap<String, RawTool>,
        models: &BTreeMap<Name, Model>,
    ) -> BTreeMap<Name, TeamTool> {
        let named = self.named("tools", raw);
        let doubts: Vec<(Name, Doubt)> =
            named.iter().map(|(name, raw)| (name.clone(), Doubt::of(raw))).collect();
        let tools = named.into_iter().filter_map(|(name, raw)| {
            let tool = match raw.kind {
                RawKind::Builtin => self.builtin(&name, raw),
                RawKind::Http => self.http(&name, raw),
                RawKind::Model => self.model_tool(&name, raw, models),
            }?;
            Some((name, tool))
        });
        let mut tools = tools.collect();
        for (name, doubt) in doubts {
            self.doubt(&name, doubt, &mut tools);
        }
        tools
    }

    /// Returns the tool of the runtime that an agent names without a table.
    pub(super) fn implied(name: &Name) -> Option<TeamTool> {
        Some(builtin_tool(name, Builtin::from_name(name.as_str())?))
    }

    fn builtin(&mut self, name: &Name, raw: RawTool) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        self.foreign_fields(&path, HTTP_FIELDS, HTTP);
        self.foreign_fields(&path, MODEL_FIELDS, MODEL);
        self.foreign_fields(&path, DESCRIBED_FIELDS, &format!("{HTTP} or {MODEL}"));
        let [table, own] = path;
        let word = raw.builtin.as_deref().unwrap_or(own);
        let builtin = if word == LOOKUP {
            Builtin::Lookup(self.rows(&path, raw.rows)?)
        } else {
            if self.document.has(&[table, own, "rows"]) {
                let help = "remove `rows`, or write `builtin = \"lookup\"`";
                self.fault_at_key(
                    &[table, own, "rows"],
                    format!("`rows` is not for {word:?}"),
                    help,
                );
            }
            let Some(builtin) = Builtin::from_name(word) else {
                self.unknown_builtin(&path, word);
                return None;
            };
            builtin
        };
        let mut tool = builtin_tool(name, builtin);
        if let Some(description) = raw.description {
            tool.offer.spec.description = description;
        }
        tool.offer.timeout_ms = raw.timeout_ms.unwrap_or(tool.offer.timeout_ms);
        tool.concurrency = raw.concurrency.unwrap_or(tool.concurrency);
        Some(tool)
    }

    fn unknown_builtin(&mut self, path: &[&str; 2], word: &str) {
        let [table, own] = *path;
        let known: Vec<&str> = Builtin::NAMES.iter().copied().chain([LOOKUP]).collect();
        let help = match nearest(word, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("add `builtin`: one of {}", known.join(", ")),
        };
        let message = format!("there is no builtin tool {word:?}");
        self.fault(&[table, own, "builtin"], message, help);
    }

    fn rows(
        &mut self,
        path: &[&str; 2],
        rows: Option<Vec<crate::raw::RawRow>>,
    ) -> Option<Vec<LookupRow>> {
        let [table, own] = *path;
        // Rows that are there but not of their shape have been reported.
        let Some(rows) = rows.or_else(|| self.document.has(&[table, own, "rows"]).then(Vec::new))
        else {
            let help = "add `rows = [{ words = [\"rain\"], answer = \"Take a coat.\" }]`";
            self.fault(path, format!("look-up tool `{own}` has no rows"), help);
            return None;
        };
        Some(
            rows.into_iter()
                .map(|row| LookupRow { words: row.words, answer: row.answer })
                .collect(),
        )
    }

    fn http(&mut self, name: &Name, raw: RawTool) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        self.foreign_fields(&path, BUILTIN_FIELDS, BUILTIN);
        self.foreign_fields(&path, MODEL_FIELDS, MODEL);
        let what = "what the tool does, for models";
        let description = self.needed(&path, "description", raw.description, what);
        let url = self.needed(&path, "url", raw.url, "the address, such as `https://host/{city}`");
        let parameters =
            self.object_schema(&path, "parameters", &raw.parameters.unwrap_or_default());
        let headers = raw.headers.unwrap_or_default().into_iter().filter_map(|(header, value)| {
            let value = self.header(&path, &header, value)?;
            Some((header, value))
        });
        let headers = headers.collect();
        let body = raw.body.and_then(|body| self.body(&path, body));
        let bytes = raw.response_bytes_max.unwrap_or(RESPONSE_BYTES_MAX.default);
        let spec = HttpSpec {
            method: raw.method.unwrap_or_else(|| "GET".to_owned()),
            url: url?,
            query: raw.query.unwrap_or_default().into_iter().collect(),
            headers,
            body,
            response_bytes_max: usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        let parameters = parameters?;
        for fault in spec.check(&parameters) {
            self.fault_at_key(
                &path,
                format!("tool `{name}`: {fault}"),
                "change the request template",
            );
        }
        let effect = raw.effect.unwrap_or_else(|| spec.effect());
        let spec_of_tool = ToolSpec { name: name.clone(), description: description?, parameters };
        let timeout_ms = raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default);
        Some(TeamTool {
            offer: offer(spec_of_tool, effect, timeout_ms),
            kind: ToolKind::Http(spec),
            concurrency: raw.concurrency.unwrap_or_else(concurrency),
        })
    }

    /// Returns the JSON Schema of an object, which may be written in the short form.
    pub(super) fn object_schema(
        &mut self,
        path: &[&str; 2],
        field: &str,
        written: &Map<String, Value>,
    ) -> Option<Value> {
        let [table, own] = *path;
        match parameters::schema(written) {
            Ok(schema) => match check_parameters(&schema) {
                Ok(()) => Some(schema),
                Err(error) => {
                    let message = format!("`{field}` of `{own}` is no JSON Schema: {error}");
                    let help =
                        "write an object schema, or the short form `city = \"string: the city\"`";
                    self.fault(&[table, own, field], message, help);
                    None
                }
            },
            Err(faults) => {
                for (name, text) in faults {
                    let help = format!(
                        "write `type: description` with one of {}, `[]` after it for a list, `?` for optional",
                        parameters::TYPES.join(", ")
                    );
                    self.fault(
                        &[table, own, field, &name],
                        format!("`{name}` of `{field}` has no type: {text}"),
                        help,
                    );
                }
                None
            }
        }
    }

    fn header(&mut self, path: &[&str; 2], name: &str, value: RawHeader) -> Option<HeaderSource> {
        let [table, own] = *path;
        let secret = match value {
            RawHeader::Text(text) => return Some(HeaderSource::Template(text)),
            RawHeader::Secret(secret) => secret,
        };
        let at = [table, own, "headers", name];
        let (env, file) = (secret.env.as_deref(), secret.file.as_deref());
        if env.is_none() && file.is_none() {
            let help = "add `env = \"VARIABLE\"` or `file = \"path\"`, or write a text";
            self.fault(&at, format!("header `{name}` does not say where its secret is"), help);
        }
        let secret_ref = self.secret(&at, ["env", "file"], env, file)?;
        let prefix = secret.prefix.unwrap_or_default();
        Some(HeaderSource::Secret { prefix, secret: secret_ref })
    }

    fn body(&mut self, path: &[&str; 2], body: RawBody) -> Option<BodyTemplate> {
        let [table, own] = *path;
        match body {
            RawBody::Word(RawBodyWord::Arguments) => Some(BodyTemplate::Arguments),
            RawBody::Form(RawBodyForm { json: Some(json), text: None }) => {
                Some(BodyTemplate::Json(json))
            }
            RawBody::Form(RawBodyForm { json: None, text: Some(text) }) => {
                Some(BodyTemplate::Text(text))
            }
            RawBody::Form(_) => {
                let help = "write `\"arguments\"`, `{ json = .. }` or `{ text = \"..\" }`";
                self.fault(&[table, own, "body"], "a body is either `json` or `text`", help);
                None
            }
        }
    }
}

fn builtin_tool(name: &Name, builtin: Builtin) -> TeamTool {
    let spec = ToolSpec {
        name: name.clone(),
        description: builtin.description().to_owned(),
        parameters: builtin.parameters(),
    };
    TeamTool {
        offer: offer(spec, builtin.effect(), builtin.timeout_ms()),
        kind: ToolKind::Builtin(builtin),
        concurrency: concurrency(),
    }
}

pub(super) fn offer(spec: ToolSpec, effect: EffectClass, timeout_ms: u64) -> Offer {
    Offer::new(spec, Target::Tool, effect, timeout_ms)
}

pub(super) fn concurrency() -> u32 {
    u32::try_from(TOOL_CONCURRENCY.default).unwrap_or(u32::MAX)
}
