//! Texts with places for arguments.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// A text in which `{name}` stands for the argument of that name.
///
/// A name consists of letters, digits, `_` and `-`; braces around anything else stand for
/// themselves, so that JSON and queries can be written as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Argument(String),
}

impl Template {
    /// Takes a text apart; every text is a template.
    pub fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            literal.push_str(before);
            let place = after.split_once('}').filter(|(name, _)| is_name(name));
            let Some((name, behind)) = place else {
                literal.push('{');
                rest = after;
                continue;
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(Part::Argument(name.to_owned()));
            rest = behind;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Self { parts }
    }

    /// Returns the names of the arguments, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Argument(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// Returns the name if the text is one argument and nothing else.
    pub(crate) fn whole(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Argument(name)] => Some(name),
            _ => None,
        }
    }

    /// Tells whether arguments stand in it.
    pub fn has_places(&self) -> bool {
        self.names().next().is_some()
    }

    /// Returns the text of its own with which it ends.
    pub(crate) fn literal_end(&self) -> Option<&str> {
        match self.parts.last() {
            Some(Part::Text(text)) => Some(text),
            Some(Part::Argument(_)) | None => None,
        }
    }

    /// Tells whether it begins with a text of its own.
    pub(crate) fn literal_start(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Text(_)))
    }

    /// Fills in the arguments as `write` writes them; the error names one that is absent or null.
    pub(crate) fn fill(
        &self,
        arguments: &Map<String, Value>,
        write: impl Fn(&str, &mut String),
    ) -> Result<String, &str> {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Argument(name) => {
                    let value = present(arguments, name).ok_or(name.as_str())?;
                    write(&to_text(value), &mut filled);
                }
            }
        }
        Ok(filled)
    }

    /// Fills in the arguments as they are.
    pub(crate) fn fill_plain(&self, arguments: &Map<String, Value>) -> Result<String, &str> {
        self.fill(arguments, |value, filled| filled.push_str(value))
    }

    /// Returns what is wrong with it beside the JSON Schema of the parameters: places without a
    /// parameter, and parameters without a place in `text`, as it is called in a sentence.
    pub fn faults(&self, parameters: &Value, text: &str) -> Vec<String> {
        let known = declared(parameters);
        let used: BTreeSet<&str> = self.names().collect();
        let unknown = used
            .difference(&known)
            .map(|name| format!("{{{name}}} stands for a parameter that is not declared"));
        let unused = known
            .difference(&used)
            .map(|name| format!("parameter {name:?} appears nowhere in the {text}"));
        unknown.chain(unused).collect()
    }

    /// Fills in the arguments as they are; one that is absent or null is nothing.
    pub fn fill_lenient(&self, arguments: &Map<String, Value>) -> String {
        let texts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Argument(name) => present(arguments, name).map(to_text).unwrap_or_default(),
        });
        texts.collect()
    }
}

/// Returns the names of the parameters that a JSON Schema of an object declares.
pub(crate) fn declared(parameters: &Value) -> BTreeSet<&str> {
    let properties = parameters.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(Map::keys).map(String::as_str).collect()
}

/// Returns an argument that is there and not null.
pub(crate) fn present<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    arguments.get(name).filter(|value| !value.is_null())
}

/// Writes a value as it stands in a text: a string without quotes, all else as JSON.
pub(crate) fn to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Collects the texts of a JSON template.
pub(crate) fn json_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| json_texts(item, texts)),
        Value::Object(members) => members.values().for_each(|member| json_texts(member, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Fills in a JSON template; a member or item whose argument is absent is left out.
pub(crate) fn fill_json(template: &Value, arguments: &Map<String, Value>) -> Option<Value> {
    Some(match template {
        Value::String(text) => {
            let template = Template::parse(text);
            match template.whole() {
                Some(name) => arguments.get(name)?.clone(),
                None => Value::String(template.fill_plain(arguments).ok()?),
            }
        }
        Value::Array(items) => items.iter().filter_map(|item| fill_json(item, arguments)).collect(),
        Value::Object(members) => members
            .iter()
            .filter_map(|(name, member)| Some((name.clone(), fill_json(member, arguments)?)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    })
}

/// Percent-encodes all but the characters that mean nothing in any part of a URL.
pub(crate) fn encode(value: &str, encoded: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(digit.into(), 16).unwrap_or('0');
                encoded.push(digit.to_ascii_uppercase());
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_names_in_braces_are_places() {
        let cases: [(&str, &[&str], Result<&str, &str>); 9] = [
            ("", &[], Ok("")),
            ("plain", &[], Ok("plain")),
            ("{a}", &["a"], Ok("1")),
            ("{a}{b-c}/{a}", &["a", "b-c", "a"], Ok("1x y/1")),
            ("{\"k\":{\"v\":\"{a}\"}}", &["a"], Ok("{\"k\":{\"v\":\"1\"}}")),
            ("{ a } {} {a", &[], Ok("{ a } {} {a")),
            ("{{a}}", &["a"], Ok("{1}")),
            ("{list}", &["list"], Ok("[1,\"x\"]")),
            ("{a}{none}{null}", &["a", "none", "null"], Err("none")),
        ];
        let arguments = json!({"a": 1, "b-c": "x y", "list": [1, "x"], "null": null});
        let arguments = arguments.as_object().unwrap();
        for (text, names, filled) in cases {
            let template = Template::parse(text);
            assert_eq!(template.names().collect::<Vec<_>>(), names, "{text}");
            assert_eq!(template.fill_plain(arguments), filled.map(str::to_owned), "{text}");
        }
        assert_eq!(Template::parse("{null}").fill_plain(arguments), Err("null"));
        assert_eq!(
            Template::parse("{a}{none}-{null}{list}").fill_lenient(arguments),
            "1-[1,\"x\"]"
        );
        assert_eq!(Template::parse("{a}").whole(), Some("a"));
        assert_eq!(Template::parse("{a} ").whole(), None);
    }
}
