//! The files of event types of a team, which others write while it runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::{Sources, Team};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::task::spawn_blocking;
use tools::cloudevent::types::{EventTypes, Stamp, stamp};
use tracing::warn;
use wire::Name;

use crate::sources::Source;

/// The files of all sources of event types of a team.
pub(crate) struct EventFiles {
    watched: BTreeMap<Name, Watched>,
}

struct Watched {
    path: PathBuf,
    /// Which writing of the files was read last.
    known: Option<Stamp>,
    /// Whether it was said that they cannot be read.
    is_told: bool,
}

impl EventFiles {
    pub(crate) fn new(team: &Team) -> Self {
        let watched = team.events.iter().map(|(name, events)| {
            let path = events.path.clone();
            (name.clone(), Watched { path, known: None, is_told: false })
        });
        Self { watched: watched.collect() }
    }

    async fn changed(&mut self, sources: &mut Sources) -> bool {
        let mut is_changed = false;
        for (name, watched) in &mut self.watched {
            let (path, known) = (watched.path.clone(), watched.known.clone());
            let Ok(read) = spawn_blocking(move || read(&path, known.as_ref())).await else {
                continue;
            };
            match read {
                Ok(Some((stamp, found))) => {
                    is_changed |= sources.events.get(name) != Some(&found);
                    sources.events.insert(name.clone(), found);
                    watched.known = Some(stamp);
                    watched.is_told = false;
                }
                Err(error) if !watched.is_told => {
                    let path = watched.path.display();
                    warn!(source = %name, %path, %error, "the event types stay as they were");
                    watched.is_told = true;
                }
                Ok(None) | Err(_) => {}
            }
        }
        is_changed
    }
}

impl Source for EventFiles {
    fn look<'a>(&'a mut self, sources: &'a mut Sources) -> BoxFuture<'a, bool> {
        self.changed(sources).boxed()
    }
}

/// Reads the files if they are not those that are known. Blocks on the disk.
fn read(path: &Path, known: Option<&Stamp>) -> std::io::Result<Option<(Stamp, EventTypes)>> {
    // Taken before the files are read, so that what is written meanwhile is read next time.
    let now = stamp(path)?;
    if known == Some(&now) {
        return Ok(None);
    }
    Ok(Some((now, EventTypes::load(path)?)))
}
