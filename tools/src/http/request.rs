//! Makes a request from a template and arguments.

use std::collections::BTreeSet;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use wire::{CallOutcome, ErrorCode};

use super::address::{ADDRESS_BYTES_MAX, Address};
use super::{BodyTemplate, HeaderSource, HttpSpec};
use crate::argument::invalid;
use crate::secret::SecretRef;
use crate::template::{Template, fill_json, json_texts, to_text};
use crate::tool::ToolContext;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Headers that the runtime or the client sets.
const RESERVED: [&str; 6] =
    ["idempotency-key", "traceparent", "host", "content-length", "transfer-encoding", "connection"];

const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// A template that is checked and taken apart.
#[derive(Debug)]
pub(super) struct Blueprint {
    method: Method,
    pub(super) address: Address,
    query: Vec<(String, Template)>,
    headers: Vec<(HeaderName, HeaderPart)>,
    body: Option<BodyTemplate>,
    /// The arguments that appear in the template.
    used: BTreeSet<String>,
}

#[derive(Debug)]
enum HeaderPart {
    Template(Template),
    Secret { prefix: String, secret: SecretRef },
}

/// A request, and the secrets in it, which no answer may show.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) request: reqwest::RequestBuilder,
    pub(super) secrets: Vec<SecretString>,
}

impl Blueprint {
    /// Takes a template apart; the error lists all its faults.
    pub(super) fn new(spec: &HttpSpec) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let method = METHODS.into_iter().find(|method| method.as_str() == spec.method);
        if method.is_none() {
            let names: Vec<&str> = METHODS.iter().map(Method::as_str).collect();
            faults.push(format!("method {:?} is none of {}", spec.method, names.join(", ")));
        }
        if spec.body.is_some() && matches!(method, Some(Method::GET | Method::HEAD)) {
            faults.push(format!("a {} request has no body", spec.method));
        }
        if spec.response_bytes_max == 0 {
            faults.push("response_bytes_max has to be at least 1".to_owned());
        }
        let address = Address::parse(&spec.url).map_err(|fault| faults.push(fault)).ok();
        let mut headers = Vec::new();
        for (name, source) in &spec.headers {
            match header(name, source) {
                Ok(header) => headers.push(header),
                Err(fault) => faults.push(fault),
            }
        }
        let (Some(method), Some(address), true) = (method, address, faults.is_empty()) else {
            return Err(faults);
        };
        let query: Vec<(String, Template)> =
            spec.query.iter().map(|(name, text)| (name.clone(), Template::parse(text))).collect();
        let used = names(spec);
        Ok(Self { method, address, query, headers, body: spec.body.clone(), used })
    }

    /// Makes the request of one call.
    pub(super) fn prepare(
        &self,
        client: &reqwest::Client,
        context: &ToolContext,
        arguments: &Map<String, Value>,
    ) -> Result<Prepared, CallOutcome> {
        let mut url = self.address.fill(arguments).map_err(invalid)?;
        for (name, template) in &self.query {
            // A list is one parameter for each of its items.
            let list = template.whole().and_then(|name| arguments.get(name)?.as_array());
            if let Some(items) = list {
                url.query_pairs_mut()
                    .extend_pairs(items.iter().map(|item| (name.as_str(), to_text(item))));
            } else if let Ok(value) = template.fill_plain(arguments) {
                url.query_pairs_mut().append_pair(name, &value);
            }
        }
        if url.as_str().len() > ADDRESS_BYTES_MAX {
            return Err(invalid(format!(
                "the arguments make an address of {} bytes, more than {ADDRESS_BYTES_MAX}",
                url.as_str().len()
            )));
        }
        let mut secrets = Vec::new();
        let mut headers = self.headers(arguments, &mut secrets)?;
        let own =
            [(IDEMPOTENCY_KEY, context.call.to_string()), (TRACEPARENT, context.trace.to_string())];
        for (name, value) in own {
            let value = HeaderValue::try_from(value).map_err(|error| invalid(error.to_string()))?;
            headers.insert(name, value);
        }
        let mut request = client.request(self.method.clone(), url);
        if let Some((content_type, body)) = self.body(arguments) {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static(content_type));
            request = request.body(body);
        }
        Ok(Prepared { request: request.headers(headers), secrets })
    }

    fn headers(
        &self,
        arguments: &Map<String, Value>,
        secrets: &mut Vec<SecretString>,
    ) -> Result<HeaderMap, CallOutcome> {
        let mut headers = HeaderMap::new();
        for (name, part) in &self.headers {
            match part {
                HeaderPart::Template(template) => {
                    let Ok(text) = template.fill_plain(arguments) else { continue };
                    let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
                        invalid(format!(
                            "header {name} would contain a line break or control character"
                        ))
                    })?;
                    headers.append(name, value);
                }
                HeaderPart::Secret { prefix, secret } => {
                    let secret = secret.resolve().map_err(|error| CallOutcome::Error { error })?;
                    let text = format!("{prefix}{}", secret.expose_secret());
                    let mut value = HeaderValue::try_from(text).map_err(|_| {
                        let message =
                            format!("the secret of header {name} cannot stand in a header");
                        CallOutcome::error(ErrorCode::SecretMissing, message)
                    })?;
                    value.set_sensitive(true);
                    headers.append(name, value);
                    secrets.push(secret);
                }
            }
        }
        Ok(headers)
    }

    /// Returns content type and text.
    fn body(&self, arguments: &Map<String, Value>) -> Option<(&'static str, String)> {
        self.body.as_ref().map(|body| write_body(body, arguments, &self.used))
    }
}

/// Returns content type and text of a body; `used` are the arguments that stand elsewhere.
pub(crate) fn write_body(
    body: &BodyTemplate,
    arguments: &Map<String, Value>,
    used: &BTreeSet<String>,
) -> (&'static str, String) {
    const JSON: &str = "application/json";
    match body {
        BodyTemplate::Arguments => {
            let rest = arguments.iter().filter(|(name, _)| !used.contains(*name));
            let rest: Map<String, Value> =
                rest.map(|(name, value)| (name.clone(), value.clone())).collect();
            (JSON, Value::Object(rest).to_string())
        }
        BodyTemplate::Json(template) => {
            (JSON, fill_json(template, arguments).unwrap_or_default().to_string())
        }
        BodyTemplate::Text(text) => {
            ("text/plain; charset=utf-8", Template::parse(text).fill_lenient(arguments))
        }
    }
}

/// Returns the names of all arguments in a template.
pub(super) fn names(spec: &HttpSpec) -> BTreeSet<String> {
    let mut texts: Vec<&str> = vec![&spec.url];
    texts.extend(spec.query.iter().map(|(_, text)| text.as_str()));
    texts.extend(spec.headers.iter().filter_map(|(_, source)| match source {
        HeaderSource::Template(text) => Some(text.as_str()),
        HeaderSource::Secret { .. } => None,
    }));
    match &spec.body {
        Some(BodyTemplate::Json(value)) => json_texts(value, &mut texts),
        Some(BodyTemplate::Text(text)) => texts.push(text),
        Some(BodyTemplate::Arguments) | None => {}
    }
    let templates: Vec<Template> = texts.into_iter().map(Template::parse).collect();
    templates.iter().flat_map(Template::names).map(str::to_owned).collect()
}

fn header(name: &str, source: &HeaderSource) -> Result<(HeaderName, HeaderPart), String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("{name:?} is no name of a header"))?;
    if RESERVED.contains(&parsed.as_str()) {
        return Err(format!("header {name:?} is set by the runtime; leave it out"));
    }
    let fixed = match source {
        HeaderSource::Template(text) => text,
        HeaderSource::Secret { prefix, .. } => prefix,
    };
    if fixed.chars().any(char::is_control) {
        return Err(format!("header {name:?} contains a line break or control character"));
    }
    let part = match source {
        HeaderSource::Template(text) => HeaderPart::Template(Template::parse(text)),
        HeaderSource::Secret { prefix, secret } => {
            HeaderPart::Secret { prefix: prefix.clone(), secret: secret.clone() }
        }
    };
    Ok((parsed, part))
}
