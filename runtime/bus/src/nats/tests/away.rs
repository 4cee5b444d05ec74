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

/// How long a request is held at least.
const HELD: Duration = Duration::from_millis(200);

#[tokio::test]
async fn a_request_that_leaves_late_says_how_much_time_is_left() {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    let (long, held) = (ms(LONG), ms(HELD));
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let (_hearing, mut heard) = answer(&bus, "a").await;
    lose(&mut server, &bus).await;
    let wait = Wait::from(LONG);
    let short = Duration::from_secs(1);
    // How long is waited, what the request says of that, and the most that it says when it leaves.
    let cases = [
        (wait, Some(long), Some(long - held)),
        (wait.with_grace(short), Some(long - 1000), Some(long - 1000 - held)),
        (wait.with_grace(LONG), Some(100), Some(100)),
        (Wait::long(LONG), Some(long), Some(long - held)),
        (wait, Some(7), Some(7)),
        (wait, None, None),
    ];
    let mut asked: Vec<_> = cases
        .iter()
        .map(|(wait, said, _)| {
            let remaining = |ms| Headers::new().with(wire::header::REMAINING_MS, ms);
            Box::pin(bus.request("a", said.map_or_else(Headers::new, remaining), "".into(), *wait))
        })
        .collect();
    for asked in &mut asked {
        assert!(asked.now_or_never().is_none());
    }
    tokio::time::sleep(HELD).await;
    server.restart().await.unwrap();
    for (asked, (wait, said, most)) in asked.into_iter().zip(cases) {
        assert_eq!(asked.await.unwrap().payload, "pong");
        let parcel = heard.try_recv().unwrap();
        let told = parcel.message().headers.read::<u64>(wire::header::REMAINING_MS);
        assert_eq!(told.is_some(), most.is_some(), "{wait:?}");
        assert!(told <= most, "{wait:?}, said {said:?}: {told:?}");
        // What is within the grace, or says less than is left, stays as it is.
        assert!(most == Some(long - held) || told == most || wait == cases[1].0, "{told:?}");
    }
}

#[tokio::test]
async fn what_the_server_does_not_take_by_now_was_not_sent() {
    let mut server = NatsServer::start("max_payload: 5000").await.unwrap();
    let bus = connect(&server).await;
    let (_hearing, mut heard) = answer(&bus, "a").await;
    lose(&mut server, &bus).await;
    let ask =
        |bytes| Box::pin(bus.request("a", Headers::new(), vec![b'x'; bytes].into(), 3 * LONG));
    let (mut large, mut small) = (ask(3000), ask(500));
    assert!((&mut large).now_or_never().is_none() && (&mut small).now_or_never().is_none());
    server.configure("max_payload: 1000").unwrap();
    server.restart().await.unwrap();
    let missed = tokio::time::timeout(LONG, large).await.expect("it is told at once");
    assert!(matches!(missed, Err(Error::TooLarge { bytes: 3000, max: 1000 })), "{missed:?}");
    assert_eq!(small.await.unwrap().payload, "pong");
    assert_eq!(heard.recv().await.unwrap().message().payload.len(), 500);
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
