//! How a store is reached.

use std::fmt;
use std::sync::Arc;

use crate::meter::Meter;

/// How long a store may take to answer, in seconds.
const TIMEOUT: u32 = 30;

/// How a store is reached.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Variables by their usual names, such as `AWS_ACCESS_KEY_ID`; others than those of S3 are passed over.
    pub settings: Vec<(String, String)>,
    /// The URL of the store, in place of that of AWS or of the settings.
    pub endpoint: Option<String>,
    /// The region, in place of that of the settings.
    pub region: Option<String>,
    /// Whether requests are sent without a signature, as for public buckets.
    pub unsigned: bool,
    /// How many requests are sent in a second at most.
    pub requests_per_second: Option<f64>,
    /// Counts requests and bytes.
    pub meter: Arc<Meter>,
    /// The store must begin to answer, and go on, within so many seconds.
    pub timeout: u32,
}

impl Default for StoreOptions {
    /// No settings: AWS, with the credentials of the machine that this is.
    fn default() -> StoreOptions {
        StoreOptions {
            settings: Vec::new(),
            endpoint: None,
            region: None,
            unsigned: false,
            requests_per_second: None,
            meter: Arc::default(),
            timeout: TIMEOUT,
        }
    }
}

impl fmt::Debug for StoreOptions {
    /// Without the values of settings, which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.settings.iter().map(|(name, _)| &name[..]).collect();
        f.debug_struct("StoreOptions")
            .field("settings", &names)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("unsigned", &self.unsigned)
            .field("requests_per_second", &self.requests_per_second)
            .field("timeout", &self.timeout)
            .finish()
    }
}
