//! The README tells every field, default and bound of the schema.

use std::path::Path;

use agents_core::dialect;
use agents_core::validate::validator;
use serde_json::{Value, json};
use wire::plan::Text;

use super::broken::{FINE, files};

const README: &str = include_str!("../../README.md");

/// Tables of the schema's definitions and the heading under which the README has their fields.
const HEADINGS: [(&str, &str); 21] = [
    ("RawTeam", "## `[team]`"),
    ("RawModel", "## `[models.NAME]`"),
    ("RawAgent", "## `[agents.NAME]`"),
    ("RawLimits", "## `[limits]`"),
    ("RawPrice", "### Prices"),
    ("RawDatabase", "## `[databases.NAME]`"),
    ("RawServer", "## `[mcp.NAME]`"),
    ("RawInterface", "## `[openapi.NAME]`"),
    ("RawEventTypes", "## `[eventtypes.NAME]`"),
    ("RawDiscover", "## `[discover.NAME]`"),
    ("RawPrompts", "## `[prompts]`"),
    ("RawTexts", "### Texts"),
    ("RawTextFile", "### Texts"),
    ("RawForm", "### The words of dialect `json`"),
    ("RawPermissions", "## `[permissions]`"),
    ("RawRetention", "## `[retention]`"),
    ("RawTrace", "## `[trace]`"),
    ("RawTool", "## `[tools.NAME]`"),
    ("RawRow", "### Rows"),
    ("RawSecret", "### Headers"),
    ("RawBodyForm", "### Body"),
];

fn section(heading: &str) -> &str {
    let (_, rest) =
        README.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap()
}

#[test]
fn every_field_stands_in_its_section_with_default_and_bounds() {
    let schema = config::schema();
    let definitions = schema["$defs"].as_object().unwrap();
    for (name, definition) in definitions {
        let Some(fields) = definition["properties"].as_object() else { continue };
        let heading = HEADINGS.iter().find(|(table, _)| table == name);
        let (_, heading) = heading.unwrap_or_else(|| panic!("{name} has no section"));
        let rows: Vec<&str> = section(heading).lines().collect();
        for (field, schema) in fields {
            let row = rows.iter().find(|row| row.starts_with(&format!("| `{field}` |")));
            let row = row.unwrap_or_else(|| panic!("{heading} lacks `{field}`"));
            for fact in ["default", "minimum", "maximum"] {
                let Some(value) =
                    schema.get(fact).filter(|value| !value.is_object() && !value.is_array())
                else {
                    continue;
                };
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let text = text.trim_end_matches(".0");
                let named = row.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
                assert!(
                    named.into_iter().any(|word| word == text),
                    "{heading} `{field}`: {fact} {text}: {row}"
                );
            }
        }
    }
}

#[test]
fn every_length_of_a_text_is_told_in_bytes() {
    let schema = config::schema();
    let mut untold = Vec::new();
    for (name, heading) in HEADINGS {
        let rows: Vec<&str> = section(heading).lines().collect();
        for (field, schema) in schema["$defs"][name]["properties"].as_object().unwrap() {
            let of_texts = [schema, &schema["items"]];
            let lengths = of_texts.iter().filter_map(|schema| {
                let length = schema["maxLength"].as_u64()?;
                Some((length, schema["description"].as_str().unwrap()))
            });
            for (length, description) in lengths {
                assert!(description.ends_with(&format!(" {length} bytes.")), "{description}");
                let row = rows.iter().find(|row| row.starts_with(&format!("| `{field}` |")));
                let row = row.unwrap_or_else(|| panic!("{heading} lacks `{field}`"));
                let told = [format!("{length} bytes"), format!("{} KiB", length >> 10)];
                if !told.iter().any(|told| row.contains(told)) {
                    untold.push(format!("{heading} {length} bytes: {row}"));
                }
            }
        }
    }
    assert!(untold.is_empty(), "{}", untold.join("\n"));
    let text = &schema["$defs"]["RawText"]["anyOf"][0];
    assert_eq!(text["maxLength"], 256 << 10, "of a template: {text}");
}

#[test]
fn every_heading_is_of_a_table() {
    let schema = config::schema();
    for (table, _) in HEADINGS {
        assert!(schema["$defs"].get(table).is_some_and(Value::is_object), "{table}");
    }
    for section in schema["properties"].as_object().unwrap().keys() {
        assert!(README.contains(&format!("## `[{section}")), "{section}");
    }
}

#[test]
fn every_name_that_a_template_may_use_is_told_with_its_texts() {
    let rows: Vec<Vec<&str>> = section("### Texts")
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>())
        .filter(|cells| cells.len() == 5)
        .skip_while(|cells| cells[1] != "name")
        .skip(2)
        .collect();
    for text in Text::ALL {
        for fact in dialect::facts(text) {
            let (name, text) = (format!("`{}`", fact.as_str()), format!("`{}`", text.as_str()));
            let row = rows.iter().find(|cells| cells[1] == name);
            let row = row.unwrap_or_else(|| panic!("no row for {name}"));
            assert!(
                row[2] == "all" || row[2].split(", ").any(|word| word == text),
                "{name} {text}"
            );
        }
    }
    for row in &rows {
        let name = row[1].trim_matches('`');
        let of = |text: &Text| dialect::facts(*text).filter(|fact| fact.as_str() == name).count();
        let told = if row[2] == "all" { Text::ALL.len() } else { row[2].split(", ").count() };
        assert_eq!(Text::ALL.iter().map(of).sum::<usize>(), told, "{name}");
    }
}

#[test]
fn the_examples_of_permissions_let_no_mail_go_to_strangers() {
    let blocks = README.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = blocks.filter(|block| block.contains("send_mail(to=")).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let text = format!(
            "{FINE}tools = ['send_mail', 'charge', 'delete_all']\n[tools.charge]\nkind = 'builtin'\nbuiltin = 'say'\n\
             text = 'x'\nparameters = {{ amount = 'string' }}\n[tools.delete_all]\n\
             kind = 'builtin'\nbuiltin = 'now'\n{block}"
        );
        let team = config::parse(Path::new("teams/t.toml"), &text, &files)
            .unwrap_or_else(|report| panic!("{}", report.render(false)));
        let schema = validator(&team.tools["send_mail"].offer.spec.parameters).unwrap();
        for (to, is_fine) in [
            ("me@example.com", true),
            ("thief@evil.org, me@example.com", false),
            ("thief@evil.org;me@example.com", false),
            ("<thief@evil.org> me@example.com", false),
            ("thief@evil.org\nme@example.com", false),
            ("me@example.com\n", false),
            ("me@example.com.evil.org", false),
        ] {
            assert_eq!(schema.is_valid(&json!({"to": to, "text": "hi"})), is_fine, "{to:?}");
        }
        assert!(!schema.is_valid(&json!({"to": "me@example.com", "text": "hi", "cc": "x"})));
    }
}
