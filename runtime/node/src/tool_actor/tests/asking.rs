//! Tools that ask people and tell how far they have come, called from another node.

use wire::event::EventKind;
use wire::question::{Progress, QuestionRequest};
use wire::{Event, Input, Question, Said};

use super::*;
use crate::perform::{Say, Saying};

/// A call that is talked with.
struct Talk {
    reply: JoinHandle<ToolReply>,
    asks: UnboundedReceiver<Saying>,
    reported: UnboundedReceiver<Input>,
    /// How it is told what is said, once it has asked something.
    saying: Option<Saying>,
}

impl Talk {
    async fn reported(&mut self) -> Input {
        timeout(SOON, self.reported.recv()).await.expect("it is reported").unwrap()
    }

    async fn asked(&mut self) -> Question {
        match self.reported().await {
            Input::CallAsked { attempt: 1, question, .. } => {
                let asks = || self.asks.try_recv().expect("it hears before it asks");
                self.saying.get_or_insert_with(asks);
                question
            }
            input => panic!("{input:?}"),
        }
    }

    async fn say(&self, question: &Question, said: Said, ms: u64) {
        let deadline = clock::now().plus_ms(ms);
        let say = Say { question: question.id.clone(), said, deadline };
        self.saying.as_ref().unwrap().send(Box::new(say)).await.unwrap();
    }

    async fn end(self) -> String {
        told(&timeout(SOON, self.reply).await.expect("an end").unwrap())
    }
}

impl House {
    fn talk(&self, task: &str, ms: u64) -> Talk {
        let (asking, asks) = mpsc::unbounded_channel();
        let (report, reported) = mpsc::unbounded_channel();
        let (call, caller) = (self.effect(task, ms), self.caller.clone());
        let reply = tokio::spawn(async move {
            let session = SessionId::new("s").unwrap();
            let asking = |saying| asking.send(saying).unwrap();
            let report = |input| drop(report.send(input));
            perform::converse(&caller, &session, &call, asking, report).await
        });
        Talk { reply, asks, reported, saying: None }
    }
}

fn content() -> Value {
    json!({"size": 7})
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_on_with_what_a_person_says() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let cases = [
        (Said::Accept { content: content() }, r#"{"action":"accept","content":{"size":7}}"#),
        (Said::Decline, r#"{"action":"decline"}"#),
        (Said::Cancel, r#"{"action":"cancel"}"#),
    ];
    for (said, expected) in cases {
        let mut talk = house.talk("ask", 10_000);
        house.hears("ask begins").await;
        let question = talk.asked().await;
        assert_eq!((question.text.as_str(), &question.form), ("Which?", &json!({})));
        // Longer than the call has, which does not count.
        tokio::time::sleep(Duration::from_secs(50)).await;
        talk.say(&question, said, 9000).await;
        house.hears(expected).await;
        house.hears("dropped").await;
        assert_eq!(talk.end().await, "ok");
        house.rests().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_goes_on_after_the_answer() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let mut talk = house.talk("ask and hang", 10_000);
    let question = talk.asked().await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    let began = Instant::now();
    talk.say(&question, Said::Decline, 3000).await;
    assert_eq!(talk.end().await, "lost, E3004");
    assert_eq!((began.elapsed() + Duration::from_millis(500)).as_secs(), 3);
    house.rests().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_asks_one_thing_after_the_other() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let mut talk = house.talk("ask twice", 10_000);
    let first = talk.asked().await;
    assert!(talk.reported.is_empty(), "the second waits for its turn");
    talk.say(&first, Said::Decline, 9000).await;
    let second = talk.asked().await;
    assert_ne!(first.id, second.id);
    // What is said to a question that is over reaches nobody.
    talk.say(&first, Said::Decline, 9000).await;
    talk.say(&second, Said::Accept { content: content() }, 9000).await;
    assert_eq!(talk.end().await, "ok");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_want_to_know_any_more_is_not_answered() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    // The tool goes on without an answer.
    let mut talk = house.talk("ask in passing", 10_000);
    let question = talk.asked().await;
    let withdrawn = Input::QuestionAnswered {
        call: CallKey::new("c").unwrap(),
        question: question.id.clone(),
        said: Said::Cancel,
    };
    assert_eq!(talk.reported().await, withdrawn);
    // As when it could not be made durable at once.
    tokio::time::sleep(Duration::from_secs(30)).await;
    talk.say(&question, Said::Cancel, 9000).await;
    assert_eq!(talk.end().await, "ok");
    // The call ends without one.
    let mut talk = house.talk("ask and end", 10_000);
    talk.asked().await;
    assert_eq!(talk.end().await, "ok");
    house.rests().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_is_stopped_while_it_asks() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    // The run is over.
    let mut talk = house.talk("ask", 10_000);
    house.hears("ask begins").await;
    talk.asked().await;
    talk.reply.abort();
    house.hears("dropped").await;
    house.rests().await;
    // A caller that comes from elsewhere never comes back.
    let subject = house.worker.subjects.tool(&house.worker.team.name, &Name::new("probe").unwrap());
    let body =
        json!({"call": "x", "arguments": {"do": "ask"}, "session": "s", "run": "r", "agent": "a"});
    let body = body.to_string();
    let answer = house.caller.bus.request(&subject, wire::Headers::new(), body.into(), SOON).await;
    let reply: ToolReply = serde_json::from_slice(&answer.unwrap().payload).unwrap();
    assert_eq!(told(&reply), "asks Which?");
    house.hears("ask begins").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    house.hears("dropped").await;
    house.rests().await;
    // Nobody hears what is said now.
    let ToolReply::Asks { question } = reply else { panic!() };
    let subject = house.worker.subjects.question(
        &house.worker.team.name,
        &Name::new("probe").unwrap(),
        &question.id,
    );
    let said = json!(QuestionRequest::Say { said: Said::Decline }).to_string();
    let unheard = house.caller.bus.request(&subject, wire::Headers::new(), said.into(), SOON).await;
    assert!(matches!(unheard, Err(bus::Error::NoResponders { .. })), "{unheard:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_tells_how_far_it_has_come_a_few_times_a_second() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::ZERO).await;
    let events = house.worker.subjects.all_session_events(&house.worker.team.name);
    let mut events = house.worker.bus.subscribe(&events, None).await.unwrap();
    let talk = house.talk("report", 10_000);
    assert_eq!(talk.end().await, "ok");
    let mut told = Vec::new();
    while let Ok(Some(message)) = timeout(Duration::from_secs(1), events.next()).await {
        let event: Event = serde_json::from_slice(&message.payload).unwrap();
        assert_eq!(event.id, None, "it is not kept");
        let EventKind::CallProgress { call, tool, progress } = event.kind else { panic!() };
        assert_eq!((call.as_str(), tool.as_str(), event.run.as_str()), ("c", "probe", "r"));
        told.push(progress);
    }
    // A hundred steps of 10 ms, at four events a second.
    assert!((4..=6).contains(&told.len()), "{told:?}");
    let first = Progress { done: 1.0, total: Some(100.0), text: None };
    assert_eq!(told.first(), Some(&first));
    assert!(told.is_sorted_by(|a, b| a.done < b.done), "{told:?}");
}
