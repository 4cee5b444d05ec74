//! A real node behind real doors, asked by a real HTTP client.

#![cfg(test)]

mod calls;
mod console;
mod events;
mod hostile;
mod house;
mod look;
mod runs;
mod sign_in;
