//! Makes one of the keywords that only some providers read together.

use serde_json::{Map, Value, json};

use super::merge::{Ended, Merge};
use super::{Lowering, Target, fields_of, keyword};

const UNIONS: [&str; 2] = ["oneOf", "anyOf"];

/// What a schema keeps when all else it says is said by its alternatives.
const KEPT: [&str; 4] = ["$defs", "definitions", "title", "description"];

impl Lowering<'_> {
    /// Returns the keywords with those of `allOf` among them, and where alternatives stand beside
    /// others, with the others in each of the alternatives.
    pub(super) fn unfolded(&mut self, keywords: &Map<String, Value>) -> Map<String, Value> {
        let mut keywords = self.joined(keywords);
        let is_divided = match self.target {
            Target::LlamaCpp => keywords.contains_key("properties"),
            Target::OpenAiStrict | Target::Anthropic => keywords
                .keys()
                .any(|name| keyword::constrains(name) && !UNIONS.contains(&name.as_str())),
        };
        let mut found = None;
        for union in UNIONS {
            let Some(value) = keywords.shift_remove(union) else { continue };
            let alternatives = match &value {
                _ if found.is_some() => None,
                Value::Array(list) if is_divided => self.distributed(&keywords, union, list),
                _ => Some(value),
            };
            match alternatives {
                Some(alternatives) => found = Some((union, alternatives)),
                None => {
                    self.drop(union);
                }
            }
        }
        if let Some((union, alternatives)) = found {
            if is_divided {
                keywords.retain(|name, _| KEPT.contains(&name.as_str()));
            }
            keywords.insert(union.to_owned(), alternatives);
        }
        keywords
    }

    /// Returns the keywords with those of `allOf` among them, and for strict servers those of a
    /// reference that does not stand alone.
    fn joined(&mut self, keywords: &Map<String, Value>) -> Map<String, Value> {
        let mut base = keywords.clone();
        if self.target == Target::LlamaCpp {
            if let Some(Value::Array(all)) = keywords.get("allOf")
                && let [Value::Object(only)] = all.as_slice()
                && only.keys().all(|name| !keywords.contains_key(name))
            {
                base.shift_remove("allOf");
                base.extend(only.clone());
            }
            return base;
        }
        let all = base.shift_remove("allOf");
        let word = if all.is_some() { "allOf" } else { "$ref" };
        let is_alone = |base: &Map<String, Value>| {
            !base.keys().any(|name| name != "$ref" && keyword::constrains(name))
        };
        if all.is_none() && (self.target == Target::Anthropic || is_alone(&base)) {
            return base;
        }
        let mut members = all.as_ref().map(fields_of).unwrap_or_default().to_vec();
        members.extend(base.shift_remove("$ref").map(|reference| json!({ "$ref": reference })));
        if let [Value::Object(only)] = members.as_slice()
            && is_alone(&base)
        {
            for (name, value) in only {
                base.entry(name.clone()).or_insert_with(|| value.clone());
            }
            return self.joined(&base);
        }
        let is_inside = |reference: &str| self.inside.iter().any(|outer| outer == reference);
        let mut references = members.iter().filter_map(|member| member.get("$ref"));
        let endless = references.rfind(|name| name.as_str().is_some_and(is_inside));
        if let Some(reference) = endless.cloned() {
            base.retain(|name, _| !keyword::constrains(name));
            base.insert("$ref".to_owned(), reference);
            self.drop(word);
            return base;
        }
        let mut merge = Merge::new(self.root, &self.inside, self.room);
        merge.add_all(&mut base, Some(&members.into()));
        if self.settle(merge.end()) {
            self.drop(word);
        }
        base
    }

    /// Gives every alternative the keywords that stand beside them, if all can be known.
    fn distributed(
        &mut self,
        beside: &Map<String, Value>,
        union: &str,
        alternatives: &[Value],
    ) -> Option<Value> {
        let mut divisions = self.divisions;
        let mut base = beside.clone();
        base.retain(|name, _| !UNIONS.contains(&name.as_str()) && !KEPT.contains(&name.as_str()));
        let is_bare = base.keys().all(|name| name == "type" || !keyword::constrains(name));
        let mut merge = Merge::new(self.root, &self.inside, self.room);
        let divided: Option<Value> = alternatives
            .iter()
            .map(|alternative| {
                // What it points at has a type of its own.
                if is_bare && alternative.get("$ref").is_some() {
                    return Some(alternative.clone());
                }
                divisions = divisions.checked_sub(1)?;
                let mut one = base.clone();
                let alternative = merge.member(alternative)?;
                merge.add(&mut one, alternative);
                Some(one.into())
            })
            .collect();
        let ended = merge.end();
        self.divisions = divisions;
        if self.settle(ended) {
            self.drop(union);
        }
        divided
    }

    /// Takes over which references a merging followed, and returns whether it left something out.
    fn settle(&mut self, ended: Ended) -> bool {
        let Ended { followed, room, is_lossy } = ended;
        self.room = room;
        self.inside.extend(followed);
        is_lossy
    }
}
