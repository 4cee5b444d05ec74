//! Reads OpenAPI files: every operation becomes the template of a request.
//!
//! Versions 3.0 and 3.1 are read. References are followed within the file; a schema that refers to
//! itself is cut where it does.

mod operation;
mod schema;
#[cfg(test)]
mod tests;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

pub use operation::{Base, Made, Operation};

/// The largest file, in bytes; the largest that are published are half as large.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// References that one reference may lead to in turn.
const REFERENCES_MAX: usize = 16;

/// The methods of operations, as the files write them.
const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];

/// An OpenAPI file.
#[derive(Clone, Debug)]
pub struct Interface {
    document: Value,
    dialect: Dialect,
}

/// How the schemas of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// As a dialect of JSON Schema draft 4 with words of its own, up to version 3.0.
    Own,
    /// As JSON Schema 2020-12.
    Standard,
}

impl Interface {
    /// Reads a file in JSON or YAML. The error says what is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?
        } else {
            serde_saphyr::from_str(text).map_err(|error| format!("it is no YAML: {error}"))?
        };
        let version = document.get("openapi").and_then(Value::as_str);
        let dialect = match version {
            Some(version) if version.starts_with("3.0.") => Dialect::Own,
            Some(version) if version.starts_with("3.") => Dialect::Standard,
            Some(version) => return Err(format!("OpenAPI {version} is not read, 3.0 and 3.1 are")),
            None if document.get("swagger").is_some() => {
                return Err("it is a Swagger 2 file; convert it to OpenAPI 3".to_owned());
            }
            None => return Err("it does not say `openapi: 3.1.0` or the like".to_owned()),
        };
        Ok(Self { document, dialect })
    }

    /// Returns the operations, in the order of the file.
    pub fn operations(&self) -> Vec<Operation<'_>> {
        let paths = self.document.get("paths").and_then(Value::as_object);
        let mut operations = Vec::new();
        for (path, item) in paths.into_iter().flatten() {
            let Ok(item) = self.resolve(item) else { continue };
            for method in METHODS {
                if let Some(body) = item.get(method).and_then(Value::as_object) {
                    operations.push(Operation::new(method, path, item, body));
                }
            }
        }
        operations
    }

    /// Follows references until there is none.
    fn resolve<'a>(&'a self, mut value: &'a Value) -> Result<&'a Value, String> {
        for _ in 0..REFERENCES_MAX {
            let Some(place) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
            value = self.at(place)?;
        }
        Err("its references go in a circle".to_owned())
    }

    /// Returns what a reference refers to.
    fn at(&self, place: &str) -> Result<&Value, String> {
        let pointer = place
            .strip_prefix('#')
            .ok_or_else(|| format!("it refers to another file, {place:?}; put all into one"))?;
        let found = self.document.pointer(&percent_decode_str(pointer).decode_utf8_lossy());
        found.ok_or_else(|| format!("it refers to {place:?}, which is not there"))
    }
}

/// Returns a text of an object that is not blank.
fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    let text = object.get(name).and_then(Value::as_str).map(str::trim);
    text.filter(|text| !text.is_empty())
}

/// Tells whether an object says yes to something.
fn is_true(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name) == Some(&Value::Bool(true))
}
