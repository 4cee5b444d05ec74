//! Clients of model providers: one turn of a conversation in, one whole reply out.
//!
//! A [`ModelClient`] owns everything between the two: the places of the model and the queue for
//! them, time limits, and repetition of what failed in a way that may pass. It keeps no
//! conversation; every turn brings its own.

#![warn(missing_docs)]

mod answer;
mod client;
mod complaint;
mod error;
mod gate;
mod openai;
mod retry;
mod scripted;

pub use client::{Conversation, ModelClient};
