//! Answers that the token limit cut.

use std::collections::HashMap;
use std::sync::Arc;

use wire::chat::TurnDetail;
use wire::entry::{Body, Entry, ModelOutcome, ModelReplied, Reading};
use wire::plan::WhenBusy;
use wire::run::{RunReply, RunStatus};
use wire::{Digest, ErrorCode, FinishReason, Input, ModelRole, Name, Plan, Timestamp, Usage};

use super::busy::when_busy;
use super::check;
use super::flow::START;
use super::team::{
    actor, answer, calls, done, name, planned, planner, replied, run, session, submit, with,
};
use crate::session::SessionMachine;

/// A cut answer, of so many tokens by the provider's count.
fn cut(turn: u32, text: &str, written: u64) -> Input {
    ended(replied("r", turn, ModelRole::Actor, 10, Reading::Cut { text: text.into() }), written)
}

fn ended(mut input: Input, written: u64) -> Input {
    report(&mut input, |turn| {
        turn.finish = FinishReason::Length;
        turn.usage = Usage::of_tokens(10, written);
    });
    input
}

fn report(input: &mut Input, change: impl FnOnce(&mut wire::entry::TurnReport)) {
    if let Input::ModelReplied(ModelReplied { outcome: ModelOutcome::Read { turn, .. }, .. }) =
        input
    {
        change(turn);
    }
}

/// Applies inputs to a session, journals them, and folds them again.
fn played(plan: &Plan, inputs: &[Input]) -> SessionMachine {
    let plans = HashMap::from([(Digest::of(b"plan"), plan.clone().into())]);
    let mut machine = SessionMachine::new(name("team"), session());
    let mut entries = Vec::new();
    for input in inputs {
        let entry = Entry::new(Timestamp::default(), Body::Session(input.clone()));
        machine.apply(entry.at, input, &plans).unwrap();
        let written = serde_json::to_vec(&entry).unwrap();
        entries.push(serde_json::from_slice::<Entry>(&written).unwrap());
    }
    let folded = SessionMachine::fold(name("team"), session(), &entries, &plans, |_, _, _| {});
    assert_eq!(folded.as_ref(), Ok(&machine));
    machine
}

fn reply(machine: &SessionMachine) -> Arc<RunReply> {
    machine.reply(&run("r")).unwrap()
}

#[test]
fn a_cut_answer_is_handed_over_as_a_part_of_one() {
    let rows =
        [(0, submit("r"), START), (1, cut(0, "It is 4", 200), "publish r partial E4008, 210 used")];
    let machine = check(&actor(), &rows);
    assert_eq!(reply(&machine).output, "It is 4");
    let kept: Vec<_> = machine.exchanges().map(|told| told.answer.to_string()).collect();
    let note = "(The work on this message ended before there was an answer: the reply of the model \
        was too long, and was cut.)";
    assert_eq!(kept, [format!("It is 4\n\n{note}")]);
    // So is the answer to what a planner has found out.
    let answered = [submit("r"), planned("r", 0, "respond_to_user", ""), cut(1, "It is 4", 200)];
    let machine = played(&planner(), &answered);
    assert_eq!((reply(&machine).status, &*reply(&machine).output), (RunStatus::Partial, "It is 4"));
}

#[test]
fn the_error_says_where_a_reply_was_cut_and_what_to_do() {
    let few = with(actor(), |limits| limits.tokens_max = 155);
    let spare = |mut input: Input| {
        report(&mut input, |turn| turn.served_by = Some(Name::new("spare").unwrap()));
        input
    };
    let thinking = |mut input: Input| {
        let detail = TurnDetail { reasoning_tokens: Some(200), ..TurnDetail::default() };
        report(&mut input, |turn| turn.detail = detail);
        input
    };
    let raise = "raise `reply_tokens_max`";
    for (plan, reply_cut, expected) in [
        (actor(), cut(0, "It", 200), format!("small was cut at 200 tokens; {raise}")),
        (actor(), cut(0, "It", 0), format!("small was cut at 200 tokens; {raise}")),
        (actor(), spare(cut(0, "It", 200)), format!("spare was cut at 200 tokens; {raise}")),
        (
            actor(),
            cut(0, "It", 64),
            format!(
                "small was cut at 64 of at most 200 tokens; {raise}, or the limit of the model or \
                 its server if that is lower"
            ),
        ),
        (
            few,
            cut(0, "It", 100),
            "small was cut at 100 tokens; no more were left; raise `tokens_max` or `cost_max`, or \
             the request's budget"
                .to_owned(),
        ),
        (
            actor(),
            cut(0, "", 200),
            format!(
                "small was cut at 200 tokens before it said anything: hidden reasoning counts too; \
                 {raise}"
            ),
        ),
        (
            actor(),
            thinking(cut(0, "", 200)),
            format!(
                "small was cut at 200 tokens before it said anything: 200 of them are hidden \
                 reasoning; {raise}"
            ),
        ),
    ] {
        let machine = played(&plan, &[submit("r"), reply_cut]);
        let error = reply(&machine).error.clone().unwrap();
        assert_eq!(error.code, ErrorCode::AnswerCut);
        assert_eq!(error.message, format!("the reply of model {expected}"));
    }
}

#[test]
fn a_reply_without_a_word_hands_over_what_was_said_before_it() {
    let said = Reading::Calls {
        text: "I look.".to_owned(),
        calls: vec![super::team::read_call("look", serde_json::json!({"n": 0}))],
    };
    for (first, output) in
        [(replied("r", 0, ModelRole::Actor, 10, said), "I look."), (calls("r", 0, &["look"]), "")]
    {
        let machine = played(&actor(), &[submit("r"), first, done(1, 0), cut(1, "", 200)]);
        let reply = reply(&machine);
        assert_eq!((reply.status, &*reply.output), (RunStatus::Partial, output));
        assert_eq!(reply.sources.len(), 1);
    }
}

#[test]
fn a_message_that_overtakes_a_cut_answer_is_answered() {
    let plan = when_busy(WhenBusy::Steer, actor());
    for (text, told) in [("It is 4", vec!["ask r", "ask q"]), ("", vec!["ask r\n\nask q"])] {
        let begun = [submit("r"), submit("q"), cut(0, text, 100), answer("r", 1, "43")];
        let machine = played(&plan, &begun);
        assert_eq!(reply(&machine).status, RunStatus::Completed);
        let kept: Vec<_> = machine.exchanges().map(|told| told.user.as_str()).collect();
        assert_eq!(kept, told);
    }
    // Where no step is left, there is no more to come.
    let plan = with(plan, |limits| limits.steps_max = 1);
    let machine = played(&plan, &[submit("r"), submit("q"), cut(0, "It is 4", 100)]);
    assert_eq!(reply(&machine).status, RunStatus::Partial);
}

#[test]
fn a_journal_of_an_earlier_program_has_its_answer_though_it_was_cut() {
    let machine = played(&actor(), &[submit("r"), ended(answer("r", 0, "It is 4"), 200)]);
    let reply = reply(&machine);
    assert_eq!((reply.status, &*reply.output), (RunStatus::Completed, "It is 4"));
    assert_eq!(reply.error, None);
}
