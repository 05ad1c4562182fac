//! Writes a block map from front to back, as the digests arrive.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use verisum_digest::Output;

use super::MapError;
use super::format::{
    BITMAP_LEN, Checksummer, Entry, Geometry, Header, MAX_NAME_LEN, SECTION_BLOCKS, Trailer,
};
use crate::blocks::ZeroBlock;
use crate::{BlockHashError, DigestSink, Params};

/// Writes the map of the blocks whose digests it is given.
///
/// Its memory is that of a section and of the index: 48 bytes for each 4096 blocks with data among them.
/// What was written is a map only after [`finish`](MapWriter::finish).
pub struct MapWriter<W> {
    out: W,
    path: PathBuf,
    header: Header,
    zero: Output,
    checksummer: Checksummer,
    section: SectionWriter,
    index: Vec<u8>,
    data_blocks: u64,
}

/// The section that is being filled.
struct SectionWriter {
    number: u64,
    blocks: u64,
    bitmap: [u8; BITMAP_LEN],
    digests: Vec<u8>,
}

impl<W: Write> MapWriter<W> {
    /// Starts a map of an image that is hashed with `params`. `path` is the name of the map in errors.
    pub fn new(out: W, path: &Path, params: &Params) -> Result<MapWriter<W>, BlockHashError> {
        let digest = params.digest();
        if digest.len() == 0 || digest.name().len() > MAX_NAME_LEN {
            return Err(MapError::Digest(digest.name().to_string()).into());
        }
        let header = Header {
            block_size: params.block_len() as u32,
            digest_len: digest.len() as u8,
            digest_name: digest.name().to_string(),
        };
        let mut writer = MapWriter {
            out,
            path: path.to_path_buf(),
            zero: *ZeroBlock::new(params).value()?,
            checksummer: Checksummer::new()?,
            section: SectionWriter { number: 0, blocks: 0, bitmap: [0; BITMAP_LEN], digests: Vec::new() },
            index: Vec::new(),
            data_blocks: 0,
            header,
        };
        writer.write(&writer.header.encode())?;
        Ok(writer)
    }

    /// Completes the map of an image of `length` bytes whose block hash is `root`, and gives back what it
    /// was written to, not flushed.
    pub fn finish(mut self, length: u64, root: &Output) -> Result<W, BlockHashError> {
        self.end_section()?;
        let digest_len = usize::from(self.header.digest_len);
        let geometry = Geometry { length, block_size: self.header.block_size, digest_len };
        let filled = self.section.number * SECTION_BLOCKS + self.section.blocks;
        if filled != geometry.blocks() || root.as_bytes().len() != digest_len {
            return Err(MapError::Miscounted.into());
        }
        let mut trailer = Trailer {
            length,
            data_blocks: self.data_blocks,
            sections: (self.index.len() / super::format::ENTRY_LEN) as u64,
            root: *root,
            checksum: [0; 32],
        };
        self.checksummer.update(&self.header.encode())?;
        self.checksummer.update(&self.index)?;
        trailer.checksum = self.checksummer.of(&trailer.encode_checked())?;
        let index = std::mem::take(&mut self.index);
        self.write(&index)?;
        self.write(&trailer.encode())?;
        Ok(self.out)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BlockHashError> {
        let failed = |error: io::Error| MapError::io(&self.path, "write", error);
        Ok(self.out.write_all(bytes).map_err(failed)?)
    }

    /// Goes to the next section if this one is full.
    fn turn(&mut self) -> Result<(), BlockHashError> {
        if self.section.blocks == SECTION_BLOCKS {
            self.end_section()?;
            self.section.number += 1;
            self.section.blocks = 0;
        }
        Ok(())
    }

    /// Writes what the section holds, if it holds anything.
    fn end_section(&mut self) -> Result<(), BlockHashError> {
        let data_blocks = (self.section.digests.len() / usize::from(self.header.digest_len)) as u64;
        if data_blocks == 0 {
            return Ok(());
        }
        if data_blocks < self.section.blocks {
            let bitmap = self.section.bitmap;
            self.checksummer.update(&bitmap)?;
            self.write(&bitmap)?;
        }
        let mut digests = std::mem::take(&mut self.section.digests);
        let checksum = self.checksummer.of(&digests)?;
        self.write(&digests)?;
        digests.clear();
        self.section.digests = digests;
        self.section.bitmap.fill(0);
        self.data_blocks += data_blocks;
        let entry = Entry { number: self.section.number, data_blocks, checksum };
        self.index.extend_from_slice(&entry.encode());
        Ok(())
    }
}

impl<W: Write + Send> DigestSink for MapWriter<W> {
    fn digests(&mut self, digests: &[u8]) -> Result<(), BlockHashError> {
        for digest in digests.chunks_exact(usize::from(self.header.digest_len)) {
            self.turn()?;
            // Zeros that were stored are the same as a hole: the map of a content is one, however its
            // zeros are kept.
            if digest != self.zero.as_bytes() {
                let block = self.section.blocks as usize;
                self.section.bitmap[block / 8] |= 1 << (block % 8);
                self.section.digests.extend_from_slice(digest);
            }
            self.section.blocks += 1;
        }
        Ok(())
    }

    fn zeros(&mut self, blocks: u64) -> Result<(), BlockHashError> {
        let mut left = blocks;
        while left > 0 {
            self.turn()?;
            if self.section.blocks == 0 {
                // The last section is begun, so that the end of the image is found in it.
                let whole = (left - 1) / SECTION_BLOCKS;
                self.section.number += whole;
                left -= whole * SECTION_BLOCKS;
            }
            let now = left.min(SECTION_BLOCKS - self.section.blocks);
            self.section.blocks += now;
            left -= now;
        }
        Ok(())
    }
}

impl<W> std::fmt::Debug for MapWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MapWriter").field("header", &self.header).finish_non_exhaustive()
    }
}
