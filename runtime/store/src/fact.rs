//! Memory: facts, and the search for them by words.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use wire::entry::Fact;
use wire::{CallKey, Timestamp};

use crate::error::Error;
use crate::key::{self, Space};
use crate::page::{LIST_MAX, newest, row};
use crate::pending::{Pending, State};
use crate::record;
use crate::words::{self, Of};

/// The most different words by which one fact is found; the rest of a longer text is not searched.
/// 4 KiB have no more, not even where each character and each two of them are words.
pub const FACT_WORDS_MAX: usize = 3_000;
/// The most different words of a query that are looked up.
pub const QUERY_WORDS_MAX: usize = 32;
/// The most facts that are weighed for one word of a query, or looked through for one that is like
/// a text. A word that stands in more facts tells them apart so little that leaving some out
/// changes nothing of what is recalled but the time taken.
pub const POSTINGS_SCANNED_MAX: usize = 20_000;

/// How soon further occurrences of a word in a fact stop to count: the usual value of BM25.
const SATURATION: f64 = 1.2;
/// How much long facts are marked down: the usual value of BM25.
const LENGTH_WEIGHT: f64 = 0.75;

/// The occurrence of a word in a fact.
#[derive(Serialize, Deserialize)]
struct Posting {
    /// How often the word occurs.
    count: u32,
    /// How many words the fact has.
    words: u32,
    /// When the fact was remembered.
    at: Timestamp,
}

/// What the words of a query say for one fact; the greater is the better.
#[derive(Default)]
struct Score {
    weight: f64,
    at: Timestamp,
}

fn length(counts: &BTreeMap<String, u32>) -> u32 {
    counts.values().fold(0, |sum, count| sum.saturating_add(*count))
}

pub(crate) fn remember(pending: &mut Pending, fact: &Fact) -> Result<(), Error> {
    forget(pending, &fact.id)?;
    let counts = words::count(&fact.text, Of::Fact, FACT_WORDS_MAX);
    let words = length(&counts);
    for (word, count) in counts {
        let posting = Posting { count, words, at: fact.at };
        pending.put_row(key::posting(&word, &fact.id), &posting)?;
    }
    pending.state.facts += 1;
    pending.state.words += u64::from(words);
    pending.put(key::fact_at(fact.at, &fact.id), &[])?;
    pending.put_row(key::fact(&fact.id), fact)
}

pub(crate) fn forget(pending: &mut Pending, id: &CallKey) -> Result<(), Error> {
    let Some(fact) = pending.row::<Fact>(&key::fact(id))? else { return Ok(()) };
    let counts = words::count(&fact.text, Of::Fact, FACT_WORDS_MAX);
    pending.state.facts = pending.state.facts.saturating_sub(1);
    pending.state.words = pending.state.words.saturating_sub(u64::from(length(&counts)));
    for word in counts.keys() {
        pending.remove(&key::posting(word, id))?;
    }
    pending.remove(&key::fact_at(fact.at, id))?;
    pending.remove(&key::fact(id))
}

/// Forgets all facts but some, as they were before this is written.
pub(crate) fn forget_others(pending: &mut Pending, kept: &[CallKey]) -> Result<(), Error> {
    let kept: HashSet<&str> = kept.iter().map(CallKey::as_str).collect();
    let prefix = Space::Fact.key(&[]);
    let mut others = Vec::new();
    for entry in pending.tree().scan_prefix(&prefix).keys() {
        let key = entry.map_err(|error| Error::engine("list facts", error))?;
        let id = str::from_utf8(key.get(prefix.len()..).unwrap_or_default());
        let id = id.ok().filter(|id| !kept.contains(id)).and_then(|id| CallKey::new(id).ok());
        others.extend(id);
    }
    others.iter().try_for_each(|id| forget(pending, id))
}

pub(crate) fn one(tree: &sled::Tree, id: &CallKey) -> Result<Option<Fact>, Error> {
    row(tree, &key::fact(id))
}

pub(crate) fn list(tree: &sled::Tree, limit: usize) -> Result<Vec<Fact>, Error> {
    newest(tree, Space::FactAt, limit, |id| row(tree, &Space::Fact.key(&[id])))
}

/// Finds facts by the words of a query, best first by BM25, the newer of equals first.
pub(crate) fn recall(
    tree: &sled::Tree,
    state: &State,
    query: &str,
    limit: usize,
) -> Result<Vec<Fact>, Error> {
    let words = words::count(query, Of::Query, QUERY_WORDS_MAX);
    if words.is_empty() {
        return list(tree, limit);
    }
    let mut scores = HashMap::new();
    for word in words.keys() {
        weigh(tree, state, word, &mut scores)?;
    }
    let mut best: Vec<(Vec<u8>, Score)> = scores.into_iter().collect();
    best.sort_by(|(x, a), (y, b)| {
        b.weight.total_cmp(&a.weight).then(b.at.cmp(&a.at)).then_with(|| x.cmp(y))
    });
    best.truncate(limit.min(LIST_MAX));
    let fact = |(id, _): (Vec<u8>, Score)| {
        row(tree, &Space::Fact.key(&[&id]))?
            .ok_or_else(|| Error::damaged("recall facts", "a word names a missing fact"))
    };
    best.into_iter().map(fact).collect()
}

/// Finds a fact that has the words of a text, among [`POSTINGS_SCANNED_MAX`] that have the longest
/// of them. One without any words is looked for among the newest [`LIST_MAX`].
pub(crate) fn like(
    tree: &sled::Tree,
    text: &str,
    is_wanted: &dyn Fn(&Fact) -> bool,
) -> Result<Option<Fact>, Error> {
    let counts = words::count(text, Of::Fact, FACT_WORDS_MAX);
    let words = length(&counts);
    // Of a long word there are likely the fewest facts.
    let Some((word, count)) = counts.into_iter().max_by_key(|(word, _)| word.len()) else {
        return Ok(list(tree, LIST_MAX)?.into_iter().find(|fact| is_wanted(fact)));
    };
    for (id, posting) in postings(tree, &word, "look for a fact")? {
        if (posting.count, posting.words) != (count, words) {
            continue;
        }
        let fact = row(tree, &Space::Fact.key(&[&id]))?;
        if let Some(fact) = fact.filter(is_wanted) {
            return Ok(Some(fact));
        }
    }
    Ok(None)
}

/// Returns where a word occurs, by the ids of the facts. `doing` says for what that is read.
fn postings(
    tree: &sled::Tree,
    word: &str,
    doing: &'static str,
) -> Result<Vec<(Vec<u8>, Posting)>, Error> {
    let prefix = key::word(word);
    let mut postings = Vec::new();
    for entry in tree.scan_prefix(&prefix).take(POSTINGS_SCANNED_MAX) {
        let (key, value) = entry.map_err(|error| Error::engine(doing, error))?;
        let none = |_: &[u8]| Ok(None::<sled::IVec>);
        let bytes = record::Head::read(&value)?.join(&key, none)?;
        let posting: Posting = record::from_json(&bytes)?;
        postings.push((key.get(prefix.len()..).unwrap_or_default().to_vec(), posting));
    }
    Ok(postings)
}

#[expect(clippy::cast_precision_loss, reason = "counts of facts and words stay far below 2^52")]
fn weigh(
    tree: &sled::Tree,
    state: &State,
    word: &str,
    scores: &mut HashMap<Vec<u8>, Score>,
) -> Result<(), Error> {
    let postings = postings(tree, word, "recall facts")?;
    let (facts, having) = (state.facts.max(1) as f64, postings.len() as f64);
    let words_mean = (state.words as f64 / facts).max(1.0);
    let rarity = (1.0 + (facts - having + 0.5).max(0.5) / (having + 0.5)).ln();
    for (id, posting) in postings {
        let count = f64::from(posting.count);
        let long = 1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * f64::from(posting.words) / words_mean;
        let score = scores.entry(id).or_default();
        score.weight += rarity * count * (SATURATION + 1.0) / (count + SATURATION * long);
        score.at = posting.at;
    }
    Ok(())
}
