//! Forms that people fill in: the fields of one, and what a person's answer to it comes to.
//!
//! A form is a JSON Schema of an object whose fields are texts, numbers, truth values and choices.

use jsonschema::ValidationError;
use serde_json::{Map, Value};
use wire::Said;
use wire::run::{AnswerAction, AnswerRequest};

use crate::validate::{FAULTS_MAX, faults};

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it is called for people; the name if the form does not say.
    pub title: String,
    /// What it is for; may be empty.
    pub description: String,
    /// Whether it has to be filled in.
    pub required: bool,
    /// What it is if nothing is filled in.
    pub default: Option<Value>,
    /// What can be filled in.
    pub kind: FieldKind,
    /// Its whole schema.
    schema: Value,
}

/// What can be filled in to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// A whole number.
    Whole,
    /// Yes or no.
    Truth,
    /// One of some values, each with its title.
    Choice(Vec<(String, String)>),
    /// Several of them.
    Choices(Vec<(String, String)>),
}

/// Returns the fields of a form, those that are needed first.
pub fn fields(form: &Value) -> Vec<Field> {
    let required = form.get("required").and_then(Value::as_array);
    let needs = |name: &str| {
        required.is_some_and(|names| names.iter().any(|needed| needed.as_str() == Some(name)))
    };
    let text = |schema: &Value, key: &str| {
        schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let properties = form.get("properties").and_then(Value::as_object);
    let mut fields: Vec<Field> = properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            let title = text(schema, "title");
            Field {
                name: name.clone(),
                title: if title.is_empty() { name.clone() } else { title },
                description: text(schema, "description"),
                required: needs(name),
                default: schema.get("default").cloned(),
                kind: kind(schema),
                schema: schema.clone(),
            }
        })
        .collect();
    fields.sort_by_key(|field| !field.required);
    fields
}

fn kind(schema: &Value) -> FieldKind {
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => FieldKind::Truth,
        Some("integer") => FieldKind::Whole,
        Some("number") => FieldKind::Number,
        Some("array") => FieldKind::Choices(schema.get("items").map(choices).unwrap_or_default()),
        Some(_) | None => match choices(schema) {
            choices if choices.is_empty() => FieldKind::Text,
            choices => FieldKind::Choice(choices),
        },
    }
}

/// Returns the values that a schema allows, with their titles.
fn choices(schema: &Value) -> Vec<(String, String)> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let titled = list("oneOf").chain(list("anyOf")).filter_map(|choice| {
        let value = choice.get("const").and_then(text)?;
        let title = choice.get("title").and_then(text).unwrap_or_else(|| value.clone());
        Some((value, title))
    });
    let mut names = list("enumNames").filter_map(text);
    let plain = list("enum").filter_map(text).map(|value| {
        let title = names.next().unwrap_or_else(|| value.clone());
        (value, title)
    });
    plain.chain(titled).collect()
}

impl Field {
    /// Says in a few words what can be filled in.
    pub fn hint(&self) -> String {
        let kind = match &self.kind {
            FieldKind::Text => "text".to_owned(),
            FieldKind::Number => "number".to_owned(),
            FieldKind::Whole => "whole number".to_owned(),
            FieldKind::Truth => "yes or no".to_owned(),
            FieldKind::Choice(choices) => format!("one of {}", listed(choices)),
            FieldKind::Choices(choices) => {
                format!("some of {}, with commas between them", listed(choices))
            }
        };
        let bounds = [
            ("format", ""),
            ("minimum", "from "),
            ("maximum", "to "),
            ("minLength", "letters from "),
            ("maxLength", "letters to "),
        ];
        let bounds = bounds.iter().filter_map(|(key, word)| match self.schema.get(*key)? {
            Value::String(text) => Some(format!(", {word}{text}")),
            value @ Value::Number(_) => Some(format!(", {word}{value}")),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        });
        kind + &bounds.collect::<String>()
    }

    /// Reads what a person wrote into the field.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let value = match &self.kind {
            FieldKind::Text => Ok(Value::from(text)),
            FieldKind::Whole => text.parse::<i64>().map(Value::from).map_err(|_| ()),
            FieldKind::Number => {
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                number.map(Value::from).ok_or(())
            }
            FieldKind::Truth => truth(text).map(Value::from).ok_or(()),
            FieldKind::Choice(choices) => chosen(choices, text).ok_or(()),
            FieldKind::Choices(choices) => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                let values: Option<Vec<Value>> = words.map(|word| chosen(choices, word)).collect();
                values.map(Value::from).ok_or(())
            }
        };
        let value = value.map_err(|()| format!("{}: {}", self.name, self.hint()))?;
        let found = faults_in(&self.schema, &value)?;
        if found.is_empty() {
            Ok(value)
        } else {
            Err(format!("{}: {}", self.name, found.join("; ")))
        }
    }
}

fn listed(choices: &[(String, String)]) -> String {
    let listed: Vec<String> = choices
        .iter()
        .map(
            |(value, title)| {
                if value == title { value.clone() } else { format!("{value} ({title})") }
            },
        )
        .collect();
    listed.join(", ")
}

fn chosen(choices: &[(String, String)], text: &str) -> Option<Value> {
    let by = |is: &dyn Fn(&(String, String)) -> bool| choices.iter().find(|choice| is(choice));
    let exact = by(&|(value, _)| value == text);
    let alike = || {
        by(&|(value, title)| value.eq_ignore_ascii_case(text) || title.eq_ignore_ascii_case(text))
    };
    exact.or_else(alike).map(|(value, _)| Value::from(value.as_str()))
}

fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => Some(true),
        "n" | "no" | "false" => Some(false),
        _ => None,
    }
}

/// Returns what a person says to a question with a form, or all that is wrong with it.
pub fn said(form: &Value, request: &AnswerRequest) -> Result<Said, String> {
    let content = match (request.action, &request.text, &request.content) {
        (AnswerAction::Decline, None, None) => return Ok(Said::Decline),
        (AnswerAction::Cancel, None, None) => return Ok(Said::Cancel),
        (AnswerAction::Decline | AnswerAction::Cancel, _, _) => {
            return Err("who does not answer says neither `text` nor `content`".to_owned());
        }
        (AnswerAction::Accept, None, Some(content)) => content.clone(),
        (AnswerAction::Accept, Some(text), None) => of_text(form, text)?,
        (AnswerAction::Accept, None, None) => {
            return Err(format!("`content` is missing: {}", outline(form)));
        }
        (AnswerAction::Accept, Some(_), Some(_)) => {
            return Err("an answer is `text` or `content`, not both".to_owned());
        }
    };
    let faults = check(form, &content)?;
    if faults.is_empty() { Ok(Said::Accept { content }) } else { Err(faults.join("; ")) }
}

/// Lists what is wrong with a form as it was filled in.
fn check(form: &Value, content: &Value) -> Result<Vec<String>, String> {
    let known = fields(form);
    let is_known = |name: &String| known.iter().any(|field| field.name == *name);
    let filled = content.as_object().into_iter().flatten();
    let strange: Vec<String> = filled
        .filter(|(name, _)| !is_known(name))
        .map(|(name, _)| format!("there is no field {name:?}; {}", outline(form)))
        .collect();
    Ok([faults_in(form, content)?, strange].concat())
}

/// Lists what is wrong with a value, at most [`FAULTS_MAX`] faults and that there are more.
fn faults_in(schema: &Value, value: &Value) -> Result<Vec<String>, String> {
    let unusable = |error: ValidationError<'_>| format!("the form cannot be used: {error}");
    let mut found = faults(&jsonschema::draft202012::new(schema).map_err(unusable)?, value);
    // There formats are remarks; in draft 7 they bind.
    let formats = jsonschema::draft7::new(&formats(schema)).map_err(unusable)?;
    let room = FAULTS_MAX.saturating_sub(found.len());
    found.extend(faults(&formats, value).into_iter().take(room));
    Ok(found)
}

/// Returns what a schema says of formats: its own, and those of its fields and its items.
fn formats(schema: &Value) -> Value {
    let mut found = Map::new();
    if let Some(format @ Value::String(_)) = schema.get("format") {
        found.insert("format".to_owned(), format.clone());
    }
    if let Some(items) = schema.get("items") {
        found.insert("items".to_owned(), formats(items));
    }
    if let Some(Value::Object(fields)) = schema.get("properties") {
        let fields = fields.iter().map(|(name, schema)| (name.clone(), formats(schema)));
        found.insert("properties".to_owned(), fields.collect::<Map<_, _>>().into());
    }
    found.into()
}

/// Reads an answer in words: the form as JSON, or the value of its only field.
fn of_text(form: &Value, text: &str) -> Result<Value, String> {
    if let Ok(content @ Value::Object(_)) = serde_json::from_str(text) {
        return Ok(content);
    }
    let known = fields(form);
    let mut needed = known.iter().filter(|field| field.required);
    let only = match (known.as_slice(), needed.next(), needed.next()) {
        ([], _, _) => {
            return match truth(text.trim()) {
                Some(true) => Ok(Value::Object(Map::new())),
                Some(false) | None => Err("say yes, or decline".to_owned()),
            };
        }
        ([only], _, _) | (_, Some(only), None) => only,
        _ => return Err(format!("several things are asked for; {}", outline(form))),
    };
    Ok(Value::Object(Map::from_iter([(only.name.clone(), only.read(text)?)])))
}

/// Says which fields there are.
fn outline(form: &Value) -> String {
    let fields: Vec<String> = fields(form)
        .iter()
        .map(|field| {
            let needed = if field.required { ", needed" } else { "" };
            format!("{:?} ({}{needed})", field.name, field.hint())
        })
        .collect();
    match fields.as_slice() {
        [] => "the form has no fields".to_owned(),
        fields => format!("the fields are {}", fields.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> Value {
        json!({
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 100},
                "mail": {"type": "string", "format": "email"},
                "sure": {"type": "boolean", "default": false},
                "hero": {"type": "string", "oneOf": [
                    {"const": "h1", "title": "Superman"}, {"const": "h2", "title": "Wonder Woman"}]},
                "pet": {"type": "string", "enum": ["p1", "p2"], "enumNames": ["Cats", "Dogs"]},
                "fish": {"type": "array", "maxItems": 2, "items": {"anyOf": [
                    {"const": "f1", "title": "Tuna"}, {"const": "f2", "title": "Trout"},
                    {"const": "f3", "title": "Salmon"}]}},
            },
            "required": ["size"],
        })
    }

    fn accept(content: Value) -> AnswerRequest {
        AnswerRequest { content: Some(content), ..AnswerRequest::default() }
    }

    fn text(text: &str) -> AnswerRequest {
        AnswerRequest { text: Some(text.to_owned()), ..AnswerRequest::default() }
    }

    fn action(action: AnswerAction) -> AnswerRequest {
        AnswerRequest { action, ..AnswerRequest::default() }
    }

    #[test]
    fn an_answer_fits_its_form_or_says_why_not() {
        let accepted = |content: Value| Ok(Said::Accept { content });
        let refused = |text: &'static str| Err(text);
        let both = AnswerRequest { text: Some("7".to_owned()), ..accept(json!({"size": 7})) };
        let declined = AnswerRequest { action: AnswerAction::Decline, ..text("no") };
        let cases: Vec<(AnswerRequest, Result<Said, &str>)> = vec![
            (accept(json!({"size": 7})), accepted(json!({"size": 7}))),
            (accept(json!({"size": 0})), refused("/size: ")),
            (accept(json!({"size": 101})), refused("/size: ")),
            (accept(json!({"size": "7"})), refused("/size: ")),
            (accept(json!({})), refused("\"size\" is a required property")),
            (accept(json!([7])), refused("object")),
            (accept(json!({"size": 7, "colour": "red"})), refused("there is no field \"colour\"")),
            (accept(json!({"size": 7, "mail": "nobody"})), refused("/mail: ")),
            (
                accept(json!({"size": 7, "mail": "a@example.org", "hero": "h2", "fish": ["f1"]})),
                accepted(json!({"size": 7, "mail": "a@example.org", "hero": "h2", "fish": ["f1"]})),
            ),
            (accept(json!({"size": 7, "hero": "h3"})), refused("/hero: ")),
            (accept(json!({"size": 7, "fish": ["f1", "f2", "f3"]})), refused("/fish: ")),
            (text("{\"size\": 9}"), accepted(json!({"size": 9}))),
            (text(" 9 "), accepted(json!({"size": 9}))),
            (text("nine"), refused("size: whole number, from 1, to 100")),
            (text("900"), refused("size: ")),
            (
                action(AnswerAction::Accept),
                refused("the fields are \"size\" (whole number, from 1"),
            ),
            (action(AnswerAction::Decline), Ok(Said::Decline)),
            (action(AnswerAction::Cancel), Ok(Said::Cancel)),
            (both, refused("not both")),
            (declined, refused("neither")),
        ];
        for (request, expected) in cases {
            match (said(&form(), &request), expected) {
                (Ok(said), Ok(expected)) => assert_eq!(said, expected, "{request:?}"),
                (Err(text), Err(part)) => assert!(text.contains(part), "{text} for {request:?}"),
                (found, expected) => panic!("{request:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn formats_bind() {
        let mails: Map<String, Value> =
            (0..99).map(|n| (format!("m{n}"), json!({"format": "email"}))).collect();
        let nobodies: Map<String, Value> =
            (0..99).map(|n| (format!("m{n}"), json!("nobody"))).collect();
        let cases = [
            (json!({"mail": {"format": "email"}}), json!({"mail": "nobody"}), vec!["/mail: "]),
            (json!({"mail": {"format": "email"}}), json!({"mail": "a@example.org"}), vec![]),
            (
                json!({"days": {"type": "array", "items": {"format": "date"}}}),
                json!({"days": ["2026-01-31", "soon"]}),
                vec!["/days/1: "],
            ),
            (
                json!({"at": {"format": "date-time"}, "size": {"type": "integer"}}),
                json!({"at": "soon", "size": "large"}),
                vec!["/size: ", "/at: "],
            ),
            (mails.into(), nobodies.into(), vec!["/m"; FAULTS_MAX]),
        ];
        for (fields, value, expected) in cases {
            for draft in ["https://json-schema.org/draft/2020-12/schema", "draft-07"] {
                let form = json!({"$schema": draft, "type": "object", "properties": fields});
                let found = faults_in(&form, &value).unwrap();
                assert_eq!(found.len(), expected.len(), "{found:?}");
                for (fault, begins) in found.iter().zip(&expected) {
                    assert!(fault.starts_with(begins), "{fault}");
                }
            }
        }
    }

    #[test]
    fn a_form_without_a_field_is_agreed_to() {
        let form = json!({"type": "object", "properties": {}});
        assert_eq!(said(&form, &text("yes")), Ok(Said::Accept { content: json!({}) }));
        assert_eq!(said(&form, &accept(json!({}))), Ok(Said::Accept { content: json!({}) }));
        assert!(said(&form, &text("no")).is_err());
        assert!(said(&form, &text("maybe")).is_err());
    }

    #[test]
    fn a_field_reads_what_people_write() {
        let fields = fields(&form());
        assert_eq!(fields[0].name, "size", "what is needed comes first");
        let field = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        let cases = [
            ("sure", "Yes", Ok(json!(true))),
            ("sure", "n", Ok(json!(false))),
            ("sure", "perhaps", Err("sure: yes or no")),
            ("hero", "h1", Ok(json!("h1"))),
            ("hero", "wonder woman", Ok(json!("h2"))),
            ("hero", "Batman", Err("hero: one of h1 (Superman), h2 (Wonder Woman)")),
            ("pet", "dogs", Ok(json!("p2"))),
            ("fish", "Tuna, f3", Ok(json!(["f1", "f3"]))),
            ("fish", "Tuna, Trout, Salmon", Err("fish: ")),
            ("fish", "Tuna, Shark", Err("fish: some of f1 (Tuna)")),
            ("mail", "a@example.org", Ok(json!("a@example.org"))),
            ("mail", "nobody", Err("mail: ")),
        ];
        for (name, text, expected) in cases {
            match (field(name).read(text), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value, expected, "{name} {text}"),
                (Err(found), Err(part)) => assert!(found.contains(part), "{found}"),
                (found, expected) => panic!("{name} {text}: {found:?}, not {expected:?}"),
            }
        }
        assert_eq!(field("sure").default, Some(json!(false)));
    }
}
