//! Whole numbers in arguments: how they are written, and which were rounded.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::types::JsonType;
use jsonschema::{ValidationError, Validator};
use serde_json::{Number, Value};

use super::{FAULT_CHARS_MAX, FAULTS_MAX};

/// The first whole number behind which floats leave some out.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The most places at which numbers are written as whole ones: each is tried against the schema.
const WHOLE_PLACES_MAX: usize = 64;

/// The first whole number that has no place in 64 bits.
const WHOLE_MAX: f64 = 18_446_744_073_709_551_616.0;

/// Writes numbers without a fraction as whole ones where the schema wants these: `5.0` is a whole
/// number to JSON Schema, and not to whom an address, a command or a database is given.
pub(super) fn whole(validator: &Validator, mut arguments: Value) -> Value {
    let mut places = Vec::new();
    numbers(&arguments, is_bare_float, String::new(), (&mut places, WHOLE_PLACES_MAX));
    places.retain(|path| takes_no_fraction(validator, &arguments, path));
    for path in places {
        let Some(place) = arguments.pointer_mut(&path) else { continue };
        // A float is written without a fraction that it has not.
        let digits = place.as_f64().map(|float| float.to_string());
        if let Some(whole) = digits.and_then(|digits| digits.parse::<i64>().ok()) {
            *place = whole.into();
        }
    }
    arguments
}

/// Lists the whole numbers beyond 64 bits where the schema wants whole numbers: what was written
/// there is rounded, so that the tool would be called with another number.
pub(super) fn rounded(validator: &Validator, arguments: &Value) -> Vec<String> {
    let mut places = Vec::new();
    numbers(arguments, is_beyond, String::new(), (&mut places, FAULTS_MAX));
    places.retain(|path| takes_no_fraction(validator, arguments, path));
    let told = |path: String| -> String {
        let text = format!("{path}: a whole number beyond 64 bits would be rounded");
        text.chars().take(FAULT_CHARS_MAX).collect()
    };
    places.into_iter().map(told).collect()
}

/// Tells whether the schema wants a whole number at a place.
fn takes_no_fraction(validator: &Validator, arguments: &Value, path: &str) -> bool {
    let mut probe = arguments.clone();
    let Some(place) = probe.pointer_mut(path) else { return false };
    *place = Value::from(0.5);
    validator.iter_errors(&probe).any(|error| wants_whole(&error, path))
}

/// Tells whether no whole number of 64 bits reaches a number.
fn is_beyond(number: &Number) -> bool {
    let float = number.as_f64().filter(|_| number.is_f64()).unwrap_or_default();
    float >= WHOLE_MAX || float <= -WHOLE_MAX / 2.0
}

/// Tells whether a number is a float without a fraction, and no other whole number becomes the same.
fn is_bare_float(number: &Number) -> bool {
    let float = number.as_f64().filter(|_| number.is_f64());
    float.is_some_and(|float| float.fract().abs() < f64::EPSILON && float.abs() < EXACT_MAX)
}

/// Tells whether a value holds such a number.
fn holds(value: &Value, is: fn(&Number) -> bool) -> bool {
    match value {
        Value::Array(items) => items.iter().any(|item| holds(item, is)),
        Value::Object(fields) => fields.values().any(|field| holds(field, is)),
        Value::Number(number) => is(number),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Collects the places of such numbers, so many at most.
fn numbers(
    value: &Value,
    is: fn(&Number) -> bool,
    path: String,
    (places, most): (&mut Vec<String>, usize),
) {
    // Nearly no arguments hold one, and then no path is made.
    if places.len() >= most || !holds(value, is) {
        return;
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate().filter(|(_, item)| holds(item, is)) {
                numbers(item, is, format!("{path}/{index}"), (&mut *places, most));
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(_, field)| holds(field, is)) {
                let name = name.replace('~', "~0").replace('/', "~1");
                numbers(field, is, format!("{path}/{name}"), (&mut *places, most));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => places.push(path),
    }
}

/// Tells whether an error, or one of the alternatives that it sums up, is that a place wants a
/// whole number.
fn wants_whole(error: &ValidationError<'_>, path: &str) -> bool {
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            let is_whole = match kind {
                TypeKind::Single(single) => *single == JsonType::Integer,
                TypeKind::Multiple(set) => set.contains(JsonType::Integer),
            };
            is_whole && error.instance_path().as_str() == path
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            context.iter().flatten().any(|error| wants_whole(error, path))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::schema;
    use super::super::*;

    #[test]
    fn whole_numbers_that_were_rounded_are_refused() {
        let mut toolbox = Toolbox::default();
        toolbox.add("t", Some(schema()));
        let known = toolbox.find("t").unwrap();
        for (given, expected) in [
            (r#"{"s": "", "n": 18446744073709551615}"#, None),
            (r#"{"s": "", "n": 1e19}"#, None),
            (r#"{"s": "", "n": 18446744073709551616}"#, Some("/n: ")),
            (r#"{"s": "", "n": 117512345678901234567}"#, Some("/n: ")),
            (r#"{"s": "", "n": -9223372036854775808}"#, None),
            (r#"{"s": "", "n": -9223372036854775810}"#, Some("/n: ")),
            (r#"{"s": "", "list": [1, 1e21]}"#, Some("/list/1: ")),
            (r#"{"s": "", "maybe": 1e21}"#, Some("/maybe: ")),
            (r#"{"s": "", "either": 1e21}"#, Some("/either: ")),
            (r#"{"s": "", "x": 1e21}"#, None),
            (r#"{"s": "", "x": 117512345678901234567}"#, None),
        ] {
            let found = known.check(serde_json::from_str(given).unwrap());
            let faults = found.err().map(|(_, faults)| faults.join("; "));
            let is_expected = match (&faults, expected) {
                (None, None) => true,
                (Some(faults), Some(part)) => faults.starts_with(part),
                (None, Some(_)) | (Some(_), None) => false,
            };
            assert!(is_expected, "{given}: {faults:?}");
        }
    }

    #[test]
    fn whole_numbers_are_written_without_a_point() {
        let mut toolbox = Toolbox::new(false);
        let whole = json!({"type": ["integer", "null"]});
        let properties = json!({
            "id": whole, "ids": {"type": "array", "items": {"type": "integer"}},
            "share": {"type": "number"}, "any": {},
        });
        toolbox.add("f", Some(json!({"type": "object", "properties": properties})));
        let known = toolbox.find("f").unwrap();
        for (given, expected) in [
            (r#"{"id": 5.0}"#, r#"{"id":5}"#),
            (r#"{"id": -5e2, "share": 5.0}"#, r#"{"id":-500,"share":5.0}"#),
            (r#"{"ids": [1.0, 2, 3.0]}"#, r#"{"ids":[1,2,3]}"#),
            (r#"{"id": -0.0}"#, r#"{"id":0}"#),
            (r#"{"any": 5.0}"#, r#"{"any":5.0}"#),
            (r#"{"id": 9007199254740992.0}"#, r#"{"id":9007199254740992.0}"#),
        ] {
            let checked = known.check(serde_json::from_str(given).unwrap()).unwrap();
            assert_eq!(checked.to_string(), expected, "{given}");
        }
    }
}
