//! Prompts of other agent systems, set by a team's own texts: each message list in full.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::FinishReason::Stop;
use wire::chat::ToolSpec;
use wire::entry::{Feedback, ReadCall};
use wire::plan::{Dialect, Offer, Target, Text};
use wire::{EffectClass, Message, ModelRole, Name, Plan, Reading};

use super::fixture::{self, reply};
use super::{Act, Called, Exchange, Step, Transcript, prompt, read, text_faults};
use crate::validate::Catalogue;

mod functions;

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
    Offer::new(spec, Target::Tool, EffectClass::Read, 1000)
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
        Message::Assistant { content, calls, .. } => {
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
        arguments: arguments.into(),
        written: String::new(),
        fault: None,
    };
    let called = Called { read, key: None, result: Some(result.to_owned()) };
    Act::Calls { text: String::new(), calls: vec![called], reasoning: None }
}

/// Reads a reply as a run would, and gives its calls a result where they are sound.
fn replied(catalogue: &Catalogue, content: &str, result: &str) -> Act {
    match read(ModelRole::Actor, catalogue, None, &reply(Stop, content)).reading {
        Reading::Calls { text, calls } => {
            let called = |read: ReadCall| {
                let fault = read.fault.as_ref().map(Feedback::to_text);
                Called { read, key: None, result: fault.or(Some(result.to_owned())) }
            };
            Act::Calls { text, calls: calls.into_iter().map(called).collect(), reasoning: None }
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
    let history = [Exchange { user: "Hey".to_owned(), answer: "Hello!".into(), tainted: false }];
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
