//! The README tells every field, default and bound of the schema.

use serde_json::Value;

const README: &str = include_str!("../../README.md");

/// Tables of the schema's definitions and the heading under which the README has their fields.
const HEADINGS: [(&str, &str); 9] = [
    ("RawTeam", "## `[team]`"),
    ("RawModel", "## `[models.NAME]`"),
    ("RawAgent", "## `[agents.NAME]`"),
    ("RawLimits", "## `[limits]`"),
    ("RawRetention", "## `[retention]`"),
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
fn every_heading_is_of_a_table() {
    let schema = config::schema();
    for (table, _) in HEADINGS {
        assert!(schema["$defs"].get(table).is_some_and(Value::is_object), "{table}");
    }
    for section in schema["properties"].as_object().unwrap().keys() {
        assert!(README.contains(&format!("## `[{section}")), "{section}");
    }
}
