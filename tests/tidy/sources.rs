//! What stands in Rust files: their size, and words that do not belong there.

use std::collections::BTreeSet;

use crate::{files, none, one};

/// Lines of a file, tests included; what is longer holds two concepts.
const FILE_LINES_MAX: usize = 600;

/// Lines of the `main.rs` of a binary, which parses, dispatches and decides nothing.
const MAIN_LINES_MAX: usize = 100;

/// Lines of a function.
const FUNCTION_LINES_MAX: usize = 100;

/// The one file that knows how subjects are built.
const SUBJECTS: &str = "agents/wire/src/subject.rs";

/// The one file that makes HTTP clients.
const CLIENTS: &str = "tools/src/client.rs";

fn too_long(path: &str, text: &str) -> Vec<String> {
    let main = path.ends_with("src/main.rs");
    let most = if main { MAIN_LINES_MAX } else { FILE_LINES_MAX };
    let lines = text.lines().count();
    let cure = if main { "move logic to a module" } else { "split it by concept" };
    let offence = format!("{path}: {lines} lines, at most {most}; {cure}");
    (lines > most).then_some(offence).into_iter().collect()
}

fn long_functions(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut offences = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let words = body.split(['(', '<']).next().unwrap_or_default();
        if !words.split(' ').any(|word| word == "fn") || body.starts_with("//") {
            continue;
        }
        // Formatted code closes a function at the indent at which it begins.
        let indent = " ".repeat(line.len() - body.len());
        let (closes, declares) = (format!("{indent}}}"), format!("{indent})"));
        let ends =
            |line: &&str| **line == closes || line.starts_with(&declares) && line.ends_with(';');
        let alone = line.ends_with([';', '}']);
        let length = lines.iter().skip(at).position(ends).map_or(1, |end| end + 1);
        if !alone && length > FUNCTION_LINES_MAX {
            let name = words.rsplit(' ').next().unwrap_or_default();
            offences.push(format!(
                "{path}:{}: fn {name} has {length} lines, at most {FUNCTION_LINES_MAX}; give its \
                 parts names of their own",
                at + 1
            ));
        }
    }
    offences
}

fn folder_modules(path: &str, _: &str) -> Vec<String> {
    let name = path.strip_suffix("/mod.rs");
    let offence = name.map(|name| format!("{path}: modules are files; call it {name}.rs"));
    offence.into_iter().collect()
}

/// Finds words for what is unfinished, switched off or hushed up.
fn loose_ends(path: &str, text: &str) -> Vec<String> {
    // Put together here, so that this file does not offend.
    let words = [
        (concat!("TO", "DO"), "do it, or take it to the issues"),
        (concat!("FIX", "ME"), "mend it, or take it to the issues"),
        (concat!("todo", "!("), "write it, or return an error"),
        (concat!("unimplemented", "!("), "write it, or return an error"),
        (concat!("#[ign", "ore"), "run it always, or give it a command of its own"),
        (concat!("#[should_", "panic"), "compare the error that is returned"),
    ];
    let mut offences = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (word, cure) in words.iter().filter(|(word, _)| line.contains(word)) {
            offences.push(format!("{path}:{number}: {word} stands here; {cure}"));
        }
    }
    for open in [concat!("#[all", "ow("), concat!("#![all", "ow(")] {
        for (at, _) in text.match_indices(open) {
            let attribute = text.get(at..).and_then(|rest| rest.split(']').next());
            if !attribute.is_some_and(|attribute| attribute.contains("reason")) {
                let number = text.get(..at).map_or(0, |before| before.matches('\n').count()) + 1;
                offences.push(format!(
                    "{path}:{number}: {open}..)] without a reason; use #[expect(.., reason = \"..\")]"
                ));
            }
        }
    }
    offences
}

fn unwatched_children(path: &str, text: &str) -> Vec<String> {
    let (spawns, watches) = (concat!("spawn_", "linked"), concat!("handle_", "supervisor_evt"));
    let offends = text.contains(spawns) && !text.contains(watches);
    let offence = format!(
        "{path}: {spawns} without {watches}, whose default ends the parent with the child; say what \
         follows from each event"
    );
    offends.then_some(offence).into_iter().collect()
}

fn unexplained_limits(path: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut offences = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let public = line.strip_prefix("pub const ");
        let Some(name) = public.and_then(|rest| rest.split(':').next()) else { continue };
        let above = lines.iter().take(at).rev().find(|line| !line.starts_with("#["));
        if name.ends_with("_MAX") && !above.is_some_and(|line| line.starts_with("///")) {
            let number = at + 1;
            offences.push(format!(
                "{path}:{number}: {name} has no doc comment; say what it limits and why so much"
            ));
        }
    }
    offences
}

/// Returns the part of a file that is not its tests.
fn product(text: &str) -> &str {
    let tests = text.match_indices("#[cfg(test)]\nmod ").find(|(at, _)| {
        text.get(*at..).and_then(|rest| rest.lines().nth(1)).is_some_and(|line| line.ends_with('{'))
    });
    tests.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// Returns the files that are compiled for tests only.
fn test_files(sources: &[(String, String)]) -> BTreeSet<String> {
    let mut below = BTreeSet::from(["tests/".to_owned()]);
    for (path, text) in sources {
        let module = path.trim_end_matches(".rs");
        let folder = match module.rsplit_once('/') {
            Some((folder, "lib" | "main")) => folder,
            _ => module,
        };
        for (at, opening) in text.match_indices("#[cfg(test)]\nmod ") {
            let rest = text.get(at + opening.len()..).unwrap_or_default();
            if let Some((name, "")) = rest.lines().next().and_then(|line| line.split_once(';')) {
                below.insert(format!("{folder}/{name}.rs"));
                below.insert(format!("{folder}/{name}/"));
            }
        }
    }
    let tests = |path: &&String| {
        path.contains("/tests/") || below.iter().any(|start| path.starts_with(start.as_str()))
    };
    sources.iter().map(|(path, _)| path).filter(tests).cloned().collect()
}

fn written_subjects(path: &str, text: &str) -> Vec<String> {
    if path == SUBJECTS {
        return Vec::new();
    }
    let prefix = concat!("callboard", ".v1");
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let lines = (1..).zip(product(text).lines());
    lines
        .filter(|(_, line)| code(line) && line.contains(prefix))
        .map(|(number, _)| {
            format!("{path}:{number}: a subject is written out; ask wire::Subjects for it")
        })
        .collect()
}

/// Finds HTTP clients that are made beside the one that knows what is not to be reached.
fn own_clients(path: &str, text: &str) -> Vec<String> {
    let makers = [
        concat!("Client::", "builder("),
        concat!("reqwest::Client::", "new("),
        concat!("reqwest::blocking::Client::", "new("),
        concat!("ClientBuilder::", "new("),
        concat!("reqwest::", "get("),
    ];
    if path == CLIENTS {
        return Vec::new();
    }
    let lines = (1..).zip(product(text).lines());
    lines
        .filter(|(_, line)| makers.iter().any(|maker| line.contains(maker)))
        .map(|(number, _)| {
            format!("{path}:{number}: an HTTP client of its own; take the one of {CLIENTS}")
        })
        .collect()
}

#[test]
fn files_are_tidy() {
    let sources = files("rs");
    let tests = test_files(&sources);
    let rules = [too_long, folder_modules, loose_ends, unwatched_children, unexplained_limits];
    let mut offences = Vec::new();
    for (path, text) in &sources {
        offences.extend(rules.iter().flat_map(|rule| rule(path, text)));
        if !tests.contains(path) {
            // Outside of tests, whose tables of cases are long and simple.
            offences.extend(long_functions(path, product(text)));
            offences.extend(written_subjects(path, text));
            offences.extend(own_clients(path, text));
        }
    }
    none(&offences);
}

#[test]
fn sizes_are_seen() {
    let long = |lines: usize| "x\n".repeat(lines);
    none(&too_long("a/src/b.rs", &long(FILE_LINES_MAX)));
    one(&too_long("a/src/b.rs", &long(FILE_LINES_MAX + 1)), &["a/src/b.rs", "601", "split"]);
    one(&too_long("a/src/main.rs", &long(MAIN_LINES_MAX + 1)), &["a/src/main.rs: 101"]);
    none(&too_long("a/it/main.rs", &long(MAIN_LINES_MAX + 1)));
    one(&folder_modules("a/src/b/mod.rs", ""), &["a/src/b.rs"]);

    let function = |lines: usize| format!("    pub fn f<T>(\n{}    }}\n}}\n", long(lines));
    none(&long_functions("a.rs", &function(FUNCTION_LINES_MAX - 2)));
    one(&long_functions("a.rs", &function(FUNCTION_LINES_MAX - 1)), &["a.rs:1: fn f has 101"]);
    let short = ["fn f() {}", "fn f();", "fn f(\n);", "// the fn f("];
    for text in short.map(|text| format!("{text}\n{}}}\n", long(FUNCTION_LINES_MAX))) {
        none(&long_functions("a.rs", &text));
    }
}

#[test]
fn loose_ends_are_seen() {
    let bad = [
        concat!("// TO", "DO later"),
        concat!("FIX", "ME"),
        concat!("todo", "!()"),
        concat!("unimplemented", "!()"),
        concat!("#[ign", "ore = \"slow\"]"),
        concat!("#[should_", "panic]"),
        concat!("#[all", "ow(dead_code)]"),
        concat!("#![all", "ow(\n    dead_code\n)]"),
    ];
    for text in bad {
        one(&loose_ends("a.rs", &format!("fn f() {{}}\n{text}")), &["a.rs:2", "; "]);
    }
    none(&loose_ends("a.rs", concat!("#[all", "ow(dead_code, reason = \"x\")]\n// ignored todos")));
}

#[test]
fn unwatched_and_unexplained_are_seen() {
    let spawns = concat!("A::spawn_", "linked(None)");
    one(&unwatched_children("a.rs", spawns), &["a.rs"]);
    none(&unwatched_children(
        "a.rs",
        &format!("{spawns} fn {}", concat!("handle_", "supervisor_evt")),
    ));

    one(&unexplained_limits("a.rs", "x\n\npub const A_MAX: u8 = 1;"), &["a.rs:3", "A_MAX"]);
    none(&unexplained_limits("a.rs", "/// Why.\n#[x]\npub const A_MAX: u8 = 1;\npub const B: u8"));
}

#[test]
fn own_clients_are_seen() {
    for maker in [
        concat!("reqwest::Client::", "builder()"),
        concat!("reqwest::Client::", "new()"),
        concat!("reqwest::blocking::Client::", "builder()"),
        concat!("reqwest::", "get(url)"),
    ] {
        let text = format!("fn f()\n    let x = {maker};\n");
        one(&own_clients("a.rs", &text), &["a.rs:2", CLIENTS]);
        none(&own_clients(CLIENTS, &text));
        none(&own_clients("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{text}")));
    }
    none(&own_clients("a.rs", "HttpClient::new()"));
}

#[test]
fn subjects_are_seen_outside_of_tests() {
    let line = concat!("    \"callboard", ".v1.t\"");
    one(&written_subjects("a/src/b.rs", &format!("fn f()\n{line}")), &["a/src/b.rs:2"]);
    none(&written_subjects(SUBJECTS, line));
    none(&written_subjects("a.rs", concat!("/// As in `callboard", ".v1`.")));
    none(&written_subjects("a.rs", &format!("fn f()\n#[cfg(test)]\nmod tests {{\n{line}")));
    let later = format!("#[cfg(test)]\nmod tests;\n{line}");
    one(&written_subjects("a.rs", &later), &["a.rs:3"]);

    let text = "mod a;\n#[cfg(test)]\nmod b;\n".to_owned();
    let paths = ["x/src/lib.rs", "x/src/a.rs", "x/src/b.rs", "x/src/b/c.rs", "x/src/bc.rs"];
    let mut sources = paths.map(|path| (path.to_owned(), String::new())).to_vec();
    sources.first_mut().unwrap().1 = text.clone();
    let expected = ["x/src/b.rs", "x/src/b/c.rs"].map(str::to_owned);
    assert_eq!(test_files(&sources), BTreeSet::from(expected));
    let nested = [("x/src/a.rs".to_owned(), text), ("x/src/a/b.rs".to_owned(), String::new())];
    assert_eq!(test_files(&nested), BTreeSet::from(["x/src/a/b.rs".to_owned()]));
}
