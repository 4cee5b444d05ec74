//! Look-ups.

use bus::{Bus, LocalLimits};
use gateway::view::{
    FactList, NodeList, RunList, SESSION_BYTES_MAX, SessionList, SessionView, StoreCheck, TeamList,
    TraceList, TraceView,
};
use serde::de::DeserializeOwned;
use wire::RunStatus;

use crate::house::House;

async fn look<T: DeserializeOwned>(house: &House, path: &str) -> T {
    let (status, body) = house.get(path).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_value(body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_left_is_found_at_once() {
    let house = House::open().await;
    let reply = house.ask("r-1", "delegate this").await;
    assert_eq!(reply["output"], "the helper said hi", "{reply}");
    let trace_id = reply["trace_id"].as_str().unwrap();

    let runs: RunList = look(&house, "/v1/teams/crew/runs").await;
    let [child, root] = runs.runs.as_slice() else { panic!("{runs:?}") };
    assert_eq!(root.run.as_str(), "r-1");
    assert_eq!(root.status, Some(RunStatus::Completed));
    assert_eq!(child.parent.as_ref(), Some(&root.run));
    assert_eq!(child.trace_id, trace_id);
    let newest: RunList = look(&house, "/v1/teams/crew/runs?limit=1").await;
    assert_eq!(newest.runs.as_slice(), std::slice::from_ref(child));

    let traces: TraceList = look(&house, "/v1/teams/crew/traces").await;
    let [summary] = traces.traces.as_slice() else { panic!("{traces:?}") };
    assert_eq!((summary.trace_id.as_str(), summary.input.as_str()), (trace_id, "delegate this"));
    assert_eq!(summary.status, Some(RunStatus::Completed));
    let prefix: String = trace_id.chars().take(8).collect();
    for name in [trace_id, &prefix, "r-1"] {
        let trace: TraceView = look(&house, &format!("/v1/teams/crew/traces/{name}")).await;
        assert_eq!(trace.trace_id, trace_id);
        assert_eq!(trace.spans.len(), summary.spans as usize, "{name}");
        let names: Vec<&str> = trace.spans.iter().map(|span| span.name.as_str()).collect();
        assert!(names.contains(&"invoke_agent helper"), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_are_found_by_what_is_asked_together() {
    let house = House::open().await;
    house.ask("r-1", "delegate this").await;
    house.ask("r-2", "please break").await;
    house.ask("r-3", "read all").await;
    let cases: [(&str, &[&str]); 13] = [
        ("", &["r-3", "r-2", "r-1"]),
        ("agent=helper", &["r-1"]),
        ("agent=lead", &["r-3", "r-2", "r-1"]),
        ("tool=book", &["r-3"]),
        ("tool=helper&agent=lead", &["r-1"]),
        ("tool=helper&status=error", &[]),
        ("status=error", &["r-2"]),
        ("status=ok", &["r-3", "r-1"]),
        ("session=r-2", &["r-2"]),
        ("run=r-3", &["r-3"]),
        ("min_ms=3600000", &[]),
        ("max_ms=3600000&since=1&until=18446744073709551615", &["r-3", "r-2", "r-1"]),
        ("until=1", &[]),
    ];
    for (query, expected) in cases {
        let path = format!("/v1/teams/crew/traces?{query}");
        let found: TraceList = look(&house, &path).await;
        let runs: Vec<&str> = found.traces.iter().map(|trace| trace.run.as_str()).collect();
        assert_eq!((runs.as_slice(), found.dropped), (expected, 0), "{query}");
    }
    let first: TraceList = look(&house, "/v1/teams/crew/traces?limit=2").await;
    let path = format!("/v1/teams/crew/traces?limit=2&after={}", first.next.unwrap());
    let last: TraceList = look(&house, &path).await;
    assert_eq!((first.traces.len(), last.traces.len(), last.next), (2, 1, None));
    for bad in ["status=good", "after=x", "since=yesterday", "colour=red", "agent=a.b"] {
        let (status, body) = house.get(&format!("/v1/teams/crew/traces?{bad}")).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &"E1001".into()), "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_asked_for_a_trace_and_how_they_fare() {
    let house = House::open().await;
    let reply = house.ask("r-1", "delegate this").await;
    let trace_id = reply["trace_id"].as_str().unwrap();
    let here: TraceView = look(&house, &format!("/v1/teams/crew/traces/{trace_id}")).await;
    for name in [trace_id, "r-1", trace_id.get(..6).unwrap()] {
        let everywhere: TraceView = look(&house, &format!("/v1/traces/{name}")).await;
        assert_eq!(everywhere, here, "{name}");
    }
    for path in [format!("/v1/traces/{trace_id}"), format!("/v1/teams/crew/traces/{trace_id}")] {
        let (status, written) = house.get(&format!("{path}?format=otlp")).await;
        let spans = &written["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(
            (status.as_u16(), spans.as_array().map(Vec::len)),
            (200, Some(here.spans.len()))
        );
        assert_eq!(spans[0]["traceId"], trace_id);
        assert_eq!(house.get(&format!("{path}?format=xml")).await.0, 400);
    }
    for unknown in ["0123456789", "r-9", "a.b"] {
        assert_eq!(house.get(&format!("/v1/traces/{unknown}")).await.0, 404, "{unknown}");
    }

    house.ask("r-2", "please break").await;
    for path in ["/v1/stats", "/v1/stats?all=true"] {
        let list: NodeList = look(&house, path).await;
        let [node] = list.nodes.as_slice() else { panic!("{list:?}") };
        let [team] = node.teams.as_slice() else { panic!("{list:?}") };
        assert_eq!((list.silent.len(), team.team.as_str(), team.runs), (0, "crew", 0));
        let counts = &team.counts;
        assert_eq!(counts.runs_begun, 3, "{counts:?}");
        assert_eq!((counts.runs_ended["completed"], counts.runs_ended["failed"]), (2, 1));
        assert_eq!((counts.calls, counts.calls_failed, counts.restarts), (1, 0, 0));
        assert_eq!(counts.turns_failed, 1);
        assert!(counts.steps >= 3 && counts.turns >= counts.steps, "{counts:?}");
        assert!(counts.usage.total() > 0, "{counts:?}");
        assert_eq!((team.traces.kept, team.traces.bytes_max), (2, 512 << 20));
        assert!(node.at > node.since && !node.draining);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_shows_what_was_said() {
    let house = House::open().await;
    let long = format!("hello {}", "x".repeat(500));
    house.ask("r-1", &long).await;
    let path = "/v1/teams/crew/agents/lead/runs";
    let again = serde_json::json!({"input": "please break", "run": "r-2", "session": "r-1"});
    house.post(path, &again).await;

    let sessions: SessionList = look(&house, "/v1/teams/crew/sessions").await;
    let [summary] = sessions.sessions.as_slice() else { panic!("{sessions:?}") };
    let session: SessionView = look(&house, "/v1/teams/crew/sessions/r-1").await;
    assert_eq!(&session.summary, summary);
    let [first, second] = session.exchanges.as_slice() else { panic!("{session:?}") };
    assert_eq!((&first.run.input, first.output.as_deref()), (&long, Some("hi there")));
    assert_eq!(second.run.run.as_str(), "r-2");
    assert_eq!(second.error.as_ref().unwrap().code, wire::ErrorCode::ModelRefused);
    assert!(!session.more);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_session_with_much_in_it_the_newest_runs_are_shown() {
    let limits = LocalLimits { payload_bytes_max: 32 << 20, ..LocalLimits::default() };
    let house = House::on(Bus::local_with(limits)).await;
    let input = format!("hello {}", "x".repeat(1_000_000));
    for n in 0..10 {
        let mut body = serde_json::json!({"input": input, "run": format!("r-{n}")});
        if n > 0 {
            body["session"] = "r-0".into();
        }
        let (status, reply) = house.post("/v1/teams/crew/agents/lead/runs", &body).await;
        assert_eq!((status.as_u16(), &reply["status"]), (200, &"completed".into()), "{n}");
    }
    let session: SessionView = look(&house, "/v1/teams/crew/sessions/r-0").await;
    let shown: Vec<&str> = session.exchanges.iter().map(|one| one.run.run.as_str()).collect();
    assert_eq!(shown, ["r-2", "r-3", "r-4", "r-5", "r-6", "r-7", "r-8", "r-9"]);
    assert!(session.more);
    assert!(session.exchanges.iter().all(|one| one.run.input == input));
    let bytes = shown.len() * (input.len() + "hi there".len());
    assert!(bytes <= SESSION_BYTES_MAX && SESSION_BYTES_MAX < bytes + input.len(), "{bytes}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_team_and_store_are_shown() {
    let house = House::open().await;
    let reply = house.ask("r-1", "note this").await;
    assert_eq!(reply["sources"][0]["status"], "ok", "{reply}");
    for (query, count) in [("", 1), ("?query=green", 1), ("?query=purple", 0), ("?limit=0", 0)] {
        let facts: FactList = look(&house, &format!("/v1/teams/crew/memory{query}")).await;
        assert_eq!(facts.facts.len(), count, "{query}");
    }
    let teams: TeamList = look(&house, "/v1/teams").await;
    let [team] = teams.teams.as_slice() else { panic!("{teams:?}") };
    assert_eq!((team.name.as_str(), team.entry.as_str()), ("crew", "lead"));
    let lead = team.agents.iter().find(|agent| agent.name == team.entry).unwrap();
    let calls: Vec<&str> = lead.calls.iter().map(wire::Name::as_str).collect();
    assert_eq!(calls, ["ask_user", "remember", "book", "spend", "helper"]);
    let check: StoreCheck = look(&house, "/v1/teams/crew/store/verify").await;
    assert!(check.records.is_some_and(|records| records > 0), "{check:?}");
    assert_eq!((check.damage, check.sessions_damaged), (None, Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_known_is_said_so() {
    let house = House::open().await;
    house.ask("r-1", "hello").await;
    let cases = [
        ("/v1/teams/none/runs", 404, "E1003"),
        ("/v1/teams/crew/runs/r-9", 404, "E1004"),
        ("/v1/teams/crew/runs/r-9/result", 404, "E1004"),
        ("/v1/teams/crew/runs/r-9/events", 404, "E1004"),
        ("/v1/teams/crew/runs/a.b", 400, "E1001"),
        ("/v1/teams/crew/runs/a%20b", 400, "E1001"),
        ("/v1/teams/crew/runs/%ff", 400, "E1001"),
        ("/v1/teams/crew/runs?limit=x", 400, "E1001"),
        ("/v1/teams/crew/runs?limt=1", 400, "E1001"),
        ("/v1/teams/crew/sessions/s-9", 404, "E1009"),
        ("/v1/teams/crew/sessions/a.b", 404, "E1009"),
        ("/v1/teams/crew/traces/0123456789", 404, "E1004"),
        ("/v1/teams/crew/agents/lead/runs", 405, "E1001"),
        ("/v2/teams", 404, "E1001"),
        ("/console", 404, "E1001"),
        ("/console/0/app.js", 404, "E1001"),
    ];
    for (path, status, code) in cases {
        let (found, body) = house.get(path).await;
        assert_eq!(
            (found.as_u16(), body["error"]["code"].as_str()),
            (status, Some(code)),
            "{path}"
        );
    }
    let body = serde_json::json!({"input": "hello"});
    for (path, code) in [("crew/agents/none/runs", "E1003"), ("none/agents/lead/runs", "E1003")] {
        let (found, error) = house.post(&format!("/v1/teams/{path}"), &body).await;
        assert_eq!((found.as_u16(), &error["error"]["code"]), (404, &code.into()), "{path}");
    }
}

/// Returns the names that Prometheus may know a measure of the reference by, without what it puts
/// at the end.
fn documented() -> Vec<String> {
    let rows = include_str!("../../../METRICS.md").lines().filter(|line| line.starts_with("| `"));
    let names = rows.flat_map(|row| {
        let first = row.split('|').nth(1).unwrap_or_default();
        first.split('`').skip(1).step_by(2).map(|name| name.replace('.', "_")).collect::<Vec<_>>()
    });
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_measured_is_told_to_prometheus_and_stands_in_the_reference() {
    let house = House::open().await;
    house.ask("r-1", "delegate this").await;
    let response = house.request(reqwest::Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4");
    let text = response.text().await.unwrap();

    let documented = documented();
    let families: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for family in &families {
        let is_known = documented.iter().any(|name| {
            let rest = family.strip_prefix(name.as_str());
            let ends = ["", "_total", "_seconds", "_bytes", "_bytes_total"];
            rest.is_some_and(|rest| ends.contains(&rest))
        });
        assert!(is_known, "{family} is not in METRICS.md");
    }
    // Nothing failed here, nothing cost anything, and no reply was bad.
    let absent = ["callboard_cost", "callboard_feedback", "callboard_restarts"];
    for name in documented.iter().filter(|name| !absent.contains(&name.as_str())) {
        assert!(families.iter().any(|family| family.starts_with(name)), "{name} in\n{text}");
    }
    for (name, labels, value) in [
        ("callboard_run_duration_seconds_count", "gen_ai_agent_name=\"lead\"", "1"),
        ("callboard_run_duration_seconds_count", "gen_ai_agent_name=\"helper\"", "1"),
        ("callboard_call_duration_seconds_count", "gen_ai_tool_name=\"helper\"", "1"),
        ("callboard_runs", "callboard_team=\"crew\"", "0"),
        ("callboard_requests", "callboard_part=\"model\"", "0"),
    ] {
        let told = text.lines().any(|line| {
            line.starts_with(name) && line.contains(labels) && line.ends_with(&format!(" {value}"))
        });
        assert!(told, "{name} {labels} {value} in\n{text}");
    }
}
