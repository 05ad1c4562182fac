//! Places of the configuration: a bucket's endpoint, profile and region by its address, typed once.
//!
//! No secrets: those are in the files of the AWS tools, which a profile names.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use toml::{Table, Value};

use super::config::Setting;

/// The table of a file that has a table for each place.
pub(crate) const TABLE: &str = "places";

/// What a place may have beside its address.
const OPTIONS: [&str; 3] = ["endpoint", "profile", "region"];

/// The key of what the others hold for.
const ADDRESS: &str = "address";

/// Places by their names.
pub(crate) type Places = BTreeMap<String, BTreeMap<String, Setting>>;

/// Those of this run.
static PLACES: OnceLock<Places> = OnceLock::new();

/// Reads the table of places of a file. A place that a file before it had is another one now.
pub(crate) fn read(path: &Path, table: Table, places: &mut Places) -> Result<(), String> {
    for (name, value) in table {
        let wrong = |why: String| Err(format!("{TABLE}.{name}: {why}"));
        let Value::Table(fields) = value else {
            return wrong(format!("must be a table, [{TABLE}.NAME]"));
        };
        let mut place = BTreeMap::new();
        for (key, value) in fields {
            if key != ADDRESS && !OPTIONS.contains(&key.as_str()) {
                return wrong(format!("{key}: a place has {ADDRESS}, {}", OPTIONS.join(", ")));
            }
            let Value::String(text) = value else { return wrong(format!("{key}: must be a text")) };
            place.insert(key, Setting { values: vec![text], source: path.display().to_string() });
        }
        let address = place.get(ADDRESS).map(|setting| setting.values[0].as_str());
        if address.is_none_or(|address| !address.starts_with("s3://") || address.len() < 6) {
            return wrong(format!("{ADDRESS}: must be s3://BUCKET or s3://BUCKET/PREFIX"));
        }
        places.insert(name, place);
    }
    Ok(())
}

/// Has these places known to whoever opens a bucket.
pub(crate) fn know(places: &Places) {
    let _ = PLACES.set(places.clone());
}

/// What the configuration says of a bucket: an option of the place that has it.
pub(crate) fn of_bucket(bucket: &str, option: &str) -> Option<String> {
    let bucket = bucket.strip_prefix("s3://")?;
    let is_in = |place: &&BTreeMap<String, Setting>| {
        let address = place.get(ADDRESS).and_then(|setting| setting.values[0].strip_prefix("s3://"));
        address.is_some_and(|address| address.split('/').next() == Some(bucket))
    };
    let place = PLACES.get()?.values().find(is_in)?;
    Some(place.get(option)?.values[0].clone())
}
