//! Looks for a trace in the data of teams, or at the daemons that hold them.

use std::collections::HashMap;
use std::time::SystemTime;

use gateway::view::TraceView;
use wire::Name;

use super::Found;
use crate::failure::Failure;
use crate::place::Place;
use crate::records::{Answers, Records};
use crate::screen::Screen;

/// The teams of a data directory, which may be looked into again and again.
///
/// No look holds files longer than it reads them, so that a daemon can take them meanwhile.
pub(super) struct Teams<'p> {
    pub(super) place: &'p Place,
    pub(super) named: Option<&'p Name>,
    /// What the files of a team said, and when they were taken to be read. They say the same until
    /// somebody takes them again.
    read: HashMap<Name, (SystemTime, Option<TraceView>)>,
    /// Why teams could not be looked into the last time, and whether that was told.
    failed: Vec<(Failure, bool)>,
}

impl<'p> Teams<'p> {
    pub(super) fn new(place: &'p Place, named: Option<&'p Name>) -> Self {
        Self { place, named, read: HashMap::new(), failed: Vec::new() }
    }

    /// Looks for a trace. Fails if no team can be looked into.
    pub(super) async fn find(&mut self, id: &str) -> Result<Option<Found>, Failure> {
        let mut answers = Answers::default();
        for team in self.place.teams(self.named)? {
            match self.look(&team, id).await {
                Ok(Some(view)) => return Ok(Some(Found { team: Some(team), view })),
                answer => answers.take(format!("team {team}"), answer),
            }
        }
        let (_, failed) = answers.sorted()?;
        let told = |failure: &Failure| {
            let text = failure.to_string();
            self.failed.iter().any(|(known, told)| *told && known.to_string() == text)
        };
        let failed = failed.into_iter().map(|failure| (told(&failure), failure));
        self.failed = failed.map(|(told, failure)| (failure, told)).collect();
        Ok(None)
    }

    async fn look(&mut self, team: &Name, id: &str) -> Result<Option<TraceView>, Failure> {
        if let Some((read, view)) = self.read.get(team)
            && self.place.taken(team) == Some(*read)
            && self.place.holder(team)?.is_none()
        {
            return Ok(view.clone());
        }
        let records = Records::open(self.place, team).await?;
        let view = records.trace(id).await?;
        self.read.remove(team);
        // As long as they are held, nobody else can have taken them.
        if records.is_of_files()
            && let Some(taken) = self.place.taken(team)
        {
            self.read.insert(team.clone(), (taken, view.clone()));
        }
        Ok(view)
    }

    /// Returns what is to be told of teams that could not be looked into, once for each reason.
    pub(super) fn notes(&mut self, screen: &Screen) -> Vec<String> {
        let untold = self.failed.iter_mut().filter(|(_, told)| !told);
        let notes = untold.map(|(failure, told)| {
            *told = true;
            failure.render(screen.err.paint)
        });
        notes.collect()
    }
}
