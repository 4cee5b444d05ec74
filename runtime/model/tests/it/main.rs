//! Model clients against a real HTTP server that plays given bytes, and against scripts.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod providers;
#[cfg(test)]
mod reasoning;
#[cfg(test)]
mod replies;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod server;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod storm;
