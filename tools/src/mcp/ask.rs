//! Questions of servers to people.
//!
//! Servers of the current protocol ask in the answer to the call itself. Older ones send a request
//! of their own, which does not say for which call, so the calls of a connection are known.

use rmcp::model::{
    ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests,
    InputResponses,
};
use serde_json::Value;
use tracing::info;
use wire::question::{FORM_BYTES_MAX, QUESTION_BYTES_MAX};
use wire::{Name, Said};

use super::calls::Calls;
use crate::interim::Interim;
use crate::schema::compile;

/// Answers a question that a server asks beside its calls.
pub(super) async fn elicit(
    server: &Name,
    calls: &Calls,
    request: ElicitRequestParams,
) -> ElicitResult {
    let Some(_place) = calls.place() else {
        info!(%server, "a question of an MCP server is cancelled, too many wait");
        return ElicitResult::new(ElicitationAction::Cancel);
    };
    let Some((text, form)) = question(server, request) else {
        return ElicitResult::new(ElicitationAction::Decline);
    };
    let Some(interim) = calls.asking().await else {
        info!(%server, "MCP server asks, and nobody knows whom: calls of several runs, or of none");
        return ElicitResult::new(ElicitationAction::Cancel);
    };
    result(interim.ask(text, form).await)
}

/// Answers what a server of the current protocol needs to go on with a call; an error says what it
/// asks for that it cannot have.
pub(super) async fn fulfil(
    server: &Name,
    interim: &Interim,
    requests: InputRequests,
) -> Result<InputResponses, String> {
    let mut responses = InputResponses::new();
    for (key, request) in requests {
        let answered = match request {
            InputRequest::Elicitation(request) => match question(server, request.params) {
                Some((text, form)) => result(interim.ask(text, form).await),
                None => ElicitResult::new(ElicitationAction::Decline),
            },
            _ => {
                return Err("the MCP server asks for something other than words of a person, \
                            which it was not offered"
                    .to_owned());
            }
        };
        let answered = serde_json::to_value(answered);
        responses.insert(key, answered.map_err(|error| format!("write an answer: {error}"))?);
    }
    Ok(responses)
}

/// Returns what a person is asked, if it can be asked here.
fn question(server: &Name, request: ElicitRequestParams) -> Option<(String, Value)> {
    let declined = |why: &str| {
        info!(%server, why, "a question of an MCP server is declined");
        None
    };
    let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request
    else {
        return declined("it sends people to an address, which it was not offered");
    };
    let Ok(form) = serde_json::to_value(requested_schema) else {
        return declined("its form cannot be written");
    };
    if message.len() > QUESTION_BYTES_MAX || form.to_string().len() > FORM_BYTES_MAX {
        return declined("it is too long");
    }
    if compile(&form).is_err() {
        return declined("its form is no schema");
    }
    let text = format!(
        "MCP server {server} asks. What you answer goes to that server. It must not ask for \
         passwords or other secrets, so do not give it any.\nIt says: {}",
        message.trim()
    );
    Some((text, form))
}

fn result(said: Said) -> ElicitResult {
    match said {
        Said::Accept { content } => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        Said::Decline => ElicitResult::new(ElicitationAction::Decline),
        Said::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(message: &str, schema: &Value) -> ElicitRequestParams {
        let request = json!({"message": message, "requestedSchema": schema});
        serde_json::from_value(request).unwrap()
    }

    #[tokio::test]
    async fn what_cannot_be_asked_is_declined() {
        let server = Name::new("shop").unwrap();
        let url: ElicitRequestParams = serde_json::from_value(json!({
            "mode": "url", "message": "Log in", "url": "https://x.example", "elicitationId": "e",
        }))
        .unwrap();
        let plain = json!({"type": "object", "properties": {}});
        let long = form(&"x".repeat(QUESTION_BYTES_MAX + 1), &plain);
        let fields: serde_json::Map<String, Value> =
            (0..1000).map(|n| (format!("field {n}"), json!({"type": "string"}))).collect();
        let wide = form("Sure?", &json!({"type": "object", "properties": fields}));
        for request in [url, long, wide] {
            let said = elicit(&server, &Calls::default(), request).await;
            assert_eq!(said.action, ElicitationAction::Decline);
        }
    }
}
