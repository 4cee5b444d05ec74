use bus::Bus;
use tokio::time::advance;
use wire::{RunId, SessionId};

use super::*;
use crate::testing;

#[tokio::test(start_paused = true)]
async fn a_secret_that_spans_pieces_is_not_published() {
    secret::learn_login("nats://ann:sk-spans-pieces-4711-0815@h");
    let data = tempfile::tempdir().unwrap();
    let bus = Bus::local();
    let context = testing::open_on(data.path(), bus.clone());
    let run = RunId::new("r").unwrap();
    let trace = TraceContext::root(&context.team.name, &run);
    let cases: [(&[&str], &str); 3] = [
        (
            &["It is sk-sp", "ans-pieces", "-4711-08", "15 all", " right."],
            "It is [secret] all right.",
        ),
        (&["It is sk-", "nothing", " like", " it."], "It is sk-nothing like it."),
        // What is held back at the end is told.
        (&["It begins with sk-", "spans"], "It begins with sk-spans"),
    ];
    for (number, (pieces, expected)) in cases.into_iter().enumerate() {
        let session = SessionId::new(&format!("s{number}")).unwrap();
        let mut events = bus.subscribe(&context.events_of(&session), None).await.unwrap();
        let observed = Observed {
            session,
            run: run.clone(),
            agent: context.team.entry.clone(),
            depth: 0,
            step: 1,
            hidden: None,
        };
        let mut deltas = Deltas::start(&context, ModelRole::Actor, Some(observed), Some(trace));
        for piece in pieces {
            // Each by itself.
            advance(DELTA_INTERVAL).await;
            deltas.push(piece);
        }
        deltas.finish();
        let mut said = String::new();
        while said.len() < expected.len() {
            let event: Event =
                serde_json::from_slice(&events.next().await.unwrap().payload).unwrap();
            let EventKind::Delta { text, .. } = event.kind else { panic!("{event:?}") };
            said.push_str(&text);
        }
        assert_eq!(said, expected);
    }
}
