//! The requests by which a server over HTTP is spoken to.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage};
use rmcp::transport::common::client_side_sse::BoxedSseResponse;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use thiserror::Error;

pub(super) type HttpError = StreamableHttpError<reqwest::Error>;

/// Sees to it that a refusal reaches the request that it answers, also if it does not name it.
///
/// The library finds the request by the id in the refusal, and drops one without it. Servers that
/// look for the session before they look at the request put none into what they say of a session
/// that they do not know.
#[derive(Clone)]
pub(super) struct Posts(reqwest::Client);

/// A refusal in a session that does not name its request.
#[derive(Debug, Error)]
#[error("{}", .0.message)]
pub(super) struct Unnamed(ErrorData);

impl Posts {
    pub(super) fn new(http: reqwest::Client) -> Self {
        Self(http)
    }
}

impl Unnamed {
    /// Returns the refusal that an error of the library holds, if it does.
    pub(super) fn held(error: &HttpError) -> Option<&Self> {
        let HttpError::Io(error) = error else { return None };
        error.get_ref()?.downcast_ref()
    }
}

// What the trait says of the sizes of events by default is what we want.
impl StreamableHttpClient for Posts {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let has_session = session.is_some();
        let answered = self.0.post_message(uri, message, session, auth, headers).await?;
        let (Some(asked), StreamableHttpPostResponse::Json(JsonRpcMessage::Error(refused), opened)) =
            (asked, &answered)
        else {
            return Ok(answered);
        };
        // Some servers write numbers as texts.
        if refused.id.as_ref().is_some_and(|id| id.to_string() == asked.to_string()) {
            return Ok(answered);
        }
        let error = refused.error.clone();
        if has_session {
            return Err(HttpError::Io(io::Error::other(Unnamed(error))));
        }
        let named = JsonRpcMessage::error(error, Some(asked));
        Ok(StreamableHttpPostResponse::Json(named, opened.clone()))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), HttpError> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxedSseResponse, HttpError> {
        self.0.get_stream(uri, session, last_event, auth, headers).await
    }
}
