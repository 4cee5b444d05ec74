//! A chain of three agents on two nodes, with tools over HTTP, over MCP and as a program, is one
//! trace: in the stores of both nodes, and the same in a receiver that is not ours.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tests::results::{self, Row};
use wire::{SpanRecord, TraceContext, semconv};

use crate::conventions::{faults, roots};
use crate::receiver::{Receiver, Seen};
use crate::shops::{DESK, SHOP, Shops, ask_from, spans};

/// Where the client of the chain stands.
const CLIENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// All spans, each below the one that is named, by their depth.
const TREE: &str = "\
invoke_agent lead
  chat lead
  chat lead
  execute_tool clerk
    invoke_agent clerk
      chat clerk
      chat clerk
      execute_tool teller
        request shop.v1.shop.agent.teller.run
          invoke_agent teller
            chat teller
            chat teller
            execute_tool echo_seen
              tools/call seen
            execute_tool printer
              printenv
            execute_tool site
              GET /items/{item}
";

fn tree(spans: &[SpanRecord], above: Option<&str>, depth: usize) -> String {
    let mut below: Vec<&SpanRecord> = spans
        .iter()
        .filter(|span| span.parent.as_ref().map(TraceContext::span_id).as_deref() == above)
        .collect();
    below.sort_by_key(|span| (span.name.clone(), span.start));
    let line = |span: &&SpanRecord| {
        let own = span.context.span_id();
        format!("{}{}\n{}", "  ".repeat(depth), span.name, tree(spans, Some(&own), depth + 1))
    };
    below.iter().map(line).collect()
}

/// Returns the `traceparent` that the other side of a hop says it was given.
fn reported(spans: &[SpanRecord], hop: &SpanRecord) -> String {
    let call = hop.attributes[semconv::TOOL_CALL_ID].as_str();
    let is_call = |span: &&SpanRecord| {
        span.name.starts_with("execute_tool ")
            && span.attributes[semconv::TOOL_CALL_ID].as_str() == call
    };
    let call = spans.iter().find(is_call).unwrap();
    let result: Value =
        serde_json::from_str(call.attributes[semconv::TOOL_CALL_RESULT].as_str().unwrap()).unwrap();
    let told = result.get("traceparent").unwrap_or(&result);
    let told = told.get("result").unwrap_or(told);
    told.as_str().unwrap_or_else(|| panic!("{result}")).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_agents_over_nodes_and_tools_is_one_trace() {
    let receiver = Receiver::start().await;
    let mut shops = Shops::start(&receiver.url).await;
    let body = json!({"input": "I need a lamp."});
    // A receiver may take longer for the first spans that it ever gets than a daemon waits for it
    // at its end, so it is given some before.
    let first = ask_from(&shops.desk, "desk/agents/lead", &body, None).await;
    let count = TREE.lines().count();
    assert_eq!(receiver.spans(first["trace_id"].as_str().unwrap(), count).await.len(), count);

    let reply = ask_from(&shops.desk, "desk/agents/lead", &body, Some(CLIENT)).await;
    assert_eq!(reply["status"], "completed", "{reply}");
    let client: TraceContext = CLIENT.parse().unwrap();
    let trace = reply["trace_id"].as_str().unwrap();
    assert_eq!(trace, client.trace_id());

    let mut all = spans(&shops.desk, DESK, trace, 9).await;
    all.extend(spans(&shops.shop, SHOP, trace, 9).await);
    assert_eq!(faults(&all), Vec::<String>::new());
    assert_eq!(tree(&all, Some(&client.span_id()), 0), TREE);
    let roots: Vec<&str> = roots(&all).into_iter().map(|span| span.name.as_str()).collect();
    assert_eq!(roots, ["invoke_agent lead"]);
    assert!(all.iter().all(|span| span.error.is_none()), "{all:?}");

    // What the other side saw is the span of the hop.
    let hops = ["tools/call seen", "printenv", "GET /items/{item}"];
    for name in hops {
        let hop = all.iter().find(|span| span.name == name).unwrap();
        assert_eq!(reported(&all, hop), hop.context.to_string(), "{name}");
    }

    // Each daemon hands over what it holds before it ends.
    assert_eq!((shops.desk.terminate().await, shops.shop.terminate().await), (Some(0), Some(0)));
    let expected: BTreeMap<String, Seen> = all.iter().map(expected).collect();
    let arrived = receiver.spans(trace, expected.len()).await;
    assert_eq!(arrived, expected);

    let ids: BTreeSet<String> = all.iter().map(|span| span.context.span_id()).collect();
    let held = format!(
        "{} spans of 3 agents on 2 nodes, 1 trace, equal in both stores and in Arize Phoenix; \
         HTTP, MCP and a program saw the span of their hop",
        ids.len()
    );
    println!("{held}");
    results::record(&Row {
        id: "T41",
        what: "one trace for a chain of agents, nodes and tools",
        held: &held,
        passes: "one trace, right parents, the same in a receiver that is not ours",
        command: "cargo test --test trace chain -- --nocapture",
    });
    drop(shops.folder);
}

fn expected(span: &SpanRecord) -> (String, Seen) {
    let seen = Seen {
        parent: span.parent.map(|parent| parent.span_id()),
        name: span.name.clone(),
        status: "UNSET".to_owned(),
    };
    (span.context.span_id(), seen)
}
