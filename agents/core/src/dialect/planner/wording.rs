//! Every sentence of ours that the models of an agent with a planner read, in one place.

use wire::Plan;
use wire::plan::Offer;

use super::super::{Act, RESPOND_TO_USER, Step, Transcript};
use super::{SUMMARY, TASK, THOUGHTS, TOOL, results};

const NO_GUESSING: &str = "- Never guess what a call would return; rely only on results that you \
were shown.";

const UNKNOWN_RESULT: &str = "- A call whose result has the status unknown may have taken effect. \
Never make it again: check by other means, or say so in the answer.";

/// Asks the planner for its next step.
const PLAN: &str = "What comes next? Reply with one JSON object, nothing else.";

/// Follows feedback to the planner.
pub(super) const PLAN_AGAIN: &str = "Reply again with one JSON object that is free of these \
faults, nothing else.";

/// Follows feedback to the model that makes a call.
pub(super) const CALL_AGAIN: &str = "Make the call again, free of these faults, and write nothing \
else.";

/// Follows feedback to the model that writes the answer.
pub(super) const ANSWER_AGAIN: &str = "Write the answer again, as plain text.";

/// Stands in place of the earlier steps while there are none.
const NO_STEPS: &str = "No step has been taken yet.";

const VALUES_FROM_TASK: &str = "- Take every value from the task or from the earlier results; \
never make one up.";

/// Returns the planner's system text.
pub(super) fn planner_system(plan: &Plan) -> String {
    let mut lines = vec![
        "You plan the work on a request, one step at a time. For each step you select one tool \
         and say in words what it is to do:"
            .to_owned(),
    ];
    for offer in &plan.tools {
        lines.push(format!("- {}: {}", offer.spec.name, offer.spec.description.trim()));
    }
    lines.push(format!("- {RESPOND_TO_USER}: Writes the final answer and ends the work."));
    lines.push("\nEvery reply is one JSON object of this form, with nothing round it:".to_owned());
    lines.push(format!(
        "{{\"{SUMMARY}\": \"<what is known that matters>\", \"{THOUGHTS}\": \"<what is missing and \
         what follows>\", \"{TASK}\": \"<what the tool is to do>\", \"{TOOL}\": \"<name>\"}}"
    ));
    lines.push("\nRules:".to_owned());
    lines.push(
        "- Someone else carries the task out from your words, so give every name and every number \
         that it needs."
            .to_owned(),
    );
    lines.push("- A task is one thing that one tool can do.".to_owned());
    lines.push(NO_GUESSING.to_owned());
    lines.push(UNKNOWN_RESULT.to_owned());
    lines.push(format!(
        "- When nothing is missing, or no other tool fits, select {RESPOND_TO_USER} and say what \
         the answer has to tell."
    ));
    after_instructions(plan, &lines)
}

/// States the request and the steps so far, and asks the planner for the next one.
pub(super) fn planner_request(transcript: &Transcript<'_>) -> String {
    format!("{}\n\n{}\n\n{PLAN}", request(transcript.request), so_far(transcript))
}

/// Returns the system text of a model that makes a call in a form of ours.
pub(super) fn call_system(plan: &Plan, offer: &Offer, form: &str) -> String {
    let lines = [
        "You are given a task and carry it out by one call of this tool:".to_owned(),
        format!("- {}: {}", offer.spec.name, offer.spec.description.trim()),
        format!("  arguments: {}", offer.spec.parameters),
        "\nThe call is written like this, with nothing after it:".to_owned(),
        form.to_owned(),
        "\nRules:".to_owned(),
        VALUES_FROM_TASK.to_owned(),
    ];
    after_instructions(plan, &lines)
}

/// States a task and asks for the call that carries it out.
pub(super) fn call_request(tool: &str, task: &str, steps: &[Step]) -> String {
    let ask = format!("Carry it out now by calling {tool}, and write nothing else.");
    let mut parts = vec![format!("The task is: {task}"), ask];
    let blocks: Vec<String> = steps.iter().filter_map(told).collect();
    if !blocks.is_empty() {
        parts.insert(0, scratchpad(&blocks));
    }
    parts.join("\n\n")
}

/// Returns the system text of the model that writes the answer.
pub(super) fn answer_system(plan: &Plan) -> String {
    let lines = [
        "The work on the user's request is done. You write the answer to the user.".to_owned(),
        "\nRules:".to_owned(),
        "- Write the answer as plain text, and nothing but the answer.".to_owned(),
        "- Say what the results say and nothing that they do not; if something could not be found \
         or done, say so."
            .to_owned(),
    ];
    after_instructions(plan, &lines)
}

/// States the request, the steps and what the answer has to tell, and asks for the answer.
pub(super) fn answer_request(transcript: &Transcript<'_>, task: &str) -> String {
    let mut parts = vec![request(transcript.request), so_far(transcript)];
    if !task.is_empty() {
        parts.push(format!("The task is: {task}"));
    }
    parts.push("Write the answer to the user now.".to_owned());
    parts.join("\n\n")
}

/// States the user's request.
fn request(request: &str) -> String {
    format!("The user request is: {request}")
}

fn after_instructions(plan: &Plan, lines: &[String]) -> String {
    let instructions = plan.instructions.trim_end();
    let gap = if instructions.is_empty() { "" } else { "\n\n" };
    format!("{instructions}{gap}{}", lines.join("\n"))
}

/// Tells the steps that are over, and what the user said meanwhile.
fn so_far(transcript: &Transcript<'_>) -> String {
    let (finished, current) = transcript.split();
    let mut blocks = Vec::new();
    for step in transcript.steps {
        let steered = step.acts.iter().filter_map(Act::steered);
        blocks.extend(steered.map(|text| format!("The user adds: {text}")));
        if current.is_none_or(|current| !std::ptr::eq(current, step)) {
            blocks.extend(told(step));
        }
    }
    if finished.iter().any(|step| told(step).is_some()) {
        return scratchpad(&blocks);
    }
    blocks.push(NO_STEPS.to_owned());
    blocks.join("\n\n")
}

/// Tells a step as its task and what came of it, if it came to anything.
fn told(step: &Step) -> Option<String> {
    let task = step.planned.as_ref().map(|planned| planned.task.as_str()).unwrap_or_default();
    let is_settled = step.acts.iter().any(|act| act.settled().is_some());
    let answer = step.acts.iter().find_map(|act| match act {
        Act::Answered { text } => Some(text),
        Act::Calls { .. } | Act::Continued { .. } | Act::Steered { .. } | Act::Feedback { .. } => {
            None
        }
    });
    match answer {
        Some(answer) => Some(format!("Task: {task}\nAnswer to the user: {answer}")),
        None => is_settled.then(|| format!("Task: {task}\nResult: {}", results(step))),
    }
}

fn scratchpad(blocks: &[String]) -> String {
    format!("The steps so far:\n\n{}", blocks.join("\n\n"))
}
