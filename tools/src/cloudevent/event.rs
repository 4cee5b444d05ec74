//! Events of CloudEvents 1.0, as they stand in messages of HTTP and NATS.
//!
//! The kept SDK binds to older releases of the clients that are used here, and would bring each of
//! them a second time; the form itself is small.

use std::collections::BTreeMap;
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::json;
use crate::output::{essence, is_json};

/// The version of the specification.
const VERSION: &str = "1.0";

/// The media type of an event as one JSON object.
const STRUCTURED: &str = "application/cloudevents+json";

/// What the media types of events begin with, in any form.
const EVENTS: &str = "application/cloudevents";

/// What the names of headers begin with that hold attributes.
const PREFIX: &str = "ce-";

/// The header of the media type; NATS compares names exactly, HTTP does not care.
const CONTENT_TYPE: &str = "Content-Type";

/// Attributes of one event; no sender needs as many.
const ATTRIBUTES_MAX: usize = 64;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudEvent {
    /// Names it among the events of its source.
    pub id: String,
    /// Where it comes from, a URI reference.
    pub source: String,
    /// What happened; the attribute `type`.
    pub kind: String,
    /// The media type of the data.
    pub data_content_type: Option<String>,
    /// The other attributes by name, such as `time` and extensions.
    pub attributes: BTreeMap<String, String>,
    /// The data.
    pub data: Vec<u8>,
}

/// Where the attributes of an event stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In headers, and the data is the body.
    Binary,
    /// Beside the data in one JSON object.
    Structured,
}

/// Headers and body of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl CloudEvent {
    /// Returns an attribute that is no part of every event, if it has it.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    /// Tells whether the data is of a media type, whatever its parameters.
    pub fn is_of(&self, media_type: &str) -> bool {
        self.data_content_type.as_deref().is_some_and(|full| essence(full) == media_type)
    }

    /// Tells whether the data is JSON; without a media type it is.
    pub fn is_json(&self) -> bool {
        self.data_content_type.as_deref().is_none_or(is_json)
    }

    /// Writes the event as a message.
    pub fn write(&self, mode: Mode) -> Written {
        match mode {
            Mode::Binary => {
                let mut headers: Vec<(String, String)> = self
                    .fields()
                    .map(|(name, value)| (format!("{PREFIX}{name}"), escaped(value)))
                    .collect();
                if let Some(media_type) = &self.data_content_type {
                    headers.push((CONTENT_TYPE.to_owned(), media_type.clone()));
                }
                Written { headers, body: self.data.clone() }
            }
            Mode::Structured => {
                let mut fields: Map<String, Value> =
                    self.fields().map(|(name, value)| (name.to_owned(), json!(value))).collect();
                if let Some(media_type) = &self.data_content_type {
                    fields.insert("datacontenttype".to_owned(), json!(media_type));
                }
                if !self.data.is_empty() {
                    let (name, data) = self.data_member();
                    fields.insert(name.to_owned(), data);
                }
                let media_type = format!("{STRUCTURED}; charset=utf-8");
                let headers = vec![(CONTENT_TYPE.to_owned(), media_type)];
                Written { headers, body: Value::Object(fields).to_string().into_bytes() }
            }
        }
    }

    fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let fixed = [
            ("specversion", VERSION),
            ("id", self.id.as_str()),
            ("source", self.source.as_str()),
            ("type", self.kind.as_str()),
        ];
        let others = self.attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        fixed.into_iter().chain(others)
    }

    /// Returns the member of the JSON object that holds the data.
    fn data_member(&self) -> (&'static str, Value) {
        if self.is_json()
            && let Ok(value) = serde_json::from_slice(&self.data)
        {
            return ("data", value);
        }
        match std::str::from_utf8(&self.data) {
            // A text under a media type of JSON would be read as JSON.
            Ok(text) if !self.is_json() => ("data", json!(text)),
            Ok(_) | Err(_) => ("data_base64", json!(STANDARD.encode(&self.data))),
        }
    }

    /// Reads the event in a message, of either mode; nothing if the message is no event.
    ///
    /// The error says what is wrong with an event.
    pub fn read<'h>(
        headers: impl Iterator<Item = (&'h str, impl AsRef<str>)>,
        body: &[u8],
    ) -> Result<Option<Self>, String> {
        match form(headers)? {
            Form::Other => Ok(None),
            Form::Structured => Self::read_structured(body).map(Some),
            Form::Binary { fields, media_type } => {
                Self::of_fields(fields, media_type, body.to_vec()).map(Some)
            }
        }
    }

    /// Reads as [`read`](Self::read) does, and takes the body where it is the data.
    pub(crate) fn take<'h>(
        headers: impl Iterator<Item = (&'h str, impl AsRef<str>)>,
        body: &mut Vec<u8>,
    ) -> Result<Option<Self>, String> {
        match form(headers)? {
            Form::Other => Ok(None),
            Form::Structured => Self::read_structured(body).map(Some),
            Form::Binary { fields, media_type } => {
                Self::of_fields(fields, media_type, std::mem::take(body)).map(Some)
            }
        }
    }

    fn read_structured(body: &[u8]) -> Result<Self, String> {
        let no_object = |error: &dyn Display| format!("no JSON object: {error}");
        let text = str::from_utf8(body).map_err(|error| no_object(&error))?;
        let fields: Map<String, Value> =
            json::read(text).and_then(serde_json::from_value).map_err(|error| no_object(&error))?;
        let mut texts = BTreeMap::new();
        let (mut data, mut encoded) = (None, None);
        for (name, value) in fields {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("data", value) => data = Some(value),
                ("data_base64", value) => encoded = Some(value),
                (_, Value::String(text)) if texts.len() < ATTRIBUTES_MAX => {
                    texts.insert(name, text);
                }
                (_, value @ (Value::Bool(_) | Value::Number(_)))
                    if texts.len() < ATTRIBUTES_MAX =>
                {
                    texts.insert(name, value.to_string());
                }
                (_, Value::Array(_) | Value::Object(_)) => {
                    return Err(format!("attribute {name:?} is no text"));
                }
                (_, Value::String(_) | Value::Bool(_) | Value::Number(_)) => {}
            }
        }
        let media_type = texts.remove("datacontenttype");
        let bytes = match (data, encoded) {
            (Some(_), Some(_)) => return Err("it has both data and data_base64".to_owned()),
            (None, None) => Vec::new(),
            (None, Some(Value::String(text))) => STANDARD
                .decode(text)
                .map_err(|error| format!("data_base64 cannot be decoded: {error}"))?,
            (None, Some(_)) => return Err("data_base64 is no text".to_owned()),
            (Some(Value::String(text)), None) if !media_type.as_deref().is_none_or(is_json) => {
                text.into_bytes()
            }
            (Some(value), None) => value.to_string().into_bytes(),
        };
        Self::of_fields(texts, media_type, bytes)
    }

    fn of_fields(
        mut fields: BTreeMap<String, String>,
        data_content_type: Option<String>,
        data: Vec<u8>,
    ) -> Result<Self, String> {
        let version = fields.remove("specversion").unwrap_or_default();
        if version != VERSION {
            return Err(format!("its specversion is {version:?}, and {VERSION:?} is read"));
        }
        let mut needed = |name: &str| {
            let value = fields.remove(name).filter(|value| !value.is_empty());
            value.ok_or_else(|| format!("it has no attribute {name:?}"))
        };
        let (id, source, kind) = (needed("id")?, needed("source")?, needed("type")?);
        Ok(Self { id, source, kind, data_content_type, attributes: fields, data })
    }
}

/// How an event stands in a message.
enum Form {
    /// It is none.
    Other,
    Structured,
    Binary {
        fields: BTreeMap<String, String>,
        media_type: Option<String>,
    },
}

fn form<'h>(headers: impl Iterator<Item = (&'h str, impl AsRef<str>)>) -> Result<Form, String> {
    let mut media_type = None;
    let mut fields = BTreeMap::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        if name == "content-type" {
            media_type = Some(value.as_ref().to_owned());
        } else if let Some(attribute) = name.strip_prefix(PREFIX)
            && fields.len() < ATTRIBUTES_MAX
        {
            fields.insert(attribute.to_owned(), unescaped(value.as_ref())?);
        }
    }
    let essence = media_type.as_deref().map(essence).unwrap_or_default();
    if essence == STRUCTURED || essence == EVENTS {
        return Ok(Form::Structured);
    }
    if essence.starts_with(EVENTS) {
        return Err(format!("events of media type {essence} are not read, only {STRUCTURED}"));
    }
    if !fields.contains_key("specversion") {
        return Ok(Form::Other);
    }
    fields.remove("datacontenttype").into_iter().for_each(|inner| {
        media_type.get_or_insert(inner);
    });
    Ok(Form::Binary { fields, media_type })
}

/// Writes what may not stand in a header as percent signs and digits.
fn escaped(value: &str) -> String {
    let digit =
        |byte: u8| char::from(b"0123456789ABCDEF".get(usize::from(byte)).copied().unwrap_or(b'0'));
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'%') {
            out.push(char::from(byte));
        } else {
            out.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

fn unescaped(value: &str) -> Result<String, String> {
    let bytes = value.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits
            .filter(|two| *first == b'%' && two.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        if let Some(byte) = byte {
            out.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            out.push(*first);
            rest = after;
        }
    }
    String::from_utf8(out).map_err(|_| format!("the header value {value:?} is no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(media_type: Option<&str>, data: &[u8]) -> CloudEvent {
        CloudEvent {
            id: "a 1%".to_owned(),
            source: "/größe".to_owned(),
            kind: "t.x".to_owned(),
            data_content_type: media_type.map(str::to_owned),
            attributes: BTreeMap::from([("traceparent".to_owned(), "00-1-2-01".to_owned())]),
            data: data.to_vec(),
        }
    }

    fn headers(written: &Written) -> impl Iterator<Item = (&str, &str)> {
        written.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    #[test]
    fn an_event_is_read_as_it_was_written() {
        let events = [
            event(Some("application/json"), b"{\"a\":[1,\"x\"]}"),
            event(Some("application/json; charset=utf-8"), b"7"),
            event(Some("application/vnd.x+json"), b"\"text\""),
            event(Some("text/plain"), "größer".as_bytes()),
            event(Some("application/octet-stream"), &[0, 159, 146, 150]),
            event(Some("application/json"), b"{broken"),
            event(None, b"{}"),
            event(None, b""),
        ];
        for event in events {
            for mode in [Mode::Binary, Mode::Structured] {
                let written = event.write(mode);
                let read = CloudEvent::read(headers(&written), &written.body);
                assert_eq!(read, Ok(Some(event.clone())), "{mode:?}");
            }
        }
    }

    #[test]
    fn binary_mode_puts_attributes_into_headers() {
        let written = event(Some("application/json"), b"{}").write(Mode::Binary);
        let expected = [
            ("ce-specversion", "1.0"),
            ("ce-id", "a%201%25"),
            ("ce-source", "/gr%C3%B6%C3%9Fe"),
            ("ce-type", "t.x"),
            ("ce-traceparent", "00-1-2-01"),
            ("Content-Type", "application/json"),
        ];
        assert_eq!(headers(&written).collect::<Vec<_>>(), expected);
        assert_eq!(written.body, b"{}");
    }

    #[test]
    fn structured_mode_is_one_object() {
        let written = event(Some("application/json"), b"{\"a\":1}").write(Mode::Structured);
        assert_eq!(
            headers(&written).collect::<Vec<_>>(),
            [("Content-Type", "application/cloudevents+json; charset=utf-8")]
        );
        let body: Value = serde_json::from_slice(&written.body).unwrap();
        let expected = json!({"specversion": "1.0", "id": "a 1%", "source": "/größe",
            "type": "t.x", "traceparent": "00-1-2-01", "datacontenttype": "application/json",
            "data": {"a": 1}});
        assert_eq!(body, expected);
    }

    type Pairs<'h> = &'h [(&'h str, &'h str)];

    #[test]
    fn what_is_no_event_and_what_is_a_broken_one() {
        let structured = ("content-type", "application/cloudevents+json");
        let ok = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","#;
        let cases: [(Pairs<'_>, String, Result<bool, &str>); 12] = [
            (&[("content-type", "application/json")], "{}".into(), Ok(false)),
            (&[], String::new(), Ok(false)),
            (&[("ce-id", "1")], String::new(), Ok(false)),
            (
                &[("CE-SpecVersion", "1.0"), ("Ce-Id", "1"), ("ce-source", "/s"), ("CE-TYPE", "t")],
                String::new(),
                Ok(true),
            ),
            (&[("ce-specversion", "0.3")], String::new(), Err("its specversion is \"0.3\"")),
            (&[("ce-specversion", "1.0")], String::new(), Err("it has no attribute \"id\"")),
            (&[structured], "[]".into(), Err("no JSON object")),
            (&[structured], format!("{ok}\"n\":1,\"b\":true}}"), Ok(true)),
            (&[structured], format!("{ok}\"x\":[]}}"), Err("attribute \"x\" is no text")),
            (
                &[structured],
                format!("{ok}\"data\":1,\"data_base64\":\"\"}}"),
                Err("it has both data and data_base64"),
            ),
            (
                &[structured],
                format!("{ok}\"data_base64\":\"?\"}}"),
                Err("data_base64 cannot be decoded"),
            ),
            (
                &[("content-type", "application/cloudevents-batch+json")],
                "[]".into(),
                Err("events of media type application/cloudevents-batch+json are not read"),
            ),
        ];
        for (headers, body, expected) in cases {
            let read = CloudEvent::read(headers.iter().copied(), body.as_bytes());
            match (&read, expected) {
                (Ok(event), Ok(is_event)) => assert_eq!(event.is_some(), is_event, "{body}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                _ => panic!("{headers:?} {body}: {read:?}"),
            }
        }
    }
}
