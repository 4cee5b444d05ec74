//! Writes real replies as a script that a scripted model plays.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use config::bound::{SCRIPT_BYTES_MAX, SCRIPT_REPLIES_MAX};
use config::script::{ScriptedCall, ScriptedReply, matched_text};
use regex::Regex;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use wire::{ErrorCode, ModelReply, WireError};

use crate::client::Conversation;

#[cfg(test)]
mod tests;

/// Characters of each end of a conversation's last messages that a reply is found again by. With
/// more, a script of long results could not be loaded.
const END_CHARS_MAX: usize = 1000;

/// Times that JSON in JSON may hold a secret, which is written otherwise in each.
const NESTED_MAX: usize = 3;

/// What stands in place of a secret.
const BLOTTED: &str = "***";

/// Forms of the keys of well-known services, wherever they come from.
const KEY_FORMS: &str = r"(?x)
    \b sk-[A-Za-z0-9_-]{16,}
  | \b (?:gh[opsu]|github_pat|glpat|xox[abprs]|hf)[_-][A-Za-z0-9_-]{16,}
  | \b (?:AKIA|ASIA)[A-Z0-9]{16}\b
  | \b AIza[A-Za-z0-9_-]{30,}
  | \b eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}
  | (?i:\b bearer)\s+[A-Za-z0-9._~+/-]{16,}=*
";

/// Adds replies to a file, which is never larger than a script may be.
pub(crate) struct Recorder {
    path: PathBuf,
    secrets: Vec<SecretString>,
    end: Mutex<End>,
}

/// The end of the file.
struct End {
    file: File,
    replies: usize,
    /// Whether the last line lacks its end, as after a crash.
    torn: bool,
    /// Whether it was told that no more is written.
    told: bool,
}

impl Recorder {
    /// Opens the file, or makes it; the key and password of the model are kept out of it.
    pub(crate) fn open(path: &Path, secrets: Vec<SecretString>) -> Result<Arc<Self>, WireError> {
        let end = End::open(path).map_err(|error| {
            let message = format!("open `record` {}: {error}", path.display());
            WireError::new(ErrorCode::FileUnreadable, message)
        })?;
        Ok(Arc::new(Self { path: path.to_owned(), secrets, end: Mutex::new(end) }))
    }

    /// Adds a reply, written by one call of the system. A fault is logged and costs nobody a reply.
    pub(crate) async fn add(self: &Arc<Self>, conversation: &Conversation, reply: &ModelReply) {
        let line = self.line(conversation, reply);
        let recorder = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || {
            let mut end = recorder.end.lock().unwrap_or_else(PoisonError::into_inner);
            end.append(&line)
        });
        match written.await {
            Ok(Ok(Outcome::Written | Outcome::FullAsTold)) => {}
            Ok(Ok(Outcome::Full)) => {
                tracing::warn!(file = %self.path.display(), "the record is as large as a script may be; nothing more is added");
            }
            Ok(Err(error)) => {
                tracing::warn!(file = %self.path.display(), %error, "a reply could not be recorded");
            }
            Err(error) => {
                tracing::warn!(file = %self.path.display(), %error, "a reply was not recorded");
            }
        }
    }

    fn line(&self, conversation: &Conversation, reply: &ModelReply) -> Vec<u8> {
        let calls = reply.calls.iter().map(|call| ScriptedCall {
            name: self.blotted(&call.name, BLOTTED),
            arguments: Value::String(self.blotted(&call.arguments, BLOTTED)),
            id: Some(self.blotted(&call.id, BLOTTED)).filter(|id| !id.is_empty()),
        });
        let reply = ScriptedReply {
            when: Some(self.pattern(&matched_text(conversation.said()))),
            content: self.blotted(&reply.content, BLOTTED),
            calls: calls.collect(),
            usage: Some(reply.usage),
            finish: Some(reply.finish),
            ..ScriptedReply::default()
        };
        let mut line = serde_json::to_vec(&reply).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Returns the pattern of exactly this text, of which the middle and secrets may be anything.
    fn pattern(&self, text: &str) -> String {
        // No text has this character, so that it can stand for what is left out.
        const GAP: &str = "\u{0}";
        let text = self.blotted(&text.replace(GAP, ""), GAP);
        let chars: Vec<char> = text.chars().collect();
        let text = match (chars.get(..END_CHARS_MAX), chars.len().checked_sub(END_CHARS_MAX)) {
            (Some(first), Some(from)) if from > END_CHARS_MAX => {
                let last = chars.get(from..).unwrap_or_default();
                first.iter().chain(GAP.chars().collect::<Vec<_>>().iter()).chain(last).collect()
            }
            _ => text,
        };
        let parts: Vec<String> = text.split(GAP).map(regex::escape).collect();
        format!(r"(?s)\A{}\z", parts.join(".*"))
    }

    /// Puts something in place of every secret, as it is and as JSON writes it, in arguments that
    /// hold JSON too.
    fn blotted(&self, text: &str, instead: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            let mut form = secret.expose_secret().to_owned();
            for _ in 0..=NESTED_MAX {
                if !form.is_empty() && text.contains(&form) {
                    text = text.replace(&form, instead);
                }
                form = escaped(form);
            }
        }
        match key_forms() {
            Some(forms) => forms.replace_all(&text, instead).into_owned(),
            None => text,
        }
    }
}

/// Returns a text as JSON writes it, without the quotes around it.
fn escaped(text: String) -> String {
    let mut written = Value::from(text).to_string();
    written.pop();
    written.drain(..1);
    written
}

fn key_forms() -> Option<&'static Regex> {
    static FORMS: OnceLock<Option<Regex>> = OnceLock::new();
    FORMS.get_or_init(|| Regex::new(KEY_FORMS).ok()).as_ref()
}

/// What became of a line.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Written,
    /// The file is full, which is to be told.
    Full,
    FullAsTold,
}

impl End {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // What users say to the model is nobody else's business.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        let mut text = Vec::new();
        let limit = u64::try_from(SCRIPT_BYTES_MAX).unwrap_or(u64::MAX);
        Read::by_ref(&mut file).take(limit).read_to_end(&mut text)?;
        let replies = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let torn = text.last().is_some_and(|byte| *byte != b'\n');
        Ok(Self { file, replies, torn, told: false })
    }

    fn append(&mut self, line: &[u8]) -> io::Result<Outcome> {
        let len = self.file.seek(SeekFrom::End(0))?;
        let mut bytes = if self.torn { vec![b'\n'] } else { Vec::new() };
        bytes.extend_from_slice(line);
        let size = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(bytes.len());
        if size > SCRIPT_BYTES_MAX || self.replies >= SCRIPT_REPLIES_MAX {
            let told = std::mem::replace(&mut self.told, true);
            return Ok(if told { Outcome::FullAsTold } else { Outcome::Full });
        }
        let written = self.file.write(&bytes)?;
        self.torn = written < bytes.len();
        if self.torn {
            return Err(io::Error::new(io::ErrorKind::WriteZero, "only a part could be written"));
        }
        self.replies += 1;
        Ok(Outcome::Written)
    }
}
