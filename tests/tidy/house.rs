//! What stands on the top level, and where versions and owners of libraries are written.

use toml::{Table, Value};

use crate::layers::OWNERS;
use crate::{files, none, one, root};

/// All that a newcomer sees first; what is not here belongs into one of the folders.
const TOP: &[&str] = &[
    ".cargo",
    ".ci",
    ".clippy.toml",
    ".deny.toml",
    ".gitignore",
    ".rustfmt.toml",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "agents",
    "config",
    "deploy",
    "runtime",
    "tests",
    "tools",
];

/// Names what is on the top level and should not be, and what should be and is not.
fn strangers(found: &[&str], ignored: &str) -> Vec<String> {
    let not_ours =
        |name: &str| name == ".git" || ignored.lines().any(|line| line.trim_matches('/') == name);
    let extra = found.iter().filter(|name| !TOP.contains(name) && !not_ours(name)).map(|name| {
        format!("{name} is on the top level; move it into a folder, or ignore it in .gitignore")
    });
    let gone = TOP.iter().filter(|name| !found.contains(name)).map(|name| {
        format!("{name} is not on the top level; bring it back, or take it out of tests/tidy")
    });
    extra.chain(gone).collect()
}

/// Returns the tables of a manifest that list dependencies.
fn dependencies(manifest: &Table) -> Vec<(&String, &Value)> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(|targets| targets.values());
    let tables = tables.filter_map(Value::as_table).chain([manifest]);
    let listed = tables.flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)));
    listed.filter_map(Value::as_table).flatten().collect()
}

fn own_versions(path: &str, manifest: &Table) -> Vec<String> {
    let inherits = |dependency: &Value| {
        dependency.get("workspace").and_then(Value::as_bool).unwrap_or_default()
    };
    let listed = dependencies(manifest).into_iter();
    listed
        .filter(|(_, dependency)| !inherits(dependency))
        .map(|(name, _)| {
            format!(
                "{path}: {name} has a version of its own; write `{name}.workspace = true`, and the \
                 version into [workspace.dependencies]"
            )
        })
        .collect()
}

/// Compares the owners that cargo-deny is told with those of the layers.
fn other_wrappers(deny: &Table) -> Vec<String> {
    let rows = deny.get("bans").and_then(|bans| bans.get("deny")).and_then(Value::as_array);
    let rows = rows.map(Vec::as_slice).unwrap_or_default();
    let texts = |value: Option<&Value>| -> Vec<String> {
        let list = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let told = |owned: &str| {
        let row = rows.iter().find(|row| row.get("crate").and_then(Value::as_str) == Some(owned));
        texts(row.and_then(|row| row.get("wrappers")))
    };
    let missing = OWNERS.iter().filter(|(owned, owners)| told(owned) != *owners).map(
        |(owned, owners)| {
            format!(
                ".deny.toml: {owned} has the wrappers {:?} and tests/tidy/layers.rs says {owners:?}; \
                 make them the same",
                told(owned)
            )
        },
    );
    let extra = rows.iter().filter_map(|row| row.get("crate").and_then(Value::as_str));
    let extra = extra.filter(|name| OWNERS.iter().all(|(owned, _)| owned != name)).map(|name| {
        format!(".deny.toml: {name} is denied here only; add it to OWNERS in tests/tidy/layers.rs")
    });
    missing.chain(extra).collect()
}

fn table(text: &str) -> Table {
    toml::from_str(text).unwrap()
}

#[test]
fn the_top_level_holds_what_was_agreed() {
    let entries = std::fs::read_dir(root()).unwrap();
    let found: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    let ignored = std::fs::read_to_string(root().join(".gitignore")).unwrap();
    none(&strangers(&found, &ignored));
}

#[test]
fn versions_are_in_one_place() {
    let manifests = files("toml").into_iter().filter(|(path, _)| path.ends_with("/Cargo.toml"));
    let offences: Vec<String> =
        manifests.flat_map(|(path, text)| own_versions(&path, &table(&text))).collect();
    none(&offences);
}

#[test]
fn owners_are_the_same_everywhere() {
    let deny = std::fs::read_to_string(root().join(".deny.toml")).unwrap();
    none(&other_wrappers(&table(&deny)));
}

#[test]
fn untidy_houses_are_seen() {
    none(&strangers(TOP, ""));
    let with = |name: &'static str| [TOP, &[name]].concat();
    one(&strangers(&with("docs"), ""), &["docs is on the top level"]);
    none(&strangers(&with("target"), "/target\n/x\n"));
    one(&strangers(TOP.get(1..).unwrap(), ""), &[".cargo is not on the top level"]);

    let own = "[dependencies]\na.workspace = true\n[dev-dependencies]\nb = \"1\"\n";
    one(&own_versions("x/Cargo.toml", &table(own)), &["x/Cargo.toml", "b.workspace = true"]);
    let hidden = "[target.'cfg(unix)'.dependencies]\nc = { version = \"1\" }\n";
    one(&own_versions("x/Cargo.toml", &table(hidden)), &["c.workspace"]);
    none(&own_versions("x/Cargo.toml", &table("[dependencies]\nd = { workspace = true }\n")));

    let rows = |extra: &str| {
        let row = |(owned, owners): &(&str, &[&str])| {
            format!("{{ crate = {owned:?}, wrappers = {owners:?} }}, ")
        };
        let rows: String = OWNERS.iter().map(row).collect();
        table(&format!("[bans]\ndeny = [{rows}{extra}]"))
    };
    none(&other_wrappers(&rows("")));
    one(&other_wrappers(&rows("{ crate = \"x\" }")), &["x is denied here only"]);
    assert_eq!(other_wrappers(&table("[bans]")).len(), OWNERS.len());
}
