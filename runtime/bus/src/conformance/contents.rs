//! Contents that are written only where somebody wants bytes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use wire::Headers;

use super::{Kind, LONG, PAYLOAD_BYTES_MAX, Pair, on_both, seen};
use crate::{Content, Error, Listening, Parcel, Work};

on_both! {
    a_content_and_its_answer_arrive,
    onlookers_see_contents_as_they_are_written,
    contents_obey_the_limit,
    work_is_done_though_nobody_waits,
}

/// Answers every list of numbers with its sum at the second end.
async fn adds(pair: &Pair) -> Listening {
    let bus = pair.b.clone();
    let listening = pair.b.take("add", Some("q"), move |parcel: Parcel| {
        let bus = bus.clone();
        let work: Work = Box::pin(async move {
            let sum = parcel.read::<Vec<u64>>().map(|numbers| numbers.iter().sum::<u64>());
            let answer: Arc<dyn Content> = match sum {
                Ok(sum) => Arc::new(sum),
                Err(_) => Arc::new("not numbers".to_owned()),
            };
            bus.reply_of(parcel.message(), Headers::new(), answer).await.unwrap();
        });
        Some(work)
    });
    let listening = listening.await.unwrap();
    pair.b.flush().await.unwrap();
    listening
}

async fn a_content_and_its_answer_arrive(kind: Kind) {
    let pair = kind.pair().await;
    let _adds = adds(&pair).await;
    let ask = |content| pair.a.request_of("add", Headers::new(), content, LONG);
    let answer = ask(Arc::new(vec![1_u64, 2])).await.unwrap();
    assert_eq!(*answer.read::<u64>().unwrap(), 3);
    assert_eq!(*answer.read::<u8>().unwrap(), 3, "as another type");
    assert_eq!(answer.into_message().payload, "3");
    // As another type that is written alike, as one that is not, and as bytes.
    let answer = ask(Arc::new(json!([4, 5]))).await.unwrap();
    assert_eq!(*answer.read::<u64>().unwrap(), 9);
    let answer = ask(Arc::new(json!({"a": 4}))).await.unwrap();
    assert_eq!(*answer.read::<String>().unwrap(), "not numbers");
    assert_eq!(pair.ask("add", "[6, 7]").await.unwrap().payload, "13");
}

async fn onlookers_see_contents_as_they_are_written(kind: Kind) {
    let pair = kind.pair().await;
    let _adds = adds(&pair).await;
    let mut onlooker = pair.listen(">", None).await;
    let content = Arc::new(vec![1_u64, 2]);
    let answer = pair.a.request_of("add", Headers::new(), content, LONG).await.unwrap();
    assert_eq!(*answer.read::<u64>().unwrap(), 3);
    let asked = seen(&mut onlooker, "add").await;
    assert_eq!(asked.payload, "[1,2]");
    assert_eq!(seen(&mut onlooker, &asked.reply.unwrap()).await.payload, "3");
}

async fn contents_obey_the_limit(kind: Kind) {
    let pair = kind.pair().await;
    let _adds = adds(&pair).await;
    let ask = |digits: usize| {
        let content = Arc::new("1".repeat(digits));
        pair.a.request_of("add", Headers::new(), content, LONG)
    };
    let quotes = 2;
    assert!(ask(PAYLOAD_BYTES_MAX - quotes).await.is_ok());
    let bytes = PAYLOAD_BYTES_MAX + 1;
    let error = ask(bytes - quotes).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { bytes: found, .. } if found == bytes), "{error}");
}

async fn work_is_done_though_nobody_waits(kind: Kind) {
    let pair = kind.pair().await;
    let go = Arc::new(Semaphore::new(0));
    let (done, mut is_done) = mpsc::channel(1);
    let (bus, gone) = (pair.b.clone(), go.clone());
    let working = pair.b.take("work", Some("q"), move |parcel: Parcel| {
        let (bus, gone, done) = (bus.clone(), gone.clone(), done.clone());
        let work: Work = Box::pin(async move {
            if parcel.message().payload == "answer first" {
                bus.reply(parcel.message(), Headers::new(), "taken".into()).await.unwrap();
            }
            gone.acquire().await.unwrap().forget();
            done.send(parcel.into_message().payload).await.unwrap();
        });
        Some(work)
    });
    let _working = working.await.unwrap();
    pair.b.flush().await.unwrap();
    let ask = async |payload: &'static str, timeout| {
        pair.a.request("work", Headers::new(), payload.into(), timeout).await
    };
    let silent = ask("no answer", Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(silent, Error::Timeout { .. }), "{silent}");
    go.add_permits(1);
    assert_eq!(is_done.recv().await.unwrap(), "no answer");
    assert_eq!(ask("answer first", LONG).await.unwrap().payload, "taken");
    go.add_permits(1);
    assert_eq!(is_done.recv().await.unwrap(), "answer first");
}
