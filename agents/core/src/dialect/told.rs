//! A prompt under construction, and the run as a conversation that is only ever added to.

use std::borrow::Cow;
use std::sync::Arc;

use wire::Message;
use wire::chat::Head;
use wire::plan::{Audience, Text};

use super::wording::Speaker;
use super::wording::fact::{Fact, Scene};
use super::{Act, Called, Kept, Prompt, Transcript, Whole};
use crate::validate::Catalogue;

/// A prompt under construction.
pub(super) struct Told<'a> {
    audience: Audience,
    transcript: &'a Transcript<'a>,
    speaker: Speaker<'a>,
    /// What an earlier prompt says to keep.
    before: &'a [Arc<Message>],
    /// How many messages of those begin the prompt and are not told again.
    known: usize,
    /// The messages after those.
    messages: Vec<Arc<Message>>,
    /// Calls of the run so far, which are counted from 1.
    calls: usize,
    /// The first message that later prompts may have otherwise.
    unsteady: Option<usize>,
    /// What was told as a whole before that.
    whole: Whole,
}

/// Messages that most prompts have more than the one before: a reply, its answers, the question.
const MESSAGES_MORE: usize = 8;

/// Who says a message that is nothing but its text.
#[derive(Clone, Copy, Debug)]
enum Side {
    System,
    User,
    Assistant,
}

impl Side {
    fn message(self, content: String) -> Message {
        match self {
            Self::System => Message::System { content },
            Self::User => Message::User { content },
            Self::Assistant => Message::Assistant { content, calls: Vec::new(), reasoning: None },
        }
    }

    /// Tells whether a message is of this side and says nothing but a text.
    fn says(self, message: &Message, text: &str) -> bool {
        let is_of_side = match (self, message) {
            (Self::System, Message::System { .. }) | (Self::User, Message::User { .. }) => true,
            (Self::Assistant, Message::Assistant { calls, .. }) => calls.is_empty(),
            (Self::System | Self::User | Self::Assistant, _) => false,
        };
        is_of_side && message.content() == text
    }
}

/// Where an answer to a call or a reply stands.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// It answers the first call of its reply.
    pub(super) first: bool,
    /// Nothing stands between it and the question.
    pub(super) last: bool,
    /// The model is asked to reply again.
    pub(super) again: bool,
}

/// Tells a run to an actor model as it was led: each reply in its form, each with its answer.
pub(super) fn prompt(
    catalogue: &Catalogue,
    transcript: &Transcript<'_>,
    head: Arc<Head>,
) -> Prompt {
    let mut told = Told::begin(Audience::Actor, catalogue, transcript);
    let acts: Vec<(&str, &Act)> = transcript.acts().collect();
    told.request(acts.is_empty());
    for (index, (thought, act)) in acts.iter().enumerate() {
        let last = index + 1 == acts.len();
        match act {
            Act::Feedback { .. } => told.unusable(act, Place { first: true, last, again: true }),
            Act::Continued { text } => told.continued("", text),
            Act::Answered { text } => told.said("", text),
            Act::Steered { text } => told.steered(text, last),
            Act::Calls { text, calls, .. } => {
                for (place, call) in places(calls, Place { last, again: true, ..Place::default() })
                {
                    let scene = Scene { thought, text, call: Some(call), ..told.scene() };
                    let scene = Scene { number: told.calls + 1, first: place.first, ..scene };
                    let said = told.render(Text::Call, &scene);
                    told.assistant(said);
                    let answer = told.answer(call, place);
                    told.user(answer);
                }
            }
        }
    }
    told.ask(head)
}

/// Gives each call of a reply its place: only the last one may stand before the question.
pub(super) fn places(calls: &[Called], reply: Place) -> impl Iterator<Item = (Place, &Called)> {
    let count = calls.len();
    calls.iter().enumerate().map(move |(index, call)| {
        let is_last = index + 1 == count;
        let place = Place { first: index == 0, last: reply.last && is_last, ..reply };
        (place, call)
    })
}

impl<'a> Told<'a> {
    /// Begins with what is said before everything else and the earlier runs.
    pub(super) fn begin(
        audience: Audience,
        catalogue: &'a Catalogue,
        transcript: &'a Transcript<'a>,
    ) -> Self {
        Self::begin_after(audience, catalogue, transcript, &[])
    }

    /// Begins as [`Self::begin`] does, with the messages of `before` where they say the same.
    pub(super) fn begin_after(
        audience: Audience,
        catalogue: &'a Catalogue,
        transcript: &'a Transcript<'a>,
        before: &'a [Arc<Message>],
    ) -> Self {
        let speaker = catalogue.wording().of(audience);
        let mut told = Self {
            audience,
            transcript,
            speaker,
            before,
            known: 0,
            messages: Vec::with_capacity(MESSAGES_MORE),
            calls: 0,
            unsteady: None,
            whole: Whole::default(),
        };
        let scene = told.scene();
        for (text, side) in [(Text::System, Side::System), (Text::Opening, Side::User)] {
            let said = match told.speaker.fixed(text) {
                Some(fixed) => Cow::Borrowed(fixed),
                None => Cow::Owned(told.render(text, &scene)),
            };
            if !said.is_empty() {
                told.tell(side, said);
            }
        }
        match audience {
            Audience::Thinker | Audience::Actor => told.history(),
            Audience::Planner => {
                told.history();
                // The request is told anew with every step that is over.
                let changes = |text| told.speaker.uses(text, Fact::Steps);
                let is_steady = ![Text::System, Text::Opening].into_iter().any(changes);
                told.unsteady = Some(if is_steady { told.len() } else { 0 });
            }
            // Later prompts are of other tasks, and may be of other tools.
            Audience::Task => told.unsteady = Some(0),
            Audience::Answer => {
                told.history();
                told.unsteady = Some(0);
            }
        }
        told
    }

    /// Counts the messages so far.
    const fn len(&self) -> usize {
        self.known + self.messages.len()
    }

    /// Tells the earlier runs that a model is shown.
    fn history(&mut self) {
        for exchange in self.transcript.shown() {
            self.tell(Side::User, Cow::Borrowed(&exchange.user));
            self.tell(Side::Assistant, Cow::Borrowed(exchange.answer.as_str()));
        }
    }

    /// Adds a message, which is that of the prompt before if it says the same in the same place.
    fn tell(&mut self, side: Side, said: Cow<'_, str>) {
        let before = self.before.get(self.len());
        let message = match before.filter(|before| side.says(before, &said)) {
            Some(before) => before.clone(),
            None => Arc::new(side.message(said.into_owned())),
        };
        self.messages.push(message);
    }

    /// Makes a scene that is about nothing yet.
    pub(super) fn scene(&self) -> Scene<'a> {
        let Transcript { plan, request, .. } = *self.transcript;
        let planned = self.transcript.planned();
        let (steps, in_work) = self.transcript.split();
        let acting = plan.acting_model(planned).1;
        let (planned, steps, in_work, dialect) = match self.audience {
            Audience::Thinker | Audience::Actor => (None, &[][..], None, None),
            Audience::Planner => (None, steps, in_work, None),
            Audience::Task | Audience::Answer => (planned, steps, in_work, Some(acting)),
        };
        Scene { request, dialect, planned, steps, in_work, ..Scene::default() }
    }

    /// Says what the user wants; `last` if no message follows but the question.
    pub(super) fn request(&mut self, last: bool) {
        let scene = Scene { first: true, last, ..self.scene() };
        let request = self.render(Text::Request, &scene);
        self.user(request);
    }

    /// Says what the user wants besides; `last` if no message follows but the question.
    pub(super) fn steered(&mut self, text: &str, last: bool) {
        let scene = Scene { request: text, last, ..self.scene() };
        let request = self.render(Text::Request, &scene);
        self.user(request);
    }

    /// Renders a text of the message that comes next.
    pub(super) fn render(&mut self, text: Text, scene: &Scene<'_>) -> String {
        if scene.last && self.speaker.uses(text, Fact::Last) {
            let at = self.len();
            self.unsteady.get_or_insert(at);
        }
        self.speaker.render(text, scene)
    }

    /// Writes a call of the step in work as the model wrote it itself.
    pub(super) fn written(&mut self, text: &str, call: &Called) -> String {
        let number = self.next_call();
        let scene = Scene { text, call: Some(call), number, first: true, ..self.scene() };
        match self.audience {
            Audience::Thinker | Audience::Actor | Audience::Planner => {
                self.speaker.object(&scene).to_string()
            }
            Audience::Task | Audience::Answer => self.render(Text::Call, &scene),
        }
    }

    /// Counts a call and writes the answer to it.
    pub(super) fn answer(&mut self, call: &Called, Place { first, last, again }: Place) -> String {
        self.calls += 1;
        let number = self.calls;
        let feedback = call.read.fault.as_ref();
        let text = if feedback.is_some() { Text::Feedback } else { Text::Result };
        let scene =
            Scene { call: Some(call), number, feedback, first, last, again, ..self.scene() };
        self.render(text, &scene)
    }

    /// Shows a reply that cannot be used, and what was wrong with it.
    pub(super) fn unusable(&mut self, act: &Act, Place { first, last, again }: Place) {
        let Act::Feedback { raw, feedback } = act else { return };
        self.assistant(raw.clone());
        let feedback = Some(feedback);
        let scene = Scene { feedback, raw, first, last, again, ..self.scene() };
        let answer = self.render(Text::Feedback, &scene);
        self.user(answer);
    }

    /// Adds a message of the user's side, unless it is empty.
    pub(super) fn user(&mut self, content: String) {
        if !content.is_empty() {
            self.push(Message::User { content });
        }
    }

    /// Adds what the model said, unless it said nothing.
    pub(super) fn assistant(&mut self, content: String) {
        if !content.is_empty() {
            self.push(Side::Assistant.message(content));
        }
    }

    /// Adds a text after which the model goes on, below the thought of its step.
    pub(super) fn continued(&mut self, thought: &str, text: &str) {
        self.said(thought, text);
        let go_on = self.render(Text::GoOn, &Scene { text, ..self.scene() });
        self.user(go_on);
    }

    /// Adds what the model said in a step below the thought of the step.
    pub(super) fn said(&mut self, thought: &str, text: &str) {
        let said: Vec<&str> = [thought, text].into_iter().filter(|part| !part.is_empty()).collect();
        self.assistant(said.join("\n"));
    }

    /// Begins with the replies that were told before, if what stands before them is the same.
    /// Returns which those are.
    pub(super) fn go_on(&mut self, kept: &Kept) -> Whole {
        let known = kept.messages.get(..kept.whole.messages).unwrap_or_default();
        let is_same = |(one, other): (&Arc<Message>, _)| Arc::ptr_eq(one, other) || one == other;
        let is_steady = self.unsteady.is_none() && self.messages.len() <= known.len();
        if is_steady && self.messages.iter().zip(known).all(is_same) {
            self.messages.clear();
            self.known = known.len();
            self.calls = kept.ids.len();
            self.whole = kept.whole;
        }
        self.whole
    }

    /// Notes that all is told of some steps and of some acts of the next one, if that is how later
    /// prompts tell it.
    pub(super) fn end_act(&mut self, acts: (usize, usize)) {
        if self.unsteady.is_none() {
            self.whole = Whole { acts, messages: self.len() };
        }
    }

    pub(super) fn push(&mut self, message: Message) {
        self.messages.push(Arc::new(message));
    }

    /// Returns the number of the next call, from 1.
    pub(super) fn next_call(&self) -> usize {
        self.calls + 1
    }

    /// Ends the prompt with the question, which later prompts do not show.
    pub(super) fn ask(self, head: Arc<Head>) -> Prompt {
        self.ask_and(head, |_| {})
    }

    /// Ends the prompt with the question and what was said after it.
    pub(super) fn ask_and(mut self, head: Arc<Head>, after: impl FnOnce(&mut Self)) -> Prompt {
        let keep = self.unsteady.unwrap_or(self.len());
        let (finished, current) = self.transcript.split();
        let thought = current.and_then(|step| step.thought.as_deref()).unwrap_or_default();
        let scene = Scene { thought, first: finished.is_empty(), ..self.scene() };
        if !thought.is_empty() {
            let said = self.render(Text::Thought, &scene);
            self.assistant(said);
        }
        let question = self.render(Text::Ask, &scene);
        self.user(question);
        after(&mut self);
        Prompt {
            head,
            known: self.known,
            messages: self.messages,
            keep,
            whole: self.whole,
            faults: self.speaker.faults,
        }
    }
}

impl<'a> Transcript<'a> {
    /// Returns every reply that has its answers and every message of the user, in order, with the
    /// thought of its step.
    pub(super) fn acts(&self) -> impl Iterator<Item = (&'a str, &'a Act)> + use<'a> {
        self.steps.iter().flat_map(|step| {
            let thought = step.thought.as_deref().unwrap_or_default();
            let told = step.acts.iter().filter(|act| match act {
                Act::Feedback { .. }
                | Act::Continued { .. }
                | Act::Answered { .. }
                | Act::Steered { .. } => true,
                Act::Calls { .. } => act.settled().is_some(),
            });
            told.map(move |act| (thought, act))
        })
    }
}
