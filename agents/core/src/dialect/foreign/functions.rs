//! Functions in dialect `json`: a schema of their own, feedback with codes of its own, a flat form.

use serde_json::{Value, json};
use wire::FinishReason::Stop;
use wire::entry::FeedbackCode;
use wire::plan::{Dialect, Text};
use wire::{ModelRole, Plan, Reading};

use super::super::fixture::{self, reply};
use super::super::{Act, read};
use super::{catalogue, replied, said, sent, step, tool};

/// Writes the tools in `list` as an object of functions, in the way of Python signatures.
const FUNCTIONS: &str = r#"
{%- set types = {"number": "float", "integer": "int", "string": "str", "boolean": "bool"} %}
{%- set all = namespace(functions={}) %}
{%- for tool in list %}
  {%- set own = namespace(arguments={}) %}
  {%- for name, p in tool.parameters.properties | items %}
    {%- set a = {"type": "Literal", "values": p.enum} if p.enum else {"type": types[p.type]} %}
    {%- if p.description %}{% set a = dict(a, description=p.description) %}{% endif %}
    {%- set a = dict(a, default=none, required=name in (tool.parameters.required or [])) %}
    {%- set own.arguments = dict(own.arguments, **{name: a}) %}
  {%- endfor %}
  {%- set f = {"name": tool.name, "description": tool.description, "arguments": own.arguments, "return": {"type": "str"}} %}
  {%- set all.functions = dict(all.functions, **{tool.name: f}) %}
{%- endfor %}
"#;

fn functions_plan() -> Plan {
    let mut plan = fixture::plan(Dialect::Json, false);
    plan.form.ending = "finish_conversation".to_owned();
    plan.form.answer = "final_answer".to_owned();
    let formula = json!({"type": "string", "description": "A simple expression."});
    let place = json!({
        "latitude": {"type": "number"},
        "temperature_unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    });
    let object = |properties: Value, required: &[&str]| {
        json!({"type": "object", "properties": properties, "required": required,
               "additionalProperties": false})
    };
    plan.tools = vec![
        tool("get_current_location", "Finds the user.", object(json!({}), &[])),
        tool(
            "get_current_weather",
            "Tells the weather.",
            object(place, &["latitude", "temperature_unit"]),
        ),
        tool("calculate", "Computes.", object(json!({"formula": formula}), &["formula"])),
    ];
    plan
}

#[test]
fn functions_are_described_by_a_schema_of_their_own() {
    let system = format!(
        "{{% set list = [dict(respond_to_user, description=\"Ends.\")] + tools %}}{}\
         FUNCTION SCHEMA\n{{{{ all.functions | tojson(indent=2) }}}}",
        FUNCTIONS.trim_start()
    );
    let catalogue = catalogue(functions_plan(), &[(ModelRole::Actor, Text::System, &system)]);
    let sent = sent(ModelRole::Actor, &catalogue, &[], "Weather?", &[]);
    let expected = r#"FUNCTION SCHEMA
{
  "finish_conversation": {
    "name": "finish_conversation",
    "description": "Ends.",
    "arguments": {
      "final_answer": {
        "type": "str",
        "default": null,
        "required": true
      }
    },
    "return": {
      "type": "str"
    }
  },
  "get_current_location": {
    "name": "get_current_location",
    "description": "Finds the user.",
    "arguments": {},
    "return": {
      "type": "str"
    }
  },
  "get_current_weather": {
    "name": "get_current_weather",
    "description": "Tells the weather.",
    "arguments": {
      "latitude": {
        "type": "float",
        "default": null,
        "required": true
      },
      "temperature_unit": {
        "type": "Literal",
        "values": [
          "celsius",
          "fahrenheit"
        ],
        "default": null,
        "required": true
      }
    },
    "return": {
      "type": "str"
    }
  },
  "calculate": {
    "name": "calculate",
    "description": "Computes.",
    "arguments": {
      "formula": {
        "type": "str",
        "description": "A simple expression.",
        "default": null,
        "required": true
      }
    },
    "return": {
      "type": "str"
    }
  }
}"#;
    assert_eq!(sent, [said("system", expected), said("user", "Weather?")]);
}

#[test]
fn feedback_is_a_json_object_with_codes_of_its_own() {
    let functions = format!("{{% set list = [tool] %}}{}", FUNCTIONS.trim_start());
    let feedback = r#"
{%- set head = {"type": "feedback_error"} if name is none else {"type": "feedback_error", "function": name, "arguments": arguments} %}
{%- if code == "unknown_tool" %}
  {%- set error = {"code": "INVALID FUNCTION NAME", "error_message": name ~ " is not a valid function", "reminder": {"valid_function_names": [respond_to_user.name] + tools | map(attribute="name") | list}} %}
{%- elif code == "invalid_arguments" %}
  FUNCTIONS
  {%- set error = {"code": "INVALID ARGUMENTS", "missing_arguments": missing, "invalid_arguments": unknown, "reminder": {"valid_function_schema": all.functions[name]}} %}
{%- else %}
  {%- set error = {"code": "MALFORMED PAYLOAD", "error_details": faults, "reminder": {"valid_format": {"thought": "<thought>"}}} %}
{%- endif %}
{{- dict(head, error=error) | tojson }}"#
        .replace("  FUNCTIONS\n", &functions);
    let result = r#"
{%- if error %}
  FUNCTIONS
  {%- set error = {"code": "EXECUTION FAILED", "error_message": "Failed to execute function: " ~ error.message, "reminder": {"valid_function_schema": all.functions[name]}} %}
  {{- {"type": "feedback_error", "function": name, "arguments": arguments, "error": error} | tojson }}
{%- else %}
  {{- {"type": "feedback_success", "function": name, "arguments": arguments, "result": result} | tojson }}
{%- endif %}"#
        .replace("  FUNCTIONS\n", &functions);
    let catalogue = catalogue(
        functions_plan(),
        &[
            (ModelRole::Actor, Text::System, ""),
            (ModelRole::Actor, Text::Call, "{{ reply }}"),
            (ModelRole::Actor, Text::Feedback, &feedback),
            (ModelRole::Actor, Text::Result, &result),
        ],
    );
    let reply = |name: &str, arguments: Value| {
        json!({"thought": "t", "action": {"function": name, "arguments": arguments}}).to_string()
    };
    let schema = r#"{"name": "calculate", "description": "Computes.", "arguments": {"formula": {"type": "str", "description": "A simple expression.", "default": null, "required": true}}, "return": {"type": "str"}}"#;
    let fenced = format!("```\n{}\n```", reply("get_current_location", json!({})));
    let failed = json!({"error": {"code": "E3002", "message": "no number"}}).to_string();
    // What the model wrote, what came of it, and what it is told.
    let cases = [
        (fenced + "\nAnd so on.", r#"{"lat": 1}"#, r#"{"type": "feedback_success", "function": "get_current_location", "arguments": {}, "result": "{\"lat\": 1}"}"#.to_owned()),
        (reply("calculate", json!({"formula": "x"})), &failed, format!(r#"{{"type": "feedback_error", "function": "calculate", "arguments": {{"formula": "x"}}, "error": {{"code": "EXECUTION FAILED", "error_message": "Failed to execute function: no number", "reminder": {{"valid_function_schema": {schema}}}}}}}"#)),
        (reply("fly", json!({})), "", r#"{"type": "feedback_error", "function": "fly", "arguments": {}, "error": {"code": "INVALID FUNCTION NAME", "error_message": "fly is not a valid function", "reminder": {"valid_function_names": ["finish_conversation", "get_current_location", "get_current_weather", "calculate"]}}}"#.to_owned()),
        (reply("calculate", json!({"lat": 1})), "", format!(r#"{{"type": "feedback_error", "function": "calculate", "arguments": {{"lat": 1}}, "error": {{"code": "INVALID ARGUMENTS", "missing_arguments": ["formula"], "invalid_arguments": ["lat"], "reminder": {{"valid_function_schema": {schema}}}}}}}"#)),
        (reply("finish_conversation", json!({"result": 1})), "", r#"{"type": "feedback_error", "function": "finish_conversation", "arguments": {"result": 1}, "error": {"code": "INVALID ARGUMENTS", "missing_arguments": ["final_answer"], "invalid_arguments": ["result"], "reminder": {"valid_function_schema": {"name": "finish_conversation", "description": "Gives the user the final answer and ends the work.", "arguments": {"final_answer": {"type": "str", "default": null, "required": true}}, "return": {"type": "str"}}}}}"#.to_owned()),
        (r#"{"action": {"function": null}}"#.to_owned(), "", r#"{"type": "feedback_error", "error": {"code": "MALFORMED PAYLOAD", "error_details": ["\"function\" must be a string, not null", "\"arguments\" is missing"], "reminder": {"valid_format": {"thought": "<thought>"}}}}"#.to_owned()),
    ];
    let acts: Vec<Act> =
        cases.iter().map(|(reply, result, _)| replied(&catalogue, reply, result)).collect();
    let found = sent(ModelRole::Actor, &catalogue, &[], "Weather?", &[step(None, acts)]);
    let mut expected = vec![said("user", "Weather?")];
    for (written, _, answer) in &cases {
        let written = written.strip_suffix("\nAnd so on.").unwrap_or(written);
        expected.extend([said("assistant", written), said("user", answer.clone())]);
    }
    assert_eq!(found, expected);
}

#[test]
fn a_flat_form_has_no_action_round_the_call() {
    let mut plan = functions_plan();
    plan.form.action = None;
    let catalogue = catalogue(plan, &[(ModelRole::Actor, Text::System, "")]);
    let written = r#"{"thought":"t","function":"calculate","arguments":{"formula":"1"}}"#;
    let acts = vec![replied(&catalogue, written, "1")];
    let found = sent(ModelRole::Actor, &catalogue, &[], "Q", &[step(None, acts)]);
    let told = r#"{"type":"feedback_success","function":"calculate","arguments":{"formula":"1"},"result":1}"#;
    assert_eq!(found, [said("user", "Q"), said("assistant", written), said("user", told)]);
    for (reply, faults) in [("{\"thought\":\"t\"}", 2), ("{\"function\":1,\"arguments\":[]}", 2)] {
        let Act::Feedback { feedback, .. } = replied(&catalogue, reply, "") else {
            panic!("{reply}")
        };
        assert_eq!((feedback.code, feedback.faults.len()), (FeedbackCode::MalformedReply, faults));
    }
    let end = r#"{"thought":"","function":"finish_conversation","arguments":{"final_answer":"a"}}"#;
    let read = read(ModelRole::Actor, &catalogue, None, &reply(Stop, end));
    assert_eq!(read.reading, Reading::Final { text: "a".into() });
}
