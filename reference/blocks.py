"""Digests made of blocks, level by level as their definitions say it.

A message is cut into blocks, each block is hashed, and the digest is made of those hashes. Sources: Dropbox's
content hash, Amazon Glacier's tree hash, BEP 52 (BitTorrent v2, "pieces root"), the Linux kernel's documentation of
fs-verity and dm-verity (format 1, without a salt), Amazon S3 (ETags and composite checksums of multipart uploads).
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


BLOCK_DIGESTS = {
    "bittorrent-v2": bittorrent_v2,
    "dmverity": lambda message: merkle_root(message, "sha256"),
    "dropbox": dropbox,
    "fsverity": fsverity,
    "fsverity-sha512": lambda message: fsverity(message, "sha512"),
    "glacier": glacier,
    "s3-etag:1M": lambda message: of_parts(message, "md5", 1 << 20),
    "s3-etag:5M": lambda message: of_parts(message, "md5", 5 << 20),
    "s3-sha256:1M": lambda message: of_parts(message, "sha256", 1 << 20),
}
