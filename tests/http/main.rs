//! Tools over HTTP, as agents call them: what they reach, and what they never do.

#[cfg(test)]
mod agent;
#[cfg(test)]
mod forbidden;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod redirects;
#[cfg(test)]
mod site;
#[cfg(test)]
mod world;
