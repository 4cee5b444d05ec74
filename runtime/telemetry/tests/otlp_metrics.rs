//! Measures reach a real OTLP/HTTP endpoint.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_sdk::error::OTelSdkError;
use prost::Message as _;
use telemetry::{Error, Metrics, Service};
use wire::Name;

#[test]
fn what_is_measured_leaves_at_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0);
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        (head, ExportMetricsServiceRequest::decode(body.as_slice()).unwrap())
    });
    let service = Service { name: "callboard".into(), version: "1".into(), instance: "i".into() };
    let metrics =
        Metrics::start(Name::new("t").ok().as_ref(), &service, Some(address.as_str())).unwrap();
    metrics.restarted("tool");
    metrics.committed(2, 100, Duration::from_millis(3));
    metrics.shutdown(Duration::from_secs(20)).unwrap();

    let (head, body) = endpoint.join().unwrap();
    assert!(head.starts_with("post /v1/metrics "), "{head}");
    let [resource] = body.resource_metrics.as_slice() else { panic!("{body:?}") };
    let [scope] = resource.scope_metrics.as_slice() else { panic!("{resource:?}") };
    let metric = |name: &str| scope.metrics.iter().find(|metric| metric.name == name).unwrap();
    let Some(Data::Sum(restarts)) = &metric("callboard.restarts").data else { panic!("{scope:?}") };
    assert!(restarts.is_monotonic);
    let sync = metric("callboard.journal.sync.duration");
    let Some(Data::Histogram(times)) = &sync.data else { panic!("{sync:?}") };
    assert_eq!((sync.unit.as_str(), times.data_points[0].count), ("s", 1));
}

#[test]
fn an_endpoint_that_is_silent_does_not_hold_up_the_end() {
    // It takes connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let service = Service { name: "callboard".into(), version: "1".into(), instance: "i".into() };
    let metrics = Metrics::start(None, &service, Some(address.as_str())).unwrap();
    metrics.restarted("tool");
    let limit = Duration::from_millis(50);
    let error = metrics.shutdown(limit).unwrap_err();
    let is_in_time = matches!(error, Error::Shutdown(OTelSdkError::Timeout(it)) if it == limit);
    assert!(is_in_time, "{error}");
}
