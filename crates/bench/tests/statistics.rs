//! The statistics beside those that reference/ranktests.py counts out.

use std::path::Path;

use serde_json::Value;
use verisum_bench::stats::{mad, mann_whitney, quantile, signed_rank};

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn close(found: f64, wanted: f64, what: &Value) {
    assert!((found - wanted).abs() < 1e-9, "{found} instead of {wanted}: {what}");
}

#[test]
fn values_are_those_of_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/statistics.json");
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let list = |name: &str| vectors[name].as_array().unwrap();
    assert!(list("signed_rank").len() > 40 && list("mann_whitney").len() > 40);
    for one in list("signed_rank") {
        close(signed_rank(&numbers(&one["values"])), one["p"].as_f64().unwrap(), one);
    }
    for one in list("mann_whitney") {
        let found = mann_whitney(&numbers(&one["first"]), &numbers(&one["second"]));
        close(found, one["p"].as_f64().unwrap(), one);
    }
    for one in list("spread") {
        let values = numbers(&one["values"]);
        for (part, wanted) in [0.25, 0.5, 0.75].into_iter().zip(numbers(&one["quartiles"])) {
            close(quantile(&values, part), wanted, one);
        }
        close(mad(&values), one["mad"].as_f64().unwrap(), one);
    }
}
