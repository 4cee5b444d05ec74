//! Takes out references that lead back to where they stand, for which Anthropic refuses a request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::reference::{DATA, DEFINITIONS, NAMED, collect};
use super::{Dropped, step};

/// Puts a text in the place of every reference in a definition that leads back to it. A text that is
/// JSON is read as such where the arguments of a call are held against the whole schema.
pub(super) fn cut(schema: &mut Value, dropped: &mut BTreeSet<Dropped>) {
    let mut graph = BTreeMap::new();
    for holder in DEFINITIONS {
        for (name, definition) in
            schema.get(holder).and_then(Value::as_object).into_iter().flatten()
        {
            let mut found = Vec::new();
            collect(definition, false, &mut found);
            let found: BTreeSet<String> = found.into_iter().map(str::to_owned).collect();
            graph.insert(format!("#/{holder}/{}", step(name)), found);
        }
    }
    let ends = |from: &String| (from.clone(), reached(&graph, from));
    let ends: BTreeMap<String, BTreeSet<String>> = graph.keys().map(ends).collect();
    for (definition, all) in &ends {
        let is_back = |to: &str| ends.get(to).is_some_and(|all| all.contains(definition));
        let pointer = definition.trim_start_matches('#');
        if all.contains(definition)
            && let Some(schema) = schema.pointer_mut(pointer)
        {
            let mut cutting = Cutting { is_back, at: pointer.to_owned(), dropped };
            cutting.cut(schema, false);
        }
    }
}

/// Returns all definitions to which one leads.
fn reached(graph: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut rest = vec![from];
    while let Some(at) = rest.pop() {
        for next in graph.get(at).into_iter().flatten() {
            if all.insert(next.clone()) {
                rest.push(next);
            }
        }
    }
    all
}

struct Cutting<'a, F> {
    is_back: F,
    /// Where the schema stands that is looked at.
    at: String,
    dropped: &'a mut BTreeSet<Dropped>,
}

impl<F: Fn(&str) -> bool> Cutting<'_, F> {
    /// Looks at a schema, or at schemas by their names.
    fn cut(&mut self, schema: &mut Value, is_named: bool) {
        let reference = schema.get("$ref").filter(|_| !is_named).and_then(Value::as_str);
        if let Some(reference) = reference.filter(|reference| (self.is_back)(reference)) {
            let description = format!("(JSON of the form {reference}, as a text)");
            *schema = json!({"type": "string", "description": description});
            self.dropped.insert(Dropped { at: self.at.clone(), keyword: "$ref".to_owned() });
            return;
        }
        match schema {
            Value::Object(keywords) => {
                for (name, value) in keywords {
                    if is_named || !DATA.contains(&name.as_str()) {
                        let is_named = !is_named && NAMED.contains(&name.as_str());
                        self.below(&step(name), value, is_named);
                    }
                }
            }
            Value::Array(schemas) => {
                for (number, schema) in schemas.iter_mut().enumerate() {
                    self.below(&number.to_string(), schema, false);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, step: &str, schema: &mut Value, is_named: bool) {
        let length = self.at.len();
        self.at.push('/');
        self.at.push_str(step);
        self.cut(schema, is_named);
        self.at.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_definition_leads_back_to_itself() {
        let text = |of: &str| {
            let description = format!("(JSON of the form #/$defs/{of}, as a text)");
            json!({"type": "string", "description": description})
        };
        let to = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
        let list = |items: Value| json!({"type": "array", "items": items});
        for (schema, expected, dropped) in [
            (
                json!({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"$ref": list(to("A"))}}}}),
                json!({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"$ref": list(text("A"))}}}}),
                &["/$defs/A/properties/$ref/items"][..],
            ),
            (
                json!({"$defs": {"A": {"anyOf": [to("B"), to("C")]}, "B": list(to("A")), "C": {}}}),
                json!({"$defs": {"A": {"anyOf": [text("B"), to("C")]}, "B": list(text("A")), "C": {}}}),
                &["/$defs/A/anyOf/0", "/$defs/B/items"],
            ),
            (
                json!({"$defs": {"A": list(to("B")), "B": {"enum": [to("A")]}}}),
                json!({"$defs": {"A": list(to("B")), "B": {"enum": [to("A")]}}}),
                &[],
            ),
            (
                json!({"$defs": {"a/b": list(to("a~1b"))}}),
                json!({"$defs": {"a/b": list(text("a~1b"))}}),
                &["/$defs/a~1b/items"],
            ),
        ] {
            let (mut found, mut noted) = (schema.clone(), BTreeSet::new());
            cut(&mut found, &mut noted);
            assert_eq!(found, expected, "{schema}");
            let noted: Vec<&str> = noted.iter().map(|dropped| dropped.at.as_str()).collect();
            assert_eq!(noted, dropped, "{schema}");
        }
    }
}
