//! `image_repair`: writes bad blocks of a raw image anew, from other copies.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use verisum::blockhash::{self, BlockMap, ImageProgress, MapComparison, Params};
use verisum::catalog::store::{self, Catalog, Lock, absolute};
use verisum::digest::Policy;
use verisum::files::{Stop, Timestamp};
use verisum::image::{Image, OpenOptions, Opened, is_nbd_uri, open_named};
use verisum::mend::image::{self as engine, Mended, ReadAt, Target, journal_of, open_to_write};
use verisum::mend::repair::{MendedFile, Noted, Taken, note};
use verisum::remote::Hosts as Connections;
use verisum::{ImageCopy, damage, image_end, image_reader, reader_until, require_raw};

use crate::arguments::{Callback, FsPath, Several};
use crate::errors::{Failure, Kind, image_failure};
use crate::hosts::{Hosts, Reach};
use crate::image::{SECTOR, UntilStopped, cores, sum_to};
use crate::interrupt::{Leftover, abandonable};
use crate::place::{self, Named};

fields! {
    ImageRepair {
        dry_run: bool,
        repaired: Vec<(u64, u64, OsString)>,
        left: Vec<(u64, u64)>,
        bad_copies: Vec<OsString>,
        unreadable_copies: Vec<(OsString, String)>,
        bytes_fetched: u64,
        bytes_after_end: u64,
        recovered_blocks: u64,
        noted: Option<&'static str>,
    }
}

getters! { |repair: ImageRepair|
    bytes_repaired: u64 = repair.repaired.iter().map(|(start, end, _)| end - start).sum();
    bytes_left: u64 = repair.left.iter().map(|(start, end)| end - start).sum();
    class_: &'static str =
        if repair.left.is_empty() && repair.bytes_after_end == 0 { "clean" } else { "mismatch" };
}

#[pymethods]
impl ImageRepair {
    fn __repr__(&self) -> String {
        let word = if self.dry_run { "mendable" } else { "repaired" };
        format!("<verisum.ImageRepair {} bytes {word}, {} left>", self.bytes_repaired(), self.bytes_left())
    }
}

#[doc = stub!("image_repair")]
#[pyfunction]
#[pyo3(signature = (
    image, map, sources, *, dry_run=false, overwrite=false, catalog=None, threads=0, hosts=None, progress=None
))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn image_repair(
    py: Python<'_>,
    image: FsPath,
    map: FsPath,
    sources: Several<FsPath>,
    dry_run: bool,
    overwrite: bool,
    catalog: Option<FsPath>,
    #[pyo3(from_py_with = crate::arguments::threads)] threads: usize,
    hosts: Option<Hosts>,
    progress: Option<Callback>,
) -> PyResult<ImageRepair> {
    let job = Job {
        image: image.path,
        map: map.path,
        sources: sources.0.into_iter().map(Copy::of).collect::<PyResult<_>>()?,
        dry: dry_run,
        overwrites: overwrite,
        catalog: catalog.map(PathBuf::from),
        threads: if threads == 0 { cores() } else { threads },
    };
    if job.sources.is_empty() {
        return Err(PyValueError::new_err("sources: no copy is named"));
    }
    let reach = Reach::of(py, hosts)?;
    let done = Arc::new(ImageProgress::default());
    let mut tick = |py: Python<'_>| Callback::tell(progress.as_ref(), py, (done.bytes(),));
    let counted = done.clone();
    let ended =
        abandonable(py, Leftover::Writes, &mut tick, move |stop| job.repair(&reach.open(), &counted, stop))?;
    let repair = ended.map_err(|failure| failure.raise(py))?;
    tick(py)?;
    Ok(repair)
}

/// A copy of the image.
enum Copy {
    /// An image in any format, a device, or an NBD export.
    Image(PathBuf),
    /// A raw image on a host or in a bucket.
    There(PathBuf, verisum::remote::Address),
}

impl Copy {
    fn of(named: FsPath) -> PyResult<Copy> {
        let path = named.path.clone();
        if is_nbd_uri(path.as_os_str()) && named.is_text {
            return Ok(Copy::Image(path));
        }
        Ok(match Named::of(named)? {
            Named::Here(path) => Copy::Image(path),
            Named::There(address) => Copy::There(path, address),
        })
    }

    /// Its name: a whole path, or an address as it was given.
    fn name(&self) -> Result<PathBuf, Failure> {
        match self {
            Copy::Image(path) if !is_nbd_uri(path.as_os_str()) => {
                absolute(path).map_err(|error| Failure::from(&error))
            }
            Copy::Image(name) | Copy::There(name, _) => Ok(name.clone()),
        }
    }
}

/// What is repaired, and with what.
struct Job {
    image: PathBuf,
    map: PathBuf,
    sources: Vec<Copy>,
    dry: bool,
    overwrites: bool,
    catalog: Option<PathBuf>,
    threads: usize,
}

impl Job {
    fn repair(&self, hosts: &Connections, done: &ImageProgress, stop: &Stop) -> Result<ImageRepair, Failure> {
        let of_map = |error: blockhash::BlockHashError| image_failure(&self.map, &error);
        let map = BlockMap::open(&self.map, &Policy::default()).map_err(of_map)?;
        map.check_while(&|| !stop.is_due()).map_err(of_map)?;
        let params = map.params().clone().threads(self.threads).map_err(of_map)?;
        let mut options = OpenOptions::default();
        // As what the map is of was hashed.
        options.sector_padding = map.length().is_multiple_of(SECTOR);
        let hashing = Hashing { params, options, done, stop };
        let opened = open_to_write(&self.image, self.dry);
        let file = opened.map_err(|error| Failure::from(&error).of(Kind::Image))?;
        let journal = journal_of(&self.map);
        let own = self.raw(&hashing)?.exact_length();
        let mut target = Target { map: &map, file: &file, name: &self.image, end: own, journal: &journal };
        let mut copies = self.open_copies(&map, hosts, &hashing)?;
        let end = image_end(&target, own, &mut copies).map_err(|error| failure(&error))?;
        target.end = end.unwrap_or(own);
        let mut copies: Vec<ReadAt> = copies.into_iter().map(|copy| copy.read).collect();
        // What cannot be recorded is not begun.
        let catalog = self.catalog.as_deref().filter(|_| !self.dry).map(opened_catalog).transpose()?;
        let found = || -> Result<(Vec<Range<u64>>, u64), Failure> {
            let (bad, longer) = self.bad((&target, end.is_some()), &hashing)?;
            if !self.overwrites {
                let length = self.raw(&hashing)?.length();
                target.require_same(&bad, length).map_err(|error| failure(&error))?;
            }
            Ok((bad, longer))
        };
        let mut recovered = 0;
        if !self.dry && journal.symlink_metadata().is_ok() {
            // What it has is for the image of the map only.
            found()?;
            recovered = target.recover().map_err(|error| failure(&error))?;
        }
        let (bad, longer) = found()?;
        let names = self.sources.iter().map(Copy::name).collect::<Result<Vec<_>, _>>()?;
        let mended = target.repair(&bad, &mut copies, !self.dry, stop).map_err(|error| failure(&error))?;
        let mut noted = None;
        if !self.dry && !mended.repaired.is_empty() {
            let again = &mut reader_until(image_reader(self.raw(&hashing)?), target.end);
            target.verify(&mended, again).map_err(|error| failure(&error))?;
            if let Some((_lock, catalog)) = &catalog {
                noted = self.note(catalog, &mended, &names, stop)?;
            }
        }
        let names_of = |copies: &BTreeSet<usize>| {
            copies.iter().map(|which| names[*which].clone().into_os_string()).collect()
        };
        let unread = |(which, why): (&usize, &String)| (names[*which].clone().into_os_string(), why.clone());
        let named = |(range, which): &(Range<u64>, usize)| {
            (range.start, range.end, names[*which].clone().into_os_string())
        };
        Ok(ImageRepair {
            dry_run: self.dry,
            repaired: mended.repaired.iter().map(named).collect(),
            left: mended.left.iter().map(|range| (range.start, range.end)).collect(),
            bad_copies: names_of(&mended.bad_copies),
            unreadable_copies: mended.unreadable_copies.iter().map(unread).collect(),
            bytes_fetched: mended.fetched,
            bytes_after_end: longer,
            recovered_blocks: recovered,
            noted,
        })
    }

    fn failed(&self, operation: &str, error: &std::io::Error) -> Failure {
        let message = format!("{}: {operation}: {error}", self.image.display());
        let failure = Failure::new(Kind::Image, &message).path(&self.image).operation(operation);
        failure.system(Some(error))
    }

    /// The image, opened to read.
    fn raw(&self, hashing: &Hashing) -> Result<Box<dyn Image>, Failure> {
        let opened = open_named(self.image.as_os_str(), &hashing.options);
        let opened = opened.map_err(|error| image_failure(&self.image, &error.into()))?;
        require_raw(opened).map_err(|error| self.failed("repair", &error))
    }

    /// The ranges that are not what the map says, and how many bytes the image has after its recorded end.
    fn bad(
        &self,
        (target, knows_end): (&Target, bool),
        hashing: &Hashing,
    ) -> Result<(Vec<Range<u64>>, u64), Failure> {
        let image = self.raw(hashing)?;
        let ranges = match hashing.compare(target.map, &mut Opened::Image(image)) {
            Ok(ranges) => ranges,
            // What cannot be read as a whole is read block by block.
            Err(blockhash::BlockHashError::Image(_)) => {
                let image = self.raw(hashing)?;
                let read = &mut reader_until(image_reader(image), target.end);
                target.scan(read, hashing.stop).map_err(|error| failure(&error))?
            }
            Err(error) => return Err(image_failure(&self.image, &error)),
        };
        damage(target, ranges, self.raw(hashing)?, knows_end).map_err(|error| failure(&error))
    }

    /// Opens the copies. One that cannot be opened gives nothing, unless all are like that.
    fn open_copies(
        &self,
        map: &BlockMap,
        hosts: &Connections,
        hashing: &Hashing,
    ) -> Result<Vec<ImageCopy>, Failure> {
        let mut copies: Vec<ImageCopy> = Vec::new();
        let mut failed = Vec::new();
        for source in &self.sources {
            match source {
                Copy::There(_, address) => {
                    let place = place::host(hosts, &address.host)?;
                    copies.push(ImageCopy::there(place, address.path.clone(), map));
                }
                Copy::Image(path) => {
                    let opened = open_named(path.as_os_str(), &hashing.options);
                    match opened {
                        Ok(Opened::Image(image)) => copies.push(ImageCopy::of(image)),
                        Err(error) => {
                            copies.push(ImageCopy::none(error.to_string()));
                            failed.push(image_failure(path, &error.into()));
                        }
                        Ok(Opened::Stream(_)) => {
                            let message = format!("{}: open: a pipe cannot be a copy", path.display());
                            return Err(Failure::new(Kind::Image, &message).path(path).operation("open"));
                        }
                    }
                }
            }
        }
        match failed.pop() {
            Some(failure) if failed.len() + 1 == copies.len() => Err(failure),
            _ => Ok(copies),
        }
    }

    /// Records the repair where the catalogue knows the image as a file.
    fn note(
        &self,
        catalog: &Catalog,
        mended: &Mended,
        names: &[PathBuf],
        stop: &Stop,
    ) -> Result<Option<&'static str>, Failure> {
        let mut taken: Vec<Taken> = Vec::new();
        for (which, from) in names.iter().enumerate() {
            let of = mended.repaired.iter().filter(|(_, of)| *of == which);
            let ranges: Vec<Range<u64>> = of.map(|(range, _)| range.clone()).collect();
            if !ranges.is_empty() {
                let bytes = ranges.iter().map(|range| range.end - range.start).sum();
                taken.push(Taken { from: from.clone(), bytes, ranges: Some(ranges) });
            }
        }
        let path = absolute(&self.image).map_err(|error| Failure::from(&error))?;
        let noted = note(
            catalog,
            &MendedFile { path, before: None, taken, now: Timestamp::now(), is_part: false },
            stop,
        );
        Ok(match noted.map_err(|error| crate::repair::failure(&error))? {
            Noted::Unknown => None,
            Noted::Confirmed => Some("confirmed"),
            Noted::Different => Some("different"),
        })
    }
}

/// How an image is hashed.
struct Hashing<'a> {
    params: Params,
    options: OpenOptions,
    done: &'a ImageProgress,
    stop: &'a Stop,
}

impl Hashing<'_> {
    /// Where an image differs from what a map is of.
    fn compare(
        &self,
        map: &BlockMap,
        opened: &mut Opened,
    ) -> Result<Vec<Range<u64>>, blockhash::BlockHashError> {
        let mut comparison = MapComparison::new(map)?;
        let sink = &mut UntilStopped::giving(self.stop, &mut comparison);
        let (digest, length, ..) = sum_to(opened, &self.params, self.done, sink)?;
        comparison.finish(length, &digest)
    }
}

fn opened_catalog(path: &Path) -> Result<(Lock, Catalog), Failure> {
    let open = || {
        let path = absolute(path)?;
        Ok::<_, store::CatalogError>((Lock::take(&path)?, Catalog::open_existing(&path)?))
    };
    open().map_err(|error| Failure::from(&error))
}

/// Why an image is not repaired.
fn failure(error: &engine::ImageRepairError) -> Failure {
    let of = |path: &Path| Failure::new(Kind::Image, &error.to_string()).path(path);
    match error {
        engine::ImageRepairError::Map(error) => image_failure(Path::new(""), error),
        engine::ImageRepairError::Journal(_) => {
            Failure::new(Kind::Image, &error.to_string()).operation("write")
        }
        engine::ImageRepairError::JournalUnfit { path, .. } => of(path).operation("read"),
        engine::ImageRepairError::Image { path, operation, source, .. } => {
            of(path).operation(operation).system(Some(source))
        }
        engine::ImageRepairError::Another { path, .. } | engine::ImageRepairError::EndUnknown { path } => {
            of(path).operation("repair")
        }
        engine::ImageRepairError::Different { path, .. } => of(path).operation("read back"),
    }
}
