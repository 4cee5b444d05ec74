//! The secrets that this process has read, and texts without them.
//!
//! A secret is one for the whole process: whoever reads it makes it known here, so that none can be
//! forgotten where texts from outside come in. What is looked for is the secret itself, its common
//! encodings, and either half of each, since texts are cut.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::finder::Finder;

/// Secrets shorter than this are not looked for: they would occur by chance.
const SECRET_BYTES_MIN: usize = 6;

/// Halves and their encodings that are shorter than this are not looked for.
const PART_BYTES_MIN: usize = 10;

/// Secrets of one file that are known: a file may be renewed for as long as the process lives, and
/// what stood in it so many times before opens nothing any more. Other secrets stay what they are,
/// and are never forgotten.
const OF_FILE_MAX: usize = 16;

/// What a form of a web page leaves as it is.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

static KNOWN: RwLock<Known> = RwLock::new(Known { secrets: Vec::new(), finder: None });

/// Whether any is known. Without one, texts are let through with no lock.
static IS_ANY_KNOWN: AtomicBool = AtomicBool::new(false);

struct Known {
    /// Those of one file stand in the order in which they were read last.
    secrets: Vec<Learned>,
    finder: Option<Arc<Finder>>,
}

/// A secret, and the file in which it was read, if it was.
struct Learned {
    secret: SecretString,
    file: Option<PathBuf>,
}

impl Known {
    /// Tells whether to learn a secret again would change nothing.
    fn holds(&self, text: &str, file: Option<&Path>) -> bool {
        let is_it = |one: &Learned| one.secret.expose_secret() == text;
        let last = file.and_then(|_| self.secrets.iter().rfind(|one| one.file.as_deref() == file));
        last.is_some_and(is_it) || self.secrets.iter().any(|one| one.file.is_none() && is_it(one))
    }

    fn add(&mut self, secret: &SecretString, file: Option<&Path>) {
        let text = secret.expose_secret();
        self.secrets.retain(|one| {
            one.secret.expose_secret() != text || (file.is_some() && one.file.as_deref() != file)
        });
        let of_file = |one: &Learned| file.is_some() && one.file.as_deref() == file;
        if self.secrets.iter().filter(|one| of_file(one)).count() >= OF_FILE_MAX
            && let Some(oldest) = self.secrets.iter().position(of_file)
        {
            self.secrets.remove(oldest);
        }
        let file = file.map(Path::to_owned);
        self.secrets.push(Learned { secret: secret.clone(), file });
        let patterns = self.secrets.iter().flat_map(|one| forms(one.secret.expose_secret()));
        self.finder = Finder::new(patterns).ok().map(Arc::new);
    }
}

/// Makes known what a URL says of who we are: the password, or what stands alone as a token, both as
/// it is written and without its escapes.
pub fn learn_login(url: &str) {
    let Some((before, _)) = url.rsplit_once('@') else { return };
    let login = before.split_once("://").map_or(before, |(_, login)| login);
    let secret = login.split_once(':').map_or(login, |(_, password)| password);
    learn(&SecretString::from(secret));
    learn(&SecretString::from(percent_decode_str(secret).decode_utf8_lossy().into_owned()));
}

/// Makes a secret known that was not read by a [`SecretRef`](super::SecretRef), so that [`clean`]
/// takes it out of texts.
pub fn learn(secret: &SecretString) {
    learn_from(secret, None);
}

/// Makes a secret known, and the file in which it was read, if it was.
pub(super) fn learn_from(secret: &SecretString, file: Option<&Path>) {
    let text = secret.expose_secret();
    if text.len() < SECRET_BYTES_MIN
        || KNOWN.read().unwrap_or_else(PoisonError::into_inner).holds(text, file)
    {
        return;
    }
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if known.holds(text, file) {
        return;
    }
    known.add(secret, file);
    // Nobody has the secret from us before this is set.
    IS_ANY_KNOWN.store(true, Ordering::Release);
}

/// Takes out of texts the secrets that were known when it was made.
#[derive(Clone, Debug)]
pub struct Cleaner(Option<Arc<Finder>>);

impl Cleaner {
    /// Makes one for all secrets that are known.
    pub fn new() -> Self {
        if !IS_ANY_KNOWN.load(Ordering::Acquire) {
            return Self(None);
        }
        Self(KNOWN.read().unwrap_or_else(PoisonError::into_inner).finder.clone())
    }

    /// Takes the secrets out of a text.
    pub fn clean(&self, text: String) -> String {
        match self.clean_str(&text) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => text,
        }
    }

    /// Takes the secrets out of a text; one that has none is returned as it is.
    pub fn clean_str<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.0 {
            Some(finder) if finder.is_match(text) => Cow::Owned(finder.without(text)),
            Some(_) | None => Cow::Borrowed(text),
        }
    }

    /// Does what [`clean_settled`] does.
    pub fn clean_settled(&self, text: &mut String) -> String {
        let rest = match &self.0 {
            Some(finder) => text.split_off(finder.settled(text)),
            None => String::new(),
        };
        self.clean(std::mem::replace(text, rest))
    }

    /// Takes the secrets out of the keys and texts of a value.
    pub fn clean_value(&self, value: Value) -> Value {
        match &self.0 {
            Some(finder) => scrubbed(finder, value),
            None => value,
        }
    }
}

impl Default for Cleaner {
    fn default() -> Self {
        Self::new()
    }
}

/// Takes all known secrets out of a text.
pub fn clean(text: String) -> String {
    if text.is_empty() { text } else { Cleaner::new().clean(text) }
}

/// Takes all known secrets out of a text; one that has none is returned as it is.
pub fn clean_str(text: &str) -> Cow<'_, str> {
    if text.is_empty() { Cow::Borrowed(text) } else { Cleaner::new().clean_str(text) }
}

/// Takes from a text that is still being written what can be shown of it, without the secrets.
///
/// What may be the beginning of one stays, less than twice the longest secret; once nothing more
/// comes, it is for [`clean`].
pub fn clean_settled(text: &mut String) -> String {
    if text.is_empty() { String::new() } else { Cleaner::new().clean_settled(text) }
}

/// Takes all known secrets out of the keys and texts of a value.
pub fn clean_value(value: Value) -> Value {
    Cleaner::new().clean_value(value)
}

fn scrubbed(finder: &Finder, value: Value) -> Value {
    match value {
        Value::String(text) if finder.is_match(&text) => Value::String(finder.without(&text)),
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| scrubbed(finder, item)).collect())
        }
        Value::Object(fields) => {
            let clean =
                |(key, value): (String, Value)| (finder.without(&key), scrubbed(finder, value));
            Value::Object(fields.into_iter().map(clean).collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// Returns what a secret looks like in texts, and what its halves do.
fn forms(secret: &str) -> Vec<String> {
    // It is cut before it is encoded, so that no piece begins or ends within an escape.
    let (first, second) = secret.split_at(secret.floor_char_boundary(secret.len() / 2));
    let parts = [(secret, SECRET_BYTES_MIN), (first, PART_BYTES_MIN), (second, PART_BYTES_MIN)];
    let forms = parts.into_iter().flat_map(|(part, bytes_min)| {
        encoded(part).into_iter().filter(move |form| form.len() >= bytes_min)
    });
    forms.collect()
}

fn encoded(text: &str) -> Vec<String> {
    let percent = utf8_percent_encode(text, FORM).to_string();
    let hex = hex(text);
    let json = Value::from(text).to_string();
    let json = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json);
    let ascii = ascii(json);
    let mut forms = vec![
        text.to_owned(),
        json.to_owned(),
        lowered(&percent),
        percent.replace("%20", "+"),
        percent,
        hex.to_uppercase(),
        hex,
    ];
    // Some writers of JSON, PHP's among them, escape slashes too.
    if json.contains('/') {
        forms.extend([json, &ascii].map(|json| json.replace('/', "\\/")));
    }
    forms.push(ascii);
    // The letters at either end depend on what stands beside the text.
    for (shift, from) in [(0, 0), (1, 2), (2, 3)] {
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            let padded = [&vec![0; shift], text.as_bytes()].concat();
            let encoded = engine.encode(padded);
            let is_whole = (shift + text.len()).is_multiple_of(3);
            let to = encoded.len().saturating_sub(usize::from(!is_whole));
            forms.push(encoded.get(from..to).unwrap_or_default().to_owned());
        }
    }
    forms
}

/// Returns JSON with escapes for all that is not ASCII, as some writers have it.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            text.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            text.push_str("\\u");
            text.extend(
                unit.to_be_bytes().iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit),
            );
        }
    }
    text
}

fn hex(text: &str) -> String {
    text.bytes().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

fn digit(number: u8) -> char {
    char::from_digit(u32::from(number), 16).unwrap_or_default()
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
    use crate::secret::finder::MARK;

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
            ascii(&json!(secret).to_string()),
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
    fn what_is_learned_is_found_at_once_by_all_that_begin_then() {
        let before = Cleaner::new();
        let secret = "learned-by-one-thread-4711";
        assert_eq!(before.clean(secret.to_owned()), secret);
        std::thread::spawn(move || learn(&SecretString::from(secret))).join().unwrap();
        let after = Cleaner::new();
        assert_eq!(after.clean(format!("<{secret}>")), "<[secret]>");
        assert_eq!(after.clean_value(json!({secret: [secret]})), json!({"[secret]": ["[secret]"]}));
        assert_eq!((clean(secret.to_owned()).as_str(), clean_str("")), (MARK, Cow::Borrowed("")));
    }

    #[test]
    fn what_files_held_before_is_forgotten_and_nothing_else() {
        let mut known = Known { secrets: Vec::new(), finder: None };
        let mut learn = |text: &str, file: Option<&str>| {
            let (secret, file) = (SecretString::from(text), file.map(Path::new));
            if !known.holds(text, file) {
                known.add(&secret, file);
            }
        };
        learn("of-the-environment", None);
        learn("in-two-files", Some("a"));
        learn("in-two-files", Some("b"));
        learn("of-a-file-and-a-login", Some("a"));
        learn("of-a-file-and-a-login", None);
        learn("once-in-a-file", Some("a"));
        for number in 0..2 * OF_FILE_MAX {
            learn(&format!("renewed-{number}"), Some("a"));
            learn("comes-again-and-again", Some("a"));
        }
        let finder = known.finder.as_ref().unwrap();
        let newest = format!("renewed-{}", 2 * OF_FILE_MAX - 1);
        for (text, is_known) in [
            ("of-the-environment", true),
            ("in-two-files", true),
            ("of-a-file-and-a-login", true),
            ("comes-again-and-again", true),
            (&*newest, true),
            ("once-in-a-file", false),
        ] {
            assert_eq!(finder.without(text) == MARK, is_known, "{text}");
        }
        let of_file = known.secrets.iter().filter(|one| one.file == Some("a".into()));
        assert_eq!(of_file.count(), OF_FILE_MAX);
        assert_eq!(known.secrets.len(), OF_FILE_MAX + 3);
    }

    #[test]
    fn a_secret_is_found_in_whatever_pieces_it_comes() {
        let secret = known();
        learn(&SecretString::from("one-that-ends-in-begin"));
        learn(&SecretString::from("begin-of-another-4711"));
        let cases = [
            (format!("got <{secret}> back"), "got <[secret]> back"),
            (format!("{secret} and {}", hex(secret)), "[secret] and [secret]"),
            (format!("{}, {secret}", STANDARD.encode(secret)), "[secret], [secret]"),
            ("one-that-ends-in-begin.".to_owned(), "[secret]."),
            ("one-that-ends-in-begin-of-another-4711.".to_owned(), "[secret]-of-a[secret]."),
            // It never comes to its end.
            ("got k3y \"q".to_owned(), "got k3y \"q"),
        ];
        for (text, expected) in cases {
            for size in 1..text.len() {
                let (mut shown, mut held) = (String::new(), String::new());
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let (piece, left) =
                        rest.split_at(rest.ceil_char_boundary(size.min(rest.len())));
                    held.push_str(piece);
                    shown.push_str(&clean_settled(&mut held));
                    rest = left;
                }
                shown.push_str(&clean(held));
                // Two places that touch are one where they come together.
                let shown = shown.replace("[secret][secret]", MARK);
                assert_eq!(shown, expected, "{text} in pieces of {size}");
            }
        }
    }

    #[test]
    fn values_are_cleaned_in_keys_and_texts() {
        let secret = known();
        let value = json!({"a": [1, null, format!("x{secret}")], secret: {"b": true}});
        let expected = json!({"a": [1, null, "x[secret]"], "[secret]": {"b": true}});
        assert_eq!(clean_value(value), expected);
    }

    #[test]
    fn json_stays_json() {
        let secrets = [
            "[a]\nname = \"first\"\n[b]\nname = \"last\"",
            "ends with \"quotes\"\"",
            "\\\\server\\share",
        ];
        for secret in secrets {
            learn(&SecretString::from(secret));
            let text = json!({"a": secret, "b": format!("x {secret}")}).to_string();
            let cleaned: Value = serde_json::from_str(&clean(text)).unwrap();
            assert_eq!(cleaned, json!({"a": "[secret]", "b": "x [secret]"}), "{secret}");
        }
    }

    #[test]
    fn slashes_may_be_escaped_in_json() {
        for secret in
            ["wJal/rXUtnFEMI/K7MDENG", "/first-half/second-half/", "p/ö\"/wört-größe/ß\\/ü"]
        {
            learn(&SecretString::from(secret));
            for json in [json!(secret).to_string(), ascii(&json!(secret).to_string())] {
                let escaped = json.replace('/', "\\/");
                let cleaned = clean(format!("{{\"error\":{escaped}}}"));
                assert_eq!(cleaned, r#"{"error":"[secret]"}"#, "{escaped}");
                // Texts are cut.
                let cut = escaped.split_at(escaped.floor_char_boundary(escaped.len() - 2)).0;
                assert!(clean(cut.to_owned()).starts_with("\"[secret]"), "{cut}");
            }
        }
    }

    #[test]
    fn logins_in_urls_are_secrets() {
        let cases = [
            ("nats://ann:url-pass-4711@h:4222", "url-pass-4711", true),
            ("nats://url-token-4712@h", "url-token-4712", true),
            ("ann:url-pass-4713@h", "url-pass-4713", true),
            ("tls://ann:url%2Fpass%3A4714@h", "url/pass:4714", true),
            ("tls://ann:url-p@ss-4715@h", "url-p@ss-4715", true),
            ("tls://ann-4716:long-enough@h", "ann-4716", false),
            ("tls://host-4717:4222", "host-4717", false),
        ];
        for (url, text, is_secret) in cases {
            learn_login(url);
            assert_eq!(clean(text.to_owned()) == MARK, is_secret, "{url}");
        }
    }

    #[test]
    fn short_secrets_are_not_looked_for() {
        learn(&SecretString::from("12345"));
        assert_eq!(clean("a12345b".to_owned()), "a12345b");
        learn(&SecretString::from("hunter2"));
        assert_eq!(clean("it is hunter2, hunter".to_owned()), "it is [secret], hunter");
        for before in ["", "a", "ab", "abc"] {
            let text = STANDARD.encode(format!("{before}hunter2!"));
            assert!(clean(text.clone()).contains(MARK), "{text}");
        }
        assert_eq!(clean(hex("hunter2")), MARK);
        learn(&SecretString::from("ab\"c\\1"));
        assert_eq!(clean(json!("ab\"c\\1").to_string()), "\"[secret]\"");
    }
}
