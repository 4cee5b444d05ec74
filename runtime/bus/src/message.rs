//! One message as it is received.

use bytes::Bytes;
use wire::Headers;

/// Carries a payload and its headers on a subject.
#[derive(Clone, Debug)]
pub struct Message {
    /// Where it was sent to.
    pub subject: String,
    /// Where an answer is expected, if one is. The sender chose it; see
    /// [`Bus::reply`](crate::Bus::reply).
    pub reply: Option<String>,
    /// The headers.
    pub headers: Headers,
    /// The body.
    pub payload: Bytes,
}
