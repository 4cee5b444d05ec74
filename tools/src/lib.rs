//! The hands of an agent: what a tool is, and one file per kind of tool.

#![warn(missing_docs)]

mod argument;
pub mod builtin;
pub mod calculate;
pub mod client;
pub mod cloudevent;
pub mod command;
pub mod hop;
pub mod http;
pub mod interim;
mod json;
pub mod mcp;
pub mod memory;
pub mod messenger;
pub mod model;
mod name;
pub mod nats;
pub mod openapi;
mod output;
pub mod query;
pub mod results;
pub mod schema;
pub mod secret;
mod template;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tool;
mod tree;

pub use interim::Interim;
pub use memory::Memory;
pub use messenger::{Letter, Messenger, Missed};
pub use model::{ModelQuestion, Models};
pub use name::{offered_names, team_name};
pub use secret::SecretRef;
pub use template::Template;
pub use tool::{HopLog, Tool, ToolContext, ToolDeps, ToolKind, build};
