//! Who may use whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;

use serde_json::Value;

use crate::{none, one, root};

/// The layer of each crate; a crate uses only crates of a lower one.
const LAYERS: &[(&str, u8)] = &[
    ("wire", 0),
    ("agents-core", 1),
    ("tools", 2),
    ("config", 3),
    ("bus", 4),
    ("journal", 4),
    ("model", 4),
    ("store", 4),
    ("telemetry", 4),
    ("node", 5),
    ("gateway", 6),
    ("daemon", 7),
    ("tests", 8),
    ("bench", 9),
];

/// Libraries that are known in one place only, and where.
pub(crate) const OWNERS: &[(&str, &[&str])] = &[
    ("async-nats", &["bus"]),
    ("ractor", &["node"]),
    ("rmcp", &["tools"]),
    ("rusqlite", &["tools"]),
    ("sled", &["store"]),
    ("tokio-postgres", &["tools", "tokio-postgres-rustls"]),
];

/// The crates that do no I/O, and the libraries by which they would.
const PURE: &[&str] = &["agents-core", "wire"];
const IMPURE: &[&str] =
    &["async-nats", "axum", "hyper", "mio", "ractor", "reqwest", "rusqlite", "sled", "tokio"];

/// What depends on what, by package id.
#[derive(Default)]
struct Graph {
    names: BTreeMap<String, String>,
    members: BTreeSet<String>,
    uses: Vec<Use>,
}

struct Use {
    from: String,
    to: String,
    /// Whether only tests or build scripts need it.
    aside: bool,
}

impl Graph {
    fn of_workspace() -> Self {
        let cargo = |arguments: &[&str]| {
            let output =
                Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
            let fault = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "cargo {arguments:?}: {fault}");
            String::from_utf8(output.stdout).unwrap()
        };
        let version = cargo(&["-vV"]);
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        // Of this platform only, since the build has fetched no other.
        let text =
            cargo(&["metadata", "--format-version=1", "--locked", "--filter-platform", host]);
        Self::read(&serde_json::from_str(&text).unwrap())
    }

    fn read(metadata: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().unwrap().clone();
        let mut graph = Self {
            members: list(&metadata["workspace_members"]).iter().map(text).collect(),
            ..Self::default()
        };
        for package in list(&metadata["packages"]) {
            graph.names.insert(text(&package["id"]), text(&package["name"]));
        }
        for node in list(&metadata["resolve"]["nodes"]) {
            for dep in list(&node["deps"]) {
                let aside = !list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
                graph.uses.push(Use { from: text(&node["id"]), to: text(&dep["pkg"]), aside });
            }
        }
        graph
    }

    /// Makes a graph of members, each edge of which is "a > b", or "a ? b" for tests only.
    fn sample(members: &[&str], edges: &[&str]) -> Self {
        let mut graph = Self::default();
        for edge in edges {
            let [from, kind, to] = edge.split(' ').collect::<Vec<_>>()[..] else { panic!() };
            let (from, to) = (from.to_owned(), to.to_owned());
            for name in [&from, &to] {
                graph.names.insert(name.clone(), name.clone());
            }
            graph.uses.push(Use { from, to, aside: kind == "?" });
        }
        for member in members {
            graph.names.insert((*member).to_owned(), (*member).to_owned());
            graph.members.insert((*member).to_owned());
        }
        graph
    }

    fn name(&self, id: &str) -> &str {
        self.names.get(id).map_or("a nameless package", String::as_str)
    }
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

fn strangers(graph: &Graph) -> Vec<String> {
    let members: Vec<&str> = graph.members.iter().map(|id| graph.name(id)).collect();
    let unplaced = members.iter().filter(|name| layer(name).is_none()).map(|name| {
        format!("crate {name} has no layer; give it one in tests/tidy/layers.rs or fold it in")
    });
    let gone = LAYERS.iter().filter(|(name, _)| !members.contains(name)).map(|(name, _)| {
        format!("crate {name} is not in the workspace; take it out of tests/tidy/layers.rs")
    });
    unplaced.chain(gone).collect()
}

fn broken_layers(graph: &Graph) -> Vec<String> {
    let inside = |id: &String| graph.members.contains(id);
    let edges = graph.uses.iter().filter(|edge| inside(&edge.from) && inside(&edge.to));
    edges
        .filter_map(|edge| {
            let (from, to) = (graph.name(&edge.from), graph.name(&edge.to));
            let (upper, lower) = (layer(from)?, layer(to)?);
            (lower >= upper).then(|| {
                format!(
                    "{from} ({upper}) uses {to} ({lower}); a crate uses only lower layers: move \
                     what is shared down, or the caller up"
                )
            })
        })
        .collect()
}

fn trespassers(graph: &Graph) -> Vec<String> {
    let rule = |name: &str| OWNERS.iter().find(|(owned, _)| *owned == name);
    graph
        .uses
        .iter()
        .filter_map(|edge| {
            let (from, (owned, owners)) = (graph.name(&edge.from), rule(graph.name(&edge.to))?);
            (!owners.contains(&from)).then(|| {
                format!("{from} uses {owned}; only {} may: go through it", owners.join(" and "))
            })
        })
        .collect()
}

fn impurities(graph: &Graph) -> Vec<String> {
    let mut offences = Vec::new();
    for pure in PURE {
        let ids = graph.members.iter().filter(|id| graph.name(id) == *pure);
        let mut paths: VecDeque<Vec<&str>> = ids.map(|id| vec![id.as_str()]).collect();
        let mut seen = BTreeSet::new();
        while let Some(path) = paths.pop_front() {
            let Some(last) = path.last().copied().filter(|id| seen.insert(*id)) else { continue };
            if IMPURE.contains(&graph.name(last)) {
                let names: Vec<&str> = path.iter().map(|id| graph.name(id)).collect();
                offences.push(format!(
                    "{pure} does no I/O, but {}; cut this chain, or take what needs it to a crate \
                     of runtime",
                    names.join(" uses ")
                ));
                continue;
            }
            for edge in graph.uses.iter().filter(|edge| edge.from == last && !edge.aside) {
                paths.push_back(path.iter().copied().chain([edge.to.as_str()]).collect());
            }
        }
    }
    offences
}

#[test]
fn crates_use_only_lower_layers() {
    let graph = Graph::of_workspace();
    none(&strangers(&graph));
    none(&broken_layers(&graph));
    none(&trespassers(&graph));
    none(&impurities(&graph));
}

#[test]
fn the_graph_holds_what_the_rules_are_about() {
    let graph = Graph::of_workspace();
    let uses = |from: &str, to: &str| {
        graph.uses.iter().any(|edge| graph.name(&edge.from) == from && graph.name(&edge.to) == to)
    };
    for (owned, owners) in OWNERS {
        assert!(owners.iter().all(|owner| uses(owner, owned)), "nobody uses {owned}: drop its row");
    }
    assert!(uses("node", "bus") && uses("agents-core", "wire"));
}

#[test]
fn bad_edges_are_seen() {
    let sample = Graph::sample;
    one(&broken_layers(&sample(&["bus", "store"], &["store > bus"])), &["store (4) uses bus (4)"]);
    one(&broken_layers(&sample(&["wire", "node"], &["wire ? node"])), &["wire (0) uses node (5)"]);
    none(&broken_layers(&sample(&["wire", "node"], &["node > wire", "node > serde"])));

    one(&trespassers(&sample(&["tools"], &["tools > sled"])), &["tools uses sled", "only store"]);
    one(&trespassers(&sample(&["gateway"], &["gateway ? ractor"])), &["only node"]);
    none(&trespassers(&sample(&["bus"], &["bus > async-nats"])));

    let hidden = sample(&["wire"], &["wire > serde", "serde > tokio"]);
    one(&impurities(&hidden), &["wire uses serde uses tokio"]);
    none(&impurities(&sample(&["wire", "bus"], &["wire ? tokio", "bus > tokio"])));

    let members: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    none(&strangers(&sample(&members, &[])));
    one(&strangers(&sample(&[members.as_slice(), &["extra"]].concat(), &[])), &["extra"]);
    one(&strangers(&sample(members.get(1..).unwrap(), &[])), &["crate wire is not"]);
}
