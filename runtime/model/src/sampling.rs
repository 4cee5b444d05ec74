//! Writes how the next token is chosen, by the names that llama.cpp and Ollama share.

use config::team::Sampling;

use crate::body::Body;

/// Sets the fields that the team file gives.
pub(crate) fn set(body: &mut Body, sampling: &Sampling) {
    body.set_some("top_k", sampling.top_k);
    body.set_some("top_p", sampling.top_p);
    body.set_some("repeat_penalty", sampling.repeat_penalty);
    body.set_some("repeat_last_n", sampling.repeat_last_n);
    body.set_some("seed", sampling.seed);
}
