//! Draws how nodes fare.

use std::time::Duration;

use chrono::{DateTime, Local};
use gateway::view::NodeList;
use wire::look::{Counts, DoingKind, NodeStats, RunInWork, TeamStats};
use wire::{OpenKind, Timestamp, money};

use crate::failure::Failure;
use crate::paint::Paint;
use crate::table::{self, Column};
use crate::text;

/// The hex digits by which a node is named.
const NODE_CHARS: usize = 10;

/// The characters of a run's id that are shown.
const RUN_CHARS: usize = 14;

/// The columns from which on all that is counted has a place.
const WIDE_MIN: usize = 120;

/// Two looks at the same nodes; what happened between them gives the rates.
pub(super) struct Look<'l> {
    /// The earlier one; absent at first, and then the rates are those since the start.
    pub(super) before: Option<&'l NodeList>,
    pub(super) now: &'l NodeList,
    /// Why all nodes or some could not be looked at later.
    pub(super) lost: &'l [Failure],
}

/// What happened in a second.
struct Rates {
    runs: f64,
    steps: f64,
    tokens: f64,
}

impl Look<'_> {
    pub(super) fn render(&self, paint: Paint, width: usize) -> String {
        let mut lines = vec![self.head(paint, width)];
        for failure in self.lost {
            let note = format!("not seen at present: {}", text::one_line(&failure.to_string()));
            lines.push(paint.red(&text::shorten(&note, width)));
        }
        for node in &self.now.silent {
            let note = format!("node {} did not answer", text::one_line(node));
            lines.push(paint.red(&text::shorten(&note, width)));
        }
        lines.push(String::new());
        lines.push(self.teams(paint, width));
        let in_work = self.in_work(paint, width);
        if !in_work.is_empty() {
            lines.push(in_work);
        }
        lines.join("\n")
    }

    fn head(&self, paint: Paint, width: usize) -> String {
        let nodes = &self.now.nodes;
        let teams: usize = nodes.iter().map(|node| node.teams.len()).sum();
        let at = nodes.iter().map(|node| node.at).max().unwrap_or_default();
        let up = nodes.iter().map(|node| node.at.since(node.since)).max().unwrap_or_default();
        let all = nodes.iter().flat_map(|node| &node.teams);
        let waiting: u64 = all.clone().map(|team| team.waiting.total()).sum();
        let cost: u64 = all.clone().map(|team| team.counts.usage.cost_nano_usd).sum();
        let mut parts = vec![
            plural(nodes.len() as u64, "node"),
            plural(teams as u64, "team"),
            format!("up {}", text::duration(up)),
        ];
        if cost > 0 {
            parts.push(format!("spent {}", money::usd(cost)));
        }
        let lost: u64 = nodes.iter().map(|node| node.events_lost).sum();
        if lost > 0 {
            parts.push(format!("{} events lost", text::count(lost)));
        }
        if nodes.iter().any(|node| !node.bus_connected) {
            parts.push("bus out of reach".to_owned());
        }
        if nodes.iter().any(|node| node.draining) {
            parts.push("draining".to_owned());
        }
        let calm = format!("{}  {}", clock(at), parts.join(", "));
        let calm = text::shorten(&calm, width);
        if waiting == 0 {
            return paint.bold(&calm);
        }
        let asked = format!(", {} for people", plural(waiting, "call"));
        let room = width.saturating_sub(text::width(&calm));
        format!("{}{}", paint.bold(&calm), paint.yellow(&text::shorten(&asked, room)))
    }

    fn teams(&self, paint: Paint, width: usize) -> String {
        let several = self.now.nodes.len() > 1;
        // Beside the names of several nodes there is less room.
        let is_wide = width >= WIDE_MIN + if several { NODE_CHARS * 2 } else { 0 };
        let mut columns = vec![Column::Left("team")];
        if several {
            columns.insert(0, Column::Left("node"));
        }
        columns.extend(
            ["sessions", "runs", "turns", "calls", "asked", "runs/s", "steps/s", "tokens/s"]
                .map(Column::Right),
        );
        if is_wide {
            columns.extend(
                ["ended", "failed", "spend", "queued", "lost", "restarts", "traces"]
                    .map(Column::Right),
            );
        }
        let mut rows = Vec::new();
        for node in &self.now.nodes {
            for team in &node.teams {
                let mut row = Vec::new();
                if several {
                    row.push(node.node.chars().take(NODE_CHARS).collect());
                }
                row.extend(self.team(node, team));
                if is_wide {
                    row.extend(wide(node, team));
                }
                rows.push(row);
            }
        }
        table::render(&columns, &rows, paint, width, |cell, column| match column {
            Column::Right("asked") if cell != "0" => Some(paint.yellow(cell)),
            Column::Right("failed" | "restarts" | "lost") if cell != "0" => Some(paint.red(cell)),
            Column::Left("team") => Some(paint.cyan(cell)),
            _ => None,
        })
    }

    fn team(&self, node: &NodeStats, team: &TeamStats) -> Vec<String> {
        let rates = self.rates(node, team);
        vec![
            team.team.to_string(),
            format!("{}/{}", team.sessions_busy, team.sessions),
            team.runs.to_string(),
            team.turns.to_string(),
            team.calls.to_string(),
            team.waiting.total().to_string(),
            rate(rates.runs),
            rate(rates.steps),
            rate(rates.tokens),
        ]
    }

    /// Returns what happened in a second since the earlier look, or since the start.
    fn rates(&self, node: &NodeStats, team: &TeamStats) -> Rates {
        let same = |other: &&NodeStats| other.node == node.node && other.at < node.at;
        let earlier = self.before.and_then(|list| list.nodes.iter().find(same));
        let counted = earlier.and_then(|earlier| {
            let found = earlier.teams.iter().find(|other| other.team == team.team)?;
            Some((earlier.at, found.counts.clone()))
        });
        let (since, before) = counted.unwrap_or((node.since, Counts::default()));
        let seconds = node.at.since(since).as_secs_f64().max(1e-3);
        let now = &team.counts;
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
        let of = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Rates {
            runs: of(now.runs_over(), before.runs_over()),
            steps: of(now.steps, before.steps),
            tokens: of(now.usage.total(), before.usage.total()),
        }
    }

    fn in_work(&self, paint: Paint, width: usize) -> String {
        let all = self.now.nodes.iter().flat_map(|node| {
            let runs = node.teams.iter().flat_map(|team| team.in_work.iter());
            runs.map(|run| (node.at, run))
        });
        let rows: Vec<Vec<String>> = all.map(|(at, run)| run_row(at, run)).collect();
        if rows.is_empty() {
            return String::new();
        }
        let columns = [
            Column::Left("run"),
            Column::Left("agent"),
            Column::Right("for"),
            Column::Left("what"),
            Column::Rest("input"),
        ];
        table::render(&columns, &rows, paint, width, |cell, column| {
            let waits = column == Column::Left("what") && cell.starts_with("waits");
            waits.then(|| paint.yellow(cell))
        })
    }
}

fn wide(node: &NodeStats, team: &TeamStats) -> Vec<String> {
    let counts = &team.counts;
    let failed = counts.runs_ended.get("failed").copied().unwrap_or(0);
    let traces = &team.traces;
    vec![
        text::count(counts.runs_over()),
        text::count(failed),
        money::usd(counts.usage.cost_nano_usd),
        text::count(team.store_queue + team.export_queue + node.events_waiting),
        text::count(team.export_lost + node.events_lost),
        text::count(counts.restarts),
        format!("{} in {}", text::count(traces.kept), mebibytes(traces.bytes)),
    ]
}

fn run_row(at: Timestamp, run: &RunInWork) -> Vec<String> {
    let id = run.run.as_str();
    let short: String = id.chars().take(RUN_CHARS).collect();
    let mark = if run.parent.is_some() { "└ " } else { "" };
    let what = match (run.waits, run.doing.as_slice()) {
        (Some(OpenKind::Approval), _) => "waits for leave".to_owned(),
        (Some(OpenKind::Question), _) => "waits for an answer".to_owned(),
        (Some(OpenKind::Unknown), _) => "waits to be told an outcome".to_owned(),
        (None, []) => "in work".to_owned(),
        (None, [first, rest @ ..]) => {
            let kind = match first.kind {
                DoingKind::Turn => "model",
                DoingKind::Call => "tool",
            };
            let more =
                if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let took = at.since(first.since);
            format!("{kind} {} {}{more}", first.name, text::duration(round(took)))
        }
    };
    vec![
        format!("{mark}{short}"),
        run.agent.to_string(),
        text::duration(round(at.since(run.since))),
        what,
        run.input.clone(),
    ]
}

/// Leaves out what changes faster than a person reads.
fn round(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis() / 100 * 100).unwrap_or(u64::MAX))
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn rate(per_second: f64) -> String {
    if per_second >= 100.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", text::count(bytes.div_ceil(1 << 20)))
}

/// Writes a time of day as the clock on the wall shows it.
fn clock(at: Timestamp) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_micros(micros)
        .map(|time| time.with_timezone(&Local).format("%H:%M:%S").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(at_s: u64, runs: u64, tokens: u64) -> NodeStats {
        serde_json::from_value(json!({
            "node": "n-0123456789abcdef", "version": "0.1.0", "since": 0, "at": at_s * 1_000_000,
            "draining": false, "bus_connected": true, "events_waiting": 3, "events_lost": 0,
            "teams": [{
                "team": "crew", "sessions": 12, "sessions_busy": 2, "runs": 3, "turns": 1,
                "calls": 1, "waiting": {"approvals": 1, "questions": 0, "unknown": 0},
                "counts": {
                    "runs_begun": runs, "runs_ended": {"completed": runs - 2, "failed": 1, "cancelled": 1},
                    "steps": runs * 3, "turns": 0, "turns_failed": 0, "feedback": 0, "calls": 0,
                    "calls_failed": 0, "restarts": 2,
                    "usage": {"input_tokens": tokens, "output_tokens": 0, "cost_nano_usd": 1_500_000_000_u64},
                },
                "store_queue": 0, "export_queue": 4, "export_lost": 0,
                "traces": {"kept": 1234, "bytes": 5 << 20, "bytes_max": 1 << 29, "dropped": 0},
                "in_work": [
                    {"run": "r-01a1fdc15ab076b9", "session": "s", "agent": "lead", "since": 1_000_000,
                     "input": "Who is she?", "doing": [
                        {"kind": "turn", "name": "thinker", "since": (at_s - 1) * 1_000_000},
                        {"kind": "call", "name": "search", "since": 1_000_000},
                     ]},
                    {"run": "7035d552317def47", "session": "s", "agent": "writer", "since": 3_000_000,
                     "parent": "r-01a1fdc15ab076b9", "input": "Write.", "doing": [], "waits": "approval"},
                ],
            }],
        }))
        .unwrap()
    }

    fn list(nodes: Vec<NodeStats>) -> NodeList {
        NodeList { nodes, silent: Vec::new() }
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let (before, now) = (list(vec![node(10, 20, 1_000)]), list(vec![node(12, 30, 1_500)]));
        let of = |before: Option<&NodeList>| {
            let look = Look { before, now: &now, lost: &[] };
            let rates = look.rates(&now.nodes[0], &now.nodes[0].teams[0]);
            [rate(rates.runs), rate(rates.steps), rate(rates.tokens)]
        };
        assert_eq!(of(Some(&before)), ["5.0", "15.0", "250"]);
        assert_eq!(of(None), ["2.5", "7.5", "125"], "since the start");
        let other = list(vec![NodeStats { node: "x".into(), ..node(10, 20, 1_000) }]);
        assert_eq!(of(Some(&other)), ["2.5", "7.5", "125"], "a node that was started anew");
    }

    #[test]
    fn nodes_are_drawn_to_the_width() {
        let two = list(vec![node(12, 30, 1_500), node(12, 3, 0)]);
        let silent = NodeList { silent: vec!["n-9 (crew)".to_owned()], ..two.clone() };
        for now in [&list(vec![node(12, 30, 1_500)]), &two, &silent] {
            for width in [80, 100, 150] {
                let drawn = Look { before: None, now, lost: &[] }.render(Paint::new(false), width);
                for line in drawn.lines() {
                    assert!(text::width(line) <= width, "{width}: {line}");
                }
                for part in ["crew", "waits for leave", "└ 7035d552317def"] {
                    assert!(drawn.contains(part), "{width}: {part} in\n{drawn}");
                }
                assert_eq!(drawn.contains("n-9 (crew) did not answer"), !now.silent.is_empty());
                assert_eq!(drawn.contains("1,234 in 5 MiB"), width == 150, "{drawn}");
            }
        }
    }
}
