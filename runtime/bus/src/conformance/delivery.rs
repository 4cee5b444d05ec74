//! Who receives what.

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wire::Headers;

use super::{Kind, LONG, Pair, next, on_both, texts};
use crate::{Error, Listening, Message};

on_both! {
    wildcards_match_as_nats_says,
    every_plain_subscriber_gets_a_copy,
    one_member_of_each_queue_group_gets_it,
    a_queue_group_is_one_over_all_patterns,
    messages_arrive_whole,
    order_is_kept,
    nothing_arrives_from_before,
    dropping_a_subscription_ends_it,
    a_handler_is_given_messages_in_their_order,
    a_handler_shares_its_queue_group,
    a_handler_that_is_dropped_gets_none,
    draining_ends_subscriptions_after_what_they_hold,
    faulty_subjects_are_refused,
    faulty_headers_are_refused,
}

async fn wildcards_match_as_nats_says(kind: Kind) {
    let cases: [(&str, &[&str], &[&str]); 6] = [
        ("a.b", &["a.b"], &["a", "a.b.c", "a.B", "x.b"]),
        ("a.*", &["a.b", "a.c"], &["a", "a.b.c"]),
        ("*.b", &["a.b", "x.b"], &["b", "a.b.c"]),
        ("a.>", &["a.b", "a.b.c"], &["a", "b.a"]),
        ("a.*.c.>", &["a.b.c.d"], &["a.b.c", "a.b.d.c"]),
        ("$SRV.>", &["$SRV.PING.x"], &["SRV.PING"]),
    ];
    let pair = kind.pair().await;
    for (pattern, matching, others) in cases {
        let mut subscription = pair.listen(pattern, None).await;
        for subject in matching.iter().chain(others) {
            pair.tell(subject, subject).await;
        }
        // Whatever comes before the last message is all that came.
        let last = pattern.replace(['*', '>'], "z");
        pair.tell(&last, "last").await;
        let mut expected: Vec<&str> = matching.to_vec();
        expected.push("last");
        assert_eq!(texts(&mut subscription, expected.len()).await, expected, "{pattern}");
    }
}

async fn every_plain_subscriber_gets_a_copy(kind: Kind) {
    let pair = kind.pair().await;
    let mut all = [
        pair.listen("a.b", None).await,
        pair.listen("a.b", None).await,
        pair.listen("a.*", None).await,
        pair.listen("a.>", None).await,
    ];
    pair.tell("a.b", "1").await;
    pair.tell("a.b", "2").await;
    for subscription in &mut all {
        let got = [next(subscription).await, next(subscription).await];
        assert!(got.iter().all(|message| message.subject == "a.b" && message.reply.is_none()));
        assert_eq!(got.map(|message| message.payload), ["1", "2"]);
    }
    // A subscription also hears its own connection.
    pair.b.publish("a.b", Headers::new(), "3".into()).await.unwrap();
    assert_eq!(texts(&mut all[0], 1).await, ["3"]);
}

async fn one_member_of_each_queue_group_gets_it(kind: Kind) {
    const COUNT: usize = 300;
    let pair = kind.pair().await;
    let (mut first, mut second, mut third) = (
        pair.listen("work", Some("q")).await,
        pair.listen("work", Some("q")).await,
        pair.listen("work", Some("q")).await,
    );
    let mut other = pair.listen("work", Some("r")).await;
    for n in 0..COUNT {
        pair.a.publish("work", Headers::new(), n.to_string().into()).await.unwrap();
    }
    let expected: Vec<String> = (0..COUNT).map(|n| n.to_string()).collect();
    assert_eq!(texts(&mut other, COUNT).await, expected);

    let mut counts = [0; 3];
    let mut got = Vec::new();
    while got.len() < COUNT {
        let (member, message) = tokio::select! {
            message = next(&mut first) => (0, message),
            message = next(&mut second) => (1, message),
            message = next(&mut third) => (2, message),
        };
        counts[member] += 1;
        got.push(super::text(&message.payload).parse::<usize>().unwrap());
    }
    got.sort_unstable();
    assert_eq!(got, (0..COUNT).collect::<Vec<_>>(), "each message went to one member");
    assert!(counts.iter().all(|count| *count > COUNT / 10), "nobody idles: {counts:?}");
}

async fn a_queue_group_is_one_over_all_patterns(kind: Kind) {
    const COUNT: usize = 60;
    let pair = kind.pair().await;
    let mut exact = pair.listen("a.b", Some("q")).await;
    let mut wild = pair.listen("a.*", Some("q")).await;
    for _ in 0..COUNT {
        pair.a.publish("a.b", Headers::new(), Bytes::new()).await.unwrap();
    }
    let mut got = 0;
    while got < COUNT {
        tokio::select! {
            _ = next(&mut exact) => got += 1,
            _ = next(&mut wild) => got += 1,
        }
    }
    pair.tell("a.c", "last").await;
    assert_eq!(texts(&mut wild, 1).await, ["last"], "nothing came twice");
}

async fn messages_arrive_whole(kind: Kind) {
    let pair = kind.pair().await;
    let mut subscription = pair.listen("a", None).await;
    let headers = Headers::new()
        .with("Idempotency-Key", "k")
        .with("a", "lower")
        .with("A", "upper")
        .with("empty", "")
        .with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .with("text", "ä: ö; \"ü\"");
    let payloads = [Bytes::new(), Bytes::from_static(b"\0\r\n\xff PUB a 0\r\n\r\n")];
    for payload in payloads {
        pair.a.publish_with_reply("a", "back.to", headers.clone(), payload.clone()).await.unwrap();
        let message = next(&mut subscription).await;
        assert_eq!(message.payload, payload);
        assert_eq!(message.reply.as_deref(), Some("back.to"));
        assert_eq!(message.headers.iter().count(), headers.iter().count());
        for (name, value) in headers.iter() {
            assert_eq!(message.headers.get(name), Some(value), "{name}");
        }
    }
    pair.tell("a", "bare").await;
    assert!(next(&mut subscription).await.headers.is_empty());
}

async fn order_is_kept(kind: Kind) {
    let pair = kind.pair().await;
    let mut subscription = pair.listen("a.*", None).await;
    let expected: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    for n in &expected {
        let subject = if n.len() % 2 == 0 { "a.even" } else { "a.odd" };
        pair.a.publish(subject, Headers::new(), n.clone().into()).await.unwrap();
    }
    assert_eq!(texts(&mut subscription, expected.len()).await, expected);
}

async fn nothing_arrives_from_before(kind: Kind) {
    let pair = kind.pair().await;
    pair.tell("a", "before").await;
    let mut subscription = pair.listen("a", None).await;
    pair.tell("a", "after").await;
    assert_eq!(texts(&mut subscription, 1).await, ["after"]);
    // Neither if who listens has sent it himself just now.
    pair.a.publish("b", Headers::new(), "before".into()).await.unwrap();
    let mut subscription = pair.a.subscribe("b", None).await.unwrap();
    pair.a.publish("b", Headers::new(), "after".into()).await.unwrap();
    assert_eq!(texts(&mut subscription, 1).await, ["after"]);
}

async fn dropping_a_subscription_ends_it(kind: Kind) {
    let pair = kind.pair().await;
    let kept = pair.listen("a", Some("q")).await;
    drop(pair.listen("a", Some("q")).await);
    // The server learns of it soon; until then it may pick the member that is gone.
    let mut stream = kept.fuse();
    let mut in_a_row = 0;
    while in_a_row < 20 {
        pair.tell("a", "x").await;
        let waited = std::time::Duration::from_millis(200);
        let got = tokio::time::timeout(waited, stream.next()).await.is_ok();
        in_a_row = if got { in_a_row + 1 } else { 0 };
    }
}

/// Listens at the second end, with a handler that passes each text on.
async fn handled(pair: &Pair, queue: Option<&str>) -> (Listening, UnboundedReceiver<String>) {
    let (tell, told) = unbounded_channel();
    let handler = move |message: Message| drop(tell.send(super::text(&message.payload)));
    let listening = pair.b.listen("a", queue, handler).await.unwrap();
    pair.b.flush().await.unwrap();
    (listening, told)
}

async fn heard(told: &mut UnboundedReceiver<String>) -> String {
    tokio::time::timeout(LONG, told.recv()).await.expect("a message in time").unwrap()
}

async fn a_handler_is_given_messages_in_their_order(kind: Kind) {
    let pair = kind.pair().await;
    let (_listening, mut told) = handled(&pair, None).await;
    let mut beside = pair.listen("a", None).await;
    for n in 0..100 {
        pair.tell("a", &n.to_string()).await;
    }
    for n in 0..100 {
        assert_eq!(heard(&mut told).await, n.to_string());
    }
    assert_eq!(texts(&mut beside, 100).await.len(), 100);
}

async fn a_handler_shares_its_queue_group(kind: Kind) {
    let pair = kind.pair().await;
    let (_listening, mut told) = handled(&pair, Some("q")).await;
    let mut other = pair.listen("a", Some("q")).await;
    let (mut by_handler, mut by_other) = (0, 0);
    // Who is drawn is left to chance, and a hundred draws leave nobody out.
    for n in 0..100 {
        pair.tell("a", &n.to_string()).await;
        let got = tokio::select! {
            got = heard(&mut told) => { by_handler += 1; got }
            message = next(&mut other) => { by_other += 1; super::text(&message.payload) }
        };
        assert_eq!(got, n.to_string());
    }
    assert!(by_handler > 0 && by_other > 0, "{by_handler} {by_other}");
}

async fn a_handler_that_is_dropped_gets_none(kind: Kind) {
    let pair = kind.pair().await;
    let (listening, mut told) = handled(&pair, None).await;
    let mut beside = pair.listen("a", None).await;
    pair.tell("a", "1").await;
    assert_eq!(heard(&mut told).await, "1");
    drop(listening);
    // The handler goes with it, and what it tells with.
    let ended = tokio::time::timeout(LONG, told.recv()).await.expect("it ends");
    assert_eq!(ended, None);
    pair.tell("a", "2").await;
    assert_eq!(texts(&mut beside, 2).await, ["1", "2"]);
}

async fn draining_ends_subscriptions_after_what_they_hold(kind: Kind) {
    let pair = kind.pair().await;
    let mut requests = pair.listen("a", Some("q")).await;
    let mut empty = pair.listen("b", None).await;
    let mut answers = pair.a.subscribe("_INBOX.drained", None).await.unwrap();
    for text in ["1", "2"] {
        pair.a
            .publish_with_reply("a", "_INBOX.drained", Headers::new(), text.into())
            .await
            .unwrap();
    }
    pair.settle().await;
    let mut own = pair.listen("c", None).await;
    pair.b.publish("c", Headers::new(), "last".into()).await.unwrap();
    // On the twin both ends are one bus, so its own subscription is drained as well.
    pair.b.drain().await.unwrap();
    pair.b.drain().await.unwrap();

    assert!(empty.next().await.is_none());
    assert_eq!(texts(&mut own, 1).await, ["last"], "what was sent before is received");
    for expected in ["1", "2"] {
        let request = next(&mut requests).await;
        assert_eq!(request.payload, expected);
        pair.b.reply(&request, Headers::new(), request.payload.clone()).await.unwrap();
    }
    assert!(requests.next().await.is_none());
    if matches!(kind, Kind::Nats) {
        assert_eq!(texts(&mut answers, 2).await, ["1", "2"], "what was held is answered");
    }
    assert!(matches!(pair.b.subscribe("a", None).await, Err(Error::Closed)));
    pair.b.publish("a", Headers::new(), Bytes::new()).await.unwrap();
    assert!(matches!(pair.ask("a", "").await, Err(Error::NoResponders { .. })));
}

async fn faulty_subjects_are_refused(kind: Kind) {
    let pair = kind.pair().await;
    for subject in ["", ".", "a.", "a..b", "a b", "a\r\nPUB b 0\r\n", "a\t", "a.*", ">", "a\0"] {
        let none = Headers::new;
        let results = [
            pair.a.publish(subject, none(), Bytes::new()).await,
            pair.a.publish_with_reply("a", subject, none(), Bytes::new()).await,
            pair.ask(subject, "").await.map(drop),
            pair.a.subscribe("a", Some(subject)).await.map(drop),
        ];
        let wildcard_group = subject.contains(['*', '>']);
        for (n, result) in results.iter().enumerate() {
            let refused = matches!(result, Err(Error::InvalidSubject { .. }));
            assert!(refused || (n == 3 && wildcard_group), "{subject:?} {n}: {result:?}");
        }
    }
    for pattern in ["", "a.", "a..b", "a b", ">.a", "a*", "a.b>"] {
        let result = pair.a.subscribe(pattern, None).await;
        assert!(matches!(result, Err(Error::InvalidSubject { .. })), "{pattern:?}");
    }
    assert!(pair.a.is_connected(), "nothing of it reached the server");
}

async fn faulty_headers_are_refused(kind: Kind) {
    let pair = kind.pair().await;
    for (name, value) in [("a b", ""), ("", "x"), ("a", "x\r\ny: z"), ("a", "x\ry"), ("a", " x")] {
        let headers = Headers::new().with(name, value);
        let result = pair.a.publish("a", headers, Bytes::new()).await;
        assert!(matches!(result, Err(Error::InvalidHeader { .. })), "{name:?}: {value:?}");
    }
}
