//! Tools of the kind `query` on real databases: what holds for all kinds, and what a server adds.

#![cfg(test)]

mod conformance;
mod cypher;
mod hostile;
mod house;
mod postgres;
mod proxy;
mod run;
