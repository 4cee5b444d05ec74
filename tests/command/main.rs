//! Programs as tools, in the sandbox that bubblewrap makes.

#[cfg(test)]
mod daemon;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod house;
#[cfg(test)]
mod start;
