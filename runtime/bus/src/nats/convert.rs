//! Messages as the client has them and as we have them.

use async_nats::{HeaderMap, HeaderName, HeaderValue};
use wire::Headers;

use crate::error::Error;
use crate::message::Message;

/// Makes the client's headers of ours.
pub(super) fn headers_out(headers: &Headers) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter() {
        let invalid = |fault| Error::InvalidHeader { name: crate::check::shown(name), fault };
        let key: HeaderName = name.parse().map_err(|_| invalid("the client refuses the name"))?;
        let value: HeaderValue =
            value.parse().map_err(|_| invalid("the client refuses the value"))?;
        map.insert(key, value);
    }
    Ok(map)
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
    Message {
        subject: message.subject.into_string(),
        reply: message.reply.map(async_nats::Subject::into_string),
        headers,
        payload: message.payload,
    }
}
