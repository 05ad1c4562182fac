//! From a name on the command line to the block hash of what it stands for.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::io::Errno;
use verisum_blockhash::{Error, MAX_THREADS, Params, Progress, hash_image, hash_stream};
use verisum_digest::Output;
use verisum_image::{Image, OpenOptions, Opened, Operation, Stream};

use crate::closed;
use crate::failure::Failure;
use crate::render::progress;

/// The most that one thread hashes faster alone than with the help of others that must be started.
const ONE_THREAD_BYTES: u64 = 1 << 20;

/// The first bytes that tell a format.
const MAGIC_LEN: usize = 68;

/// What to hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Standard input.
    Stdin,
    /// A file, block device or pipe by its name.
    Named(OsString),
}

impl Input {
    /// The input of this name; `-` is standard input.
    pub(crate) fn new(name: OsString) -> Input {
        if name == "-" { Input::Stdin } else { Input::Named(name) }
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

/// Which formats are looked for, and refused, because their bytes are not those that a guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Formats {
    /// None: everything is raw.
    Raw,
    /// qcow2 only.
    Qcow2,
    /// All that are known.
    All,
}

/// How to hash it.
#[derive(Debug)]
pub(crate) struct How {
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
    /// What is refused in what has a name.
    pub(crate) formats: Formats,
    /// What is refused in standard input.
    pub(crate) stdin_formats: Formats,
    /// Draw progress.
    pub(crate) progress: progress::Wanted,
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
pub(crate) fn sum(input: &Input, how: &How) -> Result<Sum, Failure> {
    let opened = match input {
        Input::Stdin if closed::standard_input() => {
            return Err(verisum_image::Error::io(&input.path(), Operation::Open, Errno::BADF.into()).into());
        }
        Input::Stdin => {
            verisum_image::open_stdin(&OpenOptions { cache: how.cache, sector_padding: how.pad_streams })?
        }
        Input::Named(name) if is_nbd(name) => return Err(Failure::Network { name: name.clone() }),
        Input::Named(name) => {
            let options = OpenOptions { cache: how.cache, sector_padding: how.pad_files };
            verisum_image::open(Path::new(name), &options)?
        }
    };
    let formats = if *input == Input::Stdin { how.stdin_formats } else { how.formats };
    match opened {
        Opened::Image(image) => sum_image(input, &*image, formats, how),
        Opened::Stream(stream) => sum_stream(input, stream, formats, how),
    }
}

fn sum_image(input: &Input, image: &dyn Image, formats: Formats, how: &How) -> Result<Sum, Failure> {
    let length = image.length();
    if formats != Formats::Raw {
        let mut magic = [0; MAGIC_LEN];
        let magic = &mut magic[..length.min(MAGIC_LEN as u64) as usize];
        image.read_at(magic, 0)?;
        refuse(input, magic, formats)?;
    }
    let params = how.params(input, Some(length))?;
    let work = |progress: &Progress| hash_image(image, &params, progress);
    let digest = progress::drawn(how.progress, input.path().as_os_str(), Some(length), work)
        .map_err(|e| failed(input, e))?;
    Ok(Sum { digest, length, padded: image.padded_by(), modified: image.modified_during() })
}

fn sum_stream(input: &Input, mut stream: Stream, formats: Formats, how: &How) -> Result<Sum, Failure> {
    if formats != Formats::Raw {
        refuse(input, stream.peek(MAGIC_LEN)?, formats)?;
    }
    if how.pad_streams {
        stream.pad_to_sectors();
    }
    let params = how.params(input, None)?;
    let work = |progress: &Progress| hash_stream(&mut stream, &params, progress);
    let (digest, length) =
        progress::drawn(how.progress, input.path().as_os_str(), None, work).map_err(|e| failed(input, e))?;
    Ok(Sum { digest, length, padded: stream.padded_by(), modified: false })
}

impl How {
    /// The parameters for an input of this length.
    fn params(&self, input: &Input, length: Option<u64>) -> Result<Params, Failure> {
        let threads = match self.threads {
            Some(threads) => threads,
            None if length.is_some_and(|length| length <= ONE_THREAD_BYTES) => 1,
            None => usable_cores(),
        };
        self.params.clone().threads(threads).map_err(|error| failed(input, error))
    }
}

/// The number of cores that this process may use, by its affinity and its control group.
pub(crate) fn usable_cores() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_THREADS))
}

fn failed(input: &Input, error: Error) -> Failure {
    match error {
        Error::Image(error) => Failure::Image(error),
        error => Failure::Hash { name: input.path(), error },
    }
}

/// Whether a name is an address of a network block device.
fn is_nbd(name: &OsStr) -> bool {
    const SCHEMES: [&str; 6] = ["nbd", "nbds", "nbd+unix", "nbds+unix", "nbd+vsock", "nbds+vsock"];
    let scheme = name.to_str().and_then(|name| name.split_once("://"));
    scheme.is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

fn refuse(input: &Input, magic: &[u8], formats: Formats) -> Result<(), Failure> {
    match format(magic) {
        Some(format) if formats == Formats::All || format == QCOW2 => {
            Err(Failure::Format { name: input.path(), format, can_be_forced: formats == Formats::All })
        }
        _ => Ok(()),
    }
}

const QCOW2: &str = "qcow2";

/// Formats with a place and value of their first bytes, and their names.
const MAGICS: [(usize, &[u8], &str); 10] = [
    (0, b"QFI\xfb", QCOW2),
    (0, b"QED\0", "QED"),
    (0, b"KDMV", "VMDK"),
    (0, b"COWD", "VMDK"),
    (0, b"# Disk DescriptorFile", "VMDK"),
    (0, b"conectix", "VHD"),
    (0, b"vhdxfile", "VHDX"),
    (0, b"WithoutFreeSpace", "Parallels"),
    (0, b"WithouFreSpacExt", "Parallels"),
    (64, b"\x7f\x10\xda\xbe", "VDI"),
];

/// The format, other than raw, of an image that begins with these bytes.
fn format(start: &[u8]) -> Option<&'static str> {
    let is = |place: usize, magic: &[u8]| start.get(place..place + magic.len()) == Some(magic);
    MAGICS.iter().find(|(place, magic, _)| is(*place, magic)).map(|(_, _, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_first_bytes() {
        assert_eq!(format(b""), None);
        assert_eq!(format(b"QFI"), None);
        assert_eq!(format(b"QFI\xfb"), Some("qcow2"));
        assert_eq!(format(b"QFI\xfb\0\0\0\x03rest"), Some("qcow2"));
        let mut vdi = [0; MAGIC_LEN];
        vdi[64..].copy_from_slice(&0xbeda_107f_u32.to_le_bytes());
        assert_eq!(format(&vdi), Some("VDI"));
        assert_eq!(format(&vdi[..67]), None);
        // No magic reaches beyond what is read.
        assert!(MAGICS.iter().all(|(place, magic, _)| place + magic.len() <= MAGIC_LEN));
    }

    #[test]
    fn addresses_are_not_files() {
        let is_nbd = |name: &str| is_nbd(OsStr::new(name));
        assert!(is_nbd("nbd://localhost") && is_nbd("nbd+unix:///?socket=/s") && is_nbd("nbds://h:1/e"));
        assert!(!is_nbd("./nbd://localhost") && !is_nbd("nbd") && !is_nbd("disk.nbd") && !is_nbd("nbdx://"));
    }
}
