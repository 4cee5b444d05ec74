//! The service protocol, word for word the same on both.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use wire::{ErrorCode, Headers, WireError};

use super::{Kind, Pair, on_both};
use crate::{Endpoint, Error, Service, ServiceInfo};

on_both! {
    a_service_answers_for_itself,
    hundreds_of_endpoints_fit_or_are_refused,
    a_service_may_offer_something_else,
    a_dropped_service_is_silent,
    faulty_services_are_refused,
}

fn endpoint(name: &str, schema: &str) -> Endpoint {
    Endpoint {
        name: name.to_owned(),
        subject: format!("callboard.v1.t.tool.{name}"),
        queue_group: "q".to_owned(),
        metadata: BTreeMap::from([("schema".to_owned(), schema.to_owned())]),
    }
}

fn info(endpoints: Vec<Endpoint>) -> ServiceInfo {
    ServiceInfo {
        name: "callboard-t".to_owned(),
        id: "node1".to_owned(),
        version: "0.1.0".to_owned(),
        description: "a team".to_owned(),
        started: "2025-01-02T03:04:05.000006Z".to_owned(),
        metadata: BTreeMap::from([("team".to_owned(), "t".to_owned())]),
        endpoints,
    }
}

async fn ask(pair: &Pair, subject: &str) -> Value {
    let answer = pair.ask(subject, "").await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap()
}

async fn a_service_answers_for_itself(kind: Kind) {
    let pair = kind.pair().await;
    let endpoints = vec![endpoint("add", "{\"type\":\"object\"}"), endpoint("sub", "{}")];
    let service = Service::start(&pair.b, info(endpoints)).await.unwrap();

    let ping = json!({
        "type": "io.nats.micro.v1.ping_response",
        "name": "callboard-t", "id": "node1", "version": "0.1.0", "metadata": {"team": "t"},
    });
    let subject = |name: &str| format!("callboard.v1.t.tool.{name}");
    let described = json!({
        "type": "io.nats.micro.v1.info_response",
        "name": "callboard-t", "id": "node1", "version": "0.1.0", "metadata": {"team": "t"},
        "description": "a team",
        "endpoints": [
            {"name": "add", "subject": subject("add"), "queue_group": "q",
             "metadata": {"schema": "{\"type\":\"object\"}"}},
            {"name": "sub", "subject": subject("sub"), "queue_group": "q",
             "metadata": {"schema": "{}"}},
        ],
    });
    service.record("add", Duration::from_micros(3), None);
    let error = WireError::new(ErrorCode::ToolFailed, "no");
    service.record("add", Duration::from_micros(1), Some(&error));
    service.record("unknown", Duration::from_micros(1), None);
    let stats = json!({
        "type": "io.nats.micro.v1.stats_response",
        "name": "callboard-t", "id": "node1", "version": "0.1.0", "metadata": {"team": "t"},
        "started": "2025-01-02T03:04:05.000006Z",
        "endpoints": [
            {"name": "add", "subject": subject("add"), "queue_group": "q",
             "num_requests": 2, "num_errors": 1, "last_error": "E3003 no",
             "processing_time": 4000, "average_processing_time": 2000},
            {"name": "sub", "subject": subject("sub"), "queue_group": "q",
             "num_requests": 0, "num_errors": 0, "last_error": "",
             "processing_time": 0, "average_processing_time": 0},
        ],
    });
    for (verb, expected) in [("PING", ping), ("INFO", described), ("STATS", stats)] {
        for scope in ["", ".callboard-t", ".callboard-t.node1"] {
            let subject = format!("$SRV.{verb}{scope}");
            assert_eq!(ask(&pair, &subject).await, expected, "{subject}");
        }
    }
    for other in ["$SRV.PING.other", "$SRV.INFO.callboard-t.node2", "$SRV.NOPE"] {
        assert!(matches!(pair.ask(other, "").await, Err(Error::NoResponders { .. })), "{other}");
    }
}

async fn a_service_may_offer_something_else(kind: Kind) {
    let pair = kind.pair().await;
    let service = Service::start(&pair.b, info(vec![endpoint("add", "{}")])).await.unwrap();
    service.record("add", Duration::from_micros(3), None);
    service.update(vec![endpoint("add", "1"), endpoint("sub", "{}")]).unwrap();
    let names = |listed: &Value| -> Vec<String> {
        let endpoints = listed["endpoints"].as_array().unwrap().iter();
        endpoints.map(|endpoint| endpoint["name"].as_str().unwrap().to_owned()).collect()
    };
    let listed = ask(&pair, "$SRV.INFO.callboard-t").await;
    assert_eq!(names(&listed), ["add", "sub"]);
    assert_eq!(listed["endpoints"][0]["metadata"]["schema"], "1");
    let stats = ask(&pair, "$SRV.STATS.callboard-t.node1").await;
    assert_eq!((names(&stats).len(), &stats["endpoints"][0]["num_requests"]), (2, &json!(1)));

    let large = "x".repeat(super::PAYLOAD_BYTES_MAX);
    let refused = service.update(vec![endpoint("sub", &large)]).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused:?}");
    let twice = service.update(vec![endpoint("a", "1"), endpoint("a", "1")]).unwrap_err();
    assert!(matches!(twice, Error::InvalidService { .. }), "{twice:?}");
    assert_eq!(names(&ask(&pair, "$SRV.INFO").await), ["add", "sub"], "all is as it was");
}

async fn hundreds_of_endpoints_fit_or_are_refused(kind: Kind) {
    let pair = kind.pair().await;
    let many: Vec<Endpoint> = (0..300).map(|n| endpoint(&format!("tool{n}"), "{}")).collect();
    let service = Service::start(&pair.b, info(many.clone())).await.unwrap();
    let listed = ask(&pair, "$SRV.INFO.callboard-t").await;
    assert_eq!(listed["endpoints"].as_array().unwrap().len(), 300);
    drop(service);

    let large = "x".repeat(super::PAYLOAD_BYTES_MAX);
    let error = Service::start(&pair.b, info(vec![endpoint("a", &large)])).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
}

async fn a_dropped_service_is_silent(kind: Kind) {
    let pair = kind.pair().await;
    let service = Service::start(&pair.b, info(Vec::new())).await.unwrap();
    ask(&pair, "$SRV.PING").await;
    drop(service);
    // A request that arrives while the service unsubscribes is not answered at all.
    let ping = || {
        let wait = Duration::from_millis(100);
        pair.a.request("$SRV.PING", Headers::new(), Bytes::new(), wait)
    };
    let gone = async { while !matches!(ping().await, Err(Error::NoResponders { .. })) {} };
    tokio::time::timeout(super::LONG, gone).await.expect("silence");
}

async fn faulty_services_are_refused(kind: Kind) {
    let pair = kind.pair().await;
    let good = info(vec![endpoint("a", "{}")]);
    let cases: [(&str, ServiceInfo); 5] = [
        ("name", ServiceInfo { name: "a.b".into(), ..good.clone() }),
        ("id", ServiceInfo { id: String::new(), ..good.clone() }),
        ("version", ServiceInfo { version: "one".into(), ..good.clone() }),
        ("endpoint", ServiceInfo { endpoints: vec![endpoint("a b", "")], ..good.clone() }),
        ("twice", ServiceInfo { endpoints: vec![endpoint("a", ""); 2], ..good }),
    ];
    for (what, info) in cases {
        let error = Service::start(&pair.b, info).await.unwrap_err();
        assert!(matches!(error, Error::InvalidService { .. }), "{what}: {error:?}");
    }
}
