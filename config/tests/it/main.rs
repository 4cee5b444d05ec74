//! Tests of the crate as others use it.

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod broken;
#[cfg(test)]
mod broken_databases;
#[cfg(test)]
mod broken_http;
#[cfg(test)]
mod broken_model_tools;
#[cfg(test)]
mod broken_models;
#[cfg(test)]
mod broken_nats_tools;
#[cfg(test)]
mod broken_prompts;
#[cfg(test)]
mod commands;
#[cfg(test)]
mod databases;
#[cfg(test)]
mod discover;
#[cfg(test)]
mod eventtypes;
#[cfg(test)]
mod fallback;
#[cfg(test)]
mod labels;
#[cfg(test)]
mod meaning;
#[cfg(test)]
mod permissions;
#[cfg(test)]
mod planning;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod rendered;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod teams;
