//! The library alone: input × threads × sync or async × digest, block sizes, queue sizes.

use clap::Args;
use verisum::digest::{Digest, Policy};
use verisum_bench::images::{BUFFER, ImageInput, Settings};
use verisum_bench::measure::About;

use super::{FoundSubject, missing, session_measure};
use crate::commands::bench::Session;
use crate::ui::failure::Failure;
use crate::ui::{digests, sizes};

/// What is measured of the library.
#[derive(Args, Debug)]
pub(super) struct LibraryArgs {
    /// Numbers of threads for the library; without it 1, 2, 4 and so on, up to one for each core
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    threads: Vec<String>,

    /// Block sizes for the library
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "4k,16k,64k,256k,1M")]
    block_size: Vec<String>,

    /// Queue sizes for the library: bytes in flight, in updates of 256k
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "1M,2M,4M,8M")]
    queue_size: Vec<String>,

    /// Bytes of data in each run of the library; runs of zeros have 4 times as many, runs of holes 1024 times
    /// as many. Without it, 128M, but no more than --size
    #[arg(long, value_name = "SIZE")]
    input_size: Option<String>,
}

/// The block size where others are not compared, in bytes.
const BLOCK: u32 = 64 * 1024;

/// Bytes of data where nobody says how many.
const USUAL: u64 = 128 << 20;

/// Bytes of an update, as blkhash-bench has them.
const READ: usize = 256 * 1024;

/// Updates on their way where others are not compared.
const DEPTH: usize = 16;

impl LibraryArgs {
    /// Measures the library; `most_bytes` is the most of data where nobody says how much.
    pub(super) fn measure(
        &self,
        digest: &Digest,
        most_bytes: Option<u64>,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let threads = match self.threads.is_empty() {
            true => doubling(sizes::usable_cores()),
            false => self.threads.iter().map(|text| sizes::threads(text)).collect::<Result<_, _>>()?,
        };
        let blocks: Vec<u32> =
            self.block_size.iter().map(|text| sizes::block_size(text)).collect::<Result<_, _>>()?;
        let size = |option: &'static str, text: &str, least: u64| {
            let size = sizes::parse(text).filter(|size| (least..=1 << 40).contains(size));
            size.ok_or_else(|| {
                Failure::value(option, text, format!("must be a size from {} to 1T", sizes::human(least)))
            })
        };
        let bytes = match &self.input_size {
            Some(text) => size("--input-size", text, BUFFER as u64)?,
            None => USUAL.min(most_bytes.unwrap_or(USUAL)).max(BUFFER as u64),
        };
        let queues: Vec<u64> = self
            .queue_size
            .iter()
            .map(|text| size("--queue-size", text, READ as u64))
            .collect::<Result<_, _>>()?;
        let groups = groups(digest, bytes, &threads, &blocks, &queues)?;
        let amount = session.plan.amount;
        if let verisum_bench::measure::MeasureAmount::Time(time) = amount {
            session.plan.amount = verisum_bench::measure::MeasureAmount::Time(time / groups.len() as u32);
        }
        for rows in groups {
            if session.stopped() {
                session.skip_unreached(rows.first().map(|(about, _)| (about.group.as_str(), "every row")));
                continue;
            }
            session_measure(session, subjects(rows));
        }
        session.note(
            "library: bytes in memory that a cache of the second level holds, all of a kind, so that nothing but \
             hashing is seen; each run makes the hasher and its threads",
        );
        Ok(())
    }
}

/// The rows to measure, group by group: each input with each number of threads, then block sizes, then queue sizes.
fn groups(
    digest: &Digest,
    bytes: u64,
    threads: &[usize],
    blocks: &[u32],
    queues: &[u64],
) -> Result<Vec<Vec<(About, Settings)>>, Failure> {
    let most = threads.iter().copied().max().unwrap_or(1);
    let null = digests::find("null", &Policy::default())?;
    let mut all = vec![digest.clone()];
    if digest.name() != "blake3" {
        all.push(digests::find("blake3", &Policy::default())?);
    }
    let settings = |digest: &Digest, input, threads| Settings {
        input,
        size: match input {
            ImageInput::Data => bytes,
            ImageInput::Zero => bytes * 4,
            ImageInput::Hole => bytes * 1024,
        },
        digest: digest.clone(),
        block_size: BLOCK,
        threads,
        queue_depth: None,
        read_size: READ,
    };
    let mut groups = Vec::new();
    for digest in &all {
        for input in ImageInput::ALL {
            let group = format!("library, {}: {}", digest.name(), input.name());
            let mut rows = Vec::new();
            for &threads in threads {
                let settings = settings(digest, input, threads);
                let name = |how: &str| About::new(&group, format!("{how}, threads: {threads}"));
                // Of a hole there is nothing that could be on its way.
                if input != ImageInput::Hole {
                    let queued = Settings { queue_depth: Some(DEPTH), ..settings.clone() };
                    rows.push((name("async"), queued));
                }
                rows.push((name("sync"), settings));
            }
            // To know zeros they are looked at: that has a rate, and is no digest either.
            let none = if input == ImageInput::Zero { "finding zeros, no digest" } else { "null digest" };
            rows.extend(threads.iter().map(|&threads| {
                let about = About::new(&group, format!("{none}, threads: {threads}")).control();
                (about, settings(&null, input, threads))
            }));
            groups.push(rows);
        }
    }
    let data = settings(digest, ImageInput::Data, most);
    let group = format!("library, {}: block sizes, threads: {most}", digest.name());
    let row = |&block_size| {
        (About::new(&group, sizes::human(u64::from(block_size))), Settings { block_size, ..data.clone() })
    };
    groups.push(blocks.iter().map(row).collect());
    let group = format!("library, {}: queue sizes, threads: {most}", digest.name());
    let row = |&queue: &u64| {
        let queue_depth = Some((queue as usize / READ).max(1));
        (About::new(&group, sizes::human(queue)), Settings { queue_depth, ..data.clone() })
    };
    groups.push(queues.iter().map(row).collect());
    Ok(groups)
}

/// Subjects, each of which must compute what one thread computes that waits for every update.
fn subjects<'a>(rows: Vec<(About, Settings)>) -> Vec<FoundSubject<'a>> {
    let mut found: Vec<FoundSubject<'a>> = Vec::new();
    let mut limits: Vec<(String, Settings)> = Vec::new();
    for (about, settings) in rows {
        let has = limits.iter().any(|(_, limit)| limit.threads == settings.threads);
        // Holes are not in memory.
        if !has && settings.input != ImageInput::Hole {
            limits.push((about.group.clone(), settings.clone()));
        }
        let plain = Settings { threads: 1, queue_depth: None, ..settings.clone() };
        // The pseudo digest has no value.
        let expected = match settings.digest.name() {
            "null" => Ok(None),
            _ => plain.value().map(Some),
        };
        let subject = expected.and_then(|expected| settings.subject(about.clone(), expected.as_deref()));
        found.push(subject.or_else(|error| missing(about, error.to_string())));
    }
    // As many bytes, in as much memory, as each number of threads hashes.
    for (group, Settings { size, threads, .. }) in limits {
        let about = About::new(group, format!("read memory, threads: {threads}"));
        found.push(super::read_memory(
            about.label("threads", threads.to_string()),
            READ as u64,
            size,
            threads,
        ));
    }
    found
}

/// 1, 2, 4 and so on, and the last.
fn doubling(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count < most).collect();
    counts.push(most);
    counts
}

#[cfg(test)]
mod tests {
    #[test]
    fn threads_double() {
        assert_eq!(super::doubling(1), [1]);
        assert_eq!(super::doubling(2), [1, 2]);
        assert_eq!(super::doubling(6), [1, 2, 4, 6]);
    }
}
