//! Look-ups of one team: in its own files, or at the daemon that holds them.

use node::Archive;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::{ErrorCode, Name, SessionId};

use crate::client::Client;
use crate::failure::Failure;
use crate::place::{Place, holder};
use crate::screen::{self, Screen};
use gateway::TraceFilter;
use gateway::view::{self, FactList, RunList, SessionList, SessionView, TraceList, TraceView};

/// Where the records of a team are read.
pub(crate) struct Records {
    /// The team.
    pub(crate) team: Name,
    source: Source,
}

enum Source {
    Files(Box<Archive>),
    Daemon(Client),
}

/// Something of one team.
#[derive(Debug, Serialize)]
pub(crate) struct Of<T> {
    /// The team.
    pub(crate) team: Name,
    /// What was found in it.
    #[serde(flatten)]
    pub(crate) found: T,
}

impl Records {
    /// Opens the records of a team.
    pub(crate) fn open(place: &Place, team: &Name) -> Result<Self, Failure> {
        let source = match Client::of_holder(place, team)? {
            Some(client) => Source::Daemon(client),
            None => Source::Files(Box::new(Archive::open(place.dir(), team, &holder("look-up"))?)),
        };
        Ok(Self { team: team.clone(), source })
    }

    /// Reads the records of a team at a daemon.
    pub(crate) fn at(client: Client, team: Name) -> Self {
        Self { team, source: Source::Daemon(client) }
    }

    /// Opens the records of the team that was named, or of all that have data.
    ///
    /// Of several teams, one that cannot be read is told of and left out.
    pub(crate) fn open_all(
        place: &Place,
        named: Option<&Name>,
        screen: &Screen,
    ) -> Result<Vec<Self>, Failure> {
        let teams = place.teams(named)?;
        let mut records = Vec::with_capacity(teams.len());
        let several = teams.len() > 1;
        for team in &teams {
            match Self::open(place, team) {
                Ok(opened) => records.push(opened),
                Err(failure) if several => screen::note(&failure.render(screen.err.paint)),
                Err(failure) => return Err(failure),
            }
        }
        Ok(records)
    }

    /// Lists the newest runs.
    pub(crate) async fn runs(&self, limit: usize) -> Result<RunList, Failure> {
        match &self.source {
            Source::Files(archive) => Ok(view::runs(archive.store(), limit)?),
            Source::Daemon(client) => self.list(client, "runs", limit).await,
        }
    }

    /// Lists the sessions that were active last.
    pub(crate) async fn sessions(&self, limit: usize) -> Result<SessionList, Failure> {
        match &self.source {
            Source::Files(archive) => Ok(view::sessions(archive.store(), limit)?),
            Source::Daemon(client) => self.list(client, "sessions", limit).await,
        }
    }

    /// Looks up a session with what was said in it.
    pub(crate) async fn session(&self, id: &SessionId) -> Result<Option<SessionView>, Failure> {
        match &self.source {
            Source::Files(archive) => {
                let Some(mut found) = view::session(archive.store(), id)? else { return Ok(None) };
                found.complete(&archive.events(id)?);
                Ok(Some(found))
            }
            Source::Daemon(client) => {
                known(client.get(&self.path(&format!("sessions/{id}")), &[]).await)
            }
        }
    }

    /// Finds the newest traces that fit, up to the limit of the filter.
    pub(crate) async fn traces(&self, filter: &TraceFilter) -> Result<TraceList, Failure> {
        let mut filter = filter.clone();
        let limit = filter.limit.unwrap_or(gateway::LIST_DEFAULT);
        let mut found = TraceList::default();
        // One look-up looks at so many traces and no more, and says where to go on.
        loop {
            filter.limit = Some(limit - found.traces.len());
            let list = self.some_traces(&filter).await?;
            found.traces.extend(list.traces);
            (found.next, found.dropped) = (list.next, list.dropped);
            if found.next.is_none() || found.traces.len() >= limit {
                return Ok(found);
            }
            filter.after.clone_from(&found.next);
        }
    }

    async fn some_traces(&self, filter: &TraceFilter) -> Result<TraceList, Failure> {
        match &self.source {
            Source::Files(archive) => {
                let query =
                    filter.query().map_err(|text| Failure::new(ErrorCode::BadRequest, text))?;
                let limit = filter.limit.unwrap_or(gateway::LIST_DEFAULT);
                Ok(view::traces(archive.store(), &query, limit)?)
            }
            Source::Daemon(client) => {
                let pairs = filter.pairs();
                let pairs: Vec<(&str, String)> =
                    pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
                client.get(&self.path("traces"), &pairs).await
            }
        }
    }

    /// Looks up a trace by its id, the first digits of its id, or a run.
    pub(crate) async fn trace(&self, id: &str) -> Result<Option<TraceView>, Failure> {
        // What is no name is no id either, and must not reach into another path.
        if Name::new(id).is_err() {
            return Ok(None);
        }
        match &self.source {
            Source::Files(archive) => Ok(view::trace(archive.store(), id)?),
            Source::Daemon(client) => {
                known(client.get(&self.path(&format!("traces/{id}")), &[]).await)
            }
        }
    }

    /// Finds facts by words; without words, the newest.
    pub(crate) async fn memory(&self, query: &str, limit: usize) -> Result<FactList, Failure> {
        match &self.source {
            Source::Files(archive) => Ok(view::memory(archive.store(), query, limit)?),
            Source::Daemon(client) => {
                let query = [("query", query.to_owned()), ("limit", limit.to_string())];
                client.get(&self.path("memory"), &query).await
            }
        }
    }

    async fn list<T: DeserializeOwned>(
        &self,
        client: &Client,
        what: &str,
        limit: usize,
    ) -> Result<T, Failure> {
        client.get(&self.path(what), &[("limit", limit.to_string())]).await
    }

    fn path(&self, what: &str) -> String {
        format!("/v1/teams/{}/{what}", self.team)
    }
}

/// Turns what is not known into nothing, so that other teams can be asked.
pub(crate) fn known<T>(found: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Failure::Error(error))
            if matches!(error.code, ErrorCode::UnknownRun | ErrorCode::UnknownSession) =>
        {
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}
