//! Looks up fields of answers, which servers leave out, send as null or in another form.

use std::borrow::Cow;

/// A part of an answer. Its texts are those of the body that it was read from.
pub(crate) type Json<'a> = serde_json_borrow::Value<'a>;

/// Returns a field of an object, if it is there; of several of one name the last, as other readers
/// do.
pub(crate) fn get<'v, 'a>(object: &'v Json<'a>, name: &str) -> Option<&'v Json<'a>> {
    let named = object.as_object()?.iter().filter(|(known, _)| *known == name);
    named.last().map(|(_, value)| value)
}

/// Returns a field of an object that is an object too.
pub(crate) fn object<'v, 'a>(object: &'v Json<'a>, name: &str) -> Option<&'v Json<'a>> {
    get(object, name).filter(|found| found.is_object())
}

/// Returns the items of a list; none if it is absent, null or something else.
pub(crate) fn list<'v, 'a>(value: Option<&'v Json<'a>>) -> &'v [Json<'a>] {
    value.and_then(Json::as_array).unwrap_or_default()
}

/// Returns a word, if there is one and it is a text.
pub(crate) fn word<'v>(object: &'v Json<'_>, name: &str) -> Option<&'v str> {
    get(object, name)?.as_str()
}

/// Returns a text, which some servers send as a list of parts; empty if there is none.
pub(crate) fn text<'v>(value: Option<&'v Json<'_>>) -> Cow<'v, str> {
    match value {
        Some(Json::Str(text)) => Cow::Borrowed(text),
        Some(Json::Array(parts)) => parts.iter().filter_map(|part| word(part, "text")).collect(),
        _ => Cow::Borrowed(""),
    }
}

/// Returns arguments byte for byte; an object in place of a text is written as JSON.
pub(crate) fn arguments(value: Option<&Json<'_>>) -> String {
    match value {
        None | Some(Json::Null) => String::new(),
        Some(Json::Str(text)) => text.clone().into_owned(),
        Some(value) => value.to_string(),
    }
}

/// Returns a count, if there is one.
pub(crate) fn count(object: &Json<'_>, name: &str) -> Option<u64> {
    get(object, name)?.as_u64()
}

/// Returns whether a field is true.
pub(crate) fn is_true(object: &Json<'_>, name: &str) -> bool {
    get(object, name).and_then(Json::as_bool) == Some(true)
}
