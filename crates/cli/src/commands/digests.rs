//! `verisum digests`: lists every digest, and its implementation on this machine.

mod measure;

use std::fmt::{self, Display, Formatter};

use clap::Args;
use serde::Serialize;
use verisum::digest::{ALGORITHMS, Algorithm, Digest, Level, Policy, block_digests, git_digests};
use verisum_bench::export::{Cell, Report, Table};

use crate::ui::exit::Exit;
use crate::ui::failure::Failure;
use crate::ui::kernel;
use crate::ui::{Output, terminal};

/// What `verisum digests` takes.
#[derive(Args, Debug)]
pub(crate) struct DigestsArgs {
    /// Print a line of JSON for each digest
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure each level with 1 to 40 messages at once, for about a second
    #[arg(
        long,
        long_help = "Measure each level with 1 to 40 messages at once, for about a second. Says if another \
            level is at least 1.25 times as fast as the level that verisum uses. Before you trust a \
            difference, repeat it on an idle machine. Only for digests that verisum's own code hashes side \
            by side"
    )]
    pub(crate) measure: bool,
}

/// Prints the table.
pub(crate) fn run(arguments: &DigestsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let policy = kernel::policy()?;
    if arguments.measure {
        measure::run(&policy, arguments.json, output)?;
        return Ok(Exit::Clean);
    }
    let rows: Vec<DigestRow> =
        ALGORITHMS.iter().map(|algorithm| DigestRow::new(algorithm, &policy)).collect();
    if arguments.json {
        for row in &rows {
            output.json("digest", row)?;
        }
        return Ok(Exit::Clean);
    }
    let mut table = Table::new("", "NAME; BITS; CLASS; STREAM; BATCH; OTHER SPELLINGS");
    rows.iter().for_each(|row| table.row(row.cells()));
    table.notes.push(String::new());
    let unavailable =
        rows.iter().filter_map(|row| Some(format!("{}: {}", row.name, row.unavailable.as_ref()?)));
    table.notes.extend(unavailable);
    let made: Vec<&str> = block_digests().collect();
    let made = format!("Also, made of the hashes of blocks as other systems make them: {}", made.join(", "));
    let git: Vec<&str> = git_digests().collect();
    let git = format!("As git names files: {}", git.join(", "));
    let parts = "Of the parts of an upload to S3, with any digest above: s3-etag:8M, s3-sha256:8M";
    table.notes.extend([made, git, parts.to_string()]);
    table.notes.extend(explanation(&rows));
    let mut report = Report::new("");
    report.tables.push(table);
    output.text(&report.to_terminal(terminal::layout(true)))?;
    Ok(Exit::Clean)
}

/// What the columns mean, by an example that is there.
fn explanation(rows: &[DigestRow]) -> [String; 2] {
    let example = rows.iter().find_map(|row| row.batch.as_ref());
    let example = example.map(|batch| format!(" ({batch}: {} with {})", batch.lanes, batch.level));
    [
        "STREAM: who hashes single messages (shani, sha2, sha3, portable: verisum's own)".to_string(),
        format!("BATCH: verisum's own code for many blocks at once{}", example.unwrap_or_default()),
    ]
}

/// A digest, as JSON has it.
#[derive(Serialize)]
struct DigestRow {
    name: &'static str,
    bits: u32,
    class: &'static str,
    /// Who hashes one message at a time; none if nobody can here.
    stream: Option<&'static str>,
    /// At which level, if it is one of our own kernels.
    stream_level: Option<&'static str>,
    /// How many messages are hashed side by side; none if one at a time.
    batch: Option<BatchProvider>,
    aliases: &'static [&'static str],
    /// The first 32 bits of the digest of digests in docs/digests.md.
    verification: String,
    /// Why nobody can.
    unavailable: Option<String>,
}

#[derive(Serialize)]
struct BatchProvider {
    level: &'static str,
    lanes: usize,
}

impl Display for BatchProvider {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.level, self.lanes)
    }
}

impl DigestRow {
    fn new(algorithm: &'static Algorithm, policy: &Policy) -> DigestRow {
        let digest = Digest::of(algorithm, policy);
        let batch = digest.as_ref().ok().and_then(Digest::batch_level);
        DigestRow {
            name: algorithm.id,
            bits: algorithm.bits,
            class: algorithm.class.name(),
            stream: digest.as_ref().ok().map(Digest::stream_provider),
            stream_level: digest.as_ref().ok().and_then(Digest::stream_level).map(Level::name),
            batch: batch.map(|(level, lanes)| BatchProvider { level: level.name(), lanes }),
            aliases: algorithm.aliases,
            verification: format!("{:08x}", algorithm.verification),
            unavailable: digest.err().map(|error| error.to_string()),
        }
    }

    fn cells(&self) -> [Cell; 6] {
        [
            Cell::text(self.name),
            Cell::Count(self.bits.into()),
            Cell::text(self.class),
            Cell::text(self.stream_level.or(self.stream).unwrap_or("unavailable")),
            Cell::text(self.batch.as_ref().map_or("-".to_string(), BatchProvider::to_string)),
            Cell::text(self.aliases.join(" ")),
        ]
    }
}
