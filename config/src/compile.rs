//! Gives a team file its meaning: resolves every reference and fills in every default.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ::tools::SecretRef;
use ::tools::cloudevent::types::EventTypes;
use ::tools::hop::{Places, hop};
use ::tools::mcp::Transport;
use ::tools::query::DatabaseSpec;
use url::Url;
use wire::plan::Labels;
use wire::{Capture, EffectClass, ErrorCode, Levels, Name};

use crate::bound::{RUNS_MAX, TEAM_WEIGHT, TRACE_EXPORT_DEFAULT, TRACE_STORE_DEFAULT};
use crate::document::Document;
use crate::raw::RawFile;
use crate::report::Report;
use crate::secrecy::{is_variable, may_hold_login};
use crate::sources::Sources;
use crate::suggest::nearest;
use crate::team::{Model, Team, TeamTool};

mod agents;
mod called;
mod circle;
mod coming;
mod command_tools;
mod databases;
mod discover;
mod doubt;
mod eventtypes;
mod fallback;
mod grammar;
mod interfaces;
mod labels;
mod model_tools;
mod models;
mod nats_tools;
mod permissions;
mod prices;
mod prompts;
mod query_tools;
mod retention;
mod served;
mod servers;
mod tools;
mod values;

pub(crate) use called::reachable;
use coming::Coming;
use labels::Labelling;

/// The name by which an actor model gives its answer; nothing else may be called so.
pub(crate) const ANSWER: &str = "respond_to_user";

/// Names that are listed where none is near the unknown one.
const NAMES_LISTED_MAX: usize = 16;

/// Makes the team of a file; whatever is wrong is reported.
///
/// Returns nothing if so much is wrong that there is no team. A team that is returned beside a
/// report with faults is not to be used.
pub(crate) fn compile(
    file: &Path,
    document: &Document,
    mut raw: RawFile,
    files: &dyn Fn(&Path) -> io::Result<String>,
    event_files: &dyn Fn(&Path) -> io::Result<EventTypes>,
    sources: &Sources,
    report: &mut Report,
) -> Option<Team> {
    let mut compiler = Compiler {
        file,
        document,
        files,
        event_files,
        events_known: &sources.events,
        labelling: Labelling::of(&raw),
        unlisted: BTreeMap::new(),
        unknown: BTreeMap::new(),
        coming: Vec::new(),
        of_interfaces: BTreeMap::new(),
        left_out: Vec::new(),
        secrets: Vec::new(),
        report,
    };
    let name = compiler.team_name(raw.team.name.as_deref());
    let models = compiler.models(std::mem::take(&mut raw.models));
    let databases = compiler.databases(std::mem::take(&mut raw.databases));
    let servers = compiler.servers(std::mem::take(&mut raw.mcp), &sources.mcp);
    let events = compiler.event_sources(std::mem::take(&mut raw.eventtypes));
    let behind =
        Behind { models: &models, databases: &databases, servers: &servers, events: &events };
    let mut tools = compiler.tools(std::mem::take(&mut raw.tools), &behind);
    compiler.interface_tools(std::mem::take(&mut raw.openapi), &mut tools);
    compiler.server_tools(&servers, &mut tools);
    compiler.event_tools(&events, &mut tools);
    let discoveries = compiler.discoveries(name.as_ref(), std::mem::take(&mut raw.discover));
    compiler.discovered_tools(&discoveries, &sources.services, &mut tools);
    compiler.labelling.apply(&compiler.of_interfaces, &mut tools);
    doubt::label_by_probes(&mut tools);
    hops(&behind, &mut tools);
    let mut agents = compiler.agents(name.as_ref(), &raw, &models, &mut tools);
    compiler.stand_ins(&agents, &models);
    served::serve(&mut agents, &models);
    compiler.aliases(&tools);
    let entry = compiler.entry(raw.team.entry.as_deref());
    if let Some(address) = &raw.team.otlp_endpoint {
        compiler.address(&["team", "otlp_endpoint"], address);
    }
    let retention = compiler.retention(&raw.retention);
    let export = raw.trace.export.unwrap_or(TRACE_EXPORT_DEFAULT);
    let is_idle = export != TRACE_EXPORT_DEFAULT && export != Capture::None;
    if is_idle && !document.has(&["team", "otlp_endpoint"]) {
        compiler.fault_at_key(
            &["trace", "export"],
            "`export` goes with `otlp_endpoint` of `[team]` only",
            "add `otlp_endpoint`, or remove `export`: traces are sent nowhere",
        );
    }
    let traces = Levels {
        store: raw.trace.store.unwrap_or(TRACE_STORE_DEFAULT),
        // What is sent nowhere is not gathered.
        export: raw.team.otlp_endpoint.as_ref().map_or(Capture::None, |_| export),
        off: raw.trace.enabled == Some(false),
    };
    for plan in agents.values_mut() {
        plan.traces = traces;
    }
    let left_out = compiler.left_out;
    let discover = discoveries.into_iter().map(|(name, found)| (name, found.discovery));
    Some(Team {
        name: name?,
        description: raw.team.description.unwrap_or_default(),
        file: file.to_owned(),
        entry: entry?,
        agents,
        models,
        databases: databases.into_iter().map(|(name, (spec, _))| (name, spec)).collect(),
        servers: servers.into_iter().map(|(name, server)| (name, server.into_team())).collect(),
        secrets: compiler.secrets,
        events: events.into_iter().map(|(name, source)| (name, source.into_team())).collect(),
        weight: raw.team.weight.unwrap_or_else(weight),
        discover: discover.collect(),
        left_out,
        tools,
        runs_max: raw.team.runs_max.unwrap_or(u32::try_from(RUNS_MAX.default).unwrap_or(u32::MAX)),
        otlp_endpoint: raw.team.otlp_endpoint,
        retention,
    })
}

/// Says of all tools how their calls leave the process.
fn hops(behind: &Behind<'_>, tools: &mut BTreeMap<Name, TeamTool>) {
    for tool in tools.values_mut() {
        tool.offer.hop = hop(&tool.kind, behind);
    }
}

impl Places for Behind<'_> {
    fn server(&self, name: &Name) -> Option<&Transport> {
        self.servers.get(name).map(|server| &server.spec.transport)
    }

    fn database(&self, name: &Name) -> Option<&DatabaseSpec> {
        self.databases.get(name).map(|(spec, _)| spec)
    }
}

/// What stands behind the tools of a team.
pub(crate) struct Behind<'a> {
    models: &'a BTreeMap<Name, Model>,
    databases: &'a databases::Databases,
    servers: &'a servers::Servers,
    events: &'a eventtypes::EventSources,
}

fn weight() -> u32 {
    u32::try_from(TEAM_WEIGHT.default).unwrap_or(u32::MAX)
}

/// What all parts of the compilation use.
pub(crate) struct Compiler<'a> {
    file: &'a Path,
    document: &'a Document<'a>,
    files: &'a dyn Fn(&Path) -> io::Result<String>,
    /// Reads the event types in a file or folder.
    event_files: &'a dyn Fn(&Path) -> io::Result<EventTypes>,
    /// The event types of sources that were read before.
    events_known: &'a BTreeMap<Name, EventTypes>,
    labelling: Labelling,
    /// The servers whose tools are not known, with the effect that all of these have, if it is said.
    unlisted: BTreeMap<Name, Option<EffectClass>>,
    /// The tools of these that agents name, with the labels that the file gives them.
    unknown: BTreeMap<Name, Labels>,
    /// The tools that are not known and may be there all the same.
    coming: Vec<Coming>,
    /// The tools that operations of OpenAPI files became, with the tables of these.
    of_interfaces: BTreeMap<Name, Name>,
    /// The secrets that are named so far.
    secrets: Vec<SecretRef>,
    /// What is described and cannot be offered, and why, and what is named that no tool is called.
    left_out: Vec<String>,
    report: &'a mut Report,
}

impl Compiler<'_> {
    fn team_name(&mut self, written: Option<&str>) -> Option<Name> {
        let stem = self.file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let text = written.map(str::to_owned).or(stem).unwrap_or_default();
        let help = match written {
            Some(_) => "change the name",
            None => "the file's name is no name of a team: add `name` to `[team]`",
        };
        Name::new(&text)
            .map_err(|error| self.fault(&["team", "name"], format!("team {text:?}: {error}"), help))
            .ok()
    }

    fn entry(&mut self, written: Option<&str>) -> Option<Name> {
        let agents = self.document.keys(&["agents"]);
        match (written, agents.as_slice()) {
            (Some(text), _) => self.reference("agents", text, &["team", "entry"]),
            (None, [only]) => Name::new(only).ok(),
            (None, []) => {
                self.fault(
                    &["agents"],
                    "the team has no agent",
                    "add a table such as `[agents.lead]`",
                );
                None
            }
            (None, agents) => {
                if !self.document.has(&["team", "entry"]) {
                    let message = format!(
                        "the team has {} agents and does not say which is asked",
                        agents.len()
                    );
                    let listed: Vec<&str> = agents.iter().take(NAMES_LISTED_MAX).copied().collect();
                    let help = format!("add `entry` to `[team]`, such as {}", listed.join(", "));
                    self.fault(&["team"], message, help);
                }
                None
            }
        }
    }

    /// Takes the names that are names out of a table, and reports the others.
    fn named<T>(&mut self, table: &str, entries: BTreeMap<String, T>) -> BTreeMap<Name, T> {
        let mut named = BTreeMap::new();
        for (text, entry) in entries {
            match Name::new(&text) {
                Ok(name) if name.as_str() == ANSWER => self.fault_at_key(
                    &[table, &text],
                    format!("the name `{ANSWER}` is taken"),
                    "choose another name: models give their answer by this one",
                ),
                Ok(name) => drop(named.insert(name, entry)),
                Err(error) => self.fault_at_key(
                    &[table, &text],
                    format!("{text:?} in `{table}`: {error}"),
                    "change the name",
                ),
            }
        }
        named
    }

    /// Resolves the name of an entry of a table; an entry that has faults of its own counts.
    fn reference(&mut self, table: &str, text: &str, path: &[&str]) -> Option<Name> {
        if self.document.has(&[table, text]) {
            return Name::new(text).ok();
        }
        let known = self.document.keys(&[table]);
        let help = self.advice(text, &known, table);
        let one = table.trim_end_matches('s');
        self.fault(path, format!("there is no {one} `{text}`"), help);
        None
    }

    /// Tells what an unknown name may have been meant to be.
    fn advice(&self, text: &str, known: &[&str], table: &str) -> String {
        if self.report.is_full() {
            return String::new();
        }
        let listed = known.iter().take(NAMES_LISTED_MAX).copied().collect::<Vec<_>>().join(", ");
        match nearest(text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => format!("add a table `[{table}.{text}]`"),
            None if known.len() > NAMES_LISTED_MAX => format!("known {table}: {listed}, .."),
            None => format!("known {table}: {listed}"),
        }
    }

    /// Reports the fields that belong to another form of the table.
    fn foreign_fields(&mut self, path: &[&str; 2], fields: &[&str], owner: &str) {
        let [table, name] = *path;
        for field in fields.iter().filter(|field| self.document.has(&[table, name, field])) {
            self.fault_at_key(
                &[table, name, field],
                format!("`{field}` goes with {owner} only"),
                format!("remove `{field}`, or change `{table}.{name}` to {owner}"),
            );
        }
    }

    /// Checks that an address is one of HTTP.
    fn address(&mut self, path: &[&str], address: &str) {
        let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
        let host = rest.map(|rest| rest.split('/').next().unwrap_or_default());
        let clean = !address.contains(|c: char| c.is_whitespace() || c.is_control());
        let is_whole = Url::parse(address).is_ok();
        if !is_whole || !clean || host.is_none_or(|host| host.is_empty() || may_hold_login(host)) {
            let what = if may_hold_login(address) {
                self.report.hide(self.document.value_span(path));
                "this".to_owned()
            } else {
                format!("{address:?}")
            };
            self.fault(
                path,
                format!("{what} is no address of an HTTP server"),
                "write one such as `http://127.0.0.1:8080/v1`; keys and passwords do not belong in it",
            );
        }
    }

    /// Takes the reference to a secret out of the two fields that may hold it.
    fn secret(
        &mut self,
        path: &[&str],
        [env_field, file_field]: [&str; 2],
        env: Option<&str>,
        file: Option<&str>,
    ) -> Option<SecretRef> {
        let secret = self.checked_secret(path, [env_field, file_field], env, file);
        self.secrets.extend(secret.clone());
        secret
    }

    fn checked_secret(
        &mut self,
        path: &[&str],
        [env_field, file_field]: [&str; 2],
        env: Option<&str>,
        file: Option<&str>,
    ) -> Option<SecretRef> {
        match (env, file) {
            (Some(_), Some(_)) => {
                let message =
                    format!("`{env_field}` and `{file_field}` both say where the secret is");
                self.fault(&[path, &[file_field]].concat(), message, "remove one of them");
                None
            }
            (Some(name), None) => {
                if !is_variable(name) {
                    // The text may be the secret itself, so it is not repeated. The check of the
                    // shape has hidden it in what is drawn.
                    self.fault(
                        &[path, &[env_field]].concat(),
                        format!("`{env_field}` is not the name of an environment variable"),
                        "write the name of the variable, never the secret itself",
                    );
                }
                Some(SecretRef::Env(name.to_owned()))
            }
            (None, Some(file)) => Some(SecretRef::File(self.path_of(file))),
            (None, None) => None,
        }
    }

    /// Reads a file that the team file names.
    fn read(&mut self, path: &[&str], file: &str, bytes_max: usize) -> Option<String> {
        let full = self.path_of(file);
        let (code, message, help) = match (self.files)(&full) {
            Ok(text) if text.len() <= bytes_max => return Some(text),
            Ok(_) => (
                ErrorCode::ConfigInvalid,
                format!("file `{file}` has more than {bytes_max} bytes"),
                "make it shorter".to_owned(),
            ),
            Err(error) => (
                ErrorCode::FileUnreadable,
                format!("file `{file}` cannot be read: {error}"),
                format!("paths are relative to the team file; tried {}", full.display()),
            ),
        };
        let span = self.span(path);
        self.report.add_in(0, code, span, message, help);
        None
    }

    fn path_of(&self, file: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(file)
    }

    fn fault(&mut self, path: &[&str], message: impl Into<String>, help: impl Into<String>) {
        let span = self.span(path);
        self.report.add(span, message, help);
    }

    fn fault_at_key(&mut self, path: &[&str], message: impl Into<String>, help: impl Into<String>) {
        let span = self.document.key_span(path);
        self.report.add(span, message, help);
    }

    fn span(&self, path: &[&str]) -> Option<Range<usize>> {
        self.document.value_span(path)
    }
}

/// Tells with which forms of a table a field goes: `kind = "http" | "model"`.
fn owners_text<'a>(key: &str, words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
    format!("`{key} = {}`", words.join(" | "))
}
