//! What is used by attempts that give no reply.

use config::team::{Model, Provider};
use model::ModelClient;
use wire::chat::Lost;
use wire::{ModelReply, Name, Usage, WireError};

use crate::server::{Server, Step, answer, chunked, said};
use crate::setup::{LONG, client_of, conversation, model, openai, user};

/// Four bytes of text.
const TEXT: &str = r#"{"choices":[{"delta":{"content":"one "}}]}"#;
const REASONING: &str = r#"{"choices":[{"delta":{"reasoning_content":"so it is"}}]}"#;
const COUNTED: &str = r#"{"choices":[{"delta":{"content":"one "}}],"usage":{"prompt_tokens":50,"completion_tokens":7}}"#;
const BUSY: &str = r#"{"error":{"type":"overloaded_error","message":"busy"}}"#;

fn named(name: &str, server: &Server) -> Model {
    let mut model = model(Provider::OpenAi(openai(&server.base_url, true)));
    model.name = Name::new(name).unwrap();
    model
}

/// Asks for a turn; returns how it ended, and what was lost.
async fn turn(client: &ModelClient) -> (Result<ModelReply, WireError>, Vec<Lost>) {
    let (admission, conversation) = (client.admit().unwrap(), conversation(vec![user("hi")]));
    let ended = client.turn(admission, &conversation, LONG, &mut |_| ()).await;
    let lost = match &ended {
        Ok(reply) => reply.detail.lost.clone(),
        Err(error) => error.lost.clone(),
    };
    (ended, lost)
}

/// Returns the tokens that a request is taken for, by the length that its head tells.
fn estimated(head: &str) -> u64 {
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.unwrap().parse::<u64>().unwrap().div_ceil(4)
}

/// What the server does, whether there is a reply, how many attempts are lost, what each read where
/// that was counted, and what each wrote.
type Case = (&'static str, Vec<Vec<Step>>, bool, u64, Option<u64>, u64);

#[tokio::test]
async fn it_is_told_with_the_reply_and_with_the_error() {
    let hang = |events| vec![Step::Send(chunked(events, false)), Step::Hang];
    let cut = |events| vec![Step::Send(chunked(events, false))];
    let ends = |events| vec![Step::Send(chunked(events, true))];
    let ok = || vec![Step::Send(said("ok"))];
    let broken = vec![Step::Send(answer(500, "retry-after-ms: 0\r\n", "oh"))];
    let refused = vec![Step::Send(answer(400, "", "bad"))];
    let half = vec![Step::Send(said("ok")[..150].to_vec())];
    let cases: Vec<Case> = vec![
        ("a reply", vec![ok()], true, 0, None, 0),
        ("no reply was begun", vec![broken, ok()], true, 0, None, 0),
        ("refused", vec![refused], false, 0, None, 0),
        ("an error at once", vec![ends(&[BUSY]), ok()], true, 0, None, 0),
        ("cut", vec![cut(&[TEXT, TEXT]), ok()], true, 1, None, 2),
        ("cut for ever", vec![cut(&[TEXT])], false, 3, None, 1),
        ("cut after it was counted", vec![cut(&[COUNTED]), ok()], true, 1, Some(50), 7),
        ("an error after reasoning", vec![ends(&[REASONING, BUSY]), ok()], true, 1, None, 2),
        ("an error after text", vec![ends(&[TEXT, BUSY])], false, 1, None, 1),
        ("no answer", vec![vec![], ok()], true, 1, None, 0),
        ("half of one piece", vec![half, ok()], true, 1, None, 14),
        ("silence", vec![vec![Step::Hang]], false, 1, None, 0),
        ("silence after text", vec![hang(&[COUNTED])], false, 1, Some(50), 7),
    ];
    for (name, plays, is_reply, attempts, read, written) in cases {
        let mut server = Server::start(plays).await;
        let mut model = named("m", &server);
        if name.starts_with("silence") {
            model.timeout_ms = 3000;
        }
        let (outcome, lost) = turn(&client_of(vec![model])).await;
        assert_eq!(outcome.is_ok(), is_reply, "{name}: {outcome:?}");
        let (head, _) = server.requests().swap_remove(0);
        let read = read.unwrap_or_else(|| estimated(&head));
        let usage = Usage::of_tokens(attempts * read, attempts * written);
        let of_m = Lost { model: Name::new("m").unwrap(), usage };
        let expected = if attempts == 0 { vec![] } else { vec![of_m] };
        assert_eq!(lost, expected, "{name}");
    }
}

#[tokio::test]
async fn it_names_the_model_that_was_asked() {
    let cut = vec![Step::Send(chunked(&[COUNTED], false))];
    let fails = Server::start(vec![cut.clone()]).await;
    let recovers = Server::start(vec![cut, vec![Step::Send(said("ok"))]]).await;
    let client = client_of(vec![named("a", &fails), named("b", &recovers)]);
    let (outcome, lost) = turn(&client).await;
    assert_eq!(outcome.unwrap().usage, Usage::of_tokens(5, 2));
    let told: Vec<_> = lost.iter().map(|lost| (lost.model.as_str(), lost.usage)).collect();
    assert_eq!(told, [("a", Usage::of_tokens(150, 21)), ("b", Usage::of_tokens(50, 7))]);
}
