//! The MCP servers of a team, and the tools that it has of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tools::builtin::Builtin;
use tools::mcp::{Catalog, Listed, McpSpec, ServerSpec, Setting, Transport};
use tools::schema::check_parameters;
use tools::{ToolKind, offered_names};
use wire::plan::{Labels, Offer};
use wire::{EffectClass, Name, ToolSpec};

use super::Compiler;
use super::coming::{ALL, Source};
use super::tools::{concurrency, offer};
use crate::bound::{
    DESCRIPTION_BYTES_MAX, QUESTION_TIMEOUT_MS, RESPONSE_BYTES_MAX, SERVER_START_TIMEOUT_MS,
    TOOL_TIMEOUT_MS, TOOLS_MAX,
};
use crate::raw::{RawServer, RawTool, RawValue};
use crate::sources::Catalogs;
use crate::suggest::nearest;
use crate::team::{McpServer, TeamTool};

/// The servers that have no faults of their own.
pub(super) type Servers = BTreeMap<Name, Server>;

/// One server, with what is said of its tools.
pub(super) struct Server {
    pub(super) spec: ServerSpec,
    catalog: Option<Catalog>,
    tools: Vec<String>,
    prefix: String,
    effect: Option<EffectClass>,
    trusted: bool,
    timeout_ms: u64,
    /// Milliseconds that a person has to answer it, if it may ask.
    question_timeout_ms: Option<u64>,
}

impl Server {
    pub(super) fn into_team(self) -> McpServer {
        McpServer { spec: self.spec, catalog: self.catalog }
    }

    fn wants(&self, tool: &str) -> bool {
        self.tools.iter().any(|wanted| wanted == ALL || wanted == tool)
    }
}

impl Compiler<'_> {
    pub(super) fn servers(
        &mut self,
        raw: BTreeMap<String, RawServer>,
        catalogs: &Catalogs,
    ) -> Servers {
        let mut servers = Servers::new();
        for (name, raw) in self.named("mcp", raw) {
            let catalog = catalogs.get(&name).cloned();
            if let Some(server) = self.mcp_server(&name, raw, catalog) {
                if server.catalog.is_none() {
                    let source = Source::Server(name.clone(), server.prefix.clone());
                    self.expect_tools(&source, &server.prefix, &server.tools);
                    self.unlisted.insert(name.clone(), server.effect);
                }
                servers.insert(name, server);
            }
        }
        servers
    }

    fn mcp_server(
        &mut self,
        name: &Name,
        raw: RawServer,
        catalog: Option<Catalog>,
    ) -> Option<Server> {
        let path = ["mcp", name.as_str()];
        let [table, own] = path;
        let prefix = self.prefix(&path, raw.prefix);
        let transport = match (raw.command, raw.url) {
            (Some(command), None) => {
                self.foreign_fields(&path, &["headers"], "`url`");
                let env = self.settings(&path, "env", raw.env.unwrap_or_default());
                let directory = self.path_of("");
                Transport::Process { command, directory, env }
            }
            (None, Some(url)) => {
                self.foreign_fields(&path, &["env"], "`command`");
                self.address(&[table, own, "url"], &url);
                let headers = self.settings(&path, "headers", raw.headers.unwrap_or_default());
                Transport::Http { url, headers }
            }
            (Some(_), Some(_)) => {
                let message = format!("server `{name}` has both `command` and `url`");
                self.fault_at_key(&[table, own, "url"], message, "remove one of them");
                return None;
            }
            (None, None) => {
                // What is there but of the wrong type has been reported.
                let has = |field| self.document.has(&[table, own, field]);
                if !has("command") && !has("url") {
                    let message = format!("server `{name}` does not say how it is reached");
                    let help = "add `command = [\"program\", \"argument\"]`, or `url`";
                    self.fault(&path, message, help);
                }
                return None;
            }
        };
        let start_ms = raw.start_timeout_ms.unwrap_or(SERVER_START_TIMEOUT_MS.default);
        let elicitation = raw.elicitation.unwrap_or(false);
        if !elicitation {
            self.foreign_fields(&path, &["question_timeout_ms"], "`elicitation = true`");
        }
        let question_ms = raw.question_timeout_ms.unwrap_or(QUESTION_TIMEOUT_MS.default);
        let start_timeout = Duration::from_millis(start_ms);
        Some(Server {
            spec: ServerSpec { transport, start_timeout, elicitation },
            catalog,
            tools: raw.tools.unwrap_or_default(),
            prefix,
            effect: raw.effect,
            trusted: raw.trusted.unwrap_or(false),
            timeout_ms: raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default),
            question_timeout_ms: elicitation.then_some(question_ms),
        })
    }

    /// Returns what the names of the tools of a source begin with.
    pub(super) fn prefix(&mut self, path: &[&str; 2], written: Option<String>) -> String {
        let [table, own] = *path;
        let prefix = written.unwrap_or_else(|| format!("{own}_"));
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !prefix.chars().all(is_letter) {
            let message = format!("`prefix` {prefix:?} is no beginning of a name");
            self.fault(&[table, own, "prefix"], message, "use letters, digits, `_` and `-`");
        }
        prefix
    }

    pub(super) fn settings(
        &mut self,
        path: &[&str; 2],
        field: &str,
        raw: BTreeMap<String, RawValue>,
    ) -> Vec<(String, Setting)> {
        let [table, own] = *path;
        let mut settings = Vec::new();
        for (name, value) in raw {
            let at = [table, own, field, &name];
            let is_name = !name.is_empty() && !name.contains(['=', '\0', ' ', ':']);
            if !is_name {
                let message = format!("{name:?} in `{field}` is no name");
                self.fault_at_key(&at, message, "write the name alone");
                continue;
            }
            let setting = match value {
                RawValue::Text(text) => Some(Setting::Text(text)),
                RawValue::Secret(raw) => {
                    let secret = self.secret_value(&at, &format!("`{name}` of `{field}`"), raw);
                    secret.map(|(prefix, secret)| Setting::Secret { prefix, secret })
                }
            };
            let Some(setting) = setting else { continue };
            let (fault, help) = if field == "headers" {
                let help = "names have letters, digits and `-`, and values no line breaks";
                (setting.header_fault(&name), help)
            } else {
                (setting.variable_fault(), "leave it out")
            };
            if let Some(fault) = fault {
                self.fault_at_key(&at, format!("`{name}` of `{field}` {fault}"), help);
                continue;
            }
            settings.push((name, setting));
        }
        settings
    }

    /// Makes a tool that has a table of its own.
    pub(super) fn mcp_tool(
        &mut self,
        name: &Name,
        raw: RawTool,
        servers: &Servers,
    ) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        let [table, own] = path;
        let server = self.needed(&path, "server", raw.server, "the MCP server of the team")?;
        if !self.document.has(&["mcp", &server]) {
            let known = self.document.keys(&["mcp"]);
            let help = self.advice(&server, &known, "mcp");
            let message = format!("there is no MCP server `{server}`");
            self.fault(&[table, own, "server"], message, help);
            return None;
        }
        // One with faults of its own has been reported.
        let (server_name, server) = servers.get_key_value(server.as_str())?;
        let tool = raw.tool.unwrap_or_else(|| name.to_string());
        let listed = match &server.catalog {
            None => Some(unknown(&tool)),
            Some(catalog) => {
                let listed = catalog.get(&tool);
                if listed.is_none() {
                    let has_tool = self.document.has(&[table, own, "tool"]);
                    let at = if has_tool { "tool" } else { "server" };
                    self.not_listed(&[table, own, at], server_name, &tool, catalog);
                }
                listed.cloned()
            }
        }?;
        if let Err(error) = check_parameters(&listed.parameters()) {
            self.not_fit(&path, server_name, &tool, &error);
            return None;
        }
        let mut made = team_tool(name, server_name, server, &listed, raw.effect);
        if let Some(description) = raw.description {
            made.offer.spec.description = description;
        }
        made.offer.timeout_ms = raw.timeout_ms.unwrap_or(made.offer.timeout_ms);
        made.concurrency = raw.concurrency.unwrap_or(made.concurrency);
        if let (ToolKind::Mcp(spec), Some(bytes)) = (&mut made.kind, raw.response_bytes_max) {
            spec.response_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        Some(made)
    }

    /// Adds the tools that the team has of its servers without a table of their own.
    pub(super) fn server_tools(&mut self, servers: &Servers, tools: &mut BTreeMap<Name, TeamTool>) {
        for (name, server) in servers {
            let Some(catalog) = &server.catalog else { continue };
            for (index, tool) in server.tools.iter().enumerate() {
                if tool != ALL && catalog.get(tool).is_none() {
                    let at = ["mcp", name.as_str(), "tools", &index.to_string()];
                    self.not_listed(&at, name, tool, catalog);
                }
            }
            let has_table = |tool: &str| {
                tools.values().any(|own| match &own.kind {
                    ToolKind::Mcp(spec) => spec.server == *name && spec.listed.name == tool,
                    ToolKind::Builtin(_)
                    | ToolKind::CloudEvent(_)
                    | ToolKind::Command(_)
                    | ToolKind::Http(_)
                    | ToolKind::Model(_)
                    | ToolKind::Nats(_)
                    | ToolKind::Query(_) => false,
                })
            };
            let is_taken = |name: &str| self.is_taken(name, tools);
            let wanted = |tool: &Listed| server.wants(&tool.name) && !has_table(&tool.name);
            let offered =
                offered_names(&server.prefix, &catalog.tools, |tool| &tool.name, wanted, is_taken);
            for (offered, listed) in offered {
                if let Err(error) = check_parameters(&listed.parameters()) {
                    self.not_fit(&["mcp", name.as_str()], name, &listed.name, &error);
                    continue;
                }
                let tool = team_tool(&offered, name, server, listed, None);
                tools.insert(offered, tool);
            }
        }
        self.too_many(&["mcp"], tools);
    }

    /// Tells whether a tool of a source cannot have a name, since something else has it.
    pub(super) fn is_taken(&self, name: &str, tools: &BTreeMap<Name, TeamTool>) -> bool {
        tools.contains_key(name)
            || self.document.has(&["tools", name])
            || self.document.has(&["agents", name])
            || Builtin::from_name(name).is_some()
            || name == super::ANSWER
    }

    /// Reports a source with which the team has too many tools.
    pub(super) fn too_many(&mut self, source: &[&str], tools: &BTreeMap<Name, TeamTool>) {
        if tools.len() > TOOLS_MAX {
            let message =
                format!("the team has {} tools, at most {TOOLS_MAX} allowed", tools.len());
            self.fault(source, message, "take fewer of them, by naming those that are wanted");
        }
    }

    /// Adds the offers of all tools of sources whose names begin with a text.
    pub(super) fn offers_of_sources(
        &mut self,
        prefix: &str,
        at: &[&str],
        tools: &BTreeMap<Name, TeamTool>,
        offers: &mut Vec<Offer>,
    ) {
        let begin_so = tools.iter().filter(|(name, tool)| {
            name.as_str().starts_with(prefix)
                && (is_of_source(&tool.kind) || self.of_interfaces.contains_key(*name))
        });
        let mut found = false;
        for (name, tool) in begin_so {
            found = true;
            if offers.iter().all(|offer| offer.spec.name != *name) {
                offers.push(tool.offer.clone());
            }
        }
        let said = format!("no tool of a server, service or interface begins with {prefix:?}");
        if !found && !self.may_come(&format!("{prefix}*"), &said) {
            let help = "name tools one by one, or add `tools = [\"*\"]` to the server";
            self.fault(at, said, help);
        }
    }

    /// Makes a tool of a server whose tools are not known, if the name may be one of them.
    pub(super) fn unlisted_tool(
        &mut self,
        text: &str,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) -> Option<Name> {
        let (server, own) = self.may_be_of_server(text)?;
        let name = Name::new(text).ok()?;
        let listed = unknown(&own);
        let effect = self.unlisted.get(&server).copied().flatten().unwrap_or(EffectClass::Once);
        let mut tool = tool_of(&name, &server, &listed, effect, TOOL_TIMEOUT_MS.default);
        let of_kind = tool.kind.labels(tool.offer.effect);
        tool.offer.labels = self.labelling.labels(&name, &tool, None, of_kind);
        tool.offer.capture = self.labelling.capture(&name, &tool, None);
        let said = self.labelling.labels(&name, &tool, None, Labels::NONE);
        self.unknown.insert(name.clone(), said);
        tools.insert(name.clone(), tool);
        Some(name)
    }

    fn not_listed(&mut self, at: &[&str], server: &Name, tool: &str, catalog: &Catalog) {
        let known: Vec<&str> = catalog.tools.iter().map(|tool| tool.name.as_str()).collect();
        let help = match nearest(tool, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`callboard tools TEAM.toml --compare {server}` says what it has"),
        };
        self.fault(at, format!("MCP server `{server}` has no tool `{tool}`"), help);
    }

    fn not_fit(&mut self, at: &[&str], server: &Name, tool: &str, error: &str) {
        let message = format!("tool `{tool}` of MCP server `{server}` cannot be offered: {error}");
        self.fault(at, message, "leave it out: name the tools that are wanted in `tools`");
    }
}

/// Tells whether a tool comes from somebody who describes it, and may be granted by a pattern.
fn is_of_source(kind: &ToolKind) -> bool {
    match kind {
        ToolKind::CloudEvent(_) | ToolKind::Mcp(_) => true,
        ToolKind::Nats(spec) => spec.source.is_some(),
        ToolKind::Builtin(_)
        | ToolKind::Command(_)
        | ToolKind::Http(_)
        | ToolKind::Model(_)
        | ToolKind::Query(_) => false,
    }
}

/// Stands for a tool of which only the name is known.
fn unknown(tool: &str) -> Listed {
    Listed { name: tool.to_owned(), parameters: json!({"type": "object"}), ..Listed::default() }
}

fn team_tool(
    name: &Name,
    server_name: &Name,
    server: &Server,
    listed: &Listed,
    effect: Option<EffectClass>,
) -> TeamTool {
    let effect = listed.hints.effect(effect.or(server.effect), server.trusted);
    let mut made = tool_of(name, server_name, listed, effect, server.timeout_ms);
    made.offer.question_timeout_ms = server.question_timeout_ms;
    if let ToolKind::Mcp(spec) = &mut made.kind {
        spec.elicitation = server.question_timeout_ms.is_some();
    }
    made
}

fn tool_of(
    name: &Name,
    server: &Name,
    listed: &Listed,
    effect: EffectClass,
    timeout_ms: u64,
) -> TeamTool {
    let text = listed.description.trim();
    let kept = text.get(..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)).unwrap_or(text);
    let parameters: Value = listed.parameters();
    let spec = ToolSpec { name: name.clone(), description: kept.to_owned(), parameters };
    TeamTool {
        offer: offer(spec, effect, timeout_ms),
        kind: ToolKind::Mcp(McpSpec {
            server: server.clone(),
            listed: Arc::new(listed.clone()),
            effect,
            response_bytes_max: usize::try_from(RESPONSE_BYTES_MAX.default).unwrap_or(usize::MAX),
            elicitation: false,
        }),
        concurrency: concurrency(),
    }
}
