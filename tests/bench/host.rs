//! A node with all that it does: journal, traces, limits, bus.

use std::time::{Duration, Instant};

use bus::Bus;
use node::Node;
use wire::{Event, EventKind, Subjects};

use crate::handmade::figures;
use crate::measure;
use crate::team;
use crate::work::{Shape, WORDS, Work};

/// Does the work and prints its figures.
pub(crate) fn work(work: &Work) {
    let runtime = node::executor(None).expect("a runtime");
    let told = runtime.block_on(async {
        let home = tempfile::tempdir().expect("a temporary folder");
        let data = home.path().join("data");
        let file = team::write(work, home.path());
        let node = team::start(&file, &data, team::bus(work).await).await;
        let asked = if work.nats.is_empty() { node.bus().clone() } else { team::bus(work).await };
        if work.shape == Shape::Tokens {
            observe(&asked).await;
        }
        team::sessions(work, &asked, "warm", 1).await;
        team::of(&node).settle().await;
        let (journal, data_bytes) = (journal_end(&node), measure::folder_bytes(&data));
        let written = measure::written_bytes();
        let began = measure::Began::now();
        let clock = Instant::now();
        team::sessions(work, &asked, "run", work.runs).await;
        let took = clock.elapsed();
        // What the store is still to be told belongs to the runs.
        team::of(&node).settle().await;
        let mut told = figures(work, &began, took);
        let runs = measure::float((work.sessions * work.runs) as u64);
        for (name, bytes) in [
            ("journal_bytes", journal_end(&node) - journal),
            ("data_bytes", measure::folder_bytes(&data).saturating_sub(data_bytes)),
            ("written_bytes", measure::written_bytes() - written),
        ] {
            told[name] = (measure::float(bytes) / runs).into();
        }
        node.drain(Duration::from_secs(5)).await;
        told
    });
    println!("{told}");
}

fn journal_end(node: &Node) -> u64 {
    team::of(node).journal().end()
}

/// Reads all events of the team, as somebody who watches does; each run has to be told whole.
async fn observe(bus: &Bus) {
    let subject = Subjects::default().all_session_events(&team::name());
    let mut events = bus.subscribe(&subject, None).await.expect("the events");
    bus.flush().await.expect("the bus");
    tokio::spawn(async move {
        let mut bytes = 0;
        while let Some(message) = events.next().await {
            let event: Event = serde_json::from_slice(&message.payload).expect("an event");
            match event.kind {
                EventKind::Delta { text, .. } => bytes += text.len(),
                EventKind::RunEnded { .. } => {
                    assert_eq!(bytes, WORDS * crate::stub::WORD.len(), "a run's pieces");
                    bytes = 0;
                }
                _ => {}
            }
        }
    });
}
