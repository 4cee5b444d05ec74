//! Finds credentials in texts by their form, and by the names of the members that hold them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use crate::capture::quoted::Quoted;

/// What stands where a credential was.
pub(super) const MARK: &str = "[redacted]";

/// Credentials that tell by their form what they are. What stands before them is kept.
static CREDENTIALS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let member = format!(r#"(?<escape>\\*)"(?:{})\\*"\s*:\s*"#, members());
    let forms = [
        // Private keys, also where the end is missing.
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        // What stands in an `Authorization` header.
        r"(?i:\b(?:bearer|basic)\s+)(?<token>[A-Za-z0-9._~+/-]{12,}=*)",
        // Keys of providers of models, of code hosts, of chats and of clouds.
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\bgh[oprsu]_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{30,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\bAIza[A-Za-z0-9_-]{35}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"(?i:aws_?secret_?(?:access_?)?key\W{1,8})(?<aws>[A-Za-z0-9/+]{40})",
        // JSON Web Tokens.
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
        // Names and passwords in addresses.
        r"\b[A-Za-z][A-Za-z0-9+.-]*://(?<userinfo>[^\s/?#@]+)@",
        // Members of objects that are quoted in a text, up to their values.
        &member,
    ];
    Regex::new(&forms.join("|")).ok()
});

/// The fewest bytes of what is known by its form, if it has no `@`.
const CREDENTIAL_BYTES_MIN: usize = r#""passwd":1"#.len();

/// Members of JSON objects whose values are credentials, in lower case without `-` and `_`.
const SECRET_MEMBERS: &[&str] = &[
    "accesstoken",
    "apikey",
    "authorization",
    "clientsecret",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "secretaccesskey",
    "xapikey",
];

/// Returns the pattern of the names of these members.
fn members() -> String {
    let spaced = |name: &&str| {
        let letters: Vec<String> = name.chars().map(String::from).collect();
        letters.join("[-_]*")
    };
    let names: Vec<String> = SECRET_MEMBERS.iter().map(spaced).collect();
    format!("(?i:{})", names.join("|"))
}

/// Tells whether a member of an object by its name holds a credential.
pub(super) fn is_secret(member: &str) -> bool {
    let plain: String = member
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    SECRET_MEMBERS.contains(&plain.as_str())
}

/// Blots out what looks like a credential.
pub(super) fn blotted(text: &str) -> Cow<'_, str> {
    // Most texts in calls are shorter; only an address with a password can be.
    if text.len() < CREDENTIAL_BYTES_MIN && !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let Some(credentials) = &*CREDENTIALS else { return Cow::Borrowed(MARK) };
    let mut blotted = String::new();
    // What is looked at begins at the one, and what is not yet copied at the other.
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = credentials.captures_at(text, at)
        && let Some(whole) = found.get(0)
    {
        at = whole.end();
        let part = |name: &str| found.name(name);
        let (secret, quote) = if let Some(escape) = part("escape") {
            let Some(value) = Quoted::at(text, at, escape.as_str()) else { continue };
            (value.range, value.quote)
        } else {
            let part = ["token", "aws", "userinfo"].into_iter().find_map(part);
            (part.unwrap_or(whole).range(), String::new())
        };
        at = at.max(secret.end);
        let before = text.get(copied..secret.start).unwrap_or_default();
        blotted.extend([before, &quote, MARK, &quote]);
        copied = secret.end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    blotted.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(blotted)
}
