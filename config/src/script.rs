//! The replies of a scripted model.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::Usage;

/// A file of replies, one JSON object a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The replies, in the order of the file.
    pub replies: Vec<ScriptedReply>,
}

/// One reply of a script.
///
/// The first reply whose `when` matches the conversation's last message is taken. If none matches,
/// the replies without `when` are played in order: the one whose index is the number of assistant
/// messages in the conversation. A model therefore needs no memory, and plays on after a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedReply {
    /// A regular expression over the last message's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content: String,
    /// Calls beside the text, for models that call natively.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ScriptedCall>,
    /// Milliseconds until the reply comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// A fault in place of the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<ScriptedFault>,
    /// Tokens to report; estimated from the text if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why the model stopped, if not by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<wire::FinishReason>,
}

/// One call of a scripted reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// The tool's name.
    pub name: String,
    /// The arguments: an object, or a text that is sent as it is.
    #[serde(default)]
    pub arguments: Value,
    /// The provider's id; made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// A fault that a scripted model shows, as a provider would.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFault {
    /// The HTTP status in whose class the fault falls; absent means a broken connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What the provider says.
    #[serde(default)]
    pub message: String,
    /// How often it happens to one conversation before the reply comes; absent means always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
}
