//! Open calls: those about which a person has something to say, and what a person can say.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::id::{CallKey, Digest, Name, RunId, SessionId};
use crate::time::Timestamp;

/// What a call is open for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenKind {
    /// A person has to allow or deny it; it has not been made.
    Approval,
    /// Its tool asked a person a question.
    #[default]
    Question,
    /// A person can say what came of it, which nobody else knows.
    Unknown,
}

impl OpenKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Approval, Self::Question, Self::Unknown];

    /// Returns the word used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Unknown => "unknown",
        }
    }
}

/// A call about which a person has something to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The call.
    pub call: CallKey,
    /// What it is open for.
    pub kind: OpenKind,
    /// The run that asked for it.
    pub run: RunId,
    /// The session of that run.
    pub session: SessionId,
    /// The agent that asked for it.
    pub agent: Name,
    /// The tool or agent that is called.
    pub tool: Name,
    /// With what, exactly.
    pub arguments: Arc<Value>,
    /// The digest of tool and arguments, to which an approval is bound.
    pub digest: Digest,
    /// How often it was made; what is said of its outcome is said of this attempt.
    pub attempt: u32,
    /// What the person is asked, or what is known of the outcome; it begins with the notice.
    pub question: String,
    /// What the person has to know before anything that others wrote, such as the arguments.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub notice: String,
    /// The question that is asked, if the call goes on with its answer: it may ask another one then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question_id: Option<Name>,
    /// The JSON Schema of what is to be filled in, if the tool asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Value>,
    /// Whether the run waits for it.
    pub waits: bool,
    /// Since when it is open.
    pub since: Timestamp,
    /// When it is decided without a person, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The run that asked for the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
}

/// Open calls: those for which a run waits, and then the others, each the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCallList {
    /// The calls.
    pub calls: Vec<OpenCall>,
    /// Whether there are more of them than the list may have.
    #[serde(default, skip_serializing_if = "is_no")]
    pub more: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
const fn is_no(value: &bool) -> bool {
    !*value
}

/// A look-up of open calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenCallsRequest {
    /// Only those that are open for this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<OpenKind>,
    /// The most calls to list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// A person allows a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproveRequest {
    /// The digest that the person saw; absent means what the call asks for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// A person denies a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// Why, as the model is told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A person says what came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// Whether it took effect.
    pub done: bool,
    /// Its result, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The attempt that the person looked at; absent means the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// What came of a call whose outcome was unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "came_to", rename_all = "snake_case")]
pub enum Resolution {
    /// It took effect.
    Done {
        /// Its result.
        result: Value,
    },
    /// It did not take effect, and cannot any more.
    NotDone,
}

/// Returns the digest of what a call asks for: equal for arguments that mean the same.
///
/// The order of keys does not count, and a number is the same with and without `.0`.
pub fn call_digest(tool: &Name, arguments: &Value) -> Digest {
    let text = serde_json::to_vec(&Canonical(arguments)).unwrap_or_default();
    Digest::of(tool.as_str().as_bytes()).then(&text)
}

/// Whole numbers up to this size are exact as floating-point numbers.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns the whole number that a number with `.0` or an exponent stands for, if it does.
fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "a whole number within bounds")]
    (float.fract() == 0.0 && float.abs() < EXACT_MAX).then_some(float as i64)
}

/// A value that is written the same as every other that means the same.
struct Canonical<'a>(&'a Value);

impl Serialize for Canonical<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Canonical)),
            Value::Object(fields) => {
                let mut sorted: Vec<_> = fields.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                let fields = sorted.into_iter().map(|(key, value)| (key, Canonical(value)));
                serializer.collect_map(fields)
            }
            Value::Number(number) => match whole(number) {
                Some(whole) => serializer.serialize_i64(whole),
                None => number.serialize(serializer),
            },
            Value::Null | Value::Bool(_) | Value::String(_) => self.0.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The canonical form as a value of its own, which is plain to see but costs a copy.
    fn rebuilt(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(rebuilt).collect(),
            Value::Object(fields) => {
                let sorted: std::collections::BTreeMap<_, _> = fields.iter().collect();
                Value::Object(sorted.into_iter().map(|(k, v)| (k.clone(), rebuilt(v))).collect())
            }
            Value::Number(number) if number.is_f64() => match number.as_f64().unwrap() {
                #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
                float if float.fract() == 0.0 && float.abs() < EXACT_MAX => {
                    Value::from(float as i64)
                }
                _ => value.clone(),
            },
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<i32>().prop_map(|whole| Value::from(f64::from(whole))),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    fn rebuilt_digest(tool: &Name, arguments: &Value) -> Digest {
        Digest::of(tool.as_str().as_bytes()).then(rebuilt(arguments).to_string().as_bytes())
    }

    proptest! {
        #[test]
        fn what_is_hashed_is_the_canonical_form_as_text(value in value()) {
            let written = serde_json::to_string(&Canonical(&value)).unwrap();
            prop_assert_eq!(written, rebuilt(&value).to_string());
            let tool = Name::new("pay").unwrap();
            prop_assert_eq!(call_digest(&tool, &value), rebuilt_digest(&tool, &value));
        }
    }

    /// Approvals in journals are bound to these.
    #[test]
    fn digests_never_change() {
        let tool = Name::new("pay").unwrap();
        for (text, expected) in [
            ("{}", "e5e8357dc429194efc537ca1698aac064d32e1934889f892df56f6575d20840b"),
            (
                r#"{"é":[1.0,-0.0,1e300,9007199254740992.0,0.1],"b":{"d":null,"c":"\u2028\n\""}}"#,
                "ba363a0e11a9cbb333d5fed1a5277cc5214d90d3ee438f4a98876042eb004173",
            ),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            let digest = call_digest(&tool, &value);
            assert_eq!(digest.to_string(), expected, "{text}");
            assert_eq!(digest, rebuilt_digest(&tool, &value), "{text}");
        }
    }

    #[test]
    fn arguments_that_mean_the_same_have_one_digest() {
        let tool = Name::new("pay").unwrap();
        let digest = |text: &str| call_digest(&tool, &serde_json::from_str(text).unwrap());
        let cases = [
            (r#"{"a":1,"b":[{"c":2,"d":3}]}"#, r#"{"b":[{"d":3,"c":2}],"a":1}"#, true),
            (r#"{"a":7}"#, r#"{"a":7.0}"#, true),
            (r#"{"a":-0.0}"#, r#"{"a":0}"#, true),
            (r#"{"a":7.5}"#, r#"{"a":7}"#, false),
            (r#"{"a":"7"}"#, r#"{"a":7}"#, false),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            (r#"{"a":null}"#, "{}", false),
            (r#"{"a":18446744073709551615}"#, r#"{"a":18446744073709551614}"#, false),
        ];
        for (one, other, same) in cases {
            assert_eq!(digest(one) == digest(other), same, "{one} and {other}");
        }
        let other = Name::new("payx").unwrap();
        assert_ne!(call_digest(&tool, &json!({})), call_digest(&other, &json!({})));
    }
}
