//! The event types of a team, and the tools that it has of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tools::cloudevent::event::Mode;
use tools::cloudevent::types::{EventType, EventTypes, is_attribute};
use tools::cloudevent::{EventSource, EventSpec, REPLY_ATTRIBUTE, ReplyWay, Sink};
use tools::{ToolKind, offered_names};
use wire::{EffectClass, ErrorCode, Name, ToolSpec};

use super::Compiler;
use super::coming::{self, ALL};
use super::tools::{concurrency, offer};
use crate::bound::{
    DESCRIPTION_BYTES_MAX, EVENT_SOURCE_DEFAULT, RESPONSE_BYTES_MAX, TOOL_TIMEOUT_MS,
};
use crate::raw::{RawEventTypes, RawMode, RawReplyWay, RawTool};
use crate::suggest::nearest;
use crate::team::{Events, TeamTool};

/// Stands for the address of each type's own reference.
const REFERENCE: &str = "reference";

/// The sources that have no faults of their own.
pub(super) type EventSources = BTreeMap<Name, Source>;

/// One source, with what is said of its tools.
pub(super) struct Source {
    events: Events,
    found: EventTypes,
    types: Vec<String>,
    prefix: String,
    effect: EffectClass,
    timeout_ms: u64,
}

impl Source {
    pub(super) fn into_team(self) -> Events {
        self.events
    }

    fn wants(&self, kind: &str) -> bool {
        self.types.iter().any(|wanted| wanted == ALL || wanted == kind)
    }

    /// Tells whether there is a place to which events of a type go.
    fn reaches(&self, event_type: &EventType) -> bool {
        match self.events.source.sink {
            Sink::Http { .. } | Sink::Subject(_) => true,
            Sink::Reference { .. } => event_type.address.is_some(),
        }
    }
}

impl Compiler<'_> {
    pub(super) fn event_sources(&mut self, raw: BTreeMap<String, RawEventTypes>) -> EventSources {
        let mut sources = EventSources::new();
        for (name, raw) in self.named("eventtypes", raw) {
            if let Some(source) = self.event_source(&name, raw) {
                for fault in &source.found.faults {
                    self.left_out.push(format!("{}: {}", fault.file.display(), fault.what));
                }
                self.expect_tools(
                    &coming::Source::Events(name.clone()),
                    &source.prefix,
                    &source.types,
                );
                sources.insert(name, source);
            }
        }
        sources
    }

    fn event_source(&mut self, name: &Name, raw: RawEventTypes) -> Option<Source> {
        let path = ["eventtypes", name.as_str()];
        let [table, own] = path;
        let what = "the file or folder of event types, relative to the team file";
        let written = self.needed(&path, "path", raw.path, what);
        let prefix = self.prefix(&path, raw.prefix);
        let reply = match raw.reply {
            Some(RawReplyWay::Event) => ReplyWay::Event,
            Some(RawReplyWay::Response) | None => ReplyWay::Response,
        };
        if reply == ReplyWay::Response {
            self.foreign_fields(&path, &["reply_subject"], "`reply = \"event\"`");
        }
        let attribute = raw.reply_attribute.unwrap_or_else(|| REPLY_ATTRIBUTE.to_owned());
        if !is_attribute(&attribute) {
            let message = format!("{attribute:?} is no name of an attribute");
            let help = "use 1 to 20 lower-case letters and digits";
            self.fault(&[table, own, "reply_attribute"], message, help);
        }
        let reply_subject = raw.reply_subject;
        if let Some(subject) = &reply_subject {
            self.event_subject(&[table, own, "reply_subject"], subject);
        }
        let (sink, usual) = match (raw.sink, raw.sink_subject) {
            (Some(word), None) if word == REFERENCE => {
                let headers = self.settings(&path, "headers", raw.headers.unwrap_or_default());
                (Sink::Reference { headers }, Mode::Binary)
            }
            (Some(url), None) => {
                self.address(&[table, own, "sink"], &url);
                let headers = self.settings(&path, "headers", raw.headers.unwrap_or_default());
                (Sink::Http { url, headers }, Mode::Binary)
            }
            (None, Some(subject)) => {
                self.foreign_fields(&path, &["headers"], "`sink`");
                self.event_subject(&[table, own, "sink_subject"], &subject);
                (Sink::Subject(subject), Mode::Structured)
            }
            (Some(_), Some(_)) => {
                let message = format!("`{table}.{own}` has both `sink` and `sink_subject`");
                let at = [table, own, "sink_subject"];
                self.fault_at_key(&at, message, "remove one of them");
                return None;
            }
            (None, None) => {
                // What is there but of the wrong type has been reported.
                let has = |field| self.document.has(&[table, own, field]);
                if !has("sink") && !has("sink_subject") {
                    let message = format!("`{table}.{own}` does not say where events go");
                    let help = "add `sink = \"http://..\"`, or `sink_subject`";
                    self.fault(&path, message, help);
                }
                return None;
            }
        };
        let mode = match raw.mode {
            Some(RawMode::Binary) => Mode::Binary,
            Some(RawMode::Structured) => Mode::Structured,
            None => usual,
        };
        let source = EventSource {
            name: name.clone(),
            sink,
            mode,
            origin: raw.source.unwrap_or_else(|| EVENT_SOURCE_DEFAULT.to_owned()),
            reply,
            reply_attribute: attribute,
        };
        let full = self.path_of(&written?);
        let found = self.event_types(&[table, own, "path"], name, &full)?;
        Some(Source {
            events: Events { source: Arc::new(source), path: full, reply_subject },
            found,
            types: raw.types.unwrap_or_else(|| vec![ALL.to_owned()]),
            prefix,
            effect: raw.effect.unwrap_or(EffectClass::Once),
            timeout_ms: raw.timeout_ms.unwrap_or(TOOL_TIMEOUT_MS.default),
        })
    }

    fn event_subject(&mut self, at: &[&str], subject: &str) {
        let is_letter = |c: char| c.is_ascii_graphic() && !matches!(c, '*' | '>' | '.');
        let sound = subject.split('.').all(|part| !part.is_empty() && part.chars().all(is_letter));
        let is_foreign = ["$", "_INBOX", "callboard."].iter().all(|own| !subject.starts_with(own));
        if !sound || !is_foreign {
            let message = format!("{subject:?} is no subject for events");
            let help = "write one such as `tools.events`, without `*`, `>` and `$`";
            self.fault(at, message, help);
        }
    }

    /// Returns what stands in the file or folder, unless it is known already.
    fn event_types(
        &mut self,
        at: &[&str],
        name: &Name,
        path: &std::path::Path,
    ) -> Option<EventTypes> {
        if let Some(known) = self.events_known.get(name) {
            return Some(known.clone());
        }
        match (self.event_files)(path) {
            Ok(found) => Some(found),
            Err(error) => {
                let span = self.span(at);
                let message = format!("event types in {} cannot be read: {error}", path.display());
                let help = "paths are relative to the team file; a folder may be empty".to_owned();
                self.report.add_in(0, ErrorCode::FileUnreadable, span, message, help);
                None
            }
        }
    }

    /// Makes a tool that has a table of its own.
    pub(super) fn event_tool(
        &mut self,
        name: &Name,
        raw: RawTool,
        sources: &EventSources,
    ) -> Option<TeamTool> {
        let path = ["tools", name.as_str()];
        let [table, own] = path;
        let what = "the source of event types of the team";
        let text = self.needed(&path, "eventtypes", raw.eventtypes, what);
        let kind = self.needed(&path, "type", raw.r#type, "the type of the events");
        let text = text?;
        if !self.document.has(&["eventtypes", &text]) {
            let help = self.advice(&text, &self.document.keys(&["eventtypes"]), "eventtypes");
            let message = format!("there are no event types `{text}`");
            self.fault(&[table, own, "eventtypes"], message, help);
            return None;
        }
        // One with faults of its own has been reported.
        let source = sources.get(text.as_str())?;
        let kind = kind?;
        let Some(event_type) = source.found.get(&kind) else {
            self.no_type(&[table, own, "type"], &text, &kind, &source.found);
            return None;
        };
        if !source.reaches(event_type) {
            let message = unreached(&kind);
            let help = "write an address into `sink`, or give the type a `reference`";
            self.fault(&[table, own, "type"], message, help);
            return None;
        }
        let mut made = event_tool(name, source, event_type, raw.effect);
        if let Some(description) = raw.description {
            made.offer.spec.description = description;
        }
        made.offer.timeout_ms = raw.timeout_ms.unwrap_or(made.offer.timeout_ms);
        made.concurrency = raw.concurrency.unwrap_or(made.concurrency);
        if let (ToolKind::CloudEvent(spec), Some(bytes)) = (&mut made.kind, raw.response_bytes_max)
        {
            spec.response_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        Some(made)
    }

    /// Adds the tools that the team has of event types without a table of their own.
    pub(super) fn event_tools(
        &mut self,
        sources: &EventSources,
        tools: &mut BTreeMap<Name, TeamTool>,
    ) {
        for (name, source) in sources {
            for (index, kind) in source.types.iter().enumerate() {
                if kind != ALL && source.found.get(kind).is_none() {
                    // It may come while the team runs.
                    let at = source.events.path.display();
                    self.left_out.push(format!("event type {kind:?} is not in {at}"));
                    // One that is listed itself is not what is meant by another.
                    let found = source.found.types.iter().map(|found| found.kind.as_str());
                    let others = found.filter(|found| source.types.iter().all(|t| t != found));
                    if nearest(kind, others).is_some() {
                        let at = ["eventtypes", name.as_str(), "types", &index.to_string()];
                        self.no_type(&at, name.as_str(), kind, &source.found);
                    }
                }
            }
            let has_table = |kind: &str| {
                let of_type =
                    |spec: &EventSpec| spec.source.name == *name && spec.event_type.kind == kind;
                tools.values().any(|own| match &own.kind {
                    ToolKind::CloudEvent(spec) => of_type(spec),
                    ToolKind::Builtin(_)
                    | ToolKind::Command(_)
                    | ToolKind::Http(_)
                    | ToolKind::Mcp(_)
                    | ToolKind::Model(_)
                    | ToolKind::Nats(_)
                    | ToolKind::Query(_) => false,
                })
            };
            let is_taken = |name: &str| self.is_taken(name, tools);
            let wanted = |event: &EventType| source.wants(&event.kind) && !has_table(&event.kind);
            let lost = |event: &&EventType| wanted(event) && !source.reaches(event);
            let lost: Vec<String> =
                source.found.types.iter().filter(lost).map(|t| unreached(&t.kind)).collect();
            let wanted = |event: &EventType| wanted(event) && source.reaches(event);
            let types = &source.found.types;
            let named = offered_names(&source.prefix, types, |t| &t.kind, wanted, is_taken);
            let named: Vec<(Name, TeamTool)> = named
                .into_iter()
                .map(|(name, found)| {
                    let tool = event_tool(&name, source, found, None);
                    (name, tool)
                })
                .collect();
            tools.extend(named);
            self.left_out.extend(lost);
        }
        self.too_many(&["eventtypes"], tools);
    }

    fn no_type(&mut self, at: &[&str], source: &str, kind: &str, found: &EventTypes) {
        let known: Vec<&str> = found.types.iter().map(|known| known.kind.as_str()).collect();
        let help = match nearest(kind, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None if known.is_empty() => "there is none".to_owned(),
            None => format!("it has {}", known.join(", ")),
        };
        let message = format!("event types `{source}` have no type {kind:?}");
        self.fault(at, message, help);
    }
}

/// Says of an event type that it has no place to which events go.
fn unreached(kind: &str) -> String {
    format!("event type {kind:?} has no `reference` to a broker, a service or a channel")
}

fn event_tool(
    name: &Name,
    source: &Source,
    event_type: &EventType,
    effect: Option<EffectClass>,
) -> TeamTool {
    let effect = effect.unwrap_or(source.effect);
    let text = event_type.description.trim();
    let description = match text.get(..text.floor_char_boundary(DESCRIPTION_BYTES_MAX)) {
        Some(kept) if !kept.is_empty() => kept.to_owned(),
        Some(_) | None => format!("Sends an event of type {}.", event_type.kind),
    };
    let parameters = event_type.parameters.clone();
    let spec = ToolSpec { name: name.clone(), description, parameters };
    let mut offer = offer(spec, effect, source.timeout_ms);
    offer.rejoins = source.events.source.reply == ReplyWay::Event;
    TeamTool {
        offer,
        kind: ToolKind::CloudEvent(EventSpec {
            source: source.events.source.clone(),
            event_type: Arc::new(event_type.clone()),
            effect,
            response_bytes_max: usize::try_from(RESPONSE_BYTES_MAX.default).unwrap_or(usize::MAX),
        }),
        concurrency: concurrency(),
    }
}
