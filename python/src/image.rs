//! Block hashes of disk images.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::PlaceImageError;
use verisum::blockhash::{
    BlockHashError, DigestSink, ImageProgress, MAX_THREADS, Params, hash_image_to, hash_stream_to,
};
use verisum::digest::{Digest, Output};
use verisum::files::place::PlaceError;
use verisum::files::store::manifest::Listed;
use verisum::files::{self, Operation, Stop};
use verisum::image::{ImageFormat, OpenOptions, Opened, is_nbd_uri, open_named};
use verisum::remote::Address;

use crate::arguments::{Callback, FsPath};
use crate::digests::hex;
use crate::errors::{self, Failure, Kind};
use crate::hash::find;
use crate::hosts::{Hosts, Reach};
use crate::interrupt::{Leftover, abandonable};
use crate::place::{self, is_bucket};

/// A virtual machine reads its disk in sectors of so many bytes.
pub(crate) const SECTOR: u64 = 512;

/// A disk image as a user names it.
pub(crate) struct NamedImage {
    /// Its path, or its address.
    pub(crate) name: PathBuf,
    /// Where it is, if it is in a bucket.
    there: Option<(Address, verisum::remote::Hosts)>,
}

impl NamedImage {
    /// Only text may be an address.
    pub(crate) fn of(py: Python<'_>, named: FsPath, hosts: Option<Hosts>) -> PyResult<NamedImage> {
        let FsPath { path: name, is_text } = named;
        let address = is_text.then(|| Address::typed(name.as_os_str()));
        let address = address.and_then(Result::ok).flatten().filter(|address| is_bucket(&address.host));
        let there = match address {
            Some(address) => Some((address, Reach::of(py, hosts)?.open())),
            None => None,
        };
        Ok(NamedImage { name, there })
    }

    pub(crate) fn open(&self, options: &OpenOptions) -> Result<Opened, Failure> {
        let of_image = |error: verisum::image::ImageError| errors::image_failure(&self.name, &error.into());
        let Some((address, hosts)) = &self.there else {
            return open_named(self.name.as_os_str(), options).map_err(of_image);
        };
        let mut place = place::host(hosts, &address.host)?;
        let opened = verisum::open_image(&mut *place, &address.path, self.name.as_os_str(), options);
        let of_object = |why: String| {
            let message = format!("{}: open: {why}", self.name.display());
            Failure::new(Kind::Image, &message).path(&self.name).operation("open")
        };
        opened.map(Opened::Image).map_err(|error| match error {
            PlaceImageError::Image(error) => of_image(error),
            PlaceImageError::Place(PlaceError::File(error)) => of_object(error.reason().message()),
            PlaceImageError::Place(error) => place::failure(address, &error),
            error => of_object(error.to_string()),
        })
    }
}

#[doc = stub!("ImageSum")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct ImageSum {
    digest: Output,
    algorithm: String,
    block_size: u32,
    length: u64,
    padded: u64,
    modified: bool,
}

getters! { |sum: ImageSum|
    digest: &[u8] = sum.digest.as_bytes();
    hexdigest: String = hex(sum.digest.as_bytes());
    algorithm: &str = &sum.algorithm;
    block_size: u32 = sum.block_size;
    length: u64 = sum.length;
    padded: u64 = sum.padded;
    modified: bool = sum.modified;
}

#[pymethods]
impl ImageSum {
    fn __repr__(&self) -> String {
        format!("<verisum.ImageSum {} of {} bytes: {}>", self.algorithm, self.length, self.digest)
    }
}

#[doc = stub!("image_sum")]
#[pyfunction]
#[pyo3(signature = (path, algorithm="sha256", *, block_size=65536, exact=false, threads=0, hosts=None, progress=None))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn image_sum(
    py: Python<'_>,
    path: FsPath,
    algorithm: &str,
    #[pyo3(from_py_with = crate::arguments::whole)] block_size: u32,
    exact: bool,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<ImageSum> {
    let image = NamedImage::of(py, path, hosts)?;
    let params = params(py, algorithm, block_size, threads)?;
    let done = Arc::new(ImageProgress::default());
    let mut tick = |py: Python<'_>| Callback::tell(progress.as_ref(), py, (done.bytes(),));
    let (counted, how) = (done.clone(), params.clone());
    let summed = abandonable(py, Leftover::Reads, &mut tick, move |stop| {
        let mut opened = image.open(&padding(exact))?;
        let summed = sum_to(&mut opened, &how, &counted, &mut UntilStopped::new(stop));
        summed.map_err(|error| errors::image_failure(&image.name, &error))
    })?;
    let (digest, length, padded, modified) = summed.map_err(|failure| failure.raise(py))?;
    Callback::tell(progress.as_ref(), py, (length,))?;
    Ok(ImageSum {
        digest,
        algorithm: params.digest().name().to_string(),
        block_size,
        length,
        padded,
        modified,
    })
}

/// How blocks are hashed.
pub(crate) fn params(py: Python<'_>, algorithm: &str, block_size: u32, threads: usize) -> PyResult<Params> {
    let threads = if threads == 0 { cores() } else { threads };
    let params = Params::new(find(py, algorithm)?).block_size(block_size);
    params
        .and_then(|params| params.threads(threads))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// How many threads hash where nobody says otherwise.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Digest, length, zeros that were added, and whether somebody may have written meanwhile.
pub(crate) type Summed = (Output, u64, u64, bool);

/// How images are opened: with zeros at their end, up to a whole sector or block, or exactly as they are.
pub(crate) fn padding(exact: bool) -> OpenOptions {
    let mut options = OpenOptions::default();
    (options.sector_padding, options.stream_padding) = (!exact, !exact);
    options
}

fn sum_opened(
    name: &Path,
    params: &Params,
    options: &OpenOptions,
    done: &ImageProgress,
    stop: &Stop,
) -> Result<Summed, BlockHashError> {
    let mut opened = open_named(name.as_os_str(), options)?;
    sum_to(&mut opened, params, done, &mut UntilStopped::new(stop))
}

/// Hashes an image, and gives the digests of its blocks to a sink.
pub(crate) fn sum_to(
    opened: &mut Opened,
    params: &Params,
    done: &ImageProgress,
    sink: &mut dyn DigestSink,
) -> Result<Summed, BlockHashError> {
    match opened {
        Opened::Image(image) => {
            let digest = hash_image_to(&**image, params, done, sink)?;
            Ok((digest, image.length(), image.padded_by(), image.modified_during()))
        }
        Opened::Stream(stream) => {
            let (digest, length) = hash_stream_to(stream, params, done, sink)?;
            Ok((digest, length, stream.padded_by(), false))
        }
    }
}

/// Computes the block hash that a line of a list names, in the way that the line says.
pub(crate) fn listed_sum(folder: &Path, listed: &Listed, stop: &Stop) -> Result<Output, files::FileError> {
    let name = OsStr::from_bytes(&listed.name);
    let path = if is_nbd_uri(name) { PathBuf::from(name) } else { folder.join(name) };
    let failed = |operation, why: String| files::FileError::io(&path, operation, io::Error::other(why));
    let (Some(line), [claim]) = (&listed.block_hash, &listed.claims[..]) else {
        return Err(failed(Operation::Open, "the line has no block hash".to_string()));
    };
    let mut options = padding(false);
    for word in &line.view {
        match (word.as_str(), ImageFormat::find(&word.to_ascii_lowercase())) {
            ("EXACT", _) => (options.sector_padding, options.stream_padding) = (false, false),
            (_, Some(format)) => options.format = Some(format),
            _ => {
                return Err(failed(
                    Operation::Open,
                    format!("this view of an image is not checked here: {word}"),
                ));
            }
        }
    }
    let digest = Digest::find(&claim.algorithm)
        .map_err(|source| files::FileError::Digest { path: path.clone(), source })?;
    let params = Params::new(digest).block_size(line.block_size).and_then(|params| params.threads(cores()));
    let summed =
        params.and_then(|params| sum_opened(&path, &params, &options, &ImageProgress::default(), stop));
    summed.map(|(digest, ..)| digest).map_err(|error| match &error {
        BlockHashError::Image(image) => match &**image {
            verisum::image::ImageError::Io { source, .. } if source.raw_os_error().is_some() => {
                let source = source
                    .raw_os_error()
                    .map_or_else(|| io::Error::other("failed"), io::Error::from_raw_os_error);
                files::FileError::io(&path, Operation::Open, source)
            }
            _ => failed(Operation::Read, error.to_string()),
        },
        _ => failed(Operation::Hash, error.to_string()),
    })
}

/// Ends a block hash when it is time to stop. What error it gives is never seen: whoever asked to stop raises its own.
pub(crate) struct UntilStopped<'a> {
    stop: &'a Stop,
    sink: Option<&'a mut dyn DigestSink>,
}

impl<'a> UntilStopped<'a> {
    pub(crate) fn new(stop: &'a Stop) -> UntilStopped<'a> {
        UntilStopped { stop, sink: None }
    }

    /// The same, where somebody takes the digests.
    pub(crate) fn giving(stop: &'a Stop, sink: &'a mut dyn DigestSink) -> UntilStopped<'a> {
        UntilStopped { stop, sink: Some(sink) }
    }

    fn go_on(&self) -> Result<(), BlockHashError> {
        if self.stop.is_due() { Err(BlockHashError::Finished) } else { Ok(()) }
    }
}

impl DigestSink for UntilStopped<'_> {
    fn digests(&mut self, digests: &[u8]) -> Result<(), BlockHashError> {
        self.go_on()?;
        self.sink.as_mut().map_or(Ok(()), |sink| sink.digests(digests))
    }

    fn zeros(&mut self, blocks: u64) -> Result<(), BlockHashError> {
        self.go_on()?;
        self.sink.as_mut().map_or(Ok(()), |sink| sink.zeros(blocks))
    }
}
