//! Our own texts, as they stand in the folder `prompts`.

use wire::plan::{Dialect, Text};

use super::Voice;

const THINKER: Voice = Voice::Thinker;
const NATIVE: Voice = Voice::Actor(Dialect::Native);
const SCHEMA: Voice = Voice::Actor(Dialect::Schema);
const JSON: Voice = Voice::Actor(Dialect::Json);
const REACT: Voice = Voice::Actor(Dialect::React);
const PLANNER: Voice = Voice::Planner;
const TASK: Voice = Voice::Task;
const ANSWER: Voice = Voice::Answer;

/// What every voice says alike.
static SHARED: &[(Text, &str)] = &[
    (Text::Fault, include_str!("../prompts/fault.jinja")),
    (Text::GoOn, include_str!("../prompts/go_on.jinja")),
];

static SOURCES: &[(Voice, Text, &str)] = &[
    (THINKER, Text::System, include_str!("../prompts/thinker/system.jinja")),
    (THINKER, Text::Request, include_str!("../prompts/thinker/request.jinja")),
    (THINKER, Text::Call, include_str!("../prompts/thinker/call.jinja")),
    (THINKER, Text::Result, include_str!("../prompts/thinker/result.jinja")),
    (THINKER, Text::Feedback, include_str!("../prompts/thinker/feedback.jinja")),
    (THINKER, Text::Ask, include_str!("../prompts/thinker/ask.jinja")),
    (THINKER, Text::Cut, include_str!("../prompts/thinker/cut.jinja")),
    (NATIVE, Text::System, include_str!("../prompts/native/system.jinja")),
    (NATIVE, Text::Request, include_str!("../prompts/native/request.jinja")),
    (NATIVE, Text::Result, include_str!("../prompts/native/result.jinja")),
    (NATIVE, Text::Feedback, include_str!("../prompts/native/feedback.jinja")),
    (NATIVE, Text::Ask, include_str!("../prompts/native/ask.jinja")),
    (SCHEMA, Text::System, include_str!("../prompts/schema/system.jinja")),
    (SCHEMA, Text::Request, include_str!("../prompts/schema/request.jinja")),
    (SCHEMA, Text::Call, include_str!("../prompts/schema/call.jinja")),
    (SCHEMA, Text::Result, include_str!("../prompts/schema/result.jinja")),
    (SCHEMA, Text::Feedback, include_str!("../prompts/schema/feedback.jinja")),
    (SCHEMA, Text::Thought, include_str!("../prompts/schema/thought.jinja")),
    (SCHEMA, Text::Ask, include_str!("../prompts/schema/ask.jinja")),
    (JSON, Text::System, include_str!("../prompts/json/system.jinja")),
    (JSON, Text::Request, include_str!("../prompts/json/request.jinja")),
    (JSON, Text::Call, include_str!("../prompts/json/call.jinja")),
    (JSON, Text::Result, include_str!("../prompts/json/result.jinja")),
    (JSON, Text::Feedback, include_str!("../prompts/json/feedback.jinja")),
    (JSON, Text::Ask, include_str!("../prompts/json/ask.jinja")),
    (REACT, Text::System, include_str!("../prompts/react/system.jinja")),
    (REACT, Text::Request, include_str!("../prompts/react/request.jinja")),
    (REACT, Text::Call, include_str!("../prompts/react/call.jinja")),
    (REACT, Text::Result, include_str!("../prompts/react/result.jinja")),
    (REACT, Text::Feedback, include_str!("../prompts/react/feedback.jinja")),
    (REACT, Text::Ask, include_str!("../prompts/react/ask.jinja")),
    (PLANNER, Text::System, include_str!("../prompts/planner/system.jinja")),
    (PLANNER, Text::Request, include_str!("../prompts/planner/request.jinja")),
    (PLANNER, Text::Feedback, include_str!("../prompts/planner/feedback.jinja")),
    (TASK, Text::System, include_str!("../prompts/task/system.jinja")),
    (TASK, Text::Request, include_str!("../prompts/task/request.jinja")),
    (TASK, Text::Call, include_str!("../prompts/task/call.jinja")),
    (TASK, Text::Result, include_str!("../prompts/task/result.jinja")),
    (TASK, Text::Feedback, include_str!("../prompts/task/feedback.jinja")),
    (ANSWER, Text::System, include_str!("../prompts/answer/system.jinja")),
    (ANSWER, Text::Request, include_str!("../prompts/answer/request.jinja")),
    (ANSWER, Text::Call, include_str!("../prompts/task/call.jinja")),
    (ANSWER, Text::Result, include_str!("../prompts/task/result.jinja")),
    (ANSWER, Text::Feedback, include_str!("../prompts/answer/feedback.jinja")),
];

/// Returns our own template; where there is none, the text makes no message.
///
/// The newline at the end of each file belongs to the file and not to the text.
pub(super) fn source(voice: Voice, text: Text) -> &'static str {
    let own = SOURCES.iter().find(|(speaks, what, _)| (*speaks, *what) == (voice, text));
    let shared = || SHARED.iter().find(|(what, _)| *what == text).map(|(_, source)| *source);
    let source = own.map(|(_, _, source)| *source).or_else(shared).unwrap_or_default();
    source.strip_suffix('\n').unwrap_or(source)
}
