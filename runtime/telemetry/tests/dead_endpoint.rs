//! An endpoint that is gone costs those who trace nothing, and the log one line.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

#[path = "house/log.rs"]
mod log;

use std::net::TcpListener;
use std::time::Duration;

use log::Log;
use telemetry::{Exporter, QUEUE_SPANS_MAX, Service};
use wire::trace::SpanKind;
use wire::{Name, RunId, SessionId, SpanRecord, Timestamp, TraceContext};

/// How many spans are handed in; far more than may wait.
const SPANS: u64 = 10_000;

fn hand_in(exporter: &Exporter) {
    let run = RunId::new("r1").unwrap();
    let root = TraceContext::root(&Name::new("team").unwrap(), &run);
    for number in 0..SPANS {
        exporter.export(&SpanRecord {
            context: root.child("call", &number.to_string()),
            parent: Some(root),
            name: "execute_tool calculate".into(),
            kind: SpanKind::Internal,
            start: Timestamp::from_micros(number),
            end: Timestamp::from_micros(number + 1),
            session: SessionId::new("s1").unwrap(),
            run: run.clone(),
            agent: Name::new("lead").unwrap(),
            attributes: wire::Attributes::new(),
            events: Vec::new(),
            links: Vec::new(),
            error: None,
        });
    }
}

// One test, because the log of a process is one.
#[test]
fn spans_for_a_dead_endpoint_are_dropped_and_counted() {
    let log = Log::of_process();
    let service =
        Service { name: "callboard".into(), version: "1".into(), instance: "node-1".into() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());

    // It takes connections and never answers: nothing that waits for it would come to an end.
    let silent = Exporter::start(&address, &service, &[]).unwrap();
    hand_in(&silent);
    assert_eq!(silent.dropped(), SPANS - QUEUE_SPANS_MAX as u64);
    assert!(silent.shutdown(Duration::from_millis(50)).is_err());
    silent.shutdown(Duration::ZERO).unwrap();

    // It refuses connections.
    drop(listener);
    let refusing = Exporter::start(&address, &service, &[]).unwrap();
    hand_in(&refusing);
    assert!(refusing.dropped() >= SPANS - 2 * QUEUE_SPANS_MAX as u64);
    refusing.shutdown(Duration::from_secs(30)).unwrap();
    assert_eq!(refusing.dropped(), SPANS);
    hand_in(&refusing);
    assert_eq!(refusing.dropped(), 2 * SPANS);
    let lines = log.count("cannot export spans");
    assert!((1..=2).contains(&lines), "{lines} lines");
}
