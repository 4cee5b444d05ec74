//! A client that ends as it is handed a request.

use async_nats::ConnectOptions;
use futures_util::StreamExt as _;
use tokio::sync::watch;

use super::*;
use crate::nats::keeper::{Answers, Link};
use crate::nats::outbox::Outbox;

async fn open(server: &NatsServer) -> Link {
    Link::new(ConnectOptions::new().connect(server.url()).await.unwrap())
}

/// Returns a client that has ended, of which that is not known yet.
async fn ended(server: &NatsServer) -> Link {
    let link = open(server).await;
    let mut hostile = link.client.subscribe("hostile").await.unwrap();
    link.client.publish("hostile", Bytes::new()).await.unwrap();
    hostile.next().await.unwrap();
    send_raw(server, "hostile", b"NATS/1.0\r\nx: bare\rreturn\r\n\r\n").await;
    let ended = async {
        while link.client.publish("filler", Bytes::new()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, ended).await.expect("the client ends");
    assert!(link.is_connected());
    link
}

#[tokio::test]
async fn a_request_that_a_client_does_not_take_waits_for_the_next_one() {
    let server = NatsServer::start("").await.unwrap();
    let other = connect(&server).await;
    let mut heard = listen(&other, "a").await;
    let message = |payload: &'static str| Message {
        subject: "a".to_owned(),
        reply: None,
        headers: Headers::new(),
        payload: payload.into(),
    };
    // Whether it is given up before there is another client.
    for is_given_up in [true, false] {
        let (links, to_send) = watch::channel(Arc::new(ended(&server).await));
        let answers = Arc::new(Answers::new("inbox.".to_owned()));
        let (outbox, _handing_over) = Outbox::start(to_send, answers);
        let leaving = outbox.ask(message("asked"), LONG.into(), LONG).await.unwrap();
        let passed = tokio::time::timeout(LONG, outbox.handed_over());
        passed.await.expect("others do not wait for it");
        let left = if is_given_up {
            assert!(!leaving.has_left());
            None
        } else {
            Some(leaving)
        };
        links.send_replace(Arc::new(open(&server).await));
        if let Some(leaving) = left {
            let asked = tokio::time::timeout(LONG, heard.next()).await.expect("it is sent");
            assert_eq!(asked.unwrap().payload, "asked");
            assert!(leaving.has_left());
        }
        outbox.put(message("told"), LONG).await.unwrap();
        assert_eq!(heard.next().await.unwrap().payload, "told", "given up: {is_given_up}");
    }
}
