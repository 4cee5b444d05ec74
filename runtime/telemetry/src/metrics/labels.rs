//! The labels of measures, made once for all that are alike.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;
use opentelemetry::{KeyValue, Value};
use wire::{Attribute, Attributes};

/// Labels that are kept. There are a few for each model and tool; what a server makes up beyond
/// that, such as a new name of a model in each reply, is made anew each time.
const KEPT_MAX: usize = 1024;

/// What has been made of labels, by the attributes that these are made of.
#[derive(Debug)]
pub(super) struct Labels<T> {
    /// A quick one: who found values that share a hash would have them made anew, and no more.
    hasher: RandomState,
    /// By the hash of their values; of those that share one, the first are kept.
    made: RwLock<HashMap<u64, Arc<Made<T>>>>,
}

/// Labels, and what was made of them.
#[derive(Debug)]
pub(super) struct Made<T> {
    told: Vec<KeyValue>,
    pub(super) made: T,
}

impl<T> Default for Labels<T> {
    fn default() -> Self {
        Self { hasher: RandomState::default(), made: RwLock::default() }
    }
}

impl<T> Labels<T> {
    /// Returns what is made of the texts and whole numbers among the attributes of these names as
    /// labels. It has to follow from these alone.
    pub(super) fn of(
        &self,
        attributes: &Attributes,
        names: &[&'static str],
        of_them: impl FnOnce(&[KeyValue]) -> T,
    ) -> Arc<Made<T>> {
        let told =
            || names.iter().filter_map(|name| Some((*name, Told::of(attributes.get(name)?)?)));
        let hash = self.hash(told());
        if let Some(made) = self.read(hash).filter(|made| are(&made.told, told())) {
            return made;
        }
        let told: Vec<KeyValue> =
            told().map(|(name, value)| KeyValue::new(name, value.into_value())).collect();
        let made = Arc::new(Made { made: of_them(&told), told });
        let mut kept = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.entry(hash).or_insert_with(|| made.clone());
        }
        made
    }

    fn hash<'p>(&self, pairs: impl Iterator<Item = (&'static str, Told<'p>)>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        // The names are nearly always the same ones.
        pairs.for_each(|(_, told)| told.hash(&mut hasher));
        hasher.finish()
    }

    fn read(&self, hash: u64) -> Option<Arc<Made<T>>> {
        self.made.read().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned()
    }
}

/// Tells whether labels have these names and values.
fn are<'p>(labels: &[KeyValue], mut pairs: impl Iterator<Item = (&'static str, Told<'p>)>) -> bool {
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
    fn of(value: &'a Attribute) -> Option<Self> {
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

    /// Returns the labels of these names, as many as the attributes have.
    fn of(labels: &Labels<usize>, attributes: &Attributes) -> Arc<Made<usize>> {
        labels.of(attributes, &["a", "b"], <[KeyValue]>::len)
    }

    #[test]
    fn labels_that_are_alike_are_made_once() {
        let labels = Labels::default();
        let both = Attributes::from_iter([("a", "x"), ("b", "y"), ("c", "z")]);
        let made = of(&labels, &both);
        assert_eq!(
            (&*made.told, made.made),
            (&[KeyValue::new("a", "x"), KeyValue::new("b", "y")][..], 2)
        );
        assert!(Arc::ptr_eq(&made, &of(&labels, &both)));
        // A value under another name, none at all, a number and a list are others.
        let swapped = Attributes::from_iter([("a", "y"), ("b", "x")]);
        let mut numbered = Attributes::from_iter([("a", "x")]);
        numbered.set("b", 7);
        let mut listed = Attributes::from_iter([("a", "x")]);
        listed.set("b", serde_json::json!(["y"]));
        for attributes in [swapped, numbered.clone(), listed.clone(), Attributes::new()] {
            assert_ne!(of(&labels, &attributes).told, made.told, "{attributes:?}");
        }
        let made = of(&labels, &numbered);
        assert_eq!(made.told, [KeyValue::new("a", "x"), KeyValue::new("b", 7)]);
        assert!(Arc::ptr_eq(&made, &of(&labels, &numbered)));
        numbered.set("b", "7");
        assert_ne!(of(&labels, &numbered).told, made.told, "a text is no number");
        let made = of(&labels, &listed);
        assert_eq!((&*made.told, made.made), (&[KeyValue::new("a", "x")][..], 1));
    }

    #[test]
    fn labels_are_kept_in_bounds() {
        let labels = Labels::default();
        for number in 0..KEPT_MAX * 2 {
            let attributes = Attributes::from_iter([("a", number.to_string())]);
            assert_eq!(of(&labels, &attributes).told, [KeyValue::new("a", number.to_string())]);
        }
        assert_eq!(labels.made.read().unwrap().len(), KEPT_MAX);
    }
}
