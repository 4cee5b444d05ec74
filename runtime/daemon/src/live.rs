//! Shows progress on stderr: a block that is drawn anew on a terminal, plain lines elsewhere.

use std::time::Duration;

use wire::{Event, Timestamp};

use crate::progress::{Detail, Progress};
use crate::screen::{self, Screen};

/// How often what is under way is drawn anew: the eye sees it turn, the terminal has little to do.
pub(crate) const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// The most lines of the redrawn block; a block that is taller than the terminal cannot be erased.
const BLOCK_LINES_MAX: usize = 16;

const SPINNER: [&str; 10] = ["⠋ ", "⠙ ", "⠹ ", "⠸ ", "⠼ ", "⠴ ", "⠦ ", "⠧ ", "⠇ ", "⠏ "];

/// Shows the progress of one run.
#[derive(Debug)]
pub(crate) struct Live {
    screen: Screen,
    progress: Progress,
    frame: usize,
    /// Lines of the block that stand on the terminal.
    drawn: usize,
}

impl Live {
    /// Begins with nothing shown.
    pub(crate) fn new(screen: Screen) -> Self {
        let detail = if screen.err.is_terminal { Detail::Finished } else { Detail::Every };
        Self { screen, progress: Progress::new(detail), frame: 0, drawn: 0 }
    }

    /// Shows an event.
    pub(crate) fn on_event(&mut self, event: &Event, now: Timestamp) {
        let paint = self.screen.err.paint;
        let lines = self.progress.on_event(event);
        let text: String =
            lines.iter().map(|line| line.render(paint, self.width(), "") + "\n").collect();
        self.write(&text, now);
    }

    /// Draws what is under way anew.
    pub(crate) fn redraw(&mut self, now: Timestamp) {
        self.frame = self.frame.wrapping_add(1);
        self.write("", now);
    }

    /// Takes the block away, so that others can write.
    pub(crate) fn clear(&mut self) {
        let erase = self.erase();
        screen::note(&erase);
    }

    /// Writes lines that stay, and below them the block.
    fn write(&mut self, text: &str, now: Timestamp) {
        if !self.screen.err.is_terminal {
            screen::note(text);
            return;
        }
        let mut frame = self.erase();
        frame.push_str(text);
        let paint = self.screen.err.paint;
        let spinner = SPINNER.get(self.frame % SPINNER.len()).copied().unwrap_or_default();
        for line in self.progress.under_way(now).iter().take(BLOCK_LINES_MAX) {
            frame.push_str(&line.render(paint, self.width(), spinner));
            frame.push('\n');
            self.drawn += 1;
        }
        screen::note(&frame);
    }

    /// Returns the columns of a line; the last one stays free, since some terminals wrap there.
    fn width(&self) -> usize {
        self.screen.err.width.saturating_sub(1)
    }

    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        }
    }
}
