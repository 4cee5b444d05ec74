//! What a run leaves to later ones, and how much of it these are shown.

use std::collections::HashMap;

use wire::entry::{Body, Entry, Input, ModelOutcome, ModelReplied, Reading};
use wire::money::{ModelPrice, Price};
use wire::plan::{EDITION, Limits, WhenBusy};
use wire::{Digest, ErrorCode, FinishReason, ModelRole, Plan, RunStatus, Timestamp, WireError};

use super::busy::when_busy;
use super::team::{
    actor, answer, calls, calls_using, cancel, continued, done, garbage, late, model_failed, name,
    replied, run, session, submit, submit_with, thinker, thought, with,
};
use crate::session::SessionMachine;

/// Applies inputs, a millisecond apart, and holds that a fold comes to the same machine.
fn played(plan: &Plan, inputs: &[Input]) -> SessionMachine {
    let plans = HashMap::from([(Digest::of(b"plan"), plan.clone().into())]);
    let mut machine = SessionMachine::new(name("team"), session());
    let mut entries = Vec::new();
    for input in inputs {
        let now = Timestamp::from_micros(1000 * entries.len() as u64);
        machine.apply(now, input, &plans).unwrap();
        entries.push(Entry::new(now, Body::Session(input.clone())));
    }
    let folded =
        SessionMachine::fold(name("team"), session(), &entries, &plans, |_, _, _| {}).unwrap();
    assert_eq!(folded, machine);
    machine
}

/// Returns what later runs may be shown: the messages and their answers.
fn kept(machine: &SessionMachine) -> Vec<(&str, &str)> {
    machine.exchanges().map(|told| (told.user.as_str(), told.answer.as_str())).collect()
}

fn refused(id: &str, turn: u32, code: ErrorCode) -> Input {
    let outcome = ModelOutcome::Failed { error: WireError::new(code, "no") };
    Input::ModelReplied(ModelReplied { run: run(id), turn, outcome })
}

fn withheld(id: &str, turn: u32, text: &str) -> Input {
    let mut input = answer(id, turn, text);
    if let Input::ModelReplied(ModelReplied { outcome: ModelOutcome::Read { turn, .. }, .. }) =
        &mut input
    {
        turn.finish = FinishReason::ContentFilter;
    }
    input
}

const ENDED: &str = "(The work on this message ended before there was an answer:";
const MADE: &str = "Calls that were made until then:";

#[test]
fn a_run_that_does_not_complete_leaves_what_was_said_and_done() {
    let one_step = with(actor(), |limits| limits.steps_max = 1);
    let strict = with(actor(), |limits| limits.feedback_max = 0);
    let pays = |rest: &[Input]| [&[submit("r"), calls("r", 0, &["pay"])], rest].concat();
    let paid = |rest: &[Input]| pays(&[&[done(1, 0)], rest].concat());
    let is_paid = format!("{MADE}\n- pay {{\"n\":0}}: ok: done");
    let said = Reading::Calls { text: "I pay.".to_owned(), calls: Vec::new() };
    let says = |end| vec![submit("r"), replied("r", 0, ModelRole::Actor, 10, said.clone()), end];
    let cases = [
        (
            &one_step,
            paid(&[]),
            RunStatus::Partial,
            format!("{ENDED} it took too many steps.)\n{is_paid}"),
        ),
        (
            &actor(),
            paid(&[late("r")]),
            RunStatus::Deadline,
            format!("{ENDED} its time was over.)\n{is_paid}"),
        ),
        (
            &actor(),
            paid(&[model_failed("r", 1)]),
            RunStatus::Failed,
            format!("{ENDED} it failed.)\n{is_paid}"),
        ),
        (
            &actor(),
            paid(&[refused("r", 1, ErrorCode::ModelRefused)]),
            RunStatus::Failed,
            format!("{ENDED} it failed.)\n{is_paid}"),
        ),
        // What is withheld is not said again, what was done is.
        (
            &actor(),
            paid(&[withheld("r", 1, "vile")]),
            RunStatus::Refused,
            format!("{ENDED} the reply of the model was withheld.)\n{is_paid}"),
        ),
        (
            &actor(),
            vec![submit("r"), calls_using("r", 0, 990, &["pay"]), done(1, 0)],
            RunStatus::Budget,
            format!("{ENDED} what it may use was used up.)\n{is_paid}"),
        ),
        (
            &actor(),
            pays(&[cancel("r")]),
            RunStatus::Cancelled,
            format!(
                "{ENDED} it was cancelled.)\n{MADE}\n- pay {{\"n\":0}}: unknown: \
                 {{\"status\":\"unknown\",\"note\":\"the run ended while this call was under way; \
                 it may have taken effect\"}}"
            ),
        ),
        (
            &actor(),
            says(refused("r", 1, ErrorCode::ModelRefused)),
            RunStatus::Failed,
            format!("I pay.\n\n{ENDED} it failed.)"),
        ),
        (
            &actor(),
            vec![submit("r"), continued("r", 0, "One moment."), late("r")],
            RunStatus::Deadline,
            format!("One moment.\n\n{ENDED} its time was over.)"),
        ),
        (
            &thinker(),
            vec![submit("r"), thought("r", 0, "I shall pay."), cancel("r")],
            RunStatus::Cancelled,
            format!("I shall pay.\n\n{ENDED} it was cancelled.)"),
        ),
        // Who writes \"please continue\" means the message before.
        (
            &strict,
            vec![submit("r"), garbage("r", 0)],
            RunStatus::Failed,
            format!("{ENDED} it failed.)"),
        ),
        (
            &actor(),
            vec![submit("r"), model_failed("r", 0)],
            RunStatus::Failed,
            format!("{ENDED} it failed.)"),
        ),
        (
            &actor(),
            vec![submit("r"), cancel("r")],
            RunStatus::Cancelled,
            format!("{ENDED} it was cancelled.)"),
        ),
    ];
    for (plan, mut inputs, status, expected) in cases {
        let machine = played(plan, &inputs);
        assert_eq!(machine.ended(&run("r")), Some(status), "{expected}");
        assert_eq!(kept(&machine), [("ask r", expected.as_str())]);
        let before = Plan { keeps_unfinished: false, ..plan.clone() };
        assert_eq!(kept(&played(&before, &inputs)), [], "by a plan of an older journal");
        inputs.push(submit("q"));
        let next = played(plan, &inputs);
        let (_, transcript) = next.transcript().unwrap();
        assert_eq!(transcript.history.len(), 1, "{expected}");
        if !machine.is_busy() {
            let kept = machine.snapshot(Timestamp::default()).unwrap();
            assert_eq!(kept.exchanges[0].answer, expected);
        }
    }
}

#[test]
fn a_run_leaves_nothing_that_was_not_begun_or_whose_message_would_fail_again() {
    for (inputs, ended) in [
        (vec![submit("r"), refused("r", 0, ErrorCode::ModelRefused)], "r"),
        (vec![submit("r"), refused("r", 0, ErrorCode::TooLarge)], "r"),
        (vec![submit("r"), withheld("r", 0, "vile")], "r"),
        (vec![submit_with("r", Some(10), None)], "r"),
        (vec![submit("r"), submit("q"), cancel("q")], "q"),
    ] {
        let machine = played(&actor(), &inputs);
        assert_ne!(machine.ended(&run(ended)), None);
        assert_eq!(kept(&machine), [], "{inputs:?}");
    }
}

#[test]
fn messages_that_joined_a_run_without_an_answer_are_kept_with_its_own() {
    let plan = when_busy(WhenBusy::Steer, actor());
    let machine = played(&plan, &[submit("r"), submit("q"), model_failed("r", 0)]);
    assert_eq!(kept(&machine), [("ask r\n\nask q", format!("{ENDED} it failed.)").as_str())]);
    let overtaken = [submit("r"), submit("q"), answer("r", 0, "42"), model_failed("r", 1)];
    let failed = format!("{ENDED} it failed.)");
    assert_eq!(kept(&played(&plan, &overtaken)), [("ask r", "42"), ("ask q", &failed)]);
    // Of one that was not shown its sender is told that it has no answer.
    let few = with(plan, |limits| limits.steps_max = 1);
    let machine = played(&few, &[submit("r"), submit("q"), answer("r", 0, "42")]);
    assert_eq!(kept(&machine), [("ask r", "42")]);
}

#[test]
fn of_many_calls_those_are_told_that_may_have_changed_something() {
    let tools = [&["pay"][..], &["look"; 25]].concat();
    let plan = with(when_busy(WhenBusy::Interrupt, actor()), |limits| {
        limits.calls_per_step_max = 30;
        limits.tokens_max = 100_000;
    });
    for (plan, end, pay, last, first) in [
        (plan.clone(), cancel("r"), true, true, false),
        (plan.clone(), submit("q"), true, true, false),
        // Older journals have the first ones.
        (Plan { keeps_unfinished: false, ..plan }, submit("q"), true, false, true),
    ] {
        let machine = played(&plan, &[submit("r"), calls("r", 0, &tools), end]);
        let (_, note) = kept(&machine)[0];
        let lists = |number: u32| note.contains(&format!("{{\"n\":{number}}}"));
        assert_eq!((lists(0), lists(25), lists(1)), (pay, last, first), "{note}");
        assert_eq!(note.matches("\n- ").count(), 21, "{note}");
        assert!(note.ends_with("\n- and 6 more"), "{note}");
    }
}

/// Asks and answers so often, with answers of so many bytes, and begins a further run.
fn conversation(sizes: &[usize]) -> Vec<Input> {
    let mut inputs = Vec::new();
    for (number, bytes) in sizes.iter().enumerate() {
        let id = format!("r{number}");
        inputs.extend([submit(&id), answer(&id, 0, &"x".repeat(*bytes))]);
    }
    inputs
}

#[test]
fn a_run_is_shown_the_newest_exchanges_that_fit() {
    // Beside the first prompt of 55 tokens, 945 are left, and half of them are 945 bytes.
    let limits = |history: Option<u64>, messages| {
        move |limits: &mut Limits| {
            limits.history_tokens_max = history;
            limits.history_messages_max = messages;
        }
    };
    for (history, messages, sizes, budget, shown) in [
        (Some(1000), 20, &[100, 100, 100][..], None, 3),
        (Some(1000), 20, &[400, 400, 400], None, 2),
        (Some(1000), 20, &[938], None, 1),
        (Some(1000), 20, &[939], None, 0),
        // None is left out between others.
        (Some(1000), 20, &[10, 900, 100], None, 1),
        (Some(1000), 4, &[100, 100, 100], None, 2),
        (Some(100), 20, &[93, 94, 94], None, 2),
        (Some(100), 20, &[93, 94, 95], None, 1),
        (Some(0), 20, &[1], None, 0),
        (Some(1000), 20, &[100, 100, 100], Some(255), 1),
        // Plans of older journals bound messages alone.
        (None, 20, &[400, 400, 400], None, 3),
        (None, 4, &[400, 400, 400], None, 2),
    ] {
        let plan = with(actor(), limits(history, messages));
        let inputs = [conversation(sizes), vec![submit_with("q", budget, None)]].concat();
        let machine = played(&plan, &inputs);
        let case = format!("{history:?} {messages} {sizes:?} {budget:?}");
        let count = machine.transcript().map(|(_, transcript)| transcript.history.len());
        assert_eq!(count, Some(shown), "{case}");
    }
}

#[test]
fn several_runs_in_a_row_are_shown_a_history_that_begins_alike() {
    // Ten exchanges fit, by number or by bytes, and the counts are those after so many runs.
    let by_number = |limits: &mut Limits| limits.history_messages_max = 20;
    let by_bytes = |limits: &mut Limits| limits.history_tokens_max = Some(475);
    for (edition, bound, expected) in [
        (EDITION, &by_number as &dyn Fn(&mut Limits), 17),
        (EDITION, &by_bytes, 17),
        (2, &by_number, 31),
    ] {
        let plan = Plan { edition, ..with(actor(), bound) };
        let mut begins = Vec::new();
        for runs in 0..40 {
            let inputs = [conversation(&[87; 40][..runs]), vec![submit("q")]].concat();
            let machine = played(&plan, &inputs);
            let (_, transcript) = machine.transcript().unwrap();
            let (shown, fitting) = (transcript.history.len(), runs.min(10));
            assert!(shown <= fitting && shown * 4 >= fitting * 3, "{shown} of {fitting}");
            begins.push(transcript.history.first().map(|first| first.user.clone()));
        }
        begins.dedup();
        assert_eq!(begins.len(), expected, "edition {edition}");
    }
}

#[test]
fn a_run_that_begins_a_conversation_is_shown_nothing_of_one_before() {
    let begins = |id| {
        let mut input = submit(id);
        if let Input::Submitted(submitted) = &mut input {
            submitted.begins = true;
        }
        input
    };
    for (second, shown) in [(submit("q"), 1), (begins("q"), 0)] {
        let mut inputs = vec![submit("r"), answer("r", 0, "42"), second];
        let machine = played(&actor(), &inputs);
        let (_, transcript) = machine.transcript().unwrap();
        assert_eq!(transcript.history.len(), shown);
        inputs.push(answer("q", 0, "43"));
        let machine = played(&actor(), &inputs);
        assert_eq!(kept(&machine), [("ask r", "42"), ("ask q", "43")], "nothing is lost");
    }
}

#[test]
fn a_session_that_goes_on_from_a_snapshot_shows_the_same() {
    let plan = with(actor(), |limits| limits.history_messages_max = 20);
    let plans = HashMap::from([(Digest::of(b"plan"), plan.clone().into())]);
    for runs in 10..30 {
        let before = played(&plan, &conversation(&[10; 30][..runs]));
        let snapshot = before.snapshot(Timestamp::default()).unwrap();
        let mut whole = before;
        let mut short = SessionMachine::new(name("team"), session());
        let now = Timestamp::from_micros(1);
        short.apply(now, &Input::Snapshot(Box::new(snapshot)), &plans).unwrap();
        let shown = [&mut whole, &mut short].map(|machine| {
            machine.apply(now, &submit("q"), &plans).unwrap();
            let (_, transcript) = machine.transcript().unwrap();
            transcript.history.to_vec()
        });
        assert_eq!(shown[0], shown[1], "{runs}");
    }
}

#[test]
fn what_money_buys_bounds_the_history() {
    let dollar = Price { input: 1_000_000, ..Price::default() };
    for (cost, shown) in [(1000, 2), (455, 1), (254, 0)] {
        let mut plan = with(actor(), |limits| limits.cost_max_nano_usd = Some(cost));
        let price = ModelPrice { highest: dollar, ..ModelPrice::default() };
        plan.prices.insert(name("small"), price);
        let machine = played(&plan, &[conversation(&[300, 300]), vec![submit("q")]].concat());
        let (_, transcript) = machine.transcript().unwrap();
        assert_eq!(transcript.history.len(), shown, "{cost}");
    }
}

#[test]
fn a_session_with_long_answers_goes_on() {
    let plan = with(actor(), |limits| limits.tokens_max = 4000);
    let plan = with(plan, |limits| limits.history_tokens_max = Some(4000));
    let machine = played(&plan, &conversation(&[3000; 12]));
    for number in 0..12 {
        let status = machine.ended(&run(&format!("r{number}")));
        assert_eq!(status, Some(RunStatus::Completed), "{number}");
    }
}

#[test]
fn an_error_names_the_history_where_it_is_the_cause() {
    let history = "450 of 1000 tokens are left, which is too little for the next turn with its \
        prompt of about 556 tokens, of which about 490 are earlier messages of the session; begin a \
        new session, lower `history_tokens_max`, or raise `tokens_max` or the request's budget";
    let own = "450 of 1000 tokens are left, which is too little for the next turn with its prompt \
        of about 556 tokens; raise `tokens_max` or the request's budget";
    for (bound, sizes, expected) in
        [(Some(1000), &[900][..], history), (Some(1000), &[], own), (None, &[900], own)]
    {
        let plan = with(actor(), |limits| limits.history_tokens_max = bound);
        let ends = [submit("q"), calls_using("q", 0, 550, &["look"])];
        let call = done(u64::try_from(2 * sizes.len() + 1).unwrap(), 0);
        let machine = played(&plan, &[conversation(sizes), ends.to_vec(), vec![call]].concat());
        let reply = machine.reply(&run("q")).unwrap();
        assert_eq!(reply.error.as_ref().unwrap().message, expected, "{bound:?} {sizes:?}");
    }
}

#[test]
fn an_error_about_money_names_no_history_where_there_is_none() {
    // The prompt of 55 tokens costs 55, and what is left beside it buys no token of the reply.
    let highest = Price { input: 1_000_000, output: 1_000_000_000, ..Price::default() };
    for bound in [Some(1000), None] {
        let mut plan = with(actor(), |limits| {
            limits.cost_max_nano_usd = Some(500);
            limits.history_tokens_max = bound;
        });
        plan.prices.insert(name("small"), ModelPrice { highest, ..ModelPrice::default() });
        let machine = played(&plan, &[submit("q")]);
        let reply = machine.reply(&run("q")).unwrap();
        let message = &reply.error.as_ref().unwrap().message;
        assert!(message.contains("of the money") && !message.contains("earlier"), "{message}");
    }
}
