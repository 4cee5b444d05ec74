//! Makes the template of a request out of an operation.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Url;
use serde_json::{Map, Value, json};
use url::Origin;

use super::schema::{Side, Writer};
use super::{Interface, is_true, text};
use crate::client::Allowed;
use crate::http::{
    BodyForm, BodyTemplate, FieldSource, HttpSpec, OutputSchema, Pages, QueryField, QueryStyle,
};
use crate::schema::{check_parameters, compile};

/// The name of the argument that is the body, unless a parameter has it.
const BODY: &str = "body";

/// Headers that other parts of a file speak of, or that the runtime sets.
const NOT_ARGUMENTS: [&str; 8] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "host",
    "idempotency-key",
    "traceparent",
];

/// One operation of an interface.
#[derive(Clone, Debug)]
pub struct Operation<'i> {
    /// Its `operationId`, or its method and path.
    pub id: String,
    method: &'static str,
    path: &'i str,
    item: &'i Value,
    body: &'i Map<String, Value>,
}

/// What the team file says of all operations.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// The address of the server, if not the one that the file names.
    pub url: Option<String>,
    /// What may be reached besides it and public addresses.
    pub allowed: Allowed,
    /// Headers of every request; operations do not have them as arguments.
    pub headers: Vec<(String, FieldSource)>,
    /// Query parameters of every request; operations do not have them as arguments.
    pub query: Vec<QueryField>,
    /// Bytes of a response that are read.
    pub response_bytes_max: usize,
    /// How answers go on, if more than one page of them is wanted.
    pub pages: Option<Pages>,
}

/// An operation that can be called.
#[derive(Clone, Debug)]
pub struct Made {
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub parameters: Value,
    /// The template of its request.
    pub spec: HttpSpec,
}

impl<'i> Operation<'i> {
    pub(super) fn new(
        method: &'static str,
        path: &'i str,
        item: &'i Value,
        body: &'i Map<String, Value>,
    ) -> Self {
        let named = text(body, "operationId").map(str::to_owned);
        let id = named.unwrap_or_else(|| {
            let parts = path.split(['/', '{', '}']).filter(|part| !part.is_empty());
            std::iter::once(method).chain(parts).collect::<Vec<_>>().join("_")
        });
        Self { id, method, path, item, body }
    }

    /// Returns method and path, for messages.
    pub fn place(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }

    /// Makes the template of its requests; the error says why that cannot be done.
    pub fn make(&self, interface: &'i Interface, base: &Base) -> Result<Made, String> {
        let mut draft = Draft::new(interface, base);
        for parameter in self.parameters(interface)? {
            draft.parameter(parameter)?;
        }
        if let Some(body) = self.body.get("requestBody") {
            draft.body(interface.resolve(body)?)?;
        }
        let server = self.address(interface, base)?;
        let url = format!("{server}{}", draft.path(self.path)?);
        let words = ["summary", "description"].map(|name| text(self.body, name));
        let mut words: Vec<&str> = words.into_iter().flatten().collect();
        words.dedup();
        let description = if words.is_empty() { self.place() } else { words.join("\n") };
        let parameters = draft.schema();
        check_parameters(&parameters)?;
        let mut headers = base.headers.clone();
        headers.append(&mut draft.headers);
        let mut query = base.query.clone();
        query.append(&mut draft.query);
        let spec = HttpSpec {
            foreign: base.url.is_none(),
            allowed: base.allowed.clone(),
            query,
            headers,
            joined: draft.joined,
            body: draft.body,
            pages: base.pages.clone().filter(|_| self.method == "get"),
            output: self.output(interface),
            ..HttpSpec::new(self.method.to_uppercase(), url, base.response_bytes_max)
        };
        let faults = spec.check(&parameters);
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        if origin(&server).is_none() || origin(&server) != origin(&spec.url) {
            return Err(format!("its path leads away from {server:?}, to {:?}", spec.url));
        }
        Ok(Made { description, parameters, spec })
    }

    /// Returns the parameters of the path and of the operation, which come before those.
    fn parameters(&self, interface: &'i Interface) -> Result<Vec<&'i Map<String, Value>>, String> {
        let lists = [self.body.get("parameters"), self.item.get("parameters")];
        let mut known = BTreeSet::new();
        let mut found = Vec::new();
        for parameter in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
            let parameter = interface.resolve(parameter)?.as_object();
            let parameter = parameter.ok_or("a parameter is no object")?;
            if known.insert((text(parameter, "in"), text(parameter, "name"))) {
                found.push(parameter);
            }
        }
        Ok(found)
    }

    /// Returns the address of the server, without a slash at its end.
    fn address(&self, interface: &Interface, base: &Base) -> Result<String, String> {
        let url = if let Some(url) = &base.url {
            url.clone()
        } else {
            let places = [self.body.get("servers"), self.item.get("servers")];
            let place = places.into_iter().flatten().chain(interface.document.get("servers"));
            let mut servers = place.filter_map(|servers| servers.get(0)?.as_object());
            server(servers.next().ok_or("the file names no server; add `base_url`")?)
        };
        if !url.starts_with("http://") && !url.starts_with("https://") || url.contains(['{', '}']) {
            return Err(format!("the address {url:?} of the server is not whole; add `base_url`"));
        }
        Ok(url.trim_end_matches('/').to_owned())
    }

    /// Returns the schemas of what a successful call answers, where any can be read.
    fn output(&self, interface: &'i Interface) -> Option<OutputSchema> {
        let responses = self.body.get("responses")?.as_object()?;
        // What is said of all others is most often what errors are like.
        let succeeds = |status: &str| status.starts_with('2');
        let is_said = responses.keys().any(|status| succeeds(status));
        let counts = |status: &str| if is_said { succeeds(status) } else { status == "default" };
        let responses = responses.iter().filter(|(status, _)| counts(status));
        // One without a schema is not held to that of the others.
        let schemas: BTreeMap<String, Value> = responses
            .map(|(status, response)| {
                let schema = answer(interface, response).unwrap_or(Value::Bool(true));
                (status.replace('x', "X"), schema)
            })
            .collect();
        let is_any = schemas.values().any(|schema| *schema != true);
        is_any.then_some(OutputSchema::Promised(schemas))
    }
}

/// Returns the schema of a response in JSON; one that cannot be read is none.
fn answer(interface: &Interface, response: &Value) -> Option<Value> {
    let content = interface.resolve(response).ok()?.get("content")?.as_object()?;
    let (_, content) = content.iter().find(|(kind, _)| form(kind) == Some(BodyForm::Json))?;
    let schema = content.get("schema")?;
    let written = Writer::new(interface, Side::Response).write(schema).ok()?;
    compile(&written).ok().map(|_| written)
}

/// Writes the address of a server with the values that its variables have by default.
fn server(server: &Map<String, Value>) -> String {
    let mut url = text(server, "url").unwrap_or_default().to_owned();
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten() {
        if let Some(value) = variable.get("default").and_then(Value::as_str) {
            url = url.replace(&format!("{{{name}}}"), value);
        }
    }
    url
}

/// Returns to whom an address leads: scheme, host and port.
fn origin(address: &str) -> Option<Origin> {
    Url::parse(address).ok().map(|url| url.origin())
}

/// Tells how a body of a type is written.
fn form(content_type: &str) -> Option<BodyForm> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/json" | "*/*" => Some(BodyForm::Json),
        "application/x-www-form-urlencoded" => Some(BodyForm::Fields),
        kind if kind.ends_with("+json") => Some(BodyForm::Json),
        kind if kind.starts_with("text/") => Some(BodyForm::Text),
        _ => None,
    }
}

/// The parts of a request as they come together.
struct Draft<'i> {
    base: &'i Base,
    writer: Writer<'i>,
    /// The schemas of the arguments by their names, in order.
    properties: Map<String, Value>,
    required: Vec<String>,
    /// The arguments that stand in the path, by the names that they have there.
    places: BTreeMap<&'i str, String>,
    query: Vec<QueryField>,
    headers: Vec<(String, FieldSource)>,
    joined: BTreeMap<String, char>,
    body: Option<BodyTemplate>,
}

impl<'i> Draft<'i> {
    fn new(interface: &'i Interface, base: &'i Base) -> Self {
        Self {
            base,
            writer: Writer::new(interface, Side::Request),
            properties: Map::new(),
            required: Vec::new(),
            places: BTreeMap::new(),
            query: Vec::new(),
            headers: Vec::new(),
            joined: BTreeMap::new(),
            body: None,
        }
    }

    fn parameter(&mut self, parameter: &'i Map<String, Value>) -> Result<(), String> {
        let name = text(parameter, "name").ok_or("a parameter has no name")?;
        let place = text(parameter, "in").unwrap_or_default();
        let is_known = match place {
            "query" => self.base.query.iter().any(|known| known.name == name),
            "header" => {
                let is_same = |known: &str| known.eq_ignore_ascii_case(name);
                NOT_ARGUMENTS.into_iter().any(is_same)
                    || self.base.headers.iter().any(|(known, _)| is_same(known))
            }
            "cookie" => {
                self.base.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case("cookie"))
            }
            "path" => false,
            other => {
                return Err(format!("parameter {name:?} stands in {other:?}, which is not known"));
            }
        };
        if is_known {
            return Ok(());
        }
        let content = parameter.get("content").and_then(Value::as_object);
        let content = content.and_then(|content| content.iter().next());
        let is_json = content.is_some_and(|(kind, _)| form(kind) == Some(BodyForm::Json));
        let schema = content.and_then(|(_, content)| content.get("schema"));
        let schema = schema.or_else(|| parameter.get("schema"));
        let mut schema = schema.map_or(Ok(json!({})), |schema| self.writer.write(schema))?;
        describe(&mut schema, text(parameter, "description"));
        let is_required = place == "path" || is_true(parameter, "required");
        if place == "cookie" && (is_json || may_be_nested(&schema)) {
            if is_required {
                return Err(format!(
                    "cookie {name:?} holds a list or an object, for which cookies have no form that \
                     servers agree on"
                ));
            }
            return Ok(());
        }
        let style = text(parameter, "style");
        let explodes = parameter.get("explode").and_then(Value::as_bool);
        if let Some(style @ ("label" | "matrix")) = style {
            return Err(format!(
                "parameter {name:?} has the style `{style}`, which is not written"
            ));
        }
        if matches!(place, "path" | "header")
            && explodes == Some(true)
            && !is_json
            && may_be(&schema, "object")
        {
            if is_required {
                return Err(format!(
                    "parameter {name:?} is an object with `explode: true` in the {place}, which is \
                     not written"
                ));
            }
            return Ok(());
        }
        let argument = self.argument(name, place, schema, is_required);
        let source = FieldSource::Template(format!("{{{argument}}}"));
        match place {
            "path" => {
                if !is_json {
                    self.joined.insert(argument.clone(), ',');
                }
                self.places.insert(name, argument);
            }
            "query" => {
                let style = if is_json { QueryStyle::Json } else { query_style(style, explodes) };
                self.query.push(QueryField { name: name.to_owned(), source, style });
            }
            "cookie" => {
                let value = FieldSource::Template(format!("{name}={{{argument}}}"));
                self.headers.push(("Cookie".to_owned(), value));
            }
            _ => {
                if !is_json {
                    self.joined.insert(argument, ',');
                }
                self.headers.push((name.to_owned(), source));
            }
        }
        Ok(())
    }

    fn body(&mut self, body: &'i Value) -> Result<(), String> {
        let body = body.as_object().ok_or("its body is no object")?;
        let content = body.get("content").and_then(Value::as_object);
        let content = content.ok_or("its body has no content")?;
        let of = |wanted| content.iter().find(|(kind, _)| form(kind) == Some(wanted));
        let forms = [BodyForm::Json, BodyForm::Fields, BodyForm::Text];
        let found = forms.into_iter().find_map(|form| of(form).map(|found| (form, found)));
        let (form, (kind, content)) = found.ok_or_else(|| {
            let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
            format!("its body is {}; JSON, forms and texts can be sent", kinds.join(" or "))
        })?;
        let schema = content.get("schema");
        let mut schema = schema.map_or(Ok(json!({})), |schema| self.writer.write(schema))?;
        if form == BodyForm::Text && schema == json!({}) {
            schema = json!({"type": "string"});
        }
        describe(&mut schema, text(body, "description"));
        let name = self.argument(BODY, "request", schema, is_true(body, "required"));
        let content_type =
            if kind.starts_with("*/") { "application/json".to_owned() } else { kind.clone() };
        let styles = if form == BodyForm::Fields { styles(content) } else { BTreeMap::new() };
        self.body = Some(BodyTemplate::Argument { name, form, content_type, styles });
        Ok(())
    }

    /// Adds an argument under a name that models and templates can write.
    fn argument(&mut self, name: &str, place: &str, schema: Value, is_required: bool) -> String {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let clean: String = name.chars().map(|c| if is_letter(c) { c } else { '_' }).collect();
        let clean = if clean.is_empty() { place.to_owned() } else { clean };
        let mut candidates = [clean.clone(), format!("{place}_{clean}")]
            .into_iter()
            .chain((2..).map(|number| format!("{clean}_{number}")));
        let free = candidates.find(|name| !self.properties.contains_key(name)).unwrap_or(clean);
        self.properties.insert(free.clone(), schema);
        if is_required {
            self.required.push(free.clone());
        }
        free
    }

    /// Writes the path with the names of the arguments.
    fn path(&self, path: &str) -> Result<String, String> {
        // Without the slash, what follows the host would be a part of it: secrets would go elsewhere.
        if !path.starts_with('/') {
            return Err(format!("its path {path:?} does not begin with \"/\""));
        }
        let mut written = String::new();
        let mut rest = path;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, behind) = after.split_once('}').ok_or("its path has an open brace")?;
            let argument = self.places.get(name);
            let argument =
                argument.ok_or_else(|| format!("{{{name}}} of its path is no parameter"))?;
            written.extend([before, "{", argument, "}"]);
            rest = behind;
        }
        Ok(written + rest)
    }

    fn schema(&self) -> Value {
        let mut schema = json!({"type": "object", "properties": self.properties});
        // Some servers refuse a list of nothing.
        if let (Some(object), false) = (schema.as_object_mut(), self.required.is_empty()) {
            object.insert("required".to_owned(), json!(self.required));
        }
        if let Some(object) = schema.as_object_mut() {
            object.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
        schema
    }
}

/// Says what a value is for, unless its schema does.
fn describe(schema: &mut Value, description: Option<&str>) {
    if let (Some(object), Some(description)) = (schema.as_object_mut(), description)
        && !object.contains_key("description")
    {
        object.insert("description".to_owned(), description.into());
    }
}

/// Tells whether a schema says that a value may be a list or an object.
fn may_be_nested(schema: &Value) -> bool {
    may_be(schema, "array") || may_be(schema, "object")
}

/// Tells whether a schema says that a value may be one of these, `array` or `object`.
fn may_be(schema: &Value, nested: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == nested),
        Some(kind) => kind == nested,
        None => schema.get(if nested == "array" { "items" } else { "properties" }).is_some(),
    }
}

/// Returns how a parameter of the query, or a field of a form, is written.
fn query_style(style: Option<&str>, explodes: Option<bool>) -> QueryStyle {
    let explodes = explodes.unwrap_or(style.is_none_or(|style| style == "form"));
    match style {
        Some("deepObject") => QueryStyle::Deep,
        _ if explodes => QueryStyle::Spread,
        Some("spaceDelimited") => QueryStyle::Joined(' '),
        Some("pipeDelimited") => QueryStyle::Joined('|'),
        _ => QueryStyle::Joined(','),
    }
}

/// Returns how the fields of a form are written of which a file says so.
fn styles(content: &Value) -> BTreeMap<String, QueryStyle> {
    let encoding = content.get("encoding").and_then(Value::as_object);
    let fields = encoding.into_iter().flatten();
    let styles = fields.filter_map(|(name, said)| {
        let said = said.as_object()?;
        let explodes = said.get("explode").and_then(Value::as_bool);
        // Where these are said, the type of the content does not count.
        let style = match (text(said, "style"), explodes, text(said, "contentType")) {
            (None, None, None) => return None,
            (None, None, Some(kind)) if form(kind) != Some(BodyForm::Json) => return None,
            (None, None, Some(_)) => QueryStyle::Json,
            (style, explodes, _) => query_style(style, explodes),
        };
        Some((name.clone(), style))
    });
    styles.collect()
}
