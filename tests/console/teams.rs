//! The teams whose runs are looked at, and what their models say.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// A team with all that can wait for a person; its letters go to a server.
pub(crate) fn crew(office: &str) -> String {
    format!(
        r#"
[team]
name = "crew"
description = "Books, pays and remembers; asks before it does what cannot be undone."
entry = "clerk"

[permissions]
allow = ["letter"]

[models.main]
provider = "scripted"
script = "crew.jsonl"
price = {{ input = 2.5, output = 10.0 }}

[agents.clerk]
description = "Takes orders of people and has them carried out."
instructions = "You take orders."
model = "main"
tools = ["ask_user", "remember", "recall", "pay", "price", "letter"]
agents = ["helper"]

[agents.helper]
description = "Helps the clerk."
instructions = "You help."
model = "main"
tools = ["price"]

[tools.price]
kind = "builtin"
builtin = "lookup"
description = "Looks up a price."
rows = [{{ words = ["tea"], answer = "Tea costs 4.20" }}]

[tools.pay]
kind = "model"
description = "Pays an amount to somebody."
model = "main"
prompt = "PAY {{to}} {{amount}}"
effect = "once"
parameters = {{ to = "string: to whom", amount = "number: how much" }}

[tools.letter]
kind = "http"
method = "POST"
description = "Posts a letter."
url = "{office}/letters"
effect = "once"
"#
    )
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!([{"name": tool, "arguments": arguments}])
}

pub(crate) fn crew_script() -> Vec<Value> {
    let payment = json!({"to": "ACME <b>Ltd</b>", "amount": 18_446_744_073_709_551_615_u64});
    let colour = json!({"question": "Which colour shall the door have?"});
    vec![
        json!({"when": "^PAY", "content": "paid, receipt 17"}),
        json!({"when": "receipt 17|E3008|E3009|E3003", "content": "It is settled."}),
        json!({"when": "^\\s*blue$", "content": "Blue it is."}),
        json!({"when": "Tea costs", "content": "Tea costs 4.20 today."}),
        json!({"when": "remembered", "content": "Noted."}),
        json!({"when": "post the letter", "calls": call("letter", &json!({}))}),
        json!({"when": "pay the", "calls": call("pay", &payment)}),
        json!({"when": "colour", "calls": call("ask_user", &colour)}),
        json!({"when": "delegate", "calls": call("helper", &json!({"task": "price of tea"}))}),
        json!({"when": "price", "calls": call("price", &json!({"query": "tea"}))}),
        json!({"when": "remember the", "calls": call("remember", &json!({"text": "The door is blue."}))}),
        json!({"when": "slow", "content": "At last.", "delay_ms": 120_000}),
        json!({"when": ".", "content": "Hello there."}),
    ]
}

/// Returns the texts that mean no good: those of the file, and two that are long.
pub(crate) fn hostile() -> Vec<String> {
    let mut texts: Vec<String> = serde_json::from_str(include_str!("hostile.json")).unwrap();
    texts.push("<img src=x onerror=window.__hit=1>".repeat(1_000));
    texts.push("\u{202e}\u{200b}".repeat(2_000));
    texts
}

/// Writes a text into a team file.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)).unwrap(),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A team whose descriptions are hostile texts.
pub(crate) fn hostile_team(texts: &[String]) -> String {
    let short: Vec<&str> = texts
        .iter()
        .filter(|text| text.len() < 200 && !text.chars().any(char::is_control))
        .map(String::as_str)
        .collect();
    let third = short.len() / 3;
    let described = |part: usize| {
        let part: Vec<&str> = short.iter().skip(part * third).take(third).copied().collect();
        quoted(&part.join(" "))
    };
    format!(
        r#"
[team]
name = "hostile"
description = {}
entry = "lead"

[models.main]
provider = "scripted"
script = "hostile.jsonl"

[agents.lead]
description = {}
instructions = "You say what you are told."
model = "main"
tools = ["ask_user", "remember", "echo", "pay"]
limits = {{ steps_max = 4, calls_per_step_max = 16 }}

[tools.echo]
kind = "model"
description = {}
model = "main"
prompt = "ECHO {{n}}: {{text}}"
effect = "read"
parameters = {{ n = "integer: which", text = "string: what" }}

[tools.pay]
kind = "model"
description = "Pays."
model = "main"
prompt = "PAID"
effect = "once"
[tools.pay.parameters]
type = "object"
"#,
        described(0),
        described(1),
        described(2)
    )
}

/// What the models of that team say: each text by its number, and several at once in calls.
pub(crate) fn hostile_script(texts: &[String], batch: usize) -> Vec<Value> {
    let mut script = vec![json!({"when": "^PAID", "content": "paid"})];
    for (at, text) in texts.iter().enumerate() {
        script.push(json!({"when": format!("^ECHO {at}: "), "content": text}));
        script.push(json!({"when": format!("say {at}:"), "content": text}));
    }
    for (at, part) in texts.chunks(batch).enumerate() {
        let calls = |tool: &str| {
            let calls = part.iter().enumerate().map(|(index, text)| match tool {
                "echo" => {
                    json!({"name": tool, "arguments": {"n": at * batch + index, "text": text}})
                }
                _ => json!({"name": tool, "arguments": {"text": text}}),
            });
            calls.collect::<Vec<Value>>()
        };
        script.push(json!({"when": format!("batch {at}:"), "calls": calls("echo")}));
        script.push(json!({"when": format!("keep {at}:"), "calls": calls("remember")}));
    }
    let short: Vec<&String> = texts.iter().filter(|text| text.len() < 200).collect();
    let question: Vec<&str> = short.iter().map(|text| text.as_str()).collect();
    let question = json!({"question": question.join("\n")});
    let by_key = short.iter().enumerate().map(|(at, text)| (format!("{text} {at}"), json!(text)));
    let payment = Value::Object(by_key.collect());
    script.push(json!({"when": "ask all:", "calls": call("ask_user", &question)}));
    script.push(json!({"when": "pay all:", "calls": call("pay", &payment)}));
    script.push(json!({"when": "", "content": "done"}));
    script
}
