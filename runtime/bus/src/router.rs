//! Who receives what in the twin: subjects without wildcards in one map, patterns in a tree of tokens.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tokio::sync::mpsc;

use crate::check;
use crate::listening::Handler;
use crate::message::Message;

/// Finds the subscriptions that a subject reaches.
#[derive(Debug, Default)]
pub(crate) struct Router {
    exact: HashMap<String, Listeners, RandomState>,
    wild: Node,
}

/// One subscription.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) id: u64,
    pub(crate) sink: Sink,
}

/// Where the messages of a subscription go.
#[derive(Clone)]
pub(crate) enum Sink {
    Queue(mpsc::Sender<Message>),
    Handler(Handler),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Where a message goes, and whether for a queue group.
#[derive(Clone)]
pub(crate) struct Pick {
    pub(crate) target: Target,
    pub(crate) queued: bool,
}

/// Where one message goes: mostly to one place.
pub(crate) type Picks = SmallVec<[Pick; 1]>;

/// The listeners that one subject reaches.
type Reached<'a> = SmallVec<[&'a Listeners; 4]>;

#[derive(Debug, Default)]
struct Listeners {
    plain: Vec<Target>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    name: String,
    members: Vec<Target>,
}

#[derive(Debug, Default)]
struct Node {
    /// Few enough to be compared, which costs less than a hash of each token.
    children: BTreeMap<String, Node>,
    /// Below `*`.
    any: Option<Box<Node>>,
    /// Patterns that end in `>` here.
    rest: Listeners,
    /// Patterns that end here.
    here: Listeners,
}

impl Router {
    /// Adds a subscription.
    pub(crate) fn insert(&mut self, pattern: &str, queue: Option<&str>, target: Target) {
        if check::is_wild(pattern) {
            self.wild.at(pattern).insert(queue, target);
        } else if let Some(listeners) = self.exact.get_mut(pattern) {
            listeners.insert(queue, target);
        } else {
            self.exact.entry(pattern.to_owned()).or_default().insert(queue, target);
        }
    }

    /// Takes a subscription out, and what stood there for it alone.
    pub(crate) fn remove(&mut self, pattern: &str, id: u64) {
        if check::is_wild(pattern) {
            self.wild.remove(&mut pattern.split('.'), id);
        } else if let Some(listeners) = self.exact.get_mut(pattern) {
            listeners.remove(id);
            if listeners.is_empty() {
                self.exact.remove(pattern);
            }
        }
    }

    /// Takes all subscriptions out.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Tells whether a subject reaches any subscription.
    pub(crate) fn reaches(&self, subject: &str) -> bool {
        !self.reached(subject).is_empty()
    }

    fn reached(&self, subject: &str) -> Reached<'_> {
        let mut reached: Reached<'_> = self.exact.get(subject).into_iter().collect();
        if !self.wild.is_empty() {
            self.wild.reach(Some(subject), &mut reached);
        }
        reached
    }

    /// Returns all plain subscriptions that a subject reaches, and of each queue group the member
    /// that `draw`, any number, falls on. A group is one group over all patterns, as in NATS.
    pub(crate) fn pick(&self, subject: &str, draw: u64) -> Picks {
        let reached = self.reached(subject);
        let mut picks = Picks::new();
        for listeners in &reached {
            let plain = listeners.plain.iter().cloned();
            picks.extend(plain.map(|target| Pick { target, queued: false }));
        }
        for (n, listeners) in reached.iter().enumerate() {
            for group in &listeners.groups {
                let is_first = |earlier: &&Listeners| earlier.group(&group.name).is_none();
                if reached.iter().take(n).all(is_first) {
                    let target = draw_member(&reached, &group.name, draw);
                    let pick = |target: &Target| Pick { target: target.clone(), queued: true };
                    picks.extend(target.map(pick));
                }
            }
        }
        picks
    }
}

fn draw_member<'a>(reached: &[&'a Listeners], name: &str, draw: u64) -> Option<&'a Target> {
    let members = || reached.iter().filter_map(|l| l.group(name)).flat_map(|g| &g.members);
    let count = u64::try_from(members().count()).ok()?;
    let place = draw.checked_rem(count)?;
    members().nth(usize::try_from(place).ok()?)
}

impl Listeners {
    fn insert(&mut self, queue: Option<&str>, target: Target) {
        let Some(name) = queue else {
            self.plain.push(target);
            return;
        };
        match self.groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.members.push(target),
            None => self.groups.push(Group { name: name.to_owned(), members: vec![target] }),
        }
    }

    fn remove(&mut self, id: u64) {
        self.plain.retain(|target| target.id != id);
        for group in &mut self.groups {
            group.members.retain(|target| target.id != id);
        }
        self.groups.retain(|group| !group.members.is_empty());
    }

    fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.groups.is_empty()
    }
}

impl Node {
    fn at(&mut self, pattern: &str) -> &mut Listeners {
        let mut node = self;
        for token in pattern.split('.') {
            node = match token {
                ">" => return &mut node.rest,
                "*" => node.any.get_or_insert_default(),
                _ => node.children.entry(token.to_owned()).or_default(),
            };
        }
        &mut node.here
    }

    fn remove<'a>(&mut self, tokens: &mut impl Iterator<Item = &'a str>, id: u64) {
        match tokens.next() {
            None => self.here.remove(id),
            Some(">") => self.rest.remove(id),
            Some("*") => {
                if let Some(node) = &mut self.any {
                    node.remove(tokens, id);
                }
                self.any.take_if(|node| node.is_empty());
            }
            Some(token) => {
                if let Some(node) = self.children.get_mut(token) {
                    node.remove(tokens, id);
                    if node.is_empty() {
                        self.children.remove(token);
                    }
                }
            }
        }
    }

    /// Adds those below whose patterns match what is left of a subject.
    fn reach<'a>(&'a self, left: Option<&str>, reached: &mut Reached<'a>) {
        let Some(left) = left else {
            if !self.here.is_empty() {
                reached.push(&self.here);
            }
            return;
        };
        if !self.rest.is_empty() {
            reached.push(&self.rest);
        }
        let (token, left) = first_token(left);
        if let Some(node) = self.children.get(token) {
            node.reach(left, reached);
        }
        if let Some(node) = &self.any {
            node.reach(left, reached);
        }
    }

    fn is_empty(&self) -> bool {
        self.children.is_empty()
            && self.any.is_none()
            && self.rest.is_empty()
            && self.here.is_empty()
    }
}

/// Splits a subject at its first dot, if it has one.
fn first_token(subject: &str) -> (&str, Option<&str>) {
    // Tokens are so short that a search which is made for long texts would take most of the time.
    let dot = subject.bytes().position(|byte| byte == b'.');
    let (token, after) = subject.split_at(dot.unwrap_or(subject.len()));
    (token, after.get(1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(id: u64) -> Target {
        Target { id, sink: Sink::Queue(mpsc::channel(1).0) }
    }

    fn router(subscriptions: &[(u64, &str, Option<&str>)]) -> Router {
        let mut router = Router::default();
        for (id, pattern, queue) in subscriptions {
            router.insert(pattern, *queue, target(*id));
        }
        router
    }

    fn ids(router: &Router, subject: &str, draw: u64) -> Vec<u64> {
        let mut ids: Vec<u64> =
            router.pick(subject, draw).iter().map(|pick| pick.target.id).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn subjects_reach_their_patterns() {
        let subscriptions = [
            (1, "a.b.c", None),
            (2, "a.*.c", None),
            (3, "a.>", None),
            (4, ">", None),
            (5, "*.*.*", None),
            (6, "*.b.>", None),
            (7, "a.b", None),
            (8, "*", None),
        ];
        let mut router = router(&subscriptions);
        let cases: [(&str, &[u64]); 6] = [
            ("a.b.c", &[1, 2, 3, 4, 5, 6]),
            ("a.x.c", &[2, 3, 4, 5]),
            ("a.b", &[3, 4, 7]),
            ("a", &[4, 8]),
            ("x.b.c.d", &[4, 6]),
            ("x.y", &[4]),
        ];
        for (subject, expected) in cases {
            assert_eq!(ids(&router, subject, 0), expected, "{subject}");
        }
        for (id, pattern, _) in subscriptions {
            router.remove(pattern, id);
            let left = ids(&router, "a.b.c", 0);
            assert!(!left.contains(&id), "{pattern}");
            assert_eq!(router.reaches("a.b.c"), !left.is_empty(), "{pattern}");
        }
        assert!(router.exact.is_empty() && router.wild.is_empty(), "{router:?}");
    }

    /// Returns all texts of one to some tokens.
    fn texts(tokens: &[&str], most: usize) -> Vec<String> {
        let one: Vec<String> = tokens.iter().map(|token| (*token).to_owned()).collect();
        let mut all = vec![one.clone()];
        for _ in 1..most {
            let longest = all.last().unwrap().iter();
            let longer = longest.flat_map(|text| one.iter().map(move |token| [text, ".", token]));
            let longer = longer.map(|parts| parts.concat()).collect();
            all.push(longer);
        }
        all.concat()
    }

    /// Tells whether a pattern matches a subject, as the manual of NATS says it.
    fn matches(pattern: &str, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        for wanted in pattern.split('.') {
            match (wanted, tokens.next()) {
                (">", found) => return found.is_some(),
                ("*", Some(_)) => {}
                (_, found) if found == Some(wanted) => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }

    #[test]
    fn each_subject_reaches_all_patterns_that_match_it_and_no_other() {
        let patterns = texts(&["a", "ab", "\u{fc}", "*", ">"], 3);
        let patterns = patterns.into_iter().filter(|pattern| check::pattern(pattern).is_ok());
        let mut patterns: Vec<(u64, String)> = (0..).zip(patterns).collect();
        let mut router = Router::default();
        for (id, pattern) in &patterns {
            router.insert(pattern, None, target(*id));
        }
        let subjects = texts(&["a", "ab", "b", "\u{fc}"], 4);
        for left in [usize::MAX, 50, 7, 0] {
            while patterns.len() > left {
                // From the middle, so that neighbours of all kinds stay.
                let (id, pattern) = patterns.swap_remove(patterns.len() / 2);
                router.remove(&pattern, id);
            }
            for subject in &subjects {
                let matching = patterns.iter().filter(|(_, pattern)| matches(pattern, subject));
                let mut expected: Vec<u64> = matching.map(|(id, _)| *id).collect();
                expected.sort_unstable();
                assert_eq!(ids(&router, subject, 0), expected, "{subject} of {patterns:?}");
            }
        }
        assert!(router.exact.is_empty() && router.wild.is_empty(), "{router:?}");
    }

    #[test]
    fn one_member_of_a_group_is_drawn_over_all_patterns() {
        let router = router(&[
            (1, "a.b", Some("q")),
            (2, "a.b", Some("q")),
            (3, "a.*", Some("q")),
            (4, "a.*", Some("r")),
            (5, "a.b", None),
        ]);
        for (draw, expected) in [(0, [1, 4, 5]), (1, [2, 4, 5]), (5, [3, 4, 5])] {
            assert_eq!(ids(&router, "a.b", draw), expected, "draw {draw}");
        }
        assert_eq!(ids(&router, "a.c", 7), [3, 4]);
    }
}
