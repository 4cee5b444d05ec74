//! MCP servers as tools: published ones, one of the official SDK, and one that misbehaves.

#[cfg(test)]
mod asking;
#[cfg(test)]
mod house;
#[cfg(test)]
mod misbehaving;
#[cfg(test)]
mod published;
