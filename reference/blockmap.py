#!/usr/bin/env python3
"""Block maps, read and written as docs/block-map.md says: slow, and easy to check.

    python3 reference/blockmap.py write disk.img disk.map    prints the root
    python3 reference/blockmap.py check disk.map             checks all of it, prints the root
    python3 reference/blockmap.py verify disk.map disk.img   prints which ranges differ

All of a map is in memory here. Needs Python 3.9 and its standard library.
"""

import argparse
import collections
import struct
import sys

from blockhash import (DEFAULT_BLOCK_SIZE, DEFAULT_DIGEST, block_size_argument, pad_to_sector,
                       read_pieces, split_into_blocks)
from digests import DIGESTS, available

MAGIC = bytes.fromhex("8956424d0d0a1a0a")
END_MAGIC = bytes.fromhex("56424d20656e640a")
VERSION = 1
SECTION_BLOCKS = 4096
BITMAP_LENGTH = SECTION_BLOCKS // 8

HEADER = struct.Struct("<8sIIBB46s")
ENTRY = struct.Struct("<QQ32s")
TRAILER = struct.Struct("<QQQ64s32s8s")
TRAILER_CHECKED = 88

# `digests` holds one digest a block, zero blocks included.
Map = collections.namedtuple("Map", "digest_name block_size length root digests")


class NotAMap(Exception):
    """Why bytes are no block map."""


def checksum(message):
    return DIGESTS["blake3"](message)


def map_of(digest_name, block_size, pieces):
    """The map of the concatenation of `pieces`."""
    digest = DIGESTS[digest_name]
    length = 0
    digests = []
    for block in split_into_blocks(pieces, block_size):
        length += len(block)
        digests.append(digest(block))
    root = digest(b"".join(digests) + struct.pack("<Q", length))
    return Map(digest_name, block_size, length, root, digests)


def write(block_map):
    """The bytes of a map."""
    zero = DIGESTS[block_map.digest_name](bytes(block_map.block_size))
    name = block_map.digest_name.encode("ascii")
    header = HEADER.pack(MAGIC, VERSION, block_map.block_size, len(zero), len(name), name)
    sections = []
    index = []
    data_blocks = 0
    for start in range(0, len(block_map.digests), SECTION_BLOCKS):
        digests = block_map.digests[start:start + SECTION_BLOCKS]
        data = [i for i, digest in enumerate(digests) if digest != zero]
        if not data:
            continue
        section = b"".join(digests[i] for i in data)
        if len(data) < len(digests):
            section = sum(1 << i for i in data).to_bytes(BITMAP_LENGTH, "little") + section
        sections.append(section)
        index.append(ENTRY.pack(start // SECTION_BLOCKS, len(data), checksum(section)))
        data_blocks += len(data)
    checked = TRAILER.pack(block_map.length, data_blocks, len(index), block_map.root, b"", b"")[:TRAILER_CHECKED]
    seal = checksum(header + b"".join(index) + checked)
    return header + b"".join(sections + index) + checked + seal + END_MAGIC


def expect(condition, what):
    if not condition:
        raise NotAMap(what)


def read(content):
    """The map in `content`, after every check that there is, that of the root included."""
    expect(content[:8] == MAGIC, "magic")
    expect(len(content) >= HEADER.size + TRAILER.size, "length of the file")
    header = content[:HEADER.size]
    _, version, block_size, digest_length, name_length, name = HEADER.unpack(header)
    expect(version == VERSION, "version")
    expect(block_size > 0 and block_size % 2 == 0, "block size")
    expect(1 <= name_length <= len(name), "length of the digest's name")
    expect(not any(name[name_length:]), "zeros after the digest's name")
    digest_name = name[:name_length].decode("ascii", "replace")
    expect(digest_name in DIGESTS, "name of the digest")
    digest = DIGESTS[digest_name]
    zero = digest(bytes(block_size))
    expect(digest_length == len(zero) > 0, "length of the digest")

    trailer = content[-TRAILER.size:]
    length, data_blocks, section_count, root, seal, end = TRAILER.unpack(trailer)
    expect(end == END_MAGIC, "magic at the end")
    expect(not any(root[digest_length:]), "zeros after the root")
    index_start = len(content) - TRAILER.size - section_count * ENTRY.size
    expect(index_start >= HEADER.size, "number of sections")
    index = content[index_start:-TRAILER.size]
    expect(seal == checksum(header + index + trailer[:TRAILER_CHECKED]), "checksum of the index")

    block_count = -(-length // block_size)
    digests = []
    position = HEADER.size
    for number, count, section_checksum in ENTRY.iter_unpack(index):
        first = number * SECTION_BLOCKS
        expect(len(digests) <= first < block_count, "number of a section")
        blocks = min(SECTION_BLOCKS, block_count - first)
        expect(1 <= count <= blocks, "data blocks of a section")
        digests += [zero] * (first - len(digests))
        section_length = count * digest_length + (BITMAP_LENGTH if count < blocks else 0)
        expect(section_length <= index_start - position, "length of a section")
        section = content[position:position + section_length]
        position += section_length
        expect(section_checksum == checksum(section), "checksum of a section")
        digests += section_digests(section, blocks, count, digest_length, zero)
        data_blocks -= count
    expect(position == index_start, "length of the sections")
    expect(data_blocks == 0, "number of data blocks")
    digests += [zero] * (block_count - len(digests))
    root = root[:digest_length]
    expect(root == digest(b"".join(digests) + struct.pack("<Q", length)), "root")
    return Map(digest_name, block_size, length, root, digests)


def section_digests(section, blocks, count, digest_length, zero):
    """The digests of all blocks of a section."""
    if count == blocks:
        is_data = [True] * blocks
    else:
        bitmap = int.from_bytes(section[:BITMAP_LENGTH], "little")
        section = section[BITMAP_LENGTH:]
        expect(bitmap >> blocks == 0, "bits after the last block")
        is_data = [bool(bitmap >> i & 1) for i in range(blocks)]
        expect(sum(is_data) == count, "number of bits")
    stored = [section[i:i + digest_length] for i in range(0, len(section), digest_length)]
    expect(zero not in stored, "a stored digest of zeros")
    following = iter(stored)
    return [next(following) if data else zero for data in is_data]


def differing_ranges(a, b):
    """Where the images of two maps of one digest and block size differ: `(offset, length)`, merged."""
    length = max(a.length, b.length)
    blocks = max(len(a.digests), len(b.digests))
    ranges = []
    for i in range(blocks):
        if a.digests[i:i + 1] == b.digests[i:i + 1] and block_length(a, i) == block_length(b, i):
            continue
        start, end = i * a.block_size, min((i + 1) * a.block_size, length)
        if ranges and sum(ranges[-1]) == start:
            start = ranges.pop()[0]
        ranges.append((start, end - start))
    return ranges


def block_length(block_map, i):
    return min(block_map.block_size, block_map.length - i * block_map.block_size)


def image_pieces(name, exact):
    """The content of an image, as a guest sees it unless it is to be exact."""
    with open(name, "rb") as stream:
        pieces = read_pieces(stream)
        yield from pieces if exact else pad_to_sector(pieces)


def main():
    parser = argparse.ArgumentParser(description="Reads and writes block maps.")
    commands = parser.add_subparsers(dest="command", required=True)
    write_parser = commands.add_parser("write", help="write the map of an image")
    write_parser.add_argument("-d", "--digest", default=DEFAULT_DIGEST, choices=sorted(set(DIGESTS) - {"null"}))
    write_parser.add_argument("--block-size", type=block_size_argument, default=DEFAULT_BLOCK_SIZE)
    write_parser.add_argument("--exact", action="store_true", help="do not pad to a multiple of 512 bytes")
    write_parser.add_argument("image")
    write_parser.add_argument("map")
    check_parser = commands.add_parser("check", help="check a map and print its root")
    check_parser.add_argument("map")
    verify_parser = commands.add_parser("verify", help="print which ranges of an image differ from its map")
    verify_parser.add_argument("map")
    verify_parser.add_argument("image")
    arguments = parser.parse_args()
    if arguments.command == "write":
        if not available(arguments.digest):
            parser.error("this Python's OpenSSL has no %s" % arguments.digest)
        pieces = image_pieces(arguments.image, arguments.exact)
        block_map = map_of(arguments.digest, arguments.block_size, pieces)
        with open(arguments.map, "wb") as stream:
            stream.write(write(block_map))
        print(block_map.root.hex())
        return
    try:
        with open(arguments.map, "rb") as stream:
            block_map = read(stream.read())
    except NotAMap as error:
        sys.exit("blockmap.py: %s: wrong %s" % (arguments.map, error))
    if arguments.command == "check":
        print(block_map.root.hex())
        return
    pieces = image_pieces(arguments.image, exact=block_map.length % 512 != 0)
    ranges = differing_ranges(block_map, map_of(block_map.digest_name, block_map.block_size, pieces))
    for offset, length in ranges:
        print(offset, length)
    if ranges:
        sys.exit(1)


if __name__ == "__main__":
    main()
