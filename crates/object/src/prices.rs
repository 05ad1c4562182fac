//! Lists of prices, and what requests cost by them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::meter::{RequestClass, Usage};

/// Stores count bytes so.
const GB: f64 = 1e9;

/// The highest price; sums of it are still numbers.
const MOST_PRICE: f64 = 1e9;

/// A list of prices. What it does not name costs nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Such as `USD`.
    currency: String,
    /// Of a thousand requests, by their classes.
    #[serde(default)]
    per_1000_requests: BTreeMap<String, f64>,
    /// Of a GB.
    #[serde(default)]
    per_gb: PerGb,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PerGb {
    received: f64,
    sent: f64,
}

/// An amount of money.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Money {
    /// How much, in at most twelve significant digits.
    pub amount: f64,
    /// Of what, such as `USD`.
    pub currency: String,
}

/// Why a text is no list of prices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PricesError {
    /// It is no TOML, or has other fields.
    #[error("{0}")]
    Text(String),
    /// A price is of something else than a class of requests.
    #[error("{0} is no class of requests")]
    Class(String),
    /// A price is impossible.
    #[error("a price is no number, or less than 0, or more than a billion")]
    Price,
}

impl Prices {
    /// Reads a list of prices in TOML.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Prices, PricesError> {
        let prices: Prices =
            toml::from_str(text).map_err(|error| PricesError::Text(error.message().to_string()))?;
        let is_class = |name: &String| RequestClass::ALL.iter().any(|class| class.name() == name);
        if let Some(unknown) = prices.per_1000_requests.keys().find(|name| !is_class(name)) {
            return Err(PricesError::Class(unknown.clone()));
        }
        let is_price = |price: &f64| (0.0..=MOST_PRICE).contains(price);
        let PerGb { received, sent } = &prices.per_gb;
        let are_prices = prices.per_1000_requests.values().chain([received, sent]).all(is_price);
        are_prices.then_some(prices).ok_or(PricesError::Price)
    }

    /// What so much costs.
    pub fn of(&self, usage: &Usage) -> Money {
        let requests = RequestClass::ALL.iter().zip(usage.requests).map(|(class, count)| {
            self.per_1000_requests.get(class.name()).copied().unwrap_or_default() * count as f64 / 1000.0
        });
        let bytes = [(usage.received, self.per_gb.received), (usage.sent, self.per_gb.sent)];
        let bytes = bytes.iter().map(|(bytes, price)| *bytes as f64 / GB * price);
        Money { amount: rounded(requests.chain(bytes).sum()), currency: self.currency.clone() }
    }
}

/// An amount without what sums of binary fractions add to it: prices have fewer digits than twelve.
fn rounded(amount: f64) -> f64 {
    format!("{amount:.11e}").parse().unwrap_or(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_the_digits_of_prices() {
        let prices = Prices::parse("currency = \"x\"\n[per_1000_requests]\nlist = 0.1\nget = 0.2").unwrap();
        let amount = |count: u64| {
            let mut usage = Usage::default();
            (usage.requests[0], usage.requests[1]) = (count, count);
            prices.of(&usage).amount.to_string()
        };
        assert_eq!([1, 1000, 7_000_000].map(amount), ["0.0003", "0.3", "2100"]);
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        for bad in [
            "",
            "currency = 5",
            "currency = \"x\"\nunknown = 1",
            "currency = \"x\"\n[per_1000_requests]\nlits = 1",
            "currency = \"x\"\n[per_gb]\nreceived = -1",
            "currency = \"x\"\n[per_gb]\nreceived = nan",
            "currency = \"x\"\n[per_gb]\nreceived = 1e308",
        ] {
            assert!(Prices::parse(bad).is_err(), "{bad}");
        }
        let usage = Usage { requests: [1; RequestClass::ALL.len()], received: 1, sent: 1 };
        assert_eq!(Prices::parse("currency = \"x\"").unwrap().of(&usage).amount, 0.0);
    }
}
