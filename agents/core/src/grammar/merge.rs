//! Puts what applies at once into one table of keywords: `allOf`, and what stands beside `$ref`.

use serde_json::{Value, json};

use super::convert::{Converter, Place};
use super::{GrammarError, Keywords, below, malformed, unsupported};

/// Keywords that change what is valid; every other one is an annotation to us.
const CONSTRAINTS: &[&str] = &[
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "if",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

fn constraints(keywords: &Keywords) -> Keywords {
    let kept = keywords.iter().filter(|(key, _)| CONSTRAINTS.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Returns the reference of a subschema that is nothing but one.
pub(super) fn only_reference(keywords: &Keywords) -> Option<&str> {
    let reference = keywords.get("$ref")?.as_str()?;
    let alone = |key: &String| key == "$ref" || !CONSTRAINTS.contains(&key.as_str());
    keywords.keys().all(alone).then_some(reference)
}

/// Finds what a reference leads to in the same schema.
pub(super) fn resolve<'a>(
    root: &'a Value,
    reference: &str,
    at: &str,
) -> Result<&'a Value, GrammarError> {
    let pointer = reference.strip_prefix('#').and_then(decoded);
    let target = pointer.and_then(|pointer| root.pointer(&pointer));
    target.ok_or_else(|| GrammarError::Reference {
        at: at.to_owned(),
        reference: reference.to_owned(),
    })
}

/// Decodes the fragment of an address.
fn decoded(fragment: &str) -> Option<String> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(part.get(2..)?.bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Returns the keywords of a subschema, with those of its references and of `allOf` among them.
pub(super) fn flat(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    place: &Place,
) -> Result<Keywords, GrammarError> {
    converter.enter(place.depth)?;
    let mut merged = constraints(keywords);
    let reference = merged.remove("$ref");
    let all = merged.remove("allOf");
    if let Some(reference) = reference {
        let text = reference.as_str().ok_or_else(|| malformed(&place.at, "$ref"))?;
        let target = resolve(converter.root, text, &place.at)?;
        take(converter, &mut merged, target, &place.below("$ref", ""))?;
    }
    match all {
        None => {}
        Some(Value::Array(parts)) => {
            for (index, part) in parts.iter().enumerate() {
                let place = place.below("allOf", "");
                let at = below(&place.at, &index.to_string());
                take(converter, &mut merged, part, &Place { at, ..place })?;
            }
        }
        Some(_) => return Err(malformed(&place.at, "allOf")),
    }
    Ok(merged)
}

fn take(
    converter: &mut Converter<'_>,
    merged: &mut Keywords,
    part: &Value,
    place: &Place,
) -> Result<(), GrammarError> {
    match part {
        Value::Bool(true) => Ok(()),
        Value::Bool(false) => Err(GrammarError::Empty { at: place.at.clone() }),
        Value::Object(keywords) => {
            let part = flat(converter, keywords, place)?;
            merge(merged, part, &place.at)
        }
        _ => Err(malformed(&place.at, "a schema that is no object")),
    }
}

/// Adds keywords to others, so that a value must obey both.
fn merge(merged: &mut Keywords, mut part: Keywords, at: &str) -> Result<(), GrammarError> {
    restrict(merged, &mut part, at)?;
    for (key, theirs) in part {
        let Some(ours) = merged.get(&key) else {
            merged.insert(key, theirs);
            continue;
        };
        if *ours != theirs {
            let both = both(&key, ours, &theirs, at)?;
            merged.insert(key, both);
        }
    }
    Ok(())
}

/// Makes each side's rule for undeclared properties apply to what only the other one declares.
fn restrict(ours: &mut Keywords, theirs: &mut Keywords, at: &str) -> Result<(), GrammarError> {
    for keywords in [&*ours, &*theirs] {
        if keywords.get("properties").is_some_and(|properties| !properties.is_object()) {
            return Err(malformed(at, "properties"));
        }
    }
    let (before_ours, before_theirs) = (ours.clone(), theirs.clone());
    restrict_one(ours, &before_theirs);
    restrict_one(theirs, &before_ours);
    Ok(())
}

fn restrict_one(keywords: &mut Keywords, other: &Keywords) {
    let Some(rule) = other.get("additionalProperties") else { return };
    let declared = other.get("properties").and_then(Value::as_object);
    let Some(Value::Object(properties)) = keywords.get_mut("properties") else { return };
    for (name, schema) in properties.iter_mut() {
        if !declared.is_some_and(|declared| declared.contains_key(name)) {
            *schema = json!({"allOf": [schema.take(), rule]});
        }
    }
}

/// Returns the value of a keyword that stands for two.
fn both(key: &str, ours: &Value, theirs: &Value, at: &str) -> Result<Value, GrammarError> {
    let empty = || GrammarError::Empty { at: at.to_owned() };
    match (key, ours, theirs) {
        ("type", _, _) => types(ours, theirs).ok_or_else(empty),
        ("const", _, _) => Err(empty()),
        ("enum", Value::Array(ours), Value::Array(theirs)) => {
            Ok(ours.iter().filter(|value| theirs.contains(value)).cloned().collect())
        }
        ("required", Value::Array(ours), Value::Array(theirs)) => {
            let more = theirs.iter().filter(|name| !ours.contains(name));
            Ok(ours.iter().chain(more).cloned().collect())
        }
        ("properties", Value::Object(ours), Value::Object(theirs)) => {
            let mut all = ours.clone();
            for (name, theirs) in theirs {
                let schema = match ours.get(name) {
                    Some(ours) if ours != theirs => json!({"allOf": [ours, theirs]}),
                    _ => theirs.clone(),
                };
                all.insert(name.clone(), schema);
            }
            Ok(all.into())
        }
        ("items" | "additionalProperties", _, _) => Ok(json!({"allOf": [ours, theirs]})),
        ("uniqueItems", Value::Bool(_), Value::Bool(_)) => Ok(true.into()),
        (
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties",
            Value::Number(_),
            Value::Number(_),
        ) => Ok(if ours.as_f64() < theirs.as_f64() { theirs } else { ours }.clone()),
        (
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties",
            Value::Number(_),
            Value::Number(_),
        ) => Ok(if ours.as_f64() > theirs.as_f64() { theirs } else { ours }.clone()),
        _ => Err(unsupported(at, format!("{key} in several parts that apply at once"))),
    }
}

/// Returns the types that are in both lists.
fn types(ours: &Value, theirs: &Value) -> Option<Value> {
    let list = |types: &Value| match types {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    let (ours, theirs) = (list(ours), list(theirs));
    let (integer, number) = (json!("integer"), json!("number"));
    let mut common = Vec::new();
    for kind in ours {
        if theirs.contains(&kind) || (kind == integer && theirs.contains(&number)) {
            common.push(kind);
        } else if kind == number && theirs.contains(&integer) {
            common.push(integer.clone());
        }
    }
    (!common.is_empty()).then_some(common.into())
}
