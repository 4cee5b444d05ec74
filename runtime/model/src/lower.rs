//! Puts schemas into the forms that providers take.
//!
//! What a provider does not know is left out, and what it cannot say is narrowed: an object takes
//! no properties without a name, an optional one may be null. The whole schema is held against the
//! reply elsewhere.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use merge::INLINED_MAX;
use reference::DEFINITIONS;

mod cycle;
mod keyword;
mod merge;
mod parameters;
mod reference;
mod spell;
#[cfg(test)]
mod tests;
mod unfold;

pub(crate) use parameters::{Parameters, anthropic_parameters, llama_cpp_parameters, parameters};

/// The property in which a reply stands whose schema is wrapped.
pub(crate) const WRAPPER: &str = "reply";

/// The largest `maxLength` and `maxItems` of which llama.cpp makes a grammar that it can read.
const REPEATS_MAX: u64 = 1000;

/// Alternatives of one schema that are given what stands beside them: more than a list of all events
/// of a service has. Those inside each other are copied with it, twice as often at each depth.
const DIVISIONS_MAX: usize = 256;

/// Whose form it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Servers that take `strict: true`.
    OpenAiStrict,
    /// Anthropic.
    Anthropic,
    /// llama.cpp, and Ollama, which has it inside.
    LlamaCpp,
}

/// A schema as a provider takes it.
#[derive(Debug, PartialEq)]
pub(crate) struct Lowered {
    /// The schema.
    pub(crate) schema: Value,
    /// Whether the reply stands in the property [`WRAPPER`] of an object.
    pub(crate) wrapped: bool,
    /// What was left out.
    pub(crate) dropped: BTreeSet<Dropped>,
}

/// A keyword that was left out of a schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dropped {
    /// The schema in which it stands, as a JSON pointer.
    pub(crate) at: String,
    /// The keyword, or a value that the provider cannot be told of.
    pub(crate) keyword: String,
}

/// Lowers a schema.
pub(crate) fn lower(schema: &Value, target: Target) -> Lowered {
    let schema = &*reference::gathered(schema);
    let mut lowering = Lowering {
        target,
        root: schema,
        at: String::new(),
        inside: Vec::new(),
        room: INLINED_MAX,
        divisions: DIVISIONS_MAX,
        dropped: BTreeSet::new(),
    };
    let mut schema = lowering.schema(schema);
    if target == Target::Anthropic {
        cycle::cut(&mut schema, &mut lowering.dropped);
    }
    let wrapped = target == Target::OpenAiStrict && !is_closed_object(&schema);
    if wrapped {
        schema = wrap(schema);
    }
    Lowered { schema, wrapped, dropped: lowering.dropped }
}

fn is_closed_object(schema: &Value) -> bool {
    schema.get("type") == Some(&json!("object")) && schema.get("anyOf").is_none()
}

/// Makes a schema the only property of an object; definitions stay at the root.
fn wrap(mut schema: Value) -> Value {
    let hoisted = DEFINITIONS.map(|name| schema.as_object_mut()?.shift_remove(name));
    let mut root = json!({
        "type": "object",
        "properties": {WRAPPER: schema},
        "required": [WRAPPER],
        "additionalProperties": false,
    });
    for (name, definitions) in DEFINITIONS.into_iter().zip(hoisted) {
        if let (Value::Object(root), Some(definitions)) = (&mut root, definitions) {
            root.insert(name.to_owned(), definitions);
        }
    }
    root
}

struct Lowering<'a> {
    target: Target,
    /// What references point into.
    root: &'a Value,
    /// Where the schema stands that is being lowered.
    at: String,
    /// The references in whose place it stands.
    inside: Vec<String>,
    /// How many references may still be replaced.
    room: usize,
    /// How many alternatives may still be given what stands beside them.
    divisions: usize,
    dropped: BTreeSet<Dropped>,
}

impl Lowering<'_> {
    /// Lowers the schema that stands at a place below the present one.
    fn below(&mut self, step: &str, schema: &Value) -> Value {
        let length = self.at.len();
        self.at.push('/');
        self.at.push_str(step);
        let lowered = self.schema(schema);
        self.at.truncate(length);
        lowered
    }

    fn schema(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Object(keywords) => {
                let depth = self.inside.len();
                let lowered = self.object(keywords);
                self.inside.truncate(depth);
                lowered
            }
            // A schema that allows anything has no type, which strict servers want.
            Value::Bool(true) if self.target == Target::OpenAiStrict => self.anything(),
            Value::Bool(true) => json!({}),
            _ => {
                self.drop("false");
                if self.target == Target::OpenAiStrict { scalar() } else { json!({}) }
            }
        }
    }

    fn object(&mut self, keywords: &Map<String, Value>) -> Value {
        let spelled = match self.target {
            Target::OpenAiStrict | Target::Anthropic => spell::spelled(keywords),
            Target::LlamaCpp => Cow::Borrowed(keywords),
        };
        let keywords = self.unfolded(&spelled);
        if self.target == Target::OpenAiStrict
            && let Some(reference) = keywords.get("$ref")
        {
            return self.only_reference(reference, &keywords);
        }
        let mut lowered = Map::new();
        let mut notes = Vec::new();
        for (name, value) in &keywords {
            match name.as_str() {
                "oneOf" if self.target != Target::LlamaCpp => {
                    lowered.insert("anyOf".to_owned(), self.list(name, value));
                }
                "anyOf" | "oneOf" | "allOf" => {
                    lowered.insert(name.clone(), self.list(name, value));
                }
                "properties" | "$defs" | "definitions" => {
                    lowered.insert(name.clone(), self.named(name, value));
                }
                "items" => {
                    lowered.insert(name.clone(), self.below(name, value));
                }
                "additionalProperties" if value.is_object() && self.target == Target::LlamaCpp => {
                    lowered.insert(name.clone(), self.below(name, value));
                }
                _ if self.takes(name, value) => {
                    lowered.insert(name.clone(), value.clone());
                }
                _ => {
                    if self.drop(name) && !value.is_object() && !value.is_array() {
                        notes.push(format!("{name}: {value}"));
                    }
                }
            }
        }
        match self.target {
            Target::OpenAiStrict => self.close_strictly(&mut lowered, &keywords),
            Target::Anthropic => {
                if is_object(&lowered) {
                    self.add_required(&mut lowered, &keywords);
                    lowered.insert("additionalProperties".to_owned(), false.into());
                }
                note(&mut lowered, &notes);
            }
            Target::LlamaCpp => {}
        }
        lowered.into()
    }

    /// Returns a reference alone, as strict servers want it; definitions stay beside it.
    fn only_reference(&mut self, reference: &Value, keywords: &Map<String, Value>) -> Value {
        let mut lowered = Map::from_iter([("$ref".to_owned(), reference.clone())]);
        for name in DEFINITIONS {
            if let Some(definitions) = keywords.get(name) {
                lowered.insert(name.to_owned(), self.named(name, definitions));
            }
        }
        lowered.into()
    }

    /// Gives a schema a type, closes an object and makes all its properties required, those that
    /// were not nullable.
    fn close_strictly(&mut self, lowered: &mut Map<String, Value>, keywords: &Map<String, Value>) {
        if lowered.contains_key("anyOf") {
            return;
        }
        if !lowered.contains_key("type") {
            let Some(types) = keyword::implied_types(keywords) else {
                let Value::Object(anything) = self.anything() else { return };
                lowered.extend(anything);
                return;
            };
            lowered.insert("type".to_owned(), types);
        }
        if is_of(lowered, "array") && !lowered.contains_key("items") {
            let any = self.below("items", &true.into());
            lowered.insert("items".to_owned(), any);
        }
        if !is_object(lowered) {
            return;
        }
        if keywords.get("additionalProperties").is_some_and(|more| *more != json!(false)) {
            self.drop("additionalProperties");
        }
        self.add_required(lowered, keywords);
        let needed = keywords.get("required").map(fields_of).unwrap_or_default();
        let mut names = Vec::new();
        let properties = lowered.entry("properties").or_insert_with(|| json!({}));
        for (name, schema) in properties.as_object_mut().into_iter().flatten() {
            names.push(Value::from(name.as_str()));
            if !needed.iter().any(|needed| needed == name) {
                make_nullable(schema);
            }
        }
        let types =
            if is_of(lowered, "null") { json!(["object", "null"]) } else { json!("object") };
        lowered.insert("type".to_owned(), types);
        lowered.insert("required".to_owned(), names.into());
        lowered.insert("additionalProperties".to_owned(), false.into());
    }

    /// Adds the properties that are required and not described, since a closed object has no others.
    fn add_required(&mut self, lowered: &mut Map<String, Value>, keywords: &Map<String, Value>) {
        let needed = keywords.get("required").map(fields_of).unwrap_or_default();
        let described = keywords.get("properties").and_then(Value::as_object);
        for name in needed.iter().filter_map(Value::as_str) {
            if described.is_some_and(|described| described.contains_key(name)) {
                continue;
            }
            let any = self.named("properties", &json!({ name: true }));
            let properties = lowered.entry("properties").or_insert_with(|| json!({}));
            if let (Value::Object(properties), Value::Object(any)) = (properties, any) {
                properties.extend(any);
            }
        }
    }

    fn anything(&mut self) -> Value {
        self.drop("a value of any type");
        scalar()
    }

    fn list(&mut self, keyword: &str, schemas: &Value) -> Value {
        let schemas = fields_of(schemas).iter().enumerate();
        schemas.map(|(n, schema)| self.below(&format!("{keyword}/{n}"), schema)).collect()
    }

    fn named(&mut self, keyword: &str, schemas: &Value) -> Value {
        let named = schemas.as_object().into_iter().flatten();
        let lowered = named.map(|(name, schema)| {
            (name.clone(), self.below(&format!("{keyword}/{}", step(name)), schema))
        });
        lowered.collect::<Map<_, _>>().into()
    }

    fn takes(&self, name: &str, value: &Value) -> bool {
        match self.target {
            Target::OpenAiStrict => keyword::openai_takes(name, value),
            Target::Anthropic => keyword::anthropic_takes(name, value),
            Target::LlamaCpp => keyword::llama_cpp_takes(name, value, REPEATS_MAX),
        }
    }

    /// Notes a keyword that is left out; words that constrain nothing are not worth it.
    fn drop(&mut self, name: &str) -> bool {
        let constrains = !keyword::only_tells(name);
        if constrains {
            self.dropped.insert(Dropped { at: self.at.clone(), keyword: name.to_owned() });
        }
        constrains
    }
}

/// Returns a name as it stands in a JSON pointer.
fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A value of any type of which no more need be said.
fn scalar() -> Value {
    json!({"type": ["string", "number", "boolean", "null"]})
}

fn fields_of(schemas: &Value) -> &[Value] {
    schemas.as_array().map_or(&[], Vec::as_slice)
}

fn is_object(schema: &Map<String, Value>) -> bool {
    is_of(schema, "object") || (!schema.contains_key("type") && schema.contains_key("properties"))
}

fn is_of(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        Some(name) => name == kind,
        None => false,
    }
}

/// Puts what is left out into words, which the model still reads.
fn note(lowered: &mut Map<String, Value>, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let said = lowered.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{said} ({})", notes.join(", "));
    lowered.insert("description".to_owned(), text.trim_start().into());
}

fn make_nullable(schema: &mut Value) {
    let null = json!("null");
    let Value::Object(keywords) = schema else { return };
    if ["$ref", "const", "anyOf"].iter().any(|name| keywords.contains_key(*name)) {
        if let Some(Value::Array(alternatives)) = keywords.get_mut("anyOf") {
            alternatives.push(json!({"type": "null"}));
        } else {
            *schema = json!({"anyOf": [schema.take(), {"type": "null"}]});
        }
        return;
    }
    match keywords.get_mut("type") {
        Some(Value::String(name)) if name != "null" => {
            let types = json!([name, "null"]);
            keywords.insert("type".to_owned(), types);
        }
        Some(Value::Array(names)) if !names.contains(&null) => names.push(null),
        _ => {}
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}
