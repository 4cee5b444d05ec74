//! Tools that are requests to an HTTP server, made from a template.

mod address;
mod body;
mod exchange;
pub(crate) mod failure;
mod field;
mod pages;
mod request;
pub(crate) mod response;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;
use jsonschema::Validator;
use reqwest::StatusCode;
use serde_json::{Map, Value};
use wire::{EffectClass, ToolReply};

use crate::client::{Allowed, HttpClient, Reach};
use crate::schema::compile;
use crate::secret::SecretRef;
use crate::tool::{Tool, ToolContext};
use address::Address;
use request::Blueprint;

pub use address::ADDRESS_BYTES_MAX;
pub(crate) use body::write as write_body;
pub(crate) use exchange::unanswered;
pub use pages::{NextPage, Pages};

/// A request template. `{name}` in a text stands for the argument of that name.
///
/// A name consists of letters, digits, `_` and `-`; braces around anything else stand for
/// themselves. A string argument goes in without quotes, any other value as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSpec {
    /// `GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The address; arguments are percent-encoded as path segments. It may be one argument alone,
    /// or have arguments in its host; then only public addresses are reached, and those allowed.
    pub url: String,
    /// Whether the address comes from elsewhere than the team file.
    pub foreign: bool,
    /// What may be reached besides the address as it is written, and public addresses.
    pub allowed: Allowed,
    /// Query parameters; one whose argument is absent or null is left out.
    pub query: Vec<QueryField>,
    /// Headers; one whose argument is absent or null is left out. Those of one name are all sent.
    pub headers: Vec<(String, FieldSource)>,
    /// Arguments whose lists and objects are written as one text, with this between their parts.
    pub joined: BTreeMap<String, char>,
    /// The body.
    pub body: Option<BodyTemplate>,
    /// Bytes of a response that are read; the rest is cut and marked as cut.
    pub response_bytes_max: usize,
    /// How an answer goes on, if more than one page of it is wanted.
    pub pages: Option<Pages>,
    /// What a successful answer has to be.
    pub output: Option<OutputSchema>,
}

/// The JSON Schema of successful answers.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputSchema {
    /// That of all; one that does not obey it is an error.
    Needed(Value),
    /// Those that an interface promises, by the status of the answer: `201`, `2XX` or `default`,
    /// of which the first counts. That one does not obey is told beside it.
    Promised(BTreeMap<String, Value>),
}

/// A query parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryField {
    /// Its name.
    pub name: String,
    /// Its value.
    pub source: FieldSource,
    /// How a list or an object is written that is all of its value.
    pub style: QueryStyle,
}

/// How a list or an object is written into the query or a form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueryStyle {
    /// A list is one parameter for each item, an object is JSON.
    #[default]
    Repeated,
    /// A list is one parameter for each item, an object one for each member, under its own name.
    Spread,
    /// A list is one parameter for each item, as in `name[]`, an object one for each member, as in
    /// `name[member]`, and so on for what is in them. Items that are no plain values are numbered.
    Deep,
    /// All of it is one text, with this between its parts.
    Joined(char),
    /// Both are JSON.
    Json,
}

/// Where the value of a header or a query parameter comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldSource {
    /// A text, with `{name}` for arguments.
    Template(String),
    /// A secret, after a fixed text such as `Bearer `.
    Secret {
        /// What stands before the secret.
        prefix: String,
        /// The secret.
        secret: SecretRef,
    },
}

/// What is sent as the body.
#[derive(Clone, Debug, PartialEq)]
pub enum BodyTemplate {
    /// All arguments that appear nowhere else in the template, as a JSON object.
    Arguments,
    /// A JSON value in which a text that is exactly `{name}` becomes the argument itself. Members
    /// and items whose argument is absent are left out.
    Json(Value),
    /// A text, with `{name}` for arguments; an absent one is nothing.
    Text(String),
    /// One argument; nothing is sent if it is absent.
    Argument {
        /// Its name.
        name: String,
        /// How it is written.
        form: BodyForm,
        /// The type of the content.
        content_type: String,
        /// How lists and objects among the fields of a form are written, if not as by default.
        styles: BTreeMap<String, QueryStyle>,
    },
}

/// How a body of one argument is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// As JSON.
    Json,
    /// An object as fields of a form.
    Fields,
    /// As a text.
    Text,
}

impl HttpSpec {
    /// Makes the template of a request that is no more than a method and an address.
    pub fn new(
        method: impl Into<String>,
        url: impl Into<String>,
        response_bytes_max: usize,
    ) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            foreign: false,
            allowed: Allowed::default(),
            query: Vec::new(),
            headers: Vec::new(),
            joined: BTreeMap::new(),
            body: None,
            response_bytes_max,
            pages: None,
            output: None,
        }
    }

    /// Returns what may be repeated, as far as the method tells.
    pub fn effect(&self) -> EffectClass {
        match self.method.as_str() {
            "GET" | "HEAD" => EffectClass::Read,
            "PUT" | "DELETE" => EffectClass::Idempotent,
            _ => EffectClass::Once,
        }
    }

    /// Tells whether arguments have a part in to whom its requests go.
    pub fn host_varies(&self) -> bool {
        Address::parse(&self.url).is_ok_and(|address| address.host_varies())
    }

    /// Tells whether arguments may lead its requests out of the domain that the address names.
    fn goes_anywhere(&self) -> bool {
        Address::parse(&self.url).is_ok_and(|address| address.goes_anywhere())
    }

    /// Returns the faults of the template, also against the JSON Schema of its parameters.
    pub fn check(&self, parameters: &Value) -> Vec<String> {
        let mut faults = Blueprint::new(self).err().unwrap_or_default();
        let properties = parameters.get("properties").and_then(Value::as_object);
        let known: BTreeSet<&str> =
            properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let used = request::names(self);
        let sources = self.headers.iter().map(|(_, source)| source);
        let mut sources = sources.chain(self.query.iter().map(|field| &field.source));
        let has_secret = sources.any(|source| matches!(source, FieldSource::Secret { .. }));
        if has_secret && self.goes_anywhere() {
            faults.push(
                "arguments decide to which host it goes, so it must not have secrets; end the host \
                 with a domain of two labels or more, such as `.example.com`"
                    .to_owned(),
            );
        }
        if self.pages.is_some() && self.method != "GET" {
            faults.push(format!("pages are asked for by GET, and its method is {}", self.method));
        }
        for name in used.iter().filter(|name| !known.contains(name.as_str())) {
            faults.push(format!("{{{name}}} stands for a parameter that is not declared"));
        }
        if self.body != Some(BodyTemplate::Arguments) {
            for name in known.into_iter().filter(|name| !used.contains(*name)) {
                faults.push(format!("parameter {name:?} appears nowhere in the request"));
            }
        }
        faults
    }
}

/// A tool that makes the request of its template.
///
/// Every request carries the call's key as `Idempotency-Key` and its span as `traceparent`. A
/// request that was perhaps sent and of which no whole answer came is lost, and so is one whose
/// status says that nobody knows what became of it, such as 504.
pub struct HttpTool {
    /// The template, or why it cannot be used.
    blueprint: Result<Blueprint, String>,
    response_bytes_max: usize,
    pages: Option<Pages>,
    output: Option<Output>,
    reach: Reach,
    client: HttpClient,
}

impl HttpTool {
    /// Makes the tool; a template with faults answers every call with them.
    pub fn new(spec: HttpSpec, client: HttpClient) -> Self {
        let blueprint = Blueprint::new(&spec).map_err(|faults| faults.join("; "));
        let address = blueprint.as_ref().ok().map(|blueprint| &blueprint.address);
        let written = address.and_then(Address::fixed).filter(|_| !spec.foreign);
        let reach = Reach::new(written, spec.allowed);
        let output = spec.output.and_then(Output::new);
        let (response_bytes_max, pages) = (spec.response_bytes_max, spec.pages);
        Self { blueprint, response_bytes_max, pages, output, reach, client }
    }
}

/// What successful answers are held to, see [`OutputSchema`].
enum Output {
    Needed(Box<Validator>),
    Promised(BTreeMap<String, Validator>),
}

impl Output {
    fn new(schema: OutputSchema) -> Option<Self> {
        Some(match schema {
            OutputSchema::Needed(schema) => Self::Needed(Box::new(compile(&schema).ok()?)),
            OutputSchema::Promised(schemas) => {
                let compiled = |(status, schema)| Some((status, compile(&schema).ok()?));
                Self::Promised(schemas.into_iter().filter_map(compiled).collect())
            }
        })
    }

    /// Returns the schema of an answer with a status.
    fn of(&self, status: StatusCode) -> Option<&Validator> {
        match self {
            Self::Needed(schema) => Some(schema),
            Self::Promised(schemas) => {
                let names = [status.as_str(), "2XX", "default"];
                names.into_iter().find_map(|name| schemas.get(name))
            }
        }
    }

    /// Tells whether an answer that does not obey is an error.
    const fn is_strict(&self) -> bool {
        matches!(self, Self::Needed(_))
    }
}

impl Tool for HttpTool {
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, ToolReply> {
        Box::pin(self.exchange(context, arguments))
    }
}
