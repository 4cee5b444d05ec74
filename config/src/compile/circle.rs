//! Finds circles of agents that call each other.

use std::collections::{BTreeMap, BTreeSet};

/// Who calls whom, each list in the order of the file.
pub(super) type Calls<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Returns circles, each as the names on the way from an agent back to itself.
///
/// Every circle of the graph shares a call with one of those returned, so that none is left once
/// all of them are broken; a call closes at most one of them.
pub(super) fn circles<'a>(calls: &Calls<'a>) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    let mut done = BTreeSet::new();
    for name in calls.keys() {
        follow(calls, name, &mut Vec::new(), &mut done, &mut found);
    }
    found
}

fn follow<'a>(
    calls: &Calls<'a>,
    name: &'a str,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    found: &mut Vec<Vec<&'a str>>,
) {
    if let Some(circle) = way.iter().position(|above| *above == name).and_then(|at| way.get(at..)) {
        found.push(circle.iter().copied().chain([name]).collect());
        return;
    }
    if done.contains(name) {
        return;
    }
    way.push(name);
    for called in calls.get(name).into_iter().flatten() {
        follow(calls, called, way, done, found);
    }
    way.pop();
    done.insert(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_way_back() {
        type Case = (&'static [(&'static str, &'static [&'static str])], &'static [&'static str]);
        let cases: [Case; 6] = [
            (&[], &[]),
            (&[("a", &["b"]), ("b", &[])], &[]),
            (&[("a", &["a"])], &["a a"]),
            (&[("a", &["b"]), ("b", &["a"])], &["a b a"]),
            (&[("a", &["b", "c"]), ("b", &["c"]), ("c", &["b"])], &["b c b"]),
            (&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])], &[]),
        ];
        for (calls, expected) in cases {
            let calls = calls.iter().map(|(name, called)| (*name, called.to_vec())).collect();
            let found: Vec<String> = circles(&calls).iter().map(|way| way.join(" ")).collect();
            assert_eq!(found, expected, "{calls:?}");
        }
    }
}
