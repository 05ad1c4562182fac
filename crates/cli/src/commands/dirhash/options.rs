//! Options that several verbs of dirhash share.

use clap::Args;
use verisum_bench::stats;
use verisum_dirhash::Hashing;
use verisum_dirhash::htree::{Geometry, RemovalPolicy, SplitRule};
use verisum_dirhash::namehash::{NAME_HASHES, NameHash, Seed};
use verisum_dirhash::names::Names;

use crate::ui::failure::Failure;
use crate::ui::sizes;

/// Which hashes, with which seed.
#[derive(Args, Debug)]
pub(crate) struct NameHashOptions {
    /// A hash; may be given several times. `all` is every hash that verisum knows
    #[arg(short = 'a', long, visible_alias = "algorithm", value_name = "HASH")]
    pub(crate) hash: Vec<String>,

    /// The hash seed of a file system, as tools print it; without it, zeros, which ext4 treats as no seed
    #[arg(long, value_name = "UUID")]
    pub(crate) seed: Option<String>,
}

/// The hashes that ext3 chose from.
pub(crate) const THREAD: [&str; 3] = ["legacy", "half_md4", "tea"];

impl NameHashOptions {
    /// The hashes that were named, or else these.
    pub(crate) fn hashings(&self, otherwise: &[&str]) -> Result<Vec<Hashing>, Failure> {
        let seed = self.seed()?;
        let named: Vec<&str> = self.hash.iter().map(String::as_str).collect();
        let names = if named.is_empty() { otherwise } else { &named };
        let mut hashings = Vec::new();
        for name in names {
            if *name == "all" {
                hashings.extend(NAME_HASHES.iter().map(|hash| Hashing { hash, seed }));
            } else {
                hashings.push(Hashing { hash: find(name)?, seed });
            }
        }
        Ok(hashings)
    }

    /// The seed that was given, or zeros.
    pub(crate) fn seed(&self) -> Result<Seed, Failure> {
        let Some(text) = &self.seed else { return Ok(Seed::ZERO) };
        Seed::parse(text).ok_or_else(|| {
            Failure::value("--seed", text, "must be 32 hexadecimal digits, with hyphens or without")
        })
    }
}

/// What an export says of a measurement, whatever the verb: this version, the hashes and their seed.
pub(crate) fn parameters(verb: &str, hashings: &[Hashing]) -> Vec<(&'static str, String)> {
    let hashes: Vec<&str> = hashings.iter().map(|hashing| hashing.hash.id).collect();
    let mut parameters =
        vec![("verisum", env!("CARGO_PKG_VERSION").to_string()), ("command", format!("dirhash {verb}"))];
    if let Some(first) = hashings.first() {
        parameters.push(("hashes", hashes.join(", ")));
        parameters.push(("seed", first.seed.to_string()));
    }
    parameters
}

fn find(name: &str) -> Result<&'static NameHash, Failure> {
    NameHash::find(name).ok_or_else(|| {
        let known: Vec<&str> = NAME_HASHES.iter().map(|hash| hash.id).collect();
        Failure::value("--hash", name, format!("must be all, or one of {}", known.join(", ")))
    })
}

/// What the directory is like.
#[derive(Args, Debug)]
pub(crate) struct TreeOptions {
    /// The block size: 4096, 4k
    #[arg(long, value_name = "N", default_value = "4096")]
    block_size: String,

    /// Blocks end with a checksum, as with the feature metadata_csum
    #[arg(long)]
    checksums: bool,

    /// Three levels of index instead of two, as with the feature large_dir
    #[arg(long)]
    large_dir: bool,

    /// What to do about leaves that become empty; the kernel does nothing
    #[arg(long, value_enum, default_value_t)]
    policy: RemovalPolicy,

    /// Where to split a full leaf: at half of its bytes, as the kernel does, or at half of its names
    #[arg(long, value_enum, default_value_t)]
    split: SplitRule,
}

impl TreeOptions {
    pub(crate) fn geometry(&self) -> Result<Geometry, Failure> {
        let wrong = |must: String| Failure::value("--block-size", &self.block_size, must);
        let bytes = sizes::parse(&self.block_size).ok_or_else(|| wrong(sizes::SIZE.to_string()))?;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Geometry::new(bytes, self.checksums, self.large_dir).map_err(|error| wrong(error.to_string()))
    }

    /// What an export says of it; `modelled` if what is done about leaves matters.
    pub(crate) fn parameters(&self, modelled: bool) -> Result<Vec<(&'static str, String)>, Failure> {
        let yes = |is: bool| if is { "yes" } else { "no" }.to_string();
        let mut parameters = vec![
            ("block size", self.geometry()?.block_size().to_string()),
            ("checksums", yes(self.checksums)),
            ("large_dir", yes(self.large_dir)),
        ];
        if modelled {
            parameters.push(("policy", self.policy().name().to_string()));
            let split = match self.split {
                SplitRule::Size => "size",
                SplitRule::Count => "count",
            };
            parameters.push(("split", split.to_string()));
        }
        Ok(parameters)
    }

    pub(crate) fn policy(&self) -> RemovalPolicy {
        self.policy
    }

    pub(crate) fn split_rule(&self) -> SplitRule {
        self.split
    }
}

/// A corpus by its name, or a pattern.
pub(crate) fn names(text: &str) -> Result<Names, Failure> {
    Names::parse(text)
        .map_err(|error| Failure::value("--names", text, format!("{error}; or maildir, hex, utf8 or camera")))
}

/// Says when rounds are too few for any verdict of a table, whatever was measured.
pub(crate) fn too_few(rounds: usize, comparisons: usize) -> Option<String> {
    let fewest = stats::fewest_rounds_of(comparisons);
    (comparisons > 0 && rounds < fewest).then(|| {
        format!(
            "{rounds} rounds are too few for a verdict: {comparisons} comparisons in one table need {fewest} or more"
        )
    })
}

/// Names that a model keeps in memory: twice as many as the longest directory of blocks of 4 KiB can hold
/// without large_dir.
const MOST_NAMES: u32 = 200_000_000;

/// A number of names for a model.
pub(crate) fn names_in_memory(option: &'static str, number: u32) -> Result<u32, Failure> {
    match at_least_one(option, number)? {
        number if number <= MOST_NAMES => Ok(number),
        _ => Err(Failure::value(
            option,
            number,
            format!("must be at most {MOST_NAMES}: the model keeps every name in memory"),
        )),
    }
}

/// A number above zero.
pub(crate) fn at_least_one(option: &'static str, number: u32) -> Result<u32, Failure> {
    match number {
        0 => Err(Failure::value(option, "0".to_string(), "must be 1 or more")),
        // u32::MAX is the model's mark for `.` and `..`.
        u32::MAX => Err(Failure::value(option, number, "must be below 4294967295")),
        other => Ok(other),
    }
}
