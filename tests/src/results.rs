//! How a test hands over the figures that it held, for the table of results.

use serde_json::json;

/// What stands before the figures in the output of a test.
pub const MARK: &str = "RESULT ";

/// One row of the table.
pub struct Row<'a> {
    /// The row's name, by which rows are ordered.
    pub id: &'a str,
    /// What is tested.
    pub what: &'a str,
    /// What was found.
    pub held: &'a str,
    /// What has to be found.
    pub passes: &'a str,
    /// The command that does it again.
    pub command: &'a str,
}

/// Prints a row, from where whoever ran the test collects it.
#[expect(clippy::print_stdout, reason = "the output of a test is where its figures are told")]
pub fn record(row: &Row<'_>) {
    let Row { id, what, held, passes, command } = row;
    let row = json!({"id": id, "what": what, "held": held, "passes": passes, "command": command});
    println!("\n{MARK}{row}");
}
