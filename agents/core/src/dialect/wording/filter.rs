//! Writes values as JSON and as Python.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use serde_json::{Map, Number};

/// Levels of lists and maps that are written; JSON that was parsed has no more.
const DEPTH_MAX: usize = 128;

/// Spaces by which a level of `tojson` may stand in.
const INDENT_MAX: usize = 16;

/// Writes a value as JSON without any space, as a value that is no text stands in a prompt.
pub(super) fn compact(value: &Value) -> Result<String, Error> {
    Ok(json(value, DEPTH_MAX)?.to_string())
}

/// Writes a value as JSON with a space after each comma and colon, or with `indent=n` over several
/// lines; with `ascii=true` every other character is escaped. This is how Python writes JSON.
#[expect(clippy::needless_pass_by_value, reason = "the engine gives options by value")]
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ascii")?;
    options.assert_all_used()?;
    if indent.is_some_and(|indent| indent > INDENT_MAX) {
        let message = format!("an indent has at most {INDENT_MAX} spaces");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let mut writer =
        Writer { out: String::new(), indent, ascii: ascii == Some(true), language: Language::Json };
    writer.value(&json(value, DEPTH_MAX)?, 0);
    Ok(writer.out)
}

/// Writes a value as Python would show it: `{'title': 'Movie', 'year': None}`.
pub(super) fn python(value: &Value) -> Result<String, Error> {
    let mut writer =
        Writer { out: String::new(), indent: None, ascii: false, language: Language::Python };
    writer.value(&json(value, DEPTH_MAX)?, 0);
    Ok(writer.out)
}

/// Takes a value of the engine apart; what is not known or no data is an error.
fn json(value: &Value, depth: usize) -> Result<serde_json::Value, Error> {
    let no_data = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(no_data(format!("a value has more than {DEPTH_MAX} levels")));
    };
    Ok(match value.kind() {
        ValueKind::None => serde_json::Value::Null,
        ValueKind::Bool => value.is_true().into(),
        ValueKind::Number => number(value)
            .map(serde_json::Value::Number)
            .ok_or_else(|| no_data(format!("the number {value} is none of JSON")))?,
        ValueKind::String => value.as_str().unwrap_or_default().into(),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.map(|item| json(&item, deeper));
            serde_json::Value::Array(items.collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter()? {
                let name = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                map.insert(name, json(&value.get_item(&key)?, deeper)?);
            }
            map.into()
        }
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        kind => return Err(no_data(format!("a {kind} is no data"))),
    })
}

fn number(value: &Value) -> Option<Number> {
    if value.is_integer() {
        let signed = i64::try_from(value.clone()).map(Number::from).ok();
        return signed.or_else(|| u64::try_from(value.clone()).map(Number::from).ok());
    }
    f64::try_from(value.clone()).ok().and_then(Number::from_f64)
}

enum Language {
    Json,
    Python,
}

struct Writer {
    out: String,
    indent: Option<usize>,
    ascii: bool,
    language: Language,
}

impl Writer {
    fn value(&mut self, value: &serde_json::Value, level: usize) {
        match (value, &self.language) {
            (serde_json::Value::Null, Language::Python) => self.out.push_str("None"),
            (serde_json::Value::Bool(true), Language::Python) => self.out.push_str("True"),
            (serde_json::Value::Bool(false), Language::Python) => self.out.push_str("False"),
            (serde_json::Value::Number(number), Language::Python) => {
                self.out.push_str(&python_number(number));
            }
            (
                serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_),
                Language::Json,
            ) => self.out.push_str(&value.to_string()),
            (serde_json::Value::String(text), _) => self.text(text),
            (serde_json::Value::Array(items), _) => {
                self.list(['[', ']'], items, level, |writer, item| writer.value(item, level + 1));
            }
            (serde_json::Value::Object(map), _) => {
                self.list(['{', '}'], map, level, |writer, (key, value)| {
                    writer.text(key);
                    writer.out.push_str(": ");
                    writer.value(value, level + 1);
                });
            }
        }
    }

    fn list<I: IntoIterator<IntoIter: ExactSizeIterator>>(
        &mut self,
        [open, close]: [char; 2],
        items: I,
        level: usize,
        mut write: impl FnMut(&mut Self, I::Item),
    ) {
        let items = items.into_iter();
        let is_empty = items.len() == 0;
        self.out.push(open);
        for (index, item) in items.enumerate() {
            match self.indent {
                Some(_) if index > 0 => self.out.push(','),
                None if index > 0 => self.out.push_str(", "),
                Some(_) | None => {}
            }
            self.line(level + 1);
            write(self, item);
        }
        if !is_empty {
            self.line(level);
        }
        self.out.push(close);
    }

    /// Begins a line, if there are lines.
    fn line(&mut self, level: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * level));
        }
    }

    fn text(&mut self, text: &str) {
        match self.language {
            Language::Python => python_text(&mut self.out, text),
            Language::Json => {
                let written = serde_json::Value::from(text).to_string();
                if !self.ascii {
                    self.out.push_str(&written);
                    return;
                }
                for c in written.chars() {
                    if c.is_ascii() {
                        self.out.push(c);
                    } else {
                        for unit in c.encode_utf16(&mut [0; 2]) {
                            write_hex(&mut self.out, 'u', 4, u32::from(*unit));
                        }
                    }
                }
            }
        }
    }
}

fn write_hex(out: &mut String, letter: char, width: u32, code: u32) {
    out.extend(['\\', letter]);
    for digit in (0..width).rev() {
        out.extend(char::from_digit((code >> (4 * digit)) & 0xf, 16));
    }
}

/// Writes a number with a point or an exponent where Python has one.
fn python_number(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    let scientific = format!("{float:e}");
    let exponent = scientific.split_once('e').and_then(|(digits, exponent)| {
        exponent.parse::<i32>().ok().map(|exponent| (digits, exponent))
    });
    match exponent {
        Some((digits, exponent)) if !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        Some(_) | None => format!("{float:?}"),
    }
}

/// Writes a text in single quotes, or in double ones if that spares a backslash.
fn python_text(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if is_shown(c) => out.push(c),
            c => match u32::from(c) {
                code @ 0..=0xff => write_hex(out, 'x', 2, code),
                code @ 0x100..=0xffff => write_hex(out, 'u', 4, code),
                code => write_hex(out, 'U', 8, code),
            },
        }
    }
    out.push(quote);
}

/// Tells whether a character beyond ASCII has a shape of its own; Rust's debug form knows.
fn is_shown(c: char) -> bool {
    // A mark that joins the letter before it is escaped only where there is none.
    let escaped = format!("a{c}").escape_debug().count() > 2;
    !escaped && !c.is_whitespace()
}

#[cfg(test)]
mod tests {
    use minijinja::value::Serde;
    use serde_json::json;

    use super::super::engine;

    #[test]
    fn values_are_written_in_three_ways() {
        let value = json!({"a": [1, 2.0, 1e+16, 1.5e-7, -0.5, null, true], "é": {}, "l": [],
                           "q": "it's", "d": "say \"x\"", "b": "it's \"x\"\n\u{200b}\u{1f600}"});
        let cases = [
            (
                "{{ v }}",
                r#"{"a":[1,2.0,1e+16,1.5e-7,-0.5,null,true],"é":{},"l":[],"q":"it's","d":"say \"x\"","b":"it's \"x\"\nZ😀"}"#,
            ),
            (
                "{{ v | tojson }}",
                r#"{"a": [1, 2.0, 1e+16, 1.5e-7, -0.5, null, true], "é": {}, "l": [], "q": "it's", "d": "say \"x\"", "b": "it's \"x\"\nZ😀"}"#,
            ),
            ("{{ v.b | tojson(ascii=true) }}", r#""it's \"x\"\n\u200b\ud83d\ude00""#),
            (
                "{{ {'x': [], 'y': [1, {}], 'z': {'k': 1}} | tojson(indent=2) }}",
                "{\n  \"x\": [],\n  \"y\": [\n    1,\n    {}\n  ],\n  \"z\": {\n    \"k\": 1\n  }\n}",
            ),
            (
                "{{ v | python }}",
                r#"{'a': [1, 2.0, 1e+16, 1.5e-07, -0.5, None, True], 'é': {}, 'l': [], 'q': "it's", 'd': 'say "x"', 'b': 'it\'s "x"\n\u200b😀'}"#,
            ),
            ("{{ '<&>' | tojson }}", "\"<&>\""),
            ("{{ [1, 2] | map('string') | list }}", r#"["1","2"]"#),
            ("{{ none }} {{ true }} {{ 1 }} {{ 'x' }}", "null true 1 x"),
        ];
        let environment = engine::environment();
        for (template, expected) in cases {
            let context = minijinja::context! { v => minijinja::Value::from(Serde(&value)) };
            let rendered = environment.render_str(template, context).unwrap();
            // A character without width, which is better not seen in a source.
            assert_eq!(rendered, expected.replace('Z', "\u{200b}"), "{template}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let environment = engine::environment();
        for template in [
            "{{ v.x }}",
            "{{ {'a': v.x} }}",
            "{{ v.x | tojson }}",
            "{{ range }}",
            "{{ v | tojson(indent=99) }}",
            "{{ v | tojson(colour=1) }}",
            "{% set n = namespace(x=[]) %}{% for i in range(200) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
        ] {
            let context = minijinja::context! { v => minijinja::context! { y => 1 } };
            assert!(environment.render_str(template, context).is_err(), "{template}");
        }
    }
}
