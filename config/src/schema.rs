//! The JSON Schema of team files. It is made from the structs that read them, and stands in a file,
//! since to make it takes longer than to read a team.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::Value;

/// The file in the format gzip.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/team.schema.json.gz"));

/// Returns the JSON Schema (2020-12) of team files, for editors.
pub fn schema() -> Value {
    let mut text = Vec::new();
    // That it can be unpacked and is JSON is tested below.
    let unpacked = GzDecoder::new(PACKED).read_to_end(&mut text).is_ok();
    if unpacked { serde_json::from_slice(&text).unwrap_or_default() } else { Value::Null }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schemars::Schema;
    use schemars::generate::SchemaSettings;
    use schemars::transform::RecursiveTransform;

    use super::*;
    use crate::raw::RawFile;

    /// The file, which the test writes.
    const SCHEMA: &str = include_str!("../team.schema.json");

    #[test]
    fn the_file_has_the_schema_of_the_structs() {
        let made = SchemaSettings::draft2020_12()
            .with_transform(RecursiveTransform(drop_null))
            .with_transform(RecursiveTransform(say_bytes))
            .into_generator()
            .into_root_schema_for::<RawFile>()
            .to_value();
        let text = format!("{made:#}\n");
        if text != SCHEMA {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("team.schema.json");
            std::fs::write(&file, text).unwrap();
            let file = file.display();
            panic!("{file} was not of the structs and is written anew: commit it, and test again");
        }
        assert_eq!(schema(), made);
    }

    /// Says of texts with a largest length that it is one of bytes, as they are counted here: an
    /// editor counts characters, so that it takes some that are refused.
    fn say_bytes(schema: &mut Schema) {
        let Some(object) = schema.as_object_mut() else { return };
        let Some(bytes) = object.get("maxLength").and_then(Value::as_u64) else { return };
        let said = object.get("description").and_then(Value::as_str).unwrap_or_default();
        let said = format!("{said} At most {bytes} bytes.").trim_start().to_owned();
        object.insert("description".to_owned(), said.into());
    }

    /// Removes `null` from the types of optional fields, since TOML has none.
    fn drop_null(schema: &mut Schema) {
        let Some(object) = schema.as_object_mut() else { return };
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
            choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
            if let [Value::Object(only)] = choices.as_slice() {
                let only = only.clone();
                object.remove("anyOf");
                object.extend(only);
            }
        }
    }
}
