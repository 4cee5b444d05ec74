//! Endpoints of NATS services that describe themselves as tools do.

use serde_json::Value;

/// One endpoint of a service: what it does, what it takes and where it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The name of the service.
    pub service: String,
    /// The name of the endpoint, which groups of one service may share.
    pub endpoint: String,
    /// Where it is asked.
    pub subject: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments, as the service wrote it.
    pub schema: String,
}

impl Described {
    /// Reads the schema, in which the type of the whole may be left out.
    pub fn parameters(&self) -> Result<Value, String> {
        let mut schema: Value = serde_json::from_str(&self.schema)
            .map_err(|error| format!("its schema is no JSON: {error}"))?;
        let Some(root) = schema.as_object_mut() else {
            return Err("its schema is no object".to_owned());
        };
        if !root.contains_key("type") {
            root.insert("type".to_owned(), Value::from("object"));
        }
        Ok(schema)
    }
}
