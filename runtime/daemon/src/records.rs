//! Look-ups of one team: in its own files, or at the daemon that holds them.

use node::Archive;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;
use wire::{ErrorCode, Name, SessionId};

use crate::client::Client;
use crate::failure::Failure;
use crate::place::{Place, looker};
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

/// What those answered who were asked the same, and why others did not.
pub(crate) struct Answers<T> {
    found: Vec<T>,
    failed: Vec<(String, Failure)>,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        Self { found: Vec::new(), failed: Vec::new() }
    }
}

impl<T> Answers<T> {
    /// Takes the answer of somebody.
    pub(crate) fn take(&mut self, who: String, answer: Result<T, Failure>) {
        match answer {
            Ok(found) => self.found.push(found),
            Err(failure) => self.failed.push((who, failure)),
        }
    }

    /// Returns the answers, and those who gave none with what kept them from it. Fails if all of
    /// them failed.
    pub(crate) fn sorted(self) -> Result<(Vec<T>, Vec<Failure>), Failure> {
        let several = self.found.len() + self.failed.len() > 1;
        let named = self.failed.into_iter();
        let named = named.map(|(who, failure)| if several { failure.of(&who) } else { failure });
        let mut failed: Vec<Failure> = named.collect();
        if self.found.is_empty() && !failed.is_empty() {
            return Err(failed.remove(0));
        }
        Ok((self.found, failed))
    }

    /// Returns the answers, and tells of those who gave none. Fails if all of them failed.
    pub(crate) fn close(self, screen: &Screen) -> Result<Vec<T>, Failure> {
        let (found, failed) = self.sorted()?;
        for failure in failed {
            screen::note(&failure.render(screen.err.paint));
        }
        Ok(found)
    }
}

impl Records {
    /// Opens the records of a team.
    pub(crate) async fn open(place: &Place, team: &Name) -> Result<Self, Failure> {
        let source = match Client::of_holder(place, team)? {
            Some(client) => Source::Daemon(client),
            None => Source::Files(Box::new(open_files(place, team).await?)),
        };
        Ok(Self { team: team.clone(), source })
    }

    /// Reads the records of a team at a daemon.
    pub(crate) fn at(client: Client, team: Name) -> Self {
        Self { team, source: Source::Daemon(client) }
    }

    /// Asks the team that was named, or all that have data, one after the other. The files of each
    /// are held no longer than it is asked, so that a daemon can take them.
    ///
    /// Of several teams, one that cannot be asked is told of and left out.
    pub(crate) async fn ask_all<T>(
        place: &Place,
        named: Option<&Name>,
        screen: &Screen,
        ask: impl AsyncFn(&Self) -> Result<T, Failure>,
    ) -> Result<Vec<Of<T>>, Failure> {
        let mut answers = Answers::default();
        for team in place.teams(named)? {
            let answer = async { ask(&Self::open(place, &team).await?).await }.await;
            let who = format!("team {team}");
            answers.take(who, answer.map(|found| Of { team, found }));
        }
        answers.close(screen)
    }

    /// Looks for something in the team that was named, or in all that have data, until it is found.
    pub(crate) async fn find<T>(
        place: &Place,
        named: Option<&Name>,
        screen: &Screen,
        look: impl AsyncFn(&Self) -> Result<Option<T>, Failure>,
    ) -> Result<Option<Of<T>>, Failure> {
        let mut answers = Answers::default();
        for team in place.teams(named)? {
            let answer = async { look(&Self::open(place, &team).await?).await }.await;
            match answer {
                Ok(Some(found)) => return Ok(Some(Of { team, found })),
                answer => answers.take(format!("team {team}"), answer),
            }
        }
        answers.close(screen).map(|_| None)
    }

    /// Tells whether the records are read in the files of the team.
    pub(crate) const fn is_of_files(&self) -> bool {
        matches!(self.source, Source::Files(_))
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
                found.complete(|take| archive.each_event(id, take))?;
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

/// Opens the files of a team for a look. That may wait for another one, which must not keep whoever
/// awaits it from hearing that it is told to end.
pub(crate) async fn open_files(place: &Place, team: &Name) -> Result<Archive, Failure> {
    let (dir, team) = (place.dir().to_owned(), team.clone());
    match spawn_blocking(move || Archive::open(&dir, &team, &looker())).await {
        Ok(opened) => Ok(opened?),
        Err(error) => Err(Failure::new(ErrorCode::Internal, format!("open the files: {error}"))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_left_out_unless_nobody_does() {
        let refused = || Failure::new(ErrorCode::NotSignedIn, "no token");
        let cases: [(&[bool], bool, &[&str]); 5] = [
            (&[], true, &[]),
            (&[true, true], true, &[]),
            (&[true, false], true, &["E1014 team 1: no token"]),
            (&[false], false, &["E1014 no token"]),
            (&[false, false], false, &["E1014 team 0: no token"]),
        ];
        for (answers, is_answered, expected) in cases {
            let mut asked = Answers::default();
            for (n, answered) in answers.iter().enumerate() {
                let answer = if *answered { Ok(()) } else { Err(refused()) };
                asked.take(format!("team {n}"), answer);
            }
            let (answered, failed) = match asked.sorted() {
                Ok((_, failed)) => (true, failed),
                Err(failure) => (false, vec![failure]),
            };
            let told: Vec<String> = failed.iter().map(ToString::to_string).collect();
            assert_eq!(answered, is_answered, "{answers:?}");
            assert_eq!(told, expected, "{answers:?}");
        }
    }
}
