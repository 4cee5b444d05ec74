//! Crashes while old runs are dropped and segments are rewritten: what is kept stays, and the next
//! attempt comes to the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bus::Bus;
use bytes::Bytes;
use config::team::Retention;
use node::{Archive, Compacted};
use serde_json::json;
use tempfile::TempDir;
use tests::results;
use tokio::runtime::Runtime;
use tokio::time::sleep;
use wire::SessionId;

use crate::camera::{Camera, Shot, copy, shelf};
use crate::life::{ask_for, holder, name, read_image, start};
use crate::outside::{Mode, Server, State};
use crate::scene::{Class, Scene, TEAM};

/// Runs of the session whose runs are dropped, and of the one whose runs are kept.
const OLD: u32 = 6;
const KEPT: u32 = 2;

/// Crashes in a row at one point.
const LIVES: u32 = 2;

/// The pause before data is opened again that is still in use.
const PAUSE: Duration = Duration::from_millis(10);

/// The least number of points at which it has to crash.
const POINTS_MIN: usize = 20;

/// The sessions by what becomes of their runs.
const SESSION_OLD: &str = "old";
const SESSION_KEPT: &str = "kept";

struct House {
    server: Server,
    runtime: Runtime,
    scene: Scene,
}

impl House {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let scene = Scene { class: Class::Read, mode: Mode::After };
        Self { server: Server::start(), runtime: runtime.unwrap(), scene }
    }

    /// Has a node on some data answer requests, and ends it.
    fn ask(&self, root: &Path, asked: &[(&str, String)]) -> Result<Vec<Bytes>, String> {
        let files = shelf();
        let world = self.server.world(Mode::After, State::default());
        let file = self.scene.write(files.path(), &self.server.url(&world));
        let team = config::load(&file).unwrap();
        self.runtime.block_on(async {
            // Threads of the node before may hold its store for a moment.
            let node = loop {
                match start(team.clone(), Bus::local(), root).await {
                    Err(error) if error.contains("in use") => sleep(PAUSE).await,
                    started => break started?,
                }
            };
            let mut replies = Vec::new();
            for (session, run) in asked {
                let request = json!({"input": "hello", "run": run, "session": session});
                replies.push(ask_for(&node, request.to_string()).await?);
            }
            node.drain(Duration::from_secs(5)).await;
            Ok(replies)
        })
    }

    /// Drops what need not be kept.
    fn tidy(&self, root: &Path) -> Result<Compacted, String> {
        let kept = Retention { runs_max: Some(u64::from(KEPT)), ..Retention::default() };
        let archive = loop {
            match Archive::open(root, &name(TEAM), &holder()).map_err(|error| error.to_string()) {
                Err(error) if error.contains("in use") => std::thread::sleep(PAUSE),
                opened => break opened?,
            }
        };
        let done = self.runtime.block_on(archive.compact(&kept, node::now()));
        done.map_err(|error| error.to_string())
    }

    /// Drops what need not be kept, and returns the crashes that could have been meanwhile.
    fn tidy_watched(&self, root: &TempDir, wanted: Option<String>) -> Result<Vec<Shot>, String> {
        let world = self.server.world(Mode::After, State::default());
        let dir = root.path().join(TEAM);
        let camera = Camera::new(&dir, world, wanted, 0);
        let watching = journal::testing::watch(&dir, camera.clone());
        let compacted = self.tidy(root.path())?;
        drop(watching);
        let is_fresh = compacted.sessions_shortened > 0;
        let shots = camera.finish(read_image(root.path())?);
        // One that crashed may have had nothing left to drop.
        if is_fresh && compacted.bytes_after >= compacted.bytes_before {
            return Err(format!("nothing came of it: {compacted:?}"));
        }
        Ok(shots)
    }
}

fn kept() -> Vec<(&'static str, String)> {
    (0..KEPT).map(|number| (SESSION_KEPT, format!("kept-{number}"))).collect()
}

/// Goes on after a crash: what is kept is there, both sessions go on, and tidying comes to its end.
fn recover(house: &House, shot: &Shot, replies: &[Bytes], crash: u32) -> Result<Vec<Shot>, String> {
    let before = read_image(shot.image.path())?;
    let again = tempfile::tempdir().unwrap();
    copy(shot.image.path(), again.path());

    let root = shot.image.path();
    if house.ask(root, &kept())? != replies {
        return Err("a kept run has another reply than before".to_owned());
    }
    let next = [(SESSION_OLD, "next-old".to_owned()), (SESSION_KEPT, "next-kept".to_owned())];
    house.ask(root, &next)?;
    let after = read_image(root)?;
    for session in [SESSION_OLD, SESSION_KEPT] {
        let session = SessionId::new(session).unwrap();
        let (before, after) = (&before[&session], &after[&session]);
        if !after.starts_with(before) || after.len() <= before.len() {
            return Err(format!("{session} did not go on from what it was"));
        }
    }
    // The crash again, in the next attempt.
    let wanted = if crash < LIVES { shot.point.clone() } else { "nowhere".to_owned() };
    let shots = house.tidy_watched(&again, Some(wanted))?;
    if house.ask(again.path(), &kept())? != replies {
        return Err("a kept run has another reply after the next attempt".to_owned());
    }
    Ok(shots)
}

#[test]
fn a_crash_while_tidying_loses_nothing_that_is_kept() {
    let house = House::new();
    let root = shelf();
    let old = (0..OLD).map(|number| (SESSION_OLD, format!("old-{number}")));
    house.ask(root.path(), &old.collect::<Vec<_>>()).unwrap();
    let replies = house.ask(root.path(), &kept()).unwrap();

    let mut todo: Vec<(Shot, u32)> = Vec::new();
    todo.extend(house.tidy_watched(&root, None).unwrap().into_iter().map(|shot| (shot, 1)));
    assert_eq!(house.ask(root.path(), &kept()).unwrap(), replies);
    let (mut points, mut cases) = (BTreeSet::new(), 0);
    while let Some((shot, crash)) = todo.pop() {
        let shots = recover(&house, &shot, &replies, crash).unwrap_or_else(|error| {
            panic!("{} (time {}), {crash}: {error}", shot.point, shot.time)
        });
        todo.extend(shots.into_iter().map(|shot| (shot, crash + 1)));
        points.insert(shot.point);
        cases += 1;
    }
    println!("{} points: {points:#?}, {cases} cases", points.len());
    assert!(points.len() >= POINTS_MIN, "{} points", points.len());
    results::record(&results::Row {
        id: "T1, tidying",
        what: "a crash at any step of a rewriting of the journal",
        held: &format!(
            "{} points, {cases} cases: 0 kept runs lost, 0 replies changed",
            points.len()
        ),
        passes: "20 points, 0 violations",
        command: "cargo matrix",
    });
}
