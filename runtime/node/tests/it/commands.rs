//! Commands that could open to each other what is not theirs.

use bus::Bus;

use crate::house;

/// A team whose only tool, or server, is what is added.
fn team(added: &str) -> String {
    format!(
        "[models.m]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9'\nmodel = 'm'\n\
         [agents.a]\ninstructions = 'i'\nmodel = 'm'\n{added}"
    )
}

fn command(fields: &str) -> String {
    team(&format!("[tools.work]\nkind = 'command'\ndescription = 'd'\nargv = ['true']\n{fields}"))
}

#[tokio::test]
async fn a_node_does_not_start_if_a_command_could_lead_another_out_of_its_sandbox() {
    let bare = "sandbox = 'none'\nworkdir = 'box/in'";
    let events = "[eventtypes.e]\npath = 'box/in'\nsink = 'http://127.0.0.1:9'\n";
    let beside = "sandbox = 'none'\nworkdir = 'box'";
    let server = "[mcp.files]\ncommand = ['./box/in/server']\ntools = ['*']\n";
    // What the other team has, where the data is, and what is told beside the tool and its folder.
    for (other, data, parts) in [
        (command("read = ['box/in']"), "data", ["tool work of team two", "box/in lies"]),
        (command("write = ['box/in']"), "data", ["tool work of team two", "box/in lies"]),
        (command("workdir = 'box/in'"), "data", ["tool work of team two", "box/in lies"]),
        (command(bare), "data", ["tool work of team two", "box/in lies"]),
        (team(server), "data", ["MCP server files of team two", "box/in/server lies"]),
        (command(beside), "data", ["tool work of team two", "box lies"]),
        (team(events), "data", ["the daemon for team two", "box/in lies"]),
        (team(""), "box/data", ["the data directory", "`--data`"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        std::fs::create_dir_all(home.join("box/in")).unwrap();
        let files = [home.join("one.toml"), home.join("two.toml")];
        std::fs::write(&files[0], command("write = ['box']")).unwrap();
        std::fs::write(&files[1], &other).unwrap();
        let files = [files[0].as_path(), files[1].as_path()];
        let started = house::try_start(&Bus::local(), &files, &home.join(data)).await;
        let error = started.err().unwrap_or_else(|| panic!("started: {other}")).to_string();
        for part in ["tool work of team one writes", "box, in which"].iter().chain(&parts) {
            assert!(error.contains(part), "{other}: no {part:?} in {error}");
        }
        assert!(!home.join(data).exists(), "nothing is left behind");
    }
}
