//! Rules for numbers between two bounds.

use super::rules::Expr;

/// The largest magnitude of an integer: sixteen digits, which every JSON reader keeps exactly
/// enough to hold them in 64 bits.
pub(super) const INTEGER_MAX: i64 = 9_999_999_999_999_999;

/// The largest magnitude of a bound on a number with a fraction, so that six digits after the
/// point still tell a double from the bound.
pub(super) const BOUND_MAX: i64 = 1_000_000_000;

/// Digits after the point of a number between bounds.
const FRACTION_DIGITS_MAX: u32 = 6;

/// One end of a range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: i64,
    /// Whether the value itself is outside.
    pub(super) exclusive: bool,
}

/// Returns the integers from one to another, both included; nothing if there are none.
pub(super) fn integers(min: i64, max: i64) -> Option<Expr> {
    let mut choices = Vec::new();
    if min < 0 {
        let magnitudes = magnitudes(max.min(-1).unsigned_abs(), min.unsigned_abs());
        choices.extend(magnitudes.map(negative));
    }
    if max >= 0 {
        choices.extend(magnitudes(min.max(0).unsigned_abs(), max.unsigned_abs()));
    }
    (!choices.is_empty()).then(|| Expr::any_of(choices))
}

/// Returns the numbers between two bounds, without exponents; nothing if there are none.
pub(super) fn numbers(min: Option<Bound>, max: Option<Bound>) -> Option<Expr> {
    let zero = Bound { value: 0, exclusive: false };
    let far = Bound { value: INTEGER_MAX, exclusive: true };
    let mirrored = |bound: Bound| Bound { value: -bound.value, ..bound };
    let mut choices = Vec::new();
    if min.is_none_or(|min| min.value < 0) {
        // Zero is left to the other half, so that it has one form.
        let near = Bound { value: 0, exclusive: true };
        let near = max.filter(|max| max.value <= 0).map_or(near, mirrored);
        let near = if near.value == 0 { Bound { exclusive: true, ..near } } else { near };
        choices.extend(fractions(near, min.map_or(far, mirrored)).map(negative));
    }
    if max.is_none_or(|max| max.value >= 0) {
        let near = min.filter(|min| min.value >= 0).unwrap_or(zero);
        choices.extend(fractions(near, max.unwrap_or(far)));
    }
    (!choices.is_empty()).then(|| Expr::any_of(choices))
}

fn negative(magnitude: Expr) -> Expr {
    Expr::Seq(vec![Expr::text("-"), magnitude])
}

/// Returns the numbers from `near` to `far`, neither of which is negative.
fn fractions(near: Bound, far: Bound) -> Option<Expr> {
    let (low, high) = (near.value.unsigned_abs(), far.value.unsigned_abs());
    let digits = |min| Expr::Digit(0, 9).repeat(min, Some(FRACTION_DIGITS_MAX));
    let mut choices = Vec::new();
    if low < high {
        let first = if near.exclusive { low + 1 } else { low };
        if let Some(whole) = magnitudes(first, high - 1) {
            let fraction = Expr::Seq(vec![Expr::text("."), digits(1)]);
            choices.push(Expr::Seq(vec![whole, fraction.optional()]));
        }
        if near.exclusive {
            let digits = Expr::Digit(0, 9).repeat(0, Some(FRACTION_DIGITS_MAX - 1));
            let whole = Expr::text(format!("{low}."));
            choices.push(Expr::Seq(vec![whole, digits, Expr::Digit(1, 9)]));
        }
    }
    if !far.exclusive && (low < high || (low == high && !near.exclusive)) {
        let whole = Expr::text(high.to_string());
        choices.push(Expr::Seq(vec![whole, Expr::text(".0").optional()]));
    }
    (!choices.is_empty()).then(|| Expr::any_of(choices))
}

/// Returns the integers from one to another that are not negative.
fn magnitudes(low: u64, high: u64) -> Option<Expr> {
    let mut choices = Vec::new();
    let (mut least, mut most) = (0_u64, 9_u64);
    while low <= high && least <= high {
        let (from, to) = (low.max(least), high.min(most));
        if from <= to {
            between(&digits(from), &digits(to), &mut Vec::new(), &mut choices);
        }
        least = most.saturating_add(1);
        most = most.saturating_mul(10).saturating_add(9);
    }
    (!choices.is_empty()).then(|| Expr::any_of(choices))
}

fn digits(number: u64) -> Vec<u8> {
    number.to_string().bytes().map(|digit| digit - b'0').collect()
}

/// Adds the numbers between two of the same length, all of which begin with `prefix`.
fn between(low: &[u8], high: &[u8], prefix: &mut Vec<Expr>, choices: &mut Vec<Expr>) {
    let (Some((&a, low)), Some((&b, high))) = (low.split_first(), high.split_first()) else {
        choices.push(sequence(prefix.clone()));
        return;
    };
    if a == b {
        prefix.push(Expr::Digit(a, a));
        between(low, high, prefix, choices);
        prefix.pop();
        return;
    }
    let full_low = low.iter().all(|&digit| digit == 0);
    let full_high = high.iter().all(|&digit| digit == 9);
    if !full_low {
        prefix.push(Expr::Digit(a, a));
        between(low, &vec![9; low.len()], prefix, choices);
        prefix.pop();
    }
    let (first, last) = (if full_low { a } else { a + 1 }, if full_high { b } else { b - 1 });
    if first <= last {
        let mut parts = prefix.clone();
        parts.push(Expr::Digit(first, last));
        let rest = u32::try_from(low.len()).unwrap_or(u32::MAX);
        match rest {
            0 => {}
            1 => parts.push(Expr::Digit(0, 9)),
            rest => parts.push(Expr::Digit(0, 9).repeat(rest, Some(rest))),
        }
        choices.push(sequence(parts));
    }
    if !full_high {
        prefix.push(Expr::Digit(b, b));
        between(&vec![0; high.len()], high, prefix, choices);
        prefix.pop();
    }
}

/// Makes a sequence in which digits that are certain stand together.
fn sequence(parts: Vec<Expr>) -> Expr {
    let mut joined: Vec<Expr> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(Expr::Text(text)), Expr::Digit(a, b)) if a == b => {
                text.push(char::from(b'0' + a));
            }
            (_, Expr::Digit(a, b)) if a == b => joined.push(Expr::text(a.to_string())),
            (_, part) => joined.push(part),
        }
    }
    match joined.pop() {
        Some(only) if joined.is_empty() => only,
        last => Expr::Seq(joined.into_iter().chain(last).collect()),
    }
}
