//! What models cost, in whole numbers: billionths of a US dollar.

use serde::{Deserialize, Serialize};

/// Billionths of a US dollar in one dollar.
pub const NANO_USD: u64 = 1_000_000_000;

/// Tokens to which a [`Price`] refers.
const PRICED_TOKENS: u128 = 1_000_000;

/// What a million tokens of a model cost, in billionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
}

impl Price {
    /// Returns what some tokens cost, in billionths of a US dollar, rounded up.
    pub fn cost(self, input_tokens: u64, output_tokens: u64) -> u64 {
        let sum = u128::from(self.input) * u128::from(input_tokens)
            + u128::from(self.output) * u128::from(output_tokens);
        u64::try_from(sum.div_ceil(PRICED_TOKENS)).unwrap_or(u64::MAX)
    }

    /// Returns how many written tokens some money buys; as many as one likes if they cost nothing.
    pub fn output_tokens(self, nano_usd: u64) -> u64 {
        bought(nano_usd, self.output)
    }

    /// Returns how many read tokens some money buys; as many as one likes if they cost nothing.
    pub fn input_tokens(self, nano_usd: u64) -> u64 {
        bought(nano_usd, self.input)
    }

    /// Returns the higher of two prices, for each kind of token by itself.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { input: self.input.max(other.input), output: self.output.max(other.output) }
    }
}

fn bought(nano_usd: u64, price: u64) -> u64 {
    let tokens = (u128::from(nano_usd) * PRICED_TOKENS).checked_div(u128::from(price));
    tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(u64::MAX)
}

/// What a model of a team costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// Its own price.
    pub own: Price,
    /// The highest price that a turn with it can have, those of the models that stand in for it
    /// considered.
    pub highest: Price,
}

/// Writes an amount of money as people read it: with six decimals at most, and no zeros behind.
pub fn usd(nano_usd: u64) -> String {
    let micros = nano_usd.div_ceil(1000);
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    let decimals = format!("{part:06}");
    let decimals = decimals.trim_end_matches('0');
    format!("${whole}.{decimals:0<2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_whole_and_rounded_up() {
        let price = Price { input: 150_000_000, output: 600_000_000 };
        for (input, output, cost) in
            [(0, 0, 0), (1, 0, 150), (1000, 100, 210_000), (u64::MAX, u64::MAX, u64::MAX)]
        {
            assert_eq!(price.cost(input, output), cost, "{input} {output}");
        }
        let cheap = Price { input: 37_500_000, output: 0 };
        assert_eq!((cheap.cost(1, 0), cheap.cost(2, 0)), (38, 75));
    }

    #[test]
    fn money_buys_no_more_than_it_pays() {
        let price = Price { input: 0, output: 600_000_001 };
        for money in [0, 599, 600, 601, 1_000_000, u64::MAX] {
            assert!(price.cost(0, price.output_tokens(money)) <= money, "{money}");
            let price = Price { input: price.output, output: 0 };
            assert!(price.cost(price.input_tokens(money), 0) <= money, "{money}");
        }
        assert_eq!(Price::default().output_tokens(0), u64::MAX);
    }

    #[test]
    fn amounts_read_as_dollars() {
        for (nano, text) in [
            (0, "$0.00"),
            (1, "$0.000001"),
            (210_000, "$0.00021"),
            (1_500_000_000, "$1.50"),
            (12_000_000_000, "$12.00"),
        ] {
            assert_eq!(usd(nano), text);
        }
    }
}
