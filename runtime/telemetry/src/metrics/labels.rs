//! The labels of measures, made once for all that are alike.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use opentelemetry::{KeyValue, Value};
use wire::Attributes;

/// Labels that are kept. There are a few for each model and tool; what a server makes up beyond
/// that, such as a new name of a model in each reply, is made anew each time.
const KEPT_MAX: usize = 1024;

/// Labels that have been made, by the attributes that they are made of.
#[derive(Debug, Default)]
pub(super) struct Labels {
    hasher: RandomState,
    /// By the hash of their names and values; of those that share one, the first are kept.
    made: RwLock<HashMap<u64, Arc<[KeyValue]>>>,
}

impl Labels {
    /// Returns the texts and whole numbers among the attributes of these names as labels, with more
    /// behind them.
    pub(super) fn of(
        &self,
        attributes: &Attributes,
        names: &[&'static str],
        more: &[KeyValue],
    ) -> Arc<[KeyValue]> {
        let told =
            || names.iter().filter_map(|name| Some((*name, Told::of(attributes.get(name)?)?)));
        let whole = || {
            let told = told().map(|(name, value)| -> (&str, Told<'_>) { (name, value) });
            told.chain(more.iter().map(pair))
        };
        let hash = self.hash(whole());
        if let Some(made) = self.read(hash).filter(|made| are(made, whole())) {
            return made;
        }
        let labels = told().map(|(name, value)| KeyValue::new(name, value.into_value()));
        let labels: Arc<[KeyValue]> = labels.chain(more.iter().cloned()).collect();
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if made.len() < KEPT_MAX {
            made.entry(hash).or_insert_with(|| labels.clone());
        }
        labels
    }

    fn hash<'p>(&self, pairs: impl Iterator<Item = (&'p str, Told<'p>)>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        pairs.for_each(|pair| pair.hash(&mut hasher));
        hasher.finish()
    }

    fn read(&self, hash: u64) -> Option<Arc<[KeyValue]>> {
        self.made.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned()
    }
}

/// Tells whether labels have these names and values.
fn are<'p>(labels: &[KeyValue], mut pairs: impl Iterator<Item = (&'p str, Told<'p>)>) -> bool {
    let is_next = |label| pairs.next().is_some_and(|told| pair(label) == told);
    labels.iter().all(is_next) && pairs.next().is_none()
}

/// Returns the name and the value of a label.
fn pair(label: &KeyValue) -> (&str, Told<'_>) {
    let value = match &label.value {
        Value::I64(number) => Told::Whole(*number),
        other => Told::Text(other.as_str()),
    };
    (label.key.as_str(), value)
}

/// What a label says.
#[derive(PartialEq, Eq, Hash)]
enum Told<'a> {
    Text(Cow<'a, str>),
    Whole(i64),
}

impl<'a> Told<'a> {
    fn of(value: &'a serde_json::Value) -> Option<Self> {
        let text = value.as_str().map(|text| Self::Text(text.into()));
        text.or_else(|| value.as_i64().map(Self::Whole))
    }

    fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::from(text.into_owned()),
            Self::Whole(number) => Value::from(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_are_alike_are_made_once() {
        let labels = Labels::default();
        let (one, two) = ([KeyValue::new("team", "one")], [KeyValue::new("team", "two")]);
        let names = ["a", "b"];
        let both = Attributes::from_iter([("a", "x"), ("b", "y"), ("c", "z")]);
        let made = labels.of(&both, &names, &one);
        assert_eq!(*made, [KeyValue::new("a", "x"), KeyValue::new("b", "y"), one[0].clone()]);
        assert!(Arc::ptr_eq(&made, &labels.of(&both, &names, &one)));
        // A value under another name, none at all, a number, and others behind them are others.
        let swapped = Attributes::from_iter([("a", "y"), ("b", "x")]);
        let mut numbered = Attributes::from_iter([("a", "x")]);
        numbered.set("b", 7);
        let mut listed = Attributes::from_iter([("a", "x")]);
        listed.set("b", serde_json::json!(["y"]));
        for attributes in [swapped, numbered.clone(), listed.clone(), Attributes::new()] {
            assert_ne!(*labels.of(&attributes, &names, &one), *made, "{attributes:?}");
        }
        let made = labels.of(&numbered, &names, &one);
        assert_eq!(*made, [KeyValue::new("a", "x"), KeyValue::new("b", 7), one[0].clone()]);
        assert!(Arc::ptr_eq(&made, &labels.of(&numbered, &names, &one)));
        numbered.set("b", "7");
        assert_ne!(labels.of(&numbered, &names, &one), made, "a text is no number");
        assert_eq!(*labels.of(&listed, &names, &one), [KeyValue::new("a", "x"), one[0].clone()]);
        assert_eq!(labels.of(&both, &names, &two).last(), two.last());
    }

    #[test]
    fn labels_are_kept_in_bounds() {
        let labels = Labels::default();
        for number in 0..KEPT_MAX * 2 {
            let attributes = Attributes::from_iter([("a", number.to_string())]);
            let made = labels.of(&attributes, &["a"], &[]);
            assert_eq!(*made, [KeyValue::new("a", number.to_string())]);
        }
        assert_eq!(labels.made.read().unwrap().len(), KEPT_MAX);
    }
}
