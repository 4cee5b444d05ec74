//! `callboard tools --compare` and `--approve`: what an MCP server lists, and what is pinned of it.

use config::Team;
use node::{Compared, LoadError};
use serde_json::{Value, json};
use tools::mcp::{Catalog, Change, Listed};
use wire::Name;

use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::Place;
use crate::screen;
use crate::text;

/// Tells how the list of a server differs from the pinned one.
pub(crate) async fn compare(
    team: &Team,
    place: &Place,
    server: &Name,
    as_json: bool,
) -> Result<Exit, Failure> {
    let found = node::compare(team, place.dir(), server).await?;
    show(server, &found, as_json)?;
    if !as_json && !changes(&found).is_empty() {
        let option = place.option();
        screen::note(&format!(
            "to take this over: callboard tools{option} {} --approve {server}\n",
            team.file.display()
        ));
    }
    Ok(Exit::Done)
}

/// Pins the list of a server, and tells what that changes; a list with which the team cannot be
/// made is left alone.
pub(crate) async fn approve(
    team: &Team,
    place: &Place,
    server: &Name,
    as_json: bool,
    paint: Paint,
) -> Result<Exit, Failure> {
    let found = node::compare(team, place.dir(), server).await?;
    node::approve(team, place.dir(), server, &found.listed).await.map_err(|error| {
        if matches!(error, LoadError::Report(_)) {
            screen::note(&format!(
                "the list of {server} is not pinned: the team does not go with it\n"
            ));
        }
        super::load_failure(error, paint)
    })?;
    show(server, &found, as_json)?;
    if !as_json {
        let count = found.listed.tools.len();
        screen::note(&format!(
            "{count} tools of {server} are pinned; a daemon that runs offers them in a moment\n"
        ));
    }
    Ok(Exit::Done)
}

fn changes(found: &Compared) -> Vec<Change> {
    found.pinned.clone().unwrap_or_default().changes(&found.listed)
}

fn show(server: &Name, found: &Compared, as_json: bool) -> Result<(), Failure> {
    let changes = changes(found);
    if as_json {
        let changes: Vec<Value> = changes.iter().map(|change| to_json(change, found)).collect();
        let is_pinned = found.pinned.is_some();
        screen::json(&json!({"server": server, "pinned": is_pinned, "changes": changes}))
    } else {
        screen::answer(&render(server, &changes, found))
    }
}

fn to_json(change: &Change, found: &Compared) -> Value {
    let (kind, tool, parts) = match change {
        Change::New(tool) => ("new", tool, None),
        Change::Gone(tool) => ("gone", tool, None),
        Change::Changed { tool, parts } => ("changed", tool, Some(parts)),
    };
    let (before, after) = sides(tool, found);
    json!({"tool": tool, "change": kind, "parts": parts, "pinned": before, "listed": after})
}

fn sides<'c>(tool: &str, found: &'c Compared) -> (Option<&'c Listed>, Option<&'c Listed>) {
    (found.pinned.as_ref().and_then(|pinned| pinned.get(tool)), found.listed.get(tool))
}

fn render(server: &Name, changes: &[Change], found: &Compared) -> String {
    if changes.is_empty() {
        let count = found.pinned.as_ref().map_or(0, |Catalog { tools }| tools.len());
        return format!("{server}: {count} tools, as they are pinned");
    }
    let mut lines = Vec::new();
    for change in changes {
        let tool = match change {
            Change::New(tool) => {
                lines.push(format!("new      {tool:?}"));
                tool
            }
            Change::Gone(tool) => {
                lines.push(format!("gone     {tool:?}"));
                continue;
            }
            Change::Changed { tool, parts } => {
                lines.push(format!("changed  {tool:?}: {}", parts.join(", ")));
                tool
            }
        };
        let (before, after) = sides(tool, found);
        lines.extend(before.map(|tool| line('-', tool)));
        lines.extend(after.map(|tool| line('+', tool)));
    }
    lines.join("\n")
}

/// Writes everything that is said of a tool in one line, so that all of it is seen and nothing of it
/// draws on the terminal.
fn line(sign: char, tool: &Listed) -> String {
    let output = tool.output.as_ref().map_or_else(String::new, |schema| format!(" -> {schema}"));
    let hints = serde_json::to_string(&tool.hints).unwrap_or_default();
    let form = text::visible(&format!("{}{output} {hints}", tool.parameters));
    format!("  {sign} {:?} {form}", tool.description)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_both_sides() {
        let tool = |name: &str, description: &str| Listed {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({"type": "object"}),
            ..Listed::default()
        };
        let hides = Listed {
            parameters: json!({"title": "a\u{9b}2J\u{202e}b\u{200b}"}),
            ..tool("d", "D.")
        };
        let pinned = Catalog { tools: vec![tool("a", "Reads."), tool("b", "B."), tool("c", "C.")] };
        let listed =
            Catalog { tools: vec![tool("a", "Reads\u{1b}[2J all."), tool("c", "C."), hides] };
        let server = Name::new("files").unwrap();
        let found = Compared { pinned: Some(pinned.clone()), listed: listed.clone() };
        let expected = "changed  \"a\": description\n  \
                        - \"Reads.\" {\"type\":\"object\"} {}\n  \
                        + \"Reads\\u{1b}[2J all.\" {\"type\":\"object\"} {}\n\
                        gone     \"b\"\n\
                        new      \"d\"\n  \
                        + \"D.\" {\"title\":\"a\\u009b2J\\u202eb\\u200b\"} {}";
        assert_eq!(render(&server, &changes(&found), &found), expected);
        let same = Compared { pinned: Some(listed.clone()), listed };
        assert_eq!(render(&server, &changes(&same), &same), "files: 3 tools, as they are pinned");
        let first = Compared { pinned: None, listed: pinned };
        assert_eq!(changes(&first).len(), 3, "everything is new");
    }
}
