//! Draws a trace: a tree of spans, each with a bar where it lay in time.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use wire::{SpanRecord, Timestamp, TraceContext, Usage, money, semconv};

use crate::paint::Paint;
use crate::text;

/// The columns of a time span.
const TIME_WIDTH: usize = 8;

/// The columns from which on money and outcomes have a place.
const WIDE_MIN: usize = 100;

/// The most columns of an outcome.
const OUTCOME_WIDTH_MAX: usize = 24;

/// The fewest columns of a bar.
const BAR_WIDTH_MIN: usize = 10;

/// The eighths of a block, from one to seven.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// One line of the drawing.
#[derive(Debug)]
struct Row<'s> {
    span: &'s SpanRecord,
    /// The branches that lead to it.
    branches: String,
    /// What stands before the lines below it, such as its error.
    trunk: String,
}

/// Draws the spans of one trace.
pub(crate) fn render(spans: &[SpanRecord], paint: Paint, width: usize) -> String {
    let rows = rows(spans);
    let (Some(begin), Some(end)) =
        (spans.iter().map(|span| span.start).min(), spans.iter().map(|span| span.end).max())
    else {
        return String::new();
    };
    let label = |row: &Row<'_>| format!("{}{}", row.branches, name(row.span));
    let tokens = |row: &Row<'_>| tokens(row.span).map(text::count).unwrap_or_default();
    let widest = |cell: &dyn Fn(&Row<'_>) -> String, title: &str| {
        let cells = rows.iter().map(|row| text::width(&cell(row)));
        cells.max().unwrap_or(0).max(text::width(title))
    };
    let tokens_width = widest(&tokens, "tokens");
    let cost = |row: &Row<'_>| cost(row.span).map(money::usd).unwrap_or_default();
    let outcome = |row: &Row<'_>| outcome(row.span).unwrap_or_default();
    // A narrow screen has room for the bars or for these.
    let is_wide = width >= WIDE_MIN;
    let costs = is_wide && spans.iter().any(|span| self::cost(span).is_some());
    let cost_width = if costs { widest(&cost, "cost") } else { 0 };
    let outcome_width =
        if is_wide { widest(&outcome, "outcome").min(OUTCOME_WIDTH_MAX) } else { 0 };
    let more = [cost_width, outcome_width].map(|width| if width > 0 { width + 2 } else { 0 });
    let fixed = TIME_WIDTH + tokens_width + 6 + more.iter().sum::<usize>();
    let names_max = width.saturating_sub(fixed + BAR_WIDTH_MIN).max(BAR_WIDTH_MIN);
    let names_width = widest(&label, "span").min(names_max.min(width / 2).max(BAR_WIDTH_MIN));
    let bar_width = width.saturating_sub(names_width + fixed).max(BAR_WIDTH_MIN);

    let total = end.since(begin);
    let rest = |cost: &str, outcome: &str| {
        let mut rest = String::new();
        if cost_width > 0 {
            // Writing to a string does not fail.
            write!(rest, "  {cost:>cost_width$}").unwrap_or_default();
        }
        if outcome_width > 0 {
            rest.push_str("  ");
            rest.push_str(&text::shorten(&text::one_line(outcome), outcome_width));
        }
        rest
    };
    let head = format!(
        "{}  {}  {:>TIME_WIDTH$}  {:>tokens_width$}{}",
        text::pad("span", names_width),
        scale(total, bar_width),
        "time",
        "tokens",
        rest("cost", "outcome"),
    );
    let mut lines = vec![paint.dim(head.trim_end())];
    for row in &rows {
        let Row { span, branches, trunk } = row;
        let shown = text::pad(&text::shorten(&label(row), names_width), names_width);
        let (branches, shown) = split_at_char(&shown, branches.chars().count());
        let bar = bar((begin, total), (span.start, span.end), bar_width);
        let time = text::duration(span.end.since(span.start));
        let (shown, bar) = match kind(span) {
            _ if span.error.is_some() => (paint.red(shown), paint.red(&bar)),
            semconv::operation::INVOKE_AGENT => (paint.bold(shown), paint.cyan(&bar)),
            semconv::operation::CHAT => (shown.to_owned(), paint.blue(&bar)),
            _ => (shown.to_owned(), paint.green(&bar)),
        };
        let branches = paint.dim(branches);
        let tokens = tokens(row);
        let rest = rest(&cost(row), &outcome(row));
        let rest = if span.error.is_some() { paint.red(rest.trim_end()) } else { rest };
        let line =
            format!("{branches}{shown}  {bar}  {time:>TIME_WIDTH$}  {tokens:>tokens_width$}{rest}");
        lines.push(line.trim_end().to_owned());
        for note in notes(span) {
            let room = width.saturating_sub(text::width(trunk) + 2);
            let note = text::shorten(&text::one_line(&note), room);
            lines.push(format!("{}{}", paint.dim(trunk), paint.red(&format!("✗ {note}"))));
        }
    }
    lines.join("\n")
}

fn split_at_char(text: &str, chars: usize) -> (&str, &str) {
    let at = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// Returns the name by which a span is shown.
fn name(span: &SpanRecord) -> String {
    let role = span.attributes.text(semconv::ROLE);
    let role = role.map_or_else(String::new, |role| format!(" ({role})"));
    text::one_line(&format!("{}{role}", span.name))
}

fn kind(span: &SpanRecord) -> &str {
    span.attributes.text(semconv::OPERATION_NAME).unwrap_or_default()
}

fn tokens(span: &SpanRecord) -> Option<u64> {
    let count = |name: &str| span.attributes.number(name);
    let sum = count(semconv::INPUT_TOKENS)? + count(semconv::OUTPUT_TOKENS).unwrap_or(0);
    (sum > 0).then_some(sum)
}

/// Returns what a span cost, in billionths of a dollar.
fn cost(span: &SpanRecord) -> Option<u64> {
    let cost = span.attributes.number(semconv::COST_NANO_USD);
    cost.filter(|cost| *cost > 0)
}

/// Returns in a word or two how a span ended.
fn outcome(span: &SpanRecord) -> Option<String> {
    let text = |name: &str| span.attributes.text(name);
    let finish = || span.attributes.get(semconv::FINISH_REASONS)?.as_nested()?.get(0)?.as_str();
    let outcome = text(semconv::FEEDBACK).or_else(|| text(semconv::OUTCOME)).or_else(finish);
    let failed = text(semconv::ERROR_TYPE).filter(|_| span.error.is_some());
    match (outcome, failed) {
        (Some(outcome), Some(failed)) => Some(format!("{outcome} {failed}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

/// Adds up what the models of a trace used.
pub(crate) fn used(spans: &[SpanRecord]) -> Usage {
    spans.iter().filter_map(SpanRecord::model_usage).fold(Usage::default(), |mut sum, used| {
        sum.add(used);
        sum
    })
}

/// Writes one span as a line, where no trace can be drawn anew.
pub(crate) fn line(span: &SpanRecord, paint: Paint, width: usize) -> String {
    let mut parts = vec![text::duration(span.end.since(span.start))];
    parts.extend(tokens(span).map(|tokens| format!("{} tokens", text::count(tokens))));
    parts.extend(cost(span).map(money::usd));
    parts.extend(outcome(span));
    let head = format!("{} · {}", name(span), parts.join(" · "));
    let notes: Vec<String> = notes(span).iter().map(|note| format!("✗ {note}")).collect();
    let line = [vec![head], notes].concat().join("  ");
    let line = text::shorten(&text::one_line(&line), width);
    if span.error.is_some() { paint.red(&line) } else { line }
}

/// Says what went wrong with a span, and what was not as usual.
fn notes(span: &SpanRecord) -> Vec<String> {
    let text = |name: &str| span.attributes.text(name);
    let count = |name: &str| span.attributes.number(name);
    let feedback =
        text(semconv::FEEDBACK).map(|code| format!("the reply could not be used: {code}"));
    let attempts = count(semconv::ATTEMPTS).filter(|attempts| *attempts > 1).map(|attempts| {
        match kind(span) {
            semconv::operation::CHAT => format!("the provider was asked {attempts} times"),
            _ => format!("made {attempts} times"),
        }
    });
    let served_by = text(semconv::SERVED_BY).map(|name| format!("model {name} stood in for it"));
    let resumes = count(semconv::RESUMES)
        .filter(|resumes| *resumes > 0)
        .map(|resumes| format!("taken up again {resumes} times"));
    let error = span.error.clone().into_iter();
    error.chain(feedback).chain(attempts).chain(served_by).chain(resumes).collect()
}

/// Writes the length of the trace above the right end of the bars.
fn scale(total: Duration, width: usize) -> String {
    let end = text::duration(total);
    let gap = width.saturating_sub(1 + text::width(&end));
    format!("0{}{end}", " ".repeat(gap))
}

/// Draws a bar: at least a thin line, never beyond its column.
fn bar(
    (begin, total): (Timestamp, Duration),
    (start, end): (Timestamp, Timestamp),
    width: usize,
) -> String {
    let eighths = |time: Duration| {
        let total = total.as_micros().max(1);
        usize::try_from(time.as_micros() * width as u128 * 8 / total).unwrap_or(usize::MAX)
    };
    // A bar begins with a whole cell, but is as long as its span.
    let from = (eighths(start.since(begin)) / 8).min(width.saturating_sub(1));
    let length = eighths(end.since(start)).clamp(1, (width - from) * 8);
    let (full, part) = (length / 8, length % 8);
    let mut bar = " ".repeat(from);
    bar.push_str(&"█".repeat(full));
    bar.extend(part.checked_sub(1).and_then(|part| EIGHTHS.get(part)));
    text::pad(&bar, width)
}

/// Puts spans into the order of a tree; what has no parent here stands at the root.
fn rows(spans: &[SpanRecord]) -> Vec<Row<'_>> {
    let known: HashMap<TraceContext, usize> =
        spans.iter().enumerate().map(|(at, span)| (span.context, at)).collect();
    let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (at, span) in spans.iter().enumerate() {
        let parent = span.parent.as_ref().and_then(|parent| known.get(parent)).copied();
        below.entry(parent.filter(|parent| *parent != at)).or_default().push(at);
    }
    for children in below.values_mut() {
        children
            .sort_by_key(|at| spans.get(*at).map(|span| (span.start, std::cmp::Reverse(span.end))));
    }
    let mut rows = Vec::with_capacity(spans.len());
    let mut seen = HashSet::new();
    let roots = below.get(&None).cloned().unwrap_or_default();
    // Spans that are each other's parents hang below no root, and are shown all the same.
    for root in roots.into_iter().chain(0..spans.len()) {
        let mut open = vec![(root, String::new(), String::new())];
        while let Some((at, branches, trunk)) = open.pop() {
            let Some(span) = spans.get(at).filter(|_| seen.insert(at)) else { continue };
            let children = below.get(&Some(at)).map(Vec::as_slice).unwrap_or_default();
            let pending = children.iter().filter(|child| !seen.contains(*child));
            for (back, child) in pending.rev().enumerate() {
                let (branch, trunk_below) =
                    if back == 0 { ("└ ", "  ") } else { ("├ ", "│ ") };
                open.push((*child, format!("{trunk}{branch}"), format!("{trunk}{trunk_below}")));
            }
            rows.push(Row { span, branches, trunk });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Makes a span: its number, its parent's, its name, begin and end in milliseconds.
    fn span(id: u8, parent: u8, name: &str, start: u64, end: u64) -> SpanRecord {
        let context = |id: u8| format!("00-{:032x}-{id:016x}-01", 7);
        let operation = name.split(' ').next();
        let mut span = json!({
            "context": context(id), "name": name, "kind": "internal", "start": start * 1000,
            "end": end * 1000, "session": "s", "run": "r", "agent": "lead",
            "attributes": {"gen_ai.operation.name": operation},
        });
        if parent > 0 {
            span["parent"] = context(parent).into();
        }
        if operation == Some("chat") {
            span["attributes"]["callboard.role"] = "thinker".into();
            span["attributes"]["gen_ai.usage.input_tokens"] = 1000.into();
            span["attributes"]["gen_ai.usage.output_tokens"] = 20.into();
        }
        serde_json::from_value(span).unwrap()
    }

    fn trace() -> Vec<SpanRecord> {
        let mut failed = span(4, 3, "invoke_agent writer", 400, 800);
        failed.error = Some("E4001 out of\nsteps".to_owned());
        vec![
            span(1, 9, "invoke_agent lead", 0, 1000),
            span(3, 1, "execute_tool writer", 400, 800),
            span(2, 1, "chat big", 0, 400),
            failed,
            span(5, 4, "execute_tool calculate", 500, 500),
            span(6, 1, "chat big", 800, 1000),
        ]
    }

    #[test]
    fn a_trace_is_drawn_to_the_width() {
        let narrow = "\
span                          0                          1.0 s      time  tokens
invoke_agent lead             ████████████████████████████████     1.0 s
├ chat big (thinker)          ████████████▊                       400 ms   1,020
├ execute_tool writer                     ████████████▊           400 ms
│ └ invoke_agent writer                   ████████████▊           400 ms
│   ✗ E4001 out of steps
│   └ execute_tool calculate                  ▏                     0 µs
└ chat big (thinker)                                   ██████▍    200 ms   1,020";
        for (width, expected) in [(80, Some(narrow)), (120, None), (40, None)] {
            let drawn = render(&trace(), Paint::new(false), width);
            for line in drawn.lines() {
                assert!(text::width(line) <= width, "{width}: {line}");
            }
            if let Some(expected) = expected {
                assert_eq!(drawn, expected);
            }
        }
    }

    #[test]
    fn a_bar_lies_where_the_span_lay() {
        let at = Timestamp::from_micros;
        let cases = [
            ((0, 100), "██████████"),
            ((0, 50), "█████     "),
            ((50, 100), "     █████"),
            ((0, 1), "▏         "),
            ((100, 100), "         ▏"),
            ((50, 53), "     ▎    "),
        ];
        for ((start, end), expected) in cases {
            let drawn = bar((at(0), Duration::from_micros(100)), (at(start), at(end)), 10);
            assert_eq!(drawn, expected, "{start} to {end}");
        }
    }

    #[test]
    fn attempts_are_those_of_what_the_span_is() {
        let cases = [
            ("chat big", 1, ""),
            ("chat big", 3, "the provider was asked 3 times"),
            ("execute_tool pay", 1, ""),
            ("execute_tool pay", 2, "made 2 times"),
        ];
        for (name, attempts, expected) in cases {
            let mut span = span(1, 0, name, 0, 1);
            span.attributes.set("callboard.attempts", attempts);
            assert_eq!(notes(&span).join(", "), expected, "{name} {attempts}");
        }
    }

    #[test]
    fn every_span_is_drawn_once_whatever_its_parent() {
        let circle = vec![span(1, 2, "a", 0, 1), span(2, 1, "b", 0, 1), span(3, 3, "c", 0, 1)];
        let names: Vec<&str> = rows(&circle).iter().map(|row| row.span.name.as_str()).collect();
        assert_eq!(names, ["c", "a", "b"]);
        assert_eq!(render(&[], Paint::new(false), 80), "");
    }
}
