//! Names and ids. All are subject tokens: 1 to 64 characters of `[A-Za-z0-9_-]`.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::text;

/// The longest name, in characters; it keeps a subject of six tokens under NATS' usual limits.
pub const NAME_CHARS_MAX: usize = 64;

/// Why a text is not a [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a name must have at least one character")]
    Empty,
    /// The text is longer than [`NAME_CHARS_MAX`].
    #[error("a name has at most {NAME_CHARS_MAX} characters, this one has {0}")]
    TooLong(usize),
    /// A character outside `[A-Za-z0-9_-]`.
    #[error("a name consists of A-Z, a-z, 0-9, '_' and '-', this one has {0:?}")]
    Character(char),
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !text.bytes().all(fits) {
        let bad = text.chars().find(|c| u8::try_from(*c).map_or(true, |byte| !fits(byte)));
        return Err(NameError::Character(bad.unwrap_or_default()));
    }
    if text.len() > NAME_CHARS_MAX {
        return Err(NameError::TooLong(text.len()));
    }
    Ok(())
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text and takes it as a name.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check(text)?;
                Ok(Self(text.into()))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::read(deserializer)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name_type! {
    /// The name of a team, an agent, a model or a tool.
    Name
}
name_type! {
    /// One conversation with one agent.
    SessionId
}
name_type! {
    /// One user message until its one reply; the client's idempotency key.
    RunId
}
name_type! {
    /// One call of a tool or an agent; the same on every attempt and on every node.
    CallKey
}

impl Name {
    /// Returns a text with `_` for the letters that no name has. It may still be empty or too long.
    pub fn cleaned(text: &str) -> String {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        text.replace(|c| !is_letter(c), "_")
    }
}

impl SessionId {
    /// Returns the session that a call to an agent runs in: one of its own, named by the call.
    pub fn of_call(call: &CallKey) -> Self {
        Self(call.0.clone())
    }

    /// Returns the session that a run begins if its request names none: one of the same name, so
    /// that the request finds it again when it is repeated.
    pub fn of_run(run: &RunId) -> Self {
        Self(run.0.clone())
    }
}

impl Name {
    /// Makes a name that was not there before, which sorts by its time of creation.
    pub fn fresh() -> Self {
        Self::of_uuid(Uuid::now_v7())
    }

    /// Makes a name that was not there before, in this process or another, and sorts by nothing:
    /// it needs no clock, and no lock that all threads share.
    pub(crate) fn unique() -> Self {
        // The half that is not the time, most of which is random.
        static PROCESS: LazyLock<u64> = LazyLock::new(|| Uuid::now_v7().as_u64_pair().1);
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self::of_uuid(Uuid::from_u64_pair(*PROCESS, MADE.fetch_add(1, Ordering::Relaxed)))
    }

    fn of_uuid(uuid: Uuid) -> Self {
        let mut text = *b"r-00000000000000000000000000000000";
        let (_, digits) = text.split_at_mut("r-".len());
        uuid.simple().encode_lower(digits);
        Self(str::from_utf8(&text).unwrap_or_default().into())
    }
}

impl RunId {
    /// Makes a fresh id that sorts by its time of creation.
    pub fn fresh() -> Self {
        Self(Name::fresh().0)
    }

    /// Returns the run id of an agent called as a tool: the key of that call.
    pub fn of_call(call: &CallKey) -> Self {
        Self(call.0.clone())
    }
}

impl CallKey {
    /// Returns the key under which a tool is asked what came of a call, for the probe of a number.
    pub fn of_probe(call: &Self, number: u32) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"probe");
        hasher.update(call.as_str().as_bytes());
        hasher.update(&number.to_be_bytes());
        Self::of_hash(&hasher.finalize())
    }

    /// Derives the key of call number `index` decided by the journal entry in `slot`.
    pub fn derive(team: &Name, session: &SessionId, slot: u64, index: u32) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [team.as_str(), session.as_str()] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&slot.to_be_bytes());
        hasher.update(&index.to_be_bytes());
        Self::of_hash(&hasher.finalize())
    }

    /// Takes the first half of a hash, which names a call well enough.
    fn of_hash(hash: &blake3::Hash) -> Self {
        let half = hash.as_bytes().first_chunk().unwrap_or(&[0; 16]);
        Self(const_hex::Buffer::<16>::new().format(half).into())
    }
}

/// What is hashed in one piece at most, in bytes: a digest and an id.
const SHORT_BYTES: usize = 128;

/// A BLAKE3 content hash, written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Hashes what is written to it.
    pub fn writer() -> DigestWriter {
        DigestWriter(blake3::Hasher::new())
    }

    /// Hashes this digest followed by some bytes, so that a list has one digest per prefix.
    #[must_use]
    pub fn then(&self, bytes: &[u8]) -> Self {
        // In one piece it costs half of what a hasher does that can be given more.
        let mut piece = [0; SHORT_BYTES];
        if let Some(room) = piece.get_mut(..self.0.len() + bytes.len()) {
            let (before, after) = room.split_at_mut(self.0.len());
            before.copy_from_slice(&self.0);
            after.copy_from_slice(bytes);
            return Self::of(room);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(bytes);
        Self(*hasher.finalize().as_bytes())
    }

    /// Takes raw bytes as a digest.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the raw bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Hashes bytes piece by piece.
#[derive(Debug)]
pub struct DigestWriter(blake3::Hasher);

impl DigestWriter {
    /// Hashes what follows.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the hash of all of it.
    pub fn finish(self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<32>::new().format(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(const_hex::Buffer::<32>::new().format(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text::read(deserializer)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl FromStr for Digest {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match blake3::Hash::from_hex(text) {
            Ok(hash) => Ok(Self(*hash.as_bytes())),
            Err(error) => Err(format!("not a digest of 64 hex digits: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_subject_tokens() {
        let long = "x".repeat(65);
        let cases: [(&str, Result<(), NameError>); 7] = [
            ("lead", Ok(())),
            ("A-b_9", Ok(())),
            ("", Err(NameError::Empty)),
            ("a.b", Err(NameError::Character('.'))),
            ("a b", Err(NameError::Character(' '))),
            ("ä", Err(NameError::Character('ä'))),
            (&long, Err(NameError::TooLong(65))),
        ];
        for (text, expected) in cases {
            assert_eq!(Name::new(text).map(|_| ()), expected, "{text:?}");
        }
    }

    #[test]
    fn no_two_names_are_the_same_whoever_makes_them() {
        let hundred = || -> Vec<Name> { (0..100).map(|_| Name::unique()).collect() };
        let made = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..4).map(|_| scope.spawn(hundred)).collect();
            makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
        });
        let names: std::collections::HashSet<&Name> = made.iter().collect();
        assert_eq!(names.len(), made.len());
        assert!(made.iter().all(|name| Name::new(name.as_str()).as_ref() == Ok(name)));
    }

    #[test]
    fn call_keys_differ_in_every_part_and_never_change() {
        let team = Name::new("t").unwrap();
        let session = SessionId::new("s").unwrap();
        let key = CallKey::derive(&team, &session, 3, 0);
        assert_eq!(key, CallKey::derive(&team, &session, 3, 0));
        assert_eq!(key.as_str().len(), 32);
        assert_ne!(key, CallKey::derive(&team, &session, 3, 1));
        assert_ne!(key, CallKey::derive(&team, &session, 4, 0));
        let joined = (Name::new("ts").unwrap(), SessionId::new("x").unwrap());
        let split = (Name::new("t").unwrap(), SessionId::new("sx").unwrap());
        assert_ne!(
            CallKey::derive(&joined.0, &joined.1, 0, 0),
            CallKey::derive(&split.0, &split.1, 0, 0)
        );
    }

    #[test]
    fn a_digest_and_more_is_hashed_as_one_text_however_long() {
        let digest = Digest::of(b"x");
        for bytes in [0, 1, SHORT_BYTES - 33, SHORT_BYTES - 32, SHORT_BYTES - 31, SHORT_BYTES, 5000]
        {
            let more = vec![b'y'; bytes];
            let whole = [digest.as_bytes().as_slice(), &more].concat();
            assert_eq!(digest.then(&more), Digest::of(&whole), "{bytes}");
        }
    }

    #[test]
    fn a_digest_survives_its_text_form() {
        let digest = Digest::of(b"x").then(b"y");
        let text = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&text).unwrap(), digest);
        assert!(serde_json::from_str::<Digest>("\"zz\"").is_err());
    }
}
