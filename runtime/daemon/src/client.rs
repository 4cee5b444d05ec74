//! Bodies of requests and answers, and the HTTP door of a running daemon.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use wire::error::ErrorBody;
use wire::{ErrorCode, Name};

use crate::failure::Failure;
use crate::place::Place;

/// The address that a daemon listens on unless it is told another.
pub(crate) const URL_DEFAULT: &str = "http://127.0.0.1:8787";

/// How long a look-up may take.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest answer that is read: every reply and list is far below it.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Asks one daemon over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<SecretString>,
}

/// Puts a body into its wire form.
pub(crate) fn encode(body: &impl Serialize) -> Result<Bytes, Failure> {
    let bytes = serde_json::to_vec(body)
        .map_err(|error| Failure::new(ErrorCode::Internal, format!("write a request: {error}")))?;
    Ok(bytes.into())
}

/// Reads an answer: what was asked for, or the error that it reports.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    // A reply of a run may have an error of its own; one that is nothing else has no other field.
    if let Ok(Value::Object(fields)) = serde_json::from_slice(body)
        && fields.len() == 1
        && let Ok(ErrorBody { error }) = serde_json::from_value(Value::Object(fields))
    {
        return Err(error.into());
    }
    serde_json::from_slice(body).map_err(|error| {
        Failure::new(ErrorCode::Internal, format!("the answer cannot be read: {error}"))
    })
}

impl Client {
    /// Takes the address of a daemon, with or without `http://`, and the token that it asks for.
    pub(crate) fn new(address: &str, token: Option<SecretString>) -> Result<Self, Failure> {
        let base = match address.split_once("://") {
            Some(_) => address.trim_end_matches('/').to_owned(),
            None => format!("http://{}", address.trim_end_matches('/')),
        };
        Ok(Self { http: tools::client::http_client()?, base, token })
    }

    /// Finds the daemon that holds the data of a team; `None` if nobody does for long.
    pub(crate) fn of_holder(place: &Place, team: &Name) -> Result<Option<Self>, Failure> {
        let Some(address) = Self::address_of_holder(place, team)? else { return Ok(None) };
        Self::new(&address, place.token()?).map(Some)
    }

    /// Finds where the daemon that holds the data of a team is asked; `None` if nobody does for long.
    pub(crate) fn address_of_holder(place: &Place, team: &Name) -> Result<Option<String>, Failure> {
        let Some(holder) = place.holder(team)? else { return Ok(None) };
        if let Some(listen) = holder.listen {
            return Ok(Some(listen));
        }
        // Not every command that finds a daemon so can ask over NATS.
        let way = holder.nats.as_ref().map_or_else(String::new, |url| {
            format!("`callboard ask`, `calls`, `trace` and `top` reach it with `--nats {url}`, or ")
        });
        let text = format!(
            "the data of team {team} is in use by {holder}, which has no HTTP door to ask at; \
             {way}wait until it ends"
        );
        Err(Failure::new(ErrorCode::DataInUse, text))
    }

    /// Reads something.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, Failure> {
        let url = reqwest::Url::parse_with_params(&self.url(path), query).map_err(|error| {
            Failure::new(ErrorCode::BadRequest, format!("ask {}: {error}", self.base))
        })?;
        let request = self.http.request(Method::GET, url).timeout(LOOKUP_TIMEOUT);
        self.send(request, ErrorCode::Unavailable).await
    }

    /// Asks for something to be done.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        timeout: Duration,
    ) -> Result<T, Failure> {
        let url = self.url(path);
        let body = encode(body)?;
        let request = self
            .http
            .request(Method::POST, url)
            .header("content-type", "application/json")
            .body(body)
            .timeout(timeout);
        // The daemon may have taken what it does not answer.
        self.send(request, ErrorCode::DeadlineExceeded).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
        unanswered: ErrorCode,
    ) -> Result<T, Failure> {
        let failure = |error: &reqwest::Error| {
            let text = format!("ask the daemon at {}: {}", self.base, root_cause(error));
            if error.is_connect() {
                let text = format!("{text}; is `callboard serve` running?");
                return Failure::new(ErrorCode::Unavailable, text);
            }
            let code = if error.is_timeout() { ErrorCode::DeadlineExceeded } else { unanswered };
            Failure::new(code, text)
        };
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose_secret()),
            None => request,
        };
        let mut answer = request.send().await.map_err(|error| failure(&error))?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| failure(&error))? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                let text =
                    format!("the answer of {} has more than {ANSWER_BYTES_MAX} bytes", self.base);
                return Err(Failure::new(ErrorCode::TooLarge, text));
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return decode(&body);
        }
        match decode::<Value>(&body) {
            Err(Failure::Error(error))
                if error.code != ErrorCode::Internal || body.starts_with(b"{\"error\"") =>
            {
                Err(error.into())
            }
            _ => {
                let code = match status {
                    // Somebody before the daemon has no answer of it.
                    StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => unanswered,
                    _ if status.is_client_error() => ErrorCode::BadRequest,
                    _ => ErrorCode::Unavailable,
                };
                Err(Failure::new(code, format!("{} answers {status}", self.base)))
            }
        }
    }
}

fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn an_answer_is_what_was_asked_for_or_its_error() {
        let error = br#"{"error":{"code":"E1006","message":"full"}}"#;
        let Err(Failure::Error(found)) = decode::<Value>(error) else { panic!("no error") };
        assert_eq!(found.code, ErrorCode::Overloaded);
        let reply = br#"{"run":"r","error":{"code":"E4001","message":"steps"}}"#;
        assert!(decode::<Value>(reply).is_ok(), "a failed run is an answer");
        assert!(decode::<Value>(b"<html>").is_err());
    }

    /// Answers one request with some bytes, or with none, and is gone.
    async fn answering(bytes: &'static str) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = [0; 4096];
            let _ = stream.read(&mut read).await.unwrap();
            stream.write_all(bytes.as_bytes()).await.unwrap();
        });
        Client::new(&address.to_string(), None).unwrap()
    }

    #[tokio::test]
    async fn what_the_daemon_may_have_taken_is_not_said_to_be_refused() {
        let (refused, open) = (ErrorCode::Unavailable, ErrorCode::DeadlineExceeded);
        for (bytes, looked_up, asked_for) in [
            ("", refused, open),
            ("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n", refused, open),
            ("HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\n\r\n", refused, open),
            ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", refused, refused),
            (
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
                ErrorCode::BadRequest,
                ErrorCode::BadRequest,
            ),
        ] {
            let code = |answer: Result<Value, Failure>| match answer {
                Err(Failure::Error(error)) => error.code,
                other => panic!("{other:?}"),
            };
            let got = answering(bytes).await.get("/", &[]).await;
            assert_eq!(code(got), looked_up, "{bytes}");
            let posted = answering(bytes).await.post("/", &(), LOOKUP_TIMEOUT).await;
            assert_eq!(code(posted), asked_for, "{bytes}");
        }
    }

    #[test]
    fn an_address_needs_no_scheme() {
        let cases = [
            ("127.0.0.1:1", "http://127.0.0.1:1"),
            ("http://h:1/", "http://h:1"),
            ("https://h", "https://h"),
        ];
        for (address, base) in cases {
            assert_eq!(Client::new(address, None).unwrap().base, base);
        }
    }
}
