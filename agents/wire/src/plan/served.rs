//! What a plan knows of the models that it names.

use serde::{Deserialize, Serialize};

use crate::hop::Endpoint;

/// What is known of a model before it is asked, for traces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// The provider's kind.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// Where the provider's server listens, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Endpoint>,
    /// Whether replies are streamed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stream: bool,
    /// The sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The likelihood that the tokens have together among which the next one is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Among how many tokens the next one is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// Where chance begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Texts at which a reply ends, beside those of the dialect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}
