//! Clients of model providers: one turn of a conversation in, one whole reply out.
//!
//! A [`ModelClient`] owns everything between the two: the places of the model and the queue for
//! them, time limits, and repetition of what failed in a way that may pass. It keeps no
//! conversation; every turn brings its own.
//!
//! A provider is one file: what it is sent and how its answers are read, as a `Protocol` of
//! `provider`, where it is named once more. Requests, streams, limits and the lowering of schemas
//! are the same for all of them.

#![warn(missing_docs)]

mod answer;
mod anthropic;
mod body;
mod client;
mod complaint;
mod draft;
mod error;
mod fields;
#[cfg(test)]
mod fixture;
mod gate;

mod http;
mod lines;
mod llamacpp;
mod lower;
mod ollama;
mod openai;
mod provider;
mod recorder;
mod retry;
mod sampling;
mod scripted;
mod sse;
mod stream;
mod template;
mod unenforced;

pub use client::{Conversation, ModelClient};
pub use unenforced::{NOTES_MAX, PLACES_MAX, Unenforced, unenforced};
