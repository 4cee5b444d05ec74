//! What is asked while the server is away, and what becomes of it.

use super::*;

async fn lose(server: &mut NatsServer, bus: &Bus) {
    server.stop().unwrap();
    until("the loss is seen", || !bus.is_connected()).await;
}

/// Makes the server come back, and returns what it was sent meanwhile on a subject.
async fn come_back(
    server: &mut NatsServer,
    bus: &Bus,
    heard: &mut mpsc::Receiver<Parcel>,
) -> usize {
    let mended = bus.mended();
    server.restart().await.unwrap();
    tokio::time::timeout(LONG, mended).await.expect("the connection is there again");
    // The echo comes after all that was put before.
    bus.flush().await.unwrap();
    let mut count = 0;
    while heard.try_recv().is_ok() {
        count += 1;
    }
    count
}

/// Takes what is asked on a subject, and answers it.
async fn answer(bus: &Bus, subject: &str) -> (Listening, mpsc::Receiver<Parcel>) {
    let (sender, heard) = mpsc::channel(64);
    let answering = bus.clone();
    let take = move |parcel: Parcel| {
        sender.try_send(parcel.clone()).unwrap();
        let bus = answering.clone();
        tokio::spawn(async move {
            bus.reply(parcel.message(), Headers::new(), "pong".into()).await.unwrap();
        });
        None
    };
    let hearing = bus.take(subject, Some("q"), take).await.unwrap();
    bus.flush().await.unwrap();
    (hearing, heard)
}

#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_sent() {
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let (_hearing, mut heard) = answer(&bus, "a").await;
    let short = Duration::from_millis(20);
    // How long each of the attempts waits, one after the other, and how many of them are sent.
    let cases = [
        ("longer than the request waits", &[short][..], 0),
        ("shorter", &[LONG], 1),
        ("longer than two attempts wait", &[short, short], 0),
        ("longer than the first of two", &[short, LONG], 1),
    ];
    for (outage, attempts, sent) in cases {
        lose(&mut server, &bus).await;
        let mut last = None;
        for wait in attempts {
            let mut asked = Box::pin(bus.request("a", Headers::new(), "ping".into(), *wait));
            if *wait == LONG {
                assert!((&mut asked).now_or_never().is_none(), "{outage}");
                last = Some(asked);
            } else {
                let missed = asked.await;
                assert!(matches!(missed, Err(Error::NotSent { .. })), "{outage}: {missed:?}");
            }
        }
        assert_eq!(come_back(&mut server, &bus, &mut heard).await, sent, "{outage}");
        if let Some(asked) = last {
            assert_eq!(asked.await.unwrap().payload, "pong", "{outage}");
        }
    }
}

#[tokio::test]
async fn what_is_dropped_is_not_sent_and_what_is_published_is() {
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let (_hearing, mut heard) = answer(&bus, "a").await;
    lose(&mut server, &bus).await;
    for n in 0..3 {
        let mut dropped = Box::pin(bus.request("a", Headers::new(), "ping".into(), LONG));
        assert!((&mut dropped).now_or_never().is_none());
        // Some are on their way by then, and the last is not.
        if n > 0 {
            tokio::task::yield_now().await;
        }
    }
    bus.publish("a", Headers::new(), "told".into()).await.unwrap();
    assert_eq!(come_back(&mut server, &bus, &mut heard).await, 1);
}

#[tokio::test]
async fn requests_that_wait_for_the_server_are_bounded_and_those_given_up_make_room() {
    const MORE: usize = 4096;
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    lose(&mut server, &bus).await;
    let ask = || Box::pin(bus.request("a", Headers::new(), Bytes::new(), LONG));
    let mut asked: Vec<_> = (0..MORE).map(|_| ask()).collect();
    for request in &mut asked {
        assert!(request.now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let publish = || bus.publish("filler", Headers::new(), Bytes::new());
    let mut waiting = Box::pin(publish());
    assert!((&mut waiting).now_or_never().is_none(), "there is no room");
    drop(asked);
    tokio::time::timeout(LONG, waiting).await.expect("there is room").unwrap();
}

#[tokio::test]
async fn who_is_near_is_sent_what_the_server_takes_by_now() {
    let mut server = NatsServer::start("max_payload: 1000").await.unwrap();
    let bus = connect_near(&server).await;
    let (_hearing, mut heard) = answer(&bus, "a").await;
    // The most that the server takes, and whether that is enough.
    for (most, fits) in [(1000, false), (5000, true), (1000, false)] {
        server.configure(&format!("max_payload: {most}")).unwrap();
        let mended = bus.mended();
        server.restart().await.unwrap();
        tokio::time::timeout(LONG, mended).await.expect("the connection is there again");
        until("the limit is known", || bus.payload_bytes_max() == most).await;
        let near = bus.near("a").unwrap();
        let answer = near.request("a", Headers::new(), vec![b'x'; 3000].into(), LONG).await;
        assert_eq!(answer.is_ok(), fits, "{most}: {answer:?}");
        assert_eq!(heard.try_recv().is_ok(), fits, "{most}");
    }
}
