//! Brings the schemas of a file into JSON Schema 2020-12, without references.

use serde_json::{Map, Value, json};

use super::{Dialect, Interface, is_true};
use crate::mcp::draft::{DATA, NAMED, modern};

/// Schemas within the schemas of one operation, references followed; what has more cannot be told
/// to a model.
const SCHEMAS_MAX: usize = 4096;

/// How deep schemas are written into each other.
const DEPTH_MAX: usize = 32;

/// Words that say nothing of a value, or that hold only within the file.
const DROPPED: [&str; 10] = [
    "$anchor",
    "$id",
    "$schema",
    "deprecated",
    "discriminator",
    "example",
    "externalDocs",
    "nullable",
    "xml",
    "$comment",
];

/// Who writes a value: some members are the server's alone, and some only go to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Request,
    Response,
}

/// Writes out schemas of one operation.
pub(super) struct Writer<'i> {
    interface: &'i Interface,
    side: Side,
    /// The references that are being followed.
    open: Vec<&'i str>,
    schemas: usize,
    depth: usize,
}

impl<'i> Writer<'i> {
    pub(super) fn new(interface: &'i Interface, side: Side) -> Self {
        Self { interface, side, open: Vec::new(), schemas: 0, depth: 0 }
    }

    /// Returns a schema with everything that it refers to.
    pub(super) fn write(&mut self, schema: &'i Value) -> Result<Value, String> {
        let written = self.schema(schema)?;
        Ok(match self.interface.dialect {
            Dialect::Own => modern(&written),
            Dialect::Standard => written,
        })
    }

    fn schema(&mut self, schema: &'i Value) -> Result<Value, String> {
        let Value::Object(members) = schema else { return Ok(schema.clone()) };
        self.schemas += 1;
        if self.schemas > SCHEMAS_MAX {
            return Err(format!("its schemas have more than {SCHEMAS_MAX} parts"));
        }
        if self.depth >= DEPTH_MAX {
            return Ok(json!({}));
        }
        self.depth += 1;
        let written = match members.get("$ref").and_then(Value::as_str) {
            Some(place) => self.referred(place, members),
            None => self.members(members),
        };
        self.depth -= 1;
        written
    }

    fn referred(
        &mut self,
        place: &'i str,
        beside: &'i Map<String, Value>,
    ) -> Result<Value, String> {
        if self.open.contains(&place) {
            // The value is one of those that it is part of. What may be in it was said above.
            let name = place.rsplit('/').next().unwrap_or(place);
            return Ok(json!({"description": format!("another {name}")}));
        }
        let there = self.interface.at(place)?;
        self.open.push(place);
        let written = self.schema(there);
        self.open.pop();
        let mut written = written?;
        // Before 3.1 nothing beside a reference counts, and yet it is often told what it is for.
        let description = beside.get("description").cloned();
        let counts =
            |(name, _): &(&String, &Value)| !matches!(name.as_str(), "$ref" | "description");
        if self.interface.dialect == Dialect::Standard && beside.iter().any(|pair| counts(&pair)) {
            let mut rest = Map::new();
            for (name, value) in beside.iter().filter(counts) {
                self.member(name, value, beside, &mut rest)?;
            }
            written = json!({"allOf": [written, rest]});
        }
        if let (Some(description), Some(object)) = (description, written.as_object_mut()) {
            object.insert("description".to_owned(), description);
        }
        Ok(written)
    }

    fn members(&mut self, members: &'i Map<String, Value>) -> Result<Value, String> {
        let mut out = Map::new();
        for (name, value) in members {
            self.member(name, value, members, &mut out)?;
        }
        let is_nullable = self.interface.dialect == Dialect::Own && is_true(members, "nullable");
        Ok(if is_nullable { or_null(out) } else { Value::Object(out) })
    }

    fn member(
        &mut self,
        name: &'i str,
        value: &'i Value,
        all: &'i Map<String, Value>,
        out: &mut Map<String, Value>,
    ) -> Result<(), String> {
        let written = match (name, value) {
            (name, _) if name.starts_with("x-") || DROPPED.contains(&name) => return Ok(()),
            ("readOnly" | "writeOnly", _) => return Ok(()),
            ("required", Value::Array(names)) => {
                let hidden = self.hidden(all);
                let is_kept =
                    |name: &&Value| name.as_str().is_none_or(|name| !hidden.contains(&name));
                names.iter().filter(is_kept).cloned().collect()
            }
            (name, value) if DATA.contains(&name) => value.clone(),
            (name, Value::Object(schemas)) if NAMED.contains(&name) => {
                let hidden = if name == "properties" { self.hidden(all) } else { Vec::new() };
                let mut written = Map::new();
                for (name, schema) in schemas {
                    if !hidden.contains(&name.as_str()) {
                        written.insert(name.clone(), self.schema(schema)?);
                    }
                }
                Value::Object(written)
            }
            (_, Value::Array(items)) => {
                let items: Result<Value, String> =
                    items.iter().map(|item| self.schema(item)).collect();
                items?
            }
            (_, value) => self.schema(value)?,
        };
        out.insert(name.to_owned(), written);
        Ok(())
    }

    /// Names the properties of an object that are not this side's.
    fn hidden(&self, members: &'i Map<String, Value>) -> Vec<&'i str> {
        let mark = match self.side {
            Side::Request => "readOnly",
            Side::Response => "writeOnly",
        };
        let properties = members.get("properties").and_then(Value::as_object);
        let is_hidden = |schema: &Value| {
            let schema = self.interface.resolve(schema).ok().and_then(Value::as_object);
            schema.is_some_and(|schema| is_true(schema, mark))
        };
        let hidden = properties.into_iter().flatten().filter(|(_, schema)| is_hidden(schema));
        hidden.map(|(name, _)| name.as_str()).collect()
    }
}

/// Lets a value be null as well.
fn or_null(mut schema: Map<String, Value>) -> Value {
    if let Some(Value::String(kind)) = schema.get("type") {
        let kinds = json!([kind, "null"]);
        schema.insert("type".to_owned(), kinds);
        if let Some(Value::Array(values)) = schema.get_mut("enum")
            && !values.contains(&Value::Null)
        {
            values.push(Value::Null);
        }
        return Value::Object(schema);
    }
    json!({"anyOf": [schema, {"type": "null"}]})
}
