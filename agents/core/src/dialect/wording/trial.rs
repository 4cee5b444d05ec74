//! Tries the texts of a plan on a run in which everything happens that a run may come to.

use std::sync::Arc;

use serde_json::{Value, json};
use wire::entry::{Feedback, ReadCall, Reason};
use wire::plan::{Audience, Text};
use wire::{ModelRole, Plan, Planned, Reading};

use super::super::{Act, Called, RESPOND_TO_USER, Step, Transcript, prompt};
use super::fact::Scene;
use super::{TextFault, Wording};
use crate::validate::Catalogue;

/// Lists what is wrong with the texts of a plan, each fault once.
pub(in super::super) fn faults(plan: &Arc<Plan>) -> Vec<TextFault> {
    let catalogue = Catalogue::new(plan.clone());
    let mut faults = catalogue.wording().faults();
    let steps = if plan.planner.is_some() { planned_run(plan) } else { run(plan) };
    let begins = plan.thinking_model().map(|_| ModelRole::Thinker);
    for role in begins.into_iter().chain([ModelRole::Actor]) {
        let mut turns = turns(role, &steps);
        if role == ModelRole::Thinker {
            let acts = vec![unusable(plan, Reason::Empty)];
            turns.push(vec![Step { acts, ..Step::default() }]);
        }
        for turn in turns {
            let request = "What is the weather like?";
            let transcript = Transcript { plan, history: &[], request, steps: &turn };
            faults.extend(prompt(role, &catalogue, &transcript).faults);
        }
    }
    for audience in Audience::ALL.into_iter().filter(|audience| audience.is_of(plan)) {
        faults.extend(heard(plan, catalogue.wording(), audience));
    }
    let mut told: Vec<TextFault> = Vec::new();
    for fault in faults {
        // What goes wrong first is enough; the rest of a text often follows from it.
        if !told.iter().any(|known| (known.audience, known.text) == (fault.audience, fault.text)) {
            told.push(fault);
        }
    }
    told
}

/// Returns the run as it is before each turn of a role.
pub(in super::super) fn turns(role: ModelRole, steps: &[Step]) -> Vec<Vec<Step>> {
    let mut turns = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let replies = match role {
            ModelRole::Thinker => 0,
            ModelRole::Actor => step.acts.len(),
        };
        for acts in 0..=replies {
            let mut seen: Vec<Step> = steps.iter().take(index + 1).cloned().collect();
            if let Some(current) = seen.last_mut() {
                current.acts.truncate(acts);
                if role == ModelRole::Thinker {
                    current.thought = None;
                    current.planned = None;
                }
            }
            turns.push(seen);
        }
    }
    turns
}

/// Tries what is said of replies when they are read.
fn heard(plan: &Plan, wording: &Wording, audience: Audience) -> Vec<TextFault> {
    let mut speaker = wording.hearing(audience);
    let planned = planned(plan.tools.first().map_or("look", |tool| tool.spec.name.as_str()));
    let planned = matches!(audience, Audience::Task | Audience::Answer).then_some(&planned);
    let scene = Scene { planned, thought: "Look first.", ..Scene::default() };
    if audience.is_told(Text::Cut) {
        speaker.render(Text::Cut, &scene);
    }
    for reason in Reason::ALL {
        let concerns = match reason {
            Reason::NoCall | Reason::OtherTool => audience == Audience::Task,
            Reason::NoMoreCalls => audience == Audience::Answer,
            Reason::NotOfForm
            | Reason::UnreadableCall
            | Reason::NotAlone
            | Reason::Cut
            | Reason::CutInCall
            | Reason::Empty
            | Reason::UnknownTool
            | Reason::InvalidArguments => true,
        };
        if !concerns {
            continue;
        }
        let feedback = fault(plan, reason);
        let reading = match reason {
            Reason::NotAlone
            | Reason::UnknownTool
            | Reason::OtherTool
            | Reason::NoMoreCalls
            | Reason::InvalidArguments
                if audience != Audience::Planner =>
            {
                let call = called("look", json!({"days": 2}), "", Some(feedback)).read;
                Reading::Calls { text: String::new(), calls: vec![call] }
            }
            Reason::NotOfForm
            | Reason::UnreadableCall
            | Reason::NoCall
            | Reason::Cut
            | Reason::CutInCall
            | Reason::Empty
            | Reason::NotAlone
            | Reason::UnknownTool
            | Reason::OtherTool
            | Reason::NoMoreCalls
            | Reason::InvalidArguments => Reading::Fault { feedback, raw: "hm".to_owned() },
        };
        speaker.worded(reading, &scene);
    }
    speaker.faults
}

fn planned(tool: &str) -> Planned {
    Planned {
        tool: tool.to_owned(),
        task: "Find the weather.".to_owned(),
        thoughts: "It is not known.".to_owned(),
        summary: String::new(),
    }
}

fn fault(plan: &Plan, reason: Reason) -> Feedback {
    let parameters = plan.tools.first().map(|tool| tool.spec.parameters.clone());
    let schema = parameters.unwrap_or_else(|| json!({"type": "object"}));
    Feedback {
        code: reason.code(),
        reason: Some(reason),
        message: "this cannot be used".to_owned(),
        faults: vec!["something is missing".to_owned()],
        schema: matches!(reason, Reason::NotOfForm | Reason::InvalidArguments).then_some(schema),
        valid_names: plan.tools.iter().map(|tool| tool.spec.name.to_string()).take(1).collect(),
    }
}

fn unusable(plan: &Plan, reason: Reason) -> Act {
    Act::Feedback { raw: "hm".to_owned(), feedback: fault(plan, reason) }
}

fn made(text: &str, calls: Vec<Called>) -> Act {
    Act::Calls { text: text.to_owned(), calls, reasoning: None }
}

/// The calls that a run may make, with what may come of them.
struct Made {
    sound: Called,
    as_json: Vec<Called>,
    failed: Called,
    invalid: Called,
    unknown: Called,
}

impl Made {
    fn new(plan: &Plan) -> Self {
        let name = plan.tools.first().map_or("look", |tool| tool.spec.name.as_str());
        let call = |result: &str| called(name, json!({"city": "Jakarta", "days": 2}), result, None);
        let (invalid, unknown) =
            (fault(plan, Reason::InvalidArguments), fault(plan, Reason::UnknownTool));
        Self {
            sound: call("It is 24.5 degrees."),
            as_json: vec![call("{\"temperature\": 24.5}"), call("[1, 2]")],
            failed: call(r#"{"error":{"code":"E3002","message":"the tool failed"}}"#),
            invalid: called(name, json!({}), "", Some(invalid)),
            unknown: called("fly", Value::Null, "", Some(unknown)),
        }
    }
}

fn run(plan: &Plan) -> Vec<Step> {
    let thought = |text: &str| plan.thinker.as_ref().map(|_| text.to_owned());
    let step = |said: &str, acts: Vec<Act>| Step { thought: thought(said), planned: None, acts };
    let calls = Made::new(plan);
    vec![
        step("Look first.", vec![made("", vec![calls.sound])]),
        step(
            "",
            vec![
                unusable(plan, Reason::NotOfForm),
                unusable(plan, Reason::Empty),
                made("", vec![calls.invalid]),
                made("Again.", vec![calls.unknown]),
                made("And again.", calls.as_json),
            ],
        ),
        step("Once more.", vec![made("", vec![calls.failed])]),
        step("Wait.", vec![Act::Continued { text: "I am not done.".to_owned() }]),
        step("That is it.", vec![Act::Answered { text: "It is 24.5 degrees.".into() }]),
        step("Answer.", vec![Act::Steered { text: "And tomorrow?".to_owned() }]),
    ]
}

fn planned_run(plan: &Plan) -> Vec<Step> {
    let name = plan.tools.first().map_or(RESPOND_TO_USER, |tool| tool.spec.name.as_str());
    let step =
        |tool: &str, acts: Vec<Act>| Step { planned: Some(planned(tool)), acts, ..Step::default() };
    let calls = Made::new(plan);
    let not_made = [calls.invalid, calls.unknown];
    let again = || vec![unusable(plan, Reason::NotOfForm), made("So.", not_made.to_vec())];
    vec![
        step(name, vec![made("", vec![calls.sound])]),
        step(name, vec![made("", calls.as_json)]),
        step(name, vec![made("", vec![calls.failed])]),
        step(name, again()),
        step(RESPOND_TO_USER, again()),
    ]
}

fn called(name: &str, arguments: Value, result: &str, fault: Option<Feedback>) -> Called {
    let result = fault.as_ref().map_or_else(|| result.to_owned(), Feedback::to_text);
    Called {
        read: ReadCall {
            id: String::new(),
            name: name.to_owned(),
            raw: arguments.to_string(),
            arguments: arguments.into(),
            written: String::new(),
            fault,
        },
        key: None,
        result: Some(result),
    }
}
