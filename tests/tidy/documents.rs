//! What stands in documents: links lead somewhere, names are those of the code, examples work.

use std::collections::BTreeSet;
use std::path::Path;

use tools::mcp::{Catalog, Listed};

use crate::{files, none, one, root};

/// Returns the targets of the links of a document with their lines, code left out.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Every second piece between backticks is code.
        for prose in line.split('`').step_by(2) {
            let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            links.extend(targets.map(|target| (number, target.to_owned())));
        }
    }
    links
}

/// Returns the anchors that a document's headings have.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

fn dead_links(path: &str, text: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let foreign = |target: &str| target.contains("://") || target.starts_with("mailto:");
    let folder = Path::new(path).parent().unwrap();
    links(text)
        .into_iter()
        .filter(|(_, target)| !foreign(target))
        .filter_map(|(line, target)| {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let found =
                if file.is_empty() { Some(text.to_owned()) } else { read(&folder.join(file)) };
            let Some(found) = found else {
                return Some(format!("{path}:{line}: {target} is not there; mend the link"));
            };
            let known = anchor.is_empty() || anchors(&found).iter().any(|known| known == anchor);
            (!known).then(|| {
                format!("{path}:{line}: {target} has no such heading; mend the part after #")
            })
        })
        .collect()
}

/// Returns the inline code of a document with its lines.
fn inline_code(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        in_code ^= line.trim_start().starts_with("```");
        if !in_code {
            found.extend(line.split('`').skip(1).step_by(2).map(|code| (number, code)));
        }
    }
    found
}

/// Finds paths in inline code that lead nowhere.
fn dead_paths(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let folders = ["agents/", "config/", "deploy/", "runtime/", "tests/", "tools/"];
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    inline_code(text)
        .into_iter()
        .filter(|(_, code)| folders.iter().any(|folder| code.starts_with(folder)))
        .filter(|(_, code)| code.chars().all(plain) && !exists(code))
        .map(|(line, code)| format!("{path}:{line}: {code} is not there; name what is"))
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Finds names of types, fields and constants that the code does not have.
fn dead_names(path: &str, text: &str, known: &BTreeSet<&str>) -> Vec<String> {
    let typed = |word: &str| {
        let mut chars = word.chars();
        chars.next().is_some_and(char::is_uppercase) && chars.any(char::is_lowercase)
    };
    let whole = |code: &str| code.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
    let in_line = inline_code(text).into_iter().filter(|(_, code)| whole(code));
    let in_line = in_line.flat_map(|(line, code)| words(code).map(move |word| (line, word)));
    let in_line = in_line.filter(|(_, word)| typed(word) || word.contains('_'));
    let everywhere = (1..).zip(text.lines());
    let everywhere = everywhere.flat_map(|(line, text)| words(text).map(move |word| (line, word)));
    let constants = everywhere
        .filter(|(_, word)| word.contains('_') && !word.contains(|c: char| c.is_ascii_lowercase()));
    let named: BTreeSet<(usize, &str)> = in_line.chain(constants).collect();
    named
        .into_iter()
        .filter(|(_, word)| !known.contains(word))
        .map(|(line, word)| format!("{path}:{line}: the code has no {word}; name what it has"))
        .collect()
}

#[test]
fn named_files_are_there() {
    let exists = |path: &str| root().join(path).exists();
    let dead: Vec<String> =
        files("md").iter().flat_map(|(path, text)| dead_paths(path, text, &exists)).collect();
    none(&dead);
}

#[test]
fn the_architecture_names_what_the_code_has() {
    let sources = files("rs");
    let known: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| words(text)).collect();
    let path = "runtime/ARCHITECTURE.md";
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    none(&dead_names(path, &text, &known));
}

#[test]
fn the_readme_keeps_its_word() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```toml\n").unwrap();
    let (team, _) = rest.split_once("```").unwrap();
    assert_eq!(team.lines().count(), 12, "the README promises a team in twelve lines");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("readme.toml");
    std::fs::write(&file, team).unwrap();
    let loaded = config::load(&file);
    let team = loaded.unwrap_or_else(|report| panic!("{}", report.render(false)));
    assert_eq!(team.name.as_str(), "readme");

    let gate = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let command = "cargo test --workspace --locked";
    assert!(readme.contains(command) && gate.contains(command), "README and gate run other tests");
}

/// Finds rows of results that a document quotes and the results do not have.
fn misquoted(path: &str, text: &str, results: &str) -> Vec<String> {
    let quotes = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("| T"));
    let is_there = |quote: &str| results.lines().any(|row| row.starts_with(quote.trim_end()));
    quotes
        .filter(|(_, quote)| !is_there(quote))
        .map(|(line, _)| format!("{path}:{line}: tests/RESULTS.md says otherwise; quote it anew"))
        .collect()
}

#[test]
fn the_readme_quotes_the_results() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    none(&misquoted("README.md", &read("README.md"), &read("tests/RESULTS.md")));
}

#[test]
fn misquotes_are_seen() {
    let results = "| T1 | crashes | 0 lost | 0 | `x` |\n";
    one(&misquoted("a.md", "x\n| T1 | crashes | 1 lost |", results), &["a.md:2", "quote it anew"]);
    none(&misquoted("a.md", "| test |\n| T1 | crashes | 0 lost |", results));
}

#[test]
fn dead_names_are_seen() {
    let exists = |path: &str| path == "tools/src";
    let check = |text: &str| dead_paths("a.md", text, &exists);
    one(&check("x\nsee `runtime/gone.rs`"), &["a.md:2", "runtime/gone.rs"]);
    none(&check("`tools/src` runtime/gone.rs `config/*.toml` `x/y`\n```\n`runtime/gone.rs`\n```"));

    let known = BTreeSet::from(["Node", "start", "RUNS_MAX"]);
    let check = |text: &str| dead_names("a.md", text, &known);
    one(&check("x\n`Node::starts` `Team`"), &["a.md:2", "no Team"]);
    one(&check("```\nHELD_MAX = 5\n```"), &["a.md:2", "HELD_MAX"]);
    one(&check("`held_bytes`"), &["held_bytes"]);
    none(&check("A Team: `Node::start`, RUNS_MAX, `once`, `PUT`, `a Team`"));
}

#[test]
fn links_lead_somewhere() {
    // A folder is a fine target, and has no text.
    let read = |path: &Path| {
        let path = root().join(path);
        if path.is_dir() { Some(String::new()) } else { std::fs::read_to_string(path).ok() }
    };
    let dead: Vec<String> =
        files("md").iter().flat_map(|(path, text)| dead_links(path, text, &read)).collect();
    none(&dead);
}

#[test]
fn dead_links_are_seen() {
    let read = |path: &Path| (path == Path::new("a/b.md")).then(|| "# On Time, now\n".to_owned());
    let check = |text: &str| dead_links("a/x.md", text, &read);
    one(&check("see\n[that](c.md) there"), &["a/x.md:2", "c.md is not there"]);
    one(&check("[that](b.md#gone)"), &["b.md#gone has no such heading"]);
    one(&check("# Here\n[up](#there)"), &["#there"]);
    none(&check("[b](b.md) [t](b.md#on-time-now) [w](https://x.y/z) `[no](link)`"));
    none(&check("```\n[no](link)\n```\n# Here\n[up](#here)"));
}

/// Returns the blocks of TOML in a document.
fn toml_blocks(text: &str) -> Vec<&str> {
    let blocks = text.split("```toml\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[test]
fn every_kind_of_tool_has_an_example_of_five_lines() {
    const GROUND: &str = "[models.local]\nprovider = 'openai'\nbase_url = 'http://127.0.0.1:9'\n\
                          model = 'm'\n[databases.films]\nkind = 'sqlite'\ninit = 'films.sql'\n\
                          [databases.graph]\nkind = 'neo4j'\n\
                          [mcp.files]\ncommand = ['serve']\n\
                          [eventtypes.cluster]\npath = 'weather.yaml'\n\
                          sink = 'http://127.0.0.1:9'\n\
                          [agents.a]\ninstructions = 'i'\nmodel = 'local'\n";
    let files = |path: &Path| match path.to_str() {
        Some("films.sql") => Ok("create table film (title text, year integer);".to_owned()),
        Some("weather.yaml") => Ok("apiVersion: eventing.knative.dev/v1beta2\nkind: EventType\n\
                                    spec: {type: get.current.weather}"
            .to_owned()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    let readme = std::fs::read_to_string(root().join("tools/README.md")).unwrap();
    let listed = Listed {
        name: "read_text_file".to_owned(),
        description: "Reads a file.".to_owned(),
        parameters: serde_json::json!({"type": "object"}),
        ..Listed::default()
    };
    let catalog = Catalog { tools: vec![listed] };
    let mcp = config::Catalogs::from([(wire::Name::new("files").unwrap(), catalog)]);
    let sources = config::Sources::from(mcp);
    let mut shown = BTreeSet::new();
    for block in toml_blocks(&readme) {
        assert_eq!(block.lines().count(), 5, "{block}");
        let text = format!("{GROUND}{block}");
        let loaded = config::parse_with(Path::new("t.toml"), &text, &files, &sources);
        let team = loaded.unwrap_or_else(|report| panic!("{}", report.render(false)));
        let table: toml::Table = block.parse().unwrap();
        let (name, tool) = table["tools"].as_table().unwrap().iter().next().unwrap();
        assert!(team.tools.contains_key(name.as_str()), "{block}");
        shown.insert(tool["kind"].as_str().unwrap().to_owned());
    }
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    let told: BTreeSet<String> = rows
        .filter_map(|row| row.split('`').next())
        .filter(|word| *word != "kind")
        .map(str::to_owned)
        .collect();
    let schema = config::schema();
    let kinds = schema["$defs"]["RawKind"]["oneOf"].as_array().unwrap();
    let kinds: BTreeSet<String> =
        kinds.iter().map(|kind| kind["const"].as_str().unwrap().to_owned()).collect();
    assert_eq!(shown, kinds, "examples");
    assert_eq!(told, kinds, "rows of the table");
}
