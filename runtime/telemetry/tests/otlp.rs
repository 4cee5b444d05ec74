//! Spans reach a real OTLP/HTTP endpoint as they were handed in.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};
use telemetry::{Exporter, Service};
use wire::trace::SpanKind;
use wire::{
    Attributes, Name, RunId, SessionId, SpanEvent, SpanLink, SpanRecord, Timestamp, TraceContext,
    semconv,
};

/// One request as the endpoint saw it.
struct Seen {
    head: String,
    body: ExportTraceServiceRequest,
    bytes: usize,
    /// What it was answered, if anything.
    answer: Option<u16>,
}

/// Says what the next request is answered; without an answer the endpoint hangs up.
type Answer = Box<dyn FnMut(&Seen) -> Option<u16> + Send>;

/// Starts an endpoint that takes everything, and returns its address and what it sees.
fn endpoint() -> (String, Receiver<Seen>) {
    endpoint_that(Box::new(|_| Some(200)))
}

fn endpoint_that(mut answer: Answer) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (seen, all) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve(BufReader::new(stream.unwrap()), &mut answer, &seen);
        }
    });
    (address, all)
}

fn serve(mut stream: BufReader<TcpStream>, answer: &mut Answer, seen: &Sender<Seen>) {
    while let Some(mut request) = read_request(&mut stream) {
        let status = answer(&request);
        request.answer = status;
        // Before the answer, after which those who sent it look at what was seen.
        if seen.send(request).is_err() {
            return;
        }
        let Some(status) = status else { return };
        let answer = format!("HTTP/1.1 {status} -\r\ncontent-length: 0\r\n\r\n");
        stream.get_mut().write_all(answer.as_bytes()).unwrap();
    }
}

fn read_request(stream: &mut impl std::io::BufRead) -> Option<Seen> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    let bytes = body.len();
    let body = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    Some(Seen { head, body, bytes, answer: None })
}

fn service() -> Service {
    Service { name: "callboard".into(), version: "1.2.3".into(), instance: "node-1".into() }
}

fn span(context: TraceContext, parent: Option<TraceContext>) -> SpanRecord {
    let attributes = [
        (semconv::OPERATION_NAME, json!(semconv::operation::EXECUTE_TOOL)),
        (semconv::INPUT_TOKENS, json!(12)),
        (semconv::FINISH_REASONS, json!(["stop", "length"])),
        (semconv::TAINTED, json!(true)),
        (semconv::TIME_TO_FIRST_CHUNK, json!(0.5)),
        (semconv::TOOL_CALL_ARGUMENTS, json!({"x": 1})),
    ];
    SpanRecord {
        context,
        parent,
        name: "execute_tool calculate".into(),
        kind: SpanKind::Client,
        start: Timestamp::from_micros(1_700_000_000_000_001),
        end: Timestamp::from_micros(1_700_000_000_250_000),
        session: SessionId::new("s1").unwrap(),
        run: RunId::new("r1").unwrap(),
        agent: Name::new("lead").unwrap(),
        attributes: attributes.into_iter().collect(),
        events: Vec::new(),
        links: Vec::new(),
        error: None,
    }
}

fn root() -> TraceContext {
    TraceContext::root(&Name::new("team").unwrap(), &RunId::new("r1").unwrap())
}

fn text(attributes: &[KeyValue], key: &str) -> Option<Value> {
    fn json(value: &AnyValue) -> Value {
        match value.value.as_ref().unwrap() {
            any_value::Value::StringValue(text) => json!(text),
            any_value::Value::BoolValue(flag) => json!(flag),
            any_value::Value::IntValue(whole) => json!(whole),
            any_value::Value::DoubleValue(real) => json!(real),
            any_value::Value::ArrayValue(array) => array.values.iter().map(json).collect(),
            other => panic!("{other:?}"),
        }
    }
    attributes.iter().find(|pair| pair.key == key)?.value.as_ref().map(json)
}

/// Exports spans, stops, and returns what the endpoint saw.
fn exported(spans: &[SpanRecord]) -> Vec<Seen> {
    let (address, seen) = endpoint();
    let headers = [("x-key".to_owned(), "k1".to_owned())];
    let exporter = Exporter::start(&address, &service(), &headers).unwrap();
    for span in spans {
        exporter.export(span);
    }
    exporter.shutdown(Duration::from_secs(20)).unwrap();
    assert_eq!(exporter.dropped(), 0);
    seen.try_iter().collect()
}

fn spans_of(requests: &[Seen]) -> Vec<Span> {
    let resources = requests.iter().flat_map(|request| &request.body.resource_spans);
    let scopes = resources.flat_map(|resource| &resource.scope_spans);
    scopes.flat_map(|scope| scope.spans.clone()).collect()
}

#[test]
fn a_span_arrives_as_it_was_handed_in() {
    let (root, child) = (root(), root().child("call", "c1"));
    let failed = SpanRecord { error: Some("boom".into()), ..span(child, Some(root)) };
    let requests = exported(&[failed, span(root, None)]);
    let spans = spans_of(&requests);
    let [first, second] = spans.as_slice() else { panic!("{spans:?}") };

    assert_eq!(first.trace_id, root.trace_bytes());
    assert_eq!(first.span_id, child.span_bytes());
    assert_eq!(first.parent_span_id, root.span_bytes());
    assert_eq!((first.name.as_str(), first.kind), ("execute_tool calculate", 3));
    assert_eq!(first.start_time_unix_nano, 1_700_000_000_000_001_000);
    assert_eq!(first.end_time_unix_nano, 1_700_000_000_250_000_000);
    let status = first.status.clone().unwrap();
    assert_eq!((status.code, status.message.as_str()), (2, "boom"));
    let cases = [
        (semconv::OPERATION_NAME, Some(json!("execute_tool"))),
        (semconv::INPUT_TOKENS, Some(json!(12))),
        (semconv::FINISH_REASONS, Some(json!(["stop", "length"]))),
        (semconv::TAINTED, Some(json!(true))),
        (semconv::TIME_TO_FIRST_CHUNK, Some(json!(0.5))),
        (semconv::TOOL_CALL_ARGUMENTS, Some(json!("{\"x\":1}"))),
        (semconv::RUN_ID, Some(json!("r1"))),
        (semconv::CONVERSATION_ID, Some(json!("s1"))),
        (semconv::AGENT_NAME, Some(json!("lead"))),
        ("unset", None),
    ];
    for (key, expected) in cases {
        assert_eq!(text(&first.attributes, key), expected, "{key}");
    }

    assert!(second.parent_span_id.is_empty());
    assert_eq!(second.status.clone().unwrap_or_default().code, 0);

    let [request] = requests.as_slice() else { panic!("one request") };
    assert!(request.head.starts_with("post /v1/traces http/1.1"), "{}", request.head);
    assert!(request.head.contains("x-key: k1"), "{}", request.head);
    let resource = request.body.resource_spans.first().unwrap().resource.clone().unwrap();
    for (key, expected) in [
        ("service.name", "callboard"),
        ("service.version", "1.2.3"),
        ("service.instance.id", "node-1"),
    ] {
        assert_eq!(text(&resource.attributes, key), Some(json!(expected)), "{key}");
    }
}

#[test]
fn a_parent_in_another_trace_becomes_a_link() {
    let other: TraceContext =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
    let spans = spans_of(&exported(&[span(root(), Some(other))]));
    let [span] = spans.as_slice() else { panic!("{spans:?}") };
    assert!(span.parent_span_id.is_empty());
    let [link] = span.links.as_slice() else { panic!("{:?}", span.links) };
    assert_eq!(link.trace_id, other.trace_bytes());
    assert_eq!(link.span_id, other.span_bytes());
}

#[test]
fn events_and_links_arrive_with_their_span() {
    let other: TraceContext =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().unwrap();
    let attributes = Attributes::from_iter([(semconv::RESUMES, 2)]);
    let event = SpanEvent {
        name: semconv::event::RESUMED.to_owned(),
        at: Timestamp::from_micros(1_700_000_000_100_000),
        attributes: attributes.clone(),
    };
    let link = SpanLink { context: other, attributes };
    let record = SpanRecord { events: vec![event], links: vec![link], ..span(root(), None) };
    let spans = spans_of(&exported(&[record]));
    let [span] = spans.as_slice() else { panic!("{spans:?}") };
    let [event] = span.events.as_slice() else { panic!("{:?}", span.events) };
    assert_eq!(
        (event.name.as_str(), event.time_unix_nano),
        ("callboard.resumed", 1_700_000_000_100_000_000)
    );
    assert_eq!(text(&event.attributes, semconv::RESUMES), Some(json!(2)));
    let [link] = span.links.as_slice() else { panic!("{:?}", span.links) };
    assert_eq!(
        (link.trace_id.as_slice(), link.span_id.as_slice()),
        (&other.trace_bytes()[..], &other.span_bytes()[..])
    );
    assert_eq!(text(&link.attributes, semconv::RESUMES), Some(json!(2)));
}

#[test]
fn a_span_that_is_not_sampled_is_not_exported() {
    let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00".parse().unwrap();
    assert!(spans_of(&exported(&[span(unsampled, None)])).is_empty());
}

#[test]
fn every_span_of_a_burst_arrives_once() {
    let contexts = (0..2_000).map(|n| root().child("call", &n.to_string()));
    let bare = |context| SpanRecord { attributes: Attributes::new(), ..span(context, None) };
    let burst: Vec<SpanRecord> = contexts.map(bare).collect();
    let mut ids: Vec<Vec<u8>> =
        spans_of(&exported(&burst)).into_iter().map(|span| span.span_id).collect();
    let mut expected: Vec<Vec<u8>> =
        burst.iter().map(|span| span.context.span_bytes().to_vec()).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);
}

/// Makes spans whose ids follow from their number, with a text of some bytes.
fn numbered(count: usize, bytes: usize) -> Vec<SpanRecord> {
    let text = "x".repeat(bytes);
    let make = |n: usize| {
        let attributes = Attributes::from_iter([(semconv::TOOL_CALL_RESULT, json!(text))]);
        SpanRecord { attributes, ..span(root().child("call", &n.to_string()), None) }
    };
    (0..count).map(make).collect()
}

#[test]
fn spans_wait_for_an_endpoint_that_is_away() {
    // The client alone tries four times.
    let cases: [(Option<u16>, usize, bool); 7] = [
        (None, 6, true),
        (Some(429), 6, true),
        (Some(503), 6, true),
        (Some(504), 6, true),
        (Some(400), 1, false),
        (Some(413), 1, false),
        (Some(500), 1, false),
    ];
    let checks = cases.map(|(answer, times, arrives)| {
        thread::spawn(move || {
            let mut before = times;
            let (address, seen) = endpoint_that(Box::new(move |_| {
                let is_away = before > 0;
                before = before.saturating_sub(1);
                if is_away { answer } else { Some(200) }
            }));
            let exporter = Exporter::start(&address, &service(), &[]).unwrap();
            exporter.export(&span(root(), None));
            // What is tried again when the exporter stops is given up.
            let requests: Vec<Seen> = (0..times + usize::from(arrives))
                .map(|_| seen.recv_timeout(Duration::from_secs(60)).unwrap())
                .collect();
            exporter.shutdown(Duration::from_secs(20)).unwrap();
            assert_eq!(exporter.dropped(), u64::from(!arrives), "{answer:?}");
            assert_eq!(exporter.queued(), 0, "{answer:?}");
            let taken: Vec<Seen> =
                requests.into_iter().filter(|request| request.answer == Some(200)).collect();
            let ids: Vec<Vec<u8>> = spans_of(&taken).into_iter().map(|span| span.span_id).collect();
            let expected = root().span_bytes().to_vec();
            assert_eq!(ids, if arrives { vec![expected] } else { Vec::new() }, "{answer:?}");
            assert_eq!(seen.try_iter().count(), 0, "{answer:?}");
        })
    });
    for check in checks {
        check.join().unwrap();
    }
}

#[test]
fn a_batch_of_many_bytes_is_sent_in_parts() {
    const MIB: usize = 1024 * 1024;
    // How many spans of how many bytes, and how many of them a collector of 5 MiB does not take.
    for (count, bytes, lost) in [(200, 64 * 1024, 0), (3, 3 * MIB, 0), (2, 6 * MIB, 2)] {
        let taken = |seen: &Seen| Some(if seen.bytes > 5 * MIB { 413 } else { 200 });
        let (address, seen) = endpoint_that(Box::new(taken));
        let exporter = Exporter::start(&address, &service(), &[]).unwrap();
        let spans = numbered(count, bytes);
        for span in &spans {
            exporter.export(span);
        }
        // It comes last, and a request that is refused costs no other.
        exporter.export(&span(root(), None));
        exporter.shutdown(Duration::from_secs(60)).unwrap();
        assert_eq!((exporter.dropped(), exporter.queued()), (lost, 0), "{count} of {bytes} bytes");
        let taken: Vec<Seen> = seen.try_iter().filter(|seen| seen.answer == Some(200)).collect();
        let mut ids: Vec<Vec<u8>> = spans_of(&taken).into_iter().map(|span| span.span_id).collect();
        let expected = spans.iter().map(|span| span.context.span_bytes().to_vec());
        let mut expected: Vec<Vec<u8>> = if lost == 0 { expected.collect() } else { Vec::new() };
        expected.push(root().span_bytes().to_vec());
        ids.sort();
        expected.sort();
        assert_eq!(ids, expected, "{count} of {bytes} bytes");
    }
}

#[test]
fn spans_that_wait_take_few_bytes() {
    // It takes connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let exporter = Exporter::start(&address, &service(), &[]).unwrap();
    let spans = numbered(40, 1024 * 1024);
    for span in &spans {
        exporter.export(span);
    }
    assert_eq!((exporter.queued(), exporter.dropped()), (31, 9));
    // A small one still finds room.
    exporter.export(&span(root(), None));
    assert_eq!((exporter.queued(), exporter.dropped()), (32, 9));
    assert!(exporter.shutdown(Duration::from_millis(50)).is_err());
}

#[tokio::test]
async fn an_exporter_can_be_started_and_used_among_async_tasks() {
    let (address, seen) = endpoint();
    let exporter = Exporter::start(&address, &service(), &[]).unwrap();
    exporter.export(&span(root(), None));
    let stopped = tokio::task::spawn_blocking(move || exporter.shutdown(Duration::from_secs(20)));
    stopped.await.unwrap().unwrap();
    assert_eq!(seen.try_iter().count(), 1);
}

#[test]
fn a_trace_is_written_as_the_json_of_otlp() {
    use opentelemetry_proto::tonic::trace::v1::TracesData;

    let failed = SpanRecord { error: Some("boom".into()), ..span(root(), None) };
    let below = span(root().child("call", "k"), Some(root()));
    let written = telemetry::traces_data(&[failed, below.clone()], &service()).unwrap();
    let spans = &written["resourceSpans"][0]["scopeSpans"][0]["spans"];
    assert_eq!(spans[1]["traceId"], below.context.trace_id());
    assert_eq!(spans[1]["spanId"], below.context.span_id());
    assert_eq!(spans[1]["parentSpanId"], root().span_id());
    assert_eq!(spans[1]["startTimeUnixNano"], "1700000000000001000");
    assert_eq!((&spans[0]["status"]["code"], &spans[1]["kind"]), (&json!(2), &json!(3)));
    let whole = spans[0]["attributes"].as_array().unwrap().iter();
    let tokens = whole.clone().find(|one| one["key"] == semconv::INPUT_TOKENS).unwrap();
    assert_eq!(tokens["value"], json!({"intValue": "12"}));

    let read: TracesData = serde_json::from_value(written).unwrap();
    let [resource] = read.resource_spans.as_slice() else { panic!("{read:?}") };
    assert_eq!(
        text(&resource.resource.as_ref().unwrap().attributes, "service.name"),
        Some(json!("callboard"))
    );
    let [first, second] = resource.scope_spans[0].spans.as_slice() else { panic!("{read:?}") };
    assert_eq!(first.trace_id, root().trace_bytes());
    assert_eq!(second.parent_span_id, root().span_bytes());
    assert_eq!(first.status.as_ref().unwrap().message, "boom");
    assert_eq!(text(&second.attributes, semconv::TIME_TO_FIRST_CHUNK), Some(json!(0.5)));
}
