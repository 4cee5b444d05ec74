//! The binary as a person meets it.

#[cfg(test)]
mod callboard;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod daemon;
#[cfg(test)]
mod files;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod run;
#[cfg(test)]
mod servers;
#[cfg(test)]
mod teams;
#[cfg(test)]
mod traces;
