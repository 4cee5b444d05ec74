//! Checks JSON Schemas of parameters.

use std::collections::BTreeSet;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

/// The largest schema of parameters, in bytes of JSON. It travels with every model request.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;

/// The dialect that schemas are read by; one that names another is refused.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Checks that a value is a JSON Schema 2020-12 of an object, as the parameters of a tool are.
///
/// The error says what is wrong and where, as a JSON pointer into the schema.
pub fn check_parameters(schema: &Value) -> Result<(), String> {
    let Some(root) = schema.as_object() else {
        return Err("the schema has to be an object".to_owned());
    };
    check_form(schema)?;
    if root.get("type") != Some(&Value::from("object")) {
        return Err("the schema needs \"type\": \"object\"".to_owned());
    }
    check_meaning(schema)
}

/// Checks that a value is a JSON Schema 2020-12 of any type; the error is as of
/// [`check_parameters`].
pub fn check_schema(schema: &Value) -> Result<(), String> {
    check_form(schema)?;
    check_meaning(schema)
}

fn check_form(schema: &Value) -> Result<(), String> {
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(format!("the schema has {bytes} bytes, more than {SCHEMA_BYTES_MAX}"));
    }
    match schema.get("$schema") {
        Some(dialect)
            if dialect.as_str().map(|dialect| dialect.trim_end_matches('#')) != Some(DIALECT) =>
        {
            Err(format!("\"$schema\" is {dialect}; only {DIALECT} is read"))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_meaning(schema: &Value) -> Result<(), String> {
    jsonschema::draft202012::meta::validate(schema).map_err(|error| at(&error))?;
    // Patterns and references are valid only if they also compile.
    compile(schema)?;
    Ok(())
}

/// Compiles a JSON Schema 2020-12; the error says what is wrong and where.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::draft202012::new(schema).map_err(|error| at(&error))
}

/// The most times that nulls are looked for in a value: what is found in one alternative may be all
/// that kept another from being looked at.
const ROUNDS_MAX: usize = 4;

/// Returns what obeys a schema: a value as it is, or else without the nulls by which a model says
/// that a property is absent, as those do whose server wants every property.
pub(crate) fn without_nulls(validator: &Validator, value: &Value) -> Option<Value> {
    let mut value = value.clone();
    for _ in 0..ROUNDS_MAX {
        let mut nulls = BTreeSet::new();
        for error in validator.iter_errors(&value) {
            add_nulls(&error, &value, &mut nulls);
        }
        if nulls.is_empty() {
            break;
        }
        for (object, name) in nulls {
            if let Some(object) = value.pointer_mut(&object).and_then(Value::as_object_mut) {
                object.shift_remove(&name);
            }
        }
    }
    validator.is_valid(&value).then_some(value)
}

/// Adds the nulls that an error, or one of the alternatives that it sums up, is about: each by the
/// pointer to its object, and its name there.
fn add_nulls(error: &ValidationError<'_>, root: &Value, nulls: &mut BTreeSet<(String, String)>) {
    let place = error.instance_path().as_str();
    if root.pointer(place).is_some_and(Value::is_null)
        && let Some((object, name)) = place.rsplit_once('/')
    {
        nulls.insert((object.to_owned(), name.replace("~1", "/").replace("~0", "~")));
    }
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            for error in context.iter().flatten() {
                add_nulls(error, root, nulls);
            }
        }
        _ => {}
    }
}

/// Faults of a value that are told; more do not help to find what is wrong.
const FAULTS_TOLD_MAX: usize = 3;

/// Says how a value does not obey a schema, if so.
pub(crate) fn faults(schema: &Validator, value: &Value) -> Option<String> {
    let faults: Vec<String> =
        schema.iter_errors(value).take(FAULTS_TOLD_MAX).map(|error| at(&error)).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Says what is wrong with a value, and where in it.
pub(crate) fn at(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    if path.is_empty() { error.to_string() } else { format!("{path}: {error}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_valid_schemas_of_objects_pass() {
        let long = "x".repeat(SCHEMA_BYTES_MAX);
        let cases = [
            (json!({"type": "object"}), None),
            (json!({"type": "object", "$schema": DIALECT}), None),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
                    "$defs": {"a": {"type": "string", "pattern": "^a+$"}}}),
                None,
            ),
            (json!("object"), Some("has to be an object")),
            (json!(true), Some("has to be an object")),
            (json!({}), Some("\"type\": \"object\"")),
            (json!({"type": "string"}), Some("\"type\": \"object\"")),
            (json!({"type": ["object", "null"]}), Some("\"type\": \"object\"")),
            (json!({"type": "object", "description": long}), Some("more than 65536")),
            (
                json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}),
                Some("only https://json-schema.org/draft/2020-12/schema is read"),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "text"}}}),
                Some("/properties/a/type: "),
            ),
            (json!({"type": "object", "required": "a"}), Some("/required: ")),
            (
                json!({"type": "object", "properties": {"a": {"pattern": "("}}}),
                Some("/properties/a/pattern: "),
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}),
                Some("none"),
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "http://example.com/s"}}}),
                Some("example.com"),
            ),
        ];
        for (schema, fault) in cases {
            match (check_parameters(&schema), fault) {
                (Ok(()), None) => {}
                (Err(message), Some(part)) => assert!(message.contains(part), "{message}"),
                (result, _) => panic!("{schema}: {result:?}"),
            }
        }
    }
}
