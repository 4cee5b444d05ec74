//! What a token costs that is streamed to somebody who watches: the same text is streamed in many
//! pieces and in one, and the difference is divided.

use crate::party::Party;
use crate::servers::Stub;
use crate::sheet::Sheet;
use crate::work::{self, Shape, WORDS, Work};

/// The id of the row of the text in one piece, of that in one piece a word, and of that with a
/// pause after each.
const ONE: &str = "tokens-one";
const MANY: &str = "tokens-many";
const PACED: &str = "tokens-paced";

/// Returns the rows by their ids.
pub(crate) fn rows() -> Vec<(&'static str, Work)> {
    let one = Work { shape: Shape::Tokens, calls: 1, stream: true, runs: 100, ..work::chain() };
    let many = Work { calls: WORDS, ..one.clone() };
    let paced = Work { runs: 2, delay_ms: 1, ..many.clone() };
    vec![(ONE, one), (MANY, many), (PACED, paced)]
}

/// Measures a row once.
pub(crate) fn measure(id: &str, work: &Work, stub: &Stub, sheet: &mut Sheet) {
    for party in [Party::Handmade, Party::Embedded, Party::Nats] {
        party.measure(id, work, stub, sheet);
    }
}

/// What a token costs.
pub(crate) struct Token {
    pub(crate) party: &'static str,
    /// CPU time in microseconds if all come at once, and if they come one by one.
    pub(crate) cpu_us: Option<f64>,
    pub(crate) paced_cpu_us: Option<f64>,
    /// Bytes of the journal.
    pub(crate) journal_bytes: Option<f64>,
}

/// Returns what a token costs each party.
pub(crate) fn tokens(sheet: &Sheet) -> Vec<Token> {
    let parties = [Party::Handmade, Party::Embedded, Party::Nats].map(Party::word);
    let of = |party: &'static str| {
        let each = |row: &str, figure: &str| {
            let more = sheet.median(row, party, figure)? - sheet.median(ONE, party, figure)?;
            Some(more / crate::measure::float(WORDS as u64 - 1))
        };
        Token {
            party,
            cpu_us: each(MANY, "cpu_us"),
            paced_cpu_us: each(PACED, "cpu_us"),
            journal_bytes: each(MANY, "journal_bytes"),
        }
    };
    parties.map(of).into_iter().filter(|token| token.cpu_us.is_some()).collect()
}
