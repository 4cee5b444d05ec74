//! One conversation with every provider that an independently written server speaks for.

#[cfg(test)]
mod aimock;
#[cfg(test)]
mod conversation;
