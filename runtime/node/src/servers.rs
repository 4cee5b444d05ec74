//! What the MCP servers of a team list, and what of it is pinned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use config::team::McpServer;
use config::{Catalogs, Sources, Team, TeamText};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
use tokio::task::spawn_blocking;
use tools::mcp::{Catalog, Servers, list, pin};
use tracing::{info, warn};
use wire::{ErrorCode, Name, WireError};

use crate::error::Error;
use crate::opening::team_dir;
use crate::sources::{LoadError, Source, compile};

/// The folder of the pinned lists below a team's directory.
const PINS_DIR: &str = "mcp";

/// A server's list as it is pinned and as it is.
#[derive(Clone, Debug)]
pub struct Compared {
    /// What agents are offered, if anything was pinned yet.
    pub pinned: Option<Catalog>,
    /// What the server lists.
    pub listed: Catalog,
}

/// Returns what the MCP servers of a team list, for loading it again.
///
/// That is what is pinned in the data directory, so that no server has to be there. A server of
/// which nothing is pinned is asked, and its answer is pinned; the error names one that does not
/// answer.
pub async fn catalogs(team: &Team, data: &Path) -> Result<Catalogs, Error> {
    let dir = pins_dir(data, &team.name);
    let found = team.servers.iter().map(|(name, server)| {
        let (name, dir) = (name.clone(), dir.clone());
        async move {
            if let Some(pinned) = read(&dir, &name).await? {
                return Ok((name, pinned));
            }
            let listed = ask(&name, server).await?;
            info!(server = %name, tools = listed.tools.len(), "MCP tools are pinned");
            write(&dir, &name, &listed).await?;
            Ok::<_, Error>((name, listed))
        }
    });
    Ok(try_join_all(found).await?.into_iter().collect())
}

/// What is pinned of the servers of a team, which a person may change.
pub(crate) struct Pins {
    dir: PathBuf,
    /// When the file of each server was last written, and its length.
    stamps: BTreeMap<Name, Option<Stamp>>,
}

type Stamp = (SystemTime, u64);

impl Pins {
    pub(crate) fn new(team: &Team, data: &Path) -> Self {
        let dir = pins_dir(data, &team.name);
        let stamps = team.servers.keys().map(|name| (name.clone(), stamp(&dir, name))).collect();
        Self { dir, stamps }
    }

    async fn changed(&mut self, sources: &mut Sources) -> bool {
        let mut is_changed = false;
        for (name, known) in &mut self.stamps {
            let found = stamp(&self.dir, name);
            if found == *known {
                continue;
            }
            match read(&self.dir, name).await {
                Ok(Some(pinned)) => {
                    is_changed |= sources.mcp.get(name) != Some(&pinned);
                    sources.mcp.insert(name.clone(), pinned);
                    *known = found;
                }
                // Nothing is approved by a list that is gone.
                Ok(None) => *known = found,
                // What cannot be read at present is looked at again.
                Err(error) => warn!(server = %name, %error, "the pinned tools stay as they were"),
            }
        }
        is_changed
    }
}

impl Source for Pins {
    fn look<'a>(&'a mut self, sources: &'a mut Sources) -> BoxFuture<'a, bool> {
        self.changed(sources).boxed()
    }
}

/// Tells which writing of a pinned list is on the disk.
fn stamp(dir: &Path, server: &Name) -> Option<Stamp> {
    let metadata = std::fs::metadata(pin::file(dir, server)).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Asks a server what it lists, beside what is pinned of it.
pub async fn compare(team: &Team, data: &Path, server: &Name) -> Result<Compared, Error> {
    let pinned = read(&pins_dir(data, &team.name), server).await?;
    let listed = ask(server, known(team, server)?).await?;
    Ok(Compared { pinned, listed })
}

/// Pins what a server lists, in place of what was pinned of it.
///
/// A list with which the text of the team cannot be made is not pinned; the error is the report.
pub async fn approve(
    team: &Team,
    data: &Path,
    server: &Name,
    listed: &Catalog,
) -> Result<(), LoadError> {
    let dir = pins_dir(data, &team.name);
    let text = Arc::new(TeamText::read(&team.file).map_err(LoadError::Report)?);
    let mut pinned = Catalogs::new();
    for name in team.servers.keys() {
        pinned.extend(read(&dir, name).await?.map(|pinned| (name.clone(), pinned)));
    }
    let before = Sources::from(pinned.clone());
    pinned.insert(server.clone(), listed.clone());
    if let Err(report) = compile(&text, &pinned.into()).await? {
        if compile(&text, &before).await?.is_ok() {
            return Err(LoadError::Report(report));
        }
        // The lists of several servers may have to change, which are approved one by one.
        let alone = Catalogs::from([(server.clone(), listed.clone())]);
        compile(&text, &alone.into()).await?.map_err(LoadError::Report)?;
    }
    Ok(write(&dir, server, listed).await?)
}

/// Starts to connect to all servers of a team.
pub(crate) fn start(team: &Team, http: &reqwest::Client) -> Result<Servers, Error> {
    if let Some(server) = team.unlisted().next() {
        let text = format!("load the team with what its MCP servers list: {server} is not known");
        return Err(prepare(WireError::new(ErrorCode::Internal, text)));
    }
    let known = team.servers.iter().filter_map(|(name, server)| {
        Some((name.clone(), server.spec.clone(), server.catalog.clone()?))
    });
    Ok(Servers::start(known.collect(), http))
}

fn known<'t>(team: &'t Team, server: &Name) -> Result<&'t McpServer, Error> {
    team.servers.get(server).ok_or_else(|| {
        let names: Vec<&str> = team.servers.keys().map(Name::as_str).collect();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let text = format!("team {} has no MCP server {server}; it has {has}", team.name);
        prepare(WireError::new(ErrorCode::BadRequest, text))
    })
}

async fn ask(name: &Name, server: &McpServer) -> Result<Catalog, Error> {
    let http = tools::client::http_client().map_err(prepare)?;
    list(name, &server.spec, &http).await.map_err(prepare)
}

async fn read(dir: &Path, server: &Name) -> Result<Option<Catalog>, Error> {
    let (dir, server) = (dir.to_owned(), server.clone());
    let read = spawn_blocking(move || pin::read(&dir, &server)).await;
    read.map_err(|_| Error::Ending)?.map_err(prepare)
}

async fn write(dir: &Path, server: &Name, catalog: &Catalog) -> Result<(), Error> {
    let (dir, server, catalog) = (dir.to_owned(), server.clone(), catalog.clone());
    let written = spawn_blocking(move || {
        pin::write(&dir, &server, &catalog)?;
        if let Some(data) = dir.parent() {
            journal::hand_back(data);
        }
        Ok(())
    });
    written.await.map_err(|_| Error::Ending)?.map_err(prepare)
}

fn prepare(error: WireError) -> Error {
    Error::Prepare { what: "the MCP servers".to_owned(), error }
}

fn pins_dir(data: &Path, team: &Name) -> PathBuf {
    team_dir(data, team).join(PINS_DIR)
}
