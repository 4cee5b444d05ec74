//! What only a real server can show: losing it, being refused by it, hostile peers behind it.

mod away;
mod hello;
mod outbox;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use wire::Headers;

use crate::nats::SEND_WAIT_MAX;
use crate::testing::{NatsServer, fill};
use crate::{Auth, Bus, Error, Listening, Message, NatsOptions, Parcel, Subscription, Wait};

const LONG: Duration = Duration::from_secs(20);

/// Subscriptions of one bus, enough for some of them to be late.
const SUBSCRIPTIONS: usize = 200;

/// An nkey that is nobody's: its seed is the bytes 0 to 31.
const NKEY_SEED: &str = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y";
const NKEY_PUBLIC: &str = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK";

async fn connect(server: &NatsServer) -> Bus {
    Bus::connect(NatsOptions::new([server.url()])).await.unwrap()
}

/// Connects so that who listens in the process is asked past the server.
async fn connect_near(server: &NatsServer) -> Bus {
    let mut options = NatsOptions::new([server.url()]);
    options.near = true;
    Bus::connect(options).await.unwrap()
}

async fn listen(bus: &Bus, subject: &str) -> Subscription {
    let subscription = bus.subscribe(subject, Some("q")).await.unwrap();
    bus.flush().await.unwrap();
    subscription
}

/// Takes what is asked on a subject, one after another, as a handler is given it.
async fn hear(bus: &Bus, subject: &str) -> (Listening, mpsc::Receiver<Parcel>) {
    let (sender, heard) = mpsc::channel(1);
    let take = move |parcel: Parcel| {
        sender.try_send(parcel).unwrap();
        None
    };
    let hearing = bus.take(subject, Some("q"), take).await.unwrap();
    bus.flush().await.unwrap();
    (hearing, heard)
}

/// Answers one request, made by the same bus.
async fn ask_oneself(bus: &Bus, requests: &mut Subscription) {
    let request = bus.request("a", Headers::new(), "ping".into(), LONG);
    let answer = async {
        let request = requests.next().await.unwrap();
        assert_eq!(request.payload, "ping");
        bus.reply(&request, Headers::new(), "pong".into()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(request, answer);
    assert_eq!(answer.unwrap().payload, "pong");
    // The answer came past the server, which an echo does not.
    bus.flush().await.unwrap();
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, wait).await.expect(what);
}

#[tokio::test]
async fn subscriptions_outlive_a_restart_of_the_server() {
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let mut requests = listen(&bus, "a").await;
    for _ in 0..2 {
        let mut mended = bus.mended();
        server.stop().unwrap();
        until("the loss is seen", || !bus.is_connected()).await;
        assert_eq!((&mut mended).now_or_never(), None);
        let wait = Duration::from_millis(50);
        let lost = bus.request("a", Headers::new(), Bytes::new(), wait).await;
        assert!(matches!(lost, Err(Error::NotSent { .. })), "{lost:?}");

        server.restart().await.unwrap();
        tokio::time::timeout(LONG, mended).await.expect("the connection is there again");
        assert_eq!(bus.mended().now_or_never(), None);
        // What was asked in between is not sent any more.
        ask_oneself(&bus, &mut requests).await;
        assert!(bus.is_connected());
    }
}

/// Sends one message past all checks, as a hostile peer can.
async fn send_raw(server: &NatsServer, subject: &str, headers: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let mut line = b"CONNECT {\"verbose\":false,\"headers\":true}\r\n".to_vec();
    let bytes = headers.len();
    line.extend(format!("HPUB {subject} {bytes} {bytes}\r\n").bytes());
    line.extend(headers);
    line.extend(b"\r\nPING\r\n");
    stream.write_all(&line).await.unwrap();
    let mut answer = Vec::new();
    while !answer.windows(4).any(|part| part == b"PONG") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "the server took it");
    }
}

#[tokio::test]
async fn hostile_headers_do_not_cut_us_off() {
    let server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let mut requests = listen(&bus, "a").await;
    let responder = bus.clone();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            // While there is no connection, an answer may be lost like anything else.
            drop(responder.reply(&request, Headers::new(), "pong".into()).await);
        }
    });
    let hostile: [&[u8]; 4] = [
        b"NATS/1.0\r\nx: bare\rreturn\r\n\r\n",
        b"NATS/1.0\r\nx: \xff\xfe\r\n\r\n",
        b"NATS/1.0\r\nno colon\r\n\r\n",
        b"NATS/1.0\r\n\xc3\xa4: x\r\n\r\n",
    ];
    for headers in hostile {
        send_raw(&server, "a", headers).await;
        // A request comes after the hostile message, so an answer means that it was met.
        let wait = Duration::from_millis(200);
        let ask = || bus.request("a", Headers::new(), Bytes::new(), wait);
        let again = async { while !ask().await.is_ok_and(|answer| answer.payload == "pong") {} };
        tokio::time::timeout(LONG, again).await.expect("answers again");
        bus.flush().await.unwrap();
        assert!(bus.is_connected());
    }
}

/// The client ends with such a header, and to those who use the bus that is a connection that was
/// lost and made again.
#[tokio::test]
async fn requests_under_way_outlive_the_end_of_the_client() {
    let server = NatsServer::start("").await.unwrap();
    let (asking, answering) = (connect(&server).await, connect(&server).await);
    let _hostile = listen(&asking, "hostile").await;
    let mut requests = listen(&answering, "a").await;
    let mut answers = Vec::new();
    for n in 0..SUBSCRIPTIONS {
        let bus = asking.clone();
        let answer = move |request: Message| {
            let bus = bus.clone();
            tokio::spawn(async move { bus.reply(&request, Headers::new(), "own".into()).await });
        };
        answers.push(asking.listen(&format!("own.{n}"), Some("q"), answer).await.unwrap());
    }
    asking.flush().await.unwrap();
    for round in 0..2 {
        let bus = asking.clone();
        let waiting =
            tokio::spawn(async move { bus.request("a", Headers::new(), Bytes::new(), LONG).await });
        let request = requests.next().await.unwrap();
        let mended = asking.mended();
        send_raw(&server, "hostile", b"NATS/1.0\r\nx: bare\rreturn\r\n\r\n").await;
        tokio::time::timeout(LONG, mended).await.expect("who asked is told of the loss");
        // Nobody who listened before seems to be gone.
        let own = (0..SUBSCRIPTIONS).map(|n| {
            let bus = asking.clone();
            async move {
                bus.request(&format!("own.{n}"), Headers::new(), Bytes::new(), LONG).await
            }
        });
        for answer in futures_util::future::join_all(own).await {
            assert_eq!(answer.unwrap().payload, "own", "round {round}");
        }
        answering.reply(&request, Headers::new(), "late".into()).await.unwrap();
        let answer = waiting.await.unwrap().unwrap();
        assert_eq!(answer.payload, "late", "round {round}");
        assert!(asking.is_connected());
    }
}

#[tokio::test]
async fn what_does_not_leave_was_not_sent_and_answers_wait() {
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let mut requests = listen(&bus, "a").await;
    // How long who asks waits, as the request says, and whether his answer waits as well.
    let cases = [(Some("20000"), true), (None, true), (Some("1000"), false)];
    let mut received = Vec::new();
    let inbox = bus.new_inbox();
    let mut answers = listen(&bus, &inbox).await;
    for (remaining, _) in cases {
        let headers = remaining
            .map_or(Headers::new(), |ms| Headers::new().with(wire::header::REMAINING_MS, ms));
        bus.publish_with_reply("a", &inbox, headers, Bytes::new()).await.unwrap();
        received.push(requests.next().await.unwrap());
    }
    server.stop().unwrap();
    until("the loss is seen", || !bus.is_connected()).await;
    fill(&bus).await;

    let short = Duration::from_millis(20);
    let request = bus.request("a", Headers::new(), Bytes::new(), short).await.unwrap_err();
    assert!(matches!(request, Error::NotSent { after_ms: 20, .. }), "{request:?}");
    assert!(request.to_string().contains("nothing was sent"), "{request}");

    let mut waiting: Vec<_> = received
        .iter()
        .map(|request| Box::pin(bus.reply(request, Headers::new(), "late".into())))
        .collect();
    let mut request = Box::pin(bus.request("a", Headers::new(), Bytes::new(), LONG));
    for answer in &mut waiting {
        assert!(answer.now_or_never().is_none());
    }
    assert!((&mut request).now_or_never().is_none());
    tokio::time::pause();
    tokio::time::advance(SEND_WAIT_MAX + Duration::from_secs(1)).await;
    let mut left = Vec::new();
    for (mut answer, (remaining, waits)) in waiting.into_iter().zip(cases) {
        match (&mut answer).now_or_never() {
            None if waits => left.push(answer),
            Some(Err(Error::NotSent { .. })) if !waits => {}
            sent => panic!("{remaining:?}: {sent:?}"),
        }
    }
    let unsent = (&mut request).now_or_never();
    assert!(matches!(unsent, Some(Err(Error::NotSent { after_ms: 5000, .. }))), "{unsent:?}");
    tokio::time::resume();

    server.restart().await.unwrap();
    let sent = tokio::time::timeout(LONG, futures_util::future::join_all(left)).await.unwrap();
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    for _ in sent {
        let answer = tokio::time::timeout(LONG, answers.next()).await.unwrap().unwrap();
        assert_eq!(answer.payload, "late");
    }
}

/// A reader that stands still. What finds no room is refused, and nothing is lost unheard.
#[tokio::test]
async fn t14_every_request_to_a_reader_that_stands_still_is_answered() {
    const REQUESTS: usize = 30_000;
    let server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let mut stopped = listen(&bus, "a").await;
    let mut options = NatsOptions::new([server.url()]);
    options.subscription_messages_max = REQUESTS;
    let asking = Bus::connect(options).await.unwrap();
    let inbox = asking.new_inbox();
    let mut answers = listen(&asking, &inbox).await;
    for n in 0..REQUESTS {
        let body = n.to_string().into();
        asking.publish_with_reply("a", &inbox, Headers::new(), body).await.unwrap();
    }
    let room = crate::SUBSCRIPTION_MESSAGES_MAX_DEFAULT;
    for n in room..REQUESTS {
        let answer = tokio::time::timeout(LONG, answers.next()).await.expect("an answer").unwrap();
        assert_eq!(
            answer.headers.get("Nats-Service-Error-Code").as_deref(),
            Some("E1006"),
            "answer {n}"
        );
    }
    assert_eq!(bus.dropped(), (REQUESTS - room) as u64, "each is counted, and no other is lost");
    assert_eq!(asking.dropped(), 0);
    for n in 0..room {
        assert_eq!(stopped.next().await.unwrap().payload, n.to_string());
    }
    let refused = REQUESTS - room;
    let held =
        format!("{REQUESTS} requests at once: {room} kept for it, {refused} refused, 0 dropped");
    // For whoever collects results; see `tests/src/results.rs`.
    let row = serde_json::json!({
        "id": "T14", "what": "requests to a reader that stands still", "held": held,
        "passes": "each request is kept or told `overloaded`",
        "command": "cargo test -p bus t14_ -- --nocapture",
    });
    println!("\nRESULT {row}");
}

#[tokio::test]
async fn a_request_to_oneself_is_not_read_again_and_what_looks_like_one_is() {
    let server = NatsServer::start("").await.unwrap();
    let (bus, other) = (connect(&server).await, connect(&server).await);
    let (_hearing, mut heard) = hear(&bus, "a").await;
    let mut onlooker = other.subscribe("*", None).await.unwrap();
    other.flush().await.unwrap();
    let content = Arc::new(vec![1_u64, 2]);
    let sent = || Headers::new().with("n", 1).with("k", "v").with("own".to_owned(), "o");
    let without_k = || Headers::new().with("n", 1).with("own", "o");
    // Who sees where an answer is wanted may ask for one there as well, before the request is heard
    // and after it.
    let cases = [
        ("a", "[1,2]", sent()),
        ("elsewhere", "[3]", sent()),
        ("elsewhere", "[1,2]", sent().with("k", "w")),
        ("elsewhere", "[1,2]", sent().with("more", "v")),
        ("elsewhere", "[1,2]", without_k()),
        ("elsewhere", "[1,2]", without_k().with("K", "v")),
        ("elsewhere", "[1,2]", Headers::new()),
    ];
    for (subject, text, headers) in cases {
        let (asking, asked) = (bus.clone(), content.clone());
        let answer = tokio::spawn(async move {
            asking.request_of(subject, sent(), asked, LONG).await.unwrap();
        });
        let request = onlooker.next().await.unwrap();
        assert_eq!((request.subject.as_str(), &*request.payload), (subject, &b"[1,2]"[..]));
        if subject == "a" {
            let parcel = heard.recv().await.unwrap();
            assert!(Arc::ptr_eq(&parcel.read().unwrap(), &content));
            assert_eq!(parcel.message().headers.read::<u64>("n"), Some(1));
            assert_eq!(parcel.message().reply, request.reply);
            assert_eq!(parcel.into_message().payload, "[1,2]");
        }
        let inbox = request.reply.unwrap();
        other.publish_with_reply("a", &inbox, headers.clone(), text.into()).await.unwrap();
        let parcel = heard.recv().await.unwrap();
        let numbers = parcel.read::<Vec<u64>>().unwrap();
        assert_eq!(serde_json::to_string(&numbers).unwrap(), text);
        assert!(!Arc::ptr_eq(&numbers, &content), "{subject} {text}");
        assert_eq!(parcel.message().headers.get("k"), headers.get("k"));
        assert_eq!(onlooker.next().await.unwrap().payload, text);
        other.publish(&inbox, Headers::new(), "done".into()).await.unwrap();
        answer.await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_held_of_what_may_wait_for_days() {
    let server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let (_hearing, mut heard) = hear(&bus, "a").await;
    for (wait, is_held) in [(Wait::long(LONG), false), (Wait::from(LONG), true)] {
        let content = Arc::new(1_u64);
        let asked = Arc::downgrade(&content);
        let request = bus.request_of("a", Headers::new(), content, wait);
        let answer = async {
            let parcel = heard.recv().await.unwrap();
            let number = parcel.read::<u64>().unwrap();
            assert_eq!(
                std::ptr::addr_eq(asked.as_ptr(), Arc::as_ptr(&number)),
                is_held,
                "{wait:?}"
            );
            bus.reply(parcel.message(), Headers::new(), "done".into()).await.unwrap();
        };
        let (answered, ()) = tokio::join!(request, answer);
        answered.unwrap();
    }
}

#[tokio::test]
async fn what_was_published_last_is_sent() {
    let server = NatsServer::start("").await.unwrap();
    let other = connect(&server).await;
    let mut subscription = listen(&other, "a").await;
    let bus = connect(&server).await;
    for _ in 0..100 {
        bus.publish("a", Headers::new(), "x".into()).await.unwrap();
    }
    drop(bus);
    for n in 0..100 {
        let message = tokio::time::timeout(LONG, subscription.next()).await;
        assert!(message.is_ok(), "message {n}");
    }
}

#[tokio::test]
async fn only_those_who_are_let_in_connect() {
    let dir = tempfile::tempdir().unwrap();
    let seed = dir.path().join("seed");
    std::fs::write(&seed, format!("{NKEY_SEED}\n")).unwrap();
    let user = |password: &str| Auth::User { user: "u".into(), password: password.into() };
    let servers = [
        (
            "authorization { user: u, password: right }",
            Some("u:right"),
            user("right"),
            user("wrong"),
        ),
        (
            "authorization { token: right }",
            Some("right"),
            Auth::Token("right".into()),
            Auth::Anonymous,
        ),
        (
            &format!("authorization {{ users = [{{ nkey: {NKEY_PUBLIC} }}] }}"),
            None,
            Auth::NkeyFile(seed),
            user("right"),
        ),
    ];
    for (config, in_url, right, wrong) in servers {
        let server = NatsServer::start(config).await.unwrap();
        let mut options = NatsOptions::new([server.url()]);
        options.auth = right;
        Bus::connect(options.clone()).await.unwrap().flush().await.unwrap();
        if let Some(login) = in_url {
            let url = server.url().replace("://", &format!("://{login}@"));
            Bus::connect(NatsOptions::new([url])).await.unwrap().flush().await.unwrap();
        }
        options.auth = wrong;
        let error = Bus::connect(options).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{config}: {error:?}");
        assert!(error.to_wire().message.contains("authorization violation"), "{error:?}");
    }
}

#[tokio::test]
async fn an_own_inbox_prefix_is_enough() {
    let config = "authorization { users = [{ user: u, password: p, permissions: {
        publish: [\"a\", \"_INBOX_node.>\"], subscribe: [\"a\", \"_INBOX_node.>\"] } }] }";
    let server = NatsServer::start(config).await.unwrap();
    let mut options = NatsOptions::new([server.url()]);
    options.auth = Auth::User { user: "u".into(), password: "p".into() };
    options.inbox_prefix = "_INBOX_node".into();
    let bus = Bus::connect(options).await.unwrap();
    assert!(bus.new_inbox().starts_with("_INBOX_node."));
    let mut requests = listen(&bus, "a").await;
    ask_oneself(&bus, &mut requests).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let mut server = NatsServer::start("").await.unwrap();
    server.stop().unwrap();
    let url = server.url().replace("://", "://user:secret@");
    let error = Bus::connect(NatsOptions::new([url])).await.unwrap_err().to_wire();
    assert_eq!(error.code, wire::ErrorCode::NatsUnavailable);
    let address = format!("connect to NATS at 127.0.0.1:{}: ", server.port());
    assert!(error.message.starts_with(&address), "{error}");
    assert!(!error.message.contains("secret"), "{error}");
}

#[tokio::test]
async fn who_asked_here_is_answered_without_the_server() {
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect(&server).await;
    let mut requests = listen(&bus, "a").await;
    let ask = || bus.request_of("a", Headers::new(), Arc::new("ping".to_owned()), LONG);
    let first = async {
        let request = requests.next().await.unwrap();
        bus.reply(&request, Headers::new(), "\"bytes\"".into()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(ask(), first);
    assert_eq!(*answer.unwrap().read::<String>().unwrap(), "bytes");

    let content = Arc::new(vec![1_u8]);
    let second = async {
        let request = requests.next().await.unwrap();
        server.stop().unwrap();
        until("the loss is seen", || !bus.is_connected()).await;
        bus.reply_of(&request, Headers::new(), content.clone()).await.unwrap();
        // Another one finds nobody.
        bus.reply(&request, Headers::new(), Bytes::new()).await.unwrap();
    };
    let (answer, ()) = tokio::join!(ask(), second);
    assert!(Arc::ptr_eq(&answer.unwrap().read().unwrap(), &content), "it is not written");
}

#[tokio::test]
async fn who_is_near_is_asked_without_the_server() {
    let server = NatsServer::start("").await.unwrap();
    let (here, there) = (connect_near(&server).await, connect(&server).await);
    let mut onlooker = there.subscribe("a", None).await.unwrap();
    there.flush().await.unwrap();
    let answering = here.clone();
    let answer = move |message: Message| {
        let bus = answering.clone();
        tokio::spawn(async move {
            bus.reply(&message, Headers::new(), message.payload.clone()).await.unwrap();
        });
    };
    let ask = async |bus: &Bus, text: &'static str| {
        let near = bus.near("a").unwrap_or_else(|| bus.clone());
        let answer = near.request("a", Headers::new(), text.into(), LONG).await;
        answer.map(|answer| answer.payload)
    };
    let mut heard = Vec::new();
    for (queue, text, passes_server) in
        [(Some("q"), "near", false), (None, "everybody's", true), (Some("q"), "again", false)]
    {
        let listening = here.listen("a", queue, answer.clone()).await.unwrap();
        here.flush().await.unwrap();
        assert_eq!(ask(&here, text).await.unwrap(), text, "{queue:?}");
        assert_eq!(ask(&there, "far").await.unwrap(), "far", "{queue:?}");
        heard.extend(passes_server.then_some(text).into_iter().chain(["far"]));
        drop(listening);
        here.flush().await.unwrap();
    }
    let mut seen = Vec::new();
    while seen.len() < heard.len() {
        seen.push(onlooker.next().await.unwrap().payload);
    }
    assert_eq!(seen, heard);

    let _far = there.listen("c", Some("q"), |_| {}).await.unwrap();
    assert!(there.near("c").is_none(), "it was not allowed");
    let near = here.listen("b", Some("q"), |_| {}).await.unwrap();
    let near_bus = here.near("b").unwrap();
    let silent = near_bus.request("b", Headers::new(), Bytes::new(), Duration::ZERO).await;
    assert!(matches!(silent, Err(Error::Timeout { .. })), "{silent:?}");
    drop(near);
    assert!(here.near("b").is_none());
    let near = here.listen("b", Some("q"), |_| {}).await.unwrap();
    here.drain().await.unwrap();
    assert!(here.near("b").is_none());
    drop(near);
}

#[tokio::test]
async fn who_is_near_is_asked_while_the_server_is_away() {
    let mut server = NatsServer::start("").await.unwrap();
    let bus = connect_near(&server).await;
    let answering = bus.clone();
    let _near = bus
        .listen("a", Some("q"), move |message| {
            let bus = answering.clone();
            tokio::spawn(async move {
                bus.reply(&message, Headers::new(), "pong".into()).await.unwrap();
            });
        })
        .await
        .unwrap();
    server.stop().unwrap();
    until("the loss is seen", || !bus.is_connected()).await;
    let near = bus.near("a").unwrap();
    let answer = near.request("a", Headers::new(), "ping".into(), LONG).await;
    assert_eq!(answer.unwrap().payload, "pong");
}
