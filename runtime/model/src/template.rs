//! Turns messages into the one text that a model was trained on.

use std::mem;

use config::team::Template;
use wire::Message;

use crate::body::append;

#[cfg(test)]
mod tests;

/// Returns the prompt, which ends where the model's reply begins.
///
/// The system's texts come first, wherever they stand; results of tools are said by the user, as
/// these forms know no tools.
pub(crate) fn prompt<'m>(
    template: Template,
    messages: impl IntoIterator<Item = &'m Message>,
) -> String {
    let script = Script::of(messages, marks(template));
    match template {
        Template::Llama2 => llama_2(&script),
        Template::Llama3 => llama_3(&script),
        // The server's own template never comes here; ChatML is what most models know.
        Template::ChatMl | Template::Server => chat_ml(&script),
        Template::Mistral => mistral(&script),
    }
}

/// The words with which a form divides its prompt.
const fn marks(template: Template) -> &'static [&'static str] {
    match template {
        Template::Llama2 => &["<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"],
        Template::Llama3 => &[
            "<|begin_of_text|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|eom_id|>",
            "<|end_of_text|>",
        ],
        Template::ChatMl | Template::Server => &["<|im_start|>", "<|im_end|>", "<|endoftext|>"],
        Template::Mistral => &["<s>", "</s>", "[INST]", "[/INST]"],
    }
}

/// A conversation as these forms know it: the system's text, then turns that alternate.
struct Script {
    system: String,
    turns: Vec<Turn>,
}

struct Turn {
    is_user: bool,
    text: String,
}

impl Script {
    fn of<'m>(messages: impl IntoIterator<Item = &'m Message>, marks: &[&str]) -> Self {
        let mut script = Self { system: String::new(), turns: Vec::new() };
        for message in messages {
            let text = defused(text(message), marks);
            let is_user = match message {
                Message::System { .. } => {
                    append(&mut script.system, &text);
                    continue;
                }
                Message::User { .. } | Message::Tool { .. } => true,
                Message::Assistant { .. } => false,
            };
            match script.turns.last_mut() {
                Some(last) if last.is_user == is_user => append(&mut last.text, &text),
                _ => script.turns.push(Turn { is_user, text }),
            }
        }
        script
    }
}

fn text(message: &Message) -> String {
    let mut text = message.content().to_owned();
    for call in message.calls() {
        let call = serde_json::json!({"name": call.name, "arguments": call.arguments});
        append(&mut text, &call.to_string());
    }
    text
}

/// Breaks the words that would end a message before its end: the server takes them for its own,
/// wherever they stand.
fn defused(mut text: String, marks: &[&str]) -> String {
    for mark in marks {
        if text.contains(mark) {
            let mut broken = (*mark).to_owned();
            broken.insert(1, ' ');
            text = text.replace(mark, &broken);
        }
    }
    text
}

fn llama_2(script: &Script) -> String {
    let mut system = match script.system.as_str() {
        "" => String::new(),
        system => format!("<<SYS>>\n{system}\n<</SYS>>\n\n"),
    };
    let mut prompt = String::new();
    for turn in with_user_first(&script.turns) {
        let text = turn.text.trim();
        if turn.is_user {
            prompt.extend(["<s>[INST] ", &mem::take(&mut system), text, " [/INST]"]);
        } else {
            prompt.extend([" ", text, " </s>"]);
        }
    }
    prompt
}

fn mistral(script: &Script) -> String {
    let mut system = match script.system.as_str() {
        "" => String::new(),
        system => format!("{system}\n\n"),
    };
    let mut prompt = "<s>".to_owned();
    for turn in with_user_first(&script.turns) {
        let text = turn.text.trim();
        if turn.is_user {
            prompt.extend(["[INST] ", &mem::take(&mut system), text, " [/INST]"]);
        } else {
            prompt.extend([text, "</s> "]);
        }
    }
    prompt
}

fn llama_3(script: &Script) -> String {
    let mut prompt = "<|begin_of_text|>".to_owned();
    for (role, text) in roles(script) {
        let header = ["<|start_header_id|>", role, "<|end_header_id|>\n\n"];
        prompt.extend(header.into_iter().chain([text.trim(), "<|eot_id|>"]));
    }
    prompt + "<|start_header_id|>assistant<|end_header_id|>\n\n"
}

fn chat_ml(script: &Script) -> String {
    let mut prompt = String::new();
    for (role, text) in roles(script) {
        prompt.extend(["<|im_start|>", role, "\n", text, "<|im_end|>\n"]);
    }
    prompt + "<|im_start|>assistant\n"
}

fn roles(script: &Script) -> impl Iterator<Item = (&'static str, &str)> {
    let system = Some(("system", script.system.as_str())).filter(|(_, text)| !text.is_empty());
    let turns = script.turns.iter();
    system.into_iter().chain(
        turns.map(|turn| (if turn.is_user { "user" } else { "assistant" }, turn.text.as_str())),
    )
}

/// Puts an empty turn of the user before one of the model, since these forms begin with the user.
fn with_user_first(turns: &[Turn]) -> impl Iterator<Item = &Turn> {
    static NOTHING: Turn = Turn { is_user: true, text: String::new() };
    let lacks = turns.first().is_none_or(|turn| !turn.is_user);
    lacks.then_some(&NOTHING).into_iter().chain(turns)
}
