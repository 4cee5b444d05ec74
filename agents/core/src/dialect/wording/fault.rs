//! Says what is wrong with a reply: readers give the reason, the texts of a plan the words.

use wire::Reading;
use wire::entry::{Feedback, ReadCall};
use wire::plan::Text;

use super::super::Called;
use super::Speaker;
use super::fact::Scene;

impl Speaker<'_> {
    /// Puts the faults of a reading into words.
    pub(in super::super) fn worded(&mut self, reading: Reading, scene: &Scene<'_>) -> Reading {
        match reading {
            Reading::Fault { mut feedback, raw } => {
                feedback.message = self.sentence(&feedback, scene);
                Reading::Fault { feedback, raw }
            }
            Reading::Calls { text, calls } => {
                let calls = calls.into_iter().map(|call| self.call(call, scene)).collect();
                Reading::Calls { text, calls }
            }
            Reading::Thought { .. }
            | Reading::Planned(_)
            | Reading::Continued { .. }
            | Reading::Final { .. }
            | Reading::Cut { .. } => reading,
        }
    }

    fn call(&mut self, mut read: ReadCall, scene: &Scene<'_>) -> ReadCall {
        let Some(mut feedback) = read.fault.take() else { return read };
        let called = Called { read, key: None, result: None };
        feedback.message = self.sentence(&feedback, &Scene { call: Some(&called), ..*scene });
        ReadCall { fault: Some(feedback), ..called.read }
    }

    /// Returns our own sentence, or the team's, which may quote ours.
    fn sentence(&mut self, feedback: &Feedback, scene: &Scene<'_>) -> String {
        let ours = self.ours(Text::Fault, &Scene { feedback: Some(feedback), ..*scene });
        if !self.is_set(Text::Fault) {
            return ours;
        }
        let feedback = Feedback { message: ours, ..feedback.clone() };
        self.render(Text::Fault, &Scene { feedback: Some(&feedback), ..*scene })
    }
}
