//! Runs: asked for, waited for, controlled.

use std::time::Duration;

use bus::testing::NatsServer;
use bus::{Bus, NatsOptions};
use bytes::BytesMut;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use wire::run::INPUT_BYTES_MAX;
use wire::{Headers, header};

use crate::house::{House, LARGE, PATIENCE, read};

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_input_is_answered_on_the_bus_of_a_daemon() {
    let house = House::on(Bus::local()).await;
    let path = "/v1/teams/crew/agents/lead/runs";
    let most = INPUT_BYTES_MAX - "hello".len();
    // What is sent of one byte has one, or two as in JSON, or is past the limit of a body.
    let cases = [
        ("x", most, 200, json!(null)),
        ("\n", most, 200, json!(null)),
        ("\n", most + 1, 413, json!("E1002")),
        ("\u{1}", most, 413, json!("E1002")),
    ];
    for (character, count, status, code) in cases {
        let input = format!("{}hello", character.repeat(count));
        let (found, reply) = house.post(path, &json!({"input": input})).await;
        let told = (found.as_u16(), &reply["error"]["code"]);
        assert_eq!(told, (status, &code), "{count} of {character:?}: {}", reply["error"]);
        assert_eq!(reply["status"] == "completed", status == 200, "{count} of {character:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_answered_and_asked_for_again_gives_the_same_bytes() {
    let house = House::open().await;
    let path = "/v1/teams/crew/agents/lead/runs";
    let ask = async || {
        let body = json!({"input": "hello", "run": "r-1"}).to_string();
        let response = house.request(Method::POST, path).body(body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/json");
        response.bytes().await.unwrap()
    };
    let first = ask().await;
    let reply: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(reply["status"], "completed");
    assert_eq!(reply["output"], "hi there");
    assert_eq!(ask().await, first);
    let result = house.request(Method::GET, "/v1/teams/crew/runs/r-1/result").send().await;
    assert_eq!(result.unwrap().bytes().await.unwrap(), first);

    let (status, error) = house.post(path, &json!({"input": "other", "run": "r-1"})).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("E1005")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_agent_is_gone_is_answered_as_before() {
    let house = House::open().await;
    let (lead, helper) = ("/v1/teams/crew/agents/lead/runs", "/v1/teams/crew/agents/helper/runs");
    let other = lead.replace("lead", "lea");
    let over = house.ask("over", "hello").await;
    house.submit("works", "take your time").await;
    house.wait_for("works", "model_asked").await;
    house.rename_lead("boss").await;
    let accepted = |run: &str| json!({"run": run, "session": run, "status": "accepted"});
    // Who is asked, under which id and with what, whether that is waited for, and what is answered.
    let cases = [
        (lead, "over", "hello", true, 200, over.clone()),
        (lead, "over", "hello", false, 202, accepted("over")),
        (lead, "works", "take your time", true, 504, json!({"error": {"code": "E1007"}})),
        (lead, "works", "take your time", false, 202, accepted("works")),
        (lead, "over", "hello again", true, 409, json!({"error": {"code": "E1005"}})),
        (lead, "other", "hello", true, 404, json!({"error": {"code": "E1003"}})),
        (&other, "over", "hello", true, 404, json!({"error": {"code": "E1003"}})),
        (helper, "over", "hello", true, 409, json!({"error": {"code": "E1005"}})),
    ];
    for (path, run, input, waits, status, expected) in cases {
        let case = format!("{run}, {input:?} at {path}, waits {waits}");
        let body = json!({"input": input, "run": run, "timeout_ms": 50});
        let (found, answer) = house.post(&format!("{path}?wait={waits}"), &body).await;
        assert_eq!(found.as_u16(), status, "{case}: {answer}");
        let told = answer.as_object().unwrap();
        match &expected["error"]["code"] {
            Value::Null => {
                for (key, value) in expected.as_object().unwrap() {
                    assert_eq!(told.get(key), Some(value), "{case}: {answer}");
                }
            }
            code => assert_eq!(answer["error"]["code"], *code, "{case}: {answer}"),
        }
    }
    assert_eq!(house.result("over").await, (StatusCode::OK, over));
    let (_, view) = house.post("/v1/teams/crew/runs/works/cancel", &Value::Null).await;
    assert_eq!(view["run"], "works", "{view}");
}

/// Stands before a server, and swallows the first request of an agent with all that comes with it,
/// as a connection does that breaks.
async fn breaking(server: &NatsServer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, port) = (format!("nats://{}", listener.local_addr().unwrap()), server.port());
    tokio::spawn(async move {
        let mut is_broken = false;
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            if is_broken {
                tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
                continue;
            }
            let ((mut from, mut back), (mut there, mut to)) = (near.split(), far.split());
            let forth = async {
                let mut read = BytesMut::new();
                while from.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {
                    let mut lines = read.as_ref().split(|byte: &u8| *byte == b'\n');
                    let is_run = |line: &[u8]| {
                        line.windows(14).any(|part| part == b"agent.lead.run")
                            && (line.starts_with(b"HPUB") || line.starts_with(b"PUB"))
                    };
                    if lines.any(is_run) {
                        return true;
                    }
                    to.write_all(&read.split()).await.unwrap();
                }
                false
            };
            tokio::select! {
                broken = forth => is_broken = broken,
                _ = tokio::io::copy(&mut there, &mut back) => {}
            }
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_asked_for_again_where_the_connection_broke_under_it() {
    let server = NatsServer::start("").await.unwrap();
    let url = breaking(&server).await;
    let house = House::on(Bus::connect(NatsOptions::new([url])).await.unwrap()).await;
    let path = "/v1/teams/crew/agents/lead/runs";
    let (status, reply) = house.post(path, &json!({"input": "hello", "run": "r-1"})).await;
    assert_eq!((status.as_u16(), &reply["output"]), (200, &json!("hi there")), "{reply}");
    let (_, runs) = house.get("/v1/teams/crew/runs").await;
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(1), "{runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_not_waited_for_is_found_later() {
    let house = House::open().await;
    let path = "/v1/teams/crew/agents/lead/runs";
    let body = json!({"input": "hello"}).to_string();
    let request = house.request(Method::POST, path).header("Prefer", "respond-async").body(body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 202);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let accepted: Value = response.json().await.unwrap();
    assert_eq!(accepted["status"], "accepted");
    assert_eq!(location, format!("/v1/teams/crew/runs/{}", accepted["run"].as_str().unwrap()));

    let (status, reply) = house.get(&format!("{location}/result")).await;
    assert_eq!((status.as_u16(), &reply["output"]), (200, &json!("hi there")));
    let (status, view) = house.get(&location).await;
    assert_eq!(status, 200);
    assert_eq!((&view["state"], &view["status"]), (&json!("ended"), &json!("completed")));
    assert_eq!(view["run"], accepted["run"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_an_answer() {
    let house = House::open().await;
    let reply = house.ask("r-1", "please break").await;
    assert_eq!(reply["status"], "failed");
    assert_eq!(reply["error"]["code"], "E2001", "{reply}");
    let (status, again) = house.result("r-1").await;
    assert_eq!((status.as_u16(), again), (200, reply));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_run_is_late_and_then_cancelled() {
    let house = House::open().await;
    house.submit("r-1", "take your time").await;
    house.wait_for("r-1", "model_asked").await;
    let (status, error) = house.get("/v1/teams/crew/runs/r-1/result?timeout_ms=20").await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (504, &json!("E1007")));
    let (status, view) = house.get("/v1/teams/crew/runs/r-1").await;
    assert_eq!((status.as_u16(), &view["state"]), (200, &json!("running")));

    let (status, view) = house.post("/v1/teams/crew/runs/r-1/cancel", &Value::Null).await;
    assert_eq!((status.as_u16(), &view["run"]), (200, &json!("r-1")));
    let (status, reply) = house.result("r-1").await;
    assert_eq!((status.as_u16(), &reply["status"]), (200, &json!("cancelled")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_to_the_user_is_answered() {
    let house = House::open().await;
    house.submit("r-1", "ask me").await;
    house.wait_for("r-1", "call_suspended").await;
    let (_, view) = house.get("/v1/teams/crew/runs/r-1").await;
    assert_eq!((&view["state"], &view["question"]), (&json!("waiting"), &json!("which colour?")));

    let path = "/v1/teams/crew/runs/r-1/answer";
    let wrong = json!({"call": "0123", "text": "blue"});
    let (status, error) = house.post(path, &wrong).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("E1010")));
    let (status, _) = house.post(path, &json!({"text": "blue"})).await;
    assert_eq!(status, 200);
    let (_, reply) = house.result("r-1").await;
    assert_eq!(reply["output"], "you said blue", "{reply}");
    let (status, error) = house.post(path, &json!({"text": "red"})).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (409, &json!("E1010")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_the_caller_goes_on() {
    let house = House::open().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for (header, expected) in
        [(format!("00-{trace}-b7ad6b7169203331-01"), true), ("nonsense".to_owned(), false)]
    {
        let request = house
            .request(Method::POST, "/v1/teams/crew/agents/lead/runs")
            .header("traceparent", &header)
            .body(json!({"input": "hello"}).to_string());
        let (_, reply) = read(request).await;
        assert_eq!(reply["trace_id"] == trace, expected, "{header}: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_too_large_for_the_bus_comes_all_the_same() {
    let house = House::open().await;
    let reply = house.ask("r-1", "read all").await;
    assert_eq!(reply["status"], "completed", "{reply}");
    assert_eq!(reply["output"].as_str().unwrap().len(), LARGE);
    assert_eq!(reply["sources"][0]["output"].as_str().unwrap().len(), LARGE);
    assert_eq!(house.result("r-1").await, (StatusCode::OK, reply));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gets_no_reply_over_the_bus_is_told_of_which_run() {
    let house = House::open().await;
    let ask = async |subject: &str, headers: Headers, body: Value| {
        let asked = house.node.bus().request(subject, headers, body.to_string().into(), PATIENCE);
        let answer = asked.await.unwrap();
        serde_json::from_slice::<Value>(&answer.payload).unwrap()["error"].clone()
    };
    let team = house.node.team("crew").unwrap();
    let run = "callboard.v1.crew.agent.lead.run";
    let too_large = ask(run, Headers::new(), json!({"input": "read all"})).await;
    team.settle().await;
    let done = team.store().runs(1).unwrap().remove(0).begun.run;
    house.submit("r-1", "take your time").await;
    let hasty = Headers::new().with(header::REMAINING_MS, "1");
    let late = ask("callboard.v1.crew.run.r-1.result", hasty, json!({})).await;
    let cases =
        [(too_large, "E1002", format!("run {done}")), (late, "E1007", "run r-1 has no".to_owned())];
    for (error, code, part) in cases {
        let message = error["message"].as_str().unwrap();
        assert!(error["code"] == code && message.contains(&part), "{error}: {part}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_takes_no_runs() {
    let house = House::open().await;
    assert_eq!(house.get("/health").await.0, 200);
    let (status, ready) = house.get("/ready").await;
    let expected = json!({
        "ready": true, "draining": false, "bus_connected": true, "teams": ["crew"],
    });
    assert_eq!((status.as_u16(), ready), (200, expected));

    house.node.drain(Duration::ZERO).await;
    let (status, ready) = house.get("/ready").await;
    let expected = json!({
        "ready": false, "reason": "draining", "draining": true, "bus_connected": true,
        "teams": ["crew"],
    });
    assert_eq!((status.as_u16(), ready), (503, expected));
    let body = json!({"input": "hello"});
    let (status, error) = house.post("/v1/teams/crew/agents/lead/runs", &body).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (503, &json!("E1008")));
    assert_eq!(house.get("/health").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_disk_is_full_takes_no_runs_and_says_so() {
    let house = House::without_room().await;
    let (status, ready) = house.get("/ready").await;
    let expected = json!({
        "ready": false, "reason": "disk_full", "draining": false, "bus_connected": true,
        "teams": ["crew"],
    });
    assert_eq!((status.as_u16(), ready), (503, expected));
    let body = json!({"input": "hello"});
    let (status, error) = house.post("/v1/teams/crew/agents/lead/runs", &body).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (503, &json!("E5008")));
    assert_eq!(house.get("/health").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_a_drain_leaves_for_later_is_named_and_not_to_be_sent_again() {
    let house = House::open().await;
    let team = house.node.team("crew").unwrap();
    let all = team.subjects().all_session_events(&team.team().name);
    let mut events = house.node.bus().subscribe(&all, None).await.unwrap();
    let subject = "callboard.v1.crew.agent.lead.run";
    let url = "/v1/teams/crew/agents/lead/runs";
    let body = |run: &str| json!({"input": "take your time", "run": run});
    let over_nats =
        house.node.bus().request(subject, Headers::new(), body("r-2").to_string().into(), PATIENCE);
    let over_http = house.request(Method::POST, url).body(body("r-1").to_string()).send();
    let drained = async {
        let mut asked = 0;
        while asked < 2 {
            let event = events.next().await.unwrap();
            let event: Value = serde_json::from_slice(&event.payload).unwrap();
            asked += usize::from(event["event"] == "model_asked");
        }
        house.node.drain(Duration::ZERO).await;
    };
    let (over_http, over_nats, ()) = tokio::join!(over_http, over_nats, drained);
    let over_http = over_http.unwrap();
    assert_eq!(
        (over_http.status(), over_http.headers().get("retry-after")),
        (StatusCode::GATEWAY_TIMEOUT, None)
    );
    let answers = [
        ("r-1", over_http.json::<Value>().await.unwrap()),
        ("r-2", serde_json::from_slice(&over_nats.unwrap().payload).unwrap()),
    ];
    for (run, answer) in answers {
        let error = &answer["error"];
        assert_eq!((&error["code"], &error["retry_after_ms"]), (&json!("E1007"), &Value::Null));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&format!("run {run} may be taken up")), "{message}");
    }
}
