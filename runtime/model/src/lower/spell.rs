//! Says as schemas what is listed as values that some providers do not take.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{fields_of, keyword};

/// Returns the keywords with objects that are listed as values spelled out: one as its properties,
/// several as alternatives. Lists have no such form. Of several types only those of the values that
/// are listed stay.
pub(super) fn spelled(keywords: &Map<String, Value>) -> Cow<'_, Map<String, Value>> {
    let several = keywords.get("enum").map(fields_of).unwrap_or_default();
    let values = keywords.get("const").map_or(several, std::slice::from_ref);
    let is_any_of = keywords.get("type").is_some_and(Value::is_array);
    if !values.iter().any(Value::is_object) && (values.is_empty() || !is_any_of) {
        return Cow::Borrowed(keywords);
    }
    let mut spelled = keywords.clone();
    match values {
        [Value::Object(properties)] => {
            spelled.retain(|name, _| !matches!(name.as_str(), "const" | "enum"));
            spelled.insert("type".to_owned(), "object".into());
            spelled.insert("required".to_owned(), properties.keys().cloned().collect());
            let properties = properties.iter();
            let properties =
                properties.map(|(name, value)| (name.clone(), json!({"const": value})));
            spelled.insert("properties".to_owned(), properties.collect::<Map<_, _>>().into());
        }
        values if values.iter().any(Value::is_object) && !keywords.contains_key("anyOf") => {
            spelled.shift_remove("enum");
            let alternatives = values.iter().map(|value| json!({"const": value}));
            spelled.insert("anyOf".to_owned(), alternatives.collect());
        }
        _ => {
            if let Some(types) = keyword::implied_types(keywords) {
                spelled.insert("type".to_owned(), types);
            }
        }
    }
    Cow::Owned(spelled)
}
