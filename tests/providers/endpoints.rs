//! A thinker and an actor model on two servers, neither of which is ours.

use std::time::Duration;

use bus::Bus;
use journal::Holder;
use node::{Node, NodeOptions};
use serde_json::{Value, json};
use tests::aimock::Aimock;
use tools::client::http_client;
use wire::{Headers, RunReply, RunStatus, Subjects, Timestamp};

/// The longest wait for an answer, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(60);

const THOUGHTS: [&str; 2] = ["First calculate 12 * 34.", "Nothing is missing: it is 408."];

/// Answers the requests for a model in turn.
fn in_turn(model: &str, responses: &[Value]) -> Value {
    let fixture = |(index, response): (usize, &Value)| json!({"match": {"model": model, "sequenceIndex": index}, "response": response});
    responses.iter().enumerate().map(fixture).collect()
}

async fn ask(team: &str, input: &str) -> RunReply {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.toml");
    std::fs::write(&file, team).unwrap();
    let team = config::load(&file).unwrap_or_else(|report| panic!("{}", report.render(false)));
    let subject = Subjects::default().agent_run(&team.name, &team.entry);
    let holder = Holder::this_process("test", Timestamp::from_micros(0));
    let data = folder.path().join("data");
    let options = NodeOptions { data, holder, subjects: Subjects::default(), reserve_bytes: 0 };
    let bus = Bus::local();
    let node = Node::start(vec![team], bus.clone(), options).await.unwrap();
    let body = json!({"input": input}).to_string();
    let answer = bus.request(&subject, Headers::new(), body.into(), ANSWER_MAX).await.unwrap();
    node.drain(Duration::from_secs(5)).await;
    let text = String::from_utf8_lossy(&answer.payload).into_owned();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn thoughts_are_asked_of_one_server_and_calls_of_the_other() {
    let arguments = json!({"expression": "12 * 34"});
    let call =
        |tool: &str, arguments: &Value| json!({"tool": tool, "arguments": arguments}).to_string();
    let by_schema = [
        json!({"content": call("calculate", &arguments)}),
        json!({"content": call("respond_to_user", &json!({"answer": "It is 408."}))}),
    ];
    let by_tools = [
        json!({"toolCalls": [{"name": "calculate", "arguments": arguments.to_string()}]}),
        json!({"content": "It is 408."}),
    ];
    let http = http_client().unwrap();
    for (dialect, acts, sent) in
        [("schema", by_schema, "response_format"), ("native", by_tools, "tools")]
    {
        let thoughts = THOUGHTS.map(|text| json!({ "content": text }));
        let thinker = Aimock::start(in_turn("thinks", &thoughts)).await;
        let actor = Aimock::start(in_turn("acts", &acts)).await;
        let team = format!(
            "[models.big]\nprovider = 'openai'\nbase_url = '{}/v1'\nmodel = 'thinks'\n\
             [models.small]\nprovider = 'openai'\nbase_url = '{}/v1'\nmodel = 'acts'\n\
             dialect = '{dialect}'\n\
             [agents.a]\ninstructions = 'You compute.'\nthinker = 'big'\nactor = 'small'\n\
             tools = ['calculate']\n",
            thinker.url, actor.url
        );
        let reply = ask(&team, "What is 12 times 34?").await;
        assert_eq!(
            (reply.status, reply.output.as_str()),
            (RunStatus::Completed, "It is 408."),
            "{reply:?}"
        );
        let [source] = reply.sources.as_slice() else { panic!("{dialect}: {reply:?}") };
        assert_eq!((source.tool.as_str(), &*source.output), ("calculate", "408"), "{dialect}");

        for (server, model) in [(&thinker, "thinks"), (&actor, "acts")] {
            let requests = server.requests(&http).await;
            assert_eq!(requests.len(), 2, "{dialect} {model}: {requests:?}");
            for (request, thought) in requests.iter().zip(THOUGHTS) {
                let body = &request["body"];
                assert_eq!(request["path"], "/v1/chat/completions", "{dialect}");
                assert_eq!(body["model"], model, "{dialect}");
                let messages = body["messages"].to_string();
                let fields = ["response_format", "tools"].map(|field| body.get(field).is_some());
                if model == "thinks" {
                    assert_eq!(fields, [false, false], "{dialect}: {body}");
                    assert!(!messages.contains(thought), "{dialect}: {messages}");
                } else {
                    assert_eq!(fields, [sent == "response_format", sent == "tools"], "{body}");
                    assert!(messages.contains(thought), "{dialect}: {messages}");
                }
            }
        }
    }
}
