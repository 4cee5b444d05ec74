//! Makes a letter from a template and arguments.

use std::collections::BTreeSet;

use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};
use wire::{CallOutcome, ErrorCode, Headers, header};

use super::NatsSpec;
use super::subject::SubjectTemplate;
use crate::argument::invalid;
use crate::http::{BodyTemplate, FieldSource, write_body};
use crate::messenger::{Letter, Messenger};
use crate::template::{Template, declared, json_texts};
use crate::tool::ToolContext;

/// The header that says what a body is.
const CONTENT_TYPE: &str = "Content-Type";

/// What the names of headers begin with that the runtime or NATS sets, in lower case.
const RESERVED: [&str; 4] = ["callboard-", "idempotency-key", "nats-", "traceparent"];

/// A template that is checked and taken apart.
#[derive(Debug)]
pub(super) struct Blueprint {
    subject: SubjectTemplate,
    /// Whether somebody else chose the subject, who has seen to it that it is none of ours.
    is_found: bool,
    headers: Vec<(String, FieldSource)>,
    body: BodyTemplate,
    /// The arguments that appear in the template.
    used: BTreeSet<String>,
}

impl Blueprint {
    /// Takes a template apart; the error lists all its faults.
    pub(super) fn new(spec: &NatsSpec) -> Result<Self, Vec<String>> {
        let subject = subject_of(spec);
        let mut faults: Vec<String> =
            spec.headers.iter().filter_map(|(name, source)| header_fault(name, source)).collect();
        if spec.response_bytes_max == 0 {
            faults.push("response_bytes_max has to be at least 1".to_owned());
        }
        match subject {
            Ok(subject) if faults.is_empty() => Ok(Self {
                subject,
                is_found: spec.source.is_some(),
                headers: spec.headers.clone(),
                body: spec.body.clone(),
                used: names(spec),
            }),
            subject => {
                faults.extend(subject.err());
                Err(faults)
            }
        }
    }

    /// Makes the letter of one call.
    pub(super) fn prepare(
        &self,
        context: &ToolContext,
        arguments: &Map<String, Value>,
        messenger: &dyn Messenger,
    ) -> Result<Letter, CallOutcome> {
        let subject = self.subject.fill(arguments)?;
        if !self.is_found && messenger.is_own(&subject) {
            return Err(invalid(format!("{subject} is a subject of the runtime itself")));
        }
        let mut headers = Headers::new();
        let body = write_body(&self.body, arguments, &self.used);
        let payload = body.map(|(content_type, payload)| {
            headers.insert(CONTENT_TYPE, content_type);
            payload
        });
        for (name, source) in &self.headers {
            if let Some(value) = header_value(name, source, arguments)? {
                headers.insert(name.to_owned(), value);
            }
        }
        headers.insert(header::IDEMPOTENCY_KEY, context.call.as_str());
        headers.insert(header::MESSAGE_ID, context.call.as_str());
        headers.insert(header::TRACEPARENT, context.trace.to_string());
        let payload = payload.unwrap_or_default().into();
        Ok(Letter { subject, reply: None, headers, payload })
    }
}

fn subject_of(spec: &NatsSpec) -> Result<SubjectTemplate, String> {
    match spec.source {
        None => SubjectTemplate::parse(&spec.subject),
        Some(_) => SubjectTemplate::literal(&spec.subject),
    }
}

/// Returns what is wrong with a template beside the JSON Schema of its parameters.
pub(super) fn misfits(spec: &NatsSpec, parameters: &Value) -> Vec<String> {
    let known = declared(parameters);
    let used = names(spec);
    let unknown = used.iter().filter(|name| !known.contains(name.as_str()));
    let mut faults: Vec<String> = unknown
        .map(|name| format!("{{{name}}} stands for a parameter that is not declared"))
        .collect();
    let required = parameters.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
    if let Ok(subject) = subject_of(spec) {
        let optional = subject.names().filter(|name| known.contains(name) && !is_required(name));
        faults.extend(optional.map(|name| {
            format!("parameter {name:?} is part of the subject and may be absent; require it")
        }));
    }
    if spec.body != BodyTemplate::Arguments {
        let unused = known.into_iter().filter(|name| !used.contains(*name));
        faults.extend(
            unused.map(|name| format!("parameter {name:?} appears nowhere in the request")),
        );
    }
    faults
}

/// Returns the names of all arguments in a template.
fn names(spec: &NatsSpec) -> BTreeSet<String> {
    let mut texts: Vec<&str> = Vec::new();
    texts.extend(spec.headers.iter().filter_map(|(_, source)| match source {
        FieldSource::Template(text) => Some(text.as_str()),
        FieldSource::Secret { .. } => None,
    }));
    match &spec.body {
        BodyTemplate::Json(value) => json_texts(value, &mut texts),
        BodyTemplate::Text(text) => texts.push(text),
        BodyTemplate::Arguments | BodyTemplate::Argument { .. } => {}
    }
    let templates: Vec<Template> = texts.into_iter().map(Template::parse).collect();
    let mut names: BTreeSet<String> =
        templates.iter().flat_map(Template::names).map(str::to_owned).collect();
    if let Ok(subject) = subject_of(spec) {
        names.extend(subject.names().map(str::to_owned));
    }
    names
}

fn header_fault(name: &str, source: &FieldSource) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || name.contains(|c: char| !c.is_ascii_graphic() || c == ':') {
        return Some(format!("{name:?} is no name of a header"));
    }
    if RESERVED.iter().any(|reserved| lower.starts_with(reserved)) {
        return Some(format!("header {name:?} is set by the runtime; leave it out"));
    }
    let fixed = match source {
        FieldSource::Template(text) => text,
        FieldSource::Secret { prefix, .. } => prefix,
    };
    let has_control = fixed.chars().any(char::is_control);
    has_control.then(|| format!("header {name:?} contains a line break or control character"))
}

/// Returns the value of a header, unless its argument is absent.
fn header_value(
    name: &str,
    source: &FieldSource,
    arguments: &Map<String, Value>,
) -> Result<Option<String>, CallOutcome> {
    let controlled = |text: &str| text.contains(char::is_control);
    let value = match source {
        FieldSource::Template(text) => {
            let Ok(text) = Template::parse(text).fill_plain(arguments) else { return Ok(None) };
            if controlled(&text) {
                let rule = "would contain a line break or control character";
                return Err(invalid(format!("header {name} {rule}")));
            }
            text
        }
        FieldSource::Secret { prefix, secret } => {
            let secret = secret.resolve().map_err(|error| CallOutcome::Error { error })?;
            let text = format!("{prefix}{}", secret.expose_secret());
            if controlled(&text) {
                let message = format!("the secret of header {name} cannot stand in a header");
                return Err(CallOutcome::error(ErrorCode::SecretMissing, message));
            }
            text
        }
    };
    // Receivers drop the space around a value, so it is not sent.
    Ok(Some(value.trim().to_owned()))
}
