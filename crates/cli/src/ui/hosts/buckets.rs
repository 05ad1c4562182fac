//! How buckets are reached: options, and the usual variables of the environment.

use clap::Args;
use verisum::files::place::Place;
use verisum::object::{BucketPlace, StoreOptions};
use verisum::remote::Hosts;

/// The heading of these options in help texts.
const BUCKETS: &str = "Files in buckets (s3://BUCKET/PREFIX)";

/// How to reach buckets. Credentials are no options: others can read those.
#[derive(Args, Clone, Debug)]
pub(crate) struct BucketArgs {
    /// Address of the store, instead of AWS_ENDPOINT_URL or that of AWS
    #[arg(long, value_name = "URL", help_heading = BUCKETS)]
    endpoint: Option<String>,

    /// Profile of the AWS tools whose keys to use, instead of those of the environment
    #[arg(long, value_name = "NAME", help_heading = BUCKETS, conflicts_with = "no_sign_request")]
    profile: Option<String>,

    /// Region of the store, instead of AWS_REGION
    #[arg(long, value_name = "REGION", help_heading = BUCKETS)]
    region: Option<String>,

    /// Ask without credentials, as for public buckets
    #[arg(long, help_heading = BUCKETS)]
    no_sign_request: bool,
}

impl BucketArgs {
    /// Hosts, and buckets as these options have it.
    pub(super) fn opened_by(&self, hosts: Hosts, timeout: u32) -> Hosts {
        let arguments = self.clone();
        hosts.with_buckets(Box::new(move |bucket| {
            let text = |name: std::ffi::OsString| name.into_string().ok();
            let variables = std::env::vars_os().filter_map(|(name, value)| Some((text(name)?, text(value)?)));
            let options = StoreOptions::from_environment(variables, arguments.profile.as_deref());
            let mut options = options.map_err(|error| error.to_string())?;
            options.endpoint.clone_from(&arguments.endpoint);
            options.region.clone_from(&arguments.region);
            options.unsigned = arguments.no_sign_request;
            options.timeout = timeout;
            let place = BucketPlace::open(bucket, &options).map_err(|error| error.to_string())?;
            Ok(Box::new(place) as Box<dyn Place>)
        }))
    }
}
