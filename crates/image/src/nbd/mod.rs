//! Exports of NBD servers (network block devices), through libnbd, which is loaded when the first export is
//! opened.
//!
//! A server that is lost is an error. Nothing connects again in silence: the server that answers then may
//! show something else.

mod connection;
#[allow(unsafe_code)]
mod libnbd;
mod pool;
mod uri;

use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use self::connection::{Address, Connection, Failed};
use self::libnbd::{Failure, Handle, LibNbd, Status};
use self::pool::{MOST, Pool};
use crate::{Extent, ExtentKind, Image, ImageError, ImageFormat, ImageOperation, Layer, OpenOptions};

pub use self::uri::is_nbd_uri;

/// How long the server may take until it is ready for requests. A server may have work to do before.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for further connections, which are not needed.
const LITTLE_PATIENCE: Duration = Duration::from_secs(5);

/// How much of an export to ask the block status of at a time, in bytes: bounds the server's time and the
/// length of its answer.
const STATUS_BYTES: u64 = 1 << 30;

/// What a guest sees after the end of an export of another length: zeros up to a multiple of this.
const SECTOR: u64 = 512;

/// Errors by which servers say that they cannot tell block status after all.
const CANNOT_TELL: [i32; 3] = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL];

/// An export of an NBD server.
pub struct NbdImage {
    /// Its name in errors.
    name: PathBuf,
    /// Length in bytes of the export.
    exact_length: u64,
    /// Zeros after it.
    padding: u64,
    /// The unit of requests in bytes.
    unit: u64,
    has_status: bool,
    pool: Pool,
}

impl NbdImage {
    /// Connects to the server of an NBD URI. Of the options only the padding matters: the bytes of an
    /// export are the guest's, whatever they look like.
    ///
    /// The server has a minute to answer; looking up its name takes what the system takes.
    ///
    /// # Errors
    /// [`ImageError::Refused`] for a URI with a password or a parameter that is not known, for TLS with a
    /// certificate that the library would not verify, and where a format or a snapshot is asked for;
    /// [`ImageError::Io`] otherwise.
    pub fn open(uri: &OsStr, options: &OpenOptions) -> Result<NbdImage, ImageError> {
        let address = uri::checked(uri)?;
        let path = Path::new(uri);
        if options.snapshot.is_some() || options.format.is_some_and(|format| format != ImageFormat::Raw) {
            let what = "what an NBD server exports is raw, without snapshots".to_string();
            return Err(ImageError::Refused { path: path.to_path_buf(), what });
        }
        let library = load(path)?;
        let fail = |failure| failed(path, ImageOperation::Open, None, failure);
        address.check_version(&Handle::new(library).map_err(fail)?.version())?;
        let address = address.uri;
        let first = Connection::open(library, Address::Uri(&address), PATIENCE).map_err(fail)?;
        let size = first.size();
        let connect = move || another(library, &address, size);
        let limit = if first.handle().can_multi_conn() { MOST } else { 1 };
        let pool = Pool::new(vec![first], limit, Box::new(connect));
        Ok(NbdImage::new(path, pool, size, options.sector_padding))
    }

    /// Speaks with a server over sockets that are connected to it: all at once, as servers do not wait long
    /// for those who connected to say what they want. Errors call the server `path`.
    pub(crate) fn over(sockets: Vec<UnixStream>, path: &Path) -> Result<NbdImage, ImageError> {
        let library = load(path)?;
        let no_more = || Failure { errno: libc::ENOTCONN, text: "there are no more sockets".to_string() };
        let connections: Result<Vec<_>, _> = sockets
            .into_iter()
            .map(|socket| Connection::open(library, Address::Socket(socket), PATIENCE))
            .collect();
        let fail = |failure| failed(path, ImageOperation::Open, None, failure);
        let connections = connections.map_err(fail)?;
        let size = connections.first().ok_or_else(|| fail(no_more()))?.size();
        let limit = connections.len();
        let pool = Pool::new(connections, limit, Box::new(move || Err(no_more())));
        Ok(NbdImage::new(path, pool, size, false))
    }

    fn new(path: &Path, pool: Pool, size: u64, sector_padding: bool) -> NbdImage {
        let (has_status, unit) = {
            let connection = pool.lend();
            (connection.handle().can_block_status(), connection.minimum())
        };
        let padding = if sector_padding { size.next_multiple_of(SECTOR) - size } else { 0 };
        NbdImage { name: path.to_path_buf(), exact_length: size, padding, unit, has_status, pool }
    }

    fn failed(&self, operation: ImageOperation, failed_at: Failed) -> ImageError {
        failed(&self.name, operation, Some(failed_at.offset), failed_at.failure)
    }

    /// What the server says of a range of the export; `None` where it says nothing.
    fn status(&self, range: &Range<u64>) -> Result<Option<Vec<Status>>, ImageError> {
        if !self.has_status {
            return Ok(None);
        }
        let start = range.start - range.start % self.unit;
        let end = range.end.min(start + STATUS_BYTES).next_multiple_of(self.unit).min(self.exact_length);
        match self.pool.lend().block_status(start, end - start) {
            Ok(statuses) if statuses.iter().any(|status| status.length == 0) || statuses.is_empty() => {
                let error = io::Error::other("the server answered with no extent");
                Err(ImageError::io_at(&self.name, ImageOperation::Map, range.start, error))
            }
            Ok(statuses) => Ok(Some(statuses)),
            Err(failed) if CANNOT_TELL.contains(&failed.failure.errno) => Ok(None),
            Err(failed) => Err(self.failed(ImageOperation::Map, failed)),
        }
    }
}

impl Image for NbdImage {
    fn length(&self) -> u64 {
        self.exact_length + self.padding
    }

    fn extents(&self, range: Range<u64>, out: &mut Vec<Extent>) -> Result<(), ImageError> {
        if range.is_empty() {
            return Ok(());
        }
        let stored = range.start..range.end.min(self.exact_length);
        if stored.is_empty() {
            out.push(Extent::new(range, ExtentKind::Zero));
            return Ok(());
        }
        let first = out.len();
        let Some(statuses) = self.status(&stored)? else {
            out.push(Extent::new(range, ExtentKind::Data));
            return Ok(());
        };
        let mut at = stored.start - stored.start % self.unit;
        for Status { length, zero } in statuses {
            at += u64::from(length);
            let start = out[first..].last().map_or(stored.start, |last| last.range.end);
            let end = at.min(stored.end);
            let kind = if zero { ExtentKind::Zero } else { ExtentKind::Data };
            match out[first..].last_mut() {
                _ if end <= start => {}
                Some(last) if last.kind == kind => last.range.end = end,
                _ => out.push(Extent::new(start..end, kind)),
            }
        }
        match out[first..].last_mut() {
            // The padding belongs to whatever the export ends with.
            Some(last) if last.range.end == self.exact_length => last.range.end = range.end,
            Some(_) => {}
            // A server that goes back less than a unit says nothing of what was asked.
            None => out.push(Extent::new(range, ExtentKind::Data)),
        }
        Ok(())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<(), ImageError> {
        let stored = self.exact_length.saturating_sub(offset).min(buf.len() as u64) as usize;
        let (stored, padding) = buf.split_at_mut(stored);
        padding.fill(0);
        if stored.is_empty() {
            return Ok(());
        }
        self.pool.lend().read(stored, offset).map_err(|failed| self.failed(ImageOperation::Read, failed))
    }

    fn alignment(&self) -> usize {
        self.unit as usize
    }

    fn layers(&self) -> Vec<Layer> {
        let connection = self.pool.lend();
        vec![Layer {
            name: OsString::from(&self.name),
            format: "nbd",
            length: Some(self.exact_length),
            properties: vec![
                ("tls", connection.handle().has_tls().into()),
                ("block_status", self.has_status.into()),
                ("several_connections", connection.handle().can_multi_conn().into()),
                ("smallest_request", self.unit.into()),
            ],
            ..Layer::default()
        }]
    }

    fn check_unchanged(&self) -> Result<(), ImageError> {
        for connection in self.pool.connections() {
            connection
                .check_alive()
                .map_err(|failure| failed(&self.name, ImageOperation::Read, None, failure))?;
        }
        Ok(())
    }

    fn padded_by(&self) -> u64 {
        self.padding
    }
}

/// The library, or the error that says what is missing.
fn load(path: &Path) -> Result<&'static LibNbd, ImageError> {
    LibNbd::load().map_err(|why| ImageError::io(path, ImageOperation::Open, io::Error::other(why)))
}

/// Opens one more connection to the server of an export of `size` bytes.
fn another(library: &'static LibNbd, uri: &CStr, size: u64) -> Result<Connection, Failure> {
    let connection = Connection::open(library, Address::Uri(uri), LITTLE_PATIENCE)?;
    if connection.size() != size {
        return Err(Failure { errno: 0, text: "another size than before".to_string() });
    }
    Ok(connection)
}

/// The library's failure as an error of ours.
fn failed(path: &Path, operation: ImageOperation, offset: Option<u64>, failure: Failure) -> ImageError {
    let source = match failure {
        // What a server says of a request is a number only.
        Failure { errno, .. } if errno != 0 && offset.is_some() => io::Error::from_raw_os_error(errno),
        Failure { text, .. } => io::Error::other(text),
    };
    match offset {
        Some(offset) => ImageError::io_at(path, operation, offset, source),
        None => ImageError::io(path, operation, source),
    }
}
