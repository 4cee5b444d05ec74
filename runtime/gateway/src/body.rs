//! Reads the body of a request, within bounds.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::time::timeout;
use wire::ErrorCode;
pub use wire::run::BODY_BYTES_MAX;

use crate::refusal::Refusal;

/// The longest time for a body to arrive; 2 MiB need no more on a line of 2 Mbit/s.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a body that are read though it is too large. A client that is still sending when the
/// connection is closed does not get to see why it was refused.
const READ_BYTES_MAX: usize = 4 * BODY_BYTES_MAX;

/// Reads a whole body.
pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    read_at_most(BODY_BYTES_MAX, headers, body).await
}

/// Reads a whole body that may have so many bytes.
pub(crate) async fn read_at_most(
    bytes_max: usize,
    headers: &HeaderMap,
    body: Body,
) -> Result<Bytes, Refusal> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    // A client that expects to be told whether to send has sent nothing yet.
    if announced.is_some_and(|bytes| bytes > bytes_max) && headers.contains_key(header::EXPECT) {
        return Err(too_large(bytes_max));
    }
    timeout(BODY_TIMEOUT, collect(bytes_max, body)).await.unwrap_or_else(|_| {
        let text = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        Err(Refusal::new(ErrorCode::DeadlineExceeded, text))
    })
}

async fn collect(bytes_max: usize, body: Body) -> Result<Bytes, Refusal> {
    let mut parts = body.into_data_stream();
    let mut whole = BytesMut::new();
    let mut read = 0_usize;
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| {
            Refusal::new(ErrorCode::BadRequest, format!("the body cannot be read: {error}"))
        })?;
        read = read.saturating_add(part.len());
        if read <= bytes_max {
            whole.extend_from_slice(&part);
        } else if read > READ_BYTES_MAX {
            break;
        }
    }
    if read > bytes_max { Err(too_large(bytes_max)) } else { Ok(whole.freeze()) }
}

fn too_large(bytes_max: usize) -> Refusal {
    let text = format!("the body has more than {bytes_max} bytes");
    Refusal::new(ErrorCode::TooLarge, text)
}
