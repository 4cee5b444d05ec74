//! The names under which a team has tools that others named: MCP servers, event types, interfaces.

use std::collections::BTreeMap;

use wire::Name;

/// The longest name of a tool in a team.
const NAME_BYTES_MAX: usize = 64;

/// Letters of the digest that tell names apart that would otherwise be one.
const DIGEST_LETTERS: usize = 8;

/// Gives every tool of a source that `is_wanted` a name in the team: `prefix` and its `own` name,
/// with `_` for letters that names of a team do not have.
///
/// A name that is empty or too long, that `is_taken`, or that another tool of the source has by
/// right, ends in a digest of the tool's own name. So the name of a tool does not depend on the
/// order in which the source lists them.
pub fn offered_names<'c, T>(
    prefix: &str,
    tools: &'c [T],
    own: impl Fn(&T) -> &str,
    is_wanted: impl Fn(&T) -> bool,
    is_taken: impl Fn(&str) -> bool,
) -> BTreeMap<Name, &'c T> {
    let plain = |tool: &T| format!("{prefix}{}", Name::cleaned(own(tool)));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for tool in tools {
        *counts.entry(plain(tool)).or_default() += 1;
    }
    let mut names = BTreeMap::new();
    for tool in tools.iter().filter(|tool| is_wanted(tool)) {
        let name = plain(tool);
        let is_own = Name::cleaned(own(tool)) == own(tool);
        let is_alone = is_own || counts.get(&name).is_none_or(|count| *count == 1);
        if let Some(name) = team_name(&name, is_alone && !is_taken(&name), own(tool)) {
            names.entry(name).or_insert(tool);
        }
    }
    names
}

/// Returns the name of a tool in the team: its plain one if that is free and fits, else one that is
/// told apart by the tool's `identity`. There is none if the plain one has other letters than names
/// have.
pub fn team_name(plain: &str, is_free: bool, identity: &str) -> Option<Name> {
    let fits = (1..=NAME_BYTES_MAX).contains(&plain.len());
    let name = if fits && is_free { plain.to_owned() } else { told_apart(plain, identity) };
    Name::new(&name).ok()
}

/// Returns the name, cut if need be, with a digest of `identity` at its end.
fn told_apart(name: &str, identity: &str) -> String {
    let digest = blake3::hash(identity.as_bytes()).to_hex();
    let short: String = name.chars().take(NAME_BYTES_MAX - DIGEST_LETTERS - 1).collect();
    let digest: String = digest.chars().take(DIGEST_LETTERS).collect();
    format!("{short}_{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, tools: &[&str], taken: &[&str]) -> Vec<String> {
        let offered =
            offered_names(prefix, tools, |tool| *tool, |_| true, |name| taken.contains(&name));
        let by_tool: BTreeMap<&str, String> =
            offered.iter().map(|(name, tool)| (**tool, name.to_string())).collect();
        tools.iter().map(|tool| by_tool.get(tool).cloned().unwrap_or_default()).collect()
    }

    #[test]
    fn every_tool_has_a_name_of_its_own() {
        let long = "x".repeat(80);
        assert_eq!(names("fs_", &["read", "get-sum"], &[]), ["fs_read", "fs_get-sum"]);
        assert_eq!(names("", &["a.b", "a_c"], &[]), ["a_b", "a_c"]);
        let digest =
            |name: &str| blake3::hash(name.as_bytes()).to_hex().chars().take(8).collect::<String>();
        // The tool whose name it is keeps it, whatever the order.
        for tools in [["a.b", "a_b"], ["a_b", "a.b"]] {
            let mut found = names("", &tools, &[]);
            found.sort();
            assert_eq!(found, ["a_b".to_owned(), format!("a_b_{}", digest("a.b"))]);
        }
        let both = names("", &["a.b", "a/b"], &[]);
        assert_eq!(both, [format!("a_b_{}", digest("a.b")), format!("a_b_{}", digest("a/b"))]);
        assert_eq!(names("", &["a"], &["a"]), [format!("a_{}", digest("a"))]);
        let cut = names("", &[&long], &[]);
        assert_eq!(cut, [format!("{}_{}", "x".repeat(55), digest(&long))]);
        assert_eq!(names("", &["größe"], &[]), ["gr__e"]);
        assert_eq!(names("", &[""], &[]), [format!("_{}", digest(""))]);
    }

    #[test]
    fn a_plain_name_that_is_free_and_fits_is_kept() {
        let (fits, long) = ("x".repeat(64), "x".repeat(65));
        let apart = |name: &str| Some(told_apart(name, "identity"));
        let cases = [
            ("a", true, Some("a".to_owned())),
            ("a", false, apart("a")),
            (&fits, true, Some(fits.clone())),
            (&fits, false, apart(&fits)),
            (&long, true, apart(&long)),
            ("", true, apart("")),
            ("a.b", true, None),
        ];
        for (plain, is_free, expected) in cases {
            let name = team_name(plain, is_free, "identity").map(|name| name.to_string());
            assert_eq!(name, expected, "{plain}, free: {is_free}");
        }
    }
}
