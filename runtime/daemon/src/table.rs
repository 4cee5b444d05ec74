//! Lists in columns.

use crate::paint::Paint;
use crate::text;

/// The spaces between two columns.
const GAP: usize = 2;

/// The fewest columns in which the last one says anything; with less it is left out.
const LAST_WIDTH_MIN: usize = 10;

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Stands at the left, as wide as its widest cell.
    Left(&'static str),
    /// Stands at the right, as wide as its widest cell.
    Right(&'static str),
    /// Takes what is left of the line; only as the last one.
    Rest(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Left(title) | Self::Right(title) | Self::Rest(title) => title,
        }
    }
}

/// Lays out rows below the titles of their columns; a cell may have a colour of its own.
pub(crate) fn render(
    columns: &[Column],
    rows: &[Vec<String>],
    paint: Paint,
    width: usize,
    tone: impl Fn(&str, Column) -> Option<String>,
) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| text::one_line(cell)).collect()).collect();
    let mut room = width;
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| match column {
            Column::Rest(_) if room < LAST_WIDTH_MIN => 0,
            Column::Rest(_) => room,
            Column::Left(title) | Column::Right(title) => {
                let cells = rows.iter().filter_map(|row| row.get(at));
                let widest =
                    cells.map(|cell| text::width(cell)).max().unwrap_or(0).max(text::width(title));
                room = room.saturating_sub(widest + GAP);
                widest
            }
        })
        .collect();
    let mut out = String::new();
    let titles: Vec<String> = columns.iter().map(|column| column.title().to_owned()).collect();
    let title_line = layout(columns, &widths, &titles, |cell, _| cell.to_owned());
    out.push_str(&paint.dim(&title_line));
    out.push('\n');
    for row in &rows {
        let line = layout(columns, &widths, row, |cell, column| {
            tone(cell.trim(), column).map_or_else(
                || cell.to_owned(),
                // The colour is the cell's alone, not that of the spaces beside it.
                |colored| cell.replacen(cell.trim(), &colored, 1),
            )
        });
        out.push_str(&line);
        out.push('\n');
    }
    out
}

fn layout(
    columns: &[Column],
    widths: &[usize],
    cells: &[String],
    tone: impl Fn(&str, Column) -> String,
) -> String {
    let mut line = String::new();
    for ((column, width), cell) in columns.iter().zip(widths).zip(cells) {
        if !line.is_empty() {
            line.push_str(&" ".repeat(GAP));
        }
        let cell = match column {
            Column::Left(_) => text::pad(cell, *width),
            Column::Right(_) => {
                format!("{}{cell}", " ".repeat(width.saturating_sub(text::width(cell))))
            }
            Column::Rest(_) => text::shorten(cell, *width),
        };
        line.push_str(&tone(&cell, *column));
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_cells_and_the_last_fits_the_screen() {
        let columns = [Column::Left("name"), Column::Right("spans"), Column::Rest("input")];
        let rows = [
            vec!["a".to_owned(), "7".to_owned(), "short".to_owned()],
            vec!["longer".to_owned(), "1,234".to_owned(), "a text\nthat goes on".to_owned()],
        ];
        let expected = "\
name    spans  input
a           7  short
longer  1,234  a text that…
";
        let plain = render(&columns, &rows, Paint::new(false), 27, |_, _| None);
        assert_eq!(plain, expected);
        assert!(plain.lines().all(|line| text::width(line) <= 27));
        let narrow = render(&columns, &rows, Paint::new(false), 24, |_, _| None);
        assert_eq!(narrow, "name    spans\na           7\nlonger  1,234\n");

        let red = |cell: &str, _| (cell == "a").then(|| "<a>".to_owned());
        let toned = render(&columns, &rows, Paint::new(false), 27, red);
        assert!(toned.contains("\n<a>           7  short\n"), "{toned}");
    }
}
