//! What stands in documents: links lead somewhere.

use std::path::Path;

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
