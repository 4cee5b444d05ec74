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
}

impl Complaint {
    /// Reads the body of an answer that reports an error, JSON or not.
    pub(crate) fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(value @ Json::Object(_)) => Self::from_answer(&value).unwrap_or_else(|| {
                Self::from_value(fields::get(&value, "detail").unwrap_or(&value))
            }),
            _ => Self { message: excerpt(&String::from_utf8_lossy(body)), ..Self::default() },
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
        Self {
            status: status("code")
                .or_else(|| status("status"))
                .filter(|code| (400..600).contains(code)),
            code: word("code"),
            kind: word("type"),
            message: match error {
                Json::Str(text) => excerpt(text),
                _ => word("message").unwrap_or_else(|| excerpt(&error.to_string())),
            },
        }
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

/// Returns the beginning of a text, without white space around it.
pub(crate) fn excerpt(text: &str) -> String {
    text.trim().chars().take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
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
    fn a_long_or_broken_text_is_cut_and_a_secret_blotted_out() {
        let mut complaint = Complaint::from_body("wrong key sk-1 ".repeat(100_000).as_bytes());
        assert_eq!(complaint.message.chars().count(), MESSAGE_CHARS_MAX);
        complaint.redact("sk-1");
        assert!(complaint.message.starts_with("wrong key *** wrong key ***"));
        assert_eq!(Complaint::from_body(b"\xff\xfe").message, "\u{fffd}\u{fffd}");
    }
}
