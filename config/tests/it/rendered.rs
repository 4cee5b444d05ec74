//! Reports as a terminal shows them.

use std::path::Path;

use super::broken::files;

fn drawn(text: &str) -> String {
    config::parse(Path::new("teams/t.toml"), text, &files).unwrap_err().render(false)
}

#[test]
fn a_slip_of_the_hand() {
    let text = "[models.m]\nprovider = \"scripted\"\nscript = \"m.jsonl\"\n\n[agents.lead]\ninstructions = \"Lead.\"\nthinkr = \"m\"\nactor = \"m\"\n";
    assert_eq!(drawn(text), include_str!("reports/slip.txt"));
}

#[test]
fn a_fault_in_a_script() {
    let text = "[models.m]\nprovider = \"scripted\"\nscript = \"bad.jsonl\"\n\n[agents.lead]\ninstructions = \"Lead.\"\nmodel = \"m\"\n";
    assert_eq!(drawn(text), include_str!("reports/script.txt"));
}

#[test]
fn several_faults() {
    let text = "[team]\nentry = \"leed\"\n\n[models.m]\nprovider = \"openai\"\nbase_url = \"localhost\"\nmodel = \"x\"\nconcurrency = 0\n\n[agents.lead]\ninstructions_file = \"lead.md\"\nmodel = \"m\"\n";
    assert_eq!(drawn(text), include_str!("reports/several.txt"));
}

#[test]
fn color_only_where_it_is_asked_for() {
    let report = config::parse(Path::new("t.toml"), "x = 1\n[agents.a]\n", &files).unwrap_err();
    assert!(report.render(true).contains('\u{1b}'));
    assert!(!report.render(false).contains('\u{1b}'));
}
