//! Fills in the values of headers and query parameters.

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use wire::CallOutcome;

use super::{FieldSource, QueryField, QueryStyle};
use crate::argument::invalid;
use crate::secret::SecretRef;
use crate::template::{Template, present, to_text};

/// The value of a header or a query parameter, taken apart.
#[derive(Debug)]
pub(super) enum Field {
    Template(Template),
    Secret { prefix: String, secret: SecretRef },
}

impl Field {
    pub(super) fn new(source: &FieldSource) -> Self {
        match source {
            FieldSource::Template(text) => Self::Template(Template::parse(text)),
            FieldSource::Secret { prefix, secret } => {
                Self::Secret { prefix: prefix.clone(), secret: secret.clone() }
            }
        }
    }

    /// Returns the value, or nothing if an argument of it is absent. A secret is noted.
    pub(super) fn fill(
        &self,
        arguments: &Map<String, Value>,
    ) -> Result<Option<SecretString>, CallOutcome> {
        match self {
            Self::Template(template) => Ok(template.fill_plain(arguments).ok().map(Into::into)),
            Self::Secret { prefix, secret } => {
                let secret = secret.resolve().map_err(|error| CallOutcome::Error { error })?;
                let text = format!("{prefix}{}", secret.expose_secret());
                Ok(Some(text.into()))
            }
        }
    }
}

/// A query parameter, taken apart.
#[derive(Debug)]
pub(super) struct QueryPart {
    name: String,
    field: Field,
    style: QueryStyle,
}

impl QueryPart {
    pub(super) fn new(field: &QueryField) -> Self {
        Self { name: field.name.clone(), field: Field::new(&field.source), style: field.style }
    }

    /// Returns its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its name if its value is a secret.
    pub(super) fn secret(&self) -> Option<&str> {
        matches!(self.field, Field::Secret { .. }).then_some(self.name.as_str())
    }

    /// Adds the parameter to the query of an address, in which `others` stand too: a member of an
    /// object that would be taken for one of them is refused.
    pub(super) fn append<'n>(
        &self,
        url: &mut Url,
        arguments: &Map<String, Value>,
        others: impl Iterator<Item = &'n str>,
    ) -> Result<(), CallOutcome> {
        let name = self.name.as_str();
        let whole = match &self.field {
            Field::Template(template) => template.whole().and_then(|name| arguments.get(name)),
            Field::Secret { .. } => None,
        };
        let nested = whole.filter(|value| value.is_array() || value.is_object());
        let pairs = if let Some(value) = nested {
            pairs(name, value, self.style)
        } else {
            let value = self.field.fill(arguments)?;
            let pair = value.map(|value| (name.to_owned(), value.expose_secret().to_owned()));
            pair.into_iter().collect()
        };
        if whole.is_some_and(Value::is_object) {
            refuse_names(&pairs, name, others)?;
        }
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        Ok(())
    }
}

/// Writes a value as parameters of the query or fields of a form.
pub(super) fn pairs(name: &str, value: &Value, style: QueryStyle) -> Vec<(String, String)> {
    let one = |text: String| vec![(name.to_owned(), text)];
    match (style, value) {
        (QueryStyle::Repeated | QueryStyle::Spread, Value::Array(items)) => {
            items.iter().map(|item| (name.to_owned(), to_text(item))).collect()
        }
        (QueryStyle::Spread, Value::Object(members)) => {
            members.iter().map(|(key, value)| (key.clone(), to_text(value))).collect()
        }
        (QueryStyle::Deep, value) => {
            let mut pairs = Vec::new();
            deep(name.to_owned(), value, &mut pairs);
            pairs
        }
        (QueryStyle::Joined(between), value) => {
            one(joined(value, between).unwrap_or_else(|| to_text(value)))
        }
        (QueryStyle::Repeated | QueryStyle::Spread | QueryStyle::Json, value) => {
            one(to_text(value))
        }
    }
}

/// Writes what is in a value under names such as `name[member]`; what is null is left out.
fn deep(name: String, value: &Value, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => {
            let is_plain = !items.iter().any(|item| item.is_array() || item.is_object());
            for (number, item) in items.iter().enumerate() {
                let place = if is_plain { String::new() } else { number.to_string() };
                deep(format!("{name}[{place}]"), item, pairs);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                deep(format!("{name}[{key}]"), value, pairs);
            }
        }
        Value::Null => {}
        value => pairs.push((name, to_text(value))),
    }
}

/// Writes a list or an object as one text.
pub(super) fn joined(value: &Value, between: char) -> Option<String> {
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(to_text).collect(),
        Value::Object(members) => {
            members.iter().flat_map(|(key, value)| [key.clone(), to_text(value)]).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    };
    Some(parts.join(&between.to_string()))
}

/// Refuses parameters that members of an object became and that servers may take for another one,
/// be it as an item of a list or in other letters.
pub(super) fn refuse_names<'n>(
    pairs: &[(String, String)],
    own: &str,
    mut others: impl Iterator<Item = &'n str>,
) -> Result<(), CallOutcome> {
    let is_same = |one: &str, other: &str| one.trim().eq_ignore_ascii_case(other.trim());
    let taken = others.find_map(|other| {
        let is_taken = |name: &str| {
            is_same(name, other)
                || (is_same(front(name), front(other)) && !is_same(front(name), own))
        };
        pairs.iter().find(|(name, _)| is_taken(name))
    });
    match taken {
        Some((name, _)) => Err(invalid(format!(
            "a member of the parameter {own:?} is named {name:?}, which is another parameter of the \
             request; leave it out"
        ))),
        None => Ok(()),
    }
}

/// Returns what stands before the brackets of a name such as `list[]`.
fn front(name: &str) -> &str {
    name.split_once('[').map_or(name, |(front, _)| front)
}

/// Refuses arguments that would end the value of a cookie, or cannot stand in it.
pub(super) fn check_cookie(
    template: &Template,
    arguments: &Map<String, Value>,
) -> Result<(), CallOutcome> {
    // Where one argument is the whole header, it is all cookies and not the value of one.
    if template.whole().is_some() {
        return Ok(());
    }
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\');
    for name in template.names() {
        let text = present(arguments, name).map(to_text).unwrap_or_default();
        if let Some(bad) = text.chars().find(|c| !fits(*c)) {
            return Err(invalid(format!(
                "argument {name:?} contains {bad:?}, which cannot stand in the value of a cookie; \
                 percent-encode it if the server reads that"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::Request;
    use reqwest::header::COOKIE;
    use serde_json::json;

    use super::*;
    use crate::http::HttpSpec;
    use crate::http::request::Blueprint;

    fn prepare(spec: &HttpSpec, arguments: &Value) -> Result<Request, String> {
        let context = crate::testing::context(Duration::from_secs(1));
        let prepared =
            Blueprint::new(spec).unwrap().prepare(&context, arguments.as_object().unwrap());
        prepared.map_err(|outcome| outcome.to_text())
    }

    fn text(text: &str) -> FieldSource {
        FieldSource::Template(text.to_owned())
    }

    #[test]
    fn a_member_of_an_object_takes_no_other_parameters_place() {
        let field = |name: &str, source: &str, style| QueryField {
            name: name.to_owned(),
            source: text(source),
            style,
        };
        let spec = HttpSpec {
            query: vec![
                field("tenant", "mine", QueryStyle::Repeated),
                field("filter[owner]", "me", QueryStyle::Repeated),
                field("range", "{range}", QueryStyle::Spread),
                field("filter", "{filter}", QueryStyle::Deep),
                field("later", "x", QueryStyle::Repeated),
            ],
            ..HttpSpec::new("GET", "http://h/?fixed=1", 1000)
        };
        for (argument, key, is_refused) in [
            ("range", "from", false),
            ("range", "range", false),
            ("range", "range[]", false),
            ("range", "tenants", false),
            ("range", "tenant", true),
            ("range", "Tenant", true),
            ("range", " tenant", true),
            ("range", "tenant[]", true),
            ("range", "tenant[0]", true),
            ("range", "filter", true),
            ("range", "filter[owner]", true),
            ("range", "later", true),
            ("range", "fixed", true),
            ("filter", "tenant", false),
            ("filter", "color", false),
            ("filter", "owner", true),
        ] {
            let found = prepare(&spec, &json!({argument: {key: "theirs"}}));
            match found {
                Ok(request) => {
                    assert!(!is_refused, "{argument} {key}");
                    let url = request.url().as_str();
                    assert!(url.contains("tenant=mine") && url.contains("=theirs"), "{url}");
                }
                Err(error) => {
                    assert!(is_refused, "{argument} {key}: {error}");
                    assert!(error.contains("another parameter of the request"), "{error}");
                }
            }
        }
    }

    #[test]
    fn lists_and_objects_are_written_in_the_style_that_is_wanted() {
        let (list, object) = (json!(["x", 1]), json!({"city": "Graz", "zip": null}));
        let nested = json!({"items": [{"a": [1, 2]}, {"b": {"c": "d"}}], "none": []});
        for (style, value, expected) in [
            (QueryStyle::Repeated, &list, "n=x n=1"),
            (QueryStyle::Repeated, &object, r#"n={"city":"Graz","zip":null}"#),
            (QueryStyle::Spread, &list, "n=x n=1"),
            (QueryStyle::Spread, &object, "city=Graz zip=null"),
            (QueryStyle::Deep, &list, "n[]=x n[]=1"),
            (QueryStyle::Deep, &object, "n[city]=Graz"),
            (
                QueryStyle::Deep,
                &nested,
                "n[items][0][a][]=1 n[items][0][a][]=2 n[items][1][b][c]=d",
            ),
            (QueryStyle::Deep, &json!(true), "n=true"),
            (QueryStyle::Joined('|'), &list, "n=x|1"),
            (QueryStyle::Joined(','), &object, "n=city,Graz,zip,null"),
            (QueryStyle::Joined(','), &json!("a"), "n=a"),
            (QueryStyle::Json, &list, r#"n=["x",1]"#),
            (QueryStyle::Json, &json!("a"), "n=a"),
        ] {
            let found = pairs("n", value, style);
            let found: Vec<String> = found.into_iter().map(|(n, v)| format!("{n}={v}")).collect();
            assert_eq!(found.join(" "), expected, "{style:?} {value}");
        }
    }

    #[test]
    fn an_argument_stays_in_its_cookie() {
        let parts = "lang={lang}; seen={seen}";
        for (template, seen, expected) in [
            (parts, json!("a-1=2"), Some("lang=de; seen=a-1=2")),
            (parts, json!(7), Some("lang=de; seen=7")),
            (parts, json!("1; admin=1"), None),
            (parts, json!("a b"), None),
            (parts, json!("a,b"), None),
            (parts, json!("\"a\""), None),
            (parts, json!("a\\b"), None),
            (parts, json!("a\tb"), None),
            (parts, json!("ä"), None),
            (parts, json!(["a"]), None),
            (parts, json!("a%3Bb"), Some("lang=de; seen=a%3Bb")),
            ("{seen}", json!("a=1; b=2"), Some("a=1; b=2")),
        ] {
            let headers = vec![("cookie".to_owned(), text(template))];
            let spec = HttpSpec { headers, ..HttpSpec::new("GET", "http://h/", 1000) };
            match (prepare(&spec, &json!({"lang": "de", "seen": seen})), expected) {
                (Ok(request), Some(expected)) => assert_eq!(request.headers()[COOKIE], expected),
                (Err(error), None) => assert!(error.contains("value of a cookie"), "{error}"),
                (found, _) => panic!("{template} {seen}: {found:?}"),
            }
        }
    }
}
