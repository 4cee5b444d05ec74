//! MCP servers as tools: published ones, one of the official SDK, and one that misbehaves.

mod house;
mod misbehaving;
mod published;
