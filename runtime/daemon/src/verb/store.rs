//! `callboard store`: checks what is stored, or makes the look-up store anew.

use node::{Archive, store_dir, team_dir};
use serde_json::json;
use store::Store;
use wire::{ErrorCode, Name};

use crate::args::{self, Stored};
use crate::failure::{Exit, Failure};
use crate::place::{Place, holder};
use crate::screen::Screen;
use crate::text;

/// Does what was asked with the data of one team.
pub(crate) fn store(args: &args::Store, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    match args {
        args::Store::Verify(stored) => verify(stored, place, screen),
        args::Store::Rebuild(stored) => rebuild(stored, place, screen),
    }
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
    let report = journal::verify(&team_dir(place.dir(), &team))?;
    // A store in use is its holder's to read, who checks it as it opens it.
    let (records, damage) = match place.holder(&team)? {
        Some(_) => (None, None),
        None => {
            let lock =
                journal::DataLock::acquire(&team_dir(place.dir(), &team), &holder("verify"))?;
            let found = check(&store_dir(place.dir(), &team));
            drop(lock);
            found
        }
    };
    let sound = report.damage.is_empty() && damage.is_none();
    if stored.json {
        screen.json(&json!({
            "team": team,
            "sound": sound,
            "journal": report,
            "store": {"records": records, "damage": damage},
        }));
        return Ok(if sound { Exit::Done } else { Exit::Failed });
    }
    let paint = screen.out.paint;
    let mut out = format!(
        "journal of {team}: {} segments, {} commits, {} entries of {} sessions, {} bytes\n",
        text::count(report.segments),
        text::count(report.commits),
        text::count(report.entries),
        text::count(report.sessions),
        text::count(report.bytes),
    );
    if report.torn_tail_bytes > 0 {
        out.push_str(&format!(
            "  {} bytes at its end are unfinished, nobody was told that they are kept\n",
            text::count(report.torn_tail_bytes)
        ));
    }
    for damage in &report.damage {
        let sessions: Vec<&str> = damage.sessions.iter().map(AsRef::as_ref).collect();
        let place = format!("{} at byte {}: {}", damage.segment, damage.offset, damage.what);
        out.push_str(&format!(
            "  {} {place}; sessions {}\n",
            paint.red("damaged"),
            sessions.join(", ")
        ));
    }
    match (records, &damage) {
        (Some(records), _) => {
            out.push_str(&format!("store of {team}: {} records\n", text::count(records)));
        }
        (None, Some(damage)) => out.push_str(&format!(
            "store of {team}: {} {damage}; it is made anew at the next start, or by `callboard \
             store rebuild`\n",
            paint.red("damaged")
        )),
        (None, None) => out.push_str(&format!("store of {team}: in use, not read\n")),
    }
    out.push_str(if sound { "sound\n" } else { "damaged\n" });
    screen.answer(&out);
    Ok(if sound { Exit::Done } else { Exit::Failed })
}

/// Reads every record of a store; one that was replaced on opening was damaged.
fn check(dir: &std::path::Path) -> (Option<u64>, Option<String>) {
    let checked = Store::open(dir).and_then(|(store, opened)| Ok((store.verify()?, opened)));
    match checked {
        Ok((_, store::Opened::Replaced { reason, moved_to })) => {
            (None, Some(format!("{reason} (moved to {})", moved_to.display())))
        }
        Ok((records, store::Opened::Ready | store::Opened::Fresh)) => (Some(records), None),
        Err(error) => (None, Some(error.to_string())),
    }
}

fn rebuild(stored: &Stored, place: &Place, screen: &Screen) -> Result<Exit, Failure> {
    let team = team(stored, place, screen)?;
    let dir = store_dir(place.dir(), &team);
    {
        let team_dir = team_dir(place.dir(), &team);
        let _lock = journal::DataLock::acquire(&team_dir, &holder("store rebuild"))?;
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
        screen.json(&json!({"team": team, "records": records, "damaged_sessions": damaged}));
    } else {
        let records = text::count(records);
        screen.answer(&format!("store of {team}: made anew from the journal, {records} records"));
        for session in damaged {
            screen.answer(&format!("  session {session} cannot be read and is left out"));
        }
    }
    Ok(if damaged.is_empty() { Exit::Done } else { Exit::Failed })
}
