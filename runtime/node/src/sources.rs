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
    /// What is described at present.
    sources: Sources,
    /// What of it the team was made with.
    taken: Sources,
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
        let taken = Sources::from(servers::catalogs(&team, data).await?);
        let sources = taken.clone();
        let mut loaded = Self { text, sources, taken, watched, fault: None };
        if loaded.watched.is_empty() {
            note(&team);
            return Ok((loaded, team));
        }
        loaded.look().await;
        let found = loaded.make().await?;
        let made = match found.team {
            Some(made) => made,
            None => compile(&loaded.text, &loaded.taken).await?.map_err(LoadError::Report)?,
        };
        loaded.fault = found.report.map(|report| told(&team, &report));
        loaded.taken = found.taken;
        note(&made);
        Ok((loaded, made))
    }

    /// Keeps a running team as its sources are, for ever.
    ///
    /// What does not go with the text stays as it was, and the team says why.
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

    /// Makes the team with what is described at present; where that does not go with the text, with
    /// as much of it as does.
    async fn make(&self) -> Result<Found, Error> {
        let report = match compile(&self.text, &self.sources).await? {
            Ok(team) => {
                let taken = self.sources.clone();
                return Ok(Found { team: Some(team), taken, report: None });
            }
            Err(report) => report,
        };
        let mut found = Found { team: None, taken: self.taken.clone(), report: Some(report) };
        for name in self.sources.names() {
            let mut next = found.taken.clone();
            next.take_over(&self.sources, name);
            if next == found.taken {
                continue;
            }
            if let Ok(team) = compile(&self.text, &next).await? {
                found.team = Some(team);
                found.taken = next;
            }
        }
        Ok(found)
    }

    /// Brings a team up to its sources; tells whether there is no use in trying again.
    async fn refresh(&mut self, handle: &TeamHandle) -> bool {
        let before = handle.team();
        // Else the process ends.
        let Ok(Found { team, taken, report }) = self.make().await else { return true };
        let fault = report.map(|report| told(&before, &report));
        let Some(team) = team else {
            if let Some(fault) = fault {
                handle.set_fault(fault);
            }
            return true;
        };
        if team.left_out != before.left_out {
            note(&team);
        }
        let name = team.name.clone();
        match handle.refresh(team).await {
            Ok(changed) => {
                self.taken = taken;
                // The change has taken back what was said before.
                if let Some(fault) = fault {
                    handle.set_fault(fault);
                }
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

/// What could be made of the sources.
struct Found {
    /// The team, unless nothing of what changed can be taken.
    team: Option<Team>,
    taken: Sources,
    /// Why not everything is taken.
    report: Option<Report>,
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
pub(crate) async fn compile(
    text: &Arc<TeamText>,
    sources: &Sources,
) -> Result<Result<Team, Report>, Error> {
    let (text, sources) = (text.clone(), sources.clone());
    spawn_blocking(move || text.compile(&sources)).await.map_err(|_| Error::Ending)
}

/// Says in the log what others describe and cannot be offered.
fn note(team: &Team) {
    for left_out in &team.left_out {
        warn!(team = %team.name, left_out, "a tool is left out");
    }
}

/// Says in the log why a team takes only part of what is described, and returns it.
fn told(team: &Team, report: &Report) -> String {
    let fault = report.render(false);
    error!(
        team = %team.name, fault,
        "the team does not go with what its sources describe, and takes only what does"
    );
    fault
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tools::mcp::{Catalog, Listed};
    use tools::nats::Described;
    use wire::Name;

    use super::*;

    const TEXT: &str = "[models.m]\nprovider = 'scripted'\nscript = 'm.jsonl'\n\
                        [agents.a]\ninstructions = 'i'\nmodel = 'm'\ntools = ['*']\n\
                        [mcp.one]\ncommand = ['one']\ntools = ['*']\n\
                        [mcp.two]\ncommand = ['two']\ntools = ['*']\n\
                        [discover.shop]\nservice = 'shop'\n";

    fn catalog(tools: &[&str], parameters: &Value) -> Catalog {
        let listed = |name: &&str| Listed {
            name: (*name).to_owned(),
            parameters: parameters.clone(),
            ..Listed::default()
        };
        Catalog { tools: tools.iter().map(listed).collect() }
    }

    fn endpoints(count: usize) -> Vec<Described> {
        let described = |index| Described {
            service: "shop".to_owned(),
            endpoint: format!("e{index}"),
            subject: format!("shop.{index}"),
            description: String::new(),
            schema: "{}".to_owned(),
        };
        (0..count).map(described).collect()
    }

    #[tokio::test]
    async fn what_does_not_go_with_the_text_stays_as_it_was_and_the_rest_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("crew.toml");
        std::fs::write(folder.path().join("m.jsonl"), "{\"content\": \"done\"}\n").unwrap();
        std::fs::write(&file, TEXT).unwrap();
        let text = Arc::new(TeamText::read(&file).unwrap());
        let object = json!({"type": "object"});
        let known = catalog(&["a"], &object);
        let more = catalog(&["a", "b"], &object);
        let broken = catalog(&["a"], &json!({"type": "string"}));
        let found_at = |one: &Catalog, two: &Catalog, count| {
            let name = |text| Name::new(text).unwrap();
            Sources {
                mcp: [(name("one"), one.clone()), (name("two"), two.clone())].into(),
                services: [(name("shop"), endpoints(count))].into(),
                ..Sources::default()
            }
        };
        let before = found_at(&known, &known, 1);
        let too_many = config::bound::TOOLS_MAX;
        let cases = [
            (found_at(&more, &more, 2), found_at(&more, &more, 2), true),
            (found_at(&broken, &more, 2), found_at(&known, &more, 2), false),
            (found_at(&more, &broken, 2), found_at(&more, &known, 2), false),
            (found_at(&more, &more, too_many), found_at(&more, &more, 1), false),
            (found_at(&broken, &known, 1), before.clone(), false),
            (found_at(&broken, &broken, too_many), before.clone(), false),
        ];
        for (index, (described, expected, is_whole)) in cases.into_iter().enumerate() {
            let (text, taken) = (text.clone(), before.clone());
            let sourced =
                Sourced { text, sources: described, taken, watched: Vec::new(), fault: None };
            let found = sourced.make().await.unwrap();
            assert_eq!(found.report.is_none(), is_whole, "{index}");
            assert_eq!(found.team.is_some(), expected != before, "{index}");
            assert!(found.taken == expected, "{index}");
            let tools = found.team.map_or(0, |team| team.tools.len());
            let lists = expected.mcp.values().map(|catalog| catalog.tools.len()).sum::<usize>();
            let services = expected.services.values().map(Vec::len).sum::<usize>();
            assert_eq!(tools, if expected == before { 0 } else { lists + services }, "{index}");
        }
    }
}
