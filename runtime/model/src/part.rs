//! Parts of a conversation that are sent again with every turn, and written only once.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;

/// A message or the head of a conversation, with the JSON in which it was first sent.
///
/// A conversation that grows is written by what is new to it, since whoever holds it between turns
/// holds its parts.
#[derive(Debug)]
pub struct Part<T> {
    part: Arc<T>,
    sent: OnceLock<Sent>,
}

/// What was sent, and by whose protocol; a model that stands in for another may speak another one.
#[derive(Debug)]
struct Sent {
    protocol: &'static str,
    json: Arc<RawValue>,
}

impl<T> From<Arc<T>> for Part<T> {
    fn from(part: Arc<T>) -> Self {
        Self { part, sent: OnceLock::new() }
    }
}

impl<T> From<T> for Part<T> {
    fn from(part: T) -> Self {
        Self::from(Arc::new(part))
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.part
    }
}

impl<T> Part<T> {
    /// Returns the part as a protocol sends it, which must depend on nothing else.
    pub(crate) fn written(
        &self,
        protocol: &'static str,
        write: impl Fn(&T) -> serde_json::Result<Box<RawValue>>,
    ) -> Result<Arc<RawValue>, serde_json::Error> {
        let write = || write(&self.part).map(Arc::from);
        if let Some(sent) = self.sent.get() {
            return if sent.protocol == protocol { Ok(sent.json.clone()) } else { write() };
        }
        let json: Arc<RawValue> = write()?;
        Ok(self.sent.get_or_init(|| Sent { protocol, json: json.clone() }).json.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn a_part_is_written_once_for_the_protocol_that_came_first() {
        let part = Part::from("a".to_owned());
        let writes = Cell::new(0);
        for (protocol, expected, written) in
            [("x", "[\"x\"]", 1), ("x", "[\"x\"]", 1), ("y", "[\"y\"]", 2), ("x", "[\"x\"]", 2)]
        {
            let write = |_: &String| {
                writes.set(writes.get() + 1);
                to_raw_value(&[protocol])
            };
            assert_eq!(part.written(protocol, write).unwrap().get(), expected);
            assert_eq!(writes.get(), written, "{protocol}");
        }
    }
}
