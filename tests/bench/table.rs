//! The table of figures.

use std::fmt::Write as _;

use crate::measure::quantile;
use crate::party::{Figures, Party};
use crate::work::Work;

/// Writes the medians as a table, each party's CPU time also as a ratio to the loop's.
pub(crate) fn table(rows: &[(Work, Vec<Vec<Figures>>)]) -> String {
    let mut text = String::from(
        "| work | who | CPU µs a step | × loop | gap p50 µs | gap p99 µs | steps/s | peak MiB | disk B a run |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (work, parties) in rows {
        let floor = parties.first().and_then(|figures| median(figures, |f| f.cpu_us));
        for (party, figures) in Party::ALL.iter().zip(parties) {
            let Some(cpu) = median(figures, |f| f.cpu_us) else { continue };
            let of = |field: fn(&Figures) -> f64| median(figures, field).unwrap_or(f64::NAN);
            let ratio = floor.map_or_else(|| "-".to_owned(), |floor| format!("{:.2}", cpu / floor));
            let line = format!(
                "| {} | {} | {cpu:.0} | {ratio} | {:.0} | {:.0} | {:.0} | {:.1} | {:.0} |",
                work.title(),
                party.word(),
                of(|f| f.gap_p50_us),
                of(|f| f.gap_p99_us),
                of(|f| f.steps_per_s),
                of(|f| f.peak_kib) / 1024.0,
                of(|f| f.disk_bytes),
            );
            writeln!(text, "{line}").expect("a string takes it");
        }
    }
    text
}

fn median(figures: &[Figures], field: fn(&Figures) -> f64) -> Option<f64> {
    let mut values: Vec<f64> = figures.iter().map(field).collect();
    (!values.is_empty()).then(|| quantile(&mut values, 0.5))
}
