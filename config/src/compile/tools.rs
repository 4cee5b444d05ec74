//! The tools of a team.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tools::ToolKind;
use tools::builtin::{Builtin, LookupRow, Saying};
use tools::http::{HttpSpec, OutputSchema};
use wire::plan::{Offer, Target};
use wire::{EffectClass, Name, ToolSpec};

use super::agents::asked;
use super::doubt::Doubt;
use super::values::WrittenPages;
use super::{ANSWER, Behind, Compiler, owners_text};
use crate::bound::{RESPONSE_BYTES_MAX, TOOL_CONCURRENCY, TOOL_TIMEOUT_MS};
use crate::parameters;
use crate::raw::{RawKind, RawTool};
use crate::suggest::nearest;
use crate::team::TeamTool;
use tools::schema::{check_parameters, check_schema};

/// The kinds whose calls may change something.
const CHANGING: &[RawKind] = &[
    RawKind::CloudEvent,
    RawKind::Command,
    RawKind::Http,
    RawKind::Mcp,
    RawKind::Model,
    RawKind::Nats,
    RawKind::Query,
];

/// The kinds whose arguments the team file declares.
const DECLARING: &[RawKind] = &[
    RawKind::Builtin,
    RawKind::Command,
    RawKind::Http,
    RawKind::Model,
    RawKind::Nats,
    RawKind::Query,
];

/// The kinds that read what somebody else wrote.
const READING: &[RawKind] = &[
    RawKind::CloudEvent,
    RawKind::Command,
    RawKind::Http,
    RawKind::Mcp,
    RawKind::Nats,
    RawKind::Query,
];

/// Fields that not every kind of tool has, and the kinds that have them.
const OWNERS: &[(&str, &[RawKind])] = &[
    ("builtin", &[RawKind::Builtin]),
    ("rows", &[RawKind::Builtin]),
    ("text", &[RawKind::Builtin]),
    ("argv", &[RawKind::Command]),
    ("stdin", &[RawKind::Command]),
    ("env", &[RawKind::Command]),
    ("workdir", &[RawKind::Command]),
    ("sandbox", &[RawKind::Command]),
    ("network", &[RawKind::Command]),
    ("read", &[RawKind::Command]),
    ("write", &[RawKind::Command]),
    ("memory_bytes_max", &[RawKind::Command]),
    ("processes_max", &[RawKind::Command]),
    ("open_files_max", &[RawKind::Command]),
    ("file_bytes_max", &[RawKind::Command]),
    ("method", &[RawKind::Http]),
    ("url", &[RawKind::Http]),
    ("allow_hosts", &[RawKind::Http]),
    ("pages_max", &[RawKind::Http]),
    ("next", &[RawKind::Http]),
    ("next_parameter", &[RawKind::Http]),
    ("items", &[RawKind::Http]),
    ("output_schema", &[RawKind::Http]),
    ("query", &[RawKind::Http]),
    ("eventtypes", &[RawKind::CloudEvent]),
    ("type", &[RawKind::CloudEvent]),
    ("headers", &[RawKind::Http, RawKind::Nats]),
    ("body", &[RawKind::Http, RawKind::Nats]),
    ("response_bytes_max", READING),
    ("subject", &[RawKind::Nats]),
    ("server", &[RawKind::Mcp]),
    ("tool", &[RawKind::Mcp]),
    ("model", &[RawKind::Model]),
    ("instructions", &[RawKind::Model]),
    ("prompt", &[RawKind::Model]),
    ("output", &[RawKind::Model]),
    ("schema", &[RawKind::Model]),
    ("reply_tokens_max", &[RawKind::Model]),
    ("database", &[RawKind::Query]),
    ("statement", &[RawKind::Query]),
    ("statements", &[RawKind::Query]),
    ("result", &[RawKind::Query]),
    ("rows_max", &[RawKind::Query]),
    ("effect", CHANGING),
    ("key_ttl_ms", CHANGING),
    ("probe", CHANGING),
    ("on_unknown", CHANGING),
    ("parameters", DECLARING),
];

impl RawKind {
    /// Returns the word by which a team file names it.
    const fn word(self) -> &'static str {
        match self {
            RawKind::Builtin => "builtin",
            RawKind::CloudEvent => "cloudevent",
            RawKind::Command => "command",
            RawKind::Http => "http",
            RawKind::Mcp => "mcp",
            RawKind::Model => "model",
            RawKind::Nats => "nats",
            RawKind::Query => "query",
        }
    }
}

/// The builtin that needs a table of answers.
const LOOKUP: &str = "lookup";

/// The builtin that needs a text.
const SAY: &str = "say";

/// The builtin whose run waits for a person, however long one call may take.
const ASK_USER: &str = "ask_user";

/// The builtin whose one argument may have another name.
const CALCULATE: &str = "calculate";

/// Fields that only some builtins have, and those builtins.
const BUILTIN_OWNERS: &[(&str, &[&str])] =
    &[("rows", &[LOOKUP]), ("text", &[SAY]), ("parameters", &[SAY, CALCULATE])];

impl Compiler<'_> {
    pub(super) fn tools(
        &mut self,
        raw: BTreeMap<String, RawTool>,
        behind: &Behind<'_>,
    ) -> BTreeMap<Name, TeamTool> {
        let named = self.named("tools", raw);
        let doubts: Vec<(Name, Doubt)> =
            named.iter().map(|(name, raw)| (name.clone(), Doubt::of(raw))).collect();
        let tools = named.into_iter().filter_map(|(name, mut raw)| {
            let path = ["tools", name.as_str()];
            for (field, owners) in OWNERS.iter().filter(|(_, kinds)| !kinds.contains(&raw.kind)) {
                let owners = owners_text("kind", owners.iter().map(|owner| owner.word()));
                self.foreign_fields(&path, &[field], &owners);
            }
            let actor = raw.actor.take().and_then(|text| {
                self.reference("models", &text, &["tools", name.as_str(), "actor"])
            });
            let aliases = raw.aliases.take().unwrap_or_default();
            let mut tool = match raw.kind {
                RawKind::Builtin => self.builtin(&name, raw),
                RawKind::Command => self.command_tool(&name, raw),
                RawKind::Http => self.http(&name, raw),
                RawKind::CloudEvent => self.event_tool(&name, raw, behind.events),
                RawKind::Mcp => self.mcp_tool(&name, raw, behind.servers),
                RawKind::Model => self.model_tool(&name, raw, behind.models),
                RawKind::Nats => self.nats_tool(&name, raw),
                RawKind::Query => self.query_tool(&name, raw, behind.databases),
            }?;
            tool.offer.actor = actor.and_then(|actor| asked(behind.models, actor));
            tool.offer.aliases = aliases;
            Some((name, tool))
        });
        let mut tools = tools.collect();
        for (name, doubt) in doubts {
            self.doubt(&name, doubt, &mut tools);
        }
        tools
    }

    /// Reports aliases that could not be told from other names. The tools are those of the file
    /// and those that agents name without a table.
    pub(super) fn aliases(&mut self, tools: &BTreeMap<Name, TeamTool>) {
        let mut seen: BTreeMap<&str, &Name> = BTreeMap::new();
        for (name, tool) in tools {
            for (index, alias) in tool.offer.aliases.iter().enumerate() {
                let fault = if alias.trim() != alias {
                    Some(format!("alias {alias:?} begins or ends with white space"))
                } else if alias == ANSWER {
                    Some(format!("`{alias}` is the name by which models give their answer"))
                } else if tools.contains_key(alias.as_str()) || self.document.has(&["tools", alias])
                {
                    Some(format!("alias `{alias}` of tool `{name}` is the name of a tool"))
                } else if self.document.has(&["agents", alias]) {
                    Some(format!("alias `{alias}` of tool `{name}` is the name of an agent"))
                } else {
                    let other = seen.insert(alias, name);
                    other.map(|other| format!("alias `{alias}` is one of tool `{other}` already"))
                };
                if let Some(fault) = fault {
                    let at = ["tools", name.as_str(), "aliases", &index.to_string()];
                    self.fault(&at, fault, "choose another alias, or remove it");
                }
            }
        }
    }

    /// Returns the tool of the runtime that an agent names without a table.
    pub(super) fn implied(name: &Name) -> Option<TeamTool> {
        Some(builtin_tool(name, Builtin::from_name(name.as_str())?))
    }

    fn builtin(&mut self, name: &Name, mut raw: RawTool) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        let [_, own] = path;
        let word = raw.builtin.as_deref().unwrap_or(own);
        for (field, _) in BUILTIN_OWNERS.iter().filter(|(_, owners)| !owners.contains(&word)) {
            self.stray_field(&path, field, word);
        }
        if word == ASK_USER {
            for field in ["timeout_ms", "concurrency"] {
                self.ask_user_field(&path, field);
            }
        }
        let builtin = match word {
            LOOKUP => Builtin::Lookup(self.rows(&path, raw.rows)?),
            SAY => Builtin::Say(self.saying(&path, raw.text, raw.parameters.take())?),
            word => {
                let known = Builtin::from_name(word);
                if known.is_none() {
                    self.unknown_builtin(&path, word);
                }
                known?
            }
        };
        let own_parameters = match builtin {
            Builtin::Calculate => {
                raw.parameters.take().map(|written| self.one_text(&path, &written))
            }
            Builtin::Now
            | Builtin::Remember
            | Builtin::Recall
            | Builtin::Forget
            | Builtin::AskUser
            | Builtin::ReadResult
            | Builtin::Lookup(_)
            | Builtin::Say(_) => None,
        };
        let mut tool = builtin_tool(name, builtin);
        if let Some(parameters) = own_parameters {
            tool.offer.spec.parameters = parameters?;
        }
        if let Some(description) = raw.description {
            tool.offer.spec.description = description;
        }
        tool.offer.timeout_ms = raw.timeout_ms.unwrap_or(tool.offer.timeout_ms);
        tool.concurrency = raw.concurrency.unwrap_or(tool.concurrency);
        Some(tool)
    }

    /// Returns the schema of one text under a name of the team's own.
    fn one_text(&mut self, path: &[&str; 2], written: &Map<String, Value>) -> Option<Value> {
        let [table, own] = *path;
        let schema = self.object_schema(path, "parameters", written)?;
        let properties = schema.get("properties").and_then(Value::as_object);
        let only = properties.filter(|all| all.len() == 1).and_then(|all| all.iter().next());
        let is_needed = |name: &str| {
            let required = schema.get("required").and_then(Value::as_array);
            required.is_some_and(|names| names.iter().any(|needed| needed == name))
        };
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        if only.is_some_and(|(name, property)| {
            is_closed
                && is_needed(name)
                && property.get("type").and_then(Value::as_str) == Some("string")
        }) {
            return Some(schema);
        }
        let message = format!("`{own}` takes one text, which is needed, and nothing else");
        let help = "write for instance `parameters = { formula = \"string\" }`, or remove it";
        self.fault(&[table, own, "parameters"], message, help);
        None
    }

    /// Reports a field that this builtin does not have.
    fn stray_field(&mut self, path: &[&str; 2], field: &str, word: &str) {
        let [table, own] = *path;
        if self.document.has(&[table, own, field]) {
            let owner = BUILTIN_OWNERS.iter().find(|(known, _)| *known == field);
            let owner = owner.and_then(|(_, owners)| owners.first()).copied().unwrap_or(word);
            self.fault_at_key(
                &[table, own, field],
                format!("`{field}` is not for {word:?}"),
                format!("remove `{field}`, or write `builtin = \"{owner}\"`"),
            );
        }
    }

    /// Reports a field that would hold nothing of a tool that asks people, since its call ends with
    /// the question.
    fn ask_user_field(&mut self, path: &[&str; 2], field: &str) {
        let [table, own] = *path;
        if self.document.has(&[table, own, field]) {
            self.fault_at_key(
                &[table, own, field],
                format!("`{field}` is not for \"{ASK_USER}\", whose run waits for the answer"),
                format!("remove `{field}`"),
            );
        }
    }

    fn saying(
        &mut self,
        path: &[&str; 2],
        text: Option<String>,
        parameters: Option<Map<String, Value>>,
    ) -> Option<Saying> {
        let text = self.needed(path, "text", text, "the answer to every call");
        let parameters = self.object_schema(path, "parameters", &parameters.unwrap_or_default());
        Some(Saying { text: text?, parameters: parameters? })
    }

    fn unknown_builtin(&mut self, path: &[&str; 2], word: &str) {
        let [table, own] = *path;
        let known: Vec<&str> = Builtin::NAMES.iter().copied().chain([LOOKUP, SAY]).collect();
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
        let what = "what the tool does, for models";
        let description = self.needed(&path, "description", raw.description, what);
        let url = self.needed(&path, "url", raw.url, "the address, such as `https://host/{city}`");
        let parameters =
            self.object_schema(&path, "parameters", &raw.parameters.unwrap_or_default());
        let headers = self.field_sources(&path, "headers", raw.headers.unwrap_or_default());
        let query = self.query_fields(&path, raw.query.unwrap_or_default());
        let body = raw.body.and_then(|body| self.body(&path, body));
        let allowed = self.allowed(&path, raw.allow_hosts.as_deref());
        let written = WrittenPages {
            pages_max: raw.pages_max,
            next: raw.next,
            parameter: raw.next_parameter,
            items: raw.items,
        };
        let pages = self.pages(&path, written);
        let output = raw.output_schema.and_then(|schema| self.output_schema(&path, &schema));
        let bytes = raw.response_bytes_max.unwrap_or(RESPONSE_BYTES_MAX.default);
        let method = raw.method.unwrap_or_else(|| "GET".to_owned());
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let spec = HttpSpec {
            allowed,
            query,
            headers,
            body,
            pages,
            output,
            ..HttpSpec::new(method, url?, bytes)
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

    /// Returns the JSON Schema of answers, which may be of any type.
    fn output_schema(
        &mut self,
        path: &[&str; 2],
        written: &Map<String, Value>,
    ) -> Option<OutputSchema> {
        let [table, own] = *path;
        let Ok(schema) = parameters::schema(written) else {
            // Says which field has no type.
            self.object_schema(path, "output_schema", written);
            return None;
        };
        if let Err(error) = check_schema(&schema) {
            let message = format!("`output_schema` of `{own}` is no JSON Schema: {error}");
            let help = "write a JSON Schema, or the short form `city = \"string: the city\"`";
            self.fault(&[table, own, "output_schema"], message, help);
            return None;
        }
        Some(OutputSchema::Needed(schema))
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
}

fn builtin_tool(name: &Name, builtin: Builtin) -> TeamTool {
    let spec = ToolSpec {
        name: name.clone(),
        description: builtin.description().to_owned(),
        parameters: builtin.parameters(),
    };
    let mut offer = offer(spec, builtin.effect(), builtin.timeout_ms());
    offer.reads_results = builtin == Builtin::ReadResult;
    TeamTool { offer, kind: ToolKind::Builtin(builtin), concurrency: concurrency() }
}

pub(super) fn offer(spec: ToolSpec, effect: EffectClass, timeout_ms: u64) -> Offer {
    Offer::new(spec, Target::Tool, effect, timeout_ms)
}

pub(super) fn concurrency() -> u32 {
    u32::try_from(TOOL_CONCURRENCY.default).unwrap_or(u32::MAX)
}
