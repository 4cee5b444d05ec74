//! Looks for traces on the shelf, in segments that may have them.

use wire::RunId;

use crate::error::Error;
use crate::run;
use crate::shelf::Shelf;
use crate::trace::query::{self, TracePage, TraceQuery};
use crate::trace::row::Summary;
use crate::trace::stored;
use crate::trace::told::TracePart;
use crate::trace::{self, Digits, TraceId};

impl Shelf {
    /// Finds traces, the newest first.
    pub(crate) fn find(&self, query: &TraceQuery, limit: usize) -> Result<TracePage, Error> {
        query::find(&self.segments, query, limit)
    }

    /// Finds the one trace that a run is in, if it is one that is looked for.
    pub(crate) fn find_one(&self, query: &TraceQuery, trace: &TraceId) -> Result<TracePage, Error> {
        let mut page = TracePage::default();
        if let Some(summary) = self.summary(trace)? {
            page.scanned += 1;
            page.rows.extend(query.fits(&summary).then_some(summary.row));
        }
        Ok(page)
    }

    /// Returns who tells of a trace; nobody if it is not known.
    pub(crate) fn parts(&self, trace: &TraceId) -> Result<Vec<TracePart>, Error> {
        Ok(self.summary(trace)?.as_ref().map(Summary::parts).unwrap_or_default())
    }

    /// Reads what is known of a trace.
    fn summary(&self, trace: &TraceId) -> Result<Option<Summary>, Error> {
        for segment in self.segments.iter().rev() {
            if let Some(ahead) = segment.recent.ahead_of(trace) {
                return Ok(Some(ahead.clone()));
            }
            if segment.has(trace)? {
                return stored::read(&*segment.database()?, trace);
            }
        }
        Ok(None)
    }

    /// Finds the trace that a name stands for.
    pub(crate) fn resolve(&self, main: &sled::Tree, name: &str) -> Result<Option<TraceId>, Error> {
        let matching = self.beginning_with(name)?;
        if let [only] = matching.as_slice()
            && name.len() == only.len() * 2
        {
            return Ok(Some(*only));
        }
        // The run of an agent called as a tool has 32 hex digits too, so ids of traces go first.
        if let Ok(run) = RunId::new(name)
            && let Some(trace) = run::trace(main, &run)?
        {
            return Ok(Some(trace));
        }
        match matching.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(*only)),
            _ => Err(Error::AmbiguousTrace { prefix: name.to_owned() }),
        }
    }

    /// Returns up to two traces whose id begins with what a name says, if that is digits.
    fn beginning_with(&self, name: &str) -> Result<Vec<TraceId>, Error> {
        let mut found = Vec::new();
        let Some(digits) = Digits::read(name) else { return Ok(found) };
        let ahead = self.segments.iter().flat_map(|segment| segment.recent.ahead());
        let fits = |(trace, _): &(&TraceId, &Summary)| digits.ids().contains(*trace);
        found.extend(ahead.filter(fits).map(|(trace, _)| *trace).take(2));
        for segment in self.segments.iter().rev() {
            if found.len() < 2 && segment.outline().is_none_or(|outline| outline.has(&digits.ids()))
            {
                trace::beginning_with(&*segment.database()?, &digits, &mut found)?;
            }
        }
        Ok(found)
    }
}
