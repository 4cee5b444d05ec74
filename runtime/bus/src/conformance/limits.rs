//! What happens when a limit is met.

use bytes::Bytes;
use wire::{ErrorCode, Headers};

use super::{Kind, PAYLOAD_BYTES_MAX, next, on_both, texts};
use crate::Error;

on_both! {
    messages_up_to_the_limit_are_sent,
    a_full_subscription_loses_what_comes_and_counts_it,
    a_full_responder_refuses_at_once,
}

async fn messages_up_to_the_limit_are_sent(kind: Kind) {
    let pair = kind.pair().await;
    assert_eq!(pair.a.payload_bytes_max(), PAYLOAD_BYTES_MAX);
    let mut subscription = pair.listen("a", None).await;
    let headers = Headers::new().with("name", "value");
    let cases = [
        (Headers::new(), PAYLOAD_BYTES_MAX, true),
        (Headers::new(), PAYLOAD_BYTES_MAX + 1, false),
        (headers.clone(), PAYLOAD_BYTES_MAX - headers.wire_len(), true),
        (headers.clone(), PAYLOAD_BYTES_MAX - headers.wire_len() + 1, false),
    ];
    for (headers, bytes, good) in cases {
        let payload = Bytes::from(vec![7; bytes]);
        let result = pair.a.publish("a", headers.clone(), payload.clone()).await;
        if good {
            result.unwrap();
            assert_eq!(next(&mut subscription).await.payload.len(), bytes);
        } else {
            assert!(
                matches!(result, Err(Error::TooLarge { bytes, max: PAYLOAD_BYTES_MAX })
                    if bytes == PAYLOAD_BYTES_MAX + 1),
                "{bytes} bytes"
            );
            let result = pair.a.request("a", headers, payload, super::LONG).await;
            assert!(matches!(result, Err(Error::TooLarge { .. })), "{bytes} bytes");
        }
    }
    assert!(pair.a.is_connected());
}

async fn a_full_subscription_loses_what_comes_and_counts_it(kind: Kind) {
    let pair = kind.pair_with(4).await;
    let mut slow = pair.listen("a", None).await;
    let mut marks = pair.listen("mark", None).await;
    for n in 0..10 {
        pair.tell("a", &n.to_string()).await;
    }
    pair.tell("mark", "").await;
    next(&mut marks).await;
    while pair.b.dropped() < 6 {
        tokio::task::yield_now().await;
    }
    assert_eq!(texts(&mut slow, 4).await, ["0", "1", "2", "3"]);
    pair.tell("a", "10").await;
    assert_eq!(texts(&mut slow, 1).await, ["10"]);
    assert_eq!(pair.b.dropped(), 6);
}

async fn a_full_responder_refuses_at_once(kind: Kind) {
    let pair = kind.pair_with(2).await;
    let mut busy = pair.listen("a", Some("q")).await;
    for n in ["0", "1"] {
        pair.tell("a", n).await;
    }
    let error = pair.ask("a", "2").await.unwrap_err();
    assert!(matches!(&error, Error::Overflow { subject } if subject == "a"), "{error:?}");
    assert_eq!(error.to_wire().code, ErrorCode::Overloaded);
    assert!(error.to_wire().retry_after_ms.is_some());
    assert_eq!(pair.b.dropped(), 1);

    assert_eq!(texts(&mut busy, 2).await, ["0", "1"]);
    super::echo(&pair.b, busy);
    assert_eq!(pair.ask("a", "3").await.unwrap().payload, "3");
}
