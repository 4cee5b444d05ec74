//! Crashes at every named point, with every effect class, in every mode of the world outside, up to
//! three times in a row.
//!
//! A whole node plays a scene on real files. At each point (before and after a write, a sync, a
//! message, an effect outside) a picture is taken of what a crash there would leave: the files, the
//! end of the newest one torn or not, and the world outside. From every picture another node goes
//! on, crashes at the same point again, and so does the third. Then what clients heard, what
//! happened outside and what the journal says are held against each other.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests fail by panicking, as tests do"
)]

mod camera;
mod check;
mod life;
mod outside;
mod scene;
mod tidying;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tests::results;
use tokio::time::Instant;
use wire::CallKey;

use camera::{Shot, copy, shelf};
use life::{Birth, Entries, live, read_image};
use outside::{Mode, Server, State};
use scene::{BEFORE, Class, RUN, Scene, TEAM};

/// Crashes in a row at one point.
const LIVES: u32 = 3;

/// Lives that are lived at once: they wait for one another's files and timers more than for cores.
const THREADS: usize = 4;

/// The least that has to be tried: named points, and points by class, mode and number of crashes.
const POINTS_MIN: usize = 30;
const CASES_MIN: usize = 1000;

/// Broken cases that are told of.
const BROKEN_SHOWN: usize = 5;

/// A crash from which a node is to go on.
struct Job {
    scene: Scene,
    shot: Shot,
    /// The number of the crash, from 1.
    crash: u32,
    /// The calls that were under way at the crashes before.
    in_flight: Vec<CallKey>,
    /// What was there before the scene began.
    stage: Arc<TempDir>,
}

/// What was played, a point with the time that it was come to, and how often it crashed there.
type Case = (Scene, String, u32, u32);

#[derive(Default)]
struct Board {
    jobs: Vec<Job>,
    /// Threads that may bring more jobs.
    busy: usize,
    cases: BTreeSet<Case>,
    unknown: usize,
    broken: Vec<String>,
}

/// Prepares the data of a scene: a run has been there before, and the store knows of it.
fn stage(server: &Server, scene: Scene) -> Result<TempDir, String> {
    let root = shelf();
    let world = server.world(Mode::After, State::default());
    let birth = Birth {
        scene,
        server,
        world: world.clone(),
        root: root.path(),
        held: 0,
        wanted: Some("nowhere".to_owned()),
        run: BEFORE,
    };
    live(&birth)?;
    server.end(&world);
    Ok(root)
}

/// Copies data with its store.
fn copy_with_store(from: &TempDir) -> TempDir {
    let root = shelf();
    copy(from.path(), root.path());
    copy_store(from, &root);
    root
}

fn copy_store(from: &TempDir, to: &TempDir) {
    let store = |root: &TempDir| root.path().join(TEAM).join("store");
    std::fs::create_dir_all(store(to)).unwrap();
    copy(&store(from), &store(to));
}

/// Plays a scene without a crash; returns the crashes that could have been.
fn play(server: &Server, scene: Scene) -> Result<Vec<Job>, String> {
    let stage = Arc::new(stage(server, scene)?);
    let root = copy_with_store(&stage);
    let held: Entries = read_image(root.path())?;
    let world = server.world(scene.mode, State::default());
    let birth = Birth {
        scene,
        server,
        world: world.clone(),
        root: root.path(),
        held: held.values().map(Vec::len).sum(),
        wanted: None,
        run: RUN,
    };
    let lived = live(&birth)?;
    let left = check::Left { entries: held, awaited: Vec::new(), reply: None };
    check::after(scene, &left, &[], &lived, &world.state())
        .map_err(|error| format!("{error}\n{}", check::shown(&lived.replies[0])))?;
    server.end(&world);
    let job = |shot| Job { scene, shot, crash: 1, in_flight: Vec::new(), stage: stage.clone() };
    Ok(lived.shots.into_iter().map(job).collect())
}

/// What came of one crash.
struct Recovered {
    next: Vec<Job>,
    is_unknown: bool,
}

/// Goes on after a crash, and checks what came of it.
fn recover(server: &Server, job: Job) -> Result<Recovered, String> {
    let Job { scene, shot, crash, mut in_flight, stage } = job;
    let origin = shot.origin.get().ok_or("the life of the picture has no end")?;
    let entries = read_image(shot.image.path())?;
    let held = entries.values().map(Vec::len).sum();
    // The store is a projection: after some crashes it is behind, after others it is gone.
    if !(shot.point.len() + shot.time as usize).is_multiple_of(2) {
        copy_store(&stage, &shot.image);
    }
    let world = server.world(scene.mode, shot.outside.clone());
    // One time of a point is enough to crash there again and again, and what lies on the disk after
    // a message is sent is what lay there before.
    let crashes_max = match shot.point.split(' ').next() {
        Some("after") => 1,
        Some("before") => 2,
        _ => LIVES,
    };
    let again = crash < crashes_max && shot.time == 1;
    let birth = Birth {
        scene,
        server,
        world: world.clone(),
        root: shot.image.path(),
        held,
        wanted: Some(if again { shot.point.clone() } else { "nowhere".to_owned() }),
        run: RUN,
    };
    let lived = live(&birth)?;
    let left = check::left(entries, shot.durable, origin, &lived.plans)?;
    in_flight.extend(left.awaited.iter().cloned());
    // What is late outside takes effect before it is judged.
    let outside = world.state();
    check::after(scene, &left, &in_flight, &lived, &outside)
        .map_err(|error| format!("{error}\n{}", check::shown(&lived.replies[0])))?;
    server.end(&world);
    let is_unknown =
        lived.replies[0].windows(19).any(|w| w == br#""status":"unknown","#.as_slice());
    let job = |shot| Job {
        scene,
        shot,
        crash: crash + 1,
        in_flight: in_flight.clone(),
        stage: stage.clone(),
    };
    Ok(Recovered { next: lived.shots.into_iter().map(job).collect(), is_unknown })
}

/// Does jobs until there are none and none can come.
fn work(server: &Server, board: &Mutex<Board>, changed: &Condvar) {
    loop {
        let mut held = board.lock().unwrap();
        let job = loop {
            match held.jobs.pop() {
                Some(job) => break job,
                None if held.busy == 0 => return,
                None => held = changed.wait(held).unwrap(),
            }
        };
        held.busy += 1;
        drop(held);
        let case = (job.scene, job.shot.point.clone(), job.shot.time, job.crash);
        let done = recover(server, job);
        let mut held = board.lock().unwrap();
        held.busy -= 1;
        match done {
            Ok(recovered) => {
                held.unknown += usize::from(recovered.is_unknown);
                held.jobs.extend(recovered.next);
                held.cases.insert(case);
            }
            Err(error) => held.broken.push(format!("{case:?}: {error}")),
        }
        drop(held);
        changed.notify_all();
    }
}

fn setting(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "whoever runs the test chooses what of it")]
    std::env::var(name).ok()
}

#[test]
fn a_crash_at_any_point_loses_nothing_and_repeats_nothing() {
    let began = Instant::now();
    let server = Server::start();
    let only = setting("CALLBOARD_MATRIX");
    let scenes: Vec<Scene> = Scene::all()
        .into_iter()
        .filter(|scene| only.as_ref().is_none_or(|only| format!("{scene:?}").contains(only)))
        .collect();
    let (board, changed) = (Mutex::new(Board::default()), Condvar::new());
    let next = Mutex::new(scenes.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                board.lock().unwrap().busy += 1;
                while let Some(scene) = { next.lock().unwrap().next() } {
                    let played = play(&server, scene);
                    let mut board = board.lock().unwrap();
                    match played {
                        Ok(jobs) => board.jobs.extend(jobs),
                        Err(error) => board.broken.push(format!("{scene:?}: {error}")),
                    }
                }
                board.lock().unwrap().busy -= 1;
                changed.notify_all();
                work(&server, &board, &changed);
            });
        }
    });
    let board = board.into_inner().unwrap();
    report(&board, began.elapsed(), only.is_none());
}

fn report(board: &Board, took: Duration, is_whole: bool) {
    let points: BTreeSet<&str> = board.cases.iter().map(|(_, point, ..)| point.as_str()).collect();
    let mut by_class: BTreeMap<Class, usize> = BTreeMap::new();
    for (scene, ..) in &board.cases {
        *by_class.entry(scene.class).or_default() += 1;
    }
    println!("{} points: {points:#?}", points.len());
    println!("{by_class:?}");
    println!("{} cases, {} unknown outcomes, {took:?}", board.cases.len(), board.unknown);
    let broken = &board.broken;
    let first: Vec<&str> = broken.iter().take(BROKEN_SHOWN).map(String::as_str).collect();
    assert!(broken.is_empty(), "{} broken, the first:\n{}", broken.len(), first.join("\n"));
    if !is_whole {
        return;
    }
    assert!(points.len() >= POINTS_MIN, "{} points", points.len());
    assert!(board.cases.len() >= CASES_MIN, "{} cases", board.cases.len());
    assert!(board.unknown > 0, "no outcome was unknown");
    results::record(&results::Row {
        id: "T1",
        what: "a crash at any point: nothing lost, nothing done twice",
        held: &format!(
            "{} points, {} cases: 0 runs lost, 0 keyed duplicates, 0 repeats of `once`, {} outcomes \
             unknown, all of calls in flight",
            points.len(),
            board.cases.len(),
            board.unknown
        ),
        passes: "30 points, 1,000 cases, 0 violations",
        command: "cargo matrix",
    });
}
