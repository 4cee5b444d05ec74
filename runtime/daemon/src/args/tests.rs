//! The command line is sound, and what is written of it holds.

use clap::{Command, CommandFactory as _};

use super::*;

const README: &str = include_str!("../../../../deploy/README.md");

/// Adds a row for each command that can be given, as it tells of itself.
fn rows(command: &Command, before: &str, rows: &mut Vec<String>) {
    let name = format!("{before} {}", command.get_name()).trim_start().to_owned();
    if command.has_subcommands() {
        command.get_subcommands().for_each(|below| self::rows(below, &name, rows));
        return;
    }
    let about = command.get_about().unwrap().to_string();
    rows.push(format!("| `{name}` | {} |", about.replace('|', "\\|")));
}

#[test]
fn the_table_of_commands_is_whole() {
    let mut expected = Vec::new();
    rows(&Line::command(), "", &mut expected);
    let (_, section) = README.split_once("\n## Commands\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let found: Vec<&str> =
        section.lines().filter(|line| line.starts_with("| `callboard ")).collect();
    assert_eq!(found, expected, "write\n{}", expected.join("\n"));
}

#[test]
fn the_command_line_is_sound() {
    Line::command().debug_assert();
}

#[test]
fn a_team_may_name_an_agent() {
    let cases = [("a", Some(("a", None))), ("a/b", Some(("a", Some("b")))), ("a/", None)];
    for (text, expected) in cases {
        let whom: Option<Whom> = text.parse().ok();
        let found =
            whom.as_ref().map(|whom| (whom.team.as_str(), whom.agent.as_ref().map(Name::as_str)));
        assert_eq!(found, expected, "{text}");
    }
}
