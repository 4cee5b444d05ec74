//! Damaged files: the store says what is true, or that it is damaged, and never more than that.

#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};

use store::{Change, Error, Opened, RunBegun, Store};
use wire::entry::Fact;
use wire::{CallKey, Digest, Name, RunId, RunStatus, SessionId, Timestamp, TraceContext};

/// How many random damages of each kind are tried.
const ROUNDS: u64 = 20;
/// The number of runs that the store holds before it is damaged.
const RUNS: u64 = 300;

/// A small generator of random numbers, so that a seed gives the same damage everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }
}

fn run_id(number: u64) -> RunId {
    RunId::new(&format!("r{number}")).unwrap()
}

/// The replies of runs whose number is a multiple of this stand in files.
const LARGE_EVERY: u64 = 150;

fn reply(number: u64) -> Vec<u8> {
    let times = if number.is_multiple_of(LARGE_EVERY) {
        10_000
    } else {
        20 + usize::try_from(number).unwrap() % 50
    };
    format!("reply {number} ").repeat(times).into_bytes()
}

/// What the journal says up to position `number`, one position a run.
fn changes(number: u64) -> Vec<Change> {
    let (run, at) = (run_id(number), Timestamp::from_micros(number));
    let (agent, session) = (Name::new("lead").unwrap(), SessionId::new("s").unwrap());
    let begun = RunBegun {
        run: run.clone(),
        session: session.clone(),
        agent: agent.clone(),
        body: Digest::of(b""),
        at,
        input: "question".into(),
        traced: None,
        slot: None,
        trace: TraceContext::root(&agent, &run),
        parent: None,
        joined: None,
    };
    let fact = Fact {
        id: CallKey::new(&format!("f{number}")).unwrap(),
        text: format!("fact number{number}"),
        at,
        agent: agent.clone(),
        session: session.clone(),
        tainted: false,
    };
    vec![
        Change::SessionSeen { session, agent, at, slots: number },
        Change::RunBegun(begun.into()),
        Change::RunEnded { run, at, status: RunStatus::Completed, reply: reply(number).into() },
        Change::Fact(fact.into()),
    ]
}

/// Makes a store, closed in order, with several generations of its pages on the disk.
fn fill(dir: &Path) {
    for half in [1..=RUNS / 2, RUNS / 2 + 1..=RUNS] {
        let (store, _) = Store::open(dir).unwrap();
        for number in half {
            store.apply(&changes(number), Some(number)).unwrap();
        }
    }
}

/// Compares all that a store says with what it was told up to its position.
fn compare(store: &Store) -> Result<(), Error> {
    let position = store.position();
    let runs = store.runs(usize::MAX)?;
    let expected: Vec<RunId> = (1..=position).rev().map(run_id).collect();
    let listed: Vec<RunId> = runs.iter().map(|row| row.begun.run.clone()).collect();
    assert_eq!(listed, expected);
    assert!(runs.iter().all(|row| row.ended.is_some()));
    for number in 1..=position {
        assert_eq!(store.reply(&run_id(number))?, Some(reply(number)), "{number}");
        assert_eq!(store.recall(&format!("number{number}"), 9)?.len(), 1, "{number}");
    }
    assert_eq!(store.facts(usize::MAX)?.len() as u64, position);
    let session = store.session(&SessionId::new("s").unwrap())?;
    assert_eq!(session.map_or(0, |row| row.slots), position);
    Ok(())
}

/// Opens a store that may be damaged; whatever it is, it must be usable in the end.
fn survive(dir: &Path) -> &'static str {
    let (store, opened) = Store::open(dir).unwrap();
    let outcome = match (opened, compare(&store)) {
        (Opened::Ready, Ok(())) if store.position() == RUNS => "unharmed",
        (Opened::Ready, Ok(())) => "shorter",
        (Opened::Replaced { .. }, Ok(())) if store.position() == 0 => "replaced",
        (Opened::Ready, Err(Error::Damaged { .. })) => "found while reading",
        (opened, result) => panic!("{opened:?} {result:?} at {}", store.position()),
    };
    let written = store.apply(&changes(RUNS + 1), None);
    assert!(written.is_ok() || matches!(written, Err(Error::Damaged { .. })), "{written:?}");
    let usable = written.is_ok();
    drop(store);
    let (store, opened) = Store::open(dir).unwrap();
    assert_eq!(matches!(opened, Opened::Replaced { .. }), !usable, "{opened:?}");
    store.apply(&changes(1), Some(1)).unwrap();
    assert_eq!(store.reply(&run_id(1)).unwrap(), Some(reply(1)));
    outcome
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn copy(from: &Path, to: &Path) {
    for file in files_below(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}

/// Damages copies of one store in a way, over and over, and prints what came of it.
fn check(way: &str, damage: impl Fn(&mut Random, &Path)) {
    let parent = tempfile::tempdir().unwrap();
    let original = parent.path().join("original");
    fill(&original);
    for seed in 1..=ROUNDS {
        let dir = parent.path().join(format!("{seed}")).join("store");
        copy(&original, &dir);
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        damage(&mut random, &dir);
        print!("{way}, seed {seed}: ");
        println!("{}", survive(&dir));
    }
}

/// Picks a file that is not empty, each as likely as the others.
fn pick(random: &mut Random, dir: &Path) -> (PathBuf, Vec<u8>) {
    let mut files = files_below(dir);
    files.retain(|file| fs::metadata(file).unwrap().len() > 0);
    let file = files.swap_remove(random.below(files.len()));
    let bytes = fs::read(&file).unwrap();
    (file, bytes)
}

#[test]
fn a_zeroed_page() {
    check("a zeroed page", |random, dir| {
        let (file, mut bytes) = pick(random, dir);
        let page = random.below(bytes.len().div_ceil(4096)) * 4096;
        let end = bytes.len().min(page + 4096);
        bytes[page..end].fill(0);
        fs::write(file, bytes).unwrap();
    });
}

#[test]
fn a_flipped_bit() {
    check("a flipped bit", |random, dir| {
        let (file, mut bytes) = pick(random, dir);
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        fs::write(file, bytes).unwrap();
    });
}

#[test]
fn a_cut_file() {
    check("a cut file", |random, dir| {
        let (file, mut bytes) = pick(random, dir);
        bytes.truncate(random.below(bytes.len()));
        fs::write(file, bytes).unwrap();
    });
}

#[test]
fn a_deleted_file() {
    check("a deleted file", |random, dir| {
        let (file, _) = pick(random, dir);
        fs::remove_file(file).unwrap();
    });
}

#[test]
fn another_version() {
    for schema in [0_u32, 2, 99] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        fill(&dir);
        let database = sled::open(dir.join("sled")).unwrap();
        database.insert(b"!schema", &schema.to_be_bytes()).unwrap();
        database.flush().unwrap();
        drop(database);
        assert_eq!(survive(&dir), "replaced", "{schema}");
        assert!(parent.path().join("store.damaged-1").exists());
    }
}

#[test]
fn a_lost_record() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    fill(&dir);
    let database = sled::open(dir.join("sled")).unwrap();
    database.remove(b"Yr7").unwrap().unwrap();
    database.flush().unwrap();
    drop(database);
    assert_eq!(survive(&dir), "replaced");
}

#[test]
fn a_store_whose_process_died_is_used_again() {
    let parent = tempfile::tempdir().unwrap();
    let (dir, died) = (parent.path().join("live"), parent.path().join("died").join("store"));
    let (store, _) = Store::open(&dir).unwrap();
    for number in 1..=RUNS {
        store.apply(&changes(number), Some(number)).unwrap();
    }
    store.flush().unwrap();
    // What is on the disk of an open store is what a killed process leaves.
    copy(&dir, &died);
    assert_eq!(survive(&died), "unharmed");
}

#[test]
fn a_store_that_was_open_when_the_machine_stopped() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    fill(&dir);
    fs::write(dir.join("state"), "open another-start\n").unwrap();
    assert_eq!(survive(&dir), "replaced");
}
