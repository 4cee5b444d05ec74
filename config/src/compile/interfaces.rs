//! The OpenAPI files of a team, and the tools that their operations become.

use std::collections::BTreeMap;

use agents_core::permission::Glob;
use tools::builtin::Builtin;
use tools::http::FieldSource;
use tools::openapi::{Base, FILE_BYTES_MAX, Interface, Made, Operation};
use tools::{ToolKind, offered_names};
use wire::{EffectClass, Name, ToolSpec};

use super::Compiler;
use super::tools::{concurrency, offer};
use super::values::WrittenPages;
use crate::bound::{DESCRIPTION_BYTES_MAX, RESPONSE_BYTES_MAX, TOOL_TIMEOUT_MS, TOOLS_MAX};
use crate::raw::RawInterface;
use crate::suggest::nearest;
use crate::team::TeamTool;

/// Stands before a pattern of operations that are left out.
const NOT: char = '!';

/// What the team file says of the operations of one file.
struct Wanted {
    file: String,
    prefix: String,
    effects: BTreeMap<String, EffectClass>,
    timeout_ms: u64,
    base: Base,
}

impl Compiler<'_> {
    /// Adds the tools that the team has of OpenAPI files.
    pub(super) fn interface_tools(
        &mut self,
        raw: BTreeMap<String, RawInterface>,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) {
        for (name, raw) in self.named("openapi", raw) {
            self.interface(&name, raw, tools);
        }
        if tools.len() > TOOLS_MAX && self.document.has(&["openapi"]) {
            let message =
                format!("the team has {} tools, at most {TOOLS_MAX} allowed", tools.len());
            self.fault(
                &["openapi"],
                message,
                "name the operations that are wanted in `operations`",
            );
        }
    }

    fn interface(
        &mut self,
        table_name: &Name,
        mut raw: RawInterface,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) -> Option<()> {
        let path = ["openapi", table_name.as_str()];
        let [table, own] = path;
        let file = self.needed(&path, "file", raw.file.take(), "the OpenAPI file")?;
        let at = [table, own, "file"];
        let text = self.read(&at, &file, FILE_BYTES_MAX)?;
        let interface = match Interface::parse(&text) {
            Ok(interface) => interface,
            Err(error) => {
                let message = format!("file `{file}` cannot be used: {error}");
                self.fault(&at, message, "see https://spec.openapis.org for how it is written");
                return None;
            }
        };
        let patterns = raw.operations.take();
        let wanted = self.wanted(&path, file, raw);
        let operations = interface.operations();
        let all = self.selected(&path, patterns, &operations);
        self.unknown_effects(&path, &wanted, &operations);
        let is_taken = |name: &str| {
            tools.contains_key(name)
                || self.document.has(&["tools", name])
                || self.document.has(&["agents", name])
                || Builtin::from_name(name).is_some()
                || name == super::ANSWER
        };
        let is_wanted = |operation: &Operation<'_>| all.contains(&operation.id.as_str());
        let offered = offered_names(
            &wanted.prefix,
            &operations,
            |operation| operation.id.as_str(),
            is_wanted,
            is_taken,
        );
        for (name, operation) in offered {
            match operation.make(&interface, &wanted.base) {
                Ok(made) => {
                    tools.insert(name.clone(), team_tool(&name, operation, made, &wanted));
                    self.of_interfaces.insert(name, table_name.clone());
                }
                Err(error) => {
                    let (id, place, file) = (&operation.id, operation.place(), &wanted.file);
                    let message =
                        format!("operation `{id}` ({place}) of `{file}` cannot be a tool: {error}");
                    let help = format!("leave it out: add \"{NOT}{id}\" to `operations`");
                    self.fault(&path, message, help);
                }
            }
        }
        Some(())
    }

    fn wanted(&mut self, path: &[&str; 2], file: String, raw: RawInterface) -> Wanted {
        let [table, own] = *path;
        let prefix = self.prefix(path, raw.prefix);
        if let Some(address) = &raw.base_url {
            self.address(&[table, own, "base_url"], address);
        }
        // One that is no address has been reported, and is not reported again for each operation.
        let is_address = |url: &String| ["http://", "https://"].iter().any(|s| url.starts_with(s));
        let url = raw.base_url.filter(is_address);
        let allowed = self.allowed(path, raw.allow_hosts.as_deref());
        let headers = self.field_sources(path, "headers", raw.headers.unwrap_or_default());
        let query = self.query_fields(path, raw.query.unwrap_or_default());
        // A place for an argument would be one that no operation has.
        let texts = headers.iter().map(|(name, source)| ("headers", name, source));
        let texts = texts.chain(query.iter().map(|field| ("query", &field.name, &field.source)));
        for (field, name, source) in texts {
            if let FieldSource::Template(text) = source
                && tools::Template::parse(text).has_places()
            {
                let message = format!("`{name}` of `{field}` has places for arguments");
                self.fault(&[table, own, field, name], message, "write a fixed text, or a secret");
            }
        }
        let written = WrittenPages {
            pages_max: raw.pages_max,
            next: raw.next,
            parameter: raw.next_parameter,
            items: raw.items,
        };
        let pages = self.pages(path, written);
        let bytes = raw.response_bytes_max.unwrap_or(RESPONSE_BYTES_MAX.default);
        let response_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        Wanted {
            file,
            prefix,
            effects: raw.effects.unwrap_or_default(),
            timeout_ms: raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default),
            base: Base { url, allowed, headers, query, response_bytes_max, pages },
        }
    }

    /// Returns the ids of the operations that are wanted; a pattern that fits none is reported.
    fn selected<'o>(
        &mut self,
        path: &[&str; 2],
        patterns: Option<Vec<String>>,
        operations: &'o [Operation<'_>],
    ) -> Vec<&'o str> {
        let [table, own] = *path;
        let patterns = patterns.unwrap_or_else(|| vec!["*".to_owned()]);
        let ids: Vec<&str> = operations.iter().map(|operation| operation.id.as_str()).collect();
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for (index, pattern) in patterns.iter().enumerate() {
            let plain = pattern.strip_prefix(NOT);
            let glob = Glob::parse(plain.unwrap_or(pattern));
            if !ids.iter().any(|id| glob.matches(id)) {
                let help = match nearest(plain.unwrap_or(pattern), ids.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "write an `operationId` of the file, or a pattern of them".to_owned(),
                };
                let at = [table, own, "operations", &index.to_string()];
                self.fault(&at, format!("no operation of the file fits {pattern:?}"), help);
            }
            if plain.is_some() { unwanted.push(glob) } else { wanted.push(glob) }
        }
        if wanted.is_empty() {
            wanted.push(Glob::parse("*"));
        }
        let fits = |globs: &[Glob], id: &str| globs.iter().any(|glob| glob.matches(id));
        ids.into_iter().filter(|id| fits(&wanted, id) && !fits(&unwanted, id)).collect()
    }

    fn unknown_effects(&mut self, path: &[&str; 2], wanted: &Wanted, operations: &[Operation<'_>]) {
        let [table, own] = *path;
        let known = |id: &String| operations.iter().any(|operation| operation.id == *id);
        for id in wanted.effects.keys().filter(|id| !known(id)) {
            let ids = operations.iter().map(|operation| operation.id.as_str());
            let help = match nearest(id, ids) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "write an `operationId` of the file".to_owned(),
            };
            let message = format!("the file has no operation `{id}`");
            self.fault_at_key(&[table, own, "effects", id], message, help);
        }
    }
}

fn team_tool(name: &Name, operation: &Operation<'_>, made: Made, wanted: &Wanted) -> TeamTool {
    let effect = wanted.effects.get(&operation.id).copied().unwrap_or_else(|| made.spec.effect());
    let text = made.description;
    let kept = text.get(..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)).unwrap_or(&text);
    let spec =
        ToolSpec { name: name.clone(), description: kept.to_owned(), parameters: made.parameters };
    TeamTool {
        offer: offer(spec, effect, wanted.timeout_ms),
        kind: ToolKind::Http(made.spec),
        concurrency: concurrency(),
    }
}
