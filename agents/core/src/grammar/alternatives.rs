//! Alternatives: `anyOf`, and `oneOf` where exactly one can hold.

use serde_json::{Value, json};

use super::convert::{Converter, Place};
use super::rules::Expr;
use super::terminal::{Kind, kinds};
use super::{GrammarError, Keywords, below, malformed, merge, unsupported};

/// Converts the alternatives of a subschema, each with what stands beside them.
pub(super) fn of(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    place: &Place,
) -> Result<Option<Vec<Expr>>, GrammarError> {
    let mut beside = keywords.clone();
    let (key, listed) = match (beside.remove("oneOf"), keywords.get("anyOf")) {
        (Some(listed), _) => ("oneOf", listed),
        (None, Some(listed)) => {
            beside.remove("anyOf");
            ("anyOf", listed.clone())
        }
        (None, None) => return Ok(None),
    };
    let Value::Array(listed) = listed else { return Err(malformed(&place.at, key)) };
    let mut choices = Vec::with_capacity(listed.len());
    let mut flats = Vec::new();
    for (index, alternative) in listed.into_iter().enumerate() {
        let here = place.below(key, &index.to_string());
        let here = Place { at: below(&here.at, &index.to_string()), ..here };
        let schema = match &alternative {
            _ if beside.is_empty() => alternative,
            Value::Bool(false) => continue,
            _ => json!({"allOf": [beside, alternative]}),
        };
        if key == "oneOf" {
            flats.push((here.at.clone(), resolved(converter, &schema, &here)));
        }
        match converter.value(&schema, &here) {
            // What no value fits is no alternative.
            Err(GrammarError::Empty { .. }) => {
                flats.pop();
            }
            expr => choices.push(expr?),
        }
    }
    if choices.is_empty() {
        return Err(GrammarError::Empty { at: place.at.clone() });
    }
    tell_apart(converter, &flats, place)?;
    Ok(Some(choices))
}

/// Checks that no value fits two alternatives.
fn tell_apart(
    converter: &mut Converter<'_>,
    flats: &[(String, Option<Keywords>)],
    place: &Place,
) -> Result<(), GrammarError> {
    for (index, (_, ours)) in flats.iter().enumerate() {
        for (at, theirs) in flats.iter().skip(index + 1) {
            let apart = match (ours, theirs) {
                (Some(ours), Some(theirs)) => disjoint(converter, ours, theirs, place),
                _ => false,
            };
            if !apart {
                let what = "oneOf with alternatives that may hold at once (anyOf can have them)";
                return Err(unsupported(at, what));
            }
        }
    }
    Ok(())
}

/// Returns the keywords of a schema with its references taken in, if that can be done.
fn resolved(converter: &mut Converter<'_>, schema: &Value, place: &Place) -> Option<Keywords> {
    merge::flat(converter, schema.as_object()?, place).ok()
}

/// Tells whether no value can obey both; in doubt it says no.
fn disjoint(
    converter: &mut Converter<'_>,
    ours: &Keywords,
    theirs: &Keywords,
    place: &Place,
) -> bool {
    if apart(ours, theirs) {
        return true;
    }
    let object_only = |keywords: &Keywords| values(keywords).is_none() && is_object(keywords);
    if !object_only(ours) || !object_only(theirs) {
        return false;
    }
    let required = |keywords: &Keywords| -> Vec<String> {
        let names = keywords.get("required").and_then(Value::as_array);
        names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let property = |keywords: &Keywords, name: &str| {
        keywords.get("properties").and_then(|properties| properties.get(name)).cloned()
    };
    let lacks = |keywords: &Keywords, name: &str| {
        property(keywords, name).is_none()
            && keywords.get("additionalProperties") == Some(&Value::Bool(false))
    };
    let (ours_required, theirs_required) = (required(ours), required(theirs));
    ours_required.iter().any(|name| lacks(theirs, name))
        || theirs_required.iter().any(|name| lacks(ours, name))
        || ours_required.iter().filter(|name| theirs_required.contains(name)).any(|name| {
            let mut side =
                |keywords: &Keywords| resolved(converter, &property(keywords, name)?, place);
            matches!((side(ours), side(theirs)), (Some(a), Some(b)) if apart(&a, &b))
        })
}

/// Tells whether two schemas are told apart by their listed values or by their types.
fn apart(ours: &Keywords, theirs: &Keywords) -> bool {
    if let (Some(ours), Some(theirs)) = (values(ours), values(theirs)) {
        return !ours.iter().any(|value| theirs.iter().any(|other| equal(value, other)));
    }
    match (kinds_of(ours), kinds_of(theirs)) {
        (Some(ours), Some(theirs)) => {
            !ours.iter().any(|kind| theirs.iter().any(|other| kind.overlaps(*other)))
        }
        _ => false,
    }
}

fn values(keywords: &Keywords) -> Option<Vec<&Value>> {
    match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// Compares as JSON Schema does, to which 1 and 1.0 are one number; in doubt they are equal.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(_) | Value::Null | Value::Bool(_), _)
        | (_, Value::String(_) | Value::Null | Value::Bool(_)) => one == other,
        _ => Kind::of_value(one).overlaps(Kind::of_value(other)) && one.as_f64() == other.as_f64(),
    }
}

/// Returns the kinds of values that are valid, if the schema says so.
fn kinds_of(keywords: &Keywords) -> Option<Vec<Kind>> {
    if let Some(values) = values(keywords) {
        return Some(values.into_iter().map(Kind::of_value).collect());
    }
    keywords.get("type")?;
    kinds(keywords, "").ok()
}

fn is_object(keywords: &Keywords) -> bool {
    keywords.get("type").is_some_and(|kind| kind == "object")
}
