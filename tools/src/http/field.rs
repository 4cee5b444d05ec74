//! Fills in the values of headers and query parameters.

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};
use wire::CallOutcome;

use super::{FieldSource, QueryField, QueryStyle};
use crate::secret::SecretRef;
use crate::template::{Template, to_text};

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

    /// Returns its name if its value is a secret.
    pub(super) fn secret(&self) -> Option<&str> {
        matches!(self.field, Field::Secret { .. }).then_some(self.name.as_str())
    }

    /// Adds the parameter to the query of an address.
    pub(super) fn append(
        &self,
        url: &mut Url,
        arguments: &Map<String, Value>,
    ) -> Result<(), CallOutcome> {
        let name = self.name.as_str();
        let whole = match &self.field {
            Field::Template(template) => template.whole().and_then(|name| arguments.get(name)),
            Field::Secret { .. } => None,
        };
        let list = |items: &[Value]| -> Vec<(String, String)> {
            items.iter().map(|item| (name.to_owned(), to_text(item))).collect()
        };
        let pairs = match (self.style, whole) {
            (
                QueryStyle::Repeated | QueryStyle::Spread | QueryStyle::Deep,
                Some(Value::Array(items)),
            ) => list(items),
            (QueryStyle::Spread, Some(Value::Object(members))) => {
                members.iter().map(|(key, value)| (key.clone(), to_text(value))).collect()
            }
            (QueryStyle::Deep, Some(Value::Object(members))) => members
                .iter()
                .map(|(key, value)| (format!("{name}[{key}]"), to_text(value)))
                .collect(),
            _ => {
                let value = self.field.fill(arguments)?;
                let pair = value.map(|value| (name.to_owned(), value.expose_secret().to_owned()));
                pair.into_iter().collect()
            }
        };
        if !pairs.is_empty() {
            url.query_pairs_mut().extend_pairs(pairs);
        }
        Ok(())
    }
}
