//! What of a team file is not shown again: secrets that somebody wrote into it.
//!
//! A team file only names secrets. One that stands in it all the same is a slip, and the report on
//! that slip goes to a terminal, a log or a chat. So whatever may be a secret is hidden in all that
//! is drawn of the file, whichever fault draws the line.

use std::ops::Range;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::DeValue;

/// Parts of the names of what is kept secret, in small letters.
const WORDS: [&str; 7] =
    ["key", "token", "passw", "secret", "credential", "authorization", "bearer"];

/// Fields whose values are texts or secrets, by names that the team file chooses.
const SETTINGS: [&str; 3] = ["env", "headers", "query"];

/// Tells whether a name may be that of a secret.
fn tells(name: &str) -> bool {
    let name = name.to_lowercase();
    WORDS.iter().any(|word| name.contains(word))
}

/// Tells whether a field names the environment variable that holds a secret.
fn names_variable(field: &str) -> bool {
    field == "env" || field.ends_with("_env")
}

/// Tells whether a text can be the name of an environment variable.
pub(crate) fn is_variable(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty()
        && text.chars().all(is_letter)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Tells whether a text may be an address that somebody wrote a name and a password into.
pub(crate) fn may_hold_login(address: &str) -> bool {
    address.contains(['@', '?', '#'])
}

/// Tells whether a text is an address with a name before its host, and with it maybe a password.
pub(crate) fn has_login(text: &str) -> bool {
    let rest = text.split_once("://").map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split(['/', '?']).next()).is_some_and(|host| host.contains('@'))
}

/// Where a value stands.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    /// In a field that the schema has; whether the value is of the field's type.
    Field { fits: bool },
    /// Under a name that the team file chooses.
    Entry,
    /// In a field that the schema does not have, in a table of this name with these fields.
    Unknown { table: &'a str, known: Option<&'a Map<String, Value>> },
}

/// Tells whether a value may be a secret.
pub(crate) fn may_be_secret(name: &str, value: &DeValue, place: Place<'_>) -> bool {
    match place {
        Place::Field { fits: true } => {
            names_variable(name) && value.as_str().is_some_and(|text| !is_variable(text))
        }
        Place::Field { fits: false } => {
            tells(name) || names_variable(name) || SETTINGS.contains(&name)
        }
        Place::Entry => value.is_str() && tells(name),
        Place::Unknown { table, known } => {
            // A table that names a secret is where people put the secret itself.
            let is_secret = |known: &Map<String, Value>| {
                known.contains_key("env") && known.contains_key("prefix")
            };
            tells(name) || names_variable(name) || tells(table) || known.is_some_and(is_secret)
        }
    }
}

/// Adds the places of all texts, numbers and the like in a value.
pub(crate) fn places(value: &Spanned<DeValue>, places: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => {
            table.iter().for_each(|(_, value)| self::places(value, places));
        }
        DeValue::Array(array) => array.iter().for_each(|value| self::places(value, places)),
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => places.push(value.span()),
    }
}

/// Returns what may be secrets in a text that is no TOML: the rest of each line after a key that
/// tells of one.
pub(crate) fn places_in_text(text: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let is_secret = |at: &usize| {
            let before = line.get(..*at).unwrap_or_default().trim_end();
            let is_end = |c: char| c.is_whitespace() || matches!(c, '{' | ',');
            let key = before.rsplit(is_end).next().unwrap_or_default();
            tells(key) || names_variable(key) || SETTINGS.contains(&key)
        };
        let mut equals = line.match_indices('=').map(|(at, _)| at);
        places.extend(equals.find(is_secret).map(|at| start + at + 1..start + line.len()));
        start += line.len();
    }
    places
}

/// Returns a text of the same length and lines, with a star for each byte of these places.
pub(crate) fn blotted(text: &str, places: &[Range<usize>]) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let is_hidden = !c.is_whitespace() && places.iter().any(|place| place.contains(&at));
        let shown = if is_hidden { '*' } else { c };
        let times = if is_hidden { c.len_utf8() } else { 1 };
        out.extend(std::iter::repeat_n(shown, times));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_toml_loses_what_follows_a_telling_key() {
        for (text, expected) in [
            ("a = 1\napi_key = sk-1\nb = 2\n", "a = 1\napi_key = ****\nb = 2\n"),
            ("h = { Authorization = x y }", "h = { Authorization = * * *"),
            ("password=é\r\nx", "password=**\r\nx"),
            ("model = 'm", "model = 'm"),
            ("api_key_env", "api_key_env"),
        ] {
            assert_eq!(blotted(text, &places_in_text(text)), expected);
        }
    }
}
