//! Reads the data of a set, block by block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::ParityError;
use crate::head::{BlockPart, SetHead};

/// Where the bytes of the pieces come from.
pub(crate) trait Source {
    /// Opens the file of a piece; none if there is nothing to read.
    fn open(&mut self, piece: usize) -> Option<File>;

    /// Fails if the run is to end, before more of a piece is read.
    fn go_on(&self, piece: usize) -> Result<(), ParityError>;

    /// Takes the file back, when all of its piece was read.
    fn close(&mut self, piece: usize, file: &File);
}

/// A part of a block, and whether its bytes could be read.
pub(crate) struct PartRead {
    pub(crate) piece: usize,
    pub(crate) part: BlockPart,
    pub(crate) is_read: bool,
}

/// Takes a block: its number, its bytes, and its parts.
pub(crate) type TakeBlock<'a> = dyn FnMut(usize, &mut [u8], &[PartRead]) -> Result<(), ParityError> + 'a;

/// Reads all blocks in order. What cannot be read, and what is beyond the data, is zeros.
pub(crate) fn read_blocks(
    head: &SetHead,
    source: &mut dyn Source,
    each: &mut TakeBlock<'_>,
) -> Result<(), ParityError> {
    let mut block = vec![0; head.block];
    let mut parts: Vec<PartRead> = Vec::new();
    let mut number = 0;
    for (piece, own) in head.parts_of_pieces() {
        let file = source.open(piece);
        for part in own {
            if part.block != number {
                source.go_on(piece)?;
                each(number, &mut block, &parts)?;
                parts.clear();
                block.fill(0);
                number = part.block;
            }
            let bytes = &mut block[part.range.clone()];
            let is_read = file.as_ref().is_some_and(|file| read_at(file, bytes, part.offset));
            if !is_read {
                bytes.fill(0);
            }
            parts.push(PartRead { piece, part, is_read });
        }
        if let Some(file) = file {
            source.close(piece, &file);
        }
    }
    match parts.is_empty() {
        true => Ok(()),
        false => each(number, &mut block, &parts),
    }
}

/// Whether there are that many bytes and all could be read.
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> bool {
    loop {
        match file.read_exact_at(bytes, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.is_ok(),
        }
    }
}
