//! What is known of a span, by name.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

use super::Attribute;

/// The attributes that an ordinary span has, so that its list need not grow.
const ORDINARY: usize = 32;

/// The attributes of a span of which only what is measured is set.
const FEW: usize = 16;

/// Attributes in the order in which they were set; as JSON an object.
///
/// There are few enough to look through, and their names are constants where spans are made.
#[derive(Clone, Default, PartialEq)]
pub struct Attributes(Vec<(Cow<'static, str>, Attribute)>);

impl Attributes {
    /// Makes a list without attributes.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Makes a list for some attributes less than ordinary spans have.
    pub fn few() -> Self {
        Self(Vec::with_capacity(FEW))
    }

    /// Sets an attribute; what it was before is replaced.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Attribute>) {
        let (name, value) = (name.into(), value.into());
        if let Some(known) = self.get_mut(&name) {
            *known = value;
            return;
        }
        if self.0.capacity() == 0 {
            self.0.reserve_exact(ORDINARY);
        }
        self.0.push((name, value));
    }

    /// Returns the value of an attribute.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.iter().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Returns an attribute that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Returns an attribute that is a whole number, not below 0.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Returns the value of an attribute, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Attribute> {
        self.0.iter_mut().find_map(|(known, value)| (known == name).then_some(value))
    }

    /// Tells whether an attribute is set.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Drops the attributes whose names are not wanted.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(&str) -> bool) {
        self.0.retain(|(name, _)| is_wanted(name));
    }

    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<Cow<'static, str>>, V: Into<Attribute>> FromIterator<(N, V)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(attributes: I) -> Self {
        let mut all = Self::new();
        for (name, value) in attributes {
            all.set(name, value);
        }
        all
    }
}

/// The value of an attribute, `null` where it is not set.
impl Index<&str> for Attributes {
    type Output = Attribute;

    fn index(&self, name: &str) -> &Attribute {
        self.get(name).unwrap_or(&Attribute::Null)
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Attributes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Attributes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of attributes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes, A::Error> {
                let mut attributes = Attributes::new();
                while let Some((name, value)) = map.next_entry::<String, Attribute>()? {
                    attributes.set(name, value);
                }
                Ok(attributes)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn attributes_are_an_object_in_the_order_in_which_they_were_set() {
        let mut attributes = Attributes::new();
        assert!(attributes.is_empty());
        for (name, value) in [("b", json!(1)), ("a", json!("x")), ("b", json!([2]))] {
            attributes.set(name, value);
        }
        let text = r#"{"b":[2],"a":"x"}"#;
        assert_eq!(serde_json::to_string(&attributes).unwrap(), text);
        assert_eq!(serde_json::from_str::<Attributes>(text).unwrap(), attributes);
        assert_eq!((attributes.contains("a"), attributes.contains("c")), (true, false));
        assert_eq!((&attributes["b"], &attributes["c"]), (&json!([2]).into(), &Attribute::Null));
        assert_eq!((attributes.text("a"), attributes.text("b")), (Some("x"), None));
        attributes.set("n", 7);
        assert_eq!((attributes.number("n"), attributes.number("a")), (Some(7), None));
        attributes.retain(|name| name == "a");
        assert_eq!(attributes, Attributes::from_iter([("a", "x")]));
        assert!(serde_json::from_str::<Attributes>("[]").is_err());
    }
}
