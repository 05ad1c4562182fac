//! Places of the configuration: options for a bucket or a host, by its address.
//!
//! No secrets: those are in the files of the stores' own tools and of ssh, which a place names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::OnceLock;

use toml::de::DeValue;
use verisum::files::place::{PlaceScheme, SCHEMES};
use verisum::remote::{Address, Host};

use super::config_file::{Key, WrongValue};
use super::untyped::Setting;

/// The table of a file that has a table for each place.
pub(crate) const TABLE: &str = "places";

/// The key of what the others hold for.
const ADDRESS: &str = "address";

/// What an address may be.
const FORMS: &str =
    "HOST:PATH, ssh://HOST/PATH, s3://BUCKET, gs://BUCKET, az://CONTAINER or https://HOST/PATH";

/// What a place may have beside its address. Hosts have no scheme, or ssh's.
pub(crate) fn fields_of(address: &str) -> &'static [&'static str] {
    PlaceScheme::of(address.as_bytes()).unwrap_or(SCHEMES[0]).fields
}

/// Places by their names.
pub(crate) type Places = BTreeMap<String, ConfiguredPlace>;

/// How a place is reached.
#[derive(Clone, Debug)]
pub(crate) struct ConfiguredPlace {
    host: Host,
    pub(crate) fields: BTreeMap<String, Setting>,
}

impl ConfiguredPlace {
    /// The file that has it.
    pub(crate) fn source(&self) -> &str {
        &self.fields[ADDRESS].source
    }

    /// Whether another one has the same address, or reaches the same bucket or host in another way: only one of them would
    /// count.
    pub(crate) fn excludes(&self, other: &ConfiguredPlace) -> bool {
        let values = |place: &ConfiguredPlace, key: &str| place.fields.get(key).map(|set| set.values.clone());
        let differs = |key: &&str| values(self, key) != values(other, key);
        let address = &self.fields[ADDRESS].values[0];
        self.host == other.host && (!differs(&ADDRESS) || fields_of(address).iter().any(differs))
    }
}

/// Those of this run.
static PLACES: OnceLock<Places> = OnceLock::new();

/// A place, by its table in a file.
pub(super) fn place(source: &str, place: Key, value: DeValue) -> Result<ConfiguredPlace, WrongValue> {
    let DeValue::Table(table) = value else { return Err(format!("must be a table, [{TABLE}.NAME]").into()) };
    let mut fields: BTreeMap<String, Setting> = BTreeMap::new();
    for (key, value) in table {
        let line = Some(place.line_of(key.span().start));
        let key = key.into_inner().into_owned();
        let DeValue::String(text) = value.into_inner() else {
            return Err(WrongValue { why: format!("{key}: must be a text"), line });
        };
        let setting = Setting { values: vec![text.into_owned()], source: source.to_string(), line };
        fields.insert(key, setting);
    }
    let Some(Setting { values, line, .. }) = fields.get(ADDRESS) else {
        return Err(format!("{ADDRESS} is missing: {FORMS}").into());
    };
    let (address, line) = (&*values[0], *line);
    let wrong = |must: &str| WrongValue { why: format!("{ADDRESS}: {must}"), line };
    let parsed = Address::parse(OsStr::new(address), true).map_err(|must| wrong(&must.to_string()))?;
    if parsed.host == Host::Local {
        return Err(wrong(&format!("must be that of a bucket or another machine: {FORMS}")));
    }
    let known = fields_of(address);
    match fields.iter().find(|(key, _)| *key != ADDRESS && !known.contains(&key.as_str())) {
        Some((key, setting)) => {
            let why = format!("{key}: such a place has {}", [&[ADDRESS], known].concat().join(", "));
            Err(WrongValue { why, line: setting.line })
        }
        None => Ok(ConfiguredPlace { host: parsed.host, fields }),
    }
}

/// Has these places known to whoever opens one.
pub(crate) fn know(places: &Places) {
    let _ = PLACES.set(places.clone());
}

/// The addresses of all places.
pub(crate) fn addresses() -> Vec<String> {
    let places = PLACES.get().into_iter().flat_map(BTreeMap::values);
    places.filter_map(|place| Some(place.fields.get(ADDRESS)?.values[0].clone())).collect()
}

/// What the configuration says of a host or a bucket: a field of a place that is there.
pub(crate) fn of(host: &Host, field: &str) -> Option<String> {
    let mut places = PLACES.get()?.values().filter(|place| place.host == *host);
    Some(places.find_map(|place| place.fields.get(field))?.values[0].clone())
}

/// The same for a bucket by its URL.
pub(crate) fn of_bucket(bucket: &str, field: &str) -> Option<String> {
    of(&Host::Bucket(bucket.to_string()), field)
}
