//! Values that others made, and whether a journal can hold them.

use serde_json::Value;

/// How deep a value of others may be nested to be [read again](is_kept) from within an entry, of which
/// a reader takes no more than 127 levels.
pub const LEVELS_MAX: usize = 64;

/// How the keys begin in which `serde_json` hides values of its own: an object with such a key is
/// read as another value, or not at all.
const HIDDEN: &str = "$serde_json::private::";

/// Tells whether a value is read as it is once it was written as a part of an entry.
pub fn is_kept(value: &Value) -> bool {
    is_kept_below(value, LEVELS_MAX)
}

fn is_kept_below(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| is_kept_below(value, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(below),
        Value::Object(fields) => {
            levels > 0 && fields.iter().all(|(key, value)| !key.starts_with(HIDDEN) && below(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| json!([inner]))
    }

    #[test]
    fn a_value_is_kept_if_it_is_read_as_it_was_written() {
        let hidden =
            |key: &str| Value::Object([(key.to_owned(), json!("7"))].into_iter().collect());
        for (value, expected) in [
            (Value::Null, true),
            (json!({"a": [1, "x", {"$b": true}], "$serde_json": 1}), true),
            (nested(LEVELS_MAX), true),
            (nested(LEVELS_MAX + 1), false),
            (json!({"a": nested(LEVELS_MAX)}), false),
            (hidden("$serde_json::private::RawValue"), false),
            (json!([{"a": hidden("$serde_json::private::RawValue")}]), false),
            (hidden("$serde_json::private::Number"), false),
        ] {
            assert_eq!(is_kept(&value), expected, "{value}");
        }
        let raw = hidden("$serde_json::private::RawValue");
        let read: Value = serde_json::from_str(&raw.to_string()).unwrap();
        assert_ne!(read, raw, "what is hidden is read as another value");
    }
}
