use proptest::prelude::*;
use serde_json::{Value, json};

use super::{EXPRESSION_BYTES_MAX, NESTING_MAX, Number, evaluate};

fn check(expression: &str, expected: &Value) {
    match evaluate(expression) {
        Ok(number) => assert_eq!(number.to_value(), *expected, "{expression}"),
        Err(error) => panic!("{expression}: {error}"),
    }
}

#[test]
fn operators_bind_as_documented() {
    let cases = [
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("10 - 4 - 3", json!(3)),
        ("100 / 10 / 5", json!(2)),
        ("7 / 2", json!(3.5)),
        ("-2^2", json!(-4)),
        ("-2**2", json!(-4)),
        ("(-2)^2", json!(4)),
        ("2^-1", json!(0.5)),
        ("2^-2^2", json!(0.0625)),
        ("2^3^2", json!(512)),
        ("2 ** 3 ** 2", json!(512)),
        ("2^10", json!(1024)),
        ("--3", json!(3)),
        ("2 - -3", json!(5)),
        ("2 * -3 + 1", json!(-5)),
        ("3!", json!(6)),
        ("-3!", json!(-6)),
        ("2^3!", json!(64)),
        ("3!^2", json!(36)),
        ("7 % 3", json!(1)),
        ("-7 % 3", json!(2)),
        ("7 % (-3)", json!(-2)),
        ("7.5 % 2", json!(1.5)),
        ("2 * 7 % 4", json!(2)),
        ("6 × 7 ÷ 2 − 1", json!(20)),
        ("\u{a0}1\t+\n1 ", json!(2)),
    ];
    for (expression, expected) in cases {
        check(expression, &expected);
    }
}

#[test]
fn integers_stay_exact_and_print_as_integers() {
    let cases = [
        ("2^62 + 1", json!(4_611_686_018_427_387_905_u64)),
        ("2^64 - 1", json!(u64::MAX)),
        ("-2^63", json!(i64::MIN)),
        ("2^100", json!("1267650600228229401496703205376")),
        ("9007199254740993 * 3", json!(27_021_597_764_222_979_u64)),
        ("10^20 / 10^18", json!(100)),
        ("sqrt(2^80)", json!(1_099_511_627_776_u64)),
        ("20!", json!(2_432_902_008_176_640_000_u64)),
        ("0.5 + 0.5", json!(1)),
        ("sqrt(16)", json!(4)),
        ("1e3", json!(1000)),
        ("-0.0", json!(0)),
        ("2^200", json!(1.606_938_044_258_990_3e60)),
    ];
    for (expression, expected) in cases {
        check(expression, &expected);
    }
}

#[test]
fn floats_print_in_their_shortest_form() {
    let cases = [
        ("0.1 + 0.2", "0.30000000000000004"),
        (".5 * 5.", "2.5"),
        ("1.5e-3", "0.0015"),
        ("1e300 * 10", "1e+301"),
        ("3.7 * 0.539957", "1.9978409000000001"),
        ("(2 * 5) ** 0.8 / 2", "3.1547867224009667"),
        ("34.51 * 12.99", "448.2849"),
    ];
    for (expression, expected) in cases {
        assert_eq!(evaluate(expression).map(|n| n.to_string()), Ok(expected.to_owned()));
    }
    let age = evaluate("25^0.24").map(Number::to_f64).unwrap();
    assert_eq!(format!("{age:.5}"), "2.16524");
    check("round(25^0.24, 5)", &json!(2.16524));
}

#[test]
fn every_function_computes() {
    let cases = [
        ("cbrt(27)", json!(3)),
        ("abs(-2^100)", json!("1267650600228229401496703205376")),
        ("sign(-0.2) + sign(0) + sign(7)", json!(0)),
        ("exp(0) + ln(e)", json!(2)),
        ("log(1000)", json!(3)),
        ("log10(0.01)", json!(-2)),
        ("log2(1024)", json!(10)),
        ("log(1000, 10)", json!(3)),
        ("log(243, 3)", json!(5)),
        ("log(0.25, 0.5)", json!(2)),
        ("round(sin(pi / 6), 12)", json!(0.5)),
        ("cos(0) + tan(0)", json!(1)),
        ("deg(asin(1))", json!(90)),
        ("acos(1) + atan(0)", json!(0)),
        ("atan2(0, -1) - pi", json!(0)),
        ("sinh(0) + cosh(0) + tanh(0)", json!(1)),
        ("floor(-2.5)", json!(-3)),
        ("ceil(-2.5)", json!(-2)),
        ("trunc(-2.5)", json!(-2)),
        ("round(2.5)", json!(3)),
        ("round(-2.5)", json!(-3)),
        ("round(2.675, 2)", json!(2.68)),
        ("round(1.005, 2)", json!(1.01)),
        ("round(1234, -2)", json!(1200)),
        ("round(1250, -2)", json!(1300)),
        ("round(0.3, 5)", json!(0.3)),
        ("round(1e-20, 3)", json!(0)),
        ("round(49, -300)", json!(0)),
        ("round(2^126, -38)", json!("100000000000000000000000000000000000000")),
        ("min(3, 1.5, 2)", json!(1.5)),
        ("max(2^62, 2^62 + 1)", json!(4_611_686_018_427_387_905_u64)),
        ("max(4)", json!(4)),
        ("pow(2, 3)", json!(8)),
        ("hypot(3, 4)", json!(5)),
        ("mod(-7, 3)", json!(2)),
        ("gcd(12, -18)", json!(6)),
        ("gcd(-4)", json!(4)),
        ("gcd(12, 18, 8)", json!(2)),
        ("lcm(4, 6)", json!(12)),
        ("lcm(0, 6)", json!(0)),
        ("factorial(5)", json!(120)),
        ("degrees(pi) - deg(pi)", json!(0)),
        ("rad(180) - radians(180)", json!(0)),
        ("tau - 2 * π", json!(0)),
        ("SQRT(PI * 0 + 4)", json!(2)),
    ];
    for (expression, expected) in cases {
        check(expression, &expected);
    }
}

#[test]
fn faults_name_the_place_and_the_cure() {
    let cases = [
        ("", 1, "expected a number, a name or '(', found the end"),
        ("   ", 4, "found the end"),
        ("1 +", 4, "found the end"),
        ("1 + * 2", 5, "found '*'"),
        ("(1 + 2", 7, "expected ')' for the '(' at character 1, found the end"),
        ("1 + 2)", 6, "')' without '('"),
        ("(1 2)", 4, "expected an operator or ')', found the number 2"),
        ("2pi", 2, "expected an operator, found the name \"pi\""),
        ("2(3)", 2, "expected an operator, found '('"),
        ("pi(3)", 3, "expected an operator, found '('"),
        ("2e", 2, "found the name \"e\""),
        ("1,500", 2, "write 1000 for 1,000"),
        ("(1,500)", 3, "write 1000 for 1,000"),
        ("1,000", 3, "write digits without separators"),
        ("max(1,050)", 7, "\"050\" is no number"),
        ("1_000", 1, "\"1_000\" is no number"),
        ("1.2.3", 1, "\"1.2.3\" is no number"),
        ("2 * .", 5, "\".\" is no number"),
        ("1 = 1", 3, "unexpected '='"),
        ("2 + €5", 5, "unexpected '€'"),
        ("sqrt 4", 6, "expected '(' after the function's name, as in sqrt(x)"),
        ("sqr(4)", 1, "unknown name \"sqr\""),
        ("x + 1", 1, "unknown name \"x\""),
        ("1 + sqrt()", 5, "0 arguments are given, but it is called as sqrt(x)"),
        ("atan2(1)", 1, "called as atan2(y, x)"),
        ("round(1, 2, 3)", 1, "3 arguments are given"),
        ("1 / 0", 3, "division by zero"),
        ("1 / (2 - 2.0)", 3, "division by zero"),
        ("5 % 0", 3, "division by zero"),
        ("0^-1", 2, "division by zero"),
        ("50% + 3", 3, "write /100 for percent"),
        ("5%", 2, "write /100 for percent"),
        ("sqrt(-1)", 1, "sqrt(-1) is not a real number"),
        ("ln(0)", 1, "ln(0) is not a real number"),
        ("log(8, 1)", 1, "log(8, 1) is not a real number"),
        ("log(8, -2.5)", 1, "log(8, -2.5) is not a real number"),
        ("asin(2)", 1, "asin(2) is not a real number"),
        ("1 + (-8)^0.5", 9, "(-8) ^ 0.5 is not a real number"),
        ("10^308 * 10", 8, "too large"),
        ("1e999", 1, "too large"),
        ("exp(1000)", 1, "too large"),
        ("171!", 4, "the factorial takes an integer from 0 to 170, not 171"),
        ("(-1)!", 5, "not -1"),
        ("2.5!", 4, "not 2.5"),
        ("3!!", 2, "write (x!)!"),
        ("gcd(1.5, 2)", 1, "gcd takes integers, not 1.5"),
        ("round(1, 0.5)", 1, "from -300 to 300, not 0.5"),
    ];
    for (expression, position, message) in cases {
        let error = evaluate(expression).expect_err(expression);
        assert_eq!(error.position, position, "{expression}: {error}");
        assert!(error.to_string().contains(message), "{expression}: {error}");
    }
}

#[test]
fn bounds_hold() {
    let parentheses = |depth| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(evaluate(&parentheses(NESTING_MAX)), Ok(Number::Integer(1)));
    for deep in [
        parentheses(NESTING_MAX + 1),
        format!("{}1", "-".repeat(EXPRESSION_BYTES_MAX - 1)),
        vec!["1"; 100].join("^"),
        "abs(".repeat(1000),
    ] {
        let error = evaluate(&deep).expect_err(&deep);
        assert!(error.to_string().contains("nested deeper than 64"), "{error}");
    }
    let wide = vec!["1"; EXPRESSION_BYTES_MAX / 2].join("+");
    assert_eq!(evaluate(&wide), Ok(Number::Integer(2048)));
    let long = "1".repeat(EXPRESSION_BYTES_MAX + 1);
    assert!(evaluate(&long).expect_err("too long").to_string().contains("4096 bytes"));
}

/// An expression as a tree, which says by itself what it is worth and how it is written.
#[derive(Clone, Debug)]
enum Tree {
    Leaf(i32),
    Negated(Box<Tree>),
    Binary(char, Box<Tree>, Box<Tree>),
}

impl Tree {
    /// Returns the exact value, or nothing where it is not an integer.
    fn value(&self) -> Option<i128> {
        match self {
            Self::Leaf(value) => Some((*value).into()),
            Self::Negated(inner) => inner.value()?.checked_neg(),
            Self::Binary(operator, left, right) => {
                let (left, right) = (left.value()?, right.value()?);
                match operator {
                    '+' => left.checked_add(right),
                    '-' => left.checked_sub(right),
                    '*' => left.checked_mul(right),
                    '/' => (right != 0 && left % right == 0).then(|| left / right),
                    '%' => (right != 0)
                        .then(|| left - right * left.div_euclid(right))
                        .map(|rest| if rest != 0 && right < 0 { rest + right } else { rest }),
                    _ => left.checked_pow(u32::try_from(right).ok().filter(|power| *power < 9)?),
                }
            }
        }
    }

    const fn strength(&self) -> u8 {
        match self {
            Self::Leaf(_) => 5,
            Self::Negated(_) => 3,
            Self::Binary('+' | '-', ..) => 1,
            Self::Binary('*' | '/' | '%', ..) => 2,
            Self::Binary(..) => 4,
        }
    }

    /// Writes the tree with parentheses only where it would otherwise be read differently.
    fn text(&self) -> String {
        let grouped = |tree: &Self, least: u8| {
            if tree.strength() < least { format!("({})", tree.text()) } else { tree.text() }
        };
        match self {
            Self::Leaf(value) => value.to_string(),
            Self::Negated(inner) => format!("-{}", grouped(inner, 3)),
            Self::Binary('^', left, right) => {
                format!("{} ^ {}", grouped(left, 5), grouped(right, 3))
            }
            Self::Binary('%', left, right) => {
                format!("{} % {}", grouped(left, 2), grouped(right, 4))
            }
            Self::Binary(operator, left, right) => {
                let strength = self.strength();
                format!("{} {operator} {}", grouped(left, strength), grouped(right, strength + 1))
            }
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    (0..40).prop_map(Tree::Leaf).prop_recursive(5, 24, 2, |inner| {
        let operators = prop::sample::select(vec!['+', '-', '*', '/', '%', '^']);
        prop_oneof![
            1 => inner.clone().prop_map(|tree| Tree::Negated(Box::new(tree))),
            6 => (operators, inner.clone(), inner)
                .prop_map(|(operator, left, right)| {
                    Tree::Binary(operator, Box::new(left), Box::new(right))
                }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_tree_that_computes_itself(tree in tree()) {
        let text = tree.text();
        if let Some(value) = tree.value() {
            prop_assert_eq!(evaluate(&text), Ok(Number::Integer(value)), "{}", text);
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _outcome = evaluate(&text);
    }

    #[test]
    fn anything_made_of_the_right_pieces_ends_finite_or_in_a_fault(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "1", "0", "2.5", "1e300", "9e18", "170", "-", "+", "*", "/", "%", "^", "!", "(", ")",
            ",", "pi", "e", "sqrt(", "log(", "round(", "gcd(", "pow(", "tan(", "exp(", "min(",
        ]), 0..24),
    ) {
        let text = pieces.concat();
        match evaluate(&text) {
            Ok(number) => prop_assert!(number.to_f64().is_finite(), "{}", text),
            Err(error) => prop_assert!(
                (1..=text.chars().count() + 1).contains(&error.position), "{}: {}", text, error
            ),
        }
    }
}
