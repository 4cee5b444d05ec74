//! The last hop of a call: how it leaves the process, and what it met there.
//!
//! The way follows from the tool's definition and stands in the plan, so that it is known also of an
//! attempt of which nothing was heard. What an attempt met is reported with its end, and journaled.

use serde::{Deserialize, Serialize};

use crate::chat::Lost;
use crate::id::Name;
use crate::money::Cached;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Its name or address.
    pub address: String,
    /// Its port.
    pub port: u16,
}

/// How the calls of a tool leave the process. Names of arguments stand in braces, values never.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "way", rename_all = "snake_case")]
pub enum Hop {
    /// As requests of HTTP.
    Http {
        /// The method.
        method: String,
        /// `http` or `https`; absent if an argument decides it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scheme: Option<String>,
        /// Where they go; absent if arguments decide it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<Endpoint>,
        /// The path, without a query; absent if an argument decides it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The event that they are, if they are one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<HopEvent>,
    },
    /// As messages of NATS.
    Nats {
        /// The subject.
        subject: String,
        /// Whether nobody answers them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        publishes: bool,
        /// The event that they are, if they are one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<HopEvent>,
    },
    /// As calls of a tool of an MCP server.
    Mcp {
        /// The tool's name at the server.
        tool: String,
        /// Where the server listens; absent if it is a process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<Endpoint>,
    },
    /// As a program.
    Command {
        /// The program's name, without the folders that lead to it.
        program: String,
    },
    /// As statements on a database.
    Database {
        /// The conventions' word for the kind of database.
        system: String,
        /// The database, as the team calls it.
        namespace: Name,
        /// Where its server listens, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<Endpoint>,
    },
}

/// The event that a message is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopEvent {
    /// Its type.
    pub kind: String,
    /// Its source.
    pub source: String,
}

/// What an attempt met outside, as far as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HopReport {
    /// Where it went, after all redirects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Endpoint>,
    /// `http` or `https`, as `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// The status of the HTTP answer; the last one of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The version of the protocol, of HTTP or of MCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What the program ended with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The process that was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The model that answered, if it stood in for the one that the tool asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_by: Option<Name>,
    /// Tokens that the model of the tool read from its provider's cache, among those read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens that it wrote to the cache, among those read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
    /// What attempts at the model of the tool may have used that gave no reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
}

impl HopReport {
    /// Returns which tokens of the tool's model have a price of their own.
    pub fn cached(&self) -> Cached {
        Cached::of(self.cache_read_tokens, self.cache_creation_tokens)
    }

    /// Returns the report in the form in which it travels, unless it says nothing.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}
