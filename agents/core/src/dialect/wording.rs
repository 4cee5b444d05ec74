//! Every sentence of ours that a model reads, in one place.

use wire::Plan;
use wire::plan::Dialect;

use super::RESPOND_TO_USER;
use super::form::{FINAL_ANSWER, Form};

/// Asks the thinker for its first thought.
pub(super) const THINK_FIRST: &str = "What comes first: a call that finds out or does something, or \
the answer itself? Say it in one or two sentences.";

/// Asks the thinker for a later thought.
pub(super) const THINK_NEXT: &str = "Is anything still missing? Say in one or two sentences which \
call comes next, or, if nothing is missing, what the answer is.";

/// Follows a text after which the model wants to go on.
pub(super) const GO_ON: &str = "Go on.";

/// Follows a thought that the token limit cut.
pub(super) const THOUGHT_CUT: &str = "(The thought ends here because it reached the token limit.)";

/// Asks the actor model for a call after a thought.
pub(super) const ACT: &str = "Now make the call, nothing else.";

/// Asks a model without a thinker for its first call.
pub(super) const ACT_FIRST: &str = "Decide what comes first: a call that finds out or does \
something, or the answer itself. Reply with one JSON object, nothing else.";

/// Asks a model without a thinker for a later call.
pub(super) const ACT_NEXT: &str = "Decide whether anything is still missing, and make the next call \
or give the answer. Reply with one JSON object, nothing else.";

/// Follows feedback where the reply has to be a JSON object.
pub(super) const ACT_AGAIN: &str = "Reply again with one JSON object that is free of these faults, \
nothing else.";

/// Follows feedback where the reply is free text.
pub(super) const THINK_AGAIN: &str = "Say again what comes next, in one or two sentences.";

const ANSWER_DESCRIPTION: &str = "Gives the user the final answer and ends the work.";

pub(super) const NO_GUESSING: &str = "- Never guess what a call would return; rely only on results that you \
were shown.";

pub(super) const UNKNOWN_RESULT: &str = "- A call whose result has the status unknown may have taken effect. \
Never make it again: check by other means, or say so in the answer.";

/// States the user's request.
pub(super) fn request(request: &str) -> String {
    format!("The user request is: {request}")
}

/// States the result of a call, counted in the run from 1.
pub(super) fn result(number: usize, name: &str, result: &str) -> String {
    format!("The result of call {number} ({name}) is: {result}")
}

/// States a call that was made.
pub(super) fn call(number: usize, name: &str, arguments: &str) -> String {
    format!("call {number}: {name} {arguments}")
}

/// Hands a thought to a model that calls tools by the provider's own means.
pub(super) fn plan(thought: &str) -> String {
    format!(
        "Plan for this step: {thought}\n\nCarry it out now. If it asks for calls, make them; if it \
         gives the answer, write that answer to the user and call nothing."
    )
}

/// Returns the thinker's system text.
pub(super) fn thinker_system(plan: &Plan) -> String {
    let mut lines = vec!["You work in steps. A step can make these calls:".to_owned()];
    for offer in &plan.tools {
        lines.push(format!("- {}: {}", offer.spec.name, offer.spec.description.trim()));
    }
    lines.push(format!("- {RESPOND_TO_USER}: {ANSWER_DESCRIPTION}"));
    lines.push("\nRules:".to_owned());
    lines.push(
        "- You only say what comes next. Someone else makes the call from your words, so name it \
         and give every value that it needs."
            .to_owned(),
    );
    lines.push(
        match plan.dialect {
            Dialect::Native => {
                "- Plan one call for a step, or several that do not need each other's results."
            }
            Dialect::Schema | Dialect::Json | Dialect::React => {
                "- Plan exactly one call for a step."
            }
        }
        .to_owned(),
    );
    lines.push(NO_GUESSING.to_owned());
    lines.push(UNKNOWN_RESULT.to_owned());
    lines.push(format!(
        "- When nothing is missing, choose {RESPOND_TO_USER} and give the whole answer."
    ));
    after_instructions(plan, &lines)
}

/// Returns the system text of an actor model that replies with one JSON object.
///
/// The arguments are described here as well, since a server that constrains the reply by a
/// grammar does not show the schema to the model.
pub(super) fn schema_system(plan: &Plan) -> String {
    let mut lines =
        vec!["You work in steps. Each step makes exactly one of these calls:".to_owned()];
    for offer in &plan.tools {
        lines.push(format!("- {}: {}", offer.spec.name, offer.spec.description.trim()));
        lines.push(format!("  arguments: {}", offer.spec.parameters));
    }
    lines.push(format!("- {RESPOND_TO_USER}: {ANSWER_DESCRIPTION}"));
    lines.push(format!("  arguments: {}", super::union::answer_parameters()));
    lines.push("\nA call is one JSON object of this form:".to_owned());
    lines.push(match plan.thinker {
        Some(_) => r#"{"tool": "<name>", "arguments": {..}}"#.to_owned(),
        None => r#"{"thought": "<what comes next and why>", "tool": "<name>", "arguments": {..}}"#
            .to_owned(),
    });
    lines.push("\nRules:".to_owned());
    lines.push(NO_GUESSING.to_owned());
    lines.push(UNKNOWN_RESULT.to_owned());
    lines.push(format!(
        "- When nothing is missing, or no other call fits, call {RESPOND_TO_USER} with the whole \
         answer."
    ));
    after_instructions(plan, &lines)
}

pub(super) fn after_instructions(plan: &Plan, lines: &[String]) -> String {
    let instructions = plan.instructions.trim_end();
    let gap = if instructions.is_empty() { "" } else { "\n\n" };
    format!("{instructions}{gap}{}", lines.join("\n"))
}

/// Hands a thought to a model that was shown the form of its replies.
pub(super) fn carry_out(thought: &str) -> String {
    format!("Plan for this step: {thought}\n\nCarry it out now, in the form that you were shown.")
}

/// Returns the system text of an actor model that is asked for one JSON object by words alone.
pub(super) fn json_system(form: &Form<'_>, plan: &Plan) -> String {
    let Form { thought, action, function, arguments, .. } = form;
    let [ending, ..] = form.endings;
    let mut lines =
        vec!["You work in steps. Each step calls exactly one of these functions:".to_owned()];
    offers(plan, "arguments", &mut lines);
    lines.push(format!("- {}: {ANSWER_DESCRIPTION}", ending.name));
    lines.push(format!("  arguments: {}", super::union::text_parameter(ending.answer)));
    lines.push("\nEvery reply is one JSON object of this form, with nothing round it:".to_owned());
    lines.push(format!(
        "{{\"{thought}\": \"<what comes next and why>\", \"{action}\": {{\"{function}\": \"<name>\", \
         \"{arguments}\": {{..}}}}}}"
    ));
    lines.push("\nRules:".to_owned());
    lines.push(format!(
        "- After each reply you are sent one JSON object: of type {} with the result, or of type {} \
         with what was wrong. You never write such an object yourself.",
        form.success, form.error
    ));
    lines.push("- If something was wrong, mend it in the next reply.".to_owned());
    lines.push(NO_GUESSING.to_owned());
    lines.push(UNKNOWN_RESULT.to_owned());
    lines.push(format!(
        "- When nothing is missing, or no other function fits, call {} with the whole answer.",
        ending.name
    ));
    after_instructions(plan, &lines)
}

/// Returns the system text of an actor model that writes thought and action as text.
pub(super) fn react_system(plan: &Plan) -> String {
    let mut lines =
        vec!["You answer a question in steps. A step may use one of these tools:".to_owned()];
    offers(plan, "input", &mut lines);
    lines
        .push("\nA step that uses a tool is written like this and ends with the fence:".to_owned());
    lines.push("Thought: <what comes next and why>".to_owned());
    lines.push("Action:".to_owned());
    lines.push("```json\n{\"action\": \"<tool>\", \"action_input\": {..}}\n```".to_owned());
    lines.push("\nYou are then sent its result:".to_owned());
    lines.push("Observation: <result>".to_owned());
    lines.push("\nThe last step is written like this:".to_owned());
    lines.push("Thought: <why nothing is missing>".to_owned());
    lines.push(format!("{FINAL_ANSWER}: <the whole answer>"));
    lines.push("\nRules:".to_owned());
    lines.push("- A reply is one step: one action, or the final answer, never both.".to_owned());
    lines.push("- You never write an observation yourself.".to_owned());
    lines.push(NO_GUESSING.to_owned());
    lines.push(UNKNOWN_RESULT.to_owned());
    lines.push("- If no tool fits, give the final answer at once.".to_owned());
    after_instructions(plan, &lines)
}

fn offers(plan: &Plan, arguments: &str, lines: &mut Vec<String>) {
    for offer in &plan.tools {
        lines.push(format!("- {}: {}", offer.spec.name, offer.spec.description.trim()));
        lines.push(format!("  {arguments}: {}", offer.spec.parameters));
    }
}

/// States what a model of dialect `react` is asked.
pub(super) fn question(request: &str) -> String {
    format!("Question: {request}")
}

/// States what came of an action.
pub(super) fn observation(result: &str) -> String {
    format!("Observation: {result}")
}
