//! Options to reach a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use verisum_files::Limits;
use verisum_files::place::DEFAULT_TIMEOUT;

use crate::inventory::Location;
use crate::meter::Meter;

/// How many requests are under way.
const AT_ONCE: usize = 16;

/// How a store is reached.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Variables by their usual names, such as `AWS_ACCESS_KEY_ID`; those of other stores are passed over.
    pub settings: Vec<(String, String)>,
    /// A command that prints credentials of S3 as JSON, in place of keys, as profiles of the AWS tools name one.
    pub credential_process: Option<String>,
    /// The URL of the store, in place of that of AWS or of the settings.
    pub endpoint: Option<String>,
    /// The region, in place of that of the settings.
    pub region: Option<String>,
    /// Whether requests are sent without a signature, as for public buckets.
    pub unsigned: bool,
    /// How many requests are sent in a second at most.
    pub requests_per_second: Option<f64>,
    /// The limit of read bandwidth; each request for a range of an object is an operation.
    pub limits: Option<Arc<Limits>>,
    /// How many requests are under way at most. Twice as many ranges of 2 MiB may be in memory.
    pub at_once: usize,
    /// Counts requests and bytes.
    pub meter: Arc<Meter>,
    /// The store must begin to answer, and go on, within this time.
    pub timeout: Duration,
}

/// Lists of a store that stand for asking it.
#[derive(Clone, Debug, Default)]
pub struct StoreLists {
    /// The manifest of an inventory.
    pub inventory: Option<Location>,
    /// The manifest of the completion report of a *Compute checksum* job.
    pub checksum_report: Option<Location>,
}

/// How the variables of the stores begin.
const VARIABLES: [&str; 6] = ["AWS_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_", "STORAGE_EMULATOR_HOST"];

impl StoreOptions {
    /// The settings of the environment, for a store whose tools keep no profiles.
    pub fn of_variables(variables: impl IntoIterator<Item = (String, String)>) -> StoreOptions {
        let is_one = |name: &str| VARIABLES.iter().any(|start| name.starts_with(start));
        let settings = variables.into_iter().filter(|(name, value)| is_one(name) && !value.is_empty());
        StoreOptions { settings: settings.collect(), ..StoreOptions::default() }
    }

    /// The last value of a setting.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| &value[..])
    }

    /// The settings whose names begin so.
    pub(crate) fn settings_of(&self, start: &str) -> impl Iterator<Item = (&str, &str)> {
        let settings = self.settings.iter().filter(move |(name, _)| name.starts_with(start));
        settings.map(|(name, value)| (&name[..], &value[..]))
    }
}

impl Default for StoreOptions {
    /// No settings: AWS, with the credentials of the machine that this is.
    fn default() -> StoreOptions {
        StoreOptions {
            settings: Vec::new(),
            credential_process: None,
            endpoint: None,
            region: None,
            unsigned: false,
            requests_per_second: None,
            limits: None,
            at_once: AT_ONCE,
            meter: Arc::default(),
            timeout: DEFAULT_TIMEOUT,
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
