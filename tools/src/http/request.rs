//! Makes a request from a template and arguments.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use secrecy::ExposeSecret as _;
use serde_json::{Map, Value};
use wire::{CallOutcome, ErrorCode};

use super::address::{ADDRESS_BYTES_MAX, Address};
use super::body;
use super::field::{self, Field, QueryPart};
use super::{BodyTemplate, FieldSource, HttpSpec};
use crate::argument::invalid;
use crate::client::is_same_origin;
use crate::template::{Template, json_texts};
use crate::tool::ToolContext;

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
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
    query: Vec<QueryPart>,
    headers: Vec<(HeaderName, Field)>,
    joined: BTreeMap<String, char>,
    body: Option<BodyTemplate>,
    /// The arguments that appear in the template.
    used: BTreeSet<String>,
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
        let query = spec.query.iter().map(QueryPart::new).collect();
        let (joined, body, used) = (spec.joined.clone(), spec.body.clone(), names(spec));
        Ok(Self { method, address, query, headers, joined, body, used })
    }

    /// Makes the request of one call.
    pub(super) fn prepare(
        &self,
        context: &ToolContext,
        arguments: &Map<String, Value>,
    ) -> Result<Request, CallOutcome> {
        let joined = join(arguments, &self.joined);
        let arguments = joined.as_ref().unwrap_or(arguments);
        let mut url = self.address.fill(arguments).map_err(invalid)?;
        let written: Vec<String> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
        for (index, part) in self.query.iter().enumerate() {
            let parts = self.query.iter().enumerate().filter(|(other, _)| *other != index);
            let others = parts.map(|(_, part)| part.name());
            let others = others.chain(written.iter().map(String::as_str));
            part.append(&mut url, arguments, others)?;
        }
        if url.as_str().len() > ADDRESS_BYTES_MAX {
            return Err(invalid(format!(
                "the arguments make an address of {} bytes, more than {ADDRESS_BYTES_MAX}",
                url.as_str().len()
            )));
        }
        let mut headers = self.headers(arguments)?;
        let own =
            [(IDEMPOTENCY_KEY, context.call.to_string()), (TRACEPARENT, context.trace.to_string())];
        for (name, value) in own {
            let value = HeaderValue::try_from(value).map_err(|error| invalid(error.to_string()))?;
            headers.insert(name, value);
        }
        // Nothing is unpacked, so that what a page takes is what was measured of it.
        headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
        let mut request = Request::new(self.method.clone(), url);
        if let Some(template) = &self.body {
            body::check(template, arguments)?;
            if let Some((content_type, body)) = body::write(template, arguments, &self.used) {
                let content_type = HeaderValue::try_from(content_type)
                    .map_err(|_| invalid("the type of the body cannot stand in a header"))?;
                headers.entry(CONTENT_TYPE).or_insert(content_type);
                *request.body_mut() = Some(body.into());
            }
        }
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Adds the secrets of the query to the address of a further page, which servers leave out.
    pub(super) fn complete(&self, url: &mut Url, first: &Url) {
        if !is_same_origin(url, first) {
            return;
        }
        for name in self.query.iter().filter_map(QueryPart::secret) {
            if url.query_pairs().all(|(known, _)| known != name)
                && let Some((_, value)) = first.query_pairs().find(|(known, _)| known == name)
            {
                url.query_pairs_mut().append_pair(name, &value);
            }
        }
    }

    fn headers(&self, arguments: &Map<String, Value>) -> Result<HeaderMap, CallOutcome> {
        let mut headers = HeaderMap::new();
        for (name, field) in &self.headers {
            let Some(text) = field.fill(arguments)? else { continue };
            if let (&COOKIE, Field::Template(template)) = (name, field) {
                field::check_cookie(template, arguments)?;
            }
            let is_secret = matches!(field, Field::Secret { .. });
            let value = HeaderValue::from_bytes(text.expose_secret().as_bytes());
            let mut value = value.map_err(|_| {
                if is_secret {
                    let message = format!("the secret of header {name} cannot stand in a header");
                    CallOutcome::error(ErrorCode::SecretMissing, message)
                } else {
                    invalid(format!(
                        "header {name} would contain a line break or control character"
                    ))
                }
            })?;
            value.set_sensitive(is_secret);
            // Servers read one header of cookies, whatever the number of cookies.
            if *name == COOKIE
                && let Some(first) = headers.get(COOKIE)
            {
                let both = [first.as_bytes(), b"; ", value.as_bytes()].concat();
                if let Ok(mut both) = HeaderValue::from_bytes(&both) {
                    both.set_sensitive(is_secret || first.is_sensitive());
                    headers.insert(COOKIE, both);
                }
                continue;
            }
            headers.append(name, value);
        }
        Ok(headers)
    }
}

/// Writes lists and objects as the texts that they are to be, where there are such.
fn join(
    arguments: &Map<String, Value>,
    joined: &BTreeMap<String, char>,
) -> Option<Map<String, Value>> {
    let mut written = (!joined.is_empty()).then(|| arguments.clone())?;
    for (name, between) in joined {
        if let Some(text) = written.get(name).and_then(|value| field::joined(value, *between)) {
            written.insert(name.clone(), Value::String(text));
        }
    }
    Some(written)
}

/// Returns the names of all arguments in a template.
pub(super) fn names(spec: &HttpSpec) -> BTreeSet<String> {
    let mut texts: Vec<&str> = vec![&spec.url];
    let query = spec.query.iter().map(|field| &field.source);
    let sources = query.chain(spec.headers.iter().map(|(_, source)| source));
    texts.extend(sources.filter_map(|source| match source {
        FieldSource::Template(text) => Some(text.as_str()),
        FieldSource::Secret { .. } => None,
    }));
    match &spec.body {
        Some(BodyTemplate::Json(value)) => json_texts(value, &mut texts),
        Some(BodyTemplate::Text(text)) => texts.push(text),
        Some(BodyTemplate::Arguments | BodyTemplate::Argument { .. }) | None => {}
    }
    let whole = match &spec.body {
        Some(BodyTemplate::Argument { name, .. }) => Some(name.clone()),
        _ => None,
    };
    let templates: Vec<Template> = texts.into_iter().map(Template::parse).collect();
    templates.iter().flat_map(Template::names).map(str::to_owned).chain(whole).collect()
}

fn header(name: &str, source: &FieldSource) -> Result<(HeaderName, Field), String> {
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("{name:?} is no name of a header"))?;
    if RESERVED.contains(&parsed.as_str()) {
        return Err(format!("header {name:?} is set by the runtime; leave it out"));
    }
    let fixed = match source {
        FieldSource::Template(text) => text,
        FieldSource::Secret { prefix, .. } => prefix,
    };
    if fixed.chars().any(char::is_control) {
        return Err(format!("header {name:?} contains a line break or control character"));
    }
    Ok((parsed, Field::new(source)))
}
