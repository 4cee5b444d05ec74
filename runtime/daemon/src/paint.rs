//! Colours, where a terminal wants them.

use anstyle::{AnsiColor, Style};

/// Colours text, or leaves it as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Makes a painter that colours or does not.
    pub(crate) const fn new(on: bool) -> Self {
        Self { on }
    }

    /// Tells whether it colours.
    pub(crate) const fn is_on(self) -> bool {
        self.on
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with(Style::new().bold(), text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with(Style::new().dimmed(), text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with(AnsiColor::Red.on_default(), text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with(AnsiColor::Yellow.on_default(), text)
    }

    pub(crate) fn blue(self, text: &str) -> String {
        self.with(AnsiColor::Blue.on_default(), text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    fn with(self, style: Style, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}
