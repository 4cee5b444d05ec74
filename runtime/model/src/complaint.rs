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

/// How servers without such words begin to say it: llama.cpp, Ollama, and Ollama of models that
/// write calls as XML.
const UNREADABLE_STARTS: [&str; 3] =
    [UNREAD_AT, "error parsing tool call: ", "XML syntax error on line "];

/// How llama.cpp begins, before the place, a colon and the text from there on. What Ollama tells
/// of the text are the arguments of a call without its name, which are of no use.
const UNREAD_AT: &str = "Failed to parse input at pos ";

/// Words by which servers refuse what can be asked otherwise, and what is added to them: the order
/// of the messages, and a field that they do not know.
const ADVICE: [(&[&str], &str); 2] = [
    (
        &["Unexpected role 'user' after role 'tool'", "roles must alternate"],
        "; such a server needs `merge_adjacent = true` of the model",
    ),
    (
        &[r#""stream_options","include_usage""#, r#""body","stream_options""#],
        "; such a server needs `stream_usage = false` of the model",
    ),
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
    /// What the model wrote and its server cannot read, if there may be a call in it.
    pub(crate) unread: Option<String>,
}

impl Complaint {
    /// Reads the body of an answer that reports an error, JSON or not.
    pub(crate) fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(value @ (Json::Object(_) | Json::Array(_))) => Self::from_answer(&value)
                .unwrap_or_else(|| {
                    Self::from_value(fields::get(&value, "detail").unwrap_or(&value))
                }),
            _ => Self::from_value(&Json::Str(String::from_utf8_lossy(body))),
        }
    }

    /// Reads the error of an answer, if it has one or is one.
    pub(crate) fn from_answer(answer: &Json<'_>) -> Option<Self> {
        // Google puts the object into a list.
        let answer = answer.as_array().and_then(<[_]>::first).unwrap_or(answer);
        if let Some(error) = fields::get(answer, "error").filter(|error| says_something(error)) {
            return Some(Self::from_value(error));
        }
        let is_error = fields::word(answer, "object")
            .is_some_and(|object| object.eq_ignore_ascii_case("error"));
        if is_error {
            return Some(Self::from_value(answer));
        }
        let is_alone = answer.as_object().is_some_and(|fields| fields.len() == 1);
        fields::get(answer, "detail").filter(|_| is_alone).map(Self::from_value)
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
            let is_call = text.contains(['{', '[', '<', '(']);
            is_call.then(|| text.into_owned()).or_else(|| unread_rest(error))
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
            || UNREADABLE_STARTS.iter().any(|start| self.message.starts_with(start))
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

/// Returns whether something stands in the field of an error; some servers have it in every answer.
fn says_something(error: &Json<'_>) -> bool {
    match error {
        Json::Null | Json::Bool(false) => false,
        Json::Str(text) => !text.trim().is_empty(),
        Json::Object(fields) => !fields.is_empty(),
        Json::Array(list) => !list.is_empty(),
        Json::Bool(true) | Json::Number(_) => true,
    }
}

/// Returns the text from where llama.cpp could not read on, if a call may begin there: it may as
/// well be amid one, of which nothing can be made.
fn unread_rest(error: &Json<'_>) -> Option<String> {
    let message = fields::text(fields::get(error, "message"));
    let (place, rest) = message.trim_start().strip_prefix(UNREAD_AT)?.split_once(": ")?;
    let is_place = place.bytes().all(|byte| byte.is_ascii_digit());
    let begins = rest.trim_start();
    let is_begun = begins.starts_with("</");
    (is_place && begins.starts_with(['{', '[', '<']) && !is_begun).then(|| rest.to_owned())
}

/// Adds to a message what helps against what a server says.
fn advised(mut message: String, said: &str) -> String {
    for (words, advice) in ADVICE {
        if words.iter().any(|words| said.contains(words)) {
            message.push_str(advice);
        }
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
        let cases: [(&str, Option<u16>, &str); 15] = [
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
            (r#"{"detail":"Not Found","path":"/v1"}"#, None, "Not Found"),
            (r#"{"error":"","path":"/v1"}"#, None, r#"{"error":"","path":"/v1"}"#),
            (
                r#"[{"error":{"code":400,"message":"bad key","status":"INVALID_ARGUMENT"}}]"#,
                Some(400),
                "bad key",
            ),
            ("[]", None, "[]"),
            (r#"["no"]"#, None, r#"["no"]"#),
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
    fn an_answer_is_an_error_if_it_says_one() {
        for (answer, expected) in [
            (r#"{"error":{"message":"busy"},"choices":[]}"#, Some("busy")),
            (r#"{"error":"busy"}"#, Some("busy")),
            (r#"{"error":["busy"]}"#, Some(r#"["busy"]"#)),
            (r#"[{"error":{"message":"busy"}}]"#, Some("busy")),
            (r#"{"object":"error","message":"busy","code":500}"#, Some("busy")),
            (r#"{"object":"Error","detail":"no","message":"busy"}"#, Some("busy")),
            (r#"{"detail":"busy"}"#, Some("busy")),
            (r#"{"error":null,"choices":[]}"#, None),
            (r#"{"error":"","choices":[]}"#, None),
            (r#"{"error":" ","choices":[]}"#, None),
            (r#"{"error":{},"choices":[]}"#, None),
            (r#"{"error":[],"choices":[]}"#, None),
            (r#"{"error":false,"choices":[]}"#, None),
            (r#"{"object":"chat.completion.chunk","detail":"high","choices":[]}"#, None),
            ("[]", None),
            ("7", None),
        ] {
            let value: Json<'_> = serde_json::from_str(answer).unwrap();
            let found = Complaint::from_answer(&value).map(|complaint| complaint.message);
            assert_eq!(found.as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn a_server_that_can_be_asked_otherwise_gets_advice() {
        let merge = "; such a server needs `merge_adjacent = true` of the model";
        let usage = "; such a server needs `stream_usage = false` of the model";
        for (body, text, advice) in [
            (
                r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted","input":true}]},"type":"invalid_request_error","param":null,"code":null}"#,
                r#"invalid_request_error: {"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","include_usage"],"msg":"Extra inputs are not permitted","input":true}]},"type":"invalid_request_error","param":null,"code":null}"#,
                usage,
            ),
            (
                r#"{"detail":[{"loc":["body","stream_options"],"msg":"extra"}]}"#,
                r#"[{"loc":["body","stream_options"],"msg":"extra"}]"#,
                usage,
            ),
            // The whole request, as some tell it.
            (
                r#"{"detail":[{"loc":["body","x"],"input":{"stream_options":{"include_usage":true}}}]}"#,
                r#"[{"loc":["body","x"],"input":{"stream_options":{"include_usage":true}}}]"#,
                "",
            ),
            (
                r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}"#,
                "3230: Unexpected role 'user' after role 'tool'",
                merge,
            ),
            (
                r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"Unexpected role 'user' after role 'tool'\"}"}}}"#,
                "Provider returned error",
                merge,
            ),
            (
                r#"{"error":{"message":"Conversation roles must alternate user/assistant/.."}}"#,
                "Conversation roles must alternate user/assistant/..",
                merge,
            ),
            ("roles must alternate", "roles must alternate", merge),
            (
                r#"{"error":"Unexpected role 'tool' after role 'user'"}"#,
                "Unexpected role 'tool' after role 'user'",
                "",
            ),
        ] {
            let told = Complaint::from_body(body.as_bytes()).to_string();
            assert_eq!(told, format!("{text}{advice}"), "{body}");
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
        let long = format!("<tool_call>{}</tool_call>", "x".repeat(2 * MESSAGE_CHARS_MAX));
        let at = |place: &str, rest: &str| {
            json!({"code": 500, "type": "server_error",
            "message": format!("Failed to parse input at pos {place}: {rest}")})
        };
        for (error, is_unreadable, unread) in [
            (at("395", "<|tool_call_start|>[now()]"), true, Some("<|tool_call_start|>[now()]")),
            (at("0", &long), true, Some(&*long)),
            (at("7", "\n[{\"name\":\"now\"}]"), true, Some("\n[{\"name\":\"now\"}]")),
            (at("12", "</tool_call>"), true, None),
            (at("12", "and {so on"), true, None),
            (at("12", ""), true, None),
            (at("<x>", "<y>"), true, None),
            // Of the call there are the arguments alone.
            (json!("error parsing tool call: raw='{\"a\":1}]', err=invalid"), true, None),
            (json!("XML syntax error on line 35: element <a> closed by </b>"), true, None),
            (json!("they say: error parsing tool call: raw='{}'"), false, None),
        ] {
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
