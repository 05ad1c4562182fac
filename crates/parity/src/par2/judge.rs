//! Compares runs of bytes with their MD5, as many side by side as the processor allows.

use std::fs::File;
use std::os::unix::fs::FileExt;

use verisum_digest::{Digest, Message};

use super::Md5;
use super::set::{Member, Set};
use crate::ParityError;

/// Bytes of a run that are read at a time.
const CHUNK: u64 = 128 << 10;

/// Bytes of a file that have an MD5.
pub(super) struct Run<'a> {
    /// None if there is nothing to read.
    pub(super) file: Option<&'a File>,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// With the zeros after them that the MD5 is also of.
    pub(super) padded: u64,
    pub(super) md5: Md5,
}

impl<'a> Run<'a> {
    /// A block of a file. That of a file which has only this one is compared without the zeros behind it, which may
    /// be many.
    pub(super) fn block(set: &Set, member: &Member, block: usize, file: Option<&'a File>) -> Run<'a> {
        let offset = block as u64 * set.block;
        let length = set.block.min(member.size - offset);
        match member.blocks.len() {
            1 => Run { file, offset, length, padded: length, md5: member.md5 },
            _ => Run { file, offset, length, padded: set.block, md5: member.blocks[block] },
        }
    }
}

/// Which of the runs are as their MD5 says. What cannot be read is not.
pub(super) fn judge(md5: &Digest, runs: &[Run<'_>]) -> Result<Vec<bool>, ParityError> {
    let mut is_good: Vec<bool> = runs.iter().map(|run| run.file.is_some()).collect();
    let mut messages = runs.iter().map(|_| md5.message()).collect::<Result<Vec<Message>, _>>()?;
    let mut buffers = vec![Vec::new(); runs.len()];
    let longest = runs.iter().map(|run| run.padded).max().unwrap_or(0);
    for at in (0..longest).step_by(CHUNK as usize) {
        for ((run, buffer), is_good) in runs.iter().zip(&mut buffers).zip(&mut is_good) {
            buffer.clear();
            if !*is_good || at >= run.padded {
                continue;
            }
            buffer.resize(CHUNK.min(run.padded - at) as usize, 0);
            let length = run.length.saturating_sub(at).min(buffer.len() as u64) as usize;
            if let Some(file) = run.file {
                *is_good = file.read_exact_at(&mut buffer[..length], run.offset + at).is_ok();
            }
        }
        let mut pieces: Vec<_> = messages
            .iter_mut()
            .zip(buffers.iter().map(Vec::as_slice))
            .filter(|(_, bytes)| !bytes.is_empty())
            .collect();
        md5.advance(&mut pieces)?;
    }
    for ((run, message), is_good) in runs.iter().zip(&mut messages).zip(&mut is_good) {
        let mut found = Md5::default();
        message.finish(&mut found)?;
        *is_good &= found == run.md5;
    }
    Ok(is_good)
}
