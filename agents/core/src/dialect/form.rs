//! The words of the forms in which dialects without schema or tool calling are asked for calls.

use serde_json::{Map, Value, json};
use wire::plan::Form;

use super::RESPOND_TO_USER;
use super::calls::{Ending, RESPOND};

/// What begins every message of the runtime's by its type, however it goes on.
pub(super) const FEEDBACK: &str = "feedback";

/// The text at which a reply of dialect `react` ends: what follows is not the model's to write.
pub(super) const STOP: &str = "\nObservation";

/// The words of dialect `react` that end the work, as an action or as a label.
pub(super) const FINAL_ANSWER: &str = "Final Answer";

/// The ways out of dialect `react` by a call.
pub(super) const REACT_ENDINGS: [Ending<'_>; 1] = [Ending { name: RESPOND_TO_USER, ..RESPOND }];

/// Returns the names that end the work in dialect `json`; models are told the first.
pub(super) fn endings(form: &Form) -> [Ending<'_>; 3] {
    let finish = Ending { name: "finish_conversation", answer: "final_answer" };
    [Ending { name: &form.ending, answer: &form.answer }, RESPOND, finish]
}

/// Writes a call in the form of dialect `json`.
pub(super) fn object(form: &Form, thought: &str, name: &str, arguments: &Value) -> Value {
    let call = json!({form.function.as_str(): name, form.arguments.as_str(): arguments});
    let mut object = Map::new();
    object.insert(form.thought.clone(), thought.into());
    match (&form.action, call) {
        (Some(action), call) => drop(object.insert(action.clone(), call)),
        (None, Value::Object(call)) => object.extend(call),
        (None, _) => {}
    }
    object.into()
}

/// Returns the form of a reply of dialect `json` as a schema.
pub(super) fn schema(form: &Form) -> Value {
    let call = [
        (form.function.clone(), json!({"type": "string"})),
        (form.arguments.clone(), json!({"type": "object"})),
    ];
    let thought = (form.thought.clone(), json!({"type": "string"}));
    match &form.action {
        Some(action) => closed([thought, (action.clone(), closed(call))]),
        None => closed([thought].into_iter().chain(call)),
    }
}

/// Makes the schema of an object that needs all of its properties.
fn closed(properties: impl IntoIterator<Item = (String, Value)>) -> Value {
    let properties: Map<String, Value> = properties.into_iter().collect();
    let required: Vec<String> = properties.keys().cloned().collect();
    json!({"type": "object", "properties": properties, "required": required})
}
