//! Watches those who describe tools of a team, and makes the team anew when they change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use config::{Report, Sources, Team, TeamText};
use futures_util::future::BoxFuture;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{error, info, warn};
use wire::Subjects;

use crate::error::Error;
use crate::event_files::EventFiles;
use crate::servers::{self, Pins};
use crate::services::Services;
use crate::team_handle::TeamHandle;

/// How often sources are looked at. A look costs little, and who approves a tool or starts a
/// service does not wait long for it; what changes within this time is one change.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Somebody who describes tools and may describe others tomorrow.
pub(crate) trait Source: Send + Sync {
    /// Puts what is described at present into the sources, and tells whether that changed them.
    ///
    /// What cannot be seen at present stays as it was.
    fn look<'a>(&'a mut self, sources: &'a mut Sources) -> BoxFuture<'a, bool>;
}

/// Why a team cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Its text is wrong, or does not go with what others describe.
    #[error("{0}")]
    Report(Report),
    /// Somebody who describes tools cannot be asked.
    #[error(transparent)]
    Node(#[from] Error),
}

/// The text of a team together with those who describe its tools.
pub struct Sourced {
    text: Arc<TeamText>,
    sources: Sources,
    watched: Vec<Box<dyn Source>>,
    fault: Option<String>,
}

impl Sourced {
    /// Reads a team file, and makes the team with what others describe at present.
    ///
    /// MCP servers are known by what is pinned of them in the data directory; one of which nothing
    /// is pinned is asked. Services are looked for on the bus, if there is one. Where what comes and
    /// goes by itself does not go with the text, the team is made without it.
    pub async fn load(
        file: &Path,
        data: &Path,
        bus: Option<(&Bus, &Subjects)>,
    ) -> Result<(Self, Team), LoadError> {
        let text = Arc::new(TeamText::read(file).map_err(LoadError::Report)?);
        let team = compile(&text, &Sources::default()).await?.map_err(LoadError::Report)?;
        // Watched from before they are read, so that no change between the two is missed.
        let watched = watched(&team, data, bus);
        let sources = Sources::from(servers::catalogs(&team, data).await?);
        let mut loaded = Self { text, sources, watched, fault: None };
        if loaded.watched.is_empty() {
            note(&team);
            return Ok((loaded, team));
        }
        let lasting = loaded.sources.clone();
        loaded.look().await;
        let made = match compile(&loaded.text, &loaded.sources).await? {
            Err(report) if lasting != loaded.sources => {
                loaded.fault = Some(told(&team, &report));
                compile(&loaded.text, &lasting).await?
            }
            made => made,
        };
        let made = made.map_err(LoadError::Report)?;
        note(&made);
        Ok((loaded, made))
    }

    /// Keeps a running team as its sources are, for ever.
    ///
    /// Where they do not go with the text, the team stays as it was and says why.
    pub async fn watch(mut self, team: TeamHandle) {
        if let Some(fault) = self.fault.take() {
            team.set_fault(fault);
        }
        let mut is_due = false;
        while !self.watched.is_empty() {
            sleep(LOOK_INTERVAL).await;
            if self.look().await || is_due {
                is_due = !self.refresh(&team).await;
            }
        }
    }

    async fn look(&mut self) -> bool {
        let mut is_changed = false;
        for source in &mut self.watched {
            is_changed |= source.look(&mut self.sources).await;
        }
        is_changed
    }

    /// Brings a team up to its sources; tells whether there is no use in trying again.
    async fn refresh(&self, handle: &TeamHandle) -> bool {
        let before = handle.team();
        let team = match compile(&self.text, &self.sources).await {
            Ok(Ok(team)) => team,
            Ok(Err(report)) => {
                handle.set_fault(told(&before, &report));
                return true;
            }
            // The process ends.
            Err(_) => return true,
        };
        if team.left_out != before.left_out {
            note(&team);
        }
        let name = team.name.clone();
        match handle.refresh(team).await {
            Ok(changed) => {
                info!(
                    team = %name, added = ?changed.added, changed = ?changed.changed,
                    gone = ?changed.gone, "the tools of the team changed"
                );
                true
            }
            Err(failed) => {
                error!(team = %name, error = %failed, "the tools of the team cannot be changed");
                handle.set_fault(failed.to_string());
                false
            }
        }
    }
}

/// Returns those who may describe other tools of the team tomorrow.
fn watched(team: &Team, data: &Path, bus: Option<(&Bus, &Subjects)>) -> Vec<Box<dyn Source>> {
    let mut watched: Vec<Box<dyn Source>> = Vec::new();
    if !team.events.is_empty() {
        watched.push(Box::new(EventFiles::new(team)));
    }
    if !team.servers.is_empty() {
        watched.push(Box::new(Pins::new(team, data)));
    }
    if let Some((bus, subjects)) = bus.filter(|_| !team.discover.is_empty()) {
        watched.push(Box::new(Services::new(team, bus, subjects)));
    }
    watched
}

/// Makes the team of a text, which may read files.
async fn compile(text: &Arc<TeamText>, sources: &Sources) -> Result<Result<Team, Report>, Error> {
    let (text, sources) = (text.clone(), sources.clone());
    spawn_blocking(move || text.compile(&sources)).await.map_err(|_| Error::Ending)
}

/// Says in the log what others describe and cannot be offered.
fn note(team: &Team) {
    for left_out in &team.left_out {
        warn!(team = %team.name, left_out, "a tool is left out");
    }
}

/// Says in the log why a team stays as it is, and returns it.
fn told(team: &Team, report: &Report) -> String {
    let fault = report.render(false);
    error!(
        team = %team.name, fault,
        "the team does not go with what its sources describe, and stays as it was"
    );
    fault
}
