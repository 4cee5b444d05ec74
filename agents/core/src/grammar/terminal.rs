//! Values that hold no others, and which kinds of values a schema allows.

use serde_json::Value;

use super::convert::{Converter, count, refuse};
use super::digits::{self, BOUND_MAX, Bound, INTEGER_MAX};
use super::rules::Expr;
use super::{GrammarError, Keywords, LENGTH_MAX, malformed, pattern, unsupported};

/// The kinds of JSON values that schemas tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    Null,
}

impl Kind {
    fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "null" => Self::Null,
            _ => return None,
        })
    }

    /// Returns the kind of a value; whole numbers are integers.
    pub(super) fn of_value(value: &Value) -> Self {
        match value {
            Value::Object(_) => Self::Object,
            Value::Array(_) => Self::Array,
            Value::String(_) => Self::String,
            Value::Number(_) if whole(value).is_some() => Self::Integer,
            Value::Number(_) => Self::Number,
            Value::Bool(_) => Self::Boolean,
            Value::Null => Self::Null,
        }
    }

    /// Tells whether a value can be of both kinds.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let numeric = |kind| matches!(kind, Self::Integer | Self::Number);
        self == other || (numeric(self) && numeric(other))
    }
}

/// Keywords that speak of one kind of value only.
const SPEAKING: &[(Kind, &[&str])] = &[
    (Kind::Object, &["properties", "required", "additionalProperties", "minProperties"]),
    (Kind::Array, &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]),
    (Kind::String, &["minLength", "maxLength", "pattern"]),
    (Kind::Number, &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

/// Returns the kinds that a schema allows, in its order; none means that it says nothing.
pub(super) fn kinds(keywords: &Keywords, at: &str) -> Result<Vec<Kind>, GrammarError> {
    let words: Vec<&Value> = match keywords.get("type") {
        None => {
            let speaks = |names: &[&str]| names.iter().any(|name| keywords.contains_key(*name));
            let spoken = SPEAKING.iter().filter(|(_, names)| speaks(names)).map(|(kind, _)| *kind);
            return Ok(spoken.collect());
        }
        Some(Value::Array(words)) if words.is_empty() => {
            return Err(GrammarError::Empty { at: at.to_owned() });
        }
        Some(Value::Array(words)) => words.iter().collect(),
        Some(word) => vec![word],
    };
    let mut kinds = Vec::with_capacity(words.len());
    for word in words {
        let kind = word.as_str().and_then(Kind::of_word).ok_or_else(|| malformed(at, "type"))?;
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.contains(&Kind::Number) {
        kinds.retain(|kind| *kind != Kind::Integer);
    }
    Ok(kinds)
}

/// Converts a value that holds no others. Objects and arrays have their own places.
pub(super) fn terminal(
    converter: &mut Converter<'_>,
    kind: Kind,
    keywords: &Keywords,
    at: &str,
) -> Result<Expr, GrammarError> {
    let word = |word: &str| Ok(spaced(Expr::text(word)));
    match kind {
        Kind::Null => converter.shared("null", |_| word("null")),
        Kind::Boolean => converter.shared("boolean", |_| {
            Ok(spaced(Expr::Alt(vec![Expr::text("true"), Expr::text("false")])))
        }),
        Kind::Integer => integer(converter, keywords, at),
        Kind::Number => number(converter, keywords, at),
        Kind::String => string(converter, keywords, at),
        Kind::Object | Kind::Array => Err(unsupported(at, "a value that holds others")),
    }
}

fn spaced(expr: Expr) -> Expr {
    Expr::Seq(vec![expr, Expr::rule("space")])
}

fn string(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    at: &str,
) -> Result<Expr, GrammarError> {
    let quote = || Expr::text("\"");
    if let Some(pattern) = keywords.get("pattern") {
        let pattern = pattern.as_str().ok_or_else(|| malformed(at, "pattern"))?;
        let Some(characters) = pattern::characters(pattern) else {
            return Err(unsupported(at, format!("the pattern {pattern}")));
        };
        refuse(keywords, &["minLength", "maxLength"], at)?;
        return Ok(Expr::Seq(vec![quote(), characters, quote(), Expr::rule("space")]));
    }
    let min = count(keywords, "minLength", LENGTH_MAX, at)?.unwrap_or(0);
    let max = count(keywords, "maxLength", LENGTH_MAX, at)?;
    if max.is_some_and(|max| max < min) {
        return Err(GrammarError::Empty { at: at.to_owned() });
    }
    let quoted = |character: Expr| {
        let characters = character.repeat(min, max);
        Expr::Seq(vec![quote(), characters, quote(), Expr::rule("space")])
    };
    let character = converter.shared("char", |_| Ok(character()))?;
    match (min, max) {
        (0, None) => converter.shared("string", |_| Ok(quoted(character))),
        _ => Ok(quoted(character)),
    }
}

/// One character of a JSON string. No raw control characters, and no halves of surrogate pairs,
/// which strict readers refuse; characters that need a pair are written as they are.
fn character() -> Expr {
    let hex = || Expr::Class("[0-9a-fA-F]");
    let plane = Expr::Alt(vec![
        Expr::Seq(vec![Expr::Class("[0-9abcefABCEF]"), hex().repeat(3, Some(3))]),
        Expr::Seq(vec![Expr::Class("[dD]"), Expr::Class("[0-7]"), hex().repeat(2, Some(2))]),
    ]);
    Expr::Alt(vec![
        Expr::Class(r#"[^"\\\x7F\x00-\x1F]"#),
        Expr::Seq(vec![
            Expr::text("\\"),
            Expr::Alt(vec![Expr::Class(r#"["\\/bfnrt]"#), Expr::Seq(vec![Expr::text("u"), plane])]),
        ]),
    ])
}

fn integer(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    at: &str,
) -> Result<Expr, GrammarError> {
    if keywords.get("multipleOf").is_some_and(|step| whole(step) != Some(1)) {
        return Err(unsupported(at, "multipleOf"));
    }
    let (min, max) = (bound(keywords, Side::Min, at)?, bound(keywords, Side::Max, at)?);
    if min.is_none() && max.is_none() {
        return converter.shared("integer", |_| {
            let digits = Expr::Class("[0-9]").repeat(0, Some(15));
            let minus = Expr::text("-").optional();
            let long = Expr::Seq(vec![minus, Expr::Class("[1-9]"), digits]);
            Ok(spaced(Expr::Alt(vec![Expr::text("0"), long])))
        });
    }
    // A bound with a fraction leaves out the same integers as the next one inside.
    let min = min.map_or(-INTEGER_MAX_F, |(value, out)| {
        if out && value.fract() == 0.0 { value + 1.0 } else { value.ceil() }
    });
    let max = max.map_or(INTEGER_MAX_F, |(value, out)| {
        if out && value.fract() == 0.0 { value - 1.0 } else { value.floor() }
    });
    let cut = |value: f64| integer_of(value.clamp(-INTEGER_MAX_F, INTEGER_MAX_F));
    let (Some(low), Some(high)) = (cut(min), cut(max)) else {
        return Err(malformed(at, "minimum"));
    };
    if min > INTEGER_MAX_F || max < -INTEGER_MAX_F {
        return Err(unsupported(at, "a bound of more than sixteen digits"));
    }
    let digits = digits::integers(low, high);
    digits.map(spaced).ok_or_else(|| GrammarError::Empty { at: at.to_owned() })
}

#[expect(clippy::cast_precision_loss, reason = "sixteen digits are near enough for a clamp")]
const INTEGER_MAX_F: f64 = INTEGER_MAX as f64;

fn number(
    converter: &mut Converter<'_>,
    keywords: &Keywords,
    at: &str,
) -> Result<Expr, GrammarError> {
    refuse(keywords, &["multipleOf"], at)?;
    let (min, max) = (bound(keywords, Side::Min, at)?, bound(keywords, Side::Max, at)?);
    if min.is_none() && max.is_none() {
        return converter.shared("number", |_| Ok(spaced(Expr::Seq(any_number()))));
    }
    let whole = |bound: Option<(f64, bool)>| match bound {
        None => Ok(None),
        Some((value, exclusive)) => match integer_of(value) {
            Some(value) if value.abs() <= BOUND_MAX => Ok(Some(Bound { value, exclusive })),
            _ => Err(unsupported(at, format!("the bound {value} of a number with a fraction"))),
        },
    };
    let digits = digits::numbers(whole(min)?, whole(max)?);
    digits.map(spaced).ok_or_else(|| GrammarError::Empty { at: at.to_owned() })
}

fn any_number() -> Vec<Expr> {
    let digits = |min, max| Expr::Class("[0-9]").repeat(min, Some(max));
    let long = Expr::Seq(vec![Expr::Class("[1-9]"), digits(0, 15)]);
    let fraction = Expr::Seq(vec![Expr::text("."), digits(1, 17)]);
    let sign = Expr::Class("[-+]").optional();
    let exponent = Expr::Seq(vec![Expr::Class("[eE]"), sign, digits(1, 2)]);
    vec![
        Expr::text("-").optional(),
        Expr::Alt(vec![Expr::text("0"), long]),
        fraction.optional(),
        exponent.optional(),
    ]
}

#[derive(Clone, Copy)]
enum Side {
    Min,
    Max,
}

/// Returns the tighter of the two bounds of a side, and whether it is outside itself.
fn bound(keywords: &Keywords, side: Side, at: &str) -> Result<Option<(f64, bool)>, GrammarError> {
    let (inclusive, exclusive) = match side {
        Side::Min => ("minimum", "exclusiveMinimum"),
        Side::Max => ("maximum", "exclusiveMaximum"),
    };
    let read = |name: &str| match keywords.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| malformed(at, name)),
    };
    Ok(match (read(inclusive)?, read(exclusive)?) {
        (None, None) => None,
        (Some(value), None) => Some((value, false)),
        (None, Some(value)) => Some((value, true)),
        (Some(value), Some(out)) => {
            let tighter = match side {
                Side::Min => out >= value,
                Side::Max => out <= value,
            };
            Some(if tighter { (out, true) } else { (value, false) })
        }
    })
}

/// Returns the integer that a JSON number is, if it is one.
pub(super) fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().and_then(integer_of))
}

fn integer_of(value: f64) -> Option<i64> {
    let fits = value.fract() == 0.0 && value.abs() <= INTEGER_MAX_F;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and has sixteen digits")]
    fits.then_some(value as i64)
}
