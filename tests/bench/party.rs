//! The parties that do the work, each in a process of its own.

use crate::servers::{Nats, Stub, figures, role};
use crate::sheet::Sheet;
use crate::work::{Shape, Work};
use crate::{measure, profile};

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// A loop without journal, bus, traces or limits, whose request body is added to and never
    /// written again.
    Handmade,
    /// A node on the bus inside its process.
    Embedded,
    /// The same without traces.
    Untraced,
    /// A node and its clients on a NATS server.
    Nats,
    /// The same, where the node asks its own models and tools past the server.
    Near,
}

impl Party {
    pub(crate) const ALL: [Self; 5] =
        [Self::Handmade, Self::Embedded, Self::Untraced, Self::Nats, Self::Near];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Handmade => "loop",
            Self::Embedded => "embedded",
            Self::Untraced => "embedded, no traces",
            Self::Nats => "nats",
            Self::Near => "nats, near",
        }
    }

    /// Does the work once and notes its figures in a row, unless the party cannot do it.
    pub(crate) fn measure(self, row: &str, work: &Work, stub: &Stub, sheet: &mut Sheet) {
        let traces = self != Self::Untraced;
        let near = self == Self::Near;
        let mut work = Work { url: stub.url.clone(), traces, near, ..work.clone() };
        let is_left_out = match self {
            Self::Handmade => work.shape == Shape::Delegate,
            Self::Embedded | Self::Untraced | Self::Nats => false,
            // What it spares is the same for all kinds of work.
            Self::Near => work.shape != Shape::Chain || work.stream || work.pad > 0,
        };
        if is_left_out {
            return;
        }
        let server = matches!(self, Self::Nats | Self::Near).then(Nats::start);
        if let Some(server) = &server {
            work.nats.clone_from(&server.url);
        }
        let name = if self == Self::Handmade { "handmade" } else { "host" };
        let args = work.to_args();
        let mut command = role(name, args.iter().map(String::as_str));
        if let Some(server) = &server {
            server.counted_by(&mut command);
        }
        let mut told = figures(profile::recorded(row, self.word(), command));
        let mut gaps = stub.gaps();
        if !gaps.is_empty() {
            told["gap_p50_us"] = measure::quantile(&mut gaps, 0.5).into();
            told["gap_p99_us"] = measure::quantile(&mut gaps, 0.99).into();
        }
        sheet.add(row, self.word(), &told);
    }
}
