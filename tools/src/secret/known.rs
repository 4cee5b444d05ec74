//! The secrets that this process has read, and texts without them.
//!
//! A secret is one for the whole process: whoever reads it makes it known here, so that none can be
//! forgotten where texts from outside come in. What is looked for is the secret itself, its common
//! encodings, and either half of each, since texts are cut.

use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

/// Secrets shorter than this are not looked for: they would occur by chance.
const SECRET_BYTES_MIN: usize = 6;

/// Halves and encodings shorter than this are not looked for.
const PART_BYTES_MIN: usize = 10;

/// Secrets that are known at once. A process reads a few dozen, and more where they are renewed;
/// the oldest is forgotten then.
const KNOWN_MAX: usize = 1024;

/// What stands in a text where a secret was.
const MARK: &str = "[secret]";

/// What a form of a web page leaves as it is.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

static KNOWN: RwLock<Known> = RwLock::new(Known { secrets: Vec::new(), finder: None });

struct Known {
    secrets: Vec<SecretString>,
    finder: Option<Arc<AhoCorasick>>,
}

/// Makes a secret known.
pub(crate) fn learn(secret: &SecretString) {
    let text = secret.expose_secret();
    let holds = |known: &Known| known.secrets.iter().any(|one| one.expose_secret() == text);
    if text.len() < SECRET_BYTES_MIN || holds(&KNOWN.read().unwrap_or_else(PoisonError::into_inner))
    {
        return;
    }
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if holds(&known) {
        return;
    }
    let over = (known.secrets.len() + 1).saturating_sub(KNOWN_MAX);
    known.secrets.drain(..over);
    known.secrets.push(secret.clone());
    let patterns = known.secrets.iter().flat_map(|secret| forms(secret.expose_secret()));
    // It fails only if there are more patterns than numbers for them.
    let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns);
    known.finder = built.ok().map(Arc::new);
}

fn finder() -> Option<Arc<AhoCorasick>> {
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).finder.clone()
}

/// Takes all known secrets out of a text.
pub fn clean(text: String) -> String {
    match finder() {
        Some(finder) if finder.is_match(&text) => without(&finder, &text),
        Some(_) | None => text,
    }
}

/// Takes all known secrets out of the keys and texts of a value.
pub fn clean_value(value: Value) -> Value {
    match finder() {
        Some(finder) => scrubbed(&finder, value),
        None => value,
    }
}

fn scrubbed(finder: &AhoCorasick, value: Value) -> Value {
    match value {
        Value::String(text) if finder.is_match(&text) => Value::String(without(finder, &text)),
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| scrubbed(finder, item)).collect())
        }
        Value::Object(fields) => {
            let clean =
                |(key, value): (String, Value)| (without(finder, &key), scrubbed(finder, value));
            Value::Object(fields.into_iter().map(clean).collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn without(finder: &AhoCorasick, text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut end = 0;
    for found in finder.find_iter(text) {
        let before = text.get(end..found.start()).unwrap_or_default();
        // The halves of a secret that was cut in the middle are one place.
        if !(before.is_empty() && clean.ends_with(MARK)) {
            clean.push_str(before);
            clean.push_str(MARK);
        }
        end = found.end();
    }
    clean.push_str(text.get(end..).unwrap_or_default());
    clean
}

/// Returns what a secret looks like in texts.
fn forms(secret: &str) -> Vec<String> {
    let json = Value::from(secret).to_string();
    let percent = utf8_percent_encode(secret, FORM).to_string();
    let hex = hex(secret);
    let mut forms = vec![
        json.trim_matches('"').to_owned(),
        lowered(&percent),
        percent.replace("%20", "+"),
        percent,
        hex.to_uppercase(),
        hex,
    ];
    // The letters at either end depend on what stands beside the secret.
    for (shift, from) in [(0, 0), (1, 2), (2, 3)] {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let padded = [&vec![0; shift], secret.as_bytes()].concat();
            let encoded = engine.encode(padded);
            let is_whole = (shift + secret.len()).is_multiple_of(3);
            let to = encoded.len().saturating_sub(usize::from(!is_whole));
            forms.push(encoded.get(from..to).unwrap_or_default().to_owned());
        }
    }
    forms.retain(|form| form.len() >= PART_BYTES_MIN);
    let halves: Vec<String> = forms
        .iter()
        .flat_map(|form| {
            let middle = form.floor_char_boundary(form.len() / 2);
            let (first, second) = form.split_at(middle);
            [first.to_owned(), second.to_owned()]
        })
        .filter(|half| half.len() >= PART_BYTES_MIN)
        .collect();
    forms.extend(halves);
    forms.push(secret.to_owned());
    forms
}

fn hex(text: &str) -> String {
    let digit = |number: u8| char::from_digit(u32::from(number), 16).unwrap_or_default();
    text.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Returns a percent-encoded text with the digits of its codes in lower case.
fn lowered(percent: &str) -> String {
    let mut parts = percent.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.push('%');
        text.push_str(&code.to_lowercase());
        text.push_str(rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use serde_json::json;

    use super::*;

    const SECRET: &str = "k3y \"q\\/+ö-Zyx987654321";

    fn known() -> &'static str {
        learn(&SecretString::from(SECRET));
        SECRET
    }

    #[test]
    fn a_secret_is_found_however_it_is_written() {
        let secret = known();
        let strict = utf8_percent_encode(secret, FORM).to_string();
        let hex = hex(secret);
        let mut written = vec![
            secret.to_owned(),
            json!({ "x": secret }).to_string(),
            format!("{secret:?}"),
            strict.clone(),
            lowered(&strict),
            strict.replace("%20", "+"),
            hex.to_uppercase(),
            hex,
            // Texts are cut.
            secret.split_at(secret.len() - 3).0.to_owned(),
            secret.split_at(3).1.to_owned(),
        ];
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let text = format!("{before}{secret}{after}");
                written.extend([STANDARD.encode(&text), URL_SAFE.encode(&text)]);
                written.extend([STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)]);
            }
        }
        for text in written {
            let cleaned = clean(format!("got <{text}> back"));
            assert!(cleaned.contains(MARK), "{text}: {cleaned}");
            assert!(cleaned.starts_with("got <") && cleaned.ends_with("> back"), "{cleaned}");
        }
    }

    #[test]
    fn other_texts_stay_as_they_are() {
        known();
        for text in ["", "Nothing of it.", "k3y", "987654321", "[secret]"] {
            assert_eq!(clean(text.to_owned()), text);
        }
        assert_eq!(clean(format!("{SECRET}{SECRET} and {SECRET}")), "[secret] and [secret]");
    }

    #[test]
    fn values_are_cleaned_in_keys_and_texts() {
        let secret = known();
        let value = json!({"a": [1, null, format!("x{secret}")], secret: {"b": true}});
        let expected = json!({"a": [1, null, "x[secret]"], "[secret]": {"b": true}});
        assert_eq!(clean_value(value), expected);
    }

    #[test]
    fn short_secrets_are_not_looked_for() {
        learn(&SecretString::from("12345"));
        assert_eq!(clean("a12345b".to_owned()), "a12345b");
        learn(&SecretString::from("hunter2"));
        assert_eq!(clean("it is hunter2, hunter".to_owned()), "it is [secret], hunter");
    }
}
