//! `image_verify`: compares an image with its block map.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use verisum::blockhash::{BlockHashError, BlockMap, ImageProgress, MapComparison};
use verisum::digest::Policy;
use verisum::files::Stop;

use crate::arguments::{Callback, FsPath};
use crate::errors::{Failure, image_failure};
use crate::hosts::Hosts;
use crate::image::{NamedImage, SECTOR, UntilStopped, cores, padding, sum_to};
use crate::interrupt::{Leftover, abandonable};

fields! {
    ImageVerification {
        ranges: Vec<(u64, u64)>,
        block_size: u32,
        length: u64,
        map_length: u64,
        modified: bool,
    }
}

getters! { |found: ImageVerification|
    differing: u64 = found.ranges.iter().map(|(start, end)| end - start).sum();
    equal: bool = found.ranges.is_empty();
    class_: &'static str = if found.ranges.is_empty() { "clean" } else { "mismatch" };
}

#[pymethods]
impl ImageVerification {
    fn __repr__(&self) -> String {
        match self.differing() {
            0 => "<verisum.ImageVerification equal>".to_string(),
            bytes => format!("<verisum.ImageVerification {bytes} bytes differ>"),
        }
    }
}

#[doc = stub!("image_verify")]
#[pyfunction]
#[pyo3(signature = (image, map, *, threads=0, hosts=None, progress=None))]
pub(crate) fn image_verify(
    py: Python<'_>,
    image: FsPath,
    map: FsPath,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<ImageVerification> {
    let (image, map): (_, PathBuf) = (NamedImage::of(py, image, hosts)?, map.path);
    let threads = if threads == 0 { cores() } else { threads };
    let done = Arc::new(ImageProgress::default());
    let mut tick = |py: Python<'_>| Callback::tell(progress.as_ref(), py, (done.bytes(),));
    let counted = done.clone();
    let found = abandonable(py, Leftover::Reads, &mut tick, move |stop| {
        compare(&image, &map, threads, &counted, stop)
    })?;
    let found = found.map_err(|failure| failure.raise(py))?;
    Callback::tell(progress.as_ref(), py, (found.length,))?;
    Ok(found)
}

fn compare(
    image: &NamedImage,
    map: &Path,
    threads: usize,
    done: &ImageProgress,
    stop: &Stop,
) -> Result<ImageVerification, Failure> {
    let of_map = |error: BlockHashError| image_failure(map, &error);
    let of_image = |error: BlockHashError| image_failure(&image.name, &error);
    let map = BlockMap::open(map, &Policy::default()).map_err(of_map)?;
    let params = map.params().clone().threads(threads).map_err(of_map)?;
    // As what the map is of was hashed.
    let mut opened = image.open(&padding(!map.length().is_multiple_of(SECTOR)))?;
    let mut comparison = MapComparison::new(&map).map_err(of_map)?;
    let sink = &mut UntilStopped::giving(stop, &mut comparison);
    let (digest, length, _, modified) = sum_to(&mut opened, &params, done, sink).map_err(of_image)?;
    let ranges = comparison.finish(length, &digest).map_err(of_image)?;
    // Where nothing differs, the root of the map was computed from the image.
    if !ranges.is_empty() && map.length() <= length {
        map.check_while(&|| !stop.is_due()).map_err(of_map)?;
    }
    Ok(ImageVerification {
        ranges: ranges.into_iter().map(|range| (range.start, range.end)).collect(),
        block_size: map.params().block_bytes(),
        length,
        map_length: map.length(),
        modified,
    })
}
