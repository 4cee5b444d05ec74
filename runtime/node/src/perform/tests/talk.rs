//! Questions of tools whose process is away for a while.

use tokio::sync::mpsc;
use tokio::time::timeout;
use wire::question::{QuestionRequest, Void};
use wire::{Question, Said};

use super::*;

/// A call whose tool answers with a question, the question, and the subject of its answer.
async fn asking(
    context: &TeamContext,
    name: &str,
) -> (CallEffect, Question, String, crate::feed::Feed) {
    let call = call(context, name, Target::Tool, EffectClass::Once);
    let id = Name::new("q").unwrap();
    let subject = context.subjects.question(&context.team.name, &call.name, &id);
    let question = Question { id, text: "Which?".to_owned(), form: json!({}) };
    let asks = serde_json::to_string(&ToolReply::Asks { question: question.clone() }).unwrap();
    let tool = context.subjects.tool(&context.team.name, &call.name);
    (call, question, subject, answer_on(context, &tool, asks).await)
}

/// When somebody comes to listen, and what becomes of the call.
const CASES: [(Duration, &str); 3] = [
    (Duration::from_secs(1), "ok"),
    (Duration::from_secs(7), "ok"),
    (Duration::from_secs(30), "lost"),
];

fn become_of(reply: &ToolReply) -> &'static str {
    match reply {
        ToolReply::Settled { outcome, .. } => outcome.as_str(),
        ToolReply::Lost { .. } => "lost",
        reply => panic!("{reply:?}"),
    }
}

/// Answers the first request on a subject that is the one in question, and lets go of the others.
async fn answer_late(
    context: &TeamContext,
    subject: &str,
    after: Duration,
    answer: impl Fn(&QuestionRequest) -> Option<String>,
) {
    sleep(after).await;
    let mut asked = context.bus.subscribe(subject, None).await.unwrap();
    while let Some(request) = asked.next().await {
        let body: QuestionRequest = serde_json::from_slice(&request.payload).unwrap();
        if let Some(answer) = answer(&body) {
            context.bus.reply(&request, Headers::new(), answer.into()).await.unwrap();
            return;
        }
    }
}

fn done() -> ToolReply {
    ToolReply::settled(CallOutcome::text("done"))
}

#[tokio::test(start_paused = true)]
async fn a_question_is_watched_again_while_its_tool_may_come_back() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let session = SessionId::new("s").unwrap();
    for (n, (after, expected)) in CASES.into_iter().enumerate() {
        let (call, _, subject, _tool) = asking(&context, &format!("ask{n}")).await;
        let over = serde_json::to_string(&Void::Over { reply: done() }).unwrap();
        // The queue is kept, as it is for as long as a person may answer.
        let (saying, _kept) = mpsc::unbounded_channel();
        let asks = |said| saying.send(said).unwrap();
        let comes = answer_late(&context, &subject, after, |_| Some(over.clone()));
        let talk = converse(&context, &session, &call, asks, drop);
        let reply = tokio::select! {
            reply = talk => reply,
            () = async { comes.await; std::future::pending().await } => unreachable!(),
        };
        assert_eq!(become_of(&reply), expected, "after {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_a_tool_that_may_come_back() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let session = SessionId::new("s").unwrap();
    for (n, (after, expected)) in CASES.into_iter().enumerate() {
        let (call, question, subject, _tool) = asking(&context, &format!("ask{n}")).await;
        let done = serde_json::to_string(&done()).unwrap();
        let (saying, mut sayings) = mpsc::unbounded_channel();
        let asks = |said| saying.send(said).unwrap();
        let mut watched = context.bus.subscribe(&subject, None).await.unwrap();
        let comes = async {
            let saying: Saying = sayings.recv().await.unwrap();
            watched.next().await.unwrap();
            // It is away from here on.
            drop(watched);
            let deadline = clock::now().plus_ms(600_000);
            let say = Say { question: question.id.clone(), said: Said::Decline, deadline };
            saying.send(Box::new(say)).await.unwrap();
            answer_late(&context, &subject, after, |asked| {
                matches!(asked, QuestionRequest::Say { .. }).then(|| done.clone())
            })
            .await;
            std::future::pending::<()>().await;
        };
        let reply = tokio::select! {
            reply = converse(&context, &session, &call, asks, drop) => reply,
            () = comes => unreachable!(),
        };
        assert_eq!(become_of(&reply), expected, "after {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_call_comes_to_after_a_question_is_judged_like_a_first_answer() {
    let data = tempfile::tempdir().unwrap();
    let context = testing::open(data.path());
    let session = SessionId::new("s").unwrap();
    let failed = || {
        let error = WireError::new(ErrorCode::ToolFailed, "it is booked already");
        ToolReply::settled(CallOutcome::Error { error })
    };
    // What is known of earlier attempts, what this one says, and what becomes of the call. One of
    // which the end is not known is stopped.
    let cases = [
        (Earlier::Nothing, done(), "ok"),
        (Earlier::Nothing, failed(), "error"),
        (Earlier::Doubtful, done(), "ok"),
        (Earlier::Doubtful, failed(), "lost"),
    ];
    for (n, (earlier, reply, expected)) in cases.into_iter().enumerate() {
        let (call, _, subject, _tool) = asking(&context, &format!("ask{n}")).await;
        let call = CallEffect { effect: EffectClass::Idempotent, earlier, ..call };
        let stop = context.subjects.tool_stop(&context.team.name, &call.name);
        let mut stops = context.bus.subscribe(&stop, None).await.unwrap();
        let over = serde_json::to_string(&Void::Over { reply }).unwrap();
        let (saying, _kept) = mpsc::unbounded_channel();
        let asks = |said| saying.send(said).unwrap();
        let comes = answer_late(&context, &subject, Duration::ZERO, |_| Some(over.clone()));
        let (reply, ()) = tokio::join!(converse(&context, &session, &call, asks, drop), comes);
        let case = format!("{earlier:?}, {expected}");
        assert_eq!(become_of(&reply), expected, "{case}");
        let is_stopped = timeout(Duration::from_secs(1), stops.next()).await.is_ok();
        assert_eq!(is_stopped, expected == "lost", "{case}");
    }
}
