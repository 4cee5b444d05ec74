//! The functions of the calculator.

use super::fault::Fault;
use super::number::Number;

/// A function by its name, how it is called, and what it computes.
pub(super) struct Function {
    pub(super) name: &'static str,
    /// How it is called, as shown in errors.
    pub(super) usage: &'static str,
    compute: Compute,
}

enum Compute {
    /// One float to another.
    Float(fn(f64) -> f64),
    /// One number to another.
    One(fn(Number) -> Result<Number, Fault>),
    /// Two numbers to one.
    Two(fn(Number, Number) -> Result<Number, Fault>),
    /// A number and perhaps a second one.
    OneOrTwo(fn(Number, Option<Number>) -> Result<Number, Fault>),
    /// Any number of numbers from one on, combined from the left.
    Fold(fn(Number, Number) -> Result<Number, Fault>),
}

use Compute::{Float, Fold, One, OneOrTwo, Two};

const fn function(name: &'static str, usage: &'static str, compute: Compute) -> Function {
    Function { name, usage, compute }
}

/// All functions, in the order in which errors list them.
static FUNCTIONS: [Function; 35] = [
    function("sqrt", "sqrt(x)", One(square_root)),
    function("cbrt", "cbrt(x)", Float(f64::cbrt)),
    function("abs", "abs(x)", One(|x| Ok(absolute(x)))),
    function("sign", "sign(x)", One(|x| Ok(sign(x)))),
    function("exp", "exp(x)", Float(f64::exp)),
    function("ln", "ln(x)", One(|x| logarithm(x, f64::ln))),
    function("log", "log(x) to base 10 or log(x, base)", OneOrTwo(log)),
    function("log2", "log2(x)", One(|x| logarithm(x, f64::log2))),
    function("log10", "log10(x)", One(|x| logarithm(x, f64::log10))),
    function("sin", "sin(radians)", Float(f64::sin)),
    function("cos", "cos(radians)", Float(f64::cos)),
    function("tan", "tan(radians)", Float(f64::tan)),
    function("asin", "asin(x)", Float(f64::asin)),
    function("acos", "acos(x)", Float(f64::acos)),
    function("atan", "atan(x)", Float(f64::atan)),
    function("atan2", "atan2(y, x)", Two(|y, x| Number::from_f64(y.to_f64().atan2(x.to_f64())))),
    function("sinh", "sinh(x)", Float(f64::sinh)),
    function("cosh", "cosh(x)", Float(f64::cosh)),
    function("tanh", "tanh(x)", Float(f64::tanh)),
    function("floor", "floor(x)", One(|x| whole(x, f64::floor))),
    function("ceil", "ceil(x)", One(|x| whole(x, f64::ceil))),
    function("round", "round(x) or round(x, digits)", OneOrTwo(round)),
    function("trunc", "trunc(x)", One(|x| whole(x, f64::trunc))),
    function("min", "min(x, ..)", Fold(|a, b| Ok(if b.compare(a).is_lt() { b } else { a }))),
    function("max", "max(x, ..)", Fold(|a, b| Ok(if b.compare(a).is_gt() { b } else { a }))),
    function("pow", "pow(x, y)", Two(Number::power)),
    function("hypot", "hypot(x, y)", Two(|x, y| Number::from_f64(x.to_f64().hypot(y.to_f64())))),
    function("mod", "mod(x, y)", Two(Number::modulo)),
    function("gcd", "gcd(n, ..)", Fold(gcd)),
    function("lcm", "lcm(n, ..)", Fold(lcm)),
    function("factorial", "factorial(n)", One(Number::factorial)),
    function("deg", "deg(radians)", Float(f64::to_degrees)),
    function("rad", "rad(degrees)", Float(f64::to_radians)),
    // The names that other calculators and languages use.
    function("degrees", "degrees(radians)", Float(f64::to_degrees)),
    function("radians", "radians(degrees)", Float(f64::to_radians)),
];

impl Function {
    /// Finds a function by its name in lower case.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        FUNCTIONS.iter().find(|function| function.name == name)
    }

    /// Returns all names, separated by commas.
    pub(super) fn names() -> String {
        FUNCTIONS.iter().map(|function| function.name).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn apply(&self, arguments: &[Number]) -> Result<Number, Fault> {
        let result = match (&self.compute, arguments) {
            (Float(compute), [x]) => Number::from_f64(compute(x.to_f64())),
            (One(compute), [x]) => compute(*x),
            (Two(compute), [x, y]) => compute(*x, *y),
            (OneOrTwo(compute), [x]) => compute(*x, None),
            (OneOrTwo(compute), [x, y]) => compute(*x, Some(*y)),
            (Fold(compute), [only]) => compute(*only, *only),
            (Fold(compute), [first, rest @ ..]) => {
                rest.iter().try_fold(*first, |so_far, next| compute(so_far, *next))
            }
            _ => return Err(Fault::Arity { given: arguments.len(), usage: self.usage }),
        };
        // A float function knows only that it has no result; which call it was is known here.
        result.map_err(|fault| match fault {
            Fault::NotReal(_) => Fault::NotReal(self.shown(arguments)),
            other => other,
        })
    }

    fn shown(&self, arguments: &[Number]) -> String {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        format!("{}({})", self.name, arguments.join(", "))
    }
}

/// The fault of a function that has no result for its arguments; [`Function::apply`] names them.
fn no_result() -> Fault {
    Fault::NotReal(String::new())
}

fn square_root(x: Number) -> Result<Number, Fault> {
    if let Number::Integer(square) = x
        && let Some(root) = square.checked_isqrt()
        && root.checked_mul(root) == Some(square)
    {
        return Ok(Number::Integer(root));
    }
    Number::from_f64(x.to_f64().sqrt())
}

fn absolute(x: Number) -> Number {
    if x.to_f64() < 0.0 { x.negated() } else { x }
}

fn sign(x: Number) -> Number {
    let order = x.compare(Number::Integer(0)) as i8;
    Number::Integer(order.into())
}

fn logarithm(x: Number, compute: fn(f64) -> f64) -> Result<Number, Fault> {
    let x = x.to_f64();
    if x > 0.0 { Number::from_f64(compute(x)) } else { Err(no_result()) }
}

fn log(x: Number, base: Option<Number>) -> Result<Number, Fault> {
    let base = match base {
        None | Some(Number::Integer(10)) => return logarithm(x, f64::log10),
        Some(Number::Integer(2)) => return logarithm(x, f64::log2),
        Some(Number::Integer(..=1)) => return Err(no_result()),
        Some(base) => base.to_f64(),
    };
    if base < 0.0 {
        return Err(no_result());
    }
    let ln = logarithm(x, f64::ln)?.to_f64();
    let quotient = ln / base.ln();
    // The quotient of two rounded logarithms may miss an exact power by a digit.
    let nearest = quotient.round();
    let exact = base.powf(nearest).to_bits() == x.to_f64().to_bits();
    Number::from_f64(if exact { nearest } else { quotient })
}

fn whole(x: Number, compute: fn(f64) -> f64) -> Result<Number, Fault> {
    match x {
        Number::Integer(_) => Ok(x),
        Number::Float(value) => Number::from_f64(compute(value)),
    }
}

/// Rounds the decimal number that a reader sees, halves away from zero: `round(2.675, 2)` is 2.68
/// although the float lies a little below.
fn round(x: Number, digits: Option<Number>) -> Result<Number, Fault> {
    let out_of_range = |given: Number| Fault::OutOfRange {
        what: "the number of digits",
        range: "an integer from -300 to 300",
        given: given.to_string(),
    };
    let digits = match digits {
        None => 0,
        Some(Number::Integer(digits @ -300..=300)) => digits,
        Some(other) => return Err(out_of_range(other)),
    };
    let (mantissa, exponent) = decimal(x)?;
    // The number of decimal digits of the mantissa that have to go.
    let drop = -exponent - digits;
    if drop <= 0 {
        return Ok(x);
    }
    let unit = u32::try_from(drop).ok().and_then(|drop| 10_i128.checked_pow(drop));
    let Some(unit) = unit else { return Ok(Number::Integer(0)) };
    let rest = (mantissa % unit).abs();
    let away = if rest >= unit - rest { mantissa.signum() } else { 0 };
    let rounded = mantissa / unit + away;
    if digits <= 0 {
        let scale = u32::try_from(-digits).ok().and_then(|places| 10_i128.checked_pow(places));
        if let Some(exact) = scale.and_then(|scale| rounded.checked_mul(scale)) {
            return Ok(Number::Integer(exact));
        }
    }
    let text = format!("{rounded}e{}", -digits);
    Number::from_f64(text.parse().map_err(|_| Fault::Overflow)?)
}

/// Splits a number into the integer of its decimal digits and a power of ten.
fn decimal(x: Number) -> Result<(i128, i128), Fault> {
    let value = match x {
        Number::Integer(value) => return Ok((value, 0)),
        Number::Float(value) => value,
    };
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').ok_or_else(no_result)?;
    let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{places}").parse().map_err(|_| no_result())?;
    let exponent: i128 = exponent.parse().map_err(|_| no_result())?;
    let places = i128::try_from(places.len()).map_err(|_| no_result())?;
    Ok((digits, exponent - places))
}

fn integer(what: &'static str, x: Number) -> Result<i128, Fault> {
    match x {
        Number::Integer(value) => Ok(value),
        Number::Float(_) => Err(Fault::NotInteger { what, given: x.to_string() }),
    }
}

fn gcd(a: Number, b: Number) -> Result<Number, Fault> {
    let (mut a, mut b) = (integer("gcd", a)?, integer("gcd", b)?);
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    Ok(absolute(Number::Integer(a)))
}

fn lcm(a: Number, b: Number) -> Result<Number, Fault> {
    let (a, b) = (integer("lcm", a)?, integer("lcm", b)?);
    if a == 0 || b == 0 {
        return Ok(Number::Integer(0));
    }
    let divisor = gcd(Number::Integer(a), Number::Integer(b))?;
    let quotient = Number::Integer(a).over(divisor)?;
    Ok(absolute(quotient.times(Number::Integer(b))?))
}
