//! Shows a text that changes in place on a terminal, and leaves the terminal as it was.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use crate::failure::Failure;
use crate::screen;

/// Where the text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Below what was written before; the last one stays there.
    Below,
    /// On a screen of its own, which vanishes at the end.
    Alone,
}

/// A text that is shown anew and anew.
#[derive(Debug)]
pub(crate) struct Stage {
    place: Place,
    is_begun: bool,
    /// Lines that stand on the terminal.
    drawn: usize,
}

impl Stage {
    pub(crate) fn new(place: Place) -> Self {
        Self { place, is_begun: false, drawn: 0 }
    }

    /// Tells whether stdout is a terminal, so that there is a stage at all.
    pub(crate) fn is_there() -> bool {
        io::stdout().is_terminal()
    }

    /// Shows a text in the place of the one before. What does not fit is left out at the end, or
    /// at the beginning where the newest stands last.
    /// Tells whether anybody is there to see it.
    pub(crate) fn show(&mut self, text: &str) -> Result<bool, Failure> {
        let (_, height) = screen::size();
        screen::put(&self.frame(text, height))
    }

    fn frame(&mut self, text: &str, height: usize) -> String {
        let mut frame = String::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            frame.push_str(match self.place {
                Place::Below => "\u{1b}[?25l",
                Place::Alone => "\u{1b}[?1049h\u{1b}[?25l",
            });
        }
        match (self.place, self.drawn) {
            (Place::Alone, _) => frame.push_str("\u{1b}[H"),
            (Place::Below, 0) => {}
            // Writing to a string does not fail.
            (Place::Below, lines) => write!(frame, "\u{1b}[{lines}A\r").unwrap_or_default(),
        }
        let lines = fit(text, height.saturating_sub(1).max(2));
        self.drawn = lines.len();
        for line in lines {
            frame.push_str(&line);
            frame.push_str("\u{1b}[K\n");
        }
        frame.push_str("\u{1b}[J");
        frame
    }

    /// Takes the text away, so that others can write in its place.
    pub(crate) fn clear(&mut self) {
        if self.place == Place::Below && self.drawn > 0 {
            show_last(&format!("\u{1b}[{}A\r\u{1b}[J", std::mem::take(&mut self.drawn)));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.is_begun {
            show_last(match self.place {
                Place::Below => "\u{1b}[?25h",
                Place::Alone => "\u{1b}[?25h\u{1b}[?1049l",
            });
        }
    }
}

/// Cuts a text to some lines.
fn fit(text: &str, most: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= most {
        return lines.into_iter().map(str::to_owned).collect();
    }
    let kept = most.saturating_sub(1);
    let left = lines.len() - kept;
    let rest = format!("… {left} more lines");
    lines.into_iter().take(kept).map(str::to_owned).chain([rest]).collect()
}

/// Leaves the terminal as it was, if it is still there: nothing of an answer is lost otherwise.
fn show_last(text: &str) {
    screen::put(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_drawn_over_the_one_before() {
        let mut stage = Stage::new(Place::Below);
        assert_eq!(stage.frame("a\nb", 24), "\u{1b}[?25la\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
        assert_eq!(stage.frame("c", 24), "\u{1b}[2A\rc\u{1b}[K\n\u{1b}[J");
        assert_eq!(
            stage.frame("1\n2\n3\n4", 4),
            "\u{1b}[1A\r1\u{1b}[K\n2\u{1b}[K\n… 2 more lines\u{1b}[K\n\u{1b}[J"
        );
        assert_eq!(stage.drawn, 3);
        std::mem::forget(stage);
    }
}
