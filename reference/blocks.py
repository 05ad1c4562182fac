"""Digests made of blocks, level by level as their definitions say it.

A message is cut into blocks, each block is hashed, and the digest is made of those hashes. Sources: Dropbox's
content hash, Amazon Glacier's tree hash, BEP 52 (BitTorrent v2, "pieces root"), the Linux kernel's documentation of
fs-verity and dm-verity (format 1, without a salt), Amazon S3 (ETags and composite checksums of multipart uploads), the
specifications of IPFS (CID, dag-pb, UnixFS), and git's objects ("blob").
"""

import hashlib


def cut(message, length):
    """The blocks of a message; nothing has none."""
    return [message[start:start + length] for start in range(0, len(message), length)]


def sha256(data):
    return hashlib.sha256(data).digest()


def dropbox(message):
    return sha256(b"".join(map(sha256, cut(message, 4 << 20))))


def glacier(message):
    hashes = [sha256(block) for block in cut(message, 1 << 20)] or [sha256(b"")]
    while len(hashes) > 1:
        hashes = [sha256(b"".join(hashes[at:at + 2])) if at + 1 < len(hashes) else hashes[at]
                  for at in range(0, len(hashes), 2)]
    return hashes[0]


def bittorrent_v2(message):
    hashes = [sha256(block) for block in cut(message, 16 << 10)] or [bytes(32)]
    while len(hashes) & (len(hashes) - 1):
        hashes.append(bytes(32))
    while len(hashes) > 1:
        hashes = [sha256(hashes[at] + hashes[at + 1]) for at in range(0, len(hashes), 2)]
    return hashes[0]


def merkle_root(message, name):
    """The root of a tree over blocks of 4,096 bytes that are filled with zeros; of nothing, zeros."""
    def hash_block(block):
        return hashlib.new(name, block.ljust(4096, b"\0")).digest()

    hashes = [hash_block(block) for block in cut(message, 4096)]
    while len(hashes) > 1:
        hashes = [hash_block(block) for block in cut(b"".join(hashes), 4096)]
    return hashes[0] if hashes else bytes(hashlib.new(name).digest_size)


def fsverity(message, name="sha256"):
    algorithm = {"sha256": 1, "sha512": 2}[name]
    root = merkle_root(message, name).ljust(64, b"\0")
    description = bytes([1, algorithm, 12, 0]) + bytes(4) + len(message).to_bytes(8, "little") + root
    return hashlib.new(name, description.ljust(256, b"\0")).digest()


def of_parts(message, name, length):
    """What S3 makes of an upload in parts; what is no longer than a part is uploaded in one piece."""
    parts = [hashlib.new(name, part).digest() for part in cut(message, length)]
    return hashlib.new(name, message if len(parts) <= 1 else b"".join(parts)).digest()


def varint(value):
    """A number of protobuf: seven bits a byte, the lowest first."""
    if value < 128:
        return bytes([value])
    return bytes([value % 128 + 128]) + varint(value // 128)


def protobuf(*fields):
    """A message of protobuf, whose fields are numbers or bytes."""
    text = b""
    for place, value in fields:
        if isinstance(value, int):
            text += varint(place * 8) + varint(value)
        else:
            text += varint(place * 8 + 2) + varint(len(value)) + value
    return text


def cid(codec, data):
    """The name of a block: version 1, codec, SHA-256 (0x12) of 32 bytes."""
    return bytes([1, codec, 0x12, 32]) + sha256(data)


def ipfs(message):
    """Leaves of 256 KiB, and nodes of 174 links until one is left: (CID, bytes of the file, bytes of all nodes)."""
    nodes = [(cid(0x55, leaf), len(leaf), len(leaf)) for leaf in cut(message, 256 << 10) or [b""]]
    while len(nodes) > 1:
        nodes = [ipfs_node(nodes[at:at + 174]) for at in range(0, len(nodes), 174)]
    return nodes[0][0]


def ipfs_node(children):
    """A node of dag-pb: its links in field 2, then in field 1 what UnixFS says of the file."""
    length = sum(child[1] for child in children)
    unixfs = protobuf((1, 2), (3, length), *[(4, child[1]) for child in children])
    links = [protobuf((1, name), (2, b""), (3, total)) for name, _, total in children]
    text = protobuf(*[(2, link) for link in links], (1, unixfs))
    return cid(0x70, text), length, len(text) + sum(child[2] for child in children)


def git_blob(message, name):
    return hashlib.new(name, b"blob %d\0" % len(message) + message).digest()


BLOCK_DIGESTS = {
    "bittorrent-v2": bittorrent_v2,
    "dmverity": lambda message: merkle_root(message, "sha256"),
    "dropbox": dropbox,
    "fsverity": fsverity,
    "fsverity-sha512": lambda message: fsverity(message, "sha512"),
    "git-blob": lambda message: git_blob(message, "sha1"),
    "git-blob-sha256": lambda message: git_blob(message, "sha256"),
    "glacier": glacier,
    "ipfs": ipfs,
    "s3-etag:1M": lambda message: of_parts(message, "md5", 1 << 20),
    "s3-etag:5M": lambda message: of_parts(message, "md5", 5 << 20),
    "s3-sha256:1M": lambda message: of_parts(message, "sha256", 1 << 20),
}
