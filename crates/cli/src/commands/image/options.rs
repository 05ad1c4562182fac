//! What the verbs of `verisum image` have in common: how to hash, and how to read.

use clap::{Args, ValueEnum};
use verisum_blockhash::Params;
use verisum_digest::Digest;

use crate::failure::Failure;
use crate::input::{Formats, How};
use crate::render::progress::Wanted;
use crate::{digests, kernel, sizes};

/// What changes the value.
#[derive(Args, Debug)]
pub(crate) struct HashOptions {
    /// The digest; `verisum digests` lists them
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// The block size in bytes, or with k, M or G in their multiples of 1024; it changes the value
    #[arg(long, value_name = "N", default_value = "64k")]
    block_size: String,
}

impl HashOptions {
    /// The digest and the block size in bytes.
    pub(crate) fn parse(&self) -> Result<(Digest, u32), Failure> {
        let digest = digests::find(&self.algorithm, &kernel::policy()?)?;
        Ok((digest, sizes::block_size(&self.block_size)?))
    }
}

/// How an image is opened and read.
#[derive(Args, Debug)]
pub(crate) struct ReadOptions {
    /// Workers, 1 to 128; without it, as many as this process may use cores
    #[arg(short, long, value_name = "N")]
    threads: Option<String>,

    // No `-c`: that is for checking, as in sha256sum, once there is something to check.
    /// Read through the page cache instead of past it
    #[arg(long)]
    cache: bool,

    /// Hash exactly the bytes that are there, also if they are not whole sectors of 512
    #[arg(long)]
    exact: bool,

    /// What the files are: raw hashes the bytes of the files themselves
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Show progress on standard error, if that is a terminal
    #[arg(short, long)]
    progress: bool,
}

impl ReadOptions {
    /// From what was typed to what hashing `count` inputs takes. Nothing is read before all of it is found
    /// good.
    pub(crate) fn how(&self, digest: Digest, block_size: u32, count: usize) -> Result<How, Failure> {
        let params =
            Params::new(digest).block_size(block_size).map_err(|error| Failure::Usage(error.to_string()))?;
        let formats = match self.format {
            Format::Auto => Formats::All,
            Format::Raw => Formats::Raw,
        };
        Ok(How {
            params,
            threads: self.threads.as_deref().map(sizes::threads).transpose()?,
            cache: self.cache,
            pad_files: !self.exact,
            pad_streams: !self.exact,
            formats,
            stdin_formats: formats,
            progress: match (self.progress, count) {
                (false, _) => Wanted::No,
                (true, 0 | 1) => Wanted::Yes,
                (true, _) => Wanted::Named,
            },
        })
    }
}

/// What the bytes of an image file mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Raw, unless the first bytes are those of another format, which is refused
    #[default]
    Auto,
    /// Raw
    Raw,
}
