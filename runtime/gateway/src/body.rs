//! Reads the body of a request, within bounds.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::time::timeout;
use wire::run::INPUT_BYTES_MAX;
use wire::{ErrorCode, WireError};

use crate::refusal::Refusal;

/// The largest body that is read, in bytes: the longest input with every character escaped.
pub const BODY_BYTES_MAX: usize = 2 * INPUT_BYTES_MAX;

/// The longest time for a body to arrive; 2 MiB need no more on a line of 2 Mbit/s.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a whole body.
pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
        return Err(too_large());
    }
    timeout(BODY_TIMEOUT, collect(body, announced.unwrap_or(0))).await.unwrap_or_else(|_| {
        let text = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
        Err(Refusal::new(ErrorCode::DeadlineExceeded, text))
    })
}

async fn collect(body: Body, announced: usize) -> Result<Bytes, Refusal> {
    let mut parts = body.into_data_stream();
    let mut whole = BytesMut::with_capacity(announced);
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| {
            Refusal::new(ErrorCode::BadRequest, format!("the body cannot be read: {error}"))
        })?;
        if whole.len().saturating_add(part.len()) > BODY_BYTES_MAX {
            return Err(too_large());
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

fn too_large() -> Refusal {
    let text = format!("the body has more than {BODY_BYTES_MAX} bytes");
    WireError::new(ErrorCode::TooLarge, text).into()
}
