//! What a server says of its tools: as it is pinned, compared and offered.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use wire::EffectClass;

use super::draft::modern;

/// The tools of a server, in the server's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Catalog {
    /// The tools; no two have one name.
    pub tools: Vec<Listed>,
}

/// One tool as its server describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name on the server.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The schema of its arguments, as the server wrote it.
    pub parameters: Value,
    /// The schema of its structured result, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// What the server says of its effects.
    #[serde(default)]
    pub hints: Hints,
}

/// What a server says of the effects of a tool; nobody checks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hints {
    /// `readOnlyHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
}

impl Hints {
    /// Returns the class that the hints speak for, if they say anything of it.
    fn class(self) -> Option<EffectClass> {
        let destroys = self.destructive == Some(true);
        if self.read_only == Some(true) && !destroys {
            Some(EffectClass::Read)
        } else if self.idempotent == Some(true) {
            Some(EffectClass::Idempotent)
        } else if destroys || self.read_only.is_some() || self.idempotent.is_some() {
            Some(EffectClass::Once)
        } else {
            None
        }
    }

    /// Returns the effect class of a tool: what the team file says, or `once`.
    ///
    /// The hints can only make it stricter, unless the server is trusted and the team file says
    /// nothing.
    pub fn effect(self, configured: Option<EffectClass>, trusted: bool) -> EffectClass {
        let strictness = |class: EffectClass| match class {
            EffectClass::Read => 0,
            EffectClass::Idempotent => 1,
            EffectClass::Once => 2,
        };
        match (configured, self.class()) {
            (Some(class), Some(hinted)) if strictness(hinted) > strictness(class) => hinted,
            (Some(class), _) => class,
            (None, Some(hinted)) if trusted => hinted,
            (None, _) => EffectClass::Once,
        }
    }
}

impl Listed {
    /// Returns the schema of the arguments in JSON Schema 2020-12.
    pub fn parameters(&self) -> Value {
        let mut schema = modern(&self.parameters);
        if let Some(root) = schema.as_object_mut()
            && !root.contains_key("type")
        {
            root.insert("type".to_owned(), Value::from("object"));
        }
        schema
    }

    /// Returns the schema of the structured result in JSON Schema 2020-12.
    pub fn output(&self) -> Option<Value> {
        self.output.as_ref().map(modern)
    }

    /// Names what another form of the tool says differently; nothing if it is the same.
    pub(super) fn parts_changed(&self, other: &Self) -> Option<Vec<&'static str>> {
        (self != other && self.digest() != other.digest()).then(|| parts(self, other))
    }

    /// Returns the digest of everything that is said of the tool. The order of keys does not count.
    pub fn digest(&self) -> String {
        let all = json!({
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "output": self.output,
            "hints": self.hints,
        });
        blake3::hash(sorted(&all).to_string().as_bytes()).to_hex().to_string()
    }
}

/// How the list of a server differs from the pinned one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The tool is there and was not.
    New(String),
    /// The tool was there and is not.
    Gone(String),
    /// The tool is another one under its old name.
    Changed {
        /// Its name.
        tool: String,
        /// What is said differently.
        parts: Vec<&'static str>,
    },
}

impl Catalog {
    /// Returns a tool by its name on the server.
    pub fn get(&self, name: &str) -> Option<&Listed> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Tells how another list differs from this one, in the order of the tools.
    pub fn changes(&self, other: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        for tool in &self.tools {
            match other.get(&tool.name) {
                None => changes.push(Change::Gone(tool.name.clone())),
                Some(there) => changes.extend(
                    tool.parts_changed(there)
                        .map(|parts| Change::Changed { tool: tool.name.clone(), parts }),
                ),
            }
        }
        let new = other.tools.iter().filter(|tool| self.get(&tool.name).is_none());
        changes.extend(new.map(|tool| Change::New(tool.name.clone())));
        changes
    }
}

/// Names what is said differently of two tools of one name.
fn parts(one: &Listed, other: &Listed) -> Vec<&'static str> {
    let rows = [
        ("description", one.description != other.description),
        ("parameters", sorted(&one.parameters) != sorted(&other.parameters)),
        ("output", one.output.as_ref().map(sorted) != other.output.as_ref().map(sorted)),
        ("hints", one.hints != other.hints),
    ];
    rows.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect()
}

/// Puts the keys of all objects in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut pairs: Vec<(&String, &Value)> = members.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            let pairs = pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value)));
            Value::Object(pairs.collect::<Map<String, Value>>())
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
