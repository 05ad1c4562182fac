//! Prints the number of requests to a store, and their cost by a list of prices.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use verisum::object::{Money, Prices, RequestClass, Usage};

use super::EvidenceCounts;
use crate::ui::failure::Failure;
use crate::ui::values::counted;
use crate::ui::{names, sizes};

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

/// Reads a list of prices.
pub(super) fn read_prices(path: &Path) -> Result<Prices, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, "read", error))?;
    Prices::parse(&text).map_err(|why| Failure::Usage(format!("--prices: {}: {why}", path.display())))
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
        let prices = Prices::parse(
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
}
