//! What an agent cannot be brought to do, whatever its model wants.

#[cfg(test)]
mod house;
#[cfg(test)]
mod obedient;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod taint;
