//! Numbers: exact integers for as long as they fit, 64-bit floats beyond.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use super::fault::Fault;

/// The largest argument of the factorial: 171! is more than a 64-bit float holds.
const FACTORIAL_MAX: i128 = 170;

/// All integers up to this size, 2^53, have a float of their own.
const FLOAT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// A number: finite, and an integer wherever its value is known to be one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An exact integer.
    Integer(i128),
    /// A finite float that is no integer, or one of more than 2^53.
    Float(f64),
}

impl Number {
    /// Takes a float; fails if it is infinite or not a number.
    pub(super) fn from_f64(value: f64) -> Result<Self, Fault> {
        if value.is_nan() {
            return Err(Fault::NotReal("the result".to_owned()));
        }
        if value.is_infinite() {
            return Err(Fault::Overflow);
        }
        if value.fract() != 0.0 || value.abs() > FLOAT_INTEGER_MAX {
            return Ok(Self::Float(value));
        }
        #[expect(clippy::cast_possible_truncation, reason = "an integer of at most 2^53")]
        Ok(Self::Integer(value as i128))
    }

    /// Returns the nearest float.
    pub fn to_f64(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the nearest float is what is wanted")]
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Returns the number as JSON. An integer beyond 64 bits becomes a text, so that no digit is
    /// lost; a model reads the same digits either way.
    pub fn to_value(self) -> Value {
        match self {
            Self::Integer(value) => i64::try_from(value)
                .map(Value::from)
                .or_else(|_| u64::try_from(value).map(Value::from))
                .unwrap_or_else(|_| Value::String(value.to_string())),
            Self::Float(value) => Value::from(value),
        }
    }

    pub(super) fn plus(self, other: Self) -> Result<Self, Fault> {
        self.combine(other, i128::checked_add, |a, b| a + b)
    }

    pub(super) fn minus(self, other: Self) -> Result<Self, Fault> {
        self.combine(other, i128::checked_sub, |a, b| a - b)
    }

    pub(super) fn times(self, other: Self) -> Result<Self, Fault> {
        self.combine(other, i128::checked_mul, |a, b| a * b)
    }

    pub(super) fn over(self, other: Self) -> Result<Self, Fault> {
        other.not_zero()?;
        let exact = |a: i128, b: i128| (a.checked_rem(b)? == 0).then(|| a.checked_div(b)).flatten();
        self.combine(other, exact, |a, b| a / b)
    }

    /// The remainder with the sign of the divisor, so that `-7 % 3` is 2.
    pub(super) fn modulo(self, other: Self) -> Result<Self, Fault> {
        other.not_zero()?;
        let exact = |a: i128, b: i128| {
            let rest = a.checked_rem(b)?;
            Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        };
        let float = |a: f64, b: f64| {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        };
        self.combine(other, exact, float)
    }

    pub(super) fn power(self, exponent: Self) -> Result<Self, Fault> {
        let zero = self == Self::Integer(0);
        if zero && exponent.to_f64() < 0.0 {
            return Err(Fault::DivisionByZero);
        }
        if self.to_f64() < 0.0 && matches!(exponent, Self::Float(value) if value.fract() != 0.0) {
            return Err(Fault::NotReal(format!("({self}) ^ {exponent}")));
        }
        let exact = |a: i128, b: i128| a.checked_pow(u32::try_from(b).ok()?);
        self.combine(exponent, exact, f64::powf)
    }

    pub(super) fn factorial(self) -> Result<Self, Fault> {
        let out_of_range = || Fault::OutOfRange {
            what: "the factorial",
            range: "an integer from 0 to 170",
            given: self.to_string(),
        };
        match self {
            Self::Integer(n @ 0..=FACTORIAL_MAX) => {
                (2..=n).try_fold(Self::Integer(1), |product, n| product.times(Self::Integer(n)))
            }
            Self::Integer(_) | Self::Float(_) => Err(out_of_range()),
        }
    }

    pub(super) fn negated(self) -> Self {
        match self {
            Self::Integer(value) => {
                value.checked_neg().map_or(Self::Float(-self.to_f64()), Self::Integer)
            }
            Self::Float(value) => Self::Float(-value),
        }
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.cmp(&b),
            _ => self.to_f64().total_cmp(&other.to_f64()),
        }
    }

    fn not_zero(self) -> Result<(), Fault> {
        if self == Self::Integer(0) { Err(Fault::DivisionByZero) } else { Ok(()) }
    }

    /// Computes exactly if both are integers and the result is one that fits, else by floats.
    fn combine(
        self,
        other: Self,
        exact: impl Fn(i128, i128) -> Option<i128>,
        float: impl Fn(f64, f64) -> f64,
    ) -> Result<Self, Fault> {
        if let (Self::Integer(a), Self::Integer(b)) = (self, other)
            && let Some(result) = exact(a, b)
        {
            return Ok(Self::Integer(result));
        }
        Self::from_f64(float(self.to_f64(), other.to_f64()))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{}", Value::from(*value)),
        }
    }
}
