//! What a provider says when it does not answer.

use std::fmt;

use crate::fields::{self, Json};

/// The most characters kept of a provider's own words.
const MESSAGE_CHARS_MAX: usize = 500;

/// Words by which providers say that the money is spent, which no waiting cures.
const SPENT: &[&str] = &[
    "insufficient_quota",
    "credit_balance_exhausted",
    "insufficient_balance",
    "insufficient_credits",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "spend_limit_reached",
    "spend_limit_exceeded",
    "usage_limit_reached",
    "usage_limit_exceeded",
];

/// Words by which providers refuse a request for good.
const REFUSED: &[&str] = &[
    "invalid_request_error",
    "invalid_request",
    "invalid_prompt",
    "authentication_error",
    "invalid_api_key",
    "permission_error",
    "permission_denied",
    "not_found_error",
    "model_not_found",
    "request_too_large",
    "context_length_exceeded",
    "exceed_context_size_error",
    "content_policy_violation",
];

/// Words by which servers say that what their model wrote is no call, or no JSON, that they can read.
const UNREADABLE: &[&str] = &["tool_use_failed", "json_validate_failed"];

/// Words by which servers refuse the order of the messages.
const ORDER: &[&str] = &["Unexpected role 'user' after role 'tool'", "roles must alternate"];

/// What is added to them.
const ORDER_ADVICE: &str = "; such a server needs `merge_adjacent = true` of the model";

/// A provider's error object, read from any of the forms in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// The HTTP status that the object names, if it names one.
    pub(crate) status: Option<u16>,
    /// The word in `code`.
    pub(crate) code: Option<String>,
    /// The word in `type`.
    pub(crate) kind: Option<String>,
    /// The text for people.
    pub(crate) message: String,
    /// What the model wrote and its server cannot read, if there may be a call in it.
    pub(crate) unread: Option<String>,
}

impl Complaint {
    /// Reads the body of an answer that reports an error, JSON or not.
    pub(crate) fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(value @ Json::Object(_)) => Self::from_answer(&value).unwrap_or_else(|| {
                Self::from_value(fields::get(&value, "detail").unwrap_or(&value))
            }),
            _ => Self::from_value(&Json::Str(String::from_utf8_lossy(body))),
        }
    }

    /// Reads the `error` of an answer, if it has one.
    pub(crate) fn from_answer(answer: &Json<'_>) -> Option<Self> {
        fields::get(answer, "error").filter(|error| !error.is_null()).map(Self::from_value)
    }

    /// Reads an error object, or a text in its place.
    pub(crate) fn from_value(error: &Json<'_>) -> Self {
        let word = |key: &str| match fields::get(error, key) {
            Some(Json::Str(word)) => Some(excerpt(word)),
            _ => None,
        };
        let status = |key: &str| match fields::get(error, key) {
            Some(Json::Number(number)) => {
                number.as_u64().and_then(|number| u16::try_from(number).ok())
            }
            Some(Json::Str(text)) => text.parse().ok(),
            _ => None,
        };
        let message = match error {
            Json::Str(text) => excerpt(text),
            _ => word("message").unwrap_or_else(|| excerpt(&error.to_string())),
        };
        let complaint = Self {
            status: status("code")
                .or_else(|| status("status"))
                .filter(|code| (400..600).contains(code)),
            code: word("code"),
            kind: word("type"),
            // Those who pass on what another server says repeat it beside the message.
            message: advised(message, &error.to_string()),
            unread: None,
        };
        let unread = || {
            // Without a bracket it is no call, but Groq's own words in place of one.
            let text = fields::text(fields::get(error, "failed_generation"));
            text.contains(['{', '[', '<', '(']).then(|| text.into_owned())
        };
        Self { unread: complaint.is_unreadable().then(unread).flatten(), ..complaint }
    }

    /// Returns whether `code` or `type` is one of some words.
    pub(crate) fn is_one_of(&self, words: &[&str]) -> bool {
        [&self.code, &self.kind].into_iter().flatten().any(|word| words.contains(&word.as_str()))
    }

    /// Returns whether the money is spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_one_of(SPENT)
    }

    /// Returns whether the request would be refused again, whenever it came, by what the words say.
    pub(crate) fn is_final(&self) -> bool {
        self.is_spent() || self.is_one_of(REFUSED)
    }

    /// Returns whether the server could not read what its model wrote, which may be better the next
    /// time.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_one_of(UNREADABLE)
    }

    /// Blots out a secret, which some providers repeat in what they say.
    pub(crate) fn redact(&mut self, secret: &str) {
        if !secret.is_empty() {
            for text in [Some(&mut self.message), self.code.as_mut(), self.kind.as_mut()] {
                if let Some(text) = text.filter(|text| text.contains(secret)) {
                    *text = text.replace(secret, "***");
                }
            }
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.as_ref().or(self.kind.as_ref()) {
            Some(word) => write!(f, "{word}: {}", self.message),
            None if self.message.is_empty() => f.write_str("no reason given"),
            None => f.write_str(&self.message),
        }
    }
}

/// Adds to a message what helps against what a server says.
fn advised(mut message: String, said: &str) -> String {
    if ORDER.iter().any(|words| said.contains(words)) {
        message.push_str(ORDER_ADVICE);
    }
    message
}

/// Returns the beginning of a text, without white space around it.
pub(crate) fn excerpt(text: &str) -> String {
    text.trim().chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_error_body_is_read() {
        let cases: [(&str, Option<u16>, &str); 10] = [
            (
                r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#,
                None,
                "rate_limit_exceeded: slow down",
            ),
            (
                r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
                Some(503),
                "unavailable_error: Loading model",
            ),
            (r#"{"error":{"code":"429","message":"busy"}}"#, Some(429), "429: busy"),
            (r#"{"error":{"code":7,"message":"odd"}}"#, None, "odd"),
            (r#"{"error":"model not found"}"#, None, "model not found"),
            (
                r#"{"object":"error","message":"too long","type":"BadRequestError","code":400}"#,
                Some(400),
                "BadRequestError: too long",
            ),
            (r#"{"detail":"Not Found"}"#, None, "Not Found"),
            (r#"{"detail":[{"msg":"field required"}]}"#, None, r#"[{"msg":"field required"}]"#),
            ("<html>Bad Gateway</html>\n", None, "<html>Bad Gateway</html>"),
            ("", None, "no reason given"),
        ];
        for (body, status, text) in cases {
            let complaint = Complaint::from_body(body.as_bytes());
            assert_eq!(complaint.status, status, "{body}");
            assert_eq!(complaint.to_string(), text, "{body}");
        }
    }

    #[test]
    fn a_server_that_refuses_the_order_of_messages_gets_advice() {
        let advice = "; such a server needs `merge_adjacent = true` of the model";
        for (body, text, is_advised) in [
            (
                r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}"#,
                "3230: Unexpected role 'user' after role 'tool'",
                true,
            ),
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"Unexpected role 'user' after role 'tool'\"}"}}}"#,
                "Provider returned error",
                true,
            ),
            (
                r#"{"error":{"message":"Conversation roles must alternate user/assistant/.."}}"#,
                "Conversation roles must alternate user/assistant/..",
                true,
            ),
            ("roles must alternate", "roles must alternate", true),
            (
                r#"{"error":"Unexpected role 'tool' after role 'user'"}"#,
                "Unexpected role 'tool' after role 'user'",
                false,
            ),
        ] {
            let expected = format!("{text}{}", if is_advised { advice } else { "" });
            assert_eq!(Complaint::from_body(body.as_bytes()).to_string(), expected, "{body}");
        }
    }

    #[test]
    fn what_a_model_wrote_is_taken_if_it_may_be_a_call() {
        let call = "<function=now>{}</function>";
        for (code, generation, is_unreadable, unread) in [
            ("tool_use_failed", json!(call), true, Some(call)),
            ("json_validate_failed", json!("{\"tool\":"), true, Some("{\"tool\":")),
            ("tool_use_failed", json!("Tool use failed: no JSON"), true, None),
            ("tool_use_failed", json!(""), true, None),
            ("tool_use_failed", json!(null), true, None),
            ("model_not_found", json!(call), false, None),
        ] {
            let kind = "invalid_request_error";
            let error = json!({"type": kind, "code": code, "failed_generation": generation});
            let complaint = Complaint::from_body(json!({"error": error}).to_string().as_bytes());
            assert_eq!(complaint.is_unreadable(), is_unreadable, "{error}");
            assert_eq!(complaint.unread.as_deref(), unread, "{error}");
        }
    }

    #[test]
    fn a_long_or_broken_text_is_cut_and_a_secret_blotted_out() {
        let mut complaint = Complaint::from_body("wrong key sk-1 ".repeat(100_000).as_bytes());
        assert_eq!(complaint.message.chars().count(), MESSAGE_CHARS_MAX);
        complaint.redact("sk-1");
        assert!(complaint.message.starts_with("wrong key *** wrong key ***"));
        assert_eq!(Complaint::from_body(b"\xff\xfe").message, "\u{fffd}\u{fffd}");
    }
}
