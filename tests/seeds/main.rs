//! The agent systems that others published, as team files: one test for each thing that they must
//! do here, on a node with all that belongs to it.

#[cfg(test)]
mod broker;
#[cfg(test)]
mod eventtypes;
#[cfg(test)]
mod grammar;
#[cfg(test)]
mod house;
#[cfg(test)]
mod knative;
#[cfg(test)]
mod movies;
#[cfg(test)]
mod nats_tools;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod seed_002;
#[cfg(test)]
mod seed_002_words;
#[cfg(test)]
mod seed_004;
#[cfg(test)]
mod seed_004_replies;
#[cfg(test)]
mod server;
#[cfg(test)]
mod services;
#[cfg(test)]
mod tool_calls;
