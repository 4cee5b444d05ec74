//! Makes one schema of several that a value has to fit all, as `allOf` joins them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::keyword;

/// References that are replaced by what they point at in one schema: more than any tool has, and
/// few enough that definitions which hold each other several times over cannot fill the memory.
pub(super) const INLINED_MAX: usize = 64;

/// References inside each other that are replaced: definitions are seldom built on more, and what
/// goes through a schema needs room on the stack for each.
const NESTED_MAX: usize = 8;

/// What a merging came to.
pub(super) struct Ended {
    /// The references that were followed.
    pub(super) followed: BTreeSet<String>,
    /// How many further ones may be.
    pub(super) room: usize,
    /// Whether something could not be said in one schema, and was left out.
    pub(super) is_lossy: bool,
}

/// A merging of some schemas.
pub(super) struct Merge<'a> {
    /// What references point into.
    root: &'a Value,
    /// References inside of which it takes place. Replacing one of them again would have no end.
    outer: &'a [String],
    /// Those that are being followed.
    path: Vec<String>,
    /// All that were followed.
    followed: BTreeSet<String>,
    room: usize,
    pub(super) is_lossy: bool,
}

impl<'a> Merge<'a> {
    /// Begins a merging.
    pub(super) fn new(root: &'a Value, outer: &'a [String], inlined_max: usize) -> Self {
        let (path, followed) = (Vec::new(), BTreeSet::new());
        Self { root, outer, path, followed, room: inlined_max, is_lossy: false }
    }

    /// Ends it.
    pub(super) fn end(self) -> Ended {
        Ended { followed: self.followed, room: self.room, is_lossy: self.is_lossy }
    }

    /// Returns a schema without `$ref` and `allOf`, with what these say in their place; nothing if
    /// it is no object, or points where nothing can be taken from.
    pub(super) fn member(&mut self, schema: &Value) -> Option<Map<String, Value>> {
        let mut one = match schema {
            Value::Object(keywords) => keywords.clone(),
            Value::Bool(true) => Map::new(),
            _ => return None,
        };
        let reference = one.shift_remove("$ref");
        let all = one.shift_remove("allOf");
        if let Some(reference) = reference {
            let reference = reference.as_str()?;
            let pointed_at = self.pointed_at(reference)?;
            self.path.push(reference.to_owned());
            let member = self.member(pointed_at);
            self.path.pop();
            self.add(&mut one, member?);
        }
        self.add_all(&mut one, all.as_ref());
        Some(one)
    }

    /// Adds the members of `allOf` to a schema, as far as that can be done.
    pub(super) fn add_all(&mut self, one: &mut Map<String, Value>, all: Option<&Value>) {
        let Some(all) = all else { return };
        self.is_lossy |= !all.is_array();
        for member in all.as_array().into_iter().flatten() {
            match self.member(member) {
                Some(member) => self.add(one, member),
                None => self.is_lossy = true,
            }
        }
    }

    /// Adds a schema to another. Where both say different things that no keyword can say at once,
    /// the first one stays.
    pub(super) fn add(&mut self, one: &mut Map<String, Value>, other: Map<String, Value>) {
        for (name, value) in other {
            let Some(old) = one.get_mut(&name).filter(|old| **old != value) else {
                one.entry(name).or_insert(value);
                continue;
            };
            match (name.as_str(), &mut *old, value) {
                ("properties", Value::Object(old), Value::Object(new)) => {
                    for (name, schema) in new {
                        match old.get_mut(&name) {
                            Some(old) => *old = self.both(old, schema),
                            None => drop(old.insert(name, schema)),
                        }
                    }
                }
                ("$defs" | "definitions", Value::Object(old), Value::Object(new)) => {
                    for (name, schema) in new {
                        old.entry(name).or_insert(schema);
                    }
                }
                ("required", Value::Array(old), Value::Array(new)) => {
                    for name in new {
                        if !old.contains(&name) {
                            old.push(name);
                        }
                    }
                }
                ("additionalProperties", _, Value::Bool(false)) => *old = false.into(),
                ("additionalProperties", Value::Bool(false), _) => {}
                ("items" | "additionalProperties", _, new) => *old = self.both(old, new),
                ("type", _, new) => match both_types(old, &new) {
                    Some(types) => *old = types,
                    None => self.is_lossy = true,
                },
                ("enum", Value::Array(old), Value::Array(new)) => {
                    let both: Vec<Value> =
                        old.iter().filter(|value| new.contains(value)).cloned().collect();
                    if both.is_empty() {
                        self.is_lossy = true;
                    } else {
                        *old = both;
                    }
                }
                (name, old, new) => match tighter(name, old, &new) {
                    Some(true) => *old = new,
                    Some(false) => {}
                    None => self.is_lossy |= !keyword::only_tells(name),
                },
            }
        }
    }

    fn both(&mut self, one: &Value, other: Value) -> Value {
        if *one == other {
            return other;
        }
        match (self.member(one), self.member(&other)) {
            (Some(mut one), Some(other)) => {
                self.add(&mut one, other);
                one.into()
            }
            (_, None) => {
                self.is_lossy = true;
                one.clone()
            }
            (None, Some(_)) => {
                self.is_lossy = true;
                other
            }
        }
    }

    fn pointed_at(&mut self, reference: &str) -> Option<&'a Value> {
        let is_inside = |names: &[String]| names.iter().any(|name| name == reference);
        if is_inside(self.outer) || is_inside(&self.path) {
            return None;
        }
        if self.outer.len() + self.path.len() >= NESTED_MAX {
            return None;
        }
        let schema = self.root.pointer(reference.strip_prefix('#')?)?;
        self.room = self.room.checked_sub(1)?;
        self.followed.insert(reference.to_owned());
        Some(schema)
    }
}

/// Tells of two bounds whether the second holds more values out, if the keyword is a bound.
fn tighter(name: &str, one: &Value, other: &Value) -> Option<bool> {
    let (one, other) = (one.as_f64()?, other.as_f64()?);
    match name {
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            Some(other > one)
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            Some(other < one)
        }
        _ => None,
    }
}

/// Returns the types that two keywords `type` both allow, if there are any.
fn both_types(one: &Value, other: &Value) -> Option<Value> {
    let names = |types: &Value| -> Vec<String> {
        let list = types.as_array().map_or(std::slice::from_ref(types), Vec::as_slice);
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (one, other) = (names(one), names(other));
    let allows = |types: &[String], name: &String| {
        types.contains(name) || (name == "integer" && types.iter().any(|other| other == "number"))
    };
    let mut both: Vec<String> = one.iter().filter(|name| allows(&other, name)).cloned().collect();
    both.extend(other.iter().filter(|name| allows(&one, name) && !one.contains(name)).cloned());
    match both.as_slice() {
        [] => None,
        [name] => Some(name.as_str().into()),
        names => Some(names.into()),
    }
}
