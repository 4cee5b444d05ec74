//! Checks arguments against the schemas of a plan's tools, and mends what is safe to mend.

mod whole;

use std::sync::{Arc, OnceLock};

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::types::JsonType;
use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Number, Value};
use wire::chat::Head;
use wire::{ModelRole, Plan};

use crate::dialect::Wording;
use whole::{rounded, whole};

/// The most faults that a model is told of at once; more would crowd out what it has to mend.
pub const FAULTS_MAX: usize = 16;
/// The most characters of one fault, since a fault may quote a part of the schema.
pub const FAULT_CHARS_MAX: usize = 300;
/// The most times that arguments are mended and checked again. Each round reaches one level
/// deeper, as text may hold JSON that holds text.
const ROUNDS_MAX: usize = 4;

/// A plan with the schemas of its tools compiled, and its texts as they are needed, for asking a
/// model and reading its reply.
#[derive(Debug)]
pub struct Catalogue {
    plan: Arc<Plan>,
    toolbox: Toolbox,
    wording: Wording,
    /// What the prompts of the thinker and of the actor model begin with, once one was made.
    heads: [OnceLock<Arc<Head>>; 2],
}

impl Catalogue {
    /// Compiles the schemas of a plan. One that does not compile refuses every call; for a text that
    /// does not, our own stands.
    pub fn new(plan: Arc<Plan>) -> Self {
        let mut toolbox = Toolbox::new(plan.coerce);
        for offer in &plan.tools {
            toolbox.add(offer.spec.name.as_str(), Some(offer.spec.parameters.clone()));
        }
        let wording = Wording::new(&plan);
        Self { plan, toolbox, wording, heads: Default::default() }
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Returns the texts that models are told.
    pub(crate) fn wording(&self) -> &Wording {
        &self.wording
    }

    /// Returns what all prompts of a role have in common, which is made once.
    pub(crate) fn head(&self, role: ModelRole, make: impl FnOnce(&Plan) -> Head) -> Arc<Head> {
        let [thinker, actor] = &self.heads;
        let head = match role {
            ModelRole::Thinker => thinker,
            ModelRole::Actor => actor,
        };
        head.get_or_init(|| Arc::new(make(&self.plan))).clone()
    }

    /// Returns what may be called.
    pub fn toolbox(&self) -> &Toolbox {
        &self.toolbox
    }
}

/// The tools that a reply may call.
#[derive(Debug)]
pub struct Toolbox {
    tools: Vec<Known>,
    coerce: bool,
}

impl Default for Toolbox {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Toolbox {
    /// Makes one without tools. `coerce` says whether a text in place of a number, a truth value,
    /// a list or an object is read as such.
    pub const fn new(coerce: bool) -> Self {
        Self { tools: Vec::new(), coerce }
    }

    /// Adds a tool. Without a schema every argument of it is taken.
    pub fn add(&mut self, name: &str, parameters: Option<Value>) {
        let validator = parameters.as_ref().map(validator);
        let coerce = self.coerce;
        self.tools.push(Known { name: name.to_owned(), parameters, validator, coerce });
    }

    /// Finds what is offered under a name, which must match exactly.
    pub(crate) fn find(&self, name: &str) -> Option<&Known> {
        self.tools.iter().find(|known| known.name == name)
    }

    /// Returns the names that may be called.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tools.iter().map(|known| known.name.clone()).collect()
    }
}

/// One tool with its compiled schema.
#[derive(Debug)]
pub(crate) struct Known {
    name: String,
    pub(crate) parameters: Option<Value>,
    validator: Option<Result<Validator, String>>,
    coerce: bool,
}

impl Known {
    /// Returns valid arguments, or those that were given with every fault of theirs.
    pub(crate) fn check(&self, arguments: Value) -> Result<Value, (Value, Vec<String>)> {
        match &self.validator {
            None => Ok(arguments),
            Some(Ok(validator)) => {
                let arguments = whole(validator, check(validator, arguments, self.coerce)?);
                let faults = rounded(validator, &arguments);
                if faults.is_empty() { Ok(arguments) } else { Err((arguments, faults)) }
            }
            Some(Err(message)) => {
                Err((arguments, vec![format!("the tool cannot be called: {message}")]))
            }
        }
    }

    /// Returns what stood between tags, as the values that they are where the schema wants no text:
    /// tags can say nothing else, so that this is no mending. Texts in whose place it wants no free
    /// text, but a number, an object or a word of a list, lose the white space round them.
    pub(crate) fn untagged(
        &self,
        texts: Map<String, Value>,
        value: &dyn Fn(&str) -> Option<Value>,
    ) -> Value {
        let mut arguments = Value::Object(texts);
        let Some(Ok(validator)) = &self.validator else { return arguments };
        let errors = validator.iter_errors(&arguments).filter(|error| wants_no_text(error.kind()));
        let places: Vec<String> =
            errors.map(|error| error.instance_path().as_str().to_owned()).collect();
        for place in places {
            if let Some(Value::String(text)) = arguments.pointer_mut(&place) {
                *text = text.trim().to_owned();
            }
        }
        let mut repairs = Vec::new();
        for error in validator.iter_errors(&arguments) {
            collect(&error, &arguments, value, &mut repairs);
        }
        for (path, repair) in repairs {
            apply(&mut arguments, &path, repair);
        }
        arguments
    }

    /// Returns the name of the parameter, if there is exactly one.
    pub(crate) fn only_parameter(&self) -> Option<&str> {
        let properties = self.parameters.as_ref()?.get("properties")?.as_object()?;
        match properties.len() {
            1 => properties.keys().next().map(String::as_str),
            _ => None,
        }
    }
}

/// Compiles a JSON Schema (2020-12 unless it says otherwise), without fetching anything.
///
/// The error is a sentence that says what is wrong with the schema.
pub fn validator(schema: &Value) -> Result<Validator, String> {
    // What `jsonschema::options` begins is generic, and would make all of the library once more as
    // a part of this crate, whose code is built to be fast and not small.
    jsonschema::draft202012::new(schema)
        .map_err(|error| format!("compile the schema of the parameters: {}", fault(&error)))
}

fn check(
    validator: &Validator,
    arguments: Value,
    coerce: bool,
) -> Result<Value, (Value, Vec<String>)> {
    if validator.is_valid(&arguments) {
        return Ok(arguments);
    }
    mended(validator, &arguments, coerce).ok_or_else(|| {
        let faults = faults(validator, &arguments);
        (arguments, faults)
    })
}

/// Tells whether an error in the place of a text says that another value is wanted there.
fn wants_no_text(kind: &ValidationErrorKind) -> bool {
    matches!(
        kind,
        ValidationErrorKind::Type { .. }
            | ValidationErrorKind::Enum { .. }
            | ValidationErrorKind::Constant { .. }
            | ValidationErrorKind::AnyOf { .. }
            | ValidationErrorKind::OneOfNotValid { .. }
    )
}

/// Lists what is wrong with a value, at most [`FAULTS_MAX`] faults; none if it is valid.
pub fn faults(validator: &Validator, arguments: &Value) -> Vec<String> {
    let mut errors = validator.iter_errors(arguments);
    let mut faults: Vec<String> = errors.by_ref().take(FAULTS_MAX).map(|e| fault(&e)).collect();
    if errors.next().is_some() {
        faults.push("there are more faults".to_owned());
    }
    faults
}

/// Says what is wrong and where. The value itself is not quoted: the model knows what it wrote.
fn fault(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().as_str();
    let text = error.masked().to_string();
    let text = if path.is_empty() { text } else { format!("{path}: {text}") };
    text.chars().take(FAULT_CHARS_MAX).collect()
}

/// Mends arguments where only the notation is wrong. What comes out is valid, or nothing does.
fn mended(validator: &Validator, arguments: &Value, coerce: bool) -> Option<Value> {
    let mut value = arguments.clone();
    for _ in 0..ROUNDS_MAX {
        let mut repairs = Vec::new();
        for error in validator.iter_errors(&value) {
            collect(&error, &value, &json, &mut repairs);
        }
        // A null says that a value is absent, however strictly values are taken.
        repairs.retain(|(_, repair)| coerce || matches!(repair, Repair::Drop));
        // Repairs of deeper places come first, so that no path is cut off by one above it.
        repairs.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let mut changed = false;
        for (path, repair) in repairs {
            changed |= apply(&mut value, &path, repair);
        }
        if !changed {
            return None;
        }
        if validator.is_valid(&value) {
            return Some(value);
        }
    }
    None
}

enum Repair {
    /// The value that the text stands for.
    Replace(Value),
    /// A null for a property that may be left out.
    Drop,
}

/// Reads a text that is JSON and nothing else.
fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Collects what would mend an error, or one of the alternatives that it sums up, where a text is
/// read as the value that it stands for.
fn collect(
    error: &ValidationError<'_>,
    root: &Value,
    read: &dyn Fn(&str) -> Option<Value>,
    repairs: &mut Vec<(String, Repair)>,
) {
    let path = error.instance_path().as_str();
    let Some(found) = root.pointer(path) else { return };
    if found.is_null() && !path.is_empty() {
        repairs.push((path.to_owned(), Repair::Drop));
        return;
    }
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            if let Some(value) = found.as_str().and_then(|text| meant(text, kind, read)) {
                repairs.push((path.to_owned(), Repair::Replace(value)));
            }
        }
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            // The paths inside are those of the whole, so a repair below is found as well.
            for error in context.iter().flatten() {
                collect(error, root, read, repairs);
            }
        }
        _ => {}
    }
}

/// Reads the value that a text stands for, if the schema wants a value of that type there.
fn meant(text: &str, wanted: &TypeKind, read: &dyn Fn(&str) -> Option<Value>) -> Option<Value> {
    let wants = |kind: JsonType| match wanted {
        TypeKind::Single(single) => *single == kind,
        TypeKind::Multiple(set) => set.contains(kind),
    };
    let value = read(text)?;
    let wanted = match &value {
        Value::Number(number) => {
            (wants(JsonType::Number) || wants(JsonType::Integer)) && is_exact(text, number)
        }
        Value::Bool(_) => wants(JsonType::Boolean),
        Value::Array(_) => wants(JsonType::Array),
        Value::Object(_) => wants(JsonType::Object),
        Value::Null | Value::String(_) => false,
    };
    wanted.then_some(value)
}

/// Tells whether a number kept all digits: a whole number beyond 64 bits would be rounded.
fn is_exact(text: &str, number: &Number) -> bool {
    !number.is_f64() || text.contains(['.', 'e', 'E'])
}

fn apply(root: &mut Value, path: &str, repair: Repair) -> bool {
    match repair {
        Repair::Replace(value) => match root.pointer_mut(path) {
            // A second repair of one place comes from another alternative; the first one stands.
            Some(place) if place.is_string() => {
                *place = value;
                true
            }
            _ => false,
        },
        Repair::Drop => {
            let Some((parent, key)) = path.rsplit_once('/') else { return false };
            let key = key.replace("~1", "/").replace("~0", "~");
            root.pointer_mut(parent)
                .and_then(Value::as_object_mut)
                .is_some_and(|object| object.shift_remove(&key).is_some())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    pub(super) fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer"},
                "x": {"type": "number"},
                "b": {"type": "boolean"},
                "s": {"type": "string"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "either": {"type": ["integer", "boolean"]},
                "e": {"enum": ["a", "b"]},
                "a/b": {"type": "string"},
            },
            "required": ["s"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn mends_notation_and_nothing_else() {
        let validator = validator(&schema()).unwrap();
        let cases = [
            ("untouched", json!({"s": "5"}), Some(json!({"s": "5"}))),
            ("integer", json!({"s": "", "n": "5"}), Some(json!({"s": "", "n": 5}))),
            ("number", json!({"s": "", "x": "-6.177"}), Some(json!({"s": "", "x": -6.177}))),
            ("boolean", json!({"s": "", "b": "true"}), Some(json!({"s": "", "b": true}))),
            (
                "list as text",
                json!({"s": "", "list": "[1,2]"}),
                Some(json!({"s": "", "list": [1, 2]})),
            ),
            ("items as text", json!({"s": "", "list": ["1"]}), Some(json!({"s": "", "list": [1]}))),
            (
                "text in a list in a text",
                json!({"s": "", "list": "[\"1\"]"}),
                Some(json!({"s": "", "list": [1]})),
            ),
            ("alternative", json!({"s": "", "maybe": "7"}), Some(json!({"s": "", "maybe": 7}))),
            (
                "null that is allowed",
                json!({"s": "", "maybe": null}),
                Some(json!({"s": "", "maybe": null})),
            ),
            (
                "one of two types",
                json!({"s": "", "either": "false"}),
                Some(json!({"s": "", "either": false})),
            ),
            (
                "null left out",
                json!({"s": "", "n": null, "e": null, "a/b": null}),
                Some(json!({"s": ""})),
            ),
            (
                "several",
                json!({"s": "", "n": "1", "b": "false"}),
                Some(json!({"s": "", "n": 1, "b": false})),
            ),
            ("null where required", json!({"s": null}), None),
            ("number for text", json!({"s": 5}), None),
            ("fraction for integer", json!({"s": "", "n": "1.5"}), None),
            ("too many digits", json!({"s": "", "n": "123456789012345678901234567890"}), None),
            ("python's boolean", json!({"s": "", "b": "True"}), None),
            ("number for boolean", json!({"s": "", "b": 1}), None),
            ("words", json!({"s": "", "n": "five"}), None),
            ("unknown name", json!({"s": "", "n": "5", "other": 1}), None),
            ("not in the list", json!({"s": "", "e": "c"}), None),
        ];
        for (case, given, expected) in cases {
            assert_eq!(check(&validator, given, true).ok(), expected, "{case}");
        }
    }

    #[test]
    fn without_coercion_only_what_is_absent_is_left_out() {
        let mut toolbox = Toolbox::new(false);
        toolbox.add("t", Some(schema()));
        let known = toolbox.find("t").unwrap();
        for (given, expected) in [
            (json!({"s": "5", "n": 5}), Ok(json!({"s": "5", "n": 5}))),
            (json!({"s": "", "n": null}), Ok(json!({"s": ""}))),
            (json!({"s": "", "n": "5"}), Err("/n: ")),
            (json!({"s": "", "x": "-6.177", "n": null}), Err("/x: ")),
            (json!({"s": "", "b": "true"}), Err("/b: ")),
            (json!({"s": "", "list": "[1]"}), Err("/list: ")),
            (json!({"s": null}), Err("/s: ")),
        ] {
            match (known.check(given.clone()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{given}"),
                (Err((same, faults)), Err(part)) => {
                    assert_eq!(same, given);
                    assert!(faults.iter().any(|fault| fault.starts_with(part)), "{faults:?}");
                }
                (found, _) => panic!("{given}: {found:?}"),
            }
        }
    }

    #[test]
    fn tells_all_faults_with_their_places_and_without_the_values() {
        let validator = validator(&schema()).unwrap();
        let faults_of = |arguments| check(&validator, arguments, true).unwrap_err().1;
        let all = faults_of(json!({"n": "secret", "list": [1, "x"], "zz": 1})).join("\n");
        for part in ["/n: ", "/list/1: ", "\"s\" is a required property", "'zz'"] {
            assert!(all.contains(part), "{part} in {all}");
        }
        assert!(!all.contains("secret"), "{all}");

        let many: Vec<Value> = (0..100).map(|_| json!("x")).collect();
        assert_eq!(faults_of(json!({"s": "", "list": many})).len(), FAULTS_MAX + 1);
        let long = "k".repeat(5000);
        let found = faults_of(json!({"s": "", long: 1}));
        assert!(found.iter().all(|fault| fault.chars().count() <= FAULT_CHARS_MAX), "{found:?}");
    }

    #[test]
    fn schemas_that_cannot_be_used_are_refused_when_compiled() {
        for schema in [
            json!({"type": "no such type"}),
            json!({"$ref": "#/$defs/missing"}),
            json!({"$ref": "http://127.0.0.1:1/schema.json"}),
            json!({"$ref": "file:///etc/hostname"}),
            json!({"pattern": "("}),
        ] {
            assert!(validator(&schema).is_err(), "{schema}");
        }
    }
}
