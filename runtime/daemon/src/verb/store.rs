//! `callboard store`: checks what is stored, or makes the look-up store anew.

use std::path::Path;

use journal::{DataLock, Report};
use node::{Archive, store_dir, team_dir};
use serde_json::json;
use store::{Opened, Store};
use wire::{ErrorCode, Name};

use crate::args::{self, Compact, Stored};
use crate::failure::{Exit, Failure};
use crate::paint::Paint;
use crate::place::{Place, holder};
use crate::screen::{self, Screen};
use crate::text;

/// Does what was asked with the data of one team.
pub(crate) async fn store(
    args: &args::Store,
    place: &Place,
    screen: &Screen,
) -> Result<Exit, Failure> {
    match args {
        args::Store::Verify(stored) => verify(stored, place, screen),
        args::Store::Rebuild(stored) => rebuild(stored, place, screen),
        args::Store::Compact(args) => compact(args, place, screen).await,
    }
}

async fn compact(args: &Compact, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let team = super::load(&args.file, screen.err.paint)?;
    place.teams(Some(&team.name))?;
    let archive = Archive::open(place.dir(), &team.name, &holder("store compact"))?;
    let done = archive.compact(&team.retention, node::now()).await?;
    if args.json {
        screen::json(&json!({"team": team.name, "compacted": done}))?;
    } else {
        let lines = [
            format!(
                "journal of {}: {} bytes, {} before; {} sessions shortened, {} forgotten",
                team.name,
                text::count(done.bytes_after),
                text::count(done.bytes_before),
                text::count(done.sessions_shortened),
                text::count(done.sessions_forgotten),
            ),
            format!("blobs: {} removed", text::count(done.blobs.removed)),
            format!("store: {} records dropped", text::count(done.records_dropped)),
        ];
        screen::answer(&lines.join("\n"))?;
    }
    Ok(Exit::Done)
}

fn team(stored: &Stored, place: &Place, screen: &Screen) -> Result<Name, Failure> {
    let team = match (&stored.file, &stored.team) {
        (Some(file), _) => super::load(file, screen.err.paint)?.name,
        (None, Some(team)) => team.clone(),
        (None, None) => {
            return Err(Failure::new(ErrorCode::BadRequest, "name a team file or --team"));
        }
    };
    place.teams(Some(&team))?;
    Ok(team)
}

fn verify(stored: &Stored, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let team = team(stored, place, screen)?;
    let report = node::verify(place.dir(), &team)?;
    // A store in use is its holder's to read, who checks it as it opens it.
    let store = if place.holder(&team)?.is_some() {
        Checked::InUse
    } else {
        let dir = team_dir(place.dir(), &team);
        let _lock = DataLock::acquire(&dir, &holder("store verify"))?;
        check(&store_dir(place.dir(), &team))
    };
    let sound = report.damage.is_empty() && !matches!(store, Checked::Damaged(_));
    if stored.json {
        let (records, damage) = match &store {
            Checked::InUse => (None, None),
            Checked::Sound(records) => (Some(records), None),
            Checked::Damaged(damage) => (None, Some(damage)),
        };
        screen::json(&json!({
            "team": team,
            "sound": sound,
            "journal": report,
            "store": {"records": records, "damage": damage},
        }))?;
    } else {
        screen::answer(&render(&team, &report, &store, screen.out.paint))?;
    }
    Ok(if sound { Exit::Done } else { Exit::Failed })
}

fn render(team: &Name, report: &Report, store: &Checked, paint: Paint) -> String {
    let mut lines = vec![format!(
        "journal of {team}: {} segments, {} commits, {} entries of {} sessions, {} bytes of which {} \
         are held",
        text::count(report.segments),
        text::count(report.commits),
        text::count(report.entries),
        text::count(report.sessions),
        text::count(report.bytes),
        text::count(report.live_bytes),
    )];
    if report.torn_tail_bytes > 0 {
        let bytes = text::count(report.torn_tail_bytes);
        lines.push(format!("  {bytes} bytes at its end are unfinished; nobody was told of them"));
    }
    for damage in &report.damage {
        let sessions: Vec<&str> = damage.sessions.iter().map(AsRef::as_ref).collect();
        lines.push(format!(
            "  {} {} at byte {}: {}; sessions {}",
            paint.red("damaged"),
            damage.segment,
            damage.offset,
            damage.what,
            sessions.join(", ")
        ));
    }
    lines.push(match store {
        Checked::Sound(records) => format!("store of {team}: {} records", text::count(*records)),
        Checked::InUse => format!("store of {team}: in use, not read"),
        Checked::Damaged(damage) => format!(
            "store of {team}: {} {damage}; it is made anew at the next start, or by `callboard \
             store rebuild`",
            paint.red("damaged")
        ),
    });
    let sound = report.damage.is_empty() && !matches!(store, Checked::Damaged(_));
    lines.push(if sound { paint.green("sound") } else { paint.red("damaged") });
    lines.join("\n")
}

/// What a check of a store found.
enum Checked {
    InUse,
    Sound(u64),
    Damaged(String),
}

/// Reads every record of a store; one that was replaced on opening was damaged.
fn check(dir: &Path) -> Checked {
    let checked = Store::open(dir).and_then(|(store, opened)| Ok((store.verify()?, opened)));
    match checked {
        Ok((_, Opened::Replaced { reason, moved_to })) => {
            Checked::Damaged(format!("{reason} (moved to {})", moved_to.display()))
        }
        Ok((records, Opened::Ready | Opened::Fresh)) => Checked::Sound(records),
        Err(error) => Checked::Damaged(error.to_string()),
    }
}

fn rebuild(stored: &Stored, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let team = team(stored, place, screen)?;
    let dir = store_dir(place.dir(), &team);
    {
        let team_dir = team_dir(place.dir(), &team);
        let _lock = DataLock::acquire(&team_dir, &holder("store rebuild"))?;
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let text = format!("delete {}: {error}", dir.display());
                return Err(Failure::new(ErrorCode::StorageFailed, text));
            }
            _ => {}
        }
    }
    let archive = Archive::open(place.dir(), &team, &holder("store rebuild"))?;
    let records = archive.store().verify()?;
    let damaged = archive.damaged();
    if stored.json {
        screen::json(&json!({"team": team, "records": records, "damaged_sessions": damaged}))?;
    } else {
        let records = text::count(records);
        screen::answer(&format!("store of {team}: made anew from the journal, {records} records"))?;
        for session in damaged {
            screen::answer(&format!("  session {session} cannot be read and is left out"))?;
        }
    }
    Ok(if damaged.is_empty() { Exit::Done } else { Exit::Failed })
}
