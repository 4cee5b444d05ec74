//! What one attribute of a span says.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::Name;

/// The value of an attribute: JSON, of which words and names, which most are, take no memory of their
/// own.
#[derive(Clone, Default)]
pub enum Attribute {
    /// Nothing.
    #[default]
    Null,
    /// A word that the program knows.
    Word(&'static str),
    /// A name, shared with whoever else has it.
    Name(Name),
    /// Any other text.
    Text(String),
    /// A number.
    Number(Number),
    /// Anything else. In a box, since it is rare and large.
    Json(Box<Value>),
}

impl Attribute {
    /// Returns the text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Name(name) => Some(name.as_str()),
            Self::Text(text) => Some(text),
            Self::Null | Self::Number(_) | Self::Json(_) => None,
        }
    }

    /// Returns the number, if it is one that is whole and not below 0.
    pub fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    /// Returns the number, if it is a whole one.
    pub fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    /// Returns the list or the object, if it is one.
    pub fn as_nested(&self) -> Option<&Value> {
        let Self::Json(json) = self else { return None };
        Some(&**json).filter(|json| json.is_array() || json.is_object())
    }

    /// Returns it as JSON.
    pub fn into_json(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Word(word) => Value::from(word),
            Self::Name(name) => Value::from(name.as_str()),
            Self::Text(text) => Value::String(text),
            Self::Number(number) => Value::Number(number),
            Self::Json(json) => *json,
        }
    }
}

/// Texts are equal however they are held.
impl PartialEq for Attribute {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Json(one), Self::Json(other)) => one == other,
            (one, other) => one.as_str().is_some() && one.as_str() == other.as_str(),
        }
    }
}

impl From<Value> for Attribute {
    fn from(json: Value) -> Self {
        match json {
            Value::Null => Self::Null,
            Value::String(text) => Self::Text(text),
            Value::Number(number) => Self::Number(number),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Self::Json(Box::new(json)),
        }
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Name> for Attribute {
    fn from(name: Name) -> Self {
        Self::Name(name)
    }
}

/// What is taken as the JSON that it is.
macro_rules! as_json {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Attribute {
            fn from(value: $kind) -> Self {
                Self::from(Value::from(value))
            }
        })*
    };
}

as_json!(bool, u16, u32, u64, usize, i32, i64, f64, Vec<String>);

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Json(json) => write!(f, "{json}"),
            text => write!(f, "{:?}", text.as_str().unwrap_or_default()),
        }
    }
}

impl Serialize for Attribute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Number(number) => number.serialize(serializer),
            Self::Json(json) => json.serialize(serializer),
            text => serializer.serialize_str(text.as_str().unwrap_or_default()),
        }
    }
}

impl<'de> Deserialize<'de> for Attribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_the_json_that_it_says_however_it_is_held() {
        let name = || Name::new("x").unwrap();
        let cases = [
            (Attribute::Null, json!(null)),
            (Attribute::Word("x"), json!("x")),
            (Attribute::Name(name()), json!("x")),
            (Attribute::from("x"), json!("x")),
            (Attribute::from(7_u64), json!(7)),
            (Attribute::from(-7), json!(-7)),
            (Attribute::from(0.5), json!(0.5)),
            (Attribute::from(true), json!(true)),
            (Attribute::from(vec!["x".to_owned()]), json!(["x"])),
            (Attribute::from(json!({"a": 1})), json!({"a": 1})),
        ];
        for (attribute, json) in &cases {
            assert_eq!(attribute, &Attribute::from(json.clone()));
            assert_eq!(serde_json::to_value(attribute).unwrap(), *json, "{attribute:?}");
            assert_eq!(attribute.clone().into_json(), *json, "{attribute:?}");
            assert_eq!(&serde_json::from_value::<Attribute>(json.clone()).unwrap(), attribute);
            assert_eq!(attribute.as_str(), json.as_str(), "{attribute:?}");
            let numbers = (attribute.as_u64(), attribute.as_i64());
            assert_eq!(numbers, (json.as_u64(), json.as_i64()), "{attribute:?}");
            let nested = Some(json).filter(|json| json.is_array() || json.is_object());
            assert_eq!(attribute.as_nested(), nested, "{attribute:?}");
            assert_eq!(format!("{attribute:?}"), json.to_string());
            for (other, its) in &cases {
                assert_eq!(attribute == other, json == its, "{attribute:?} {other:?}");
            }
        }
    }
}
