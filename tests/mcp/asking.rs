//! Servers that ask people in the middle of a call, and tell how far they have come.

use bus::Subscription;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::event::EventKind;
use wire::question::{Progress, QuestionEnd};
use wire::run::{RunState, RunView, Source};
use wire::subject::RunVerb;
use wire::{
    CallKey, ErrorCode, Event, Headers, Name, OpenKind, RunId, RunReply, RunStatus, Subjects,
    header,
};

use crate::house::{ANSWER_MAX, House, installed, read, until};
use crate::published::{free_port, serve};

fn crew() -> Name {
    Name::new("crew").unwrap()
}

/// Somebody who watches the team and answers its questions.
struct Person<'a> {
    house: &'a House,
    events: Subscription,
}

/// A question as it is put to a person.
#[derive(Debug)]
struct Question {
    run: RunId,
    call: CallKey,
    text: String,
    form: Value,
}

impl<'a> Person<'a> {
    async fn of(house: &'a House) -> Self {
        let events = Subjects::default().all_session_events(&crew());
        let events = house.bus.subscribe(&events, None).await.unwrap();
        Self { house, events }
    }

    async fn event(&mut self) -> Event {
        let message = timeout(ANSWER_MAX, self.events.next()).await.expect("an event").unwrap();
        serde_json::from_slice(&message.payload).unwrap()
    }

    async fn asked(&mut self) -> Question {
        loop {
            let event = self.event().await;
            if let EventKind::CallSuspended { call, question: text, kind, form, .. } = event.kind {
                assert_eq!(kind, OpenKind::Question);
                return Question { run: event.run, call, text, form: form.unwrap() };
            }
        }
    }

    async fn ended(&mut self) -> QuestionEnd {
        loop {
            if let EventKind::QuestionEnded { end, .. } = self.event().await.kind {
                return end;
            }
        }
    }

    /// Says something to a question, and returns what is told about that.
    async fn say(&self, question: &Question, said: Value) -> Result<RunView, ErrorCode> {
        let subject = Subjects::default().run(&crew(), &question.run, RunVerb::Answer);
        let body = said.to_string().into();
        let answer = self.house.bus.request(&subject, Headers::new(), body, ANSWER_MAX).await;
        let payload = answer.unwrap().payload;
        serde_json::from_slice(&payload).map_err(|_| {
            let told: wire::error::ErrorBody = serde_json::from_slice(&payload).unwrap();
            told.error.code
        })
    }
}

/// Asks for a run that makes the call of a number, without waiting for it.
fn begun(house: &House, index: usize, run: &str) -> JoinHandle<RunReply> {
    let subject = Subjects::default().agent_run(&crew(), &Name::new("caller").unwrap());
    let body = json!({"input": format!("call {index}"), "run": run}).to_string();
    let bus = house.bus.clone();
    tokio::spawn(async move {
        let answer = bus.request(&subject, Headers::new(), body.into(), ANSWER_MAX).await;
        serde_json::from_slice(&answer.unwrap().payload).unwrap()
    })
}

/// Waits until servers have started, by calls of tools that ask nothing.
async fn ready(house: &House, calls: impl IntoIterator<Item = usize>) {
    for index in calls {
        let answers = async || house.call(index).await.status == "ok";
        until("the server answers", answers).await;
    }
}

async fn source(run: JoinHandle<RunReply>) -> Source {
    let reply = run.await.unwrap();
    let [source] = reply.sources.as_slice() else { panic!("{reply:?}") };
    source.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_server_asks_for_a_form_and_gets_what_a_person_says() {
    let installed = installed().await;
    let servers = format!(
        "[mcp.everything]\ncommand = {}\ntools = ['*']\nelicitation = true\n",
        installed.published("everything", &["stdio"])
    );
    let calls = [
        ("everything_trigger-elicitation-request", json!({})),
        ("everything_echo", json!({"message": "hello"})),
    ];
    let mut house = House::started(&["everything_*"], &servers, &calls).await;
    ready(&house, [1]).await;
    let mut person = Person::of(&house).await;

    let run = begun(&house, 0, "accepted");
    let question = person.asked().await;
    assert!(question.text.starts_with("MCP server everything asks."), "{question:?}");
    assert_eq!(question.form["required"], json!(["name"]), "{question:?}");
    let status = Subjects::default().run(&crew(), &question.run, RunVerb::Status);
    let view = house.bus.request(&status, Headers::new(), "".into(), ANSWER_MAX).await.unwrap();
    let view: RunView = serde_json::from_slice(&view.payload).unwrap();
    assert!(matches!(view.state, RunState::Waiting { kind: OpenKind::Question, .. }), "{view:?}");
    let [open] = view.waiting.as_slice() else { panic!("{view:?}") };
    assert_eq!((&open.call, open.form.as_ref()), (&question.call, Some(&question.form)));
    assert!(open.until.is_some_and(|until| until > open.since));
    // What does not fit changes nothing.
    for bad in [
        json!({"content": {}}),
        json!({"content": {"name": "Ada", "integer": 1000}}),
        json!({"content": {"name": "Ada", "email": "nobody"}}),
        json!({"content": {"name": "Ada", "untitledSingleSelectEnum": "Janice"}}),
        json!({"text": "{\"nome\": \"Ada\"}"}),
        json!({"action": "decline", "text": "no"}),
    ] {
        let refused = person.say(&question, bad.clone()).await;
        assert_eq!(refused.map(|view| view.run), Err(ErrorCode::BadRequest), "{bad}");
    }
    let content = json!({
        "name": "Ada", "integer": 7, "email": "ada@example.org", "birthdate": "1815-12-10",
        "titledSingleSelectEnum": "hero-3", "titledMultipleSelectEnum": ["fish-1", "fish-2"],
        "legacyTitledEnum": "pet-2",
    });
    let said = json!({"call": question.call, "content": content});
    person.say(&question, said).await.unwrap();
    assert_eq!(person.ended().await, QuestionEnd::Accepted);
    let told = source(run).await;
    assert_eq!(told.status, "ok", "{told:?}");
    for part in ["- Name: Ada", "- Favorite Integer: 7", "hero-3", "1815-12-10"] {
        assert!(told.output.contains(part), "{part} in {}", told.output);
    }
    let late = person.say(&question, json!({"text": "Ada"})).await;
    assert_eq!(late.map(|view| view.run), Err(ErrorCode::NotWaiting));

    for (said, end, expected) in [
        (json!({"text": "Ada"}), QuestionEnd::Accepted, "- Name: Ada"),
        (json!({"action": "decline"}), QuestionEnd::Declined, "User declined"),
        (json!({"action": "cancel"}), QuestionEnd::Cancelled, "User cancelled"),
    ] {
        let run = begun(&house, 0, &format!("again-{}", end.as_str()));
        let question = person.asked().await;
        person.say(&question, said).await.unwrap_or_else(|code| panic!("{code}"));
        assert_eq!(person.ended().await, end);
        let told = source(run).await;
        assert!(told.output.contains(expected), "{expected} in {}", told.output);
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_http_ask_in_both_protocols() {
    let installed = installed().await;
    let (old, new) = (free_port(), free_port());
    let words = installed.published("everything", &["streamableHttp"]);
    let words: Vec<String> = serde_json::from_str(&words).unwrap();
    let _old = serve(&words, &[("PORT", old.to_string())], old).await;
    let _new = serve(&installed.sdk(&new.to_string()), &[], new).await;
    let servers = format!(
        "[mcp.old]\nurl = 'http://127.0.0.1:{old}/mcp'\ntools = ['*']\nelicitation = true\n\
         [mcp.new]\nurl = 'http://127.0.0.1:{new}/mcp'\ntools = ['*']\nelicitation = true\n"
    );
    let calls = [
        ("old_trigger-elicitation-request", json!({})),
        ("new_book", json!({})),
        ("old_echo", json!({"message": "hello"})),
        ("new_add", json!({"a": 1, "b": 2})),
    ];
    let mut house = House::started(&["old_*", "new_*"], &servers, &calls).await;
    ready(&house, [2, 3]).await;
    let mut person = Person::of(&house).await;
    for (index, text, expected) in [(0, "Ada", "- Name: Ada"), (1, "3", "booked 3")] {
        let run = begun(&house, index, &format!("r{index}"));
        let question = person.asked().await;
        person.say(&question, json!({"text": text})).await.unwrap();
        let told = source(run).await;
        assert!(told.output.contains(expected), "{expected} in {}", told.output);
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_the_current_protocol_ask_and_are_called_again() {
    let installed = installed().await;
    let servers = format!(
        "[mcp.sdk]\ncommand = {}\ntools = ['*']\nelicitation = true\nquestion_timeout_ms = 500\n\
         [mcp.slow]\ncommand = {}\ntools = ['*']\nelicitation = true\n",
        json!(installed.sdk("stdio")),
        json!(installed.sdk("stdio")),
    );
    let sum = json!({"a": 1, "b": 2});
    let calls = [
        ("slow_book", json!({})),
        ("sdk_book", json!({})),
        ("slow_add", sum.clone()),
        ("sdk_add", sum),
    ];
    let mut house = House::started(&["sdk_*", "slow_*"], &servers, &calls).await;
    ready(&house, [2, 3]).await;
    let mut person = Person::of(&house).await;

    let run = begun(&house, 0, "accepted");
    let question = person.asked().await;
    assert!(question.text.starts_with("MCP server slow asks."), "{question:?}");
    assert!(question.text.ends_with("How many seats?"), "{question:?}");
    let refused = person.say(&question, json!({"text": "ten"})).await;
    assert_eq!(refused.map(|view| view.run), Err(ErrorCode::BadRequest));
    person.say(&question, json!({"text": "7"})).await.unwrap();
    assert!(source(run).await.output.contains("booked 7"));
    let run = begun(&house, 0, "declined");
    let question = person.asked().await;
    person.say(&question, json!({"action": "decline"})).await.unwrap();
    assert!(source(run).await.output.contains("not booked: decline"));

    // Where nobody is there to answer, the call goes on without.
    let run = begun(&house, 1, "unanswered");
    person.asked().await;
    assert_eq!(person.ended().await, QuestionEnd::Expired);
    assert!(source(run).await.output.contains("not booked: cancel"));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_tell_how_far_they_have_come() {
    let installed = installed().await;
    let servers = format!(
        "[mcp.every]\ncommand = {}\ntools = ['*']\n[mcp.sdk]\ncommand = {}\ntools = ['*']\n",
        installed.published("everything", &["stdio"]),
        json!(installed.sdk("stdio")),
    );
    let operation = json!({"duration": 2, "steps": 4});
    let calls = [
        ("every_trigger-long-running-operation", operation),
        ("sdk_count", json!({})),
        ("every_echo", json!({"message": "hello"})),
        ("sdk_add", json!({"a": 1, "b": 2})),
    ];
    let mut house = House::started(&["every_*", "sdk_*"], &servers, &calls).await;
    ready(&house, [2, 3]).await;
    let mut person = Person::of(&house).await;
    for (index, total, text) in [(0, 4.0, None), (1, 3.0, Some("says 3"))] {
        let run = begun(&house, index, &format!("r{index}"));
        let mut told: Vec<Progress> = Vec::new();
        loop {
            let event = person.event().await;
            match event.kind {
                EventKind::CallProgress { progress, .. } => {
                    assert_eq!(event.id, None);
                    told.push(progress);
                }
                EventKind::RunEnded { .. } => break,
                _ => {}
            }
        }
        assert_eq!(source(run).await.status, "ok");
        assert!(told.len() >= 3 && told.is_sorted_by(|a, b| a.done < b.done), "{told:?}");
        let last = told.last().unwrap();
        // What is said with the result itself is not told any more.
        assert_eq!((last.total, last.text.as_deref()), (Some(total), text));
        assert!(last.done >= 3.0, "{told:?}");
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_goes_to_the_run_that_it_must_belong_to() {
    let servers = format!(
        "[mcp.own]\ncommand = {}\ntools = ['*']\nelicitation = true\n",
        installed().await.own()
    );
    let calls =
        [("own_ask", json!({})), ("own_hurry", json!({})), ("own_say", json!({"text": "hi"}))];
    let mut house = House::started(&["own_*"], &servers, &calls).await;
    ready(&house, [2]).await;
    let mut person = Person::of(&house).await;

    // The second waits until the first is over: the server does not say whose it is.
    let first = begun(&house, 0, "first");
    let question = person.asked().await;
    assert_eq!(question.run.as_str(), "first");
    let second = begun(&house, 0, "second");
    let started = async |person: &mut Person<'_>| loop {
        let event = person.event().await;
        assert!(!matches!(event.kind, EventKind::CallSuspended { .. }), "{event:?}");
        if matches!(event.kind, EventKind::CallStarted { .. }) {
            return;
        }
    };
    started(&mut person).await;
    person.say(&question, json!({"text": "yes"})).await.unwrap();
    assert_eq!(source(first).await.output, "the person said: accept");
    let question = person.asked().await;
    assert_eq!(question.run.as_str(), "second");
    person.say(&question, json!({"action": "decline"})).await.unwrap();
    assert_eq!(source(second).await.output, "the person said: decline");

    // One that does not wait for the answer is not held up by it.
    assert_eq!(source(begun(&house, 1, "hurried")).await.output, "done without");

    // A run that is ended has its question taken back, and the server is told.
    let run = begun(&house, 0, "cancelled");
    // The one before may have been put to the person for a moment.
    while person.asked().await.run.as_str() != "cancelled" {}
    let subject =
        Subjects::default().run(&crew(), &RunId::new("cancelled").unwrap(), RunVerb::Cancel);
    let view = house.bus.request(&subject, Headers::new(), "".into(), ANSWER_MAX).await.unwrap();
    let view: RunView = serde_json::from_slice(&view.payload).unwrap();
    assert_eq!(view.state, RunState::Ended { status: RunStatus::Cancelled });
    assert_eq!(run.await.unwrap().status, RunStatus::Cancelled);
    let heard = house.folder.path().join("heard");
    let told = || read(&heard).matches("notifications/cancelled").count();
    until("the server hears it", async || told() > 0).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_what_a_call_that_was_given_up_may_ask() {
    let servers = format!(
        "[mcp.own]\ncommand = {}\ntools = ['*']\nelicitation = true\n\
         [tools.hang]\nkind = 'mcp'\nserver = 'own'\ntimeout_ms = 1000\n",
        installed().await.own()
    );
    let calls = [("own_ask", json!({})), ("own_say", json!({"text": "hi"})), ("hang", json!({}))];
    let mut house = House::started(&["own_*", "hang"], &servers, &calls).await;
    ready(&house, [1]).await;
    assert_eq!(house.call(2).await.status, "unknown");
    assert_eq!(house.call(0).await.output, "the person said: cancel");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_loses_the_question_and_says_so() {
    let servers = format!(
        "[mcp.own]\ncommand = {}\ntools = ['*']\nelicitation = true\n",
        installed().await.own()
    );
    let calls = [("own_ask", json!({})), ("own_say", json!({"text": "hi"}))];
    let mut house = House::started(&["own_*"], &servers, &calls).await;
    ready(&house, [1]).await;
    let run = RunId::new("r").unwrap();
    let subject = Subjects::default().agent_run(&crew(), &Name::new("caller").unwrap());
    let body = json!({"input": "call 0", "run": run}).to_string();
    let headers = Headers::new().with(header::REPLY_MODE, header::REPLY_ACCEPTED);
    let mut person = Person::of(&house).await;
    house.bus.request(&subject, headers, body.into(), ANSWER_MAX).await.unwrap();
    let question = person.asked().await;
    drop(person);
    house.end().await;

    let events = Subjects::default().all_session_events(&crew());
    let events = house.bus.subscribe(&events, None).await.unwrap();
    house.start().await;
    let mut person = Person { house: &house, events };
    assert_eq!(person.ended().await, QuestionEnd::Lost);
    let result = Subjects::default().run(&crew(), &run, RunVerb::Result);
    let reply = house.bus.request(&result, Headers::new(), "".into(), ANSWER_MAX).await.unwrap();
    let reply: RunReply = serde_json::from_slice(&reply.payload).unwrap();
    assert_eq!(reply.sources[0].status, "unknown", "{reply:?}");
    let late = person.say(&question, json!({"text": "yes"})).await;
    assert_eq!(late.map(|view| view.run), Err(ErrorCode::NotWaiting));
    house.end().await;
}
