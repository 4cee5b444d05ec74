//! How results become the text that a model reads: rows as JSON, or a template.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Enumerator, Object, Serde};
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};
use serde_json::{Map, Value, json};

use super::database::{Columns, Described, ResultSet, Results};

/// The name by which errors speak of the template.
const NAME: &str = "result";

/// The most instructions that the template may take, about a tenth of a second; one that tells of
/// all rows that there is room for takes some hundred thousand.
const INSTRUCTIONS_MAX: u64 = 2_000_000;

/// What a template may name.
const VARIABLES: [&str; 5] = ["rows", "results", "arguments", "changed", "cut"];

/// Rows of a trial rendering, each a number; templates often treat none, one and several apart.
const TRIAL_ROWS: [usize; 3] = [0, 1, 3];

/// Writes results.
pub(crate) struct Form {
    template: Option<Environment<'static>>,
    bytes_max: usize,
}

impl Form {
    /// Compiles a template, if there is one; what is written has at most `bytes_max` bytes.
    pub(crate) fn new(template: Option<&str>, bytes_max: usize) -> Result<Self, String> {
        let compile = |text: &str| {
            let mut environment = Environment::new();
            environment.set_undefined_behavior(UndefinedBehavior::Strict);
            environment.set_fuel(Some(INSTRUCTIONS_MAX));
            let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
            environment.set_syntax(syntax);
            environment.add_template_owned(NAME, text.to_owned())?;
            Ok(environment)
        };
        let template = template.map(compile).transpose().map_err(|error| told(&error))?;
        Ok(Self { template, bytes_max })
    }

    /// Writes what a call returned. Without a template it is the rows of the statement that
    /// returns some, a list of them if several do, or how many rows were changed if none does.
    pub(crate) fn write(
        &self,
        results: &Results,
        arguments: &Map<String, Value>,
    ) -> Result<Value, String> {
        let Some(environment) = &self.template else { return Ok(plain(results)) };
        let shown = |set: &ResultSet| minijinja::Value::from(Serde(&set.rows));
        let first = results.sets.iter().find(|set| set.has_columns);
        let context = context! {
            rows => first.map_or_else(no_rows, shown),
            results => results.sets.iter().map(shown).collect::<minijinja::Value>(),
            arguments => minijinja::Value::from(Serde(arguments)),
            changed => results.changed,
            cut => results.cut.is_some(),
        };
        let mut text = self.render(environment, context).map_err(|error| told(&error))?;
        text.truncate(text.trim_end().len());
        if let Some(cut) = results.cut {
            text.extend(["\n[", &cut.to_text(), "]"]);
        }
        Ok(Value::String(text))
    }

    fn render(
        &self,
        environment: &Environment<'_>,
        context: minijinja::Value,
    ) -> Result<String, minijinja::Error> {
        let mut written = Bounded { text: Vec::new(), room: self.bytes_max, is_full: false };
        let done = environment.get_template(NAME)?.render_captured_to(context, &mut written);
        if let Err(error) = done
            && !written.is_full
        {
            return Err(error);
        }
        let mut text = String::from_utf8_lossy(&written.text).into_owned();
        if written.is_full {
            // The last character may have been cut in two.
            text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
            text.extend(["\n[cut after ", &self.bytes_max.to_string(), " bytes]"]);
        }
        Ok(text)
    }

    /// Tells what the template names that is not there, by rendering it with made-up rows.
    pub(crate) fn check(&self, statements: &[Described], parameters: &[&str]) -> Vec<String> {
        let Some(environment) = &self.template else { return Vec::new() };
        let template = match environment.get_template(NAME) {
            Ok(template) => template,
            Err(error) => return vec![told(&error)],
        };
        let named = template.undeclared_variables(false);
        let globals: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
        let strange = |name: &&String| {
            !VARIABLES.contains(&name.as_str()) && !globals.contains(name.as_str())
        };
        let strange: BTreeSet<&String> = named.iter().filter(strange).collect();
        let mut faults: BTreeSet<String> = strange
            .into_iter()
            .map(|name| format!("`{name}` is none of {}", VARIABLES.join(", ")))
            .collect();
        for rows in TRIAL_ROWS {
            for value in [minijinja::Value::from(()), minijinja::Value::from("x")] {
                let unknown = Unknown::default();
                let context = trial_context(statements, parameters, rows, &value, &unknown);
                let done = self.render(environment, context);
                faults.append(&mut unknown.lock().unwrap_or_else(PoisonError::into_inner));
                // Other errors may come from the made-up values.
                if let Err(error) = done
                    && matches!(
                        error.kind(),
                        ErrorKind::OutOfFuel
                            | ErrorKind::UnknownFilter
                            | ErrorKind::UnknownTest
                            | ErrorKind::UnknownFunction
                            | ErrorKind::TemplateNotFound
                    )
                {
                    faults.insert(told(&error));
                }
            }
        }
        faults.into_iter().collect()
    }

    /// Tells whether there is a template, which may compute for long.
    pub(crate) const fn has_template(&self) -> bool {
        self.template.is_some()
    }

    /// Tells whether the text uses the arguments.
    pub(crate) fn uses_arguments(&self) -> bool {
        let template = self.template.as_ref().and_then(|them| them.get_template(NAME).ok());
        template.is_some_and(|template| template.undeclared_variables(false).contains("arguments"))
    }
}

/// Makes JSON of results.
fn plain(results: &Results) -> Value {
    let returned: Vec<&ResultSet> = results.sets.iter().filter(|set| set.has_columns).collect();
    let (name, value) = match returned.as_slice() {
        [] => return json!({"changed": results.changed}),
        [only] => ("rows", json!(only.rows)),
        several => ("results", several.iter().map(|set| json!(set.rows)).collect()),
    };
    match results.cut {
        None => value,
        Some(cut) => json!({name: value, "cut": cut.to_text()}),
    }
}

/// Says what is wrong with a template, and on which line.
fn told(error: &minijinja::Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return format!("it takes more than {INSTRUCTIONS_MAX} instructions; a loop is too long");
    }
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    let line = error.line().map(|line| format!(" on line {line}")).unwrap_or_default();
    format!("{}{detail}{line}", error.kind())
}

/// Takes bytes until there is no more room.
struct Bounded {
    text: Vec<u8>,
    room: usize,
    is_full: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.get(..self.room).unwrap_or(bytes);
        self.text.extend_from_slice(taken);
        self.room -= taken.len();
        if taken.len() < bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::WriteZero.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a trial rendering asked for in vain.
type Unknown = Arc<Mutex<BTreeSet<String>>>;

/// Stands for a row or for the arguments in a trial rendering, and notes what it does not have.
struct Known {
    what: String,
    fields: BTreeMap<String, minijinja::Value>,
    /// Stands for every other field, where their names are not known.
    open: Option<minijinja::Value>,
    unknown: Unknown,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.fields).finish()
    }
}

impl Object for Known {
    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        let name = key.as_str()?;
        let found = self.fields.get(name).or(self.open.as_ref());
        if found.is_none() {
            let fault = format!("`{name}` is not in {}", self.what);
            self.unknown.lock().unwrap_or_else(PoisonError::into_inner).insert(fault);
        }
        found.cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.fields.keys().map(minijinja::Value::from).collect())
    }
}

fn trial_context(
    statements: &[Described],
    parameters: &[&str],
    rows: usize,
    value: &minijinja::Value,
    unknown: &Unknown,
) -> minijinja::Value {
    let known = |what: String, names: &mut dyn Iterator<Item = &str>, is_open: bool| {
        let fields = names.map(|name| (name.to_owned(), value.clone())).collect();
        let open = is_open.then(|| value.clone());
        minijinja::Value::from_object(Known { what, fields, open, unknown: unknown.clone() })
    };
    let set = |(number, statement): (usize, &Described)| -> minijinja::Value {
        let what = format!("the rows of statement {number}");
        let columns = &statement.columns;
        let rows = if columns.has_some() { rows } else { 0 };
        let names = || columns.known().iter().map(String::as_str);
        let row = || known(what.clone(), &mut names(), *columns == Columns::Open);
        (0..rows).map(|_| row()).collect()
    };
    let numbered = || (1..).zip(statements);
    let first = numbered().find(|(_, statement)| statement.columns.has_some());
    context! {
        rows => first.map_or_else(no_rows, set),
        results => numbered().map(set).collect::<minijinja::Value>(),
        arguments => known("the arguments".to_owned(), &mut parameters.iter().copied(), false),
        changed => 1,
        cut => false,
    }
}

fn no_rows() -> minijinja::Value {
    minijinja::Value::from(Serde([(); 0]))
}
