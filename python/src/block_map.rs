//! Block maps: the digest of every block of a disk image.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use verisum::blockhash::{self, ImageProgress, MapWriter, Params, compare_maps, merge_ranges, update_map};
use verisum::digest::Policy;
use verisum::files::{ReplaceError, Replacement, Stop};
use verisum::image::{OpenOptions, Opened};
use verisum::mend::image::require_replaceable;

use crate::arguments::{Callback, FsPath};
use crate::digests::Digests;
use crate::errors::{self, Failure, Kind};
use crate::hosts::Hosts;
use crate::image::{NamedImage, UntilStopped, cores, padding, params, sum_to};
use crate::interrupt::{Leftover, abandonable, interruptible};

/// The digests of one call are at most so many bytes: a small file can claim blocks without end.
const MOST_BYTES: u64 = 1 << 32;

/// After so many it is looked whether Ctrl-C came.
const BLOCKS_AT_ONCE: usize = 1 << 20;

#[doc = stub!("BlockMap")]
#[pyclass(frozen, module = "verisum")]
pub(crate) struct BlockMap(Arc<blockhash::BlockMap>);

getters! { |map: BlockMap|
    algorithm: &str = map.0.params().digest().name();
    digest_size: usize = map.0.params().digest().len();
    block_size: u32 = map.0.params().block_bytes();
    length: u64 = map.0.length();
    data_blocks: u64 = map.0.data_blocks();
    root: &[u8] = map.0.root().as_bytes();
}

impl From<blockhash::BlockMap> for BlockMap {
    fn from(map: blockhash::BlockMap) -> BlockMap {
        BlockMap(Arc::new(map))
    }
}

#[pymethods]
impl BlockMap {
    #[new]
    #[pyo3(signature = (path))]
    fn open(py: Python<'_>, path: FsPath) -> PyResult<BlockMap> {
        let name = path.path;
        let map = py.detach(|| blockhash::BlockMap::open(&name, &Policy::default()));
        map.map(BlockMap::from).map_err(|error| errors::of_image(py, &name, &error))
    }

    #[doc = stub!("BlockMap.create")]
    #[staticmethod]
    #[pyo3(signature = (
        path, image, algorithm="sha256", *, block_size=65536, exact=false, threads=0, hosts=None, progress=None
    ))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn create(
        py: Python<'_>,
        path: FsPath,
        image: FsPath,
        algorithm: &str,
        #[pyo3(from_py_with = crate::arguments::whole)] block_size: u32,
        exact: bool,
        #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
        hosts: Option<Hosts>,
        progress: Option<Callback>,
    ) -> PyResult<BlockMap> {
        let params = params(py, algorithm, block_size, threads)?;
        let image = NamedImage::of(py, image, hosts)?;
        let writing = Writing { path: path.path, image, params, options: padding(exact) };
        written(py, writing, progress, Writing::create)
    }

    #[doc = stub!("BlockMap.update")]
    #[pyo3(signature = (path, image, ranges, *, exact=false, threads=0, hosts=None, progress=None))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn update(
        &self,
        py: Python<'_>,
        path: FsPath,
        image: FsPath,
        #[pyo3(from_py_with = crate::arguments::whole)] ranges: Vec<(u64, u64)>,
        exact: bool,
        #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
        hosts: Option<Hosts>,
        progress: Option<Callback>,
    ) -> PyResult<BlockMap> {
        if let Some((start, end)) = ranges.iter().find(|(start, end)| start > end) {
            return Err(PyValueError::new_err(format!("ranges: {start} is behind {end}")));
        }
        let ranges = merge_ranges(ranges.into_iter().map(|(start, end)| start..end).collect());
        let params = params(py, self.algorithm(), self.block_size(), threads)?;
        let image = NamedImage::of(py, image, hosts)?;
        let writing = Writing { path: path.path, image, params, options: padding(exact) };
        let old = self.0.clone();
        written(py, writing, progress, move |writing, stop, done| writing.update(&old, ranges, stop, done))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.blocks())
            .ok()
            .filter(|len| isize::try_from(*len).is_ok())
            .unwrap_or(isize::MAX as usize)
    }

    #[doc = stub!("BlockMap.digests")]
    #[pyo3(signature = (start=0, stop=None))]
    fn digests(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = crate::arguments::whole)] start: u64,
        #[pyo3(from_py_with = crate::arguments::whole)] stop: Option<u64>,
    ) -> PyResult<Digests> {
        let stop = stop.unwrap_or_else(|| self.0.blocks());
        if start > stop || stop > self.0.blocks() {
            return Err(PyIndexError::new_err(format!("the map has {} blocks", self.0.blocks())));
        }
        let rows = stop - start;
        if rows.saturating_mul(self.digest_size() as u64) > MOST_BYTES {
            return Err(PyValueError::new_err("more than 4 GiB of digests: take them in several calls"));
        }
        let read = interruptible(py, &mut |_| Ok(()), |until| {
            let mut digests = Vec::new();
            for start in (start..stop).step_by(BLOCKS_AT_ONCE) {
                if until.is_due() {
                    return Err(blockhash::BlockHashError::Finished);
                }
                digests.extend(self.0.digests(start..stop.min(start + BLOCKS_AT_ONCE as u64))?);
            }
            Ok(digests)
        })?;
        let digests = read.map_err(|error| errors::of_image(py, self.0.path(), &error))?;
        Ok(Digests::new(digests, rows as usize, self.digest_size()))
    }

    #[doc = stub!("BlockMap.check")]
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let checked = interruptible(py, &mut |_| Ok(()), |stop| self.0.check_while(&|| !stop.is_due()))?;
        checked.map_err(|error| errors::of_image(py, self.0.path(), &error))
    }

    #[doc = stub!("BlockMap.differences")]
    #[pyo3(signature = (other, /))]
    fn differences(&self, py: Python<'_>, other: &Bound<'_, BlockMap>) -> PyResult<Vec<(u64, u64)>> {
        let (one, other) = (self.0.clone(), other.get().0.clone());
        let found =
            abandonable(py, Leftover::Reads, &mut |_| Ok(()), move |_| compare_maps(&one, &other, cores()))?;
        let found = found.map_err(|error| errors::of_image(py, self.0.path(), &error))?;
        Ok(found.into_iter().map(|range| (range.start, range.end)).collect())
    }

    fn __repr__(&self) -> String {
        format!("<verisum.BlockMap {:?}: {} blocks>", self.0.path().to_string_lossy(), self.0.blocks())
    }
}

/// A map that is written, and the image.
struct Writing {
    path: PathBuf,
    image: NamedImage,
    params: Params,
    options: OpenOptions,
}

/// Why a map is not written.
enum WriteError {
    Image(blockhash::BlockHashError),
    Failure(Failure),
    /// A range ends here, behind the end of the image.
    Range(u64),
}

impl From<blockhash::BlockHashError> for WriteError {
    fn from(error: blockhash::BlockHashError) -> WriteError {
        WriteError::Image(error)
    }
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> WriteError {
        WriteError::Failure(failure)
    }
}

impl From<ReplaceError> for WriteError {
    fn from(error: ReplaceError) -> WriteError {
        WriteError::Failure(Failure::new(Kind::Image, &error.to_string()).operation("write"))
    }
}

impl Writing {
    fn replacement(&self, opened: &Opened) -> Result<Replacement, WriteError> {
        require_replaceable(&self.path, &opened.files(self.image.name.clone())).map_err(|error| {
            let message = format!("{}: create: {error}", self.path.display());
            let failure = Failure::new(Kind::Image, &message).path(&self.path).operation("create");
            WriteError::Failure(failure.system(Some(&error)))
        })?;
        Ok(Replacement::new(&self.path)?)
    }

    fn create(&self, stop: &Stop, done: &ImageProgress) -> Result<(), WriteError> {
        let mut opened = self.image.open(&self.options)?;
        let file = self.replacement(&opened)?;
        let mut writer = MapWriter::new(file.file(), &self.path, &self.params)?;
        let sink = &mut UntilStopped::giving(stop, &mut writer);
        let (root, length, ..) = sum_to(&mut opened, &self.params, done, sink)?;
        writer.finish(length, &root)?;
        Ok(file.place()?)
    }

    fn update(
        &self,
        old: &blockhash::BlockMap,
        ranges: Vec<Range<u64>>,
        stop: &Stop,
        done: &ImageProgress,
    ) -> Result<(), WriteError> {
        let opened = self.image.open(&self.options)?;
        let file = self.replacement(&opened)?;
        let Opened::Image(image) = &opened else {
            let message = format!("{}: update: a pipe cannot be read in places", self.image.name.display());
            let failure = Failure::new(Kind::Image, &message).path(&self.image.name).operation("update");
            return Err(WriteError::Failure(failure));
        };
        // What was cut off may be named.
        let length = image.length().max(old.length());
        if let Some(range) = ranges.iter().find(|range| range.end > length) {
            return Err(WriteError::Range(range.end));
        }
        let writer = MapWriter::new(file.file(), &self.path, old.params())?;
        update_map(old, &**image, ranges, &self.params, writer, done, &|| !stop.is_due())?;
        Ok(file.place()?)
    }
}

/// Writes a map, and opens it.
fn written(
    py: Python<'_>,
    writing: Writing,
    progress: Option<Callback>,
    write: impl FnOnce(&Writing, &Stop, &ImageProgress) -> Result<(), WriteError> + Send + 'static,
) -> PyResult<BlockMap> {
    let done = Arc::new(ImageProgress::default());
    let mut tick = |py: Python<'_>| Callback::tell(progress.as_ref(), py, (done.bytes(),));
    let (counted, name) = (done.clone(), writing.image.name.clone());
    let ended = abandonable(py, Leftover::Writes, &mut tick, move |stop| {
        write(&writing, stop, &counted)?;
        Ok(blockhash::BlockMap::open(&writing.path, &Policy::default())?)
    })?;
    ended.map(BlockMap::from).map_err(|error| match error {
        WriteError::Image(error) => errors::of_image(py, &name, &error),
        WriteError::Failure(failure) => failure.raise(py),
        WriteError::Range(end) => {
            PyValueError::new_err(format!("ranges: {end} is behind the end of the image"))
        }
    })
}
