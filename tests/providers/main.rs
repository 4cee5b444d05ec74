//! One conversation with every provider that an independently written server speaks for.

#[cfg(test)]
mod conversation;
#[cfg(test)]
mod endpoints;
