//! Questions of calls that are under way: answered, refused, forgotten, and lost with their call.

use std::collections::HashMap;

use serde_json::{Value, json};
use wire::question::QUESTIONS_MAX;
use wire::run::{AnswerAction, AnswerRequest, RunState};
use wire::{Digest, ErrorCode, Input, OpenKind, Plan, Question, Said, Timestamp};

use super::flow::START;
use super::team::{
    RESUMED, actor, answer, call, calls, cancel, done, lost, name, offering, run, session, submit,
    suspend, with,
};
use super::{check, check_open, check_reports};
use crate::effect::Effect;
use crate::session::SessionMachine;

/// The team whose tools may ask people.
fn curious() -> Plan {
    let asks = |plan, tool| offering(plan, tool, |offer| offer.question_timeout_ms = Some(8000));
    ["look", "pay"].into_iter().fold(actor(), asks)
}

fn form() -> Value {
    json!({
        "type": "object",
        "properties": {"size": {"type": "integer", "minimum": 1}},
        "required": ["size"],
    })
}

fn asks(slot: u64, index: u32, attempt: u32, id: &str) -> Input {
    let question = Question { id: name(id), text: "Which?".to_owned(), form: form() };
    Input::CallAsked { call: call(slot, index), attempt, question }
}

fn says(slot: u64, index: u32, id: &str, said: Said) -> Input {
    Input::QuestionAnswered { call: call(slot, index), question: name(id), said }
}

fn seven() -> Said {
    Said::Accept { content: json!({"size": 7}) }
}

fn over(slot: u64, index: u32, id: &str) -> Input {
    Input::QuestionExpired { call: call(slot, index), question: name(id) }
}

const MADE: &str = r#"call pay 1/0 once {"n":0}, depth 1, by 5001"#;

const ASKED: &str = "open question 1/0 waits, attempt 1
    expire 1/0 at 10000";

#[test]
fn a_call_goes_on_with_what_a_person_says_in_the_time_that_it_had_left() {
    let answers = [
        (seven(), r#"{"action":"accept","content":{"size":7}}"#),
        (Said::Decline, r#"{"action":"decline"}"#),
        (Said::Cancel, r#"{"action":"cancel"}"#),
    ];
    for (said, told) in answers {
        check_open(
            &curious(),
            &[
                (0, submit("r"), START),
                (1, calls("r", 0, &["pay"]), MADE),
                (
                    1,
                    asks(1, 0, 0, "q"),
                    "rejected: call 1/0 is not what was decided about: its arguments or its attempt differ",
                ),
                (2000, asks(1, 0, 1, "q"), ASKED),
                (2001, asks(1, 0, 1, "p"), "rejected: call 1/0 is not awaited"),
                (2002, says(1, 0, "p", said.clone()), "rejected: call 1/0 is not awaited"),
                (2003, over(1, 0, "p"), "rejected: call 1/0 is not awaited"),
                // It asked with 3001 ms left of its 5000.
                (
                    9000,
                    says(1, 0, "q", said.clone()),
                    &format!("close 1/0\nsay {told} to q of 1/0, by 12001"),
                ),
                (9001, says(1, 0, "q", said.clone()), "rejected: call 1/0 is not awaited"),
                (9001, over(1, 0, "q"), "rejected: call 1/0 is not awaited"),
                (
                    9002,
                    done(1, 0),
                    "ask small as actor for r, turn 1, step 2, 200 tokens, by 18002",
                ),
                (9003, answer("r", 1, "42"), r#"publish r completed "42", 20 used pay=ok"#),
            ],
        );
    }
}

#[test]
fn observers_are_told_what_is_asked_and_how_that_ends() {
    let machine = check_reports(
        &curious(),
        &[
            (
                0,
                submit("r"),
                r#"tell 0.0 accepted "ask r"
                   timer r at 60000
                   tell 0.1 started
                   tell 0.2 asked small
                   ask small as actor for r, turn 0, step 1, 200 tokens, by 9000"#,
            ),
            (
                1,
                calls("r", 0, &["pay"]),
                &format!("span chat small\ntell 1.0 call pay 1/0\n{MADE}"),
            ),
            (
                2000,
                asks(1, 0, 1, "q"),
                &format!("tell 2.0 suspended 1/0 question \"Which?\"\n{ASKED}"),
            ),
        ],
    );
    let state = machine.view(&run("r")).unwrap().state;
    let (question, kind) = ("Which?".to_owned(), OpenKind::Question);
    assert_eq!(state, RunState::Waiting { call: call(1, 0), question, kind, others: vec![] });
    assert!(!machine.is_busy(), "nothing goes on until a person says something");
    let mut machine = machine;
    let plans = HashMap::from([(Digest::of(b"plan"), curious().into())]);
    let effects = machine.apply(Timestamp::from_micros(0), &over(1, 0, "q"), &plans).unwrap();
    let lines = super::lines(&effects, super::Shown::Everything);
    let said = r#"say {"action":"cancel"} to q of 1/0, by 3001"#;
    assert_eq!(lines, ["close 1/0", "tell 3.0 expired 1/0", said]);
    assert!(machine.is_busy());
}

#[test]
fn only_what_fits_is_an_answer() {
    let rows = [
        (0, submit("r"), START),
        (1, calls("r", 0, &["pay"]), MADE),
        (2000, asks(1, 0, 1, "q"), "expire 1/0 at 10000"),
    ];
    let machine = check(&curious(), &rows);
    let said =
        |content: Value| AnswerRequest { content: Some(content), ..AnswerRequest::default() };
    let words =
        |text: &str| AnswerRequest { text: Some(text.to_owned()), ..AnswerRequest::default() };
    let elsewhere = AnswerRequest { call: Some(call(1, 1)), ..said(json!({"size": 7})) };
    let declined = AnswerRequest { action: AnswerAction::Decline, ..AnswerRequest::default() };
    let cases = [
        (said(json!({"size": 7})), Ok(says(1, 0, "q", seven()))),
        (words("7"), Ok(says(1, 0, "q", seven()))),
        (declined, Ok(says(1, 0, "q", Said::Decline))),
        (said(json!({"size": 0})), Err(ErrorCode::BadRequest)),
        (said(json!({})), Err(ErrorCode::BadRequest)),
        (words("large"), Err(ErrorCode::BadRequest)),
        (elsewhere, Err(ErrorCode::NotWaiting)),
    ];
    for (request, expected) in cases {
        let found = machine.answer(&run("r"), &request).map_err(|error| error.code);
        assert_eq!(found, expected, "{request:?}");
    }
    let found = machine.answer(&run("x"), &words("7")).map_err(|error| error.code);
    assert_eq!(found, Err(ErrorCode::NotWaiting));
}

#[test]
fn an_answer_to_another_question_of_the_call_is_refused() {
    let plans = HashMap::from([(Digest::of(b"plan"), curious().into())]);
    let (over, again) = (says(1, 0, "q", Said::Decline), asks(1, 0, 1, "p"));
    let cases = [
        (vec![], None, Ok("q")),
        (vec![], Some("q"), Ok("q")),
        (vec![], Some("p"), Err(ErrorCode::NotWaiting)),
        (vec![over.clone()], Some("q"), Err(ErrorCode::NotWaiting)),
        (vec![over.clone(), again.clone()], Some("q"), Err(ErrorCode::NotWaiting)),
        (vec![over.clone(), again.clone()], Some("p"), Ok("p")),
        (vec![over.clone(), again], None, Ok("p")),
        (vec![over, suspend(1, 0)], Some("q"), Err(ErrorCode::NotWaiting)),
    ];
    for (rows, question_id, expected) in cases {
        let mut machine = SessionMachine::new(name("team"), session());
        let mut shown = None;
        let begun = [submit("r"), calls("r", 0, &["pay"]), asks(1, 0, 1, "q")];
        for (ms, input) in (0u64..).zip(begun.iter().chain(&rows)) {
            let effects = machine.apply(Timestamp::from_micros(ms * 1000), input, &plans).unwrap();
            for effect in effects {
                if let Effect::Opened(open) = effect {
                    shown = open.question_id;
                }
            }
        }
        let content = Some(json!({"size": 7}));
        let request = AnswerRequest {
            call: Some(call(1, 0)),
            question_id: question_id.map(name),
            content,
            ..AnswerRequest::default()
        };
        let found = machine.answer(&run("r"), &request).map_err(|error| error.code);
        let expected = expected.map(|id| says(1, 0, id, seven()));
        assert_eq!(found, expected, "{question_id:?} after {rows:?}");
        if let Ok(Input::QuestionAnswered { question, .. }) = found {
            assert_eq!(shown, Some(question), "people are shown which question it is");
        }
    }
}

#[test]
fn nobody_is_asked_who_could_not_answer() {
    let cancelled =
        |id: &str, by: u64| format!(r#"say {{"action":"cancel"}} to {id} of 1/0, by {by}"#);
    // A tool that may not ask.
    check_open(
        &actor(),
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), MADE),
            (1000, asks(1, 0, 1, "q"), &cancelled("q", 5001)),
            (1001, done(1, 0), "ask small as actor for r, turn 1, step 2, 200 tokens, by 10001"),
        ],
    );
    // A run that is about to end keeps time for its own answer.
    let hurried = with(curious(), |limits| limits.deadline_ms = 60_000);
    check_open(
        &hurried,
        &[
            (0, submit("r"), START),
            (1, calls("r", 0, &["pay"]), MADE),
            (4000, asks(1, 0, 1, "q"), "open question 1/0 waits, attempt 1\nexpire 1/0 at 12000"),
            (
                59_900,
                says(1, 0, "q", seven()),
                "close 1/0\nsay {\"action\":\"accept\",\"content\":{\"size\":7}} to q of 1/0, by 59900",
            ),
        ],
    );
}

#[test]
fn a_call_asks_so_often_and_no_more() {
    let mut rows =
        vec![(0, submit("r"), START.to_owned()), (1, calls("r", 0, &["pay"]), MADE.to_owned())];
    for number in 0..QUESTIONS_MAX {
        let id = format!("q{number}");
        let asked = "open question 1/0 waits, attempt 1\nexpire 1/0 at 8002".to_owned();
        rows.push((2, asks(1, 0, 1, &id), asked));
        let said = format!("close 1/0\nsay {{\"action\":\"decline\"}} to {id} of 1/0, by 5001");
        rows.push((2, says(1, 0, &id, Said::Decline), said));
    }
    let refused = "say {\"action\":\"cancel\"} to last of 1/0, by 5001".to_owned();
    rows.push((2, asks(1, 0, 1, "last"), refused));
    let rows: Vec<_> =
        rows.iter().map(|(ms, input, lines)| (*ms, input.clone(), lines.as_str())).collect();
    check_open(&curious(), &rows);
}

#[test]
fn a_call_that_ends_takes_its_question_with_it() {
    let next = |ms: u64| {
        format!("close 1/0\nask small as actor for r, turn 1, step 2, 200 tokens, by {ms}")
    };
    let begun = |tool: &'static str, made: &'static str| {
        vec![
            (0, submit("r"), START),
            (1, calls("r", 0, &[tool]), made),
            (2000, asks(1, 0, 1, "q"), ASKED),
        ]
    };
    // It is over, whatever a person might have said.
    let settled = next(11_001);
    let mut rows = begun("pay", MADE);
    rows.push((2001, done(1, 0), &settled));
    check_open(&curious(), &rows);

    // What is not repeated is unknown, and what reads is made again.
    let mut rows = begun("pay", MADE);
    let unknown = "close 1/0
        open unknown 1/0 told, attempt 1
        ask small as actor for r, turn 1, step 2, 200 tokens, by 11001";
    rows.push((2001, lost(1, 0, 1), unknown));
    check_open(&curious(), &rows);
    let mut rows = begun("look", r#"call look 1/0 read {"n":0}, depth 1, by 5001"#);
    let again = r#"close 1/0
        call look 1/0 read again 2 {"n":0}, depth 1, by 7001"#;
    rows.push((2001, lost(1, 0, 1), again));
    rows.push((
        2002,
        asks(1, 0, 2, "p"),
        "open question 1/0 waits, attempt 2\nexpire 1/0 at 10002",
    ));
    check_open(&curious(), &rows);

    // A run that is ended has no questions.
    let mut rows = begun("pay", MADE);
    let ended = r"abort r [1/0]
        open unknown 1/0 told, attempt 1
        publish r cancelled E4004, 10 used pay=unknown";
    rows.push((2001, cancel("r"), ended));
    rows.push((2002, says(1, 0, "q", seven()), "rejected: call 1/0 is not awaited"));
    check_open(&curious(), &rows);
}

#[test]
fn a_restart_loses_the_question_and_decides_about_the_call_by_its_effect() {
    let asked = |tool: &'static str, made: &'static str| {
        vec![
            (0, submit("r"), START),
            (1, calls("r", 0, &[tool]), made),
            (2000, asks(1, 0, 1, "q"), ASKED),
        ]
    };
    let mut rows = asked("pay", MADE);
    let unknown = "close 1/0
        open unknown 1/0 told, attempt 1
        timer r at 60000
        ask small as actor for r, turn 1, step 2, 200 tokens, by 12000";
    rows.push((3000, RESUMED, unknown));
    rows.push((3001, says(1, 0, "q", seven()), "rejected: call 1/0 is not awaited"));
    check_open(&curious(), &rows);

    let look = r#"call look 1/0 read {"n":0}, depth 1, by 5001"#;
    let mut rows = asked("look", look);
    let again = r#"close 1/0
        timer r at 60000
        call look 1/0 read again 2 {"n":0}, depth 1, by 8000"#;
    rows.push((3000, RESUMED, again));
    rows.push((
        3001,
        asks(1, 0, 1, "p"),
        "rejected: call 1/0 is not what was decided about: its arguments or its attempt differ",
    ));
    check_open(&curious(), &rows);

    // Answered, and the process ends before the tool hears it.
    let mut rows = asked("pay", MADE);
    rows.push((
        2500,
        says(1, 0, "q", Said::Decline),
        "close 1/0\nsay {\"action\":\"decline\"} to q of 1/0, by 5501",
    ));
    let unknown = "open unknown 1/0 told, attempt 1
        timer r at 60000
        ask small as actor for r, turn 1, step 2, 200 tokens, by 12000";
    rows.push((3000, RESUMED, unknown));
    check_open(&curious(), &rows);
}
