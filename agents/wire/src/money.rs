//! What models cost, in whole numbers: billionths of a US dollar.

use serde::{Deserialize, Serialize};

use crate::Name;

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
    /// Tokens read from the provider's cache; as `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Tokens read that the provider's cache took in; as `input` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

/// Which of the tokens that a turn read have a price of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Those that came from the provider's cache.
    pub read: u64,
    /// Those that the cache took in.
    pub written: u64,
}

impl Cached {
    /// Takes what a provider reports, where nothing said is nothing cached.
    pub fn of(read: Option<u64>, written: Option<u64>) -> Self {
        Self { read: read.unwrap_or(0), written: written.unwrap_or(0) }
    }
}

impl Price {
    /// Returns what some tokens cost, in billionths of a US dollar, rounded up.
    ///
    /// The cached ones are among those read. Where a provider reports more of them, as many count
    /// as were read.
    pub fn cost(self, input_tokens: u64, cached: Cached, output_tokens: u64) -> u64 {
        let read = cached.read.min(input_tokens);
        let written = cached.written.min(input_tokens - read);
        let sum: u128 = [
            (self.input, input_tokens - read - written),
            (self.cache_read(), read),
            (self.cache_write(), written),
            (self.output, output_tokens),
        ]
        .into_iter()
        .map(|(price, tokens)| u128::from(price) * u128::from(tokens))
        .fold(0, u128::saturating_add);
        u64::try_from(sum.div_ceil(PRICED_TOKENS)).unwrap_or(u64::MAX)
    }

    /// Returns how many written tokens some money buys; as many as one likes if they cost nothing.
    pub fn output_tokens(self, nano_usd: u64) -> u64 {
        bought(nano_usd, self.output)
    }

    /// Returns how many read tokens some money buys outside of the cache; as many as one likes if
    /// they cost nothing.
    pub fn input_tokens(self, nano_usd: u64) -> u64 {
        bought(nano_usd, self.input)
    }

    /// Returns the price of a turn of which it is not known what the cache will have of it: all
    /// that is read has the dearest price for that.
    #[must_use]
    pub fn ahead(self) -> Self {
        let input = self.input.max(self.cache_read()).max(self.cache_write());
        Self { input, output: self.output, cache_read: None, cache_write: None }
    }

    /// Returns the higher of two prices, for each kind of token by itself.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let of_cache = |own: fn(&Self) -> Option<u64>, of: fn(Self) -> u64| {
            (own(&self).is_some() || own(&other).is_some()).then(|| of(self).max(of(other)))
        };
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: of_cache(|price| price.cache_read, Self::cache_read),
            cache_write: of_cache(|price| price.cache_write, Self::cache_write),
        }
    }

    fn cache_read(self) -> u64 {
        self.cache_read.unwrap_or(self.input)
    }

    fn cache_write(self) -> u64 {
        self.cache_write.unwrap_or(self.input)
    }
}

fn bought(nano_usd: u64, price: u64) -> u64 {
    let tokens = (u128::from(nano_usd) * PRICED_TOKENS).checked_div(u128::from(price));
    tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(u64::MAX)
}

/// What a model of a team costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// Its own price.
    pub own: Price,
    /// The highest price that a turn with it can have, those of the models that stand in for it
    /// considered as far as they have one.
    pub highest: Price,
    /// A model that stands in for it and has no price: what a turn costs has no bound then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpriced: Option<Name>,
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

    const NONE: Cached = Cached { read: 0, written: 0 };

    fn price(input: u64, output: u64) -> Price {
        Price { input, output, ..Price::default() }
    }

    #[test]
    fn costs_are_whole_and_rounded_up() {
        let dear = price(150_000_000, 600_000_000);
        for (input, output, cost) in
            [(0, 0, 0), (1, 0, 150), (1000, 100, 210_000), (u64::MAX, u64::MAX, u64::MAX)]
        {
            assert_eq!(dear.cost(input, NONE, output), cost, "{input} {output}");
        }
        let cheap = price(37_500_000, 0);
        assert_eq!((cheap.cost(1, NONE, 0), cheap.cost(2, NONE, 0)), (38, 75));
    }

    #[test]
    fn what_the_cache_has_is_paid_apart() {
        let plain = price(4_000_000, 20_000_000);
        let cached = Price { cache_read: Some(400_000), cache_write: Some(5_000_000), ..plain };
        // Read of the cache and written to it, and what 1000 tokens cost with ten more of reply.
        for ((read, written), cost) in [
            ((0, 0), 4200),
            ((1000, 0), 600),
            ((900, 0), 960),
            ((0, 1000), 5200),
            ((600, 300), 240 + 1500 + 400 + 200),
            // What is reported beyond what was read counts for nothing.
            ((2000, 0), 600),
            ((900, 900), 360 + 500 + 200),
            ((u64::MAX, u64::MAX), 600),
        ] {
            let tokens = Cached { read, written };
            assert_eq!(cached.cost(1000, tokens, 10), cost, "{tokens:?}");
            assert_eq!(plain.cost(1000, tokens, 10), 4200, "{tokens:?}");
        }
        assert_eq!(Cached::of(Some(3), None), Cached { read: 3, written: 0 });
    }

    #[test]
    fn what_is_paid_ahead_is_the_dearest() {
        let plain = price(4, 20);
        let written = Price { cache_read: Some(1), cache_write: Some(5), ..plain };
        let other = Price { cache_read: Some(6), ..price(3, 30) };
        for (price, expected) in [
            (plain, price(4, 20)),
            (written, price(5, 20)),
            (plain.max(other), price(6, 30)),
            (written.max(plain), price(5, 20)),
        ] {
            assert_eq!(price.ahead(), expected, "{price:?}");
        }
        // A price for all that is read stays one.
        assert_eq!(plain.max(price(3, 30)), price(4, 30));
        assert_eq!(written.max(plain).cache_read, Some(4));
    }

    #[test]
    fn a_price_of_earlier_versions_is_read_and_written_as_it_was() {
        let text = r#"{"input":4,"output":20}"#;
        let read: Price = serde_json::from_str(text).unwrap();
        assert_eq!(read, price(4, 20));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn money_buys_no_more_than_it_pays() {
        let output = price(0, 600_000_001);
        for money in [0, 599, 600, 601, 1_000_000, u64::MAX] {
            assert!(output.cost(0, NONE, output.output_tokens(money)) <= money, "{money}");
            let input = price(output.output, 0);
            assert!(input.cost(input.input_tokens(money), NONE, 0) <= money, "{money}");
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
