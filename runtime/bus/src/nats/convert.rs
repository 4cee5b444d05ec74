//! Messages as the client has them and as we have them.

use std::borrow::Cow;

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use wire::{Headers, header};

use crate::error::Error;
use crate::message::Message;

/// Makes the client's headers of ours, which were [checked](crate::check::headers): it does not look
/// at names that live as long as the program.
pub(super) fn headers_out(headers: &Headers) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers.values() {
        let invalid = |fault| Error::InvalidHeader { name: crate::check::shown(name), fault };
        let key = match name {
            Cow::Borrowed(name) => HeaderName::from_static(name),
            Cow::Owned(name) => name.parse().map_err(|_| invalid("the client refuses the name"))?,
        };
        // The client takes a `String` as it is, and would panic at an end of a line, which only a
        // text may have.
        let value = match value {
            header::HeaderValue::Text(text) => {
                text.parse().map_err(|_| invalid("the client refuses the value"))?
            }
            other => HeaderValue::from(other.text().into_owned()),
        };
        map.insert(key, value);
    }
    Ok(map)
}

/// Tells whether the client received the headers that were sent.
pub(super) fn is_same(sent: &Headers, received: Option<&HeaderMap>) -> bool {
    sent.len() == received.map_or(0, HeaderMap::len)
        && received.into_iter().flat_map(HeaderMap::iter).all(|(name, values)| match &values[..] {
            [value] => sent.get(name.as_ref()).is_some_and(|sent| sent == value.as_str()),
            _ => false,
        })
}

/// Makes our message of the client's.
///
/// Of a header that is there twice the first counts. The client forgets the order of headers, so
/// they are put in that of their names.
pub(super) fn message_in(message: async_nats::Message) -> Message {
    let mut list: Vec<(String, &str)> = Vec::new();
    if let Some(map) = &message.headers {
        for (name, values) in map.iter() {
            list.extend(values.first().map(|value| (name.to_string(), value.as_str())));
        }
        list.sort_unstable();
    }
    let mut headers = Headers::new();
    for (name, value) in list {
        headers.insert(name, value);
    }
    message_with(headers, message)
}

/// Makes our message of the client's, whose headers are known.
pub(super) fn message_with(headers: Headers, message: async_nats::Message) -> Message {
    Message {
        subject: message.subject.into_string(),
        reply: message.reply.map(async_nats::Subject::into_string),
        headers,
        payload: message.payload,
    }
}
