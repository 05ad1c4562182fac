//! Options that the verbs of `verisum image` share: how to hash, and how to read.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use verisum::blockhash::Params;
use verisum::digest::Digest;
use verisum::image::{FORMATS, Follow, ImageFormat};

use crate::ui::failure::Failure;
use crate::ui::hosts::BucketArgs;
use crate::ui::input::HashSettings;
use crate::ui::progress::ProgressArgs;
use crate::ui::{digests, kernel, sizes};

/// What changes the value.
#[derive(Args, Debug)]
pub(crate) struct BlockHashOptions {
    /// The digest; `verisum digests` lists them. `image sum` takes several, with commas between them, and
    /// reads the image once
    #[arg(short, long, value_name = "DIGEST", default_value = "sha256")]
    algorithm: String,

    /// The block size: 65536, 64k or 64KiB; it changes the value, except for digests that have their own,
    /// such as dmverity
    #[arg(long, value_name = "N", default_value = "64k")]
    block_size: String,
}

impl BlockHashOptions {
    /// The digest and the block size in bytes.
    pub(crate) fn parse(&self) -> Result<(Digest, u32), Failure> {
        match self.algorithm.contains(',') {
            true => Err(Failure::value("--algorithm", &self.algorithm, "must be one digest here")),
            false => self.parse_one(&self.algorithm),
        }
    }

    /// The same of several digests.
    pub(super) fn parse_all(&self) -> Result<Vec<(Digest, u32)>, Failure> {
        self.algorithm.split(',').map(|algorithm| self.parse_one(algorithm)).collect()
    }

    fn parse_one(&self, algorithm: &str) -> Result<(Digest, u32), Failure> {
        let digest = digests::find(algorithm, &kernel::policy()?)?;
        let typed = sizes::block_size(&self.block_size)?;
        let own = digest.blocks().and_then(|blocks| u32::try_from(blocks.length).ok());
        Ok((digest, own.filter(|own| own.is_multiple_of(2)).unwrap_or(typed)))
    }
}

/// How an image is opened and read.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadOptions {
    #[command(flatten)]
    threads: sizes::ThreadArgs,

    #[command(flatten)]
    pub(crate) open: OpenOptions,

    #[command(flatten)]
    progress: ProgressArgs,
}

/// What an image is taken for.
#[derive(Args, Clone, Debug)]
pub(crate) struct OpenOptions {
    // No `-c`: that is for checking, as in sha256sum.
    /// Read through the page cache instead of past it
    #[arg(long)]
    cache: bool,

    /// Use exactly the bytes of the image; without it, zeros fill up the last sector of 512 bytes
    #[arg(long)]
    exact: bool,

    /// The format of the image: auto detects it, raw takes the bytes of the file itself
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = format_parser())]
    format: FormatArg,

    /// Which of the files that an image refers to may be opened
    #[arg(long, value_enum, default_value_t)]
    follow: Follow,

    /// Use a snapshot inside the image, by its name or identifier, instead of its current state
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,

    /// How images in buckets are reached; none where they are not taken.
    #[arg(skip)]
    pub(crate) buckets: Option<BucketArgs>,
}

impl ReadOptions {
    /// From what was typed to what hashing `count` inputs takes. Nothing is read before all of it is found
    /// good.
    pub(crate) fn settings(
        &self,
        digest: Digest,
        block_size: u32,
        count: usize,
    ) -> Result<HashSettings, Failure> {
        let params =
            Params::new(digest).block_size(block_size).map_err(|error| Failure::Usage(error.to_string()))?;
        self.settings_with(params, count)
    }

    /// The same for one of several images: of this format and snapshot, where they are given.
    pub(super) fn of_side(&self, format: Option<FormatArg>, snapshot: Option<String>) -> ReadOptions {
        ReadOptions { open: self.open.of_side(format, snapshot), ..self.clone() }
    }

    /// As [`settings`](ReadOptions::settings), with a digest and a block size that are known.
    pub(crate) fn settings_with(&self, params: Params, count: usize) -> Result<HashSettings, Failure> {
        Ok(HashSettings {
            threads: self.threads.number()?,
            progress: self.progress.show(),
            is_one_of_many: count > 1,
            ..self.open.settings(params)
        })
    }
}

impl OpenOptions {
    /// How to open an image, and to hash it without progress on as many threads as there are cores.
    pub(crate) fn settings(&self, params: Params) -> HashSettings {
        HashSettings {
            cache: self.cache,
            pad_files: !self.exact,
            pad_streams: !self.exact,
            format: self.format.0,
            follow: self.follow,
            snapshot: self.snapshot.clone(),
            buckets: self.buckets.clone(),
            ..HashSettings::new(params)
        }
    }

    fn of_side(&self, format: Option<FormatArg>, snapshot: Option<String>) -> OpenOptions {
        let mut options = self.clone();
        options.format = format.unwrap_or(self.format);
        options.snapshot = snapshot.or_else(|| self.snapshot.clone());
        options
    }

    /// The snapshot that is asked for.
    pub(super) fn snapshot(&self) -> Option<&str> {
        self.snapshot.as_deref()
    }

    /// Whether the format is told by its bytes.
    pub(crate) fn detects(&self) -> bool {
        self.format.0.is_none()
    }
}

/// What the bytes of an image file mean; `None` for what they look like.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormatArg(Option<ImageFormat>);

/// `auto` and all formats.
pub(super) fn format_parser() -> impl TypedValueParser<Value = FormatArg> {
    let formats = FORMATS.iter().map(|row| PossibleValue::new(row.name).aliases(row.aliases.iter().copied()));
    let values = [PossibleValue::new("auto")].into_iter().chain(formats);
    PossibleValuesParser::new(values).map(|name| FormatArg(ImageFormat::find(&name)))
}
