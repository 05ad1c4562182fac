//! Options and environment variables to reach buckets.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use verisum::files::Limits;
use verisum::files::place::Place;
use verisum::object::{
    BucketPlace, Location, Meter, OpenError, Prices, StoreLists, StoreOptions, require_endpoint,
};
use verisum::remote::{Address, Host, Hosts, without_secrets};

use super::costs::{Costs, read_prices};
use super::reach::Reach;
use super::{default_timeout, not_opened, timeout};
use crate::ui::failure::Failure;
use crate::ui::{config, configured_places, verbosity};

/// The heading of these options in help texts.
pub(super) const BUCKETS: &str = "Files in buckets (s3://BUCKET/PREFIX, gs://, az://, https://)";

/// Whether a verb has these options, itself or in one of its commands.
pub(crate) fn takes_buckets(verb: &clap::Command) -> bool {
    verb.get_arguments().any(|argument| argument.get_help_heading() == Some(BUCKETS))
        || verb.get_subcommands().any(takes_buckets)
}

/// How to reach buckets. Credentials are no options: others can read those.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct BucketArgs {
    /// Address of the store, instead of AWS_ENDPOINT_URL, AZURE_STORAGE_ENDPOINT, STORAGE_EMULATOR_HOST or the usual one
    #[arg(long, value_name = "URL", help_heading = BUCKETS)]
    endpoint: Option<String>,

    /// Use the keys of this profile of the AWS tools, not those of the environment
    #[arg(long, value_name = "NAME", help_heading = BUCKETS, conflicts_with = "no_sign_request")]
    profile: Option<String>,

    /// Region of the store, instead of AWS_REGION
    #[arg(long, value_name = "REGION", help_heading = BUCKETS)]
    region: Option<String>,

    /// Send no credentials, as for public buckets
    #[arg(long, help_heading = BUCKETS)]
    no_sign_request: bool,

    /// Send at most this many requests a second
    #[arg(long, value_name = "N", help_heading = BUCKETS, value_parser = a_second)]
    requests_per_second: Option<f64>,

    /// Compute the cost of the requests from this list of prices
    #[arg(long, value_name = "FILE", help_heading = BUCKETS, value_hint = ValueHint::FilePath)]
    prices: Option<PathBuf>,

    /// How long a store may be silent.
    #[arg(skip)]
    timeout: Duration,

    /// Counts what stores are asked for.
    #[arg(skip)]
    meter: Arc<Meter>,
}

/// The same for verbs that ask no hosts.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    buckets: BucketArgs,

    /// Give up on a store that does not answer for this long
    #[arg(long, value_name = "DURATION", default_value_t = default_timeout(), help_heading = BUCKETS)]
    timeout: String,
}

impl StoreArgs {
    /// How stores are reached.
    pub(crate) fn buckets(&self) -> Result<BucketArgs, Failure> {
        Ok(BucketArgs { timeout: timeout(&self.timeout)?, ..self.buckets.clone() })
    }

    /// The options that were typed which say where buckets are, with a space before each.
    pub(crate) fn typed(&self) -> String {
        Reach::new(self.buckets.reach().into_iter().filter(|(option, _)| !config::is_untyped(option))).text()
    }
}

fn a_second(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.001..=1e6).contains(number));
    number.ok_or_else(|| "must be a number of 0.001 to 1000000".to_string())
}

/// The variables of the environment that are text.
fn variables() -> impl Iterator<Item = (String, String)> {
    let text = |name: OsString| name.into_string().ok();
    std::env::vars_os().filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
}

/// How objects are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectReading {
    pub(crate) limits: Option<Arc<Limits>>,
    /// How many requests are under way, if that was chosen.
    pub(crate) at_once: Option<usize>,
}

/// Where a manifest is.
pub(super) fn location(option: &'static str, typed: &OsString) -> Result<Location, Failure> {
    match Address::typed(typed) {
        Ok(None) => Ok(Location::File(PathBuf::from(typed))),
        Ok(Some(Address { host: Host::Bucket(bucket), path, .. })) => {
            Ok(Location::Object { bucket, key: String::from_utf8_lossy(&path).into_owned() })
        }
        _ => {
            let typed = without_secrets(typed);
            Err(Failure::value(option, typed.to_string_lossy(), "must be a file or s3://BUCKET/KEY"))
        }
    }
}

impl BucketArgs {
    /// The options that say where buckets are and who asks, with their values.
    pub(super) fn reach(&self) -> Vec<(&'static str, Option<OsString>)> {
        let options =
            [("--endpoint", &self.endpoint), ("--profile", &self.profile), ("--region", &self.region)];
        let options =
            options.into_iter().filter_map(|(option, value)| Some((option, Some(value.as_ref()?.into()))));
        options.chain(self.no_sign_request.then_some(("--no-sign-request", None))).collect()
    }

    /// Hosts, and buckets as these options have it.
    ///
    /// # Errors
    /// There is no list of prices as it is named.
    pub(super) fn opened_by(
        &self,
        hosts: Hosts,
        timeout: Duration,
        (lists, reading): (StoreLists, ObjectReading),
    ) -> Result<Hosts, Failure> {
        self.check()?;
        let arguments = BucketArgs { timeout, ..self.clone() };
        Ok(hosts.with_buckets(Box::new(move |bucket| {
            let mut options = arguments.options(bucket)?;
            options.limits = reading.limits.clone();
            options.at_once = reading.at_once.unwrap_or(options.at_once);
            let place = BucketPlace::open_with_lists(bucket, &options, &lists, &std::env::temp_dir())?;
            Ok(Box::new(place) as Box<dyn Place>)
        })))
    }

    /// Fails if a value that was typed is none that its option takes.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.read_prices()?;
        if let Some(endpoint) = &self.endpoint
            && let Err(OpenError::Endpoint(must)) = require_endpoint(endpoint)
        {
            let shown = without_secrets(OsStr::new(endpoint));
            return Err(Failure::value("--endpoint", shown.to_string_lossy(), must.to_string()));
        }
        match (&self.profile, StoreOptions::from_environment(variables(), self.profile.as_deref())) {
            (Some(_), Err(error @ (OpenError::NoProfile(_) | OpenError::NoKeys(_)))) => {
                Err(Failure::Usage(format!("--profile: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// A bucket.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(&self, bucket: &str) -> Result<BucketPlace, Failure> {
        let opened = self.options(bucket).and_then(|options| BucketPlace::open(bucket, &options));
        opened
            .map_err(|error| not_opened(bucket.to_string(), verisum::remote::OpenError::Bucket(error.into())))
    }

    fn options(&self, bucket: &str) -> Result<StoreOptions, OpenError> {
        let variables = variables();
        let value = |typed: &Option<String>, option: &str| {
            typed.clone().or_else(|| configured_places::of_bucket(bucket, option))
        };
        let profile = if self.no_sign_request { None } else { value(&self.profile, "profile") };
        let mut options = match bucket.starts_with("s3://") {
            true => StoreOptions::from_environment(variables, profile.as_deref())?,
            false => StoreOptions::of_variables(variables),
        };
        // Of several values the last one holds.
        for (field, variable) in
            [("credentials", "GOOGLE_APPLICATION_CREDENTIALS"), ("account", "AZURE_STORAGE_ACCOUNT_NAME")]
        {
            let value = configured_places::of_bucket(bucket, field);
            options.settings.extend(value.map(|value| (variable.to_string(), value)));
        }
        options.endpoint = value(&self.endpoint, "endpoint");
        options.region = value(&self.region, "region");
        let typed = [("endpoint", &self.endpoint), ("region", &self.region), ("profile", &self.profile)];
        let is_typed = |field: &str| typed.iter().any(|(name, value)| *name == field && value.is_some());
        for field in configured_places::fields_of(bucket) {
            if let Some(value) = configured_places::of_bucket(bucket, field).filter(|_| !is_typed(field)) {
                verbosity::how(|| format!("{bucket}: {field} {value} (configuration)"));
            }
        }
        options.unsigned = self.no_sign_request;
        options.requests_per_second = self.requests_per_second;
        options.meter = self.meter.clone();
        options.timeout = self.timeout;
        Ok(options)
    }

    fn read_prices(&self) -> Result<Option<Prices>, Failure> {
        self.prices.as_deref().map(read_prices).transpose()
    }

    /// What stores were asked for so far; none where none was.
    pub(crate) fn costs(&self) -> Option<Costs> {
        // It was readable at the beginning.
        let prices = self.read_prices().ok().flatten();
        Costs::of(&self.meter.usage(), prices.as_ref())
    }
}
