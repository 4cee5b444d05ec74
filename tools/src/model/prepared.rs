//! Models whose answers are prepared.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, pending, ready};
use wire::{ErrorCode, ModelReply, WireError};

use super::{ModelQuestion, Models};
use crate::tool::ToolContext;

/// The most answers that are prepared at once, and the most questions that are kept; a test that
/// needs more has gone astray.
pub const ANSWERS_MAX: usize = 1024;

/// Answers questions in order with what was prepared, and keeps them: the twin of a team's models.
#[derive(Debug, Default)]
pub struct PreparedModels {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` is a model that never answers.
    answers: VecDeque<Option<Result<ModelReply, WireError>>>,
    asked: Vec<ModelQuestion>,
}

impl PreparedModels {
    /// Prepares the next answer; beyond [`ANSWERS_MAX`] it is dropped.
    pub fn prepare(&self, answer: Result<ModelReply, WireError>) {
        self.push(Some(answer));
    }

    /// Lets the next question go without an answer.
    pub fn prepare_silence(&self) {
        self.push(None);
    }

    /// Returns the questions so far, oldest first, at most [`ANSWERS_MAX`].
    pub fn asked(&self) -> Vec<ModelQuestion> {
        self.state().asked.clone()
    }

    fn push(&self, answer: Option<Result<ModelReply, WireError>>) {
        let mut state = self.state();
        if state.answers.len() < ANSWERS_MAX {
            state.answers.push_back(answer);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Models for PreparedModels {
    fn ask<'a>(
        &'a self,
        _: &'a ToolContext,
        question: ModelQuestion,
    ) -> BoxFuture<'a, Result<ModelReply, WireError>> {
        let mut state = self.state();
        let model = question.model.clone();
        if state.asked.len() < ANSWERS_MAX {
            state.asked.push(question);
        }
        match state.answers.pop_front() {
            Some(Some(answer)) => Box::pin(ready(answer)),
            Some(None) => Box::pin(pending()),
            None => {
                let message = format!("model {model}: no answer is prepared");
                Box::pin(ready(Err(WireError::new(ErrorCode::ModelRefused, message))))
            }
        }
    }
}
