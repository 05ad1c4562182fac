//! `image_repair`: writes bad blocks of a raw image anew, from other copies.

use std::cell::Cell;
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
use verisum::mend::image::{ImageRepairError, MendedRange, Target, journal_of, open_to_write};
use verisum::mend::repair::{MendedFile, Noted, Taken, note};
use verisum::remote::Hosts as Connections;
use verisum::{DamagedImage, ImageCopy, require_raw};

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
        dry_run,
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
    dry_run: bool,
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
        let image = RawImage { job: self, map: &map, params, options, done, stop, recovered: Cell::new(0) };
        let file = open_to_write(&self.image, self.dry_run)
            .map_err(|error| Failure::from(&error).of(Kind::Image))?;
        let journal = journal_of(&self.map);
        let end = image.open()?.exact_length();
        let target = Target { map: &map, file: &file, name: &self.image, end, journal: &journal };
        let copies = self.open_copies(hosts, &image)?;
        // What cannot be recorded is not begun.
        let catalog = self.catalog.as_deref().filter(|_| !self.dry_run).map(opened_catalog).transpose()?;
        let names = self.sources.iter().map(Copy::name).collect::<Result<Vec<_>, _>>()?;
        let Job { overwrites, dry_run, .. } = *self;
        let (mended, longer) =
            verisum::ImageRepair { target, copies, overwrites, dry_run, stop }.run(&image)?;
        let mut noted = None;
        if !dry_run
            && !mended.repaired.is_empty()
            && let Some((_lock, catalog)) = &catalog
        {
            noted = self.note(catalog, mended.taken(&names), stop)?;
        }
        let names_of = |copies: &BTreeSet<usize>| {
            copies.iter().map(|which| names[*which].clone().into_os_string()).collect()
        };
        let unread = |(which, why): (&usize, &String)| (names[*which].clone().into_os_string(), why.clone());
        let named = |MendedRange { range, copy }: &MendedRange| {
            (range.start, range.end, names[*copy].clone().into_os_string())
        };
        Ok(ImageRepair {
            dry_run,
            repaired: mended.repaired.iter().map(named).collect(),
            left: mended.left.iter().map(|range| (range.start, range.end)).collect(),
            bad_copies: names_of(&mended.bad_copies),
            unreadable_copies: mended.unreadable_copies.iter().map(unread).collect(),
            bytes_fetched: mended.fetched,
            bytes_after_end: longer,
            recovered_blocks: image.recovered.get(),
            noted,
        })
    }

    /// Opens the copies. One that cannot be opened gives nothing, unless all are like that.
    fn open_copies(&self, hosts: &Connections, image: &RawImage) -> Result<Vec<ImageCopy>, Failure> {
        let mut copies: Vec<ImageCopy> = Vec::new();
        let mut failed = Vec::new();
        for source in &self.sources {
            match source {
                Copy::There(_, address) => {
                    let place = place::host(hosts, &address.host)?;
                    copies.push(ImageCopy::there(place, address.path.clone(), image.map));
                }
                Copy::Image(path) => {
                    let opened = open_named(path.as_os_str(), &image.options);
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
        taken: Vec<Taken>,
        stop: &Stop,
    ) -> Result<Option<&'static str>, Failure> {
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

/// The image, and how it is hashed.
struct RawImage<'a> {
    job: &'a Job,
    map: &'a BlockMap,
    params: Params,
    options: OpenOptions,
    done: &'a ImageProgress,
    stop: &'a Stop,
    recovered: Cell<u64>,
}

impl RawImage<'_> {
    fn differing(&self, opened: &mut Opened) -> Result<Vec<Range<u64>>, blockhash::BlockHashError> {
        let mut comparison = MapComparison::new(self.map)?;
        let sink = &mut UntilStopped::giving(self.stop, &mut comparison);
        let (digest, length, ..) = sum_to(opened, &self.params, self.done, sink)?;
        comparison.finish(length, &digest)
    }
}

impl DamagedImage for RawImage<'_> {
    type Error = Failure;

    fn open(&self) -> Result<Box<dyn Image>, Failure> {
        let path = &self.job.image;
        let opened = open_named(path.as_os_str(), &self.options);
        require_raw(opened.map_err(|error| image_failure(path, &error.into()))?).map_err(|error| {
            let message = format!("{}: repair: {error}", path.display());
            Failure::new(Kind::Image, &message).path(path).operation("repair").system(Some(&error))
        })
    }

    fn compare(&self) -> Result<Option<Vec<Range<u64>>>, Failure> {
        match self.differing(&mut Opened::Image(self.open()?)) {
            Ok(ranges) => Ok(Some(ranges)),
            Err(blockhash::BlockHashError::Image(_)) => Ok(None),
            Err(error) => Err(image_failure(&self.job.image, &error)),
        }
    }

    fn finished(&self, blocks: u64) {
        self.recovered.set(blocks);
    }
}

fn opened_catalog(path: &Path) -> Result<(Lock, Catalog), Failure> {
    let open = || {
        let path = absolute(path)?;
        Ok::<_, store::CatalogError>((Lock::take(&path)?, Catalog::open_existing(&path)?))
    };
    open().map_err(|error| Failure::from(&error))
}

impl From<ImageRepairError> for Failure {
    fn from(error: ImageRepairError) -> Failure {
        let of = |path: &Path| Failure::new(Kind::Image, &error.to_string()).path(path);
        match &error {
            ImageRepairError::Map(error) => image_failure(Path::new(""), error),
            ImageRepairError::Journal(_) => Failure::new(Kind::Image, &error.to_string()).operation("write"),
            ImageRepairError::JournalUnfit { path, .. } => of(path).operation("read"),
            ImageRepairError::Image { path, operation, source, .. } => {
                of(path).operation(operation).system(Some(source))
            }
            ImageRepairError::Another { path, .. } | ImageRepairError::EndUnknown { path } => {
                of(path).operation("repair")
            }
            ImageRepairError::Different { path, .. } => of(path).operation("read back"),
            _ => Failure::new(Kind::Image, &error.to_string()),
        }
    }
}
