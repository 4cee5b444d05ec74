//! What goes between two ends of one process: a message whose content is written only if somebody
//! wants it as bytes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::Headers;

use crate::message::Message;

/// What can be written as the payload of a message, and handed over as it is where both ends are in
/// one process.
pub trait Content: Any + Send + Sync {
    /// Writes it as JSON.
    fn write(&self) -> Result<Vec<u8>, serde_json::Error>;

    /// Returns the length of what [`write`](Self::write) returns, in bytes, or if that is below
    /// `most` something between the two.
    fn measure(&self, most: usize) -> Result<usize, serde_json::Error>;

    /// Returns it as something whose type can be asked for.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Serialize + Send + Sync + 'static> Content for T {
    fn write(&self) -> Result<Vec<u8>, serde_json::Error> {
        wire::json::to_vec(self)
    }

    fn measure(&self, most: usize) -> Result<usize, serde_json::Error> {
        // Nearly all are far below what a bus takes, and then need not be looked through.
        match wire::json::bound(self)? {
            bytes if bytes <= most => Ok(bytes),
            _ => wire::json::measure(self),
        }
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// A content, what was written of it, and the headers that were sent with that.
pub(crate) struct Written {
    pub(crate) headers: Headers,
    pub(crate) payload: Bytes,
    pub(crate) content: Arc<dyn Content>,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.payload.len();
        f.debug_struct("Written").field("bytes", &bytes).finish_non_exhaustive()
    }
}

/// A message with its content, which is a value as long as it has not left the process.
#[derive(Clone)]
pub struct Parcel {
    message: Message,
    content: Option<Arc<dyn Content>>,
}

impl Parcel {
    /// Packs a value that is to be the payload of a message.
    pub(crate) fn new(message: Message, content: Arc<dyn Content>) -> Self {
        Self { message, content: Some(content) }
    }

    /// Returns the message. Its payload is empty if the content was not written.
    pub fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn message_mut(&mut self) -> &mut Message {
        &mut self.message
    }

    /// Returns the content, which is only read if it came as bytes, or as another type.
    pub fn read<T>(&self) -> Result<Arc<T>, serde_json::Error>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let content = self.content.clone().map(Content::into_any);
        match content.and_then(|content| content.downcast().ok()) {
            Some(value) => Ok(value),
            None => serde_json::from_slice(&self.payload()).map(Arc::new),
        }
    }

    /// Writes the content, so that whoever gets a clone need not.
    pub(crate) fn written(self) -> Self {
        Self { message: self.into_message(), content: None }
    }

    /// Returns the message without its content, for whoever has read that.
    pub fn into_head(self) -> Message {
        self.message
    }

    /// Returns the message with its payload.
    pub fn into_message(mut self) -> Message {
        self.message.payload = self.payload();
        self.message
    }

    fn payload(&self) -> Bytes {
        let unwritten = self.content.as_ref().filter(|_| self.message.payload.is_empty());
        let Some(content) = unwritten else { return self.message.payload.clone() };
        // It was measured before it was sent, which is how it would have failed.
        content.write().map_or_else(
            |error| {
                let subject = &self.message.subject;
                tracing::error!(subject, %error, "a content cannot be written");
                Bytes::new()
            },
            Bytes::from,
        )
    }
}

impl From<Message> for Parcel {
    fn from(message: Message) -> Self {
        Self { message, content: None }
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").field("message", &self.message).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &'static str) -> Message {
        Message {
            subject: "a".to_owned(),
            reply: None,
            headers: Headers::new(),
            payload: payload.into(),
        }
    }

    #[test]
    fn a_content_is_itself_or_its_json() {
        let value = Arc::new(vec![1_u8, 2]);
        let parcel = Parcel::new(message(""), value.clone());
        assert_eq!(value.measure(5).unwrap(), "[1,2]".len());
        assert!((5..=100).contains(&value.measure(100).unwrap()));
        assert!(Arc::ptr_eq(&parcel.read::<Vec<u8>>().unwrap(), &value), "of the same type");
        assert_eq!(*parcel.read::<Vec<u64>>().unwrap(), [1, 2], "of another");
        assert!(parcel.read::<String>().is_err());
        assert_eq!(parcel.clone().into_message().payload, "[1,2]");
        let written = parcel.written();
        assert_eq!(written.message().payload, "[1,2]");
        assert_eq!(*written.read::<Vec<u8>>().unwrap(), [1, 2]);
        assert_eq!(*Parcel::from(message("[3]")).read::<Vec<u8>>().unwrap(), [3]);
    }
}
