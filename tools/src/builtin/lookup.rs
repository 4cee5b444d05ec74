//! A lookup: answers from a table in the team file.

use futures_util::future::BoxFuture;
use serde_json::Value;
use wire::{CallOutcome, ToolReply};

use super::{LookupRow, TEXT_BYTES_MAX};
use crate::argument;
use crate::tool::{Tool, ToolContext};

pub(super) struct Lookup {
    /// The rows, their words in lower case.
    rows: Vec<LookupRow>,
}

impl Lookup {
    pub(super) fn new(rows: &[LookupRow]) -> Self {
        let lower = |row: &LookupRow| LookupRow {
            words: row.words.iter().map(|word| word.to_lowercase()).collect(),
            answer: row.answer.clone(),
        };
        Self { rows: rows.iter().map(lower).collect() }
    }

    /// Returns the answer of the first row of which every word occurs in the query.
    fn find(&self, query: &str) -> Option<&str> {
        let query = query.to_lowercase();
        let row = self.rows.iter().find(|row| row.words.iter().all(|word| query.contains(word)))?;
        Some(&row.answer)
    }
}

impl Tool for Lookup {
    fn call<'a>(&'a self, _: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolReply> {
        Box::pin(async {
            let outcome = argument::text(arguments, "query", TEXT_BYTES_MAX).map_or_else(
                |outcome| outcome,
                |query| CallOutcome::text(self.find(query).unwrap_or("nothing found")),
            );
            ToolReply::settled(outcome)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_row_whose_words_all_occur_answers() {
        let row = |words: &[&str], answer: &str| LookupRow {
            words: words.iter().map(|&word| word.to_owned()).collect(),
            answer: answer.to_owned(),
        };
        let lookup = Lookup::new(&[
            row(&["DiCaprio", "girlfriend"], "first"),
            row(&["dicaprio"], "second"),
            row(&["é"], "third"),
        ]);
        let cases = [
            ("Leonardo DICAPRIO's current girlfriend", Some("first")),
            ("who is dicaprio", Some("second")),
            ("CAFÉ", Some("third")),
            ("girlfriend", None),
        ];
        for (query, answer) in cases {
            assert_eq!(lookup.find(query), answer, "{query}");
        }
    }
}
