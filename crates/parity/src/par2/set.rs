//! A set of PAR2 files: the content of all their packets.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use verisum_digest::Digest;
use verisum_files::{Directory, Stat};

use super::Md5;
use super::packet::{Body, Packet, ReadError, Recovery, read};
use crate::ParityError;
use crate::list::is_plain;
use crate::tree::Tree;

/// The most blocks that the format has constants for, and so the most files.
const MOST_BLOCKS: usize = 32_768;

/// The most recovery blocks: there is one for each exponent.
const MOST_RECOVERY: usize = 65_536;

/// The longest name that is looked at.
const LONGEST_NAME: usize = 4_095;

/// A file that has recovery blocks.
#[derive(Debug)]
pub(super) struct Member {
    /// Its path from the directory of the PAR2 files.
    pub(super) path: Box<[u8]>,
    pub(super) size: u64,
    /// The MD5 of all of it.
    pub(super) md5: Md5,
    /// The number of its first block in the set.
    pub(super) first: usize,
    /// The MD5 of each of its blocks; the last one is filled up with zeros.
    pub(super) blocks: Vec<Md5>,
}

/// A PAR2 file.
pub(super) struct Volume {
    pub(super) name: Box<[u8]>,
    pub(super) path: PathBuf,
    /// Bytes that are in no packet of any set.
    pub(super) damaged: u64,
}

/// A recovery block, and the volume that has it.
pub(super) struct Stored {
    pub(super) volume: usize,
    pub(super) recovery: Recovery,
}

/// Files, and how they can be made again.
pub(super) struct Set {
    /// Bytes of a block.
    pub(super) block: u64,
    pub(super) members: Vec<Member>,
    pub(super) volumes: Vec<Volume>,
    pub(super) stored: Vec<Stored>,
}

/// Collects the packets of one set.
#[derive(Default)]
struct Packets {
    main: Option<(u64, Vec<Md5>)>,
    files: BTreeMap<Md5, (Md5, u64, Box<[u8]>)>,
    blocks: BTreeMap<Md5, Vec<Md5>>,
    block_count: usize,
    stored: Vec<Stored>,
}

impl Packets {
    fn take(&mut self, body: Body, volume: usize) {
        match body {
            Body::Main { block, files } if self.main.is_none() => self.main = Some((block, files)),
            Body::File { id, md5, size, name }
                if self.files.len() < MOST_BLOCKS && name.len() <= LONGEST_NAME =>
            {
                self.files.entry(id).or_insert((md5, size, name));
            }
            Body::Blocks { id, blocks } if !self.blocks.contains_key(&id) => {
                self.block_count += blocks.len();
                if self.block_count <= MOST_BLOCKS {
                    self.blocks.insert(id, blocks);
                }
            }
            Body::Recovery(recovery) if self.stored.len() < MOST_RECOVERY => {
                self.stored.push(Stored { volume, recovery });
            }
            _ => {}
        }
    }

    /// The files in their order, and the size of blocks; why not, if something is missing or does not fit.
    fn members(&mut self) -> Result<(u64, Vec<Member>), &'static str> {
        let (block, ids) =
            self.main.take().ok_or("no PAR2 file of the set has the list of its files any more")?;
        if ids.is_empty() {
            return Err("it is of no files");
        }
        if block == 0 || !block.is_multiple_of(4) {
            return Err("it has a size of blocks that no PAR2 file can have");
        }
        let mut members: Vec<Member> = Vec::with_capacity(ids.len());
        let mut first = 0;
        let mut names = HashSet::new();
        for id in ids {
            let (md5, size, path) = self
                .files
                .remove(&id)
                .ok_or("no PAR2 file of the set has the name of one of its files any more")?;
            if !is_plain(&path) {
                return Err("it names a file outside its directory");
            }
            if !names.insert(path.clone()) {
                return Err("it names a file twice");
            }
            let blocks = match (self.blocks.remove(&id), size) {
                (Some(blocks), _) => blocks,
                (None, 0) => Vec::new(),
                (None, _) => {
                    return Err("no PAR2 file of the set has the digests of one of its files any more");
                }
            };
            if blocks.len() as u64 != size.div_ceil(block) {
                return Err("the length of a file does not fit its blocks");
            }
            members.push(Member { path, size, md5, first, blocks });
            first += members.last().map_or(0, |member| member.blocks.len());
        }
        Ok((block, members))
    }
}

impl Set {
    /// Reads the set of a PAR2 file: its packets in all PAR2 files of the directory, which is `tree`.
    pub(super) fn read(tree: &Tree, name: &OsStr, md5: &Digest) -> Result<Set, ParityError> {
        let mut packets = Packets::default();
        let mut volumes = Vec::new();
        let mut set = None;
        for name in names(tree, name)? {
            let path = tree.path_of(&name);
            let file = match tree.file(&name) {
                Ok((_, file)) => file,
                // What else has such a name: a link, a directory.
                Err(_) if set.is_some() => continue,
                Err(error) => return Err(error.into()),
            };
            let mut is_of_set = set.is_none();
            let mut take = |packet: Packet| {
                if *set.get_or_insert(packet.set) == packet.set {
                    is_of_set = true;
                    packets.take(packet.body, volumes.len());
                }
            };
            let damaged = match read(&file, (md5, tree.stop()), &mut take) {
                Err(ReadError::Stopped) => return Err(ParityError::Stopped),
                Err(error) if !is_of_set => {
                    drop(error);
                    continue;
                }
                damaged => damaged.map_err(|error| error.of(&path))?,
            };
            if set.is_none() {
                return Err(ParityError::damaged(&path, "this is no PAR2 file, or it is too damaged"));
            }
            if is_of_set {
                volumes.push(Volume { name, path, damaged });
            }
        }
        let path = tree.path_of(name.as_bytes());
        let (block, members) = packets.members().map_err(|what| ParityError::damaged(&path, what))?;
        // A repair would write over what it repairs with.
        let own: HashSet<_> = volumes.iter().filter_map(|volume| identity(tree, &volume.name)).collect();
        let is_own = |member: &Member| identity(tree, &member.path).is_some_and(|its| own.contains(&its));
        if members.iter().any(is_own) {
            let what = "it names one of its own PAR2 files as a file to repair";
            return Err(ParityError::damaged(&path, what));
        }
        let mut stored = packets.stored;
        stored.retain(|stored| stored.recovery.length == block);
        Ok(Set { block, members, volumes, stored })
    }

    /// How many blocks all files have.
    pub(super) fn blocks(&self) -> usize {
        self.members.last().map_or(0, |member| member.first + member.blocks.len())
    }

    /// Opens a volume.
    pub(super) fn volume(&self, tree: &Tree, number: usize) -> Result<File, ParityError> {
        Ok(tree.file(&self.volumes[number].name)?.1)
    }
}

/// Which file has a name, whatever its other names.
fn identity(tree: &Tree, name: &[u8]) -> Option<(u64, u64)> {
    let stat = Stat::of(&tree.file(name).ok()?.1).ok()?;
    Some((stat.device, stat.inode))
}

/// The names of all PAR2 files of a directory, this one first.
fn names(tree: &Tree, first: &OsStr) -> Result<Vec<Box<[u8]>>, ParityError> {
    let directory: &Directory = tree.root();
    let failed = |error| ParityError::io(&directory.path(), "list", error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory.path()).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let is_par2 = Path::new(&name).extension().is_some_and(|end| end.eq_ignore_ascii_case("par2"));
        if is_par2 && name != first {
            names.push(name.as_bytes().into());
        }
    }
    names.sort_unstable();
    names.insert(0, first.as_bytes().into());
    Ok(names)
}
