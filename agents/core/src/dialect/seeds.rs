//! Prompts of other agent systems, set by a team's own texts: each message list in full.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::FinishReason::Stop;
use wire::chat::ToolSpec;
use wire::entry::{Feedback, FeedbackCode, ReadCall};
use wire::plan::{Dialect, Offer, Target, Text};
use wire::{EffectClass, Message, ModelRole, Name, Plan, Reading};

use super::fixture::{self, reply};
use super::{Act, Called, Exchange, Step, Transcript, prompt, read, text_faults};
use crate::validate::Catalogue;

/// What is said in a prompt: who, and what.
type Said<'a> = (&'a str, String);

fn said(who: &str, text: impl Into<String>) -> Said<'_> {
    (who, text.into())
}

fn tool(name: &str, description: &str, parameters: Value) -> Offer {
    let spec = ToolSpec {
        name: Name::new(name).unwrap(),
        description: description.to_owned(),
        parameters,
    };
    Offer {
        spec,
        target: Target::Tool,
        effect: EffectClass::Read,
        timeout_ms: 1000,
        task: None,
        actor: None,
        aliases: Vec::new(),
    }
}

fn catalogue(mut plan: Plan, texts: &[(ModelRole, Text, &str)]) -> Catalogue {
    for (role, text, template) in texts {
        let role = match role {
            ModelRole::Thinker => &mut plan.prompts.thinker,
            ModelRole::Actor => &mut plan.prompts.actor,
        };
        role.insert(*text, (*template).to_owned());
    }
    let plan = Arc::new(plan);
    assert_eq!(text_faults(&plan), []);
    Catalogue::new(plan)
}

/// Returns the messages that a role is sent.
fn sent(
    role: ModelRole,
    catalogue: &Catalogue,
    history: &[Exchange],
    request: &str,
    steps: &[Step],
) -> Vec<Said<'static>> {
    let transcript = Transcript { plan: catalogue.plan(), history, request, steps };
    let prompt = prompt(role, catalogue, &transcript);
    assert_eq!(prompt.faults, []);
    let said = |message: &Arc<Message>| match &**message {
        Message::System { content } => ("system", content.clone()),
        Message::User { content } => ("user", content.clone()),
        Message::Assistant { content, calls } => {
            let calls = calls.iter().map(|call| format!("[{} {}]", call.name, call.arguments));
            ("assistant", content.clone() + &calls.collect::<String>())
        }
        Message::Tool { name, content, .. } => ("tool", format!("{name}: {content}")),
    };
    prompt.messages.iter().map(said).collect()
}

fn call(name: &str, arguments: Value, result: &str) -> Act {
    let read = ReadCall {
        id: String::new(),
        name: name.to_owned(),
        raw: arguments.to_string(),
        arguments,
        written: String::new(),
        fault: None,
    };
    let called = Called { read, key: None, result: Some(result.to_owned()) };
    Act::Calls { text: String::new(), calls: vec![called] }
}

/// Reads a reply as a run would, and gives its calls a result where they are sound.
fn replied(catalogue: &Catalogue, content: &str, result: &str) -> Act {
    match read(ModelRole::Actor, catalogue, None, &reply(Stop, content)) {
        Reading::Calls { text, calls } => {
            let called = |read: ReadCall| {
                let fault = read.fault.as_ref().map(Feedback::to_text);
                Called { read, key: None, result: fault.or(Some(result.to_owned())) }
            };
            Act::Calls { text, calls: calls.into_iter().map(called).collect() }
        }
        Reading::Fault { feedback, raw } => Act::Feedback { raw, feedback },
        other => panic!("{content}: {other:?}"),
    }
}

fn step(thought: Option<&str>, acts: Vec<Act>) -> Step {
    Step { thought: thought.map(str::to_owned), planned: None, acts }
}

#[test]
fn a_question_that_is_one_message_with_what_precedes_it() {
    const SYSTEM: &str = "Call one of the following tools: \n\n{% for tool in tools %}\n\
        - {{ tool.description }}\n{% endfor %}\n- {{ respond_to_user.description }}\n\n\
        Avoid guessing tool call results.";
    const REQUEST: &str = "{% if last %}\nThe user request is: {{ request }}\n\n\
        Can you directly respond?\n{%- else %}\n{{ request }}\n{%- endif %}";
    const CALL: &str = "Please make tool call {{ number }} for me: {{ json | tojson(ascii=true) }}";
    const RESULT: &str = "{% if last %}\nThe result of tool call {{ number }} is: {{ result }}\n\n\
        Do you have enough information?\n{%- else %}\n\
        Use the result of tool call {{ number }}: {{ result }}\n{%- endif %}";
    const QUESTION: &str = "Who is Leonardo DiCaprio's current girlfriend and what is her age raised to the 0.24 power?";
    const FOUND: &str = "Leonardo di Caprio started dating Vittoria Ceretti in 2023.";

    let mut plan = fixture::plan(Dialect::Schema, true);
    plan.tools = vec![
        tool(
            "search_internet",
            "Searches.",
            json!({"type": "object", "properties": {"query": {"type": "string"}}}),
        ),
        tool(
            "calculate",
            "Computes.",
            json!({"type": "object", "properties": {"expression": {"type": "string"}}}),
        ),
    ];
    let mut texts = vec![(ModelRole::Actor, Text::Ask, "Now make the tool call, nothing else.")];
    for role in [ModelRole::Thinker, ModelRole::Actor] {
        texts.extend([
            (role, Text::System, SYSTEM),
            (role, Text::Request, REQUEST),
            (role, Text::Call, CALL),
            (role, Text::Result, RESULT),
        ]);
    }
    texts.push((ModelRole::Thinker, Text::Ask, ""));
    let catalogue = catalogue(plan, &texts);
    let search =
        call("search_internet", json!({"query": "Leonardo DiCaprio's current girlfriend"}), FOUND);
    let power = call("calculate", json!({"expression": "25^0.24"}), "2.16524");
    let steps = [
        step(Some("I need to search."), vec![search]),
        step(Some("I need to calculate."), vec![power]),
        step(None, vec![]),
    ];
    let asked = |role, step: usize| {
        let mut steps = steps[..step].to_vec();
        let current = steps.last_mut().unwrap();
        current.acts.clear();
        if role == ModelRole::Thinker {
            current.thought = None;
        }
        sent(role, &catalogue, &[], QUESTION, &steps)
    };
    let system = said(
        "system",
        "Call one of the following tools: \n\n- Searches.\n- Computes.\n\
         - Gives the user the final answer and ends the work.\n\nAvoid guessing tool call results.",
    );
    let now = said("user", "Now make the tool call, nothing else.");
    let first =
        said("user", format!("The user request is: {QUESTION}\n\nCan you directly respond?"));
    let calls = [
        r#"Please make tool call 1 for me: {"tool": "search_internet", "arguments": {"query": "Leonardo DiCaprio's current girlfriend"}}"#,
        r#"Please make tool call 2 for me: {"tool": "calculate", "arguments": {"expression": "25^0.24"}}"#,
    ];
    let raw = [system.clone(), said("user", QUESTION), said("assistant", calls[0])];
    let think = [
        vec![system.clone(), first],
        [
            &raw[..],
            &[said(
                "user",
                format!("The result of tool call 1 is: {FOUND}\n\nDo you have enough information?"),
            )],
        ]
        .concat(),
        [
            &raw[..],
            &[
                said("user", format!("Use the result of tool call 1: {FOUND}")),
                said("assistant", calls[1]),
                said(
                    "user",
                    "The result of tool call 2 is: 2.16524\n\nDo you have enough information?",
                ),
            ],
        ]
        .concat(),
    ];
    for (index, expected) in think.iter().enumerate() {
        assert_eq!(&asked(ModelRole::Thinker, index + 1), expected, "think {}", index + 1);
    }
    for (index, thought) in ["I need to search.", "I need to calculate."].iter().enumerate() {
        let expected =
            [think[index].as_slice(), &[said("assistant", *thought), now.clone()]].concat();
        assert_eq!(asked(ModelRole::Actor, index + 1), expected, "act {}", index + 1);
    }
}

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
    let reading = read(ModelRole::Actor, &catalogue, None, &reply(Stop, end));
    assert_eq!(reading, Reading::Final { text: "a".to_owned() });
}

#[test]
fn provider_calls_with_a_system_text_that_names_the_tools() {
    let texts = |system| [(ModelRole::Actor, Text::System, system)];
    let names = catalogue(
        fixture::plan(Dialect::Native, false),
        &texts("Use the tools: {{ tools | map(attribute=\"name\") | join(\", \") }}."),
    );
    let found = sent(ModelRole::Actor, &names, &[], "hi", &[]);
    assert_eq!(found, [said("system", "Use the tools: search, calculate."), said("user", "hi")]);

    let exact = "You are an assisant to perform the user input.";
    let catalogue = catalogue(fixture::plan(Dialect::Native, false), &texts(exact));
    let steps = [step(None, vec![call("calculate", json!({"expression": "12*34"}), "408")])];
    let found = sent(ModelRole::Actor, &catalogue, &[], "What is the result of the 12*34?", &steps);
    let expected = [
        said("system", exact),
        said("user", "What is the result of the 12*34?"),
        said("assistant", "[calculate {\"expression\":\"12*34\"}]"),
        said("tool", "calculate: 408"),
    ];
    assert_eq!(found, expected);
}

#[test]
fn instructions_given_as_the_user_and_replies_shown_as_they_were_written() {
    const OPENING: &str = "Otherise, you have access to the following tools:\n\n\
        {% for tool in tools %}\n\
        {{ tool.name }}: {{ tool.description }}, args: {{ tool.parameters.properties | python }}\n\
        {% endfor %}\n\n\
        The only values that should be in the \"action\" field are: \
        {{ tools | map(attribute='name') | list | python }}\n";
    let mut plan = fixture::plan(Dialect::React, false);
    let entity_type = "type of the entity. Available options are 'movie' or 'person'";
    let properties = json!({
        "entity": {"title": "Entity", "description": "movie or a person mentioned in the question", "type": "string"},
        "entity_type": {"title": "Entity Type", "description": entity_type, "type": "string"},
    });
    let query = json!({"query": {"title": "Query", "description": "user query", "type": "string"}});
    plan.tools = vec![
        tool(
            "Information",
            "useful for questions",
            json!({"type": "object", "properties": properties}),
        ),
        tool(
            "Smalltalk",
            "useful for when user greets you",
            json!({"type": "object", "properties": query}),
        ),
    ];
    let catalogue = catalogue(
        plan,
        &[
            (ModelRole::Actor, Text::System, ""),
            (ModelRole::Actor, Text::Opening, OPENING),
            (ModelRole::Actor, Text::Request, "{{ request }}"),
            (ModelRole::Actor, Text::Call, "{{ reply }}"),
            (ModelRole::Actor, Text::Result, "{{ result }}"),
        ],
    );
    let written = "Thought: I should use the Information tool.\n\nAction:\n```json\n{\n    \"action\": \
        \"Information\",\n    \"action_input\": {\n        \"entity\": \"Keanu\",\n        \
        \"entity_type\": \"person\"\n    }\n}\n```";
    let invented = format!("{written}\nObservation: He is invented.");
    let acts = vec![replied(&catalogue, &invented, "type:Actor\ntitle: Keanu Reeves")];
    let history = [Exchange { user: "Hey".to_owned(), answer: "Hello!".to_owned() }];
    let found =
        sent(ModelRole::Actor, &catalogue, &history, "What about Keanu?", &[step(None, acts)]);
    let opening = "Otherise, you have access to the following tools:\n\n\
        Information: useful for questions, args: {'entity': {'title': 'Entity', 'description': \
        'movie or a person mentioned in the question', 'type': 'string'}, 'entity_type': {'title': \
        'Entity Type', 'description': \"type of the entity. Available options are 'movie' or \
        'person'\", 'type': 'string'}}\n\
        Smalltalk: useful for when user greets you, args: {'query': {'title': 'Query', \
        'description': 'user query', 'type': 'string'}}\n\n\
        The only values that should be in the \"action\" field are: ['Information', 'Smalltalk']\n";
    let expected = [
        said("user", opening),
        said("user", "Hey"),
        said("assistant", "Hello!"),
        said("user", "What about Keanu?"),
        said("assistant", written),
        said("user", "type:Actor\ntitle: Keanu Reeves"),
    ];
    assert_eq!(found, expected);
}
