//! One file per command.

pub(crate) mod ask;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod explain;
pub(crate) mod look;
pub(crate) mod nats;
pub(crate) mod parse;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod store;
pub(crate) mod tools;
pub(crate) mod top;
pub(crate) mod trace;

use std::path::Path;

use bus::Bus;
use config::Team;
use model::Unenforced;
use node::{LoadError, Sourced};
use wire::Subjects;

use crate::failure::Failure;
use crate::paint::Paint;
use crate::place::Place;
use crate::screen;
use crate::text;

/// Tells what providers will not hold models to.
pub(crate) fn note_unenforced(notes: &[Unenforced]) {
    for note in notes {
        screen::note(&format!("note: {note}\n"));
    }
}

/// Tells what others describe and cannot be offered.
pub(crate) fn note_left_out(team: &Team) {
    for left_out in &team.left_out {
        screen::note(&format!("note: {}\n", text::one_line(left_out)));
    }
}

/// Loads a team file; the failure is its report.
pub(crate) fn load(file: &Path, paint: Paint) -> Result<Team, Failure> {
    config::load(file).map_err(|report| Failure::Report(report.render(paint.is_on())))
}

/// Loads a team with what others describe of its tools.
pub(crate) async fn complete(
    file: &Path,
    place: &Place,
    bus: Option<(&Bus, &Subjects)>,
    paint: Paint,
) -> Result<(Sourced, Team), Failure> {
    Sourced::load(file, place.dir(), bus).await.map_err(|error| load_failure(error, paint))
}

/// Says why a team cannot be made.
fn load_failure(error: LoadError, paint: Paint) -> Failure {
    match error {
        LoadError::Report(report) => Failure::Report(report.render(paint.is_on())),
        LoadError::Node(error) => error.into(),
    }
}
