//! What stands in the fields of a tool's table.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What the reply of a model behind a tool has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawOutput {
    /// A text.
    Text,
    /// A JSON object that obeys `schema`.
    Json,
    /// An arithmetic expression, which is computed.
    Calculate,
}

/// One row of a look-up table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRow {
    /// The words that must all occur in the query, compared without case.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub(crate) words: Vec<String>,
    /// The answer.
    pub(crate) answer: String,
}

/// The value of a header, of a query parameter, or of an environment variable.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum RawValue {
    /// A text; in a header or a query with `{parameter}` for arguments.
    Text(String),
    /// A secret.
    Secret(RawSecret),
}

/// A secret, which never stands in the team file itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawSecret {
    /// The environment variable that holds the secret.
    pub(crate) env: Option<String>,
    /// The file that holds the secret, relative to the team file.
    pub(crate) file: Option<String>,
    /// What stands before the secret, such as `Bearer `.
    pub(crate) prefix: Option<String>,
}

/// The body of a request.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum RawBody {
    /// One of the ready-made bodies.
    Word(RawBodyWord),
    /// A template.
    Form(RawBodyForm),
}

/// A ready-made body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawBodyWord {
    /// All arguments that appear nowhere else in the template, as a JSON object.
    Arguments,
}

/// A template of a body, or of what a program reads; exactly one of its fields.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawBodyForm {
    /// A JSON value in which a text that is exactly `{parameter}` becomes the argument itself.
    pub(crate) json: Option<Value>,
    /// A text, with `{parameter}` for arguments.
    pub(crate) text: Option<String>,
}

/// What a program reads.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum RawStdin {
    /// One of the ready-made inputs.
    Word(RawStdinWord),
    /// A template.
    Form(RawBodyForm),
}

/// A ready-made input of a program.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawStdinWord {
    /// All arguments, as a JSON object.
    Arguments,
    /// Nothing.
    None,
}

/// What keeps a program from the rest of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawSandbox {
    /// Namespaces of its own, made by bubblewrap.
    Bubblewrap,
    /// Nothing: it sees all that the daemon sees.
    None,
}

impl<'de> Deserialize<'de> for RawValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            table => RawSecret::deserialize(table).map(Self::Secret).map_err(D::Error::custom),
        }
    }
}

impl<'de> Deserialize<'de> for RawBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_string() {
            return RawBodyWord::deserialize(value).map(Self::Word).map_err(D::Error::custom);
        }
        RawBodyForm::deserialize(value).map(Self::Form).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for RawStdin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value.is_string() {
            return RawStdinWord::deserialize(value).map(Self::Word).map_err(D::Error::custom);
        }
        RawBodyForm::deserialize(value).map(Self::Form).map_err(D::Error::custom)
    }
}
