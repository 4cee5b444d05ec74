//! The subject of a request, in which arguments stand for whole tokens.

use serde_json::{Map, Value};
use wire::{CallOutcome, Subjects, subject};

use crate::argument::invalid;
use crate::template::{Template, present, to_text};

/// The longest subject of a template, in bytes; subjects that people write have far less.
pub const SUBJECT_BYTES_MAX: usize = 256;

/// The longest argument that stands for a token, in bytes; ids and names have less, and a subject
/// stays within what a nats-server takes.
pub const TOKEN_BYTES_MAX: usize = 128;

/// A subject with places for arguments.
#[derive(Clone, Debug)]
pub(super) struct SubjectTemplate {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug)]
enum Token {
    Text(String),
    Argument(String),
}

impl SubjectTemplate {
    /// Takes a subject apart, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > SUBJECT_BYTES_MAX {
            return Err(format!("the subject is longer than {SUBJECT_BYTES_MAX} bytes"));
        }
        let tokens: Result<Vec<Token>, String> = text.split('.').map(token).collect();
        let tokens = tokens?;
        if let Some(Token::Argument(name)) = tokens.first() {
            return Err(format!(
                "{{{name}}} is the first token of the subject, so that the model would choose \
                 whose subjects they are; begin with a word of your own"
            ));
        }
        if subject::is_of_nats(text) {
            return Err(format!("subject {text:?} belongs to NATS itself"));
        }
        let template = Self { tokens };
        if template.may_be_below(&Subjects::default()) {
            return Err(format!("subject {text:?} may be one of the runtime's own"));
        }
        Ok(template)
    }

    /// Takes a subject that somebody else wrote as it is, or says why it cannot be asked.
    pub(super) fn literal(text: &str) -> Result<Self, String> {
        if text.len() > SUBJECT_BYTES_MAX {
            return Err(format!("its subject is longer than {SUBJECT_BYTES_MAX} bytes"));
        }
        if subject::is_of_nats(text) {
            return Err(format!("its subject {text:?} belongs to NATS itself"));
        }
        let tokens: Vec<&str> = text.split('.').collect();
        if let Some(fault) = tokens.iter().find_map(|token| fault(token)) {
            return Err(format!("a token of its subject {text:?} {fault}"));
        }
        Ok(Self { tokens: tokens.into_iter().map(|text| Token::Text(text.to_owned())).collect() })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter_map(|token| match token {
            Token::Argument(name) => Some(name.as_str()),
            Token::Text(_) => None,
        })
    }

    /// Fills in the arguments; each has to be one token.
    pub(super) fn fill(&self, arguments: &Map<String, Value>) -> Result<String, CallOutcome> {
        let mut filled = Vec::new();
        for token in &self.tokens {
            filled.push(match token {
                Token::Text(text) => text.clone(),
                Token::Argument(name) => {
                    let value = present(arguments, name);
                    let value = value.ok_or_else(|| invalid(format!("{name:?} is missing")))?;
                    argument(name, value)?
                }
            });
        }
        Ok(filled.join("."))
    }

    /// Tells whether some arguments make a subject of the runtime.
    fn may_be_below(&self, subjects: &Subjects) -> bool {
        let own = subjects.everything();
        let own: Vec<&str> = own.trim_end_matches(".>").split('.').collect();
        own.len() <= self.tokens.len()
            && own.iter().zip(&self.tokens).all(|(own, token)| match token {
                Token::Text(text) => text == own,
                Token::Argument(_) => true,
            })
    }
}

fn token(text: &str) -> Result<Token, String> {
    let template = Template::parse(text);
    if let Some(name) = template.whole() {
        return Ok(Token::Argument(name.to_owned()));
    }
    if let Some(name) = template.names().next() {
        return Err(format!(
            "{{{name}}} in the subject is not a whole token, as in `a.{{{name}}}`"
        ));
    }
    fault(text).map_or_else(
        || Ok(Token::Text(text.to_owned())),
        |fault| Err(format!("token {text:?} of the subject {fault}")),
    )
}

fn argument(name: &str, value: &Value) -> Result<String, CallOutcome> {
    if value.is_array() || value.is_object() {
        return Err(invalid(format!(
            "argument {name:?} is part of a subject, so no list or object"
        )));
    }
    let text = to_text(value);
    let fault = if text.contains('.') {
        Some("has a dot, which parts tokens")
    } else if text.len() > TOKEN_BYTES_MAX {
        Some("is too long for one")
    } else {
        fault(&text)
    };
    match fault {
        None => Ok(text),
        Some(fault) => {
            let rule = format!("argument {name:?} is a token of a subject, and it {fault}");
            Err(invalid(rule))
        }
    }
}

/// Says why a text is no token.
fn fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("is empty")
    } else if text.contains(['*', '>']) {
        Some("has a wildcard")
    } else if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("has a space or a control character")
    } else {
        None
    }
}
