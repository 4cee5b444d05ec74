//! What a client is told when there is nothing else to tell: a status and an error body.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use wire::error::ErrorBody;
use wire::{ErrorCode, WireError};

/// An error on its way to the client.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    error: WireError,
}

impl Refusal {
    /// Makes a refusal whose status follows from the code.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        WireError::new(code, message).into()
    }

    /// Makes a refusal for what concerns HTTP alone and so has no code of its own.
    pub(crate) fn with_status(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, error: WireError::new(ErrorCode::BadRequest, message) }
    }

    /// Gives a refusal another status than follows from its code.
    pub(crate) fn of_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Says when to come again.
    pub(crate) fn retry_after(mut self, ms: u64) -> Self {
        self.error.retry_after_ms = Some(ms);
        self
    }

    /// Returns the code.
    #[cfg(test)]
    pub(crate) const fn code(&self) -> ErrorCode {
        self.error.code
    }
}

impl From<WireError> for Refusal {
    fn from(error: WireError) -> Self {
        Self { status: status_of(error.code), error }
    }
}

impl From<bus::Error> for Refusal {
    fn from(error: bus::Error) -> Self {
        error.to_wire().into()
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::AmbiguousTrace { .. } => {
                Self::new(ErrorCode::BadRequest, error.to_string())
            }
            error => node::Error::from(error).to_wire().into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let retry_after = self.error.retry_after_ms;
        let asks_for_token = self.status == StatusCode::UNAUTHORIZED;
        let body = Json(ErrorBody { error: self.error });
        let mut response = (self.status, body).into_response();
        if let Some(ms) = retry_after {
            let seconds = HeaderValue::from(ms.div_ceil(1000).max(1));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if asks_for_token {
            let scheme = HeaderValue::from_static("Bearer realm=\"callboard\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

/// Returns the status of a refusal with some code.
pub(crate) const fn status_of(code: ErrorCode) -> StatusCode {
    use ErrorCode as Code;
    match code {
        Code::BadRequest => StatusCode::BAD_REQUEST,
        Code::NotSignedIn => StatusCode::UNAUTHORIZED,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnknownAgent
        | Code::UnknownRun
        | Code::UnknownSession
        | Code::UnknownTool
        | Code::UnknownCall => StatusCode::NOT_FOUND,
        Code::RunConflict | Code::NotWaiting | Code::SessionBusy | Code::Cancelled => {
            StatusCode::CONFLICT
        }
        Code::Overloaded => StatusCode::TOO_MANY_REQUESTS,
        Code::InvalidArguments
        | Code::StepLimit
        | Code::BudgetExceeded
        | Code::DepthExceeded
        | Code::CallLimit
        | Code::LoopDetected
        | Code::AnswerCut
        | Code::AddressForbidden
        | Code::CallDenied => StatusCode::UNPROCESSABLE_ENTITY,
        Code::DeadlineExceeded | Code::ToolTimeout => StatusCode::GATEWAY_TIMEOUT,
        Code::ModelRefused
        | Code::ModelUnavailable
        | Code::ReplyUnusable
        | Code::ModelProtocol
        | Code::ToolFailed
        | Code::AgentFailed
        | Code::OutcomeUnknown
        | Code::ToolChanged => StatusCode::BAD_GATEWAY,
        Code::Unavailable
        | Code::ModelResting
        | Code::ToolUnavailable
        | Code::DataInUse
        | Code::TeamServed
        | Code::StorageFull
        | Code::NatsUnavailable
        | Code::NatsTooOld
        | Code::NatsUnprotected
        | Code::HttpUnprotected => StatusCode::SERVICE_UNAVAILABLE,
        Code::PrefixUnknown
        | Code::ResumedTooOften
        | Code::JournalDamaged
        | Code::StorageFailed
        | Code::SessionDamaged
        | Code::Internal
        | Code::ConfigInvalid
        | Code::FileUnreadable
        | Code::SecretMissing
        | Code::SandboxUnavailable => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_status() {
        let expected = [
            (400, "E1001"),
            (401, "E1014"),
            (404, "E1003 E1004 E1009 E1012 E3001"),
            (409, "E1005 E1010 E1013 E4004"),
            (413, "E1002"),
            (422, "E3002 E3008 E3012 E4001 E4002 E4003 E4006 E4007 E4008"),
            (429, "E1006"),
            (500, "E2003 E4005 E5002 E5003 E5006 E5007 E6001 E6002 E6003 E6004"),
            (502, "E2001 E2002 E2004 E2005 E3003 E3006 E3009 E3011"),
            (503, "E1008 E2006 E3005 E5001 E5004 E5005 E5008 E5009 E5010 E5011"),
            (504, "E1007 E3004"),
        ];
        let mut listed = 0;
        for (status, codes) in expected {
            for code in codes.split(' ') {
                let code: ErrorCode = code.parse().unwrap();
                assert_eq!(status_of(code).as_u16(), status, "{code}");
                listed += 1;
            }
        }
        assert_eq!(listed, ErrorCode::ALL.len(), "a code without a status");
    }

    #[test]
    fn every_code_is_in_the_references() {
        let http = include_str!("../../HTTP.md");
        let subjects = include_str!("../../SUBJECTS.md");
        for code in ErrorCode::ALL {
            let row = format!("| {code} | {} |", code.title());
            assert!(subjects.contains(&row), "runtime/SUBJECTS.md lacks {row}");
            let status = format!("| {} |", status_of(*code).as_u16());
            let line = http.lines().find(|line| line.starts_with(&status)).unwrap_or_default();
            assert!(line.contains(code.as_str()), "runtime/HTTP.md lacks {code} under {status}");
        }
        let rows = subjects.lines().filter(|line| line.starts_with("| E")).count();
        assert_eq!(rows, ErrorCode::ALL.len(), "a row without a code");
    }

    #[test]
    fn a_store_that_fails_is_told_of_as_on_the_bus() {
        let cases = [
            (store::Error::Closed { doing: "look" }, 503, "E5008", true),
            (store::Error::TooLarge { bytes: 2, max: 1 }, 500, "E5003", false),
            (store::Error::AmbiguousTrace { prefix: "abcd".to_owned() }, 400, "E1001", false),
        ];
        for (error, status, code, comes_again) in cases {
            let Refusal { status: found, error } = error.into();
            let told = (found.as_u16(), error.code.as_str(), error.retry_after_ms.is_some());
            assert_eq!(told, (status, code, comes_again), "{error}");
        }
    }

    #[test]
    fn advice_to_come_again_is_in_whole_seconds() {
        for (ms, seconds) in [(None, None), (Some(1), Some("1")), (Some(1001), Some("2"))] {
            let error = Refusal::new(ErrorCode::Overloaded, "full");
            let error = ms.into_iter().fold(error, Refusal::retry_after);
            let response = error.into_response();
            let header = response.headers().get(header::RETRY_AFTER);
            assert_eq!(header.map(|value| value.to_str().unwrap()), seconds);
        }
    }
}
