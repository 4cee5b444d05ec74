//! Makes inputs out of replies that models write.

use serde_json::{Map, Number, Value};
use std::sync::LazyLock;

use crate::rng::Rng;

/// What one execution reads.
#[derive(Debug)]
pub(crate) struct Input {
    /// The reply, or arguments as text.
    pub(crate) text: String,
    /// Decides everything else: where the text is cut, why it ended, which tool is called.
    pub(crate) choice: u64,
    /// The schema of a tool, where the target is about schemas.
    pub(crate) schema: Value,
}

/// The longest text. A model that writes this much has long run into its token limit.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// One text of so many is long, since long ones take most of the time.
const LONG_ONE_OF: u64 = 2000;

/// The length up to which other texts may grow.
const SHORT_BYTES_MAX: usize = 2 << 10;

/// Mutations of one text.
const MUTATIONS_MAX: u64 = 6;

/// Pieces that readers look for.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ":",
    ",",
    "=",
    "'",
    "\"",
    "\\",
    "\\\"",
    "\\_",
    "\\u12",
    "\\ud83d",
    "\n",
    "\r\n",
    "`",
    "```",
    "```json\n",
    "~~~",
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<thought>",
    "</thought>",
    "<|channel>thought",
    "<channel|>",
    "<response>",
    "<|channel|>analysis<|message|>",
    "<|channel|>final<|message|>",
    "<|end|>",
    "<|start|>assistant",
    "<｜DSML｜invoke name=\"",
    "<｜DSML｜parameter name=\"",
    "</｜DSML｜parameter>",
    "<|tool_call>call:",
    "<|\"|>",
    "<tool_call|>",
    "<TOOLCALL>[",
    "[CALL_ID]",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "<function=",
    "</function>",
    "<parameter=",
    "</parameter>",
    "functools[",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<|tool_call_begin|>functions.",
    "<|channel|>commentary to=",
    "<|message|>",
    "<arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<invoke name=\"",
    "<parameter name=\"",
    "<|im_end|>",
    "</s>",
    "weather(city='x')",
    "Thought: ",
    "\nThought:",
    "\nAction:",
    "\nAction Input: ",
    "\nObservation: ",
    "\nObservation",
    "Final Answer: ",
    "Question: ",
    "**Action:**",
    "\"action\": ",
    "\"action_input\": ",
    "\"function\": ",
    "\"thought\": ",
    "\"tool\": ",
    "\"arguments\": ",
    "\"parameters\": ",
    "\"name\": ",
    "\"tool_calls\": [",
    "{\"role\": \"assistant\", \"content\": ",
    "\"task\": ",
    "\"selected_tool\": ",
    "\"selected_action\": ",
    "\"context_information_summary\": ",
    "weather",
    "sum",
    "note",
    "clock",
    "respond_to_user",
    "final_answer",
    "Final Answer",
    "{\"city\": \"Oslo\"}",
    "{\"answer\": \"a\"}",
    "null",
    "true",
    "None",
    "True",
    "NaN",
    "-Infinity",
    "1e999",
    "-0",
    "0x1F",
    "123456789012345678901234567890",
    "//",
    "/*",
    "#",
    "...",
    "é",
    "“",
    "”",
    "\u{feff}",
    "\0",
    "\u{2028}",
    "🙂",
    "\u{202e}",
    "CONTINUE",
];

/// What a text is put between.
const AROUND: &[(&str, &str)] = &[
    ("{\"a\": ", "}"),
    ("[", "]"),
    ("\"", "\""),
    ("```json\n", "\n```"),
    ("~~~\n", "\n~~~"),
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<tool_call>", "</tool_call>"),
    ("Thought: t\nAction:\n", "\nObservation: o"),
    ("{\"thought\": \"t\", \"action\": ", "}"),
    ("{\"tool\": \"note\", \"arguments\": ", "}"),
    ("{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [", "]}"),
    ("[TOOL_CALLS][", "]"),
    ("**", "**"),
];

/// What is repeated until it is deep or long. Readers of JSON refuse to go deeper than 128.
const REPEATED: &[&str] = &[
    "[",
    "{\"a\":",
    "{\"a\":[",
    "({'",
    "\"",
    "\\",
    "`",
    "``` {",
    "<",
    "</think><think>",
    "<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|tool_call>call:weather{a:<|\"|>",
    "{",
    "}",
    "]",
    "\nAction: x",
    "\nAction:",
    " ",
    "\n",
    "9",
    "\u{e9}",
    "[[1],",
    "{},",
    "<tool_call>{",
    "Final Answer:",
    "\nObservation:",
    "'",
    "/*",
    "weather(",
    "a",
];

static CORPUS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let lines = include_str!("../../src/dialect/replies.jsonl").lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    lines.map(|line| (text(&line, "form"), text(&line, "reply"))).collect()
});

/// Replies to a planner, which the corpus has none of.
pub(crate) const PLANS: &[&str] = &[
    r#"{"context_information_summary": "s", "thoughts": "t", "task": "look it up", "selected_tool": "weather"}"#,
    r#"{"task": "look it up", "selected_action": "note-it, clock"}"#,
    "```json\n{\"task\": \"\", \"selected_tool\": \"respond_to_user\"}\n```",
    r#"First {"a": 1}, then {"thoughts": null, "task": "x", "selected_tool": ""}"#,
];

/// Makes the text of a reply, most often from one of the forms that are wanted.
pub(crate) fn reply(rng: &mut Rng, forms: &[&str], others: &[&str]) -> Input {
    let base = if rng.percent(10) { any(rng) } else { wanted(rng, forms, others) };
    Input { text: mutated(rng, base), choice: rng.below(u64::MAX >> 16), schema: Value::Null }
}

fn wanted(rng: &mut Rng, forms: &[&str], others: &[&str]) -> String {
    let all: Vec<&str> = CORPUS
        .iter()
        .filter(|(form, _)| forms.contains(&form.as_str()))
        .map(|(_, text)| text.as_str())
        .chain(others.iter().copied())
        .collect();
    (*rng.pick(&all)).to_owned()
}

fn any(rng: &mut Rng) -> String {
    rng.pick(&CORPUS).1.clone()
}

/// Changes a text a few times. One of twenty stays as it is.
pub(crate) fn mutated(rng: &mut Rng, base: String) -> String {
    let most = if rng.below(LONG_ONE_OF) == 0 { TEXT_BYTES_MAX } else { SHORT_BYTES_MAX };
    let mut bytes = base.into_bytes();
    if rng.percent(5) {
        return String::from_utf8_lossy(&bytes).into_owned();
    }
    for _ in 0..=rng.below(MUTATIONS_MAX) {
        change(rng, &mut bytes, most);
        bytes.truncate(most);
    }
    if most == TEXT_BYTES_MAX {
        repeat(rng, &mut bytes, most);
        bytes.truncate(most);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn place(rng: &mut Rng, bytes: &[u8]) -> usize {
    usize::try_from(rng.below(bytes.len() as u64 + 1)).unwrap()
}

fn range(rng: &mut Rng, bytes: &[u8]) -> std::ops::Range<usize> {
    let (one, other) = (place(rng, bytes), place(rng, bytes));
    // Small ranges hit one token, large ones whole parts.
    if rng.percent(60) {
        one..(one + usize::try_from(rng.below(9)).unwrap()).min(bytes.len())
    } else {
        one.min(other)..one.max(other)
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, most: usize) {
    match rng.below(12) {
        0 => {
            let at = place(rng, bytes);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => {
            let at = place(rng, bytes);
            bytes.truncate(at);
        }
        2 => {
            let range = range(rng, bytes);
            bytes.drain(range);
        }
        3 => {
            let copy = bytes[range(rng, bytes)].to_vec();
            let at = place(rng, bytes);
            insert(bytes, at, &copy);
        }
        4 => {
            // The head of this one and the tail of another.
            let other = any(rng).into_bytes();
            let (at, from) = (place(rng, bytes), place(rng, &other));
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        5 => {
            let other = any(rng);
            let at = place(rng, bytes);
            insert(bytes, at, other.as_bytes());
        }
        6 | 7 => {
            let at = place(rng, bytes);
            insert(bytes, at, rng.pick(TOKENS).as_bytes());
        }
        8 => {
            let range = range(rng, bytes);
            bytes.splice(range, rng.pick(TOKENS).bytes());
        }
        9 => nest(rng, bytes),
        10 => json(rng, bytes),
        _ if rng.percent(20) => repeat(rng, bytes, most),
        _ => nest(rng, bytes),
    }
}

/// Puts a part, or all, between two marks.
fn nest(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let (open, close) = rng.pick(AROUND);
    let range = if rng.percent(50) { 0..bytes.len() } else { range(rng, bytes) };
    insert(bytes, range.end, close.as_bytes());
    insert(bytes, range.start, open.as_bytes());
}

fn repeat(rng: &mut Rng, bytes: &mut Vec<u8>, most: usize) {
    let piece = rng.pick(REPEATED);
    let times = rng.below((most / piece.len()) as u64);
    let times = if rng.percent(50) { 120 + times % 16 } else { times };
    let at = place(rng, bytes);
    insert(bytes, at, piece.repeat(usize::try_from(times).unwrap()).as_bytes());
}

/// Changes one node of the JSON in a text, if there is some.
fn json(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (Some(start), Some(end)) = (text.find('{'), text.rfind('}')) else { return };
    let Some(Ok(mut value)) = text.get(start..=end).map(serde_json::from_str::<Value>) else {
        return;
    };
    node(rng, &mut value, &mut |rng, value| *value = other(rng, value));
    let written = if rng.percent(20) {
        serde_json::to_string_pretty(&value).unwrap()
    } else {
        value.to_string()
    };
    // What is no UTF-8 takes more room in the text, so that the places are those of the text.
    *bytes = text.into_bytes();
    bytes.splice(start..=end, written.into_bytes());
}

/// Applies a change to one node of a value, which may be the value itself.
pub(crate) fn node(rng: &mut Rng, value: &mut Value, change: &mut dyn FnMut(&mut Rng, &mut Value)) {
    let stay = rng.percent(35);
    match value {
        Value::Object(map) if !stay && !map.is_empty() => {
            let at = usize::try_from(rng.below(map.len() as u64)).unwrap();
            node(rng, map.values_mut().nth(at).unwrap(), change);
        }
        Value::Array(items) if !stay && !items.is_empty() => {
            let at = usize::try_from(rng.below(items.len() as u64)).unwrap();
            node(rng, &mut items[at], change);
        }
        _ => change(rng, value),
    }
}

/// Returns what a model might write in the place of a value.
fn other(rng: &mut Rng, value: &Value) -> Value {
    match rng.below(10) {
        0 => Value::Null,
        1 => Value::Bool(rng.percent(50)),
        2 => (rng.below(u64::MAX) << 16).into(),
        3 => Number::from_f64(1e300).into(),
        4 => (*rng.pick(TOKENS)).into(),
        // JSON within JSON.
        5 | 6 => value.to_string().into(),
        7 => vec![value.clone(), value.clone()].into(),
        8 => Map::from_iter([((*rng.pick(TOKENS)).to_owned(), value.clone())]).into(),
        _ => nested(value.clone(), usize::try_from(rng.below(140)).unwrap()),
    }
}

/// Puts a value so many levels deep.
pub(crate) fn nested(value: Value, levels: usize) -> Value {
    (0..levels).fold(value, |inner, _| Value::Array(vec![inner]))
}
