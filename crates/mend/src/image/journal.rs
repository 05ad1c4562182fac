//! The journal of a repair: the blocks that will be written. It is complete, or does not exist.
//!
//! `VRSMREP1`, the length of the map's block hash (1 byte) and that hash, then for each block its number (8 bytes,
//! little-endian), its length (4 bytes) and its bytes. What it holds is trusted no further than the map's digests.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use verisum_files::{ReplaceError, Replacement};

use super::{ImageRepairError, Target, range_len};

const MAGIC: &[u8; 8] = b"VRSMREP1";

/// Writes blocks to the journal, and waits until it is on the disk.
pub(super) fn write(target: &Target, blocks: &[(u64, Vec<u8>)]) -> Result<(), ImageRepairError> {
    let journal = Replacement::private(target.journal)?;
    let failed = |source| ReplaceError { path: target.journal.to_path_buf(), operation: "write", source };
    let mut writer = BufWriter::new(journal.file());
    let root = target.map.root().as_bytes();
    let written = (|| {
        writer.write_all(MAGIC)?;
        writer.write_all(&[root.len() as u8])?;
        writer.write_all(root)?;
        for (number, bytes) in blocks {
            writer.write_all(&number.to_le_bytes())?;
            writer.write_all(&(bytes.len() as u32).to_le_bytes())?;
            writer.write_all(bytes)?;
        }
        writer.flush()
    })();
    written.map_err(failed)?;
    drop(writer);
    Ok(journal.place()?)
}

/// Removes the journal: what it has is in the image.
pub(super) fn remove(path: &Path) -> Result<(), ImageRepairError> {
    std::fs::remove_file(path)
        .map_err(|source| ReplaceError { path: path.to_path_buf(), operation: "remove", source }.into())
}

/// Reads the blocks of a journal.
pub(super) struct Reader {
    file: BufReader<File>,
}

impl Reader {
    /// Opens a journal if there is one.
    pub(super) fn open(target: &Target) -> Result<Option<Reader>, ImageRepairError> {
        let unfit = |why: &str| unfit(target, why);
        // What waits for a writer, as a pipe does, must not keep this waiting.
        let waits_for_nobody = OFlags::NONBLOCK.bits().cast_signed();
        let file = match File::options().read(true).custom_flags(waits_for_nobody).open(target.journal) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| unfit(&format!("open: {error}")))?,
        };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(unfit("it is not a regular file: move it away"));
        }
        let mut file = BufReader::new(file);
        let root = target.map.root().as_bytes();
        let mut head = vec![0; MAGIC.len() + 1 + root.len()];
        let read = file.read_exact(&mut head);
        let is_ours =
            read.is_ok() && head[..8] == *MAGIC && head[8] as usize == root.len() && head[9..] == *root;
        match is_ours {
            true => Ok(Some(Reader { file })),
            false => Err(unfit(
                "it is no journal of a repair with this map: finish that repair with its own map, or move it away",
            )),
        }
    }

    /// The next block, which is as the map says.
    pub(super) fn next(&mut self, target: &Target) -> Result<Option<(u64, Vec<u8>)>, ImageRepairError> {
        let cut = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => unfit(target, "it is cut short: move it away and repair again"),
            _ => unfit(target, &format!("read: {error}: move it away and repair again")),
        };
        let mut number = [0; 8];
        match self.file.read(&mut number[..1]) {
            Ok(0) => return Ok(None),
            read => read.map_err(cut)?,
        };
        self.file.read_exact(&mut number[1..]).map_err(cut)?;
        let mut length = [0; 4];
        self.file.read_exact(&mut length).map_err(cut)?;
        let (number, length) = (u64::from_le_bytes(number), u32::from_le_bytes(length));
        if number >= target.map.blocks() || range_len(&target.block(number)) != u64::from(length) {
            return Err(unfit(target, "it names a block that the image does not have: move it away"));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes).map_err(cut)?;
        match target.is_good(number, &bytes)? {
            true => Ok(Some((number, bytes))),
            false => Err(unfit(target, "a block in it is not what the map says: move it away")),
        }
    }
}

fn unfit(target: &Target, why: &str) -> ImageRepairError {
    ImageRepairError::JournalUnfit { path: target.journal.to_path_buf(), why: why.to_string() }
}
