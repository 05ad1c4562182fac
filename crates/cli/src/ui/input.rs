//! Opens an input and computes its block hash.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rustix::io::Errno;
use verisum::PlaceImageError;
use verisum::blockhash::{
    BlockHashError, DigestSink, ImageProgress, ONE_THREAD_BYTES, Params, digest_image, digest_stream,
    digests_of_image, digests_of_stream, hash_image, hash_image_to, hash_stream, hash_stream_to,
};
use verisum::digest::Output;
use verisum::files::place::PlaceError;
use verisum::image::{
    Detect, Follow, Image, ImageFormat, ImageOperation, OpenOptions, Opened, Stream, is_nbd_uri,
};
use verisum::remote::{Address, Host};

use crate::ui::PROGRAM;
use crate::ui::closed_streams;
use crate::ui::failure::Failure;
use crate::ui::hosts::{BucketArgs, Costs, refuse_urls};
use crate::ui::sizes::usable_cores;
use crate::ui::{self, names, progress};

/// So many threads read an image in a bucket: each waits for a store most of the time.
const BUCKET_THREADS: usize = 16;

/// A virtual machine reads its disk in sectors of so many bytes.
pub(crate) const SECTOR: u64 = 512;

/// What to hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Standard input.
    Stdin,
    /// A file, block device or pipe by its name, or an export of an NBD server by its address.
    Named(OsString),
}

impl Input {
    /// The input of this name; `-` is standard input.
    pub(crate) fn new(name: OsString) -> Input {
        if name == "-" { Input::Stdin } else { Input::Named(name) }
    }

    /// The same as a user typed it: URLs are addresses of exports of NBD servers, and with `in_buckets` of objects.
    pub(crate) fn typed(name: OsString, in_buckets: bool) -> Result<Input, Failure> {
        let is_object =
            |name| matches!(Address::typed(name), Ok(Some(Address { host: Host::Bucket(_), .. })));
        let is_taken = is_nbd_uri(&name) || in_buckets && is_object(&name);
        if !is_taken {
            refuse_urls([&name])?;
        }
        Ok(Input::new(name))
    }

    /// Its name in results.
    pub(crate) fn name(&self) -> &OsStr {
        match self {
            Input::Stdin => OsStr::new("-"),
            Input::Named(name) => name,
        }
    }

    /// Its name in messages, as the image library gives it.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Input::Stdin => PathBuf::from("standard input"),
            Input::Named(name) => PathBuf::from(name),
        }
    }
}

/// The settings by which inputs are opened and hashed.
#[derive(Clone, Debug)]
pub(crate) struct HashSettings {
    /// The name at the start of messages.
    pub(crate) program: &'static str,
    /// Digest and block size.
    pub(crate) params: Params,
    /// Workers; `None` for as many as this process may use cores.
    pub(crate) threads: Option<usize>,
    /// Read through the page cache.
    pub(crate) cache: bool,
    /// Pad what has a name to whole sectors if it has a length, as a guest sees it.
    pub(crate) pad_files: bool,
    /// Pad standard input and pipes too.
    pub(crate) pad_streams: bool,
    /// The format; `None` for what the bytes look like.
    pub(crate) format: Option<ImageFormat>,
    /// Which formats are looked for in what has a name.
    pub(crate) detect: Detect,
    /// Which formats are looked for in standard input.
    pub(crate) stdin_detect: Detect,
    /// Which of the files that an image names are opened.
    pub(crate) follow: Follow,
    /// A snapshot inside the image.
    pub(crate) snapshot: Option<String>,
    /// How images in buckets are reached; none where no name is the address of one.
    pub(crate) buckets: Option<BucketArgs>,
    /// Draw progress.
    pub(crate) progress: progress::ShowProgress,
    /// Progress names the input.
    pub(crate) is_one_of_many: bool,
}

/// A block hash and what it is of.
#[derive(Debug)]
pub(crate) struct Sum {
    pub(crate) digest: Output,
    /// Length in bytes of the message, padding included.
    pub(crate) length: u64,
    /// How many zeros were added at its end.
    pub(crate) padded: u64,
    /// Whether somebody may have written to the file meanwhile.
    pub(crate) modified: bool,
}

/// Computes the block hash of an input.
pub(crate) fn sum(input: &Input, settings: &HashSettings) -> Result<Sum, Failure> {
    sum_opened(input, &mut open(input, settings)?, settings, None)
}

/// The same by each of several ways that differ in the digest and the block size only, in one read.
pub(crate) fn sums(input: &Input, all_settings: &[HashSettings]) -> Result<Vec<Sum>, Failure> {
    let (settings, others) = match all_settings {
        [settings] => return Ok(vec![sum(input, settings)?]),
        [] => return Ok(Vec::new()),
        [settings, others @ ..] => (settings, others),
    };
    let mut opened = open(input, settings)?;
    let length = match &opened {
        Opened::Image(image) => Some(image.length()),
        Opened::Stream(_) => None,
    };
    let each = std::iter::once(settings).chain(others).map(|settings| settings.params(input, length));
    let each = each.collect::<Result<Vec<_>, _>>()?;
    let work = |progress: &ImageProgress| match &mut opened {
        Opened::Image(image) => {
            Ok((digests_of_image(&**image, &each, progress)?, image.length(), image.padded_by()))
        }
        Opened::Stream(stream) => {
            let (digests, length) = digests_of_stream(stream, &each, progress)?;
            Ok((digests, length, stream.padded_by()))
        }
    };
    let (digests, length, padded) =
        progress::of_image(settings.progress, settings.name_of(input), length, work)
            .map_err(|e| failed(input, e))?;
    let modified = match &opened {
        Opened::Image(image) => image.modified_during(),
        Opened::Stream(_) => false,
    };
    Ok(digests.into_iter().map(|digest| Sum { digest, length, padded, modified }).collect())
}

/// Computes the block hash of an input that is open, and gives the digest of each block to `sink`.
pub(crate) fn sum_opened(
    input: &Input,
    opened: &mut Opened,
    settings: &HashSettings,
    sink: Option<&mut dyn DigestSink>,
) -> Result<Sum, Failure> {
    match opened {
        Opened::Image(image) => sum_image(input, &**image, settings, sink),
        Opened::Stream(stream) => sum_stream(input, stream, settings, sink),
    }
}

/// Opens an input, and says what its user should know of it.
pub(crate) fn open(input: &Input, settings: &HashSettings) -> Result<Opened, Failure> {
    let options = settings.open_options(input);
    let opened = match input {
        Input::Stdin if closed_streams::standard_input() => {
            return Err(verisum::image::ImageError::io(
                &input.path(),
                ImageOperation::Open,
                Errno::BADF.into(),
            )
            .into());
        }
        Input::Stdin => verisum::image::open_stdin(&options)?,
        Input::Named(name) if settings.is_in_bucket(name) => {
            Opened::Image(in_bucket(name, settings, &options)?)
        }
        Input::Named(name) => verisum::image::open_named(name, &options)?,
    };
    if let Opened::Image(image) = &opened {
        for layer in image.layers() {
            for warning in &layer.warnings {
                let name = names::quoted(&layer.name);
                ui::say(settings.program, &format!("{name}: WARNING: {}", names::plain(warning)));
            }
        }
    }
    Ok(opened)
}

/// Opens an image in a bucket.
fn in_bucket(
    name: &OsStr,
    settings: &HashSettings,
    options: &OpenOptions,
) -> Result<Box<dyn Image>, Failure> {
    let failed = |why: String| Failure::Program { name: name.to_string_lossy().into_owned(), why };
    let (Some(buckets), Ok(Some(Address { host: Host::Bucket(bucket), path, .. }))) =
        (&settings.buckets, Address::typed(name))
    else {
        return Err(failed("it is no address of an object".to_string()));
    };
    buckets.check()?;
    let mut place = buckets.open(&bucket)?;
    verisum::open_image(&mut place, &path, name, options).map_err(|error| match error {
        PlaceImageError::Image(error) => error.into(),
        PlaceImageError::Place(PlaceError::File(error)) => failed(error.reason().message()),
        error => failed(error.to_string()),
    })
}

fn sum_image(
    input: &Input,
    image: &dyn Image,
    settings: &HashSettings,
    sink: Option<&mut dyn DigestSink>,
) -> Result<Sum, Failure> {
    let length = image.length();
    let params = settings.params(input, Some(length))?;
    let work = |progress: &ImageProgress| match sink {
        Some(sink) => hash_image_to(image, &params, progress, sink),
        None if settings.is_made() => digest_image(image, &params, progress),
        None => hash_image(image, &params, progress),
    };
    let digest = progress::of_image(settings.progress, settings.name_of(input), Some(length), work)
        .map_err(|e| failed(input, e))?;
    Ok(Sum { digest, length, padded: image.padded_by(), modified: image.modified_during() })
}

fn sum_stream(
    input: &Input,
    stream: &mut Stream,
    settings: &HashSettings,
    sink: Option<&mut dyn DigestSink>,
) -> Result<Sum, Failure> {
    let params = settings.params(input, None)?;
    let work = |progress: &ImageProgress| match sink {
        Some(sink) => hash_stream_to(stream, &params, progress, sink),
        None if settings.is_made() => digest_stream(stream, params.digest(), progress),
        None => hash_stream(stream, &params, progress),
    };
    let (digest, length) = progress::of_image(settings.progress, settings.name_of(input), None, work)
        .map_err(|e| failed(input, e))?;
    Ok(Sum { digest, length, padded: stream.padded_by(), modified: false })
}

impl HashSettings {
    /// Whether a name is the address of an object, where these are taken.
    pub(crate) fn is_in_bucket(&self, name: &OsStr) -> bool {
        self.buckets.is_some()
            && matches!(Address::typed(name), Ok(Some(Address { host: Host::Bucket(_), .. })))
    }

    /// What stores were asked for; none where none was.
    pub(crate) fn costs(&self) -> Option<Costs> {
        self.buckets.as_ref()?.costs()
    }

    /// Tells what stores were asked for.
    pub(crate) fn tell_costs(&self, json: bool, output: &mut ui::Output) -> Result<(), Failure> {
        match self.costs() {
            Some(costs) if json => output.json("costs", &costs),
            Some(costs) => {
                ui::say(self.program, &costs.text());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Whether the digest is made of blocks itself: then an image has that, and no block hash by it.
    pub(crate) fn is_made(&self) -> bool {
        self.params.digest().blocks().is_some()
    }

    /// What progress calls the input.
    pub(crate) fn name_of<'i>(&self, input: &'i Input) -> Option<&'i OsStr> {
        self.is_one_of_many.then(|| input.name())
    }

    /// As a guest sees the image, without progress, on as many threads as there are cores.
    pub(crate) fn new(params: Params) -> HashSettings {
        HashSettings {
            program: PROGRAM,
            params,
            threads: None,
            cache: false,
            pad_files: true,
            pad_streams: true,
            format: None,
            detect: Detect::All,
            stdin_detect: Detect::All,
            follow: Follow::SameDir,
            snapshot: None,
            buckets: None,
            progress: progress::ShowProgress::Never,
            is_one_of_many: false,
        }
    }

    /// How to open an input.
    pub(crate) fn open_options(&self, input: &Input) -> OpenOptions {
        let is_stdin = *input == Input::Stdin;
        let mut options = OpenOptions::default();
        options.cache = self.cache;
        options.sector_padding = if is_stdin { self.pad_streams } else { self.pad_files };
        options.stream_padding = self.pad_streams;
        options.format = self.format;
        options.detect = if is_stdin { self.stdin_detect } else { self.detect };
        options.follow = self.follow;
        options.snapshot = self.snapshot.clone();
        options
    }

    /// The parameters for an input of this length.
    pub(crate) fn params(&self, input: &Input, length: Option<u64>) -> Result<Params, Failure> {
        let threads = match self.threads {
            Some(threads) => threads,
            None if length.is_some_and(|length| length <= ONE_THREAD_BYTES) => 1,
            None if self.is_in_bucket(input.name()) => BUCKET_THREADS.max(usable_cores()),
            None => usable_cores(),
        };
        self.params.clone().threads(threads).map_err(|error| failed(input, error))
    }
}

/// Says on standard error that an image was written to meanwhile.
pub(crate) fn warn_modified(input: &Input) {
    let name = names::quoted(input.path().as_os_str());
    let warning = "WARNING: it was written to while it was read: the value may fit no state of it";
    ui::say(PROGRAM, &format!("{name}: {warning}"));
}

/// The failure of hashing an input.
pub(crate) fn failed(input: &Input, error: BlockHashError) -> Failure {
    match error {
        BlockHashError::Image(error) => Failure::Image(error),
        BlockHashError::Map(error) => Failure::Map(error),
        error => Failure::Hash { name: input.path(), error },
    }
}
