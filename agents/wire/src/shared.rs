//! A text that many hold.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The bytes from which on a text stays where it was written. A shorter one is copied, so that it
/// takes one allocation of its length and no more.
const LONG_BYTES_MIN: usize = 16 * 1024;

/// A text that is not copied when it is cloned: the answer of a run may be megabytes, and stands in
/// what its model is read as, in its reply, in the history of its session and in what observers are
/// told.
///
/// A long [`String`] is not copied either when it becomes one, and neither are long
/// [parts](Self::part) of it.
#[derive(Clone)]
pub struct SharedText(Held);

#[derive(Clone)]
enum Held {
    Short(Arc<str>),
    /// A part of a long text, which begins and ends with a character.
    Long(Arc<String>, Range<usize>),
}

impl SharedText {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Held::Short(text) => text,
            Held::Long(text, range) => text.get(range.clone()).unwrap_or_default(),
        }
    }

    /// Returns a text that stands within this one, and shares it. It is copied if it stands
    /// elsewhere, is short, or would keep twice its length or more in memory.
    #[must_use]
    pub fn part(&self, part: &str) -> Self {
        if std::ptr::eq(part, self.as_str()) {
            return self.clone();
        }
        if let Held::Long(text, _) = &self.0
            && part.len() >= LONG_BYTES_MIN.max(text.len() / 2)
            && let Some(start) = part.as_ptr().addr().checked_sub(text.as_ptr().addr())
        {
            let range = start..start.saturating_add(part.len());
            if text.get(range.clone()).is_some_and(|held| std::ptr::eq(held, part)) {
                return Self(Held::Long(text.clone(), range));
            }
        }
        part.into()
    }
}

impl Default for SharedText {
    fn default() -> Self {
        "".into()
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for SharedText {
    fn as_ref(&self) -> &str {
        self
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(Held::Short(text.into()))
    }
}

impl From<String> for SharedText {
    fn from(mut text: String) -> Self {
        if text.len() < LONG_BYTES_MIN {
            return Self(Held::Short(text.into()));
        }
        // What shrinks by less may be copied for it, and the room was mostly never written to.
        if text.capacity() / 2 > text.len() {
            text.shrink_to_fit();
        }
        let range = 0..text.len();
        Self(Held::Long(Arc::new(text), range))
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedText {}

impl PartialOrd for SharedText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedText {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for SharedText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for SharedText {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn long() -> String {
        format!("  {}\n", "ä".repeat(LONG_BYTES_MIN))
    }

    #[test]
    fn a_long_text_and_long_parts_of_it_are_not_copied() {
        let text = long();
        let at = text.as_ptr();
        let shared = SharedText::from(text);
        assert_eq!((shared.as_ptr(), shared.clone().as_ptr()), (at, at));
        let trimmed = shared.part(shared.trim());
        assert!(trimmed.as_ptr() == shared.trim().as_ptr() && *trimmed == *shared.trim());
        drop(shared);
        let (_, most) = trimmed.split_at(trimmed.len() / 8 * 2);
        let part = trimmed.part(most);
        assert!(part.as_ptr() == most.as_ptr() && *part == *most);
    }

    #[test]
    fn a_part_that_is_short_little_or_of_another_text_is_copied() {
        let shared = SharedText::from(long().repeat(3));
        let other = long().repeat(3);
        let (little, _) = shared.split_at(shared.len() / 4);
        for part in ["", "ä", little, &other, other.trim_start()] {
            let copied = shared.part(part);
            let is_shared = copied.as_ptr() == part.as_ptr();
            assert!(*copied == *part && !is_shared, "{} bytes", part.len());
        }
        let short = SharedText::from(" short ".to_owned());
        assert_eq!(short.part(short.trim()), "short");
    }

    #[test]
    fn room_that_a_text_does_not_need_is_given_back() {
        let mut text = String::with_capacity(LONG_BYTES_MIN * 8);
        text.push_str(&long());
        let Held::Long(held, _) = SharedText::from(text).0 else { panic!("it is long") };
        assert!(held.capacity() < LONG_BYTES_MIN * 4, "{}", held.capacity());
    }

    #[test]
    fn texts_are_the_same_however_they_are_held() {
        let shared = SharedText::from(format!("  {}  ", long()));
        let part = shared.part(shared.trim());
        let copied = SharedText::from(shared.trim());
        assert!(part == copied && part.cmp(&copied) == Ordering::Equal);
        let [a, z] = ["a", "z"].map(SharedText::from);
        assert_eq!((a.cmp(&z), part.cmp(&z)), (Ordering::Less, "ä".cmp("z")));
        assert_eq!(HashSet::from([part.clone(), copied.clone()]).len(), 1);
        assert!(format!("{part:?} {part}") == format!("{copied:?} {copied}"));
        let json = serde_json::to_string(&part).unwrap();
        assert!(json == serde_json::to_string(&*copied).unwrap());
        assert!(serde_json::from_str::<SharedText>(&json).unwrap() == part);
        assert_eq!(serde_json::from_str::<SharedText>("\"a\\n\"").unwrap(), "a\n");
    }
}
