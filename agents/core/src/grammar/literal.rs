//! Values that a schema lists: `const` and `enum`.

use serde_json::Value;

use super::convert::Place;
use super::rules::Expr;
use super::{GrammarError, Keywords, malformed, unsupported};
use crate::validate;

/// Converts the listed values that the other keywords allow.
pub(super) fn choices(
    root: &Value,
    keywords: &Keywords,
    place: &Place,
) -> Result<Expr, GrammarError> {
    let listed = match (keywords.get("const"), keywords.get("enum")) {
        (Some(value), _) => vec![value],
        (None, Some(Value::Array(values))) => values.iter().collect(),
        _ => return Err(malformed(&place.at, "enum")),
    };
    let mut texts = Vec::new();
    for value in valid(root, keywords, listed, place)? {
        let text = value.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if texts.is_empty() {
        return Err(GrammarError::Empty { at: place.at.clone() });
    }
    Ok(Expr::any_of(texts.into_iter().map(Expr::Text).collect()))
}

/// Keeps the values that obey all keywords.
fn valid<'a>(
    root: &Value,
    keywords: &Keywords,
    listed: Vec<&'a Value>,
    place: &Place,
) -> Result<Vec<&'a Value>, GrammarError> {
    if keywords.len() == 1 {
        return Ok(listed);
    }
    let mut schema = keywords.clone();
    for key in ["$defs", "definitions"] {
        if let Some(definitions) = root.get(key) {
            schema.insert(key.to_owned(), definitions.clone());
        }
    }
    let validator = validate::validator(&Value::Object(schema))
        .map_err(|_| unsupported(&place.at, "a list of values beside other keywords"))?;
    Ok(listed.into_iter().filter(|value| validator.is_valid(value)).collect())
}
