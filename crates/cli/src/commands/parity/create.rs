//! `verisum parity create`: makes parity of a tree.

use clap::Args;
use verisum::parity::CreateOptions;

use super::ParityTreeArgs;
use super::report::{ParityReporter, made_totals};
use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::{Output, sizes};

/// What `verisum parity create` takes.
#[derive(Args, Debug)]
pub(crate) struct ParityCreateArgs {
    /// The share of parity: 5% costs at most 6% of the data, unless files have less than 2 KiB on average. Every
    /// update keeps it
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    redundancy: String,

    /// The most data in a set, 4k to 256M; without it, 64M, or 256M if the tree has 1 GiB or more
    #[arg(long, value_name = "SIZE")]
    set_size: Option<String>,

    #[command(flatten)]
    tree: ParityTreeArgs,
}

pub(super) fn run(arguments: &ParityCreateArgs, output: &mut Output) -> Result<Exit, Failure> {
    arguments.tree.require_directory("create")?;
    let mut options = CreateOptions::default();
    options.redundancy = redundancy(&arguments.redundancy)?;
    options.set_bytes = arguments.set_size.as_deref().map(set_size).transpose()?;
    options.threads = arguments.tree.threads.or_cores()?;
    let (folder, buckets) = arguments.tree.parity()?;
    let tree = &arguments.tree.tree;
    let mut reporter = ParityReporter::new(&arguments.tree, output);
    let ending = arguments.tree.ending(&mut options.stop)?;
    let made = arguments.tree.watch((&options.progress, &ending), || {
        verisum::parity::create(tree, folder, &options, &mut |finding| reporter.take(finding))
    })?;
    reporter.end(&made_totals(&made), buckets.costs())
}

/// A share in per cent, as millionths.
fn redundancy(text: &str) -> Result<u32, Failure> {
    let share: Option<f64> = text.strip_suffix('%').and_then(|share| share.parse().ok());
    let millionths = share.map(|share| (share * 10_000.0).round());
    millionths
        .filter(|share| (1.0..=1_000_000.0).contains(share))
        .map(|share| share as u32)
        .ok_or_else(|| Failure::value("--redundancy", text, "must be a share such as 5%, at most 100%"))
}

fn set_size(text: &str) -> Result<u64, Failure> {
    sizes::parse(text)
        .filter(|bytes| (4 << 10..=256 << 20).contains(bytes))
        .ok_or_else(|| Failure::value("--set-size", text, "must be 4k to 256M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_per_cents() {
        let shares = ["5%", "0.5%", "100%", "0.0001%"].map(|text| redundancy(text).unwrap());
        assert_eq!(shares, [50_000, 5_000, 1_000_000, 1]);
        for bad in ["", "5", "%", "0%", "-5%", "101%", "NaN%", "inf%", "0.00001%"] {
            assert!(redundancy(bad).is_err(), "{bad}");
        }
    }
}
