//! Objects: declared properties in their order, or any names.

use serde_json::Value;

use super::convert::{Converter, Place, count, enclosed, refuse};
use super::rules::Expr;
use super::terminal::{Kind, terminal};
use super::{GrammarError, Keywords, malformed, unsupported};

/// Properties are counted as far as they can be told apart.
const PROPERTIES_MAX: u64 = 10_000;

/// Converts an object.
pub(super) fn object(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    place: &Place,
) -> Result<Expr, GrammarError> {
    refuse(keywords, &["dependentRequired", "dependentSchemas", "dependencies"], &place.at)?;
    refuse(keywords, &["patternProperties", "propertyNames"], &place.at)?;
    let properties = match keywords.get("properties") {
        None => None,
        Some(Value::Object(properties)) => Some(properties),
        Some(_) => return Err(malformed(&place.at, "properties")),
    };
    let required = required(keywords, &place.at)?;
    let additional = keywords.get("additionalProperties");
    let none_declared = required.is_empty() && properties.is_none_or(Keywords::is_empty);
    let open = match additional {
        None => properties.is_none(),
        Some(schema) => *schema != Value::Bool(false),
    };
    let expr = if none_declared && open && !keywords.contains_key("unevaluatedProperties") {
        named_freely(converter, keywords, place)?
    } else {
        let mut declared: Vec<(&str, &Value)> = Vec::new();
        for (name, schema) in properties.into_iter().flatten() {
            declared.push((name, schema));
        }
        for name in &required {
            if !declared.iter().any(|(other, _)| other == name) {
                declared.push((name, additional.unwrap_or(&Value::Bool(true))));
            }
        }
        named(converter, keywords, &declared, &required, place)?
    };
    converter.rule(place, expr)
}

fn required<'a>(keywords: &'a Keywords, at: &str) -> Result<Vec<&'a str>, GrammarError> {
    let Some(names) = keywords.get("required") else { return Ok(Vec::new()) };
    let names = names.as_array().ok_or_else(|| malformed(at, "required"))?;
    names.iter().map(|name| name.as_str().ok_or_else(|| malformed(at, "required"))).collect()
}

/// Converts an object of any names with values of one schema.
fn named_freely(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    place: &Place,
) -> Result<Expr, GrammarError> {
    let min = count(keywords, "minProperties", PROPERTIES_MAX, &place.at)?.unwrap_or(0);
    refuse(keywords, &["maxProperties"], &place.at)?;
    if min > 1 {
        // The same name may come twice and counts once.
        return Err(unsupported(&place.at, "minProperties above 1"));
    }
    let values = place.below("additionalProperties", "entry");
    let schema = keywords.get("additionalProperties").unwrap_or(&Value::Bool(true));
    let value = match converter.value(schema, &values) {
        Err(GrammarError::Empty { .. }) if min == 0 => return Ok(enclosed("{", Vec::new(), "}")),
        value => value?,
    };
    let value = converter.rule(&values, value)?;
    map(converter, value, min == 1)
}

/// Writes an object of any names with values of one rule.
pub(super) fn map(
    converter: &mut Converter<'_>,
    value: Expr,
    filled: bool,
) -> Result<Expr, GrammarError> {
    let space = || Expr::rule("space");
    let name = terminal(converter, Kind::String, &Keywords::new(), "")?;
    let entry = Expr::Seq(vec![name, Expr::text(":"), space(), value]);
    let next = Expr::Seq(vec![Expr::text(","), space(), entry.clone()]);
    let entries = Expr::Seq(vec![entry, next.repeat(0, None)]);
    let entries = if filled { entries } else { entries.optional() };
    Ok(enclosed("{", vec![entries], "}"))
}

/// Converts an object of declared properties: the required ones first.
fn named(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    declared: &[(&str, &Value)],
    required: &[&str],
    place: &Place,
) -> Result<Expr, GrammarError> {
    let (mut needed, mut others) = (Vec::new(), Vec::new());
    for (name, schema) in declared {
        let below = place.below("properties", name);
        let below = Place { at: super::below(&below.at, name), ..below };
        let is_needed = required.contains(name);
        let value = match converter.value(schema, &below) {
            // A property that no value fits is left out.
            Err(GrammarError::Empty { .. }) if !is_needed => continue,
            value => value?,
        };
        // Values that are listed become rules, so that a line shows the form of the object.
        let value = converter.rule(&below, value)?;
        let name = Expr::text(Value::from(*name).to_string());
        let space = || Expr::rule("space");
        let property = Expr::Seq(vec![name, space(), Expr::text(":"), space(), value]);
        if is_needed {
            needed.push(property);
        } else {
            let place = Place { rule: format!("{}-pair", below.rule), ..below };
            others.push(converter.rule(&place, property)?);
        }
    }
    sizes(keywords, needed.len(), others.len(), &place.at)?;
    let inside = if needed.is_empty() {
        optional_only(converter, others, place)?
    } else {
        let needed = needed.into_iter().enumerate().flat_map(|(index, property)| {
            let property = match property {
                Expr::Seq(parts) => parts,
                other => vec![other],
            };
            let comma = (index > 0).then(comma).into_iter().flatten();
            comma.chain(property).collect::<Vec<_>>()
        });
        needed.chain(others.into_iter().map(following)).collect()
    };
    Ok(enclosed("{", inside, "}"))
}

/// Checks the number of properties, which is between that of the required and that of all.
fn sizes(keywords: &Keywords, needed: usize, others: usize, at: &str) -> Result<(), GrammarError> {
    let count = |name| count(keywords, name, PROPERTIES_MAX, at);
    let reached = |limit: Option<u32>, number: usize| {
        limit.is_none_or(|limit| usize::try_from(limit).is_ok_and(|limit| limit <= number))
    };
    let (min, max) = (count("minProperties")?, count("maxProperties")?);
    if !reached(min, needed + others) || (max.is_some() && !reached(max, usize::MAX)) {
        return Err(GrammarError::Empty { at: at.to_owned() });
    }
    if !reached(min, needed) {
        return Err(unsupported(at, "minProperties above the number of required properties"));
    }
    let fits = max.is_none_or(|max| usize::try_from(max).is_ok_and(|max| max >= needed + others));
    if fits { Ok(()) } else { Err(unsupported(at, "maxProperties below the number of properties")) }
}

fn comma() -> [Expr; 2] {
    [Expr::text(","), Expr::rule("space")]
}

/// Makes a property that may follow another.
fn following(property: Expr) -> Expr {
    Expr::Seq(comma().into_iter().chain([property]).collect()).optional()
}

/// Makes any of the properties that are left, in order; the first one has no comma before it.
fn optional_only(
    converter: &mut Converter<'_>,
    properties: Vec<Expr>,
    place: &Place,
) -> Result<Vec<Expr>, GrammarError> {
    let mut starts = Vec::new();
    let mut rest: Option<Expr> = None;
    for property in properties.into_iter().rev() {
        let start = [property.clone()].into_iter().chain(rest.clone());
        starts.push(Expr::Seq(start.collect()));
        let more = Expr::Seq([following(property)].into_iter().chain(rest).collect());
        let place = Place { rule: format!("{}-rest", place.rule), ..place.clone() };
        rest = Some(converter.rule(&place, more)?);
    }
    starts.reverse();
    let some = if starts.is_empty() { None } else { Some(Expr::any_of(starts).optional()) };
    Ok(some.into_iter().collect())
}
