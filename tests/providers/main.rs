//! One conversation with every provider that an independently written server speaks for.

#[cfg(test)]
#[cfg(test)]
mod conversation;
