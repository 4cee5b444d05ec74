//! Labels at the start of lines: `Thought:`, `Action:`, `Action Input:`, `Final Answer:`.

use super::super::form::FINAL_ANSWER;

/// What may stand before a label on its line: list marks, quotes and emphasis.
const DECORATION: [char; 7] = [' ', '\t', '*', '#', '>', '-', '_'];

/// A label and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label {
    /// The byte at which its line begins.
    pub(super) at: usize,
    /// The byte after its colon.
    pub(super) end: usize,
}

/// Returns each line with the byte at which it begins.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split('\n').map(move |line| {
        let start = at;
        at += line.len() + 1;
        (start, line)
    })
}

/// Finds a label from a byte on, in any case.
pub(super) fn find(text: &str, from: usize, words: &[&str]) -> Option<Label> {
    lines(text).filter(|(at, line)| at + line.len() >= from).find_map(|(at, line)| {
        let skipped = from.saturating_sub(at);
        let line = line.get(skipped..)?;
        let end = words.iter().find_map(|word| end(line, word))?;
        Some(Label { at: at + skipped, end: at + skipped + end })
    })
}

/// Returns where a label at the start of a line ends. A number may stand after each word.
fn end(line: &str, words: &str) -> Option<usize> {
    let mut rest = line.trim_start_matches(DECORATION);
    for word in words.split(' ') {
        let start = rest.get(..word.len())?;
        if !start.eq_ignore_ascii_case(word) {
            return None;
        }
        rest = rest.get(word.len()..)?.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
    }
    let rest = rest.trim_start_matches(['*', '_']).strip_prefix(':')?;
    Some(line.len() - rest.trim_start_matches(['*', '_']).len())
}

/// Tells whether a text has an action of any form.
pub(super) fn acts(text: &str) -> bool {
    find(text, 0, &["Action"]).is_some() || text.contains("\"action\"")
}

/// Tells whether a text has any label.
pub(super) fn any(text: &str) -> bool {
    find(text, 0, &["Thought", "Action", "Action Input", "Observation", "Question"]).is_some()
}

/// A final answer and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The byte at which its first label begins.
    pub(super) at: usize,
    /// The byte at which the answer begins.
    pub(super) start: usize,
    /// The byte at which it ends.
    pub(super) end: usize,
}

/// Finds the final answer.
///
/// An answer ends where the model goes on to ask itself the next question. Of several labels
/// before that the last one counts.
pub(super) fn answer(text: &str) -> Option<Answer> {
    let first = answer_from(text, 0)?;
    let limit = find(text, first.end, &["Question"]).map_or(text.len(), |label| label.at);
    let mut last = first;
    while let Some(next) = answer_from(text, last.end).filter(|next| next.at < limit) {
        last = next;
    }
    Some(Answer { at: first.at, start: last.end, end: limit })
}

/// Finds the label of the answer, also inside of a line; the short form only at its start.
fn answer_from(text: &str, from: usize) -> Option<Label> {
    let lower = text.get(from..)?.to_ascii_lowercase();
    let inside = lower.match_indices("final answer").find_map(|(at, words)| {
        let rest = lower.get(at + words.len()..)?;
        let rest = rest.trim_start_matches(['*', '_', ' ']).strip_prefix(':')?;
        let end = lower.len() - rest.trim_start_matches(['*', '_']).len();
        Some(Label { at: from + at, end: from + end })
    });
    let is_thought = find(text, 0, &["Thought"]).is_some();
    let short = find(text, from, &["Answer"]).filter(|_| is_thought);
    [inside, short].into_iter().flatten().min_by_key(|label| label.at)
}

/// Returns the thought that precedes an action.
pub(super) fn thought(text: &str, to: usize) -> String {
    let before = text.get(..to).unwrap_or_default();
    let mut said = before;
    let mut from = 0;
    while let Some(label) = find(before, from, &["Thought"]) {
        said = before.get(label.end..).unwrap_or_default();
        from = label.end;
    }
    said.trim().trim_end_matches("```json").trim_matches('`').trim().to_owned()
}

/// Removes what is left of fences round an answer.
pub(super) fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    match answer.strip_suffix("```") {
        // A fence that the answer itself does not open closes the whole reply.
        Some(inside) if inside.matches("```").count() % 2 == 0 => inside.trim(),
        _ => answer,
    }
}

/// Tells whether a name stands for the final answer.
pub(super) fn is_final(name: &str) -> bool {
    let name = name.replace(['_', '-'], " ");
    name.eq_ignore_ascii_case(FINAL_ANSWER) || name.eq_ignore_ascii_case("FinalAnswer")
}
