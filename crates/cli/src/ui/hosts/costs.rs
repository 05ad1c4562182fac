//! Prints the number of requests to a store, and their cost by a list of prices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use verisum::object::{RequestClass, Usage};

use super::EvidenceCounts;
use crate::ui::failure::Failure;
use crate::ui::values::counted;
use crate::ui::{names, sizes};

/// Stores count bytes so.
const GB: f64 = 1e9;

/// The highest price; sums of it are still numbers.
const MOST_PRICE: f64 = 1e9;

/// A list of prices. What it does not name costs nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prices {
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

/// What a run cost.
#[derive(Debug, Serialize)]
pub(crate) struct Costs {
    requests: BTreeMap<&'static str, u64>,
    received: u64,
    sent: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    money: Option<Money>,
    /// What objects are known by.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<EvidenceCounts>,
}

#[derive(Debug, Serialize)]
struct Money {
    amount: f64,
    currency: String,
}

impl Prices {
    /// Reads a list of prices.
    pub(super) fn read(path: &Path) -> Result<Prices, Failure> {
        let name = || PathBuf::from(path);
        let text = std::fs::read_to_string(path).map_err(|error| Failure::File {
            name: name(),
            operation: "read",
            error,
        })?;
        let wrong = |why: String| Failure::Usage(format!("--prices: {}: {why}", path.display()));
        let prices: Prices = toml::from_str(&text).map_err(|error| wrong(error.message().to_string()))?;
        let is_class = |name: &String| RequestClass::ALL.iter().any(|class| class.name() == name);
        if let Some(unknown) = prices.per_1000_requests.keys().find(|name| !is_class(name)) {
            return Err(wrong(format!("{unknown} is no class of requests")));
        }
        let is_price = |price: &f64| (0.0..=MOST_PRICE).contains(price);
        let PerGb { received, sent } = &prices.per_gb;
        if !prices.per_1000_requests.values().chain([received, sent]).all(is_price) {
            return Err(wrong("a price is no number, or less than 0, or more than a billion".to_string()));
        }
        Ok(prices)
    }

    fn of(&self, usage: &Usage) -> Money {
        let requests = RequestClass::ALL.iter().zip(usage.requests).map(|(class, count)| {
            self.per_1000_requests.get(class.name()).copied().unwrap_or_default() * count as f64 / 1000.0
        });
        let bytes = [(usage.received, self.per_gb.received), (usage.sent, self.per_gb.sent)];
        let bytes = bytes.iter().map(|(bytes, price)| *bytes as f64 / GB * price);
        Money { amount: requests.chain(bytes).sum(), currency: self.currency.clone() }
    }
}

impl Costs {
    /// None where no store was asked for anything.
    pub(super) fn of(usage: &Usage, prices: Option<&Prices>) -> Option<Costs> {
        let counts = RequestClass::ALL.iter().zip(usage.requests);
        let requests: BTreeMap<_, _> =
            counts.filter(|(_, count)| *count > 0).map(|(class, count)| (class.name(), count)).collect();
        let money = prices.map(|prices| prices.of(usage));
        (!requests.is_empty()).then_some(Costs {
            requests,
            received: usage.received,
            sent: usage.sent,
            money,
            evidence: None,
        })
    }

    /// With what objects are known by.
    pub(super) fn with_evidence(self, evidence: Option<EvidenceCounts>) -> Costs {
        Costs { evidence, ..self }
    }

    /// In words.
    pub(crate) fn text(&self) -> String {
        let total = counted(self.requests.values().sum(), "request");
        let classes: Vec<String> =
            self.requests.iter().map(|(class, count)| format!("{count} {class}")).collect();
        let mut text = format!("cost: {total} ({})", classes.join(", "));
        text += &format!(", {} received", sizes::human(self.received));
        if self.sent > 0 {
            text += &format!(", {} sent", sizes::human(self.sent));
        }
        if let Some(Money { amount, currency }) = &self.money {
            let digits = digits(*amount);
            text += &format!(", {amount:.digits$} {}", names::plain(currency));
        }
        text
    }
}

/// How many digits of an amount stand behind its point: four, and more if two would not be other than zero.
fn digits(amount: f64) -> usize {
    const MOST: usize = 12;
    match amount > 0.0 {
        true => ((1.0 - amount.log10().floor()).max(0.0) as usize).clamp(4, MOST),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_per_thousand_requests_and_per_gb() {
        let prices: Prices = toml::from_str(
            "currency = \"EUR\"\n[per_1000_requests]\nlist = 5\nget = 0.5\n[per_gb]\nreceived = 0.1\n",
        )
        .unwrap();
        let usage = Usage { requests: [2, 2000, 7, 0, 0, 0], received: 2_000_000_000, sent: 9 };
        let costs = Costs::of(&usage, Some(&prices)).unwrap();
        assert_eq!(
            costs.text(),
            "cost: 2009 requests (2000 get, 7 head, 2 list), 1.86 GiB received, 9 bytes sent, 1.2100 EUR"
        );
        assert!(Costs::of(&Usage::default(), Some(&prices)).is_none());
        // Two digits tell what little is; and a currency tells a terminal nothing.
        let text = |usage: &Usage, prices: &Prices| Costs::of(usage, Some(prices)).unwrap().text();
        let usage = Usage { requests: [0, 1, 0, 0, 0, 0], ..Usage::default() };
        let cheap = toml::from_str("currency = \"\\u001b[31m\"\n[per_1000_requests]\nget = 0.0004\n");
        let told = text(&usage, &cheap.unwrap());
        assert!(told.ends_with(", 0.00000040 \\033[31m"), "{told}");
        let told = text(&usage, &toml::from_str("currency = \"EUR\"").unwrap());
        assert!(told.ends_with(", 0 EUR"), "{told}");
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices");
        for bad in [
            "",
            "currency = 5",
            "currency = \"x\"\nunknown = 1",
            "currency = \"x\"\n[per_1000_requests]\nlits = 1",
            "currency = \"x\"\n[per_gb]\nreceived = -1",
            "currency = \"x\"\n[per_gb]\nreceived = nan",
            "currency = \"x\"\n[per_gb]\nreceived = 1e308",
        ] {
            std::fs::write(&path, bad).unwrap();
            assert!(Prices::read(&path).is_err(), "{bad}");
        }
        std::fs::write(&path, "currency = \"x\"").unwrap();
        assert!(Prices::read(&path).is_ok());
    }
}
