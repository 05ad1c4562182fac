#!/usr/bin/env python3
"""The block hash, computed as its definition reads: slow, and easy to check.

With a digest D, a block size B and a message m of L bytes, cut into
consecutive blocks of B bytes of which only the last may be shorter:

    blkhash(D, B, m) = D( D(block 1) ‖ D(block 2) ‖ … ‖ D(block N) ‖ le64(L) )

le64 is eight bytes, little endian. An empty message has no blocks. Zeros,
holes and threads are nothing special here: every block is hashed in turn.

The sector rule belongs to the command, not to the hash: a file is hashed as
a guest sees it, followed by zeros up to a multiple of 512 bytes, unless
--exact is given. Standard input is always hashed as it is.

Needs Python 3.9 and its standard library.
"""

import argparse
import sys

from digests import DIGESTS, available

DEFAULT_DIGEST = "sha256"
DEFAULT_BLOCK_SIZE = 64 * 1024
SECTOR_SIZE = 512
READ_SIZE = 1024 * 1024


def block_hash(digest, block_size, message):
    """The block hash of `message`; `digest` is a function from bytes to bytes."""
    return block_hash_of_pieces(digest, block_size, [message])


def block_hash_of_pieces(digest, block_size, pieces):
    """The block hash of the concatenation of `pieces`, wherever they are cut."""
    block_digests = []
    length = 0
    for block in split_into_blocks(pieces, block_size):
        block_digests.append(digest(block))
        length += len(block)
    return digest(b"".join(block_digests) + length.to_bytes(8, "little"))


def split_into_blocks(pieces, block_size):
    """Cuts the concatenation of `pieces` anew, every `block_size` bytes."""
    if block_size < 1:
        raise ValueError("block size must be at least 1")
    pending = bytearray()
    for piece in pieces:
        pending += piece
        complete = len(pending) // block_size * block_size
        for start in range(0, complete, block_size):
            yield bytes(pending[start:start + block_size])
        del pending[:complete]
    if pending:
        yield bytes(pending)


def pad_to_sector(pieces):
    """The pieces, followed by the zeros that complete the last sector."""
    length = 0
    for piece in pieces:
        yield piece
        length += len(piece)
    yield bytes(-length % SECTOR_SIZE)


def read_pieces(stream):
    """The content of a binary stream, a piece at a time."""
    return iter(lambda: stream.read(READ_SIZE), b"")


def hash_file(digest, block_size, name, exact):
    """The block hash of a file under the sector rule, or of standard input for `-`."""
    if name == "-":
        return block_hash_of_pieces(digest, block_size, read_pieces(sys.stdin.buffer))
    with open(name, "rb") as stream:
        pieces = read_pieces(stream)
        if not exact:
            pieces = pad_to_sector(pieces)
        return block_hash_of_pieces(digest, block_size, pieces)


def block_size_argument(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def main():
    parser = argparse.ArgumentParser(description="Prints the block hash of a file.")
    parser.add_argument("-d", "--digest", default=DEFAULT_DIGEST, choices=sorted(DIGESTS))
    parser.add_argument("--block-size", type=block_size_argument, default=DEFAULT_BLOCK_SIZE)
    parser.add_argument("--exact", action="store_true",
                        help="do not pad the file with zeros to a multiple of 512 bytes")
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    arguments = parser.parse_args()
    if not available(arguments.digest):
        parser.error("this Python's OpenSSL has no %s" % arguments.digest)
    try:
        value = hash_file(DIGESTS[arguments.digest], arguments.block_size,
                          arguments.file, arguments.exact)
    except OSError as error:
        sys.exit("blockhash.py: %s: %s" % (arguments.file, error.strerror))
    print("%s  %s" % (value.hex(), arguments.file))


if __name__ == "__main__":
    main()
