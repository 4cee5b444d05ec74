//! `callboard tools` of a team with an MCP server.

use std::path::Path;

use serde_json::json;

use crate::callboard::Callboard;

#[test]
fn what_a_server_changed_is_shown_and_approved() {
    let callboard = Callboard::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mcp/server.py");
    callboard.file("model.jsonl", "{\"content\": \"done\"}\n");
    let command = json!(["python3", script, "."]);
    let text = |command: &str| {
        format!(
            "[models.m]\nprovider = 'scripted'\nscript = 'model.jsonl'\n\
             [agents.a]\ninstructions = 'Call.'\nmodel = 'm'\ntools = ['own_*']\n\
             [mcp.own]\ncommand = {command}\ntools = ['say', 'evolve']\n"
        )
    };
    let team = callboard.file("crew.toml", &text(&command.to_string()));
    let team = team.to_str().unwrap();

    let shown = callboard.run(&["tools", team]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("own_say  tool, once, "), "{}", shown.out);
    assert!(shown.out.contains("Says it.\n"), "{}", shown.out);
    let same = callboard.run(&["tools", team, "--compare", "own"]);
    assert_eq!(same.out, "own: 10 tools, as they are pinned\n");

    callboard.file("evolved", "");
    let shown = callboard.run(&["tools", team]);
    assert!(shown.out.contains("Says it.\n"), "what was pinned is offered: {}", shown.out);
    let compared = callboard.run(&["tools", team, "--compare", "own"]);
    assert!(compared.out.starts_with("changed  \"say\": description\n"), "{}", compared.out);
    assert!(compared.out.contains("new      \"extra\"\n"), "{}", compared.out);
    assert!(compared.err.contains("--approve own"), "{}", compared.err);
    let changes = callboard.run(&["tools", team, "--compare", "own", "--json"]).json();
    assert_eq!(changes["changes"][0]["parts"], json!(["description"]));

    let approved = callboard.run(&["tools", team, "--approve", "own"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.err.contains("11 tools of own are pinned"), "{}", approved.err);
    let shown = callboard.run(&["tools", team]);
    assert!(shown.out.contains("after it was sent to a place of ours"), "{}", shown.out);

    // Nobody has to be there once a list is pinned, and for a check not even that.
    callboard.file("crew.toml", &text("['./none']"));
    assert_eq!(callboard.run(&["tools", team]).code, Some(0));
    assert_eq!(callboard.run(&["check", team]).code, Some(0));
    let away = callboard.run(&["tools", team, "--compare", "own"]);
    assert_eq!(away.code, Some(3), "{away:?}");
    assert!(
        away.err.contains("MCP server own does not list its tools: start ./none"),
        "{}",
        away.err
    );
    let unknown = callboard.run(&["tools", team, "--approve", "other"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("no MCP server other; it has own"), "{}", unknown.err);
}
