//! Turns a schema into rules, subschema by subschema.

use std::collections::HashMap;

use serde_json::Value;

use super::rules::{Expr, Rules};
use super::terminal::{self, Kind};
use super::{
    DEPTH_MAX, FREE_DEPTH_MAX, GrammarError, ITEMS_MAX, Keywords, SUBSCHEMAS_MAX, alternatives,
    below, literal, malformed, merge, object, unsupported,
};

/// A place of the schema, and the rule that it becomes a part of.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// A JSON pointer.
    pub(super) at: String,
    /// The name of the rule, from which those below it get theirs.
    pub(super) rule: String,
    pub(super) depth: usize,
}

impl Place {
    /// Goes one level deeper.
    pub(super) fn below(&self, step: &str, rule: &str) -> Self {
        let rule =
            if self.rule.is_empty() { rule.to_owned() } else { format!("{}-{rule}", self.rule) };
        Self { at: below(&self.at, step), rule, depth: self.depth + 1 }
    }
}

/// What is known while a schema is converted.
pub(super) struct Converter<'a> {
    pub(super) root: &'a Value,
    pub(super) rules: Rules,
    /// The rules of subschemas that are referred to, by reference.
    references: HashMap<String, String>,
    subschemas: usize,
}

impl<'a> Converter<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, rules: Rules::default(), references: HashMap::new(), subschemas: 0 }
    }

    /// Converts the whole schema.
    pub(super) fn grammar(mut self) -> Result<Rules, GrammarError> {
        let root = self.rules.reserve("root")?;
        let space = self.rules.reserve("space")?;
        self.rules.define(space, "", Expr::text(" ").optional());
        let place = Place { at: String::new(), rule: String::new(), depth: 0 };
        let expr = self.value(self.root, &place)?;
        self.rules.define(root, "", expr);
        Ok(self.rules)
    }

    /// Makes a rule of its own and returns the reference to it.
    pub(super) fn rule(&mut self, place: &Place, expr: Expr) -> Result<Expr, GrammarError> {
        if let Expr::Rule(_) = expr {
            return Ok(expr);
        }
        let wish = if place.rule.is_empty() { "value" } else { place.rule.as_str() };
        let name = self.rules.reserve(wish)?;
        let reference = Expr::rule(&name);
        self.rules.define(name, &place.at, expr);
        Ok(reference)
    }

    /// Counts a subschema and the level on which it stands.
    pub(super) fn enter(&mut self, depth: usize) -> Result<(), GrammarError> {
        self.subschemas += 1;
        if self.subschemas > SUBSCHEMAS_MAX {
            return Err(GrammarError::TooLarge { what: "subschemas", max: SUBSCHEMAS_MAX });
        }
        if depth > DEPTH_MAX {
            return Err(GrammarError::TooLarge { what: "levels", max: DEPTH_MAX });
        }
        Ok(())
    }

    /// Converts a subschema to a rule, or to a reference where it is one.
    pub(super) fn value(&mut self, schema: &Value, place: &Place) -> Result<Expr, GrammarError> {
        self.enter(place.depth)?;
        let keywords = match schema {
            Value::Bool(true) => return self.free(FREE_DEPTH_MAX),
            Value::Bool(false) => return Err(GrammarError::Empty { at: place.at.clone() }),
            Value::Object(keywords) => keywords,
            _ => return Err(malformed(&place.at, "a schema that is no object")),
        };
        if let Some(reference) = merge::only_reference(keywords) {
            return self.reference(reference, place);
        }
        let keywords = merge::flat(self, keywords, place)?;
        self.flat(&keywords, place)
    }

    /// Converts a reference; what it leads to becomes a rule once.
    fn reference(&mut self, reference: &str, place: &Place) -> Result<Expr, GrammarError> {
        if let Some(name) = self.references.get(reference) {
            return Ok(Expr::rule(name));
        }
        let target = merge::resolve(self.root, reference, &place.at)?.clone();
        let last = reference.rsplit('/').next().unwrap_or_default().trim_start_matches('#');
        let name = self.rules.reserve(&format!("ref-{last}"))?;
        self.references.insert(reference.to_owned(), name.clone());
        let at = reference.trim_start_matches('#').to_owned();
        let target_place = Place { at, rule: name.clone(), depth: place.depth + 1 };
        let expr = self.value(&target, &target_place)?;
        self.rules.define(name.clone(), &target_place.at, expr);
        Ok(Expr::rule(&name))
    }

    /// Converts keywords in which nothing is left to be merged.
    fn flat(&mut self, keywords: &Keywords, place: &Place) -> Result<Expr, GrammarError> {
        if keywords.contains_key("const") || keywords.contains_key("enum") {
            return literal::choices(self.root, keywords, place);
        }
        if let Some(choices) = alternatives::of(self, keywords, place)? {
            return Ok(Expr::any_of(choices));
        }
        refuse(keywords, &["not", "if", "$dynamicRef", "$recursiveRef"], &place.at)?;
        let kinds = terminal::kinds(keywords, &place.at)?;
        if kinds.is_empty() {
            return self.free(FREE_DEPTH_MAX);
        }
        let mut choices = Vec::with_capacity(kinds.len());
        for kind in kinds {
            choices.push(self.kind(kind, keywords, place)?);
        }
        Ok(Expr::any_of(choices))
    }

    fn kind(
        &mut self,
        kind: Kind,
        keywords: &Keywords,
        place: &Place,
    ) -> Result<Expr, GrammarError> {
        match kind {
            Kind::Object => object::object(self, keywords, place),
            Kind::Array => self.array(keywords, place),
            Kind::Null | Kind::Boolean | Kind::Integer | Kind::Number | Kind::String => {
                let expr = terminal::terminal(self, kind, keywords, &place.at)?;
                self.rule(place, expr)
            }
        }
    }

    fn array(&mut self, keywords: &Keywords, place: &Place) -> Result<Expr, GrammarError> {
        refuse(keywords, &["contains", "prefixItems", "unevaluatedItems"], &place.at)?;
        let min = count(keywords, "minItems", ITEMS_MAX, &place.at)?.unwrap_or(0);
        let max = count(keywords, "maxItems", ITEMS_MAX, &place.at)?;
        if max.is_some_and(|max| max < min) {
            return Err(GrammarError::Empty { at: place.at.clone() });
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) && max.is_none_or(|max| max > 1)
        {
            return Err(unsupported(&place.at, "uniqueItems"));
        }
        let none =
            max == Some(0) || (min == 0 && keywords.get("items") == Some(&Value::Bool(false)));
        let mut parts = Vec::new();
        if !none {
            let items = keywords.get("items").unwrap_or(&Value::Bool(true));
            let item_place = place.below("items", "item");
            let item = self.value(items, &item_place)?;
            let item = self.rule(&item_place, item)?;
            parts.push(listed(item, min, max));
        }
        self.rule(place, enclosed("[", parts, "]"))
    }

    /// Makes a rule that many places use, once.
    pub(super) fn shared(
        &mut self,
        name: &str,
        make: impl FnOnce(&mut Self) -> Result<Expr, GrammarError>,
    ) -> Result<Expr, GrammarError> {
        // No reference looks like this.
        let known = format!("shared {name}");
        if let Some(rule) = self.references.get(&known) {
            return Ok(Expr::rule(rule));
        }
        let expr = make(self)?;
        let rule = self.rules.reserve(name)?;
        self.references.insert(known, rule.clone());
        self.rules.define(rule.clone(), "", expr);
        Ok(Expr::rule(&rule))
    }

    /// Makes the rules of a value about which nothing is said, nested so deep at most.
    pub(super) fn free(&mut self, depth: usize) -> Result<Expr, GrammarError> {
        let name = if depth == 0 { "plain".to_owned() } else { format!("free-{depth}") };
        self.shared(&name, |converter| {
            let mut choices = Vec::new();
            if depth > 0 {
                let value = converter.free(depth - 1)?;
                let list = listed(value.clone(), 0, None);
                choices.push(object::map(converter, value, false)?);
                choices.push(enclosed("[", vec![list], "]"));
            }
            for kind in [Kind::String, Kind::Number, Kind::Boolean, Kind::Null] {
                choices.push(terminal::terminal(converter, kind, &Keywords::new(), "")?);
            }
            Ok(Expr::any_of(choices))
        })
    }
}

/// Puts brackets round what stands inside, with space after both.
pub(super) fn enclosed(open: &str, inside: Vec<Expr>, close: &str) -> Expr {
    let space = || Expr::rule("space");
    let begin = [Expr::text(open), space()];
    Expr::Seq(begin.into_iter().chain(inside).chain([Expr::text(close), space()]).collect())
}

/// Writes items with commas between them.
pub(super) fn listed(item: Expr, min: u32, max: Option<u32>) -> Expr {
    let next = Expr::Seq(vec![Expr::text(","), Expr::rule("space"), item.clone()]);
    let more = max.map(|max| max.saturating_sub(1));
    if more == Some(0) {
        return if min == 0 { item.optional() } else { item };
    }
    let list = Expr::Seq(vec![item, next.repeat(min.saturating_sub(1), more)]);
    if min == 0 { list.optional() } else { list }
}

/// Refuses keywords that change what is valid and cannot be expressed.
pub(super) fn refuse(keywords: &Keywords, names: &[&str], at: &str) -> Result<(), GrammarError> {
    match names.iter().find(|name| keywords.contains_key(**name)) {
        Some(name) => Err(unsupported(at, *name)),
        None => Ok(()),
    }
}

/// Reads a keyword that counts something.
pub(super) fn count(
    keywords: &Keywords,
    name: &str,
    most: u64,
    at: &str,
) -> Result<Option<u32>, GrammarError> {
    let Some(value) = keywords.get(name) else { return Ok(None) };
    let Some(number) = terminal::whole(value).and_then(|number| u64::try_from(number).ok()) else {
        return Err(malformed(at, name));
    };
    match u32::try_from(number) {
        Ok(number) if u64::from(number) <= most => Ok(Some(number)),
        _ => Err(unsupported(at, format!("{name} above {most}"))),
    }
}
