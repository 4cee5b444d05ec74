//! Requests and their answers.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use wire::error::ErrorBody;
use wire::{ErrorCode, Headers, WireError, header};

use super::{Kind, LONG, echo, next, on_both, seen, texts};
use crate::Error;

on_both! {
    a_request_is_answered,
    many_requests_get_their_own_answers,
    nobody_there_is_told_at_once,
    silence_is_a_timeout,
    only_the_first_answer_counts,
    only_inboxes_are_answered,
    errors_travel_in_body_and_headers,
    several_answers_are_collected_on_an_inbox,
    an_onlooker_disturbs_nothing,
}

async fn a_request_is_answered(kind: Kind) {
    let pair = kind.pair().await;
    let mut requests = pair.listen("a.b", Some("q")).await;
    let server = async {
        let request = next(&mut requests).await;
        assert_eq!((request.subject.as_str(), &request.payload[..]), ("a.b", &b"question"[..]));
        assert_eq!(request.headers.get("k").as_deref(), Some("v"));
        let inbox = request.reply.clone().unwrap();
        assert!(wire::subject::is_inbox(&inbox), "{inbox}");
        let headers = Headers::new().with("r", "w");
        pair.b.reply(&request, headers, "answer".into()).await.unwrap();
        inbox
    };
    let headers = Headers::new().with("k", "v");
    let request = pair.a.request("a.b", headers, "question".into(), LONG);
    let (inbox, answer) = tokio::join!(server, request);
    let answer = answer.unwrap();
    assert_eq!((answer.subject, &answer.payload[..]), (inbox, &b"answer"[..]));
    assert_eq!(answer.headers.get("r").as_deref(), Some("w"));
}

async fn many_requests_get_their_own_answers(kind: Kind) {
    let pair = kind.pair().await;
    for _ in 0..3 {
        echo(&pair.b, pair.listen("a", Some("q")).await);
    }
    let texts: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let answers = join_all(texts.iter().map(|text| pair.ask("a", text))).await;
    for (text, answer) in texts.iter().zip(answers) {
        assert_eq!(answer.unwrap().payload, text.as_bytes());
    }
}

async fn nobody_there_is_told_at_once(kind: Kind) {
    let pair = kind.pair().await;
    let begun = tokio::time::Instant::now();
    let error = pair.ask("nobody.here", "").await.unwrap_err();
    assert!(matches!(&error, Error::NoResponders { subject } if subject == "nobody.here"));
    assert_eq!(error.to_wire().code, ErrorCode::Unavailable);
    assert!(begun.elapsed() < LONG / 4, "took {:?}", begun.elapsed());
}

async fn silence_is_a_timeout(kind: Kind) {
    let pair = kind.pair().await;
    let _silent = pair.listen("a", Some("q")).await;
    let wait = Duration::from_millis(30);
    let error = pair.a.request("a", Headers::new(), Bytes::new(), wait).await.unwrap_err();
    assert!(matches!(&error, Error::Timeout { subject, after_ms: 30 } if subject == "a"));
}

async fn only_the_first_answer_counts(kind: Kind) {
    let pair = kind.pair().await;
    let mut requests = pair.listen("a", Some("q")).await;
    let server = async {
        for _ in 0..2 {
            let request = next(&mut requests).await;
            for n in ["first", "second"] {
                let answer = [&request.payload[..], n.as_bytes()].concat();
                pair.b.reply(&request, Headers::new(), answer.into()).await.unwrap();
            }
        }
    };
    let client = async {
        assert_eq!(pair.ask("a", "x-").await.unwrap().payload, "x-first");
        assert_eq!(pair.ask("a", "y-").await.unwrap().payload, "y-first");
    };
    tokio::join!(server, client);
}

async fn only_inboxes_are_answered(kind: Kind) {
    let pair = kind.pair().await;
    let mut requests = pair.listen("a", None).await;
    let mut victim = pair.listen("secret.>", None).await;
    let publish = |reply| pair.a.publish_with_reply("a", reply, Headers::new(), Bytes::new());
    publish("secret.order").await.unwrap();
    let request = next(&mut requests).await;
    let refused = [
        pair.b.reply(&request, Headers::new(), Bytes::new()).await,
        pair.b.reply_error(&request, &WireError::new(ErrorCode::Internal, "x")).await,
    ];
    for result in refused {
        assert!(
            matches!(&result, Err(Error::ReplyRefused { subject }) if subject == "secret.order")
        );
    }
    pair.tell("secret.last", "last").await;
    assert_eq!(texts(&mut victim, 1).await, ["last"]);

    pair.tell("a", "no reply asked").await;
    let request = next(&mut requests).await;
    pair.b.reply(&request, Headers::new(), Bytes::new()).await.unwrap();
}

async fn errors_travel_in_body_and_headers(kind: Kind) {
    let pair = kind.pair().await;
    let mut requests = pair.listen("a", Some("q")).await;
    let error = WireError::new(ErrorCode::ToolFailed, "line one\r\nline two: ä ").retry_after(5);
    let server = async {
        let request = next(&mut requests).await;
        pair.b.reply_error(&request, &error).await.unwrap();
    };
    let ((), answer) = tokio::join!(server, pair.ask("a", ""));
    let answer = answer.unwrap();
    assert_eq!(answer.headers.get(header::SERVICE_ERROR).as_deref(), Some("line one  line two: ä"));
    assert_eq!(answer.headers.get(header::SERVICE_ERROR_CODE).as_deref(), Some("E3003"));
    assert_eq!(serde_json::from_slice::<ErrorBody>(&answer.payload).unwrap().error, error);
}

async fn several_answers_are_collected_on_an_inbox(kind: Kind) {
    let pair = kind.pair().await;
    for _ in 0..3 {
        echo(&pair.b, pair.listen("a", None).await);
    }
    let inbox = pair.a.new_inbox();
    assert_ne!(inbox, pair.a.new_inbox());
    let mut answers = pair.a.subscribe(&inbox, None).await.unwrap();
    pair.a.publish_with_reply("a", &inbox, Headers::new(), "x".into()).await.unwrap();
    assert_eq!(texts(&mut answers, 3).await, ["x", "x", "x"]);
}

async fn an_onlooker_disturbs_nothing(kind: Kind) {
    let pair = kind.pair_with(16).await;
    let mut full = pair.listen(">", None).await;
    echo(&pair.b, pair.listen("a", Some("q")).await);
    for n in 0..20 {
        let answer = pair.ask("a", &n.to_string()).await.unwrap();
        assert_eq!(answer.payload, n.to_string());
    }
    pair.settle().await;
    assert!(pair.b.dropped() > 0, "the onlooker did not keep up");
    let request = seen(&mut full, "a").await;
    let inbox = request.reply.unwrap();
    assert_eq!(seen(&mut full, &inbox).await.payload, request.payload);
}
