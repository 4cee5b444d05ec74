//! Holds a document against the schema of team files: known keys, types, ranges, words.
//!
//! Reading stops at the first wrong value; a person wants to see all of them. What is wrong is
//! reported and left out, and the rest goes on to the checks of meaning.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::{Document, in_order};
use crate::report::Report;
use crate::secrecy::{self, Place, has_login, may_be_secret};
use crate::suggest::nearest;

/// The schema that everything obeys.
static ANY: Value = Value::Bool(true);

/// The only table of any keys that holds no schema of arguments.
const EXTRA_BODY: &str = "extra_body";

/// The check of one document.
pub(crate) struct Shape<'a> {
    root: &'a Value,
    report: &'a mut Report,
    /// Where elements of lists begin that are wrong.
    left_out: BTreeSet<usize>,
}

impl<'a> Shape<'a> {
    /// Takes the schema and the report that faults are added to.
    pub(crate) fn new(root: &'a Value, report: &'a mut Report) -> Self {
        Self { root, report, left_out: BTreeSet::new() }
    }

    /// Returns what is right in the document, keys in the order of the text. The document leaves out
    /// the elements of lists that are wrong, so that an index means the same in both.
    ///
    /// Returns nothing if a whole section is wrong: nothing can be said of references into it.
    pub(crate) fn check(mut self, document: &mut Document<'_>) -> Option<Value> {
        let found = self.value(self.root, document.root(), "")?;
        document.leave_out(self.left_out);
        let sections = self.root.get("properties").and_then(Value::as_object)?;
        let lost = |name: &String| document.has(&[name]) && found.get(name).is_none();
        (!sections.keys().any(lost)).then_some(found)
    }

    /// Checks the value named `at` against the schema of its field.
    fn value(&mut self, field: &'a Value, value: &Spanned<DeValue>, at: &str) -> Option<Value> {
        let Some(schema) = self.choose(field, value.get_ref()) else {
            let wanted = self.wanted(field);
            let found = type_name(value.get_ref());
            let message = format!("`{at}` must be {wanted}, this is {found}");
            self.report.add(Some(value.span()), message, self.advice(field, "change the value"));
            return None;
        };
        match value.get_ref() {
            DeValue::Table(table) => self.table(schema, value, table, at).map(Value::Object),
            DeValue::Array(array) => {
                self.length(schema, value, at, array.len(), ["minItems", "maxItems"], "elements")?;
                let items = schema.get("items").unwrap_or(&ANY);
                let check = |(index, element): (usize, &Spanned<DeValue>)| {
                    let value = self.value(items, element, &format!("{at}[{index}]"));
                    if value.is_none() {
                        self.left_out.insert(element.span().start);
                    }
                    value
                };
                Some(Value::Array(array.iter().enumerate().filter_map(check).collect()))
            }
            DeValue::String(text) => {
                self.word(field, schema, value.span(), text, at)?;
                self.length(schema, value, at, text.len(), ["minLength", "maxLength"], "bytes")?;
                Some(Value::String(text.to_string()))
            }
            DeValue::Boolean(truth) => Some(Value::Bool(*truth)),
            DeValue::Integer(integer) => {
                let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok();
                self.number(field, schema, value, number.map(Number::from), at)
            }
            DeValue::Float(float) => {
                let number = float.as_str().parse().ok().and_then(Number::from_f64);
                self.number(field, schema, value, number, at)
            }
            DeValue::Datetime(_) => {
                let message = format!("`{at}` is a date, which JSON does not have");
                self.report.add(Some(value.span()), message, "write it as a text, in quotes");
                None
            }
        }
    }

    fn table(
        &mut self,
        schema: &'a Value,
        value: &Spanned<DeValue>,
        table: &DeTable,
        at: &str,
    ) -> Option<Map<String, Value>> {
        self.length(schema, value, at, table.len(), ["minProperties", "maxProperties"], "keys")?;
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties").unwrap_or(&ANY);
        let mut result = Map::new();
        for (key, value) in in_order(table) {
            let name = key.get_ref().as_ref();
            let own = known.and_then(|known| known.get(name));
            let field = own.or((*others != Value::Bool(false)).then_some(others));
            let place = match (own, field) {
                (Some(field), _) => {
                    Place::Field { fits: self.choose(field, value.get_ref()).is_some() }
                }
                (None, Some(_)) => Place::Entry,
                (None, None) => Place::Unknown { table: last_of(at), known },
            };
            let is_schema = *others == ANY && last_of(at) != EXTRA_BODY;
            let is_login = value.get_ref().as_str().is_some_and(has_login);
            if is_login || (!is_schema && may_be_secret(name, value.get_ref(), place)) {
                let mut places = Vec::new();
                secrecy::places(value, &mut places);
                self.report.hide(places);
            }
            let Some(field) = field else {
                self.unknown_key(key.span(), name, at, known);
                continue;
            };
            let at = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
            if let Some(value) = self.value(field, value, &at) {
                result.insert(name.to_owned(), value);
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        let mut complete = true;
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            complete &= result.contains_key(name);
            if !table.iter().any(|(key, _)| key.get_ref().as_ref() == name) {
                let field = known.and_then(|known| known.get(name)).unwrap_or(&ANY);
                let help = self.advice(field, &format!("add `{name}`"));
                self.report.add(Some(value.span()), format!("`{at}` lacks `{name}`"), help);
            }
        }
        complete.then_some(result)
    }

    fn unknown_key(
        &mut self,
        span: Range<usize>,
        name: &str,
        at: &str,
        known: Option<&Map<String, Value>>,
    ) {
        let keys = || known.into_iter().flat_map(Map::keys).map(String::as_str);
        let variable = format!("{name}_env");
        let help = match nearest(name, keys()) {
            // A secret that was written where its name is wanted.
            _ if keys().any(|key| key == variable) => {
                format!("write the name of the environment variable that holds it: `{variable}`")
            }
            Some(key) => format!("did you mean `{key}`?"),
            None => format!("known keys: {}", keys().collect::<Vec<_>>().join(", ")),
        };
        let place = if at.is_empty() { String::new() } else { format!(" in `{at}`") };
        self.report.add(Some(span), format!("unknown key `{name}`{place}"), help);
    }

    fn word(
        &mut self,
        field: &Value,
        schema: &Value,
        span: Range<usize>,
        text: &str,
        at: &str,
    ) -> Option<()> {
        let words = words(schema);
        if words.is_empty() || words.contains(&text) {
            return Some(());
        }
        let help = match nearest(text, words.iter().copied()) {
            Some(word) => format!("did you mean \"{word}\"?"),
            None => self.advice(field, "change the word"),
        };
        let message = format!("`{at}` must be {}, this is {text:?}", one_of(&words));
        self.report.add(Some(span), message, help);
        None
    }

    fn number(
        &mut self,
        field: &Value,
        schema: &Value,
        value: &Spanned<DeValue>,
        number: Option<Number>,
        at: &str,
    ) -> Option<Value> {
        let limit = |name| schema.get(name).and_then(Value::as_f64);
        let (min, max) = (limit("minimum"), limit("maximum"));
        let within = |number: &Number| {
            number.as_f64().is_some_and(|number| {
                min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)
            })
        };
        let found = number.as_ref().map_or(String::new(), |number| format!(", this is {number}"));
        let number = number.filter(within);
        if number.is_none() {
            let message = match (min, max) {
                (Some(min), Some(max)) => format!("`{at}` must be from {min} to {max}{found}"),
                _ => format!("`{at}` must be a finite number of 64 bits{found}"),
            };
            self.report.add(Some(value.span()), message, self.advice(field, "change the number"));
        }
        number.map(Value::Number)
    }

    fn length(
        &mut self,
        schema: &Value,
        value: &Spanned<DeValue>,
        at: &str,
        length: usize,
        [min, max]: [&str; 2],
        unit: &str,
    ) -> Option<()> {
        let limit = |name| schema.get(name).and_then(Value::as_u64);
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let (message, help) = match (limit(min), limit(max)) {
            (Some(min), _) if length < min => {
                (format!("`{at}` has {length} {unit}, at least {min} needed"), "add to it")
            }
            (_, Some(max)) if length > max => {
                (format!("`{at}` has {length} {unit}, at most {max} allowed"), "make it shorter")
            }
            _ => return Some(()),
        };
        self.report.add(Some(value.span()), message, help);
        None
    }

    /// Returns the schema that a value of this type falls under.
    fn choose(&self, field: &'a Value, value: &DeValue) -> Option<&'a Value> {
        self.choices(field).into_iter().find(|schema| has_type(schema, value))
    }

    /// Returns what a field may be: schemas of different types, without references.
    fn choices(&self, field: &'a Value) -> Vec<&'a Value> {
        let schema = match field.get("$ref").and_then(Value::as_str) {
            Some(name) => name.strip_prefix('#').and_then(|at| self.root.pointer(at)),
            None => None,
        };
        let schema = schema.unwrap_or(field);
        match schema.get("anyOf").and_then(Value::as_array) {
            Some(choices) => choices.iter().flat_map(|choice| self.choices(choice)).collect(),
            None => vec![schema],
        }
    }

    fn wanted(&self, field: &'a Value) -> String {
        let names = self.choices(field).into_iter().map(|schema| article(schema_type(schema)));
        names.collect::<Vec<_>>().join(" or ")
    }

    /// Returns what the schema says about a field, or `otherwise`.
    fn advice(&self, field: &'a Value, otherwise: &str) -> String {
        let said = |schema: &Value| Some(schema.get("description")?.as_str()?.to_owned());
        let text = said(field).or_else(|| self.choices(field).into_iter().find_map(said));
        let text = text.unwrap_or_else(|| otherwise.to_owned());
        let words = self.choices(field).into_iter().flat_map(words).collect::<Vec<_>>();
        let text = text.trim_end_matches('.');
        if words.is_empty() { text.to_owned() } else { format!("{text}: {}", one_of(&words)) }
    }
}

/// Returns the last name of a path.
fn last_of(at: &str) -> &str {
    at.rsplit('.').next().unwrap_or_default()
}

fn words(schema: &Value) -> Vec<&str> {
    let list = |name| schema.get(name).and_then(Value::as_array).into_iter().flatten();
    let constants = list("oneOf").filter_map(|choice| choice.get("const"));
    list("enum").chain(constants).filter_map(Value::as_str).collect()
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    quoted.join(" or ")
}

fn schema_type(schema: &Value) -> &str {
    match schema.get("type").and_then(Value::as_str) {
        Some(name) => name,
        None if words(schema).is_empty() => "any",
        None => "string",
    }
}

fn has_type(schema: &Value, value: &DeValue) -> bool {
    match schema_type(schema) {
        "string" => value.is_str(),
        "integer" => value.is_integer(),
        "number" => value.is_integer() || value.is_float(),
        "boolean" => value.is_bool(),
        "array" => value.is_array(),
        "object" => value.is_table(),
        _ => true,
    }
}

fn article(schema_type: &str) -> &'static str {
    match schema_type {
        "string" => "a text in quotes",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a table",
        _ => "a value",
    }
}

fn type_name(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
