//! Labels at the start of lines: `Thought:`, `Action:`, `Action Input:`, `Final Answer:`.

use super::super::form::FINAL_ANSWER;

/// What may stand before a label on its line: list marks, quotes and emphasis.
const DECORATION: [char; 7] = [' ', '\t', '*', '#', '>', '-', '_'];

/// What opens and closes a block of code.
const FENCE: &str = "```";

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

/// Finds a label from a byte on, in any case. What follows the byte counts as a line.
pub(super) fn find(text: &str, from: usize, words: &[&str]) -> Option<Label> {
    lines(text.get(from..)?).find_map(|(at, line)| {
        let end = words.iter().find_map(|word| end(line, word))?;
        Some(Label { at: from + at, end: from + at + end })
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
    let labels = answers(text);
    let first = labels.first()?;
    let limit = find(text, first.end, &["Question"]).map_or(text.len(), |label| label.at);
    let last = labels.iter().rev().find(|label| label.at < limit)?;
    Some(Answer { at: first.at, start: last.end, end: limit })
}

/// Finds the labels of answers, also inside of a line; without one the short form after a thought.
fn answers(text: &str) -> Vec<Label> {
    let lower = text.to_ascii_lowercase();
    let label = |(at, words): (usize, &str)| {
        let rest = lower.get(at + words.len()..)?;
        let rest = rest.trim_start_matches(['*', '_', ' ']).strip_prefix(':')?;
        let end = lower.len() - rest.trim_start_matches(['*', '_']).len();
        Some(Label { at, end })
    };
    let labels: Vec<Label> = lower.match_indices("final answer").filter_map(label).collect();
    if !labels.is_empty() || find(text, 0, &["Thought"]).is_none() {
        return labels;
    }
    find(text, 0, &["Answer"]).into_iter().collect()
}

/// Returns where an answer ends that an action at a byte follows: before the label of the action,
/// its fence and a rule.
pub(super) fn before_action(text: &str, answer: Answer, at: usize) -> usize {
    let label = find(text, answer.start, &["Action"]).map_or(at, |label| label.at.min(at));
    let kept = text.get(..label).unwrap_or_default();
    let kept = kept.trim_end().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let is_fence = kept.ends_with("``");
    let kept = if is_fence { kept } else { text.get(..label).unwrap_or_default() };
    kept.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '[' | '-' | '`')).len()
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
    match answer.strip_suffix(FENCE) {
        // A fence that the answer itself does not open closes the whole reply.
        Some(inside) if inside.matches(FENCE).count() % 2 == 0 => inside.trim(),
        _ => answer,
    }
}

/// Returns the input of an action without the fence that closes it. Fences that the input opens and
/// closes itself are a part of it.
pub(super) fn input(text: &str, is_fenced: bool) -> &str {
    let end = if is_fenced {
        text.find(FENCE)
    } else {
        text.rfind(FENCE).filter(|_| text.matches(FENCE).count() % 2 == 1)
    };
    text.get(..end.unwrap_or(text.len())).unwrap_or_default().trim()
}

/// Tells whether a name stands for the final answer.
pub(super) fn is_final(name: &str) -> bool {
    let name = name.replace(['_', '-'], " ");
    name.eq_ignore_ascii_case(FINAL_ANSWER) || name.eq_ignore_ascii_case("FinalAnswer")
}
