//! How long a value is as JSON at most, without writing it.

use std::fmt::{self, Display, Write as _};

use serde::Serialize;
use serde::ser::{self, Error as _, Serializer};

/// The most that a byte of a text becomes: `\u001f`.
const ESCAPED_BYTES_MAX: usize = 6;

/// The most that a number takes, such as `-1.7976931348623157e308`, and more than `false` and `null`.
const SCALAR_BYTES_MAX: usize = 24;

/// The most that a number of 128 bits takes.
const LONG_BYTES_MAX: usize = 40;

/// The brackets around a list or a map.
const BRACKETS_BYTES: usize = 2;

/// What stands beside an item: a comma, and in a map a colon.
const BESIDE_BYTES: usize = 1;

/// Returns how many bytes a value has as JSON at most: up to six times as many as it has. It costs
/// a part of what [`measure`](super::measure) does, since no text is looked through.
///
/// # Errors
///
/// Those of [`to_vec`](super::to_vec).
pub fn bound(value: &impl Serialize) -> Result<usize, serde_json::Error> {
    let mut bound = Bound { bytes: 0, is_key: false };
    value.serialize(&mut bound)?;
    Ok(bound.bytes)
}

/// Adds up what is written.
struct Bound {
    bytes: usize,
    /// What came last can be the key of a map.
    is_key: bool,
}

impl Bound {
    fn scalar(&mut self, bytes: usize) {
        // A text stands in quotation marks, and as a key so does everything.
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(2);
        self.is_key = true;
    }

    fn text(&mut self, bytes: usize) {
        self.scalar(bytes.saturating_mul(ESCAPED_BYTES_MAX));
    }

    /// Begins a list or a map, under the name of its variant if it is one.
    fn compound(&mut self, variant: Option<&str>) -> &mut Self {
        let variant = variant
            .map_or(0, |name| name.len() * ESCAPED_BYTES_MAX + 2 + BRACKETS_BYTES + BESIDE_BYTES);
        self.bytes = self.bytes.saturating_add(BRACKETS_BYTES + variant);
        self
    }

    fn item(&mut self, item: &(impl Serialize + ?Sized)) -> Result<(), serde_json::Error> {
        item.serialize(&mut *self)?;
        self.bytes = self.bytes.saturating_add(BESIDE_BYTES);
        Ok(())
    }

    fn field(
        &mut self,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), serde_json::Error> {
        self.item(name)?;
        self.item(value)
    }

    fn end(&mut self) {
        self.is_key = false;
    }
}

macro_rules! scalars {
    ($($method:ident: $kind:ty => $bytes:expr),* $(,)?) => {
        $(fn $method(self, _: $kind) -> Result<(), Self::Error> {
            self.scalar($bytes);
            Ok(())
        })*
    };
}

impl Serializer for &mut Bound {
    type Ok = ();
    type Error = serde_json::Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    scalars! {
        serialize_bool: bool => SCALAR_BYTES_MAX,
        serialize_i8: i8 => SCALAR_BYTES_MAX,
        serialize_i16: i16 => SCALAR_BYTES_MAX,
        serialize_i32: i32 => SCALAR_BYTES_MAX,
        serialize_i64: i64 => SCALAR_BYTES_MAX,
        serialize_i128: i128 => LONG_BYTES_MAX,
        serialize_u8: u8 => SCALAR_BYTES_MAX,
        serialize_u16: u16 => SCALAR_BYTES_MAX,
        serialize_u32: u32 => SCALAR_BYTES_MAX,
        serialize_u64: u64 => SCALAR_BYTES_MAX,
        serialize_u128: u128 => LONG_BYTES_MAX,
        serialize_f32: f32 => SCALAR_BYTES_MAX,
        serialize_f64: f64 => SCALAR_BYTES_MAX,
        serialize_char: char => SCALAR_BYTES_MAX,
    }

    fn serialize_str(self, text: &str) -> Result<(), Self::Error> {
        self.text(text.len());
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, text: &T) -> Result<(), Self::Error> {
        struct Counted(usize);
        impl fmt::Write for Counted {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 += text.len();
                Ok(())
            }
        }
        let mut counted = Counted(0);
        write!(counted, "{text}").map_err(Self::Error::custom)?;
        self.text(counted.0);
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.compound(None).bytes += bytes.len() * ("255".len() + BESIDE_BYTES);
        self.end();
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Self::Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Self::Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Self::Error> {
        self.scalar(SCALAR_BYTES_MAX);
        self.end();
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Self::Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), Self::Error> {
        self.text(variant.len());
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Self::Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Self::Error> {
        self.compound(Some(variant)).item(value)?;
        self.end();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Self::Error> {
        Ok(self.compound(None))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Self::Error> {
        Ok(self.compound(None))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Self::Error> {
        Ok(self.compound(None))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Self::Error> {
        Ok(self.compound(Some(variant)))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Self::Error> {
        Ok(self.compound(None))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Self::Error> {
        Ok(self.compound(None))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self, Self::Error> {
        Ok(self.compound(Some(variant)))
    }
}

macro_rules! lists {
    ($($list:ident::$method:ident),* $(,)?) => {
        $(impl ser::$list for &mut Bound {
            type Ok = ();
            type Error = serde_json::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Self::Error> {
                self.item(item)
            }

            fn end(self) -> Result<(), Self::Error> {
                Bound::end(self);
                Ok(())
            }
        })*
    };
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
);

macro_rules! structs {
    ($($kind:ident),* $(,)?) => {
        $(impl ser::$kind for &mut Bound {
            type Ok = ();
            type Error = serde_json::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Self::Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Self::Error> {
                Bound::end(self);
                Ok(())
            }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for &mut Bound {
    type Ok = ();
    type Error = serde_json::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Self::Error> {
        self.item(key)?;
        if self.is_key { Ok(()) } else { Err(Self::Error::custom("a key must be a text")) }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
        self.item(value)
    }

    fn end(self) -> Result<(), Self::Error> {
        Bound::end(self);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::super::measure;
    use super::*;

    #[derive(Serialize)]
    enum Kind {
        Unit,
        New(String),
        Tuple(u8, f64),
        Fields { a: char, b: Option<()> },
    }

    #[derive(Serialize)]
    struct Whole<'a> {
        kinds: Vec<Kind>,
        long: (i128, u128),
        #[serde(skip_serializing_if = "Option::is_none")]
        none: Option<u8>,
        raw: &'a RawValue,
        keys: BTreeMap<i64, bool>,
        unit: (),
    }

    #[track_caller]
    fn assert_bounded(value: &impl Serialize) {
        let (exact, most) = (measure(value).unwrap(), bound(value).unwrap());
        assert!(exact <= most, "{most} for {}", serde_json::to_string(value).unwrap());
    }

    #[test]
    fn no_value_is_longer_than_its_bound() {
        let fields = |a| Kind::Fields { a, b: Some(()) };
        let raw = RawValue::from_string(r#"{"x":  [1, 2]}"#.to_owned()).unwrap();
        assert_bounded(&Whole {
            kinds: vec![
                Kind::Unit,
                Kind::New("\u{1}".repeat(9)),
                Kind::Tuple(255, f64::MIN),
                fields('\u{1f}'),
            ],
            long: (i128::MIN, u128::MAX),
            none: None,
            raw: &raw,
            keys: BTreeMap::from([(i64::MIN, false), (i64::MAX, true)]),
            unit: (),
        });
        for value in [
            json!(""),
            json!([]),
            json!({}),
            json!([[], {}, null, true, false]),
            json!({"\u{0}": u64::MAX, "": i64::MIN, "f": -1.797_693_134_862_315_7e308}),
            json!([5e-324, -2.225_073_858_507_201_4e-308]),
        ] {
            assert_bounded(&value);
        }
        assert!(bound(&"\n".repeat(100)).unwrap() >= 202);
        assert!(bound(&"a".repeat(100)).unwrap() <= 606);
    }

    #[test]
    fn what_cannot_be_written_has_no_bound() {
        let key = (1, 2);
        assert!(bound(&BTreeMap::from([(key, 3)])).is_err());
        assert!(bound(&BTreeMap::from([(Some("a"), 3)])).is_ok());
        assert!(bound(&BTreeMap::from([((), 3)])).is_err());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_json_is_longer_than_its_bound(value in values()) {
            assert_bounded(&value);
        }
    }
}
