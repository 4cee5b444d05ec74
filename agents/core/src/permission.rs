//! Which calls are made, which need a person's leave, and which are never made.
//!
//! A pattern is a tool's name, and if wanted conditions on arguments in brackets:
//! `send_mail`, `delete_*`, `send_mail(to=*@example.com, subject=?*)`. `*` stands for any text,
//! `?` for one character, and `\` before a character for that character itself. An argument that
//! is a text is compared as it is, any other value as JSON, and a whole number with `.0` or an
//! exponent also as it is written without.
//!
//! `deny` wins over `ask` and `ask` over `allow`; a call that no pattern names needs what its offer
//! says. In a tainted run, one that has read untrusted words, a call that reaches outside needs
//! leave in any case, unless a pattern of `allow_tainted` fits. In doubt a pattern errs to the side of asking: `deny` and `ask` hold if any value within a
//! list or a table fits and take no account of upper and lower case, `allow` holds only if all
//! values fit exactly.

use serde_json::Value;
use wire::plan::{Offer, Permission, Permissions};

/// The longest pattern, in bytes; it names one call and is no program.
pub const PATTERN_BYTES_MAX: usize = 512;

/// A pattern of calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    tool: Glob,
    arguments: Vec<(String, Glob)>,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It is longer than [`PATTERN_BYTES_MAX`].
    #[error("it has more than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// There is no name of a tool.
    #[error("it names no tool")]
    NoTool,
    /// The bracket is not closed at the end, or something follows it.
    #[error("the bracket is not closed at its end")]
    Unclosed,
    /// A condition is not of the form `argument=value`.
    #[error("the condition {0:?} is not of the form `argument=value`")]
    Condition(String),
}

/// How strictly a pattern is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// For what is allowed: every value has to fit, letter by letter.
    Narrow,
    /// For what is asked or denied: one value that fits is enough, in upper or lower case.
    Wide,
}

/// What a call needs, and the pattern that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// What it needs.
    pub permission: Permission,
    /// The pattern; none if it follows from the offer.
    pub pattern: Option<&'a str>,
    /// Whether it needs leave only because the run is tainted.
    pub for_taint: bool,
}

/// Decides what a call of an offer needs in a run that is tainted or not.
pub fn decide<'a>(
    permissions: &'a Permissions,
    offer: &Offer,
    arguments: &Value,
    is_tainted: bool,
) -> Decision<'a> {
    decide_held(permissions, offer, arguments, is_tainted && offer.labels.external)
}

/// Tells whether a call that is permitted may also be made of a tool that has come to reach outside
/// since: its run is not tainted, was decided about as if it did, or has leave whatever it does.
pub fn may_go_out(
    permissions: &Permissions,
    offer: &Offer,
    arguments: &Value,
    is_tainted: bool,
) -> bool {
    !is_tainted
        || offer.labels.external
        || !decide_held(permissions, offer, arguments, true).for_taint
}

/// Decides what a call needs; `is_held` says that its run's taint stands in its way.
fn decide_held<'a>(
    permissions: &'a Permissions,
    offer: &Offer,
    arguments: &Value,
    is_held: bool,
) -> Decision<'a> {
    let Permissions { allow, allow_tainted, ask, deny, by_meaning } = permissions;
    let by_patterns = |rows: &[_]| by_patterns(rows, *by_meaning, offer, arguments);
    let rows = [
        (deny, Permission::Deny, Reading::Wide),
        (ask, Permission::Ask, Reading::Wide),
        (allow_tainted, Permission::Allow, Reading::Narrow),
    ];
    if let Some(decision) = by_patterns(&rows) {
        return decision;
    }
    let follows = Decision { permission: offer.permission, pattern: None, for_taint: false };
    let allowed = by_patterns(&[(allow, Permission::Allow, Reading::Narrow)]);
    let decision = allowed.unwrap_or(follows);
    match decision.permission {
        Permission::Allow if is_held => {
            Decision { permission: Permission::Ask, pattern: None, for_taint: true }
        }
        Permission::Allow | Permission::Ask | Permission::Deny => decision,
    }
}

/// Tells whether some call of an offer may be made without a person's leave.
pub fn may_pass(permissions: &Permissions, offer: &Offer) -> bool {
    let tool = offer.spec.name.as_str();
    let named = |patterns: &[String], all: bool| {
        let mut read = patterns.iter().filter_map(|text| Pattern::parse(text).ok());
        read.any(|pattern| pattern.names(tool) && !(all && pattern.arguments().next().is_some()))
    };
    let Permissions { allow, allow_tainted, ask, deny, by_meaning: _ } = permissions;
    let stopped = named(deny, true) || named(ask, true);
    let allowed = named(allow, false) || named(allow_tainted, false);
    !stopped && (allowed || offer.permission == Permission::Allow)
}

fn by_patterns<'a>(
    rows: &[(&'a Vec<String>, Permission, Reading)],
    by_meaning: bool,
    offer: &Offer,
    arguments: &Value,
) -> Option<Decision<'a>> {
    let tool = offer.spec.name.as_str();
    for (patterns, permission, reading) in rows.iter().copied() {
        // A text that is no pattern was refused with the team file; it never allows anything.
        let fits = |text: &&String| match Pattern::parse(text) {
            Ok(pattern) => pattern.fits(tool, arguments, reading, by_meaning),
            Err(_) => reading == Reading::Wide,
        };
        if let Some(pattern) = patterns.iter().find(fits) {
            return Some(Decision { permission, pattern: Some(pattern), for_taint: false });
        }
    }
    None
}

impl Pattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        let (tool, conditions) = match text.split_once('(') {
            None => (text.trim(), None),
            Some((tool, rest)) => {
                let inner = rest.trim_end().strip_suffix(')').ok_or(PatternError::Unclosed)?;
                (tool.trim(), Some(inner))
            }
        };
        if tool.is_empty() {
            return Err(PatternError::NoTool);
        }
        let mut arguments = Vec::new();
        for condition in split(conditions.unwrap_or_default())? {
            let wrong = || PatternError::Condition(condition.to_owned());
            let (name, value) = condition.split_once('=').ok_or_else(wrong)?;
            let name = name.trim();
            if name.is_empty() {
                return Err(wrong());
            }
            arguments.push((name.to_owned(), Glob::parse(value.trim())));
        }
        if conditions.is_some() && arguments.is_empty() {
            return Err(PatternError::Condition(String::new()));
        }
        Ok(Self { tool: Glob::parse(tool), arguments })
    }

    /// Tells whether the pattern speaks of a tool.
    pub fn names(&self, tool: &str) -> bool {
        self.tool.matches(tool)
    }

    /// Returns the arguments on which the pattern sets conditions.
    pub fn arguments(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|(name, _)| name.as_str())
    }

    fn fits(&self, tool: &str, arguments: &Value, reading: Reading, by_meaning: bool) -> bool {
        self.names(tool)
            && self.arguments.iter().all(|(name, glob)| {
                let mut values = Vec::new();
                if let Some(value) = arguments.get(name) {
                    leaves(value, by_meaning, &mut values);
                }
                match reading {
                    Reading::Narrow => {
                        let fits = |Leaf { text, whole }: &Leaf| {
                            let whole = whole.as_ref();
                            glob.matches(text) || whole.is_some_and(|text| glob.matches(text))
                        };
                        !values.is_empty() && values.iter().all(fits)
                    }
                    Reading::Wide => {
                        let glob = glob.lowered();
                        let texts =
                            values.iter().flat_map(|leaf| leaf.whole.iter().chain([&leaf.text]));
                        texts.into_iter().any(|text| glob.matches(&lowered(text, by_meaning)))
                    }
                }
            })
    }
}

/// Splits conditions at commas that no `\` stands before.
fn split(conditions: &str) -> Result<Vec<&str>, PatternError> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in conditions.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(conditions.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if escaped {
        return Err(PatternError::Unclosed);
    }
    parts.push(conditions.get(start..).unwrap_or_default());
    if parts.len() == 1 && conditions.trim().is_empty() {
        parts.clear();
    }
    Ok(parts)
}

/// A value within a value.
struct Leaf {
    text: String,
    /// The same number without `.0` and exponent: how a model writes a number is no way round a
    /// pattern.
    whole: Option<String>,
}

/// Lists the values within a value.
fn leaves(value: &Value, by_meaning: bool, into: &mut Vec<Leaf>) {
    let plain = |text| Leaf { text, whole: None };
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, by_meaning, into)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, by_meaning, into)),
        Value::String(text) => into.push(plain(text.clone())),
        Value::Number(number) => {
            into.push(Leaf {
                text: value.to_string(),
                whole: number.as_f64().filter(|_| by_meaning && number.is_f64()).and_then(whole),
            });
        }
        Value::Null | Value::Bool(_) => into.push(plain(value.to_string())),
    }
}

/// Returns the digits of a number without a fraction.
fn whole(float: f64) -> Option<String> {
    // Of the two zeros one has a sign.
    let float = if float == 0.0 { 0.0 } else { float };
    (float.fract() == 0.0).then(|| format!("{float:.0}"))
}

/// Returns a text in lower case, letter by letter as patterns are: as a whole, a Σ at the end of a
/// word becomes another letter than within it.
fn lowered(text: &str, by_meaning: bool) -> String {
    if by_meaning {
        text.chars().flat_map(char::to_lowercase).collect()
    } else {
        text.to_lowercase()
    }
}

/// A text with places for other texts: `*` stands for any, `?` for one letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<Piece>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Char(char),
    One,
    Any,
}

impl Glob {
    /// Takes a text apart; every text is one. What stands behind a backslash stands for itself.
    pub fn parse(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let piece = match c {
                '\\' => Piece::Char(chars.next().unwrap_or('\\')),
                '*' => Piece::Any,
                '?' => Piece::One,
                c => Piece::Char(c),
            };
            if piece != Piece::Any || pieces.last() != Some(&Piece::Any) {
                pieces.push(piece);
            }
        }
        Self(pieces)
    }

    fn lowered(&self) -> Self {
        let lower = |piece: &Piece| match piece {
            Piece::Char(c) => c.to_lowercase().map(Piece::Char).collect(),
            Piece::One | Piece::Any => vec![*piece],
        };
        Self(self.0.iter().flat_map(lower).collect())
    }

    /// Tells whether a text is one of those that this stands for.
    ///
    /// Tries the shortest text for the last `*` first, and a longer one wherever that fails.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut at, mut piece) = (0, 0);
        let mut last_any: Option<(usize, usize)> = None;
        while at < text.len() {
            match self.0.get(piece) {
                Some(Piece::Any) => {
                    last_any = Some((piece, at));
                    piece += 1;
                }
                Some(Piece::One) => (at, piece) = (at + 1, piece + 1),
                Some(Piece::Char(c)) if text.get(at) == Some(c) => {
                    (at, piece) = (at + 1, piece + 1);
                }
                Some(Piece::Char(_)) | None => match last_any {
                    Some((any, from)) => {
                        last_any = Some((any, from + 1));
                        (at, piece) = (from + 1, any + 1);
                    }
                    None => return false,
                },
            }
        }
        self.0.get(piece..).unwrap_or_default().iter().all(|rest| *rest == Piece::Any)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::plan::{Labels, Target};
    use wire::{EffectClass, Name, ToolSpec};

    use super::*;

    fn offer(tool: &str, permission: Permission) -> Offer {
        let spec = ToolSpec {
            name: Name::new(tool).unwrap(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        };
        Offer { permission, ..Offer::new(spec, Target::Tool, EffectClass::Once, 1) }
    }

    #[test]
    fn patterns_are_read_or_refused() {
        let long = "x".repeat(PATTERN_BYTES_MAX + 1);
        let condition = |text: &str| Some(PatternError::Condition(text.to_owned()));
        let cases = [
            ("send_mail", None),
            (" send_* ( to = *@example.com , cc=x ) ", None),
            (r"f(a=1\,2, b=\))", None),
            ("*", None),
            ("", Some(PatternError::NoTool)),
            ("(a=b)", Some(PatternError::NoTool)),
            ("f(a=b", Some(PatternError::Unclosed)),
            ("f(a=b) g", Some(PatternError::Unclosed)),
            (r"f(a=b\)", Some(PatternError::Unclosed)),
            ("f()", condition("")),
            ("f(a)", condition("a")),
            ("f(=b)", condition("=b")),
            ("f(a=b,)", condition("")),
            (&long, Some(PatternError::TooLong)),
        ];
        for (text, expected) in cases {
            assert_eq!(Pattern::parse(text).err(), expected, "{text}");
        }
    }

    #[test]
    fn globs_stand_for_whole_texts() {
        let cases = [
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
            ("*", "", true),
            ("?", "", false),
            ("?", "ä", true),
            ("a*", "a\nb", true),
            ("*@example.com", "x@example.com", true),
            ("*@example.com", "x@example.com.evil.org", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "abab", true),
            ("*a*b", "aba", false),
            (r"\*", "*", true),
            (r"\*", "x", false),
            (r"a\", "a\\", true),
        ];
        for (glob, text, expected) in cases {
            assert_eq!(Glob::parse(glob).matches(text), expected, "{glob} and {text}");
        }
        let hard = "a*".repeat(100) + "b";
        assert!(!Glob::parse(&hard).matches(&"a".repeat(10_000)));
    }

    #[test]
    fn deny_wins_over_ask_and_ask_over_allow() {
        use Permission::{Allow, Ask, Deny};
        type Lists<'a> = [&'a [&'a str]; 3];
        let mail = "send_mail";
        let to = |to: Value| json!({"to": to, "subject": "x"});
        let cases: [(Lists<'_>, &str, Value, Permission); 26] = [
            // Without a pattern the offer says what is needed.
            ([&[], &[], &[]], mail, to(json!("a")), Ask),
            ([&["other"], &[], &[]], mail, to(json!("a")), Ask),
            ([&[mail], &[], &[]], mail, to(json!("a")), Allow),
            ([&["send_*"], &[], &[]], mail, to(json!("a")), Allow),
            ([&[], &[], &["*_mail"]], mail, to(json!("a")), Deny),
            ([&["*"], &["*"], &["*"]], mail, to(json!("a")), Deny),
            ([&[mail], &["*"], &[]], mail, to(json!("a")), Ask),
            // Names are compared letter by letter: models call by exact names.
            ([&["Send_Mail"], &[], &[]], mail, to(json!("a")), Ask),
            // Conditions.
            ([&["send_mail(to=*@a.org)"], &[], &[]], mail, to(json!("x@a.org")), Allow),
            ([&["send_mail(to=*@a.org)"], &[], &[]], mail, to(json!("x@A.ORG")), Ask),
            ([&["send_mail(to=*@a.org)"], &[], &[]], mail, to(json!("x@b.org")), Ask),
            ([&["send_mail(to=*@a.org,subject=x)"], &[], &[]], mail, to(json!("x@a.org")), Allow),
            ([&["send_mail(to=*@a.org,subject=y)"], &[], &[]], mail, to(json!("x@a.org")), Ask),
            ([&[], &[], &["send_mail(to=*@a.org)"]], mail, to(json!("x@A.org")), Deny),
            ([&[], &[], &["send_mail(to=*@a.org)"]], mail, json!({}), Ask),
            ([&["send_mail(to=*)"], &[], &[]], mail, json!({}), Ask),
            // All values have to be allowed, and one that is denied is enough.
            ([&["*(to=*@a.org)"], &[], &[]], mail, to(json!(["x@a.org", "y@a.org"])), Allow),
            ([&["*(to=*@a.org)"], &[], &[]], mail, to(json!(["x@a.org", "y@b.org"])), Ask),
            ([&["*(to=*@a.org)"], &[], &[]], mail, to(json!([])), Ask),
            ([&[mail], &[], &["*(to=*@a.org)"]], mail, to(json!(["y@b", "x@a.org"])), Deny),
            ([&[mail], &[], &["*(to=*@a.org)"]], mail, to(json!({"cc": ["x@a.org"]})), Deny),
            // What is not a text is compared as JSON.
            ([&["pay(amount=7)"], &[], &[]], "pay", json!({"amount": 7}), Allow),
            ([&["pay(amount=7)"], &[], &[]], "pay", json!({"amount": 70}), Ask),
            ([&["pay(amount=??)"], &[], &[]], "pay", json!({"amount": 70}), Allow),
            // What is no pattern allows nothing and lets nothing pass.
            ([&["pay("], &[], &[]], "pay", json!({}), Ask),
            ([&["pay"], &[], &["pay("]], "pay", json!({}), Deny),
        ];
        for ([allow, ask, deny], tool, arguments, expected) in cases {
            let list = |list: &[&str]| list.iter().map(ToString::to_string).collect();
            let (allow, ask, deny) = (list(allow), list(ask), list(deny));
            let permissions = Permissions { allow, ask, deny, ..Permissions::default() };
            let found = decide(&permissions, &offer(tool, Ask), &arguments, false).permission;
            assert_eq!(found, expected, "{permissions:?}: {tool} {arguments}");
        }
    }

    #[test]
    fn how_a_value_is_written_is_no_way_round_a_pattern() {
        use Permission::{Allow, Ask, Deny};
        // The pattern, the argument, and whether it fits in a list of `deny`, `ask` and `allow`; then
        // whether it does in `deny` and `allow` of a plan of an older journal.
        let cases = [
            ("100", "100", [true; 3], [true; 2]),
            ("100", "100.0", [true; 3], [false; 2]),
            ("100", "1e2", [true; 3], [false; 2]),
            ("100", "[7, 1E+2]", [true, true, false], [false; 2]),
            ("100.0", "100.0", [true; 3], [true; 2]),
            ("100", "100.5", [false; 3], [false; 2]),
            ("100", "\"100.0\"", [false; 3], [false; 2]),
            ("0", "-0.0", [true; 3], [false; 2]),
            ("1152921504606846976", "1152921504606846976.0", [true; 3], [false; 2]),
            ("-9007199254740993*", "-9007199254740993", [true; 3], [true; 2]),
            ("ΟΔΟΣ", "\"ΟΔΟΣ\"", [true; 3], [false, true]),
            ("οδοσ", "\"ΟΔΟΣ\"", [true, true, false], [false; 2]),
            ("οδος", "\"οδος\"", [true; 3], [true; 2]),
        ];
        for (pattern, argument, fits, fitted) in cases {
            let list = || vec![format!("charge(amount={pattern})")];
            let arguments = json!({"amount": serde_json::from_str::<Value>(argument).unwrap()});
            let none = Permissions::default;
            let check = |permissions: Permissions, by_meaning, own, then, fits| {
                let permissions = Permissions { by_meaning, ..permissions };
                let found = decide(&permissions, &offer("charge", own), &arguments, false);
                let expected = if fits { then } else { own };
                assert_eq!(found.permission, expected, "{permissions:?}: {argument}");
            };
            check(Permissions { deny: list(), ..none() }, true, Allow, Deny, fits[0]);
            check(Permissions { ask: list(), ..none() }, true, Allow, Ask, fits[1]);
            check(Permissions { allow: list(), ..none() }, true, Ask, Allow, fits[2]);
            check(Permissions { deny: list(), ..none() }, false, Allow, Deny, fitted[0]);
            check(Permissions { allow: list(), ..none() }, false, Ask, Allow, fitted[1]);
        }
    }

    #[test]
    fn a_tainted_run_needs_leave_for_what_goes_outside() {
        use Permission::{Allow, Ask, Deny};
        type Lists<'a> = [&'a [&'a str]; 4];
        let to_a = json!({"to": "a"});
        // Patterns of allow, allow_tainted, ask and deny; what the offer says; what is needed in a
        // run that is not tainted, in one that is and where the tool is not external; and whether
        // any call may pass by itself.
        let cases: [(Lists<'_>, Permission, [Permission; 3], bool); 13] = [
            ([&[], &[], &[], &[]], Allow, [Allow, Ask, Allow], true),
            ([&[], &[], &[], &[]], Ask, [Ask, Ask, Ask], false),
            ([&["send"], &[], &[], &[]], Ask, [Allow, Ask, Allow], true),
            ([&["send(to=a)"], &[], &[], &[]], Ask, [Allow, Ask, Allow], true),
            ([&["send(to=b)"], &[], &[], &[]], Ask, [Ask, Ask, Ask], true),
            ([&[], &["send"], &[], &[]], Ask, [Allow, Allow, Allow], true),
            ([&[], &["send(to=a)"], &[], &[]], Ask, [Allow, Allow, Allow], true),
            ([&[], &["send(to=b)"], &[], &[]], Ask, [Ask, Ask, Ask], true),
            ([&["*"], &["*"], &["send"], &[]], Allow, [Ask, Ask, Ask], false),
            ([&["*"], &["*"], &["send(to=b)"], &[]], Allow, [Allow, Allow, Allow], true),
            ([&["*"], &["*"], &[], &["*"]], Allow, [Deny, Deny, Deny], false),
            ([&["*"], &["*"], &[], &["*(to=b)"]], Allow, [Allow, Allow, Allow], true),
            ([&["*"], &["other"], &[], &[]], Deny, [Allow, Ask, Allow], true),
        ];
        for ([allow, allow_tainted, ask, deny], own, expected, passes) in cases {
            let list = |list: &[&str]| list.iter().map(ToString::to_string).collect();
            let permissions = Permissions {
                allow: list(allow),
                allow_tainted: list(allow_tainted),
                ask: list(ask),
                deny: list(deny),
                by_meaning: true,
            };
            let inner = offer("send", own);
            let labels = Labels { external: true, ..Labels::NONE };
            let outer = Offer { labels, ..inner.clone() };
            let needs = |offer, tainted| decide(&permissions, offer, &to_a, tainted).permission;
            let found = [needs(&outer, false), needs(&outer, true), needs(&inner, true)];
            assert_eq!(found, expected, "{permissions:?}, {own:?}");
            assert_eq!(may_pass(&permissions, &outer), passes, "{permissions:?}, {own:?}");
            let leave = decide(&permissions, &outer, &to_a, true);
            assert_eq!(leave.for_taint, expected[0] == Allow && expected[1] == Ask);
            // What was permitted as a call that stays inside is not, if it needs leave outside.
            let goes = |offer, tainted| may_go_out(&permissions, offer, &to_a, tainted);
            let found = [goes(&outer, true), goes(&inner, false), goes(&inner, true)];
            assert_eq!(found, [true, true, !leave.for_taint], "{permissions:?}, {own:?}");
        }
    }
}
