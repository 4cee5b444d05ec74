//! Spans that arrived together, by their traces.

use crate::trace::ended::EndedSpan;

/// A span that arrived.
pub(crate) struct Arrived<'s> {
    /// The trace's id, as a number because those are quick to compare.
    trace: u128,
    /// Which of those that arrived it is.
    number: usize,
    pub(crate) span: &'s EndedSpan,
}

/// Puts the spans of each trace together. They keep their order: a session tells its spans in one
/// order, and by that it is known what was told before.
pub(crate) fn by_trace<'s>(spans: impl Iterator<Item = &'s EndedSpan>) -> Vec<Arrived<'s>> {
    let of = |(number, span): (usize, &'s EndedSpan)| {
        let trace = u128::from_be_bytes(span.context.trace_bytes());
        Arrived { trace, number, span }
    };
    let mut arrived: Vec<Arrived<'s>> = spans.enumerate().map(of).collect();
    arrived.sort_by_key(|arrived| arrived.trace);
    arrived
}

/// Returns the spans of each trace, those of the one that arrived first before the others: traces
/// of one time stand in one segment, and arrive one after another.
pub(crate) fn in_turn<'a, 's>(arrived: &'a [Arrived<'s>]) -> Vec<&'a [Arrived<'s>]> {
    let traces = arrived.chunk_by(|one, next| one.trace == next.trace);
    let mut traces: Vec<&[Arrived<'_>]> = traces.collect();
    traces.sort_by_key(|spans| spans.first().map(|first| first.number));
    traces
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::SpanRecord;

    use super::*;
    use crate::trace::ended::Told;

    #[test]
    fn the_spans_of_a_trace_come_together_in_their_order() {
        let span = |trace: u32, slot: u64| {
            let context = format!("00-{trace:032x}-{:016x}-01", slot + 1);
            let span: SpanRecord = serde_json::from_value(json!({"context": context,
                "name": "n", "kind": "internal", "start": 1, "end": 2, "session": "s",
                "run": "r", "agent": "a", "attributes": {}}))
            .unwrap();
            EndedSpan::of(span, Told { slot, number: 0 })
        };
        for (arrived, expected) in [
            (Vec::new(), Vec::new()),
            (vec![7], vec![vec![0]]),
            (vec![7, 7, 7], vec![vec![0, 1, 2]]),
            (vec![9, 3, 9, 5, 3, 9], vec![vec![0, 2, 5], vec![1, 4], vec![3]]),
        ] {
            let spans: Vec<EndedSpan> =
                (0..).zip(arrived).map(|(slot, trace)| span(trace, slot)).collect();
            let sorted = by_trace(spans.iter());
            let slots: Vec<Vec<u64>> = in_turn(&sorted)
                .into_iter()
                .map(|spans| spans.iter().map(|arrived| arrived.span.told.slot).collect())
                .collect();
            assert_eq!(slots, expected);
        }
    }
}
