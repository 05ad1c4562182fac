//! IPFS's names of files: a tree of nodes (dag-pb, UnixFS) over blocks, each with a CID of version 1 as its
//! name. The tree is balanced and has raw leaves, as `ipfs add --cid-version 1` makes it.
//!
//! Sources: the specifications of CID, dag-pb and UnixFS at <https://github.com/ipfs/specs>.

use data_encoding::BASE32_NOPAD;

use crate::digest::Digest;
use crate::error::DigestError;
use crate::output::Output;

/// How many bytes of a file a leaf has.
pub(crate) const BLOCK: usize = 256 << 10;

/// How many links a node has.
const LINKS: usize = 174;

/// The length of a CID in bytes: version, codec, kind of hash, its length, the hash.
pub(crate) const CID_LEN: usize = 4 + 32;

/// Codecs of CIDs.
const RAW: u8 = 0x55;
const DAG_PB: u8 = 0x70;

/// What a CID in Base32 begins with.
const BASE32: char = 'b';

/// The text of a CID as IPFS shows it.
pub fn cid_text(cid: &Output) -> String {
    let mut text = BASE32_NOPAD.encode(cid.as_bytes());
    text.make_ascii_lowercase();
    text.insert(0, BASE32);
    text
}

/// The CID that is written so, if it is of version 1 and has a SHA-256.
pub fn cid_from_text(text: &[u8]) -> Option<Output> {
    let text = std::str::from_utf8(text).ok()?.strip_prefix(BASE32)?;
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let bytes = BASE32_NOPAD.decode(text.to_ascii_uppercase().as_bytes()).ok().filter(|_| is_lower)?;
    let is_ours = bytes.len() == CID_LEN && bytes[0] == 1 && bytes[2..4] == [0x12, 32];
    Output::from_bytes(&bytes).filter(|_| is_ours)
}

/// A part of the tree.
#[derive(Clone)]
struct Node {
    cid: [u8; CID_LEN],
    /// How many bytes of the file are below it.
    length: u64,
    /// The length of all nodes and leaves from here down.
    total: u64,
}

impl Node {
    fn new(codec: u8, hash: &[u8], length: u64, total: u64) -> Node {
        let mut cid = [0; CID_LEN];
        cid[..4].copy_from_slice(&[1, codec, 0x12, 32]);
        cid[4..].copy_from_slice(hash);
        Node { cid, length, total }
    }
}

/// The tree of a file whose leaves come in order.
#[derive(Clone)]
pub(crate) struct Tree {
    inner: Digest,
    count: u64,
    /// From the leaves up: what has no node above it yet. A full level waits for what follows, since a last leaf may be
    /// short.
    levels: Vec<Vec<Node>>,
}

impl Tree {
    pub(crate) fn new(inner: &Digest) -> Tree {
        Tree { inner: inner.clone(), count: 0, levels: Vec::new() }
    }

    /// Adds the hash of the next leaf.
    pub(crate) fn push(&mut self, hash: &[u8]) -> Result<(), DigestError> {
        self.count += 1;
        self.push_to(0, Node::new(RAW, hash, BLOCK as u64, BLOCK as u64))
    }

    fn push_to(&mut self, level: usize, node: Node) -> Result<(), DigestError> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        if self.levels[level].len() == LINKS {
            self.join(level)?;
        }
        self.levels[level].push(node);
        Ok(())
    }

    /// Makes one node of those of a level.
    fn join(&mut self, level: usize) -> Result<(), DigestError> {
        let children = std::mem::take(&mut self.levels[level]);
        let mut text = Vec::new();
        for child in &children {
            // The hash, an empty name, and the length of all below.
            let mut link = field(1, &child.cid);
            link.extend([field(2, b""), number(3, child.total)].concat());
            text.extend(field(2, &link));
        }
        let length = children.iter().map(|child| child.length).sum();
        // A file, its length, and those of the parts.
        let mut data = [number(1, 2), number(3, length)].concat();
        children.iter().for_each(|child| data.extend(number(4, child.length)));
        text.extend(field(1, &data));
        let total = text.len() as u64 + children.iter().map(|child| child.total).sum::<u64>();
        let node = Node::new(DAG_PB, self.inner.hash(&text)?.as_bytes(), length, total);
        self.push_to(level + 1, node)
    }

    /// The CID of a file of so many bytes, of which nothing is left behind.
    pub(crate) fn finish(&mut self, length: u64) -> Result<Output, DigestError> {
        if self.count == 0 {
            // An empty file is an empty leaf.
            self.push(self.inner.hash(&[])?.as_bytes())?;
        }
        let before = (self.count - 1) * BLOCK as u64;
        if let Some(last) = self.levels[0].last_mut() {
            (last.length, last.total) = (length - before, length - before);
        }
        let mut level = 0;
        while level + 1 < self.levels.len() || self.levels[level].len() > 1 {
            self.join(level)?;
            level += 1;
        }
        let root = Output::from_bytes(&self.levels[level][0].cid);
        *self = Tree::new(&self.inner);
        Ok(root.unwrap_or_else(|| Output::zeroed(CID_LEN)))
    }
}

/// A field of protobuf that is bytes.
fn field(place: u8, bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![place << 3 | 2];
    varint(bytes.len() as u64, &mut text);
    text.extend_from_slice(bytes);
    text
}

/// A field of protobuf that is a number.
fn number(place: u8, value: u64) -> Vec<u8> {
    let mut text = vec![place << 3];
    varint(value, &mut text);
    text
}

/// Seven bits a byte, the lowest first; all but the last have the eighth.
fn varint(mut value: u64, text: &mut Vec<u8>) {
    while value >= 0x80 {
        text.push(value as u8 | 0x80);
        value >>= 7;
    }
    text.push(value as u8);
}
