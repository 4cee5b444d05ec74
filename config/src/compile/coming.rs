//! Tools that are not known and may be there all the same: those of a server whose list is not
//! known, and those that come and go by themselves.

use std::fmt;

use wire::Name;

use super::Compiler;

/// Stands for all tools of a source.
pub(super) const ALL: &str = "*";

/// Letters that remain of a name that would be too long, before a digest, or that has to be told
/// apart from another; in truth a few more do.
const KEPT_LETTERS: usize = 48;

/// Names that tools may have which are not known.
pub(super) struct Coming {
    /// Where they would come from.
    pub(super) source: Source,
    /// What all of them begin with.
    begin: String,
}

/// Where a tool may come from.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// An MCP server, and what the names of its tools begin with.
    Server(Name, String),
    /// A file or folder of event types.
    Events(Name),
    /// Services of NATS.
    Services(Name),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(name, _) => write!(f, "MCP server `{name}`"),
            Self::Events(name) => write!(f, "event types `{name}`"),
            Self::Services(name) => write!(f, "services `{name}`"),
        }
    }
}

impl Coming {
    fn fits(&self, words: &Words<'_>) -> bool {
        let begin = self.begin.as_str();
        words.literal.starts_with(begin) || !words.is_whole && begin.starts_with(words.literal)
    }
}

/// The name of a tool, or the beginning of several, as it stands in a list or a pattern.
struct Words<'t> {
    literal: &'t str,
    is_whole: bool,
}

impl<'t> Words<'t> {
    fn of(text: &'t str) -> Self {
        let name = text.split('(').next().unwrap_or_default().trim();
        let literal = name.split(['*', '?', '\\']).next().unwrap_or_default();
        Self { literal, is_whole: literal == name }
    }
}

impl Compiler<'_> {
    /// Takes note of the tools that a source may have: all of it, or those that are wanted by name.
    pub(super) fn expect_tools(&mut self, source: &Source, prefix: &str, wanted: &[String]) {
        let begins: Vec<String> = if wanted.iter().any(|wanted| wanted == ALL) {
            vec![prefix.to_owned()]
        } else {
            let named = wanted.iter().map(|wanted| format!("{prefix}{}", Name::cleaned(wanted)));
            named.map(|name| name.chars().take(KEPT_LETTERS).collect()).collect()
        };
        let coming = begins.into_iter().map(|begin| Coming { source: source.clone(), begin });
        self.coming.extend(coming);
    }

    /// Tells whether a tool may come whose name is this one, or one of those that a pattern stands
    /// for.
    ///
    /// Where nothing but its beginning speaks for it, that is noted: it may be a slip. `said` is how
    /// the note begins.
    pub(super) fn may_come(&mut self, text: &str, said: &str) -> bool {
        let words = Words::of(text);
        let mut fitting = self.coming.iter().filter(|coming| coming.fits(&words)).peekable();
        let Some(first) = fitting.peek() else { return false };
        let note = format!("{said} at present; it may come from {}", first.source);
        let is_doubtful = fitting.all(|coming| coming.begin.len() < words.literal.len());
        if is_doubtful && !self.left_out.contains(&note) {
            self.left_out.push(note);
        }
        true
    }

    /// Returns the server whose tool a name may be, and its name there, if the server's list is not
    /// known.
    pub(super) fn may_be_of_server(&self, name: &str) -> Option<(Name, String)> {
        let words = Words::of(name);
        self.coming.iter().filter(|coming| coming.fits(&words)).find_map(|coming| {
            match &coming.source {
                Source::Server(server, prefix) => {
                    Some((server.clone(), name.strip_prefix(prefix.as_str())?.to_owned()))
                }
                Source::Events(_) | Source::Services(_) => None,
            }
        })
    }
}
