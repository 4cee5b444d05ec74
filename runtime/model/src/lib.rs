//! Clients of model providers: one turn of a conversation in, one whole reply out.
//!
//! A [`ModelClient`] owns everything between the two: the places of the model and the queue for
//! them, time limits, the limits of a minute, repetition of what failed in a way that may pass, and
//! the models that stand in for one whose server fails. What is learned of a server is shared by
//! all models of the node that are at it, through [`Guards`]. It keeps no conversation; every turn
//! brings its own.
//!
//! `source` is one model; `breaker`, `budget`, `window` and `fair` decide without a clock what
//! `guard`, `rate` and `gate` carry out.
//!
//! A provider is one file: what it is sent and how its answers are read, as a `Protocol` of
//! `provider`, where it is named once more. Requests, streams, limits and the lowering of schemas
//! are the same for all of them.

#![warn(missing_docs)]

mod answer;
mod anthropic;
mod body;
mod breaker;
mod budget;
mod client;
mod complaint;
mod draft;
mod error;
mod fair;
mod fields;
#[cfg(test)]
mod fixture;
mod gate;
mod guard;
mod heads;
mod http;
mod lines;
mod llamacpp;
mod lower;
mod messages;
mod ollama;
mod openai;
mod part;
mod provider;
mod rate;
mod reasoning;
mod recorder;
mod retry;
mod sampling;
mod scripted;
mod source;
mod sse;
mod stream;
mod template;
mod unenforced;
mod window;

pub use client::{Admission, Conversation, ModelClient, ModelClients, Progress};
pub use guard::Guards;
pub use messages::Messages;
pub use part::Part;
pub use unenforced::{NOTES_MAX, PLACES_MAX, Unenforced, unenforced};
