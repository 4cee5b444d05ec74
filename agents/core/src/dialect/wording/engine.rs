//! The template engine as we use it: what a template may name, how values are written, what bounds
//! it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};
use wire::plan::Text;

use super::fact::{self, Fact};
use super::filter;

/// The most bytes of one rendered text. A result of 1 MiB is a large one, and a text may quote it a
/// few times; a template that writes more repeats itself by mistake.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// The most instructions that a template may take, about a tenth of a second; a text that tells
/// of 64 tools with 20 parameters each takes some ten thousand.
const INSTRUCTIONS_MAX: u64 = 2_000_000;

/// What is wrong, and the bytes of the template that are at fault.
pub(super) type Fault = (String, Option<Range<usize>>);

/// A compiled template, and what it needs to know.
#[derive(Clone, Debug)]
pub(super) struct Template {
    pub(super) environment: Arc<Environment<'static>>,
    pub(super) text: Text,
    pub(super) uses: Vec<Fact>,
    pub(super) short: Short,
}

/// What of a template can be written without the engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Short {
    plain: Option<Plain>,
    /// What it writes where all its facts are empty texts, as a question about a thought does in a
    /// team without a thinker, at every step.
    blank: Option<String>,
}

/// A template that writes one fact and nothing but plain text around it, as most do: it needs no
/// engine.
#[derive(Clone, Debug)]
struct Plain {
    before: String,
    fact: Fact,
    after: String,
}

impl Plain {
    fn of(source: &str, uses: &[Fact]) -> Option<Self> {
        let [fact] = uses else { return None };
        let (before, rest) = source.split_once("{{")?;
        let (name, after) = rest.split_once("}}")?;
        let is_text = |text: &str| !text.contains(['{', '}', '\r']);
        let is_plain = is_text(before) && is_text(after) && name.trim() == fact.as_str();
        is_plain.then(|| Self { before: before.to_owned(), fact: *fact, after: after.to_owned() })
    }

    fn render(&self, value: &Value) -> Option<String> {
        let text = value.as_str()?;
        let bytes = self.before.len() + text.len() + self.after.len();
        (bytes <= TEXT_BYTES_MAX).then(|| [self.before.as_str(), text, &self.after].concat())
    }
}

impl Template {
    /// Renders the template with the facts that it uses.
    pub(super) fn render(&self, value: impl Fn(Fact) -> Value) -> Result<String, Fault> {
        let Short { plain, blank } = &self.short;
        let plain = plain.as_ref().and_then(|plain| plain.render(&value(plain.fact)));
        if let Some(rendered) = plain {
            return Ok(rendered);
        }
        let context: Context<'_> =
            self.uses.iter().map(|fact| (fact.as_str(), value(*fact))).collect();
        match blank {
            Some(blank) if context.values().all(|value| value.as_str() == Some("")) => {
                Ok(blank.clone())
            }
            Some(_) | None => {
                let template = self.environment.get_template(self.text.as_str());
                written(&template.map_err(|error| fault(&error))?, context)
            }
        }
    }
}

/// The facts that a template uses, by their names.
type Context<'f> = BTreeMap<&'f str, Value>;

/// Has the engine write a template.
fn written(template: &minijinja::Template<'_, '_>, context: Context<'_>) -> Result<String, Fault> {
    let mut written = Bounded(Vec::new());
    match template.render_captured_to(Value::from(context), &mut written) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::WriteFailure => {
            return Err((format!("the text has more than {TEXT_BYTES_MAX} bytes"), None));
        }
        Err(error) => return Err(fault(&error)),
    }
    // Only whole strings are written, so that this cannot fail.
    String::from_utf8(written.0).map_err(|error| (error.to_string(), None))
}

/// Makes an environment without templates.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // A name that is not known is refused when it is written; asking for it is fine, since keys of
    // a schema may be absent.
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(INSTRUCTIONS_MAX));
    environment.set_debug(false);
    environment.remove_global("debug");
    environment.set_formatter(|out, _, value| {
        let written = match value.as_str() {
            Some(text) => out.write_str(text),
            None => out.write_str(&filter::compact(value)?),
        };
        written.map_err(|_| Error::from(ErrorKind::WriteFailure))
    });
    environment.add_filter("tojson", filter::to_json);
    environment.add_filter("python", filter::python);
    if let Ok(syntax) = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
    {
        environment.set_syntax(syntax);
    }
    environment
}

/// Compiles a template and returns the facts that it uses, and what of it is written without the
/// engine.
pub(super) fn add(
    environment: &mut Environment<'static>,
    text: Text,
    source: &str,
) -> Result<(Vec<Fact>, Short), Fault> {
    environment
        .add_template_owned(text.as_str(), source.to_owned())
        .map_err(|error| fault(&error))?;
    let template = environment.get_template(text.as_str()).map_err(|error| fault(&error))?;
    let mut unknown: Vec<String> = Vec::new();
    let mut uses = Vec::new();
    for word in template.undeclared_variables(false) {
        match fact::facts(text).find(|fact| fact.as_str() == word) {
            Some(fact) => uses.push(fact),
            None if environment.globals().any(|(global, _)| global == word) => {}
            None if is_set(source, &word) => {}
            None => unknown.push(word),
        }
    }
    unknown.sort();
    let Some(first) = unknown.first() else {
        let nothing = uses.iter().map(|fact| (fact.as_str(), Value::from(""))).collect();
        let (plain, blank) = (Plain::of(source, &uses), written(&template, nothing).ok());
        return Ok((uses, Short { plain, blank }));
    };
    let known: Vec<&str> = fact::facts(text).map(Fact::as_str).collect();
    let message = format!("the name `{first}` is not known here; known are {}", known.join(", "));
    Err((message, place(source, first)))
}

/// Tells whether a template gives a name a meaning itself. The engine does not follow names out of
/// the branch in which they are set.
fn is_set(source: &str, word: &str) -> bool {
    let tags = source.split("{%").skip(1).filter_map(|rest| rest.split("%}").next());
    tags.map(|tag| tag.trim_start_matches(['-', '+']).trim()).any(|tag| {
        let names = match (tag.strip_prefix("set "), tag.strip_prefix("macro ")) {
            (Some(set), _) => set.split(['=', '|']).next(),
            (None, Some(defined)) => defined.split('(').next(),
            (None, None) => None,
        };
        names.unwrap_or_default().split(',').any(|name| name.trim() == word)
    })
}

/// Finds a word inside of a tag.
fn place(source: &str, word: &str) -> Option<Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    source.match_indices(word).map(|(at, _)| at..at + word.len()).find(|span| {
        let before = source.get(..span.start).unwrap_or_default();
        let after = source.get(span.end..).unwrap_or_default();
        let opened = before.rfind("{{").max(before.rfind("{%"));
        let closed = before.rfind("}}").max(before.rfind("%}"));
        opened > closed
            && !before.ends_with(|c| is_word(c) || matches!(c, '.' | '"' | '\''))
            && !after.starts_with(is_word)
    })
}

fn fault(error: &Error) -> Fault {
    let message = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => {
            format!("it takes more than {INSTRUCTIONS_MAX} instructions; a loop is too long")
        }
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    (message, error.range())
}

/// Takes what a template writes, up to [`TEXT_BYTES_MAX`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_BYTES_MAX {
            return Err(io::Error::other("the text is too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_engine_is_what_the_engine_writes() {
        let cases = [
            ("{{ request }}", true),
            ("{{request}}\n", true),
            ("Task:\n\n {{ request }} \nend\n", true),
            ("", false),
            ("{{- request }}", false),
            ("{{ request | tojson }}", false),
            ("{{ request }}{{ request }}", false),
            ("{% if first %}{{ request }}{% endif %}", false),
            ("a {# b #} {{ request }}", false),
        ];
        for (source, is_plain) in cases {
            let mut environment = environment();
            let (uses, short) = add(&mut environment, Text::Request, source).unwrap();
            assert_eq!(short.plain.is_some(), is_plain, "{source}");
            assert!(short.blank.is_some(), "{source}");
            let (environment, text) = (Arc::new(environment), Text::Request);
            let template = Template { environment, text, uses, short };
            let by_engine = Template { short: Short::default(), ..template.clone() };
            for value in [Value::from(" a {{ b }} \n"), Value::from(""), Value::from(7)] {
                let text = |_| value.clone();
                assert_eq!(template.render(text), by_engine.render(text), "{source}");
            }
        }
    }
}
