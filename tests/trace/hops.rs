//! The spans of every way out of the process are held to the conventions, also those that take a
//! server to be seen in a run.

use agents_core::spans::{AttemptFacts, Left, RunFacts, hop_span};
use config::Team;
use wire::hop::{Endpoint, Hop, HopReport};
use wire::{CallKey, RunId, RunTrace, SessionId, Timestamp, TraceContext, TraceSink, semconv};

use crate::conventions::faults;

const TEAM: &str = r#"
[models.main]
provider = "ollama"
model = "m"
stream = false

[agents.lead]
instructions = "Lead."
model = "main"
tools = ["site", "any", "ask", "graph", "films", "print"]
accept_risk = "a test"

[tools.site]
kind = "http"
description = "Looks."
url = "https://example.com/items/{item}?k={item}"
parameters = { item = "string" }

[tools.any]
kind = "http"
description = "Looks anywhere."
url = "{url}"
parameters = { url = "string" }

[tools.ask]
kind = "nats"
description = "Asks."
subject = "acme.{who}.ask"
parameters = { who = "string" }
body = { text = "hello" }

[tools.films]
kind = "query"
description = "Reads films."
database = "movies"
statement = "SELECT 1 AS one"
effect = "read"

[databases.movies]
kind = "sqlite"
file = "movies.db"

[tools.graph]
kind = "query"
description = "Reads a graph."
database = "web"
statement = "RETURN 1 AS one"
effect = "read"

[databases.web]
kind = "neo4j"

[tools.print]
kind = "command"
description = "Prints."
argv = ["/usr/bin/printenv", "HOME"]
sandbox = "none"
"#;

fn load() -> Team {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("team.toml");
    std::fs::write(&file, TEAM).unwrap();
    config::load(&file).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn every_way_out_of_the_process_conforms() {
    let team = load();
    let plan = team.agents.values().next().unwrap();
    let run = RunId::new("r").unwrap();
    let session = SessionId::new("s").unwrap();
    let trace = RunTrace::new(TraceContext::root(&team.name, &run));
    let facts = RunFacts {
        plan,
        session: &session,
        run: &run,
        trace: &trace,
        sink: TraceSink::Store,
        left: Left::default(),
    };
    let call = CallKey::new("k").unwrap();
    let report = HopReport {
        server: Some(Endpoint { address: "example.com".to_owned(), port: 443 }),
        scheme: Some("https".to_owned()),
        status: None,
        version: Some("2".to_owned()),
        exit_code: Some(1),
        process: Some(7),
        served_by: None,
        cache_read_tokens: None,
        cache_creation_tokens: None,
        lost: Vec::new(),
    };
    let mut seen = Vec::new();
    for offer in &plan.tools {
        let hop = offer.hop.as_ref().unwrap_or_else(|| panic!("{} stays here", offer.spec.name));
        let status = matches!(hop, Hop::Http { .. }).then_some(503);
        let report = HopReport { status, ..report.clone() };
        let attempt = AttemptFacts {
            call: &call,
            tool: &offer.spec.name,
            hop,
            attempt: 1,
            rejoined: true,
            start: Timestamp::default(),
            end: Timestamp::from_micros(1),
            report: Some(&report),
            error: Some(("E3003", "no")),
        };
        let span = hop_span(&facts, &attempt);
        assert_eq!(faults(std::slice::from_ref(&span)), Vec::<String>::new());
        let kind = span.attributes.text(semconv::ERROR_TYPE);
        assert_eq!(kind == Some("503"), status.is_some(), "{}", span.name);
        seen.push(span.name);
    }
    assert_eq!(
        seen,
        ["GET /items/{item}", "GET", "request acme.{who}.ask", "web", "movies", "printenv"]
    );
}
