#[path = "../../tests/house/log.rs"]
mod log;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use log::Log;
use serde_json::json;
use wire::trace::SpanKind;
use wire::{RunId, SessionId, TraceContext};

use super::*;

fn metrics(team: &str) -> Metrics {
    let service = Service { name: "callboard".into(), version: "1".into(), instance: "i".into() };
    Metrics::start(Name::new(team).ok().as_ref(), &service, None).unwrap()
}

fn span(millis: u64, attributes: &serde_json::Value) -> SpanRecord {
    let run = RunId::new("r").unwrap();
    SpanRecord {
        context: TraceContext::root(&Name::new("t").unwrap(), &run),
        parent: None,
        name: "a span".to_owned(),
        kind: SpanKind::Internal,
        start: Timestamp::from_micros(1_000_000),
        end: Timestamp::from_micros(1_000_000 + millis * 1_000),
        session: SessionId::new("s").unwrap(),
        run,
        agent: Name::new("a").unwrap(),
        attributes: attributes.as_object().unwrap().clone().into_iter().collect(),
        error: None,
        links: Vec::new(),
        events: Vec::new(),
    }
}

/// Returns the lines that begin with a text, without their comments.
fn lines<'t>(text: &'t str, begin: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.starts_with(begin)).collect()
}

#[test]
fn spans_become_times_tokens_and_money() {
    let (first, second) = (metrics("one"), metrics("two"));
    let chat = json!({
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m", "gen_ai.response.model": "m-1", "callboard.role": "actor",
        "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 3,
        "callboard.usage.cost_nano_usd": 1_500_000_000_u64, "callboard.feedback": "empty_reply",
    });
    first.observe(&span(50, &chat));
    first.observe(&span(500, &chat));
    let call = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay",
        "gen_ai.agent.name": "lead", "callboard.outcome": "unknown", "error.type": "_OTHER"});
    first.observe(&span(2_000, &call));
    let asking = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay",
        "gen_ai.agent.name": "lead", "callboard.outcome": "unknown", "error.type": "_OTHER",
        "callboard.model": "small", "gen_ai.request.model": "s",
        "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 1,
        "callboard.usage.cost_nano_usd": 250_000_000_u64});
    first.observe(&span(2_000, &asking));
    let run = |outcome: &str| {
        json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "lead",
            "callboard.outcome": outcome})
    };
    first.observe(&span(3_000, &run("completed")));
    second.observe(&span(4_000, &run("failed")));
    second.observe(&span(9, &json!({"http.request.method": "GET"})));

    let text = text([&first, &second]).unwrap();
    let model = "callboard_role=\"actor\",callboard_team=\"one\",gen_ai_operation_name=\"chat\",\
                 gen_ai_provider_name=\"openai\",gen_ai_request_model=\"m\",\
                 gen_ai_response_model=\"m-1\"";
    let of_tool =
        "callboard_team=\"one\",gen_ai_operation_name=\"execute_tool\",gen_ai_request_model=\"s\"";
    let expected = [
        ("gen_ai_client_operation_duration_seconds_count", vec![format!("{{{model}}} 2")]),
        ("gen_ai_client_operation_duration_seconds_sum", vec![format!("{{{model}}} 0.55")]),
        (
            "gen_ai_client_token_usage_sum",
            ["input", "output"]
                .map(|kind| {
                    let tokens = if kind == "input" { 40 } else { 6 };
                    format!("{{{model},gen_ai_token_type=\"{kind}\"}} {tokens}")
                })
                .into_iter()
                .chain([("input", 7), ("output", 1)].map(|(kind, tokens)| {
                    format!("{{{of_tool},gen_ai_token_type=\"{kind}\"}} {tokens}")
                }))
                .collect(),
        ),
        ("callboard_cost_total", vec![format!("{{{model}}} 3"), format!("{{{of_tool}}} 0.25")]),
        (
            "callboard_feedback_total",
            vec![format!("{{callboard_feedback=\"empty_reply\",{model}}} 2")],
        ),
        (
            "callboard_call_duration_seconds_count",
            vec![
                "{callboard_outcome=\"unknown\",callboard_team=\"one\",error_type=\"_OTHER\",\
                  gen_ai_agent_name=\"lead\",gen_ai_tool_name=\"pay\"} 2"
                    .to_owned(),
            ],
        ),
        (
            "callboard_run_duration_seconds_sum",
            [("completed", "one", 3), ("failed", "two", 4)]
                .map(|(outcome, team, seconds)| {
                    format!(
                        "{{callboard_outcome=\"{outcome}\",callboard_team=\"{team}\",\
                         gen_ai_agent_name=\"lead\"}} {seconds}"
                    )
                })
                .to_vec(),
        ),
    ];
    for (name, expected) in expected {
        let mut found: Vec<String> = lines(&text, name)
            .iter()
            .filter_map(|line| line.strip_prefix(name))
            .map(str::to_owned)
            .collect();
        found.sort();
        assert_eq!(found, expected, "{name} in\n{text}");
    }
    assert_eq!(lines(&text, "# TYPE callboard_run_duration_seconds ").len(), 1, "one family");
    let bounds = lines(&text, "gen_ai_client_operation_duration_seconds_bucket").len();
    assert_eq!(bounds, MODEL_SECONDS.len() + 1, "the advised bounds, and one for all");
}

#[test]
fn servers_of_models_on_one_host_are_told_apart() {
    let metrics = metrics("one");
    for (port, count) in [(8001, 1), (8002, 2)] {
        let chat = json!({
            "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 20,
            "server.address": "localhost", "server.port": port,
        });
        (0..count).for_each(|_| metrics.observe(&span(50, &chat)));
    }
    let text = text([&metrics]).unwrap();
    for name in ["gen_ai_client_operation_duration_seconds", "gen_ai_client_token_usage"] {
        for (port, count) in [(8001, 1), (8002, 2)] {
            let label = format!("server_port=\"{port}\"");
            let lines = lines(&text, &format!("{name}_count"));
            let found: Vec<_> = lines.iter().filter(|line| line.contains(&label)).collect();
            assert_eq!(found.len(), 1, "{name} {port} in\n{text}");
            assert!(found[0].ends_with(&format!("}} {count}")), "{}", found[0]);
        }
    }
}

#[test]
fn what_is_watched_is_asked_when_somebody_reads() {
    let metrics = metrics("one");
    let what =
        |name, is_total| Watched { name, unit: "{job}", description: "Jobs that wait.", is_total };
    metrics.watch(what("callboard.queue", false), |tell| {
        tell(3, &[("callboard.queue.name", "store")]);
        tell(4, &[("callboard.queue.name", "journal")]);
    });
    metrics.watch(what("callboard.lost", true), |tell| tell(7, &[]));
    metrics.committed(2, 100, Duration::from_millis(3));
    metrics.restarted("tool");
    let text = text([&metrics]).unwrap();
    for expected in [
        "callboard_queue{callboard_queue_name=\"store\",callboard_team=\"one\"} 3",
        "callboard_queue{callboard_queue_name=\"journal\",callboard_team=\"one\"} 4",
        "callboard_lost_total{callboard_team=\"one\"} 7",
        "callboard_journal_entries_total{callboard_team=\"one\"} 2",
        "callboard_journal_written_bytes_total{callboard_team=\"one\"} 100",
        "callboard_journal_sync_duration_seconds_sum{callboard_team=\"one\"} 0.003",
        "callboard_restarts_total{callboard_part=\"tool\",callboard_team=\"one\"} 1",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected} in\n{text}");
    }
}

#[test]
fn what_was_never_counted_is_not_told() {
    let metrics = metrics("one");
    // A model without a price, whose server tells no tokens.
    metrics.observe(&span(50, &json!({"gen_ai.operation.name": "chat"})));
    let told = text([&metrics]).unwrap();
    let counted = |name: &str| lines(&told, name).len();
    assert!(counted("gen_ai_client_operation_duration_seconds_count") == 1, "{told}");
    for name in ["callboard_cost", "gen_ai_client_token_usage", "callboard_journal"] {
        assert_eq!(counted(name), 0, "{told}");
    }
    metrics.committed(2, 300, Duration::from_millis(1));
    assert_eq!(lines(&text([&metrics]).unwrap(), "callboard_journal_entries").len(), 1);
}

/// Starts an endpoint that answers in turn with some statuses, and returns its address.
fn endpoint(statuses: &'static [u16]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for status in statuses {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(stream.read_line(&mut head).unwrap() > 0);
            }
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let close = "content-length: 0\r\nconnection: close\r\n\r\n";
            write!(stream.get_mut(), "HTTP/1.1 {status} -\r\n{close}").unwrap();
        }
    });
    address
}

// The only test of this crate's own that sets the log of the process.
#[test]
fn an_endpoint_that_fails_is_reported_once_until_it_takes_measures_again() {
    let log = Log::of_process();
    let address = endpoint(&[200, 400, 400, 200, 200, 400]);
    let service = Service { name: "callboard".into(), version: "1".into(), instance: "i".into() };
    let metrics = Metrics::start(None, &service, Some(address.as_str())).unwrap();
    metrics.restarted("tool");
    for (is_taken, expected) in [
        (true, [0, 0]),
        (false, [1, 0]),
        (false, [1, 0]),
        (true, [1, 1]),
        (true, [1, 1]),
        (false, [2, 1]),
    ] {
        assert_eq!(metrics.provider.force_flush().is_ok(), is_taken);
        let told = ["cannot export measures", "measures are exported again"];
        assert_eq!(told.map(|text| log.count(text)), expected);
    }
}
