#!/usr/bin/env python3
"""Writes vectors/*.json from the oracles.

    python3 reference/make_vectors.py            writes the files
    python3 reference/make_vectors.py --check    compares them with what it would write

It takes half a minute of a processor, a third of it in the BLAKE3 of pure Python. README.md
in this folder describes the files.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import operator
import pathlib
import sys

import blockmap
import blocks
import content
import dirhash
import ranktests
from blockhash import SECTOR_SIZE, block_hash_of_pieces, pad_to_sector
from digests import DIGESTS, output_bits, verification_code

VECTORS = pathlib.Path(__file__).resolve().parent.parent / "vectors"

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

# vectors/digests.json

# Where something changes: words of 4 to 16 bytes; blocks of 64 and 128 bytes
# and the padding of MD5 and SHA-2 in them; the rates 72, 104, 136, 144 and 168
# of SHA-3; the five methods of XXH3 and its scramble at 1,024; BLAKE3's chunks
# of 1,024, up to a tree of 64 of them and one that is not full.
CYCLE_LENGTHS = (
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 55, 56, 57, 63, 64, 65,
    71, 72, 73, 103, 104, 105, 111, 112, 113, 119, 120, 127, 128, 129,
    135, 136, 137, 143, 144, 145, 167, 168, 169, 191, 192, 193,
    239, 240, 241, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025,
    2047, 2048, 2049, 3072, 3073, 4095, 4096, 4097, 5120, 5121, 6145, 7169,
    8192, 8193, 16384, 16385, 31744, 65535, 65536, 65537, 102400,
)

ABOUT_DIGESTS = (
    "Digests of short messages; README.md in reference/ describes this file.",
    "message 'empty' has no bytes; 'abc' and '123456789' are those ASCII characters; in 'cycle' byte i is i mod 251.",
    "verification_code: the first 4 bytes of SHA-256 over the concatenated digests of 256 messages; "
    "message n has n bytes and its byte i is (7*i + n) mod 256.",
)


def make_digests():
    """The content of vectors/digests.json."""
    table = [
        {"name": name, "bits": output_bits(name), "verification_code": verification_code(name)}
        for name in DIGESTS
    ]
    return {"about": ABOUT_DIGESTS, "digests": table, "vectors": list(digest_vectors())}


# vectors/blocks.json

# Around the ends of blocks, and of levels of the trees that are made of them.
BLOCK_LENGTHS = (
    0, 1, 4095, 4096, 4097, 2 * 4096, 16383, 16384, 16385, 3 * 16384, 5 * 16384 + 7,
    128 * 4096, 128 * 4096 + 1, 129 * 4096, MIB, MIB + 1, 3 * MIB, 4 * MIB, 4 * MIB + 1, 5 * MIB + 3, 7 * MIB,
    9 * MIB + 5, 128 * 128 * 4096, 128 * 128 * 4096 + 1,
)

ABOUT_BLOCKS = (
    "Digests made of blocks, of messages whose byte i is i mod 251; reference/blocks.py has the definitions.",
)


def make_blocks():
    """The content of vectors/blocks.json."""
    vectors = [
        {"digest": name, "length": length, "hex": digest(content.cycle(length)).hex()}
        for length in BLOCK_LENGTHS
        for name, digest in blocks.BLOCK_DIGESTS.items()
    ]
    return {"about": ABOUT_BLOCKS, "vectors": vectors}


def digest_vectors(longest=None):
    """The vectors of every digest, of messages of at most `longest` bytes."""
    messages = [("empty", b""), ("abc", b"abc"), ("123456789", b"123456789")]
    messages += [
        ("cycle", content.cycle(length))
        for length in CYCLE_LENGTHS if longest is None or length <= longest
    ]
    for name, digest in DIGESTS.items():
        for kind, message in messages:
            yield {
                "digest": name,
                "message": kind,
                "length": len(message),
                "hex": digest(message).hex(),
            }


# vectors/blockhash.json

BLOCK_SIZES = (512, 4 * KIB, 64 * KIB, MIB)
MAIN_DIGESTS = ("sha256", "sha1", "md5", "sha512", "blake2b512", "sha3-256", "blake3")
# These two also get the contents that try the detection of zeros.
ZERO_DIGESTS = ("sha256", "blake3")
# The longest data that pure Python hashes with BLAKE3 in a bearable time.
BLAKE3_LONGEST_DATA = 3 * MIB

ABOUT_BLOCK_HASH = (
    "Block hashes; README.md in reference/ describes this file.",
    "The message is the concatenation of the runs: in a run of kind 'data', the byte at offset i of the message "
    "(not of the run) is i mod 251 + 1; in a run of kind 'zero', every byte is zero.",
    "hex: the block hash of exactly those bytes. hex_padded, where length is not a multiple of 512: "
    "the block hash of those bytes followed by zeros up to the next multiple of 512.",
    "Left out, because the reference is slow: blake3 of messages with more than 3 MiB of data "
    "(blake3 of block size 1 MiB from 15 blocks on has zeros only).",
    "sparse: the same fields, for messages too long to be held in memory; their zero runs are holes.",
)


def make_block_hashes():
    """The content of vectors/blockhash.json."""
    return {
        "about": ABOUT_BLOCK_HASH,
        "vectors": side_by_side(block_hash_vectors, block_hash_cases()),
        "sparse": list(sparse_vectors()),
    }


def block_hash_cases():
    """Every case as (block size, runs, names of digests), each message once."""
    for block_size in BLOCK_SIZES:
        for length in lengths(block_size):
            for runs in main_contents(block_size, length):
                yield block_size, runs, [name for name in MAIN_DIGESTS if bearable(name, runs)]
        for runs in zero_detection_contents(block_size):
            yield block_size, runs, [name for name in ZERO_DIGESTS if bearable(name, runs)]
    others = [name for name in DIGESTS if name not in MAIN_DIGESTS]
    for length in (0, 1, 513, 33 * 512 + 5):
        yield 512, alternate_partial_blocks(512, length), others
    yield 64 * KIB, alternate_partial_blocks(64 * KIB, 3 * 64 * KIB + 5), others


def lengths(block_size):
    around_blocks = [block_size - 1, block_size, block_size + 1]
    many_blocks = [15 * block_size, 16 * block_size, 17 * block_size, 33 * block_size + 5]
    return sorted({0, 1, 511, 512, 513, MIB + 3, *around_blocks, *many_blocks})


def main_contents(block_size, length):
    """Data, zeros, holes at block boundaries, and holes across them."""
    if length == 0:
        return [[]]
    contents = [[("data", length)], [("zero", length)]]
    for runs in (
        alternate_whole_blocks(block_size, length),
        alternate_partial_blocks(block_size, length),
    ):
        if runs not in contents:
            contents.append(runs)
    return contents


def alternate_whole_blocks(block_size, length):
    """Holes that begin and end at block boundaries, the first at offset 0."""
    unit = block_size * scale(block_size, length)
    return content.alternate(length, [unit, 2 * unit, 3 * unit, unit], first="zero")


def alternate_partial_blocks(block_size, length):
    """Holes that begin and end inside blocks; some blocks are covered by two kinds."""
    unit = block_size * scale(block_size, length)
    half = unit // 2
    return content.alternate(length, [half, unit, 2 * unit + 3, 1, unit - 1, 3 * unit])


def scale(block_size, length):
    """Lengthens the runs of messages of very many blocks, so that they stay few."""
    return max(1, length // (64 * block_size))


def zero_detection_contents(block_size):
    """Messages whose blocks are zero but for one byte, or data with zero bytes in it."""
    last = block_size - 1
    yield [("data", 1), ("zero", 3 * last)]
    yield [("zero", 3 * block_size - 1), ("data", 1)]
    yield [("zero", last), ("data", 2), ("zero", last)]
    yield one_byte_in_each_block(block_size)
    # A partial last block: zero, zero but for its first byte, but for its last.
    yield [("data", block_size), ("zero", 100)]
    yield [("zero", block_size), ("data", 1), ("zero", 99)]
    yield [("zero", block_size + 99), ("data", 1)]
    # Data with zero bytes inside, seventeen blocks of it.
    yield content.alternate(17 * block_size, [block_size - 3, 1, 5, 2, 1, 4])


def one_byte_in_each_block(block_size):
    """Blocks of zeros but for one byte, at the edges of words and vectors."""
    positions = [0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255,
                 block_size // 2, block_size - 64, block_size - 2, block_size - 1]
    runs = []
    zeros = 0
    for position in positions:
        runs += [("zero", zeros + position), ("data", 1)]
        zeros = block_size - position - 1
    return [run for run in runs if run[1] > 0]


def bearable(name, runs):
    data_length = sum(length for kind, length in runs if kind == "data")
    return name != "blake3" or data_length <= BLAKE3_LONGEST_DATA


def side_by_side(compute, cases):
    """What `compute` gives for the cases, those of each block size in a process of their own."""
    groups = [list(group) for _, group in itertools.groupby(cases, key=operator.itemgetter(0))]
    with concurrent.futures.ProcessPoolExecutor() as pool:
        return list(itertools.chain.from_iterable(pool.map(compute, groups)))


def block_hash_vectors(cases):
    """Computes the vectors of the cases."""
    vectors = []
    slow_blake3 = remembering(DIGESTS["blake3"])
    for block_size, runs, names in cases:
        message = list(content.pieces(runs))
        length = content.total_length(runs)
        for name in names:
            digest = slow_blake3 if name == "blake3" else DIGESTS[name]
            vector = {
                "digest": name,
                "block_size": block_size,
                "length": length,
                "runs": [{"kind": kind, "length": run_length} for kind, run_length in runs],
                "hex": block_hash_of_pieces(digest, block_size, message).hex(),
            }
            if length % SECTOR_SIZE != 0:
                padded = pad_to_sector(message)
                vector["hex_padded"] = block_hash_of_pieces(digest, block_size, padded).hex()
            vectors.append(vector)
    return vectors


def remembering(digest):
    """The same function, which computes each message once: many blocks are equal."""
    known = {}

    def remember(message):
        key = hashlib.sha256(message).digest()
        if key not in known:
            known[key] = digest(message)
        return known[key]

    return remember


def sparse_vectors():
    """Messages longer than memory, sha256 only."""
    # Past the limits of 31 and 32 bits.
    long_cases = [
        (64 * KIB, [("zero", GIB)]),
        (64 * KIB, [("data", 1), ("zero", 4 * GIB), ("data", 1)]),
        (64 * KIB, [("zero", 2 * GIB - 1), ("data", 2), ("zero", 2 * GIB)]),
    ]
    for block_size, runs in long_cases:
        value = block_hash_of_pieces(DIGESTS["sha256"], block_size, content.pieces(runs))
        yield sparse_vector(block_size, runs, value)
    for block_size in (64 * KIB, MIB):
        yield sparse_vector(block_size, [("zero", 16 * TIB)], hash_of_hole(block_size, 16 * TIB))


def sparse_vector(block_size, runs, value):
    return {
        "digest": "sha256",
        "block_size": block_size,
        "length": content.total_length(runs),
        "runs": [{"kind": kind, "length": length} for kind, length in runs],
        "hex": value.hex(),
    }


def hash_of_hole(block_size, length):
    """The block hash of zeros with sha256, for a whole number of blocks.

    The one shortcut here: the digest of a zero block is computed once.
    """
    count, rest = divmod(length, block_size)
    if rest:
        raise ValueError("not a whole number of blocks")
    zero_digest = hashlib.sha256(bytes(block_size)).digest()
    outer = hashlib.sha256()
    at_once = 64 * KIB
    for _ in range(count // at_once):
        outer.update(zero_digest * at_once)
    outer.update(zero_digest * (count % at_once))
    outer.update(length.to_bytes(8, "little"))
    return outer.digest()


# vectors/dirhash.json

SEED = bytes.fromhex("112233445566778899aabbccddeeff00")
SPOKEN_NAMES = ("a", "abcd", "hello", "foo0", "file_name_00001", "0123456789abcdef", "café", ".", "..")
# Around the words, blocks and paddings of each hash, and the methods of XXH3.
NAME_LENGTHS = (
    0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 20, 23, 24, 31, 32, 33, 39, 40, 41,
    47, 48, 63, 64, 65, 96, 127, 128, 129, 200, 239, 240, 241, 254, 255,
)

ABOUT_DIRECTORY_HASHES = (
    "Hashes of directory indexes; dirhash.py in reference/ computes them and describes the verification code.",
    "name and seed are hexadecimal; a hash uses the first seed_bits of the seed. value and minor are numbers in "
    "hexadecimal; minor is 0 where there is none.",
)


def make_directory_hashes():
    """The content of vectors/dirhash.json."""
    table = [
        {"hash": name, "bits": row.bits, "seed_bits": row.seed_bits,
         "verification_code": dirhash.verification_code(name)}
        for name, row in dirhash.HASHES.items()
    ]
    return {"about": ABOUT_DIRECTORY_HASHES, "hashes": table, "vectors": list(directory_hash_vectors())}


def directory_hash_vectors():
    names = [name.encode() for name in SPOKEN_NAMES]
    cases = [(name, seed) for name in names for seed in (bytes(16), SEED)]
    for length in NAME_LENGTHS:
        cases.append((bytes(97 + i % 23 for i in range(length)), bytes(16)))
        # Bytes from 1 to 251: also those that are negative where characters have a sign.
        cases.append((bytes((i * 101 + length) % 251 + 1 for i in range(length)), SEED))
    for hash_name, row in dirhash.HASHES.items():
        for name, seed in cases:
            value, minor = row.function(name, seed)
            yield {"hash": hash_name, "name": name.hex(), "seed": seed.hex(),
                   "value": "%x" % value, "minor": "%x" % minor}


# vectors/blockmap.json

ABOUT_BLOCK_MAPS = (
    "Block maps; README.md in reference/ describes this file.",
    "sha256 is that of the map's bytes, which begin with header and end with trailer, both hexadecimal.",
)


def make_block_maps():
    """The content of vectors/blockmap.json."""
    return {"about": ABOUT_BLOCK_MAPS, "vectors": list(block_map_vectors())}


def block_map_vectors():
    section = blockmap.SECTION_BLOCKS
    # Lengths in blocks: sections that are full, one block more, one less, and a last one that is short.
    cases = [
        (2, []),
        (2, [("data", 1)]),
        (2, [("zero", 1)]),
        (2, [("data", 2)]),
        (2, [("zero", 2 * section)]),
        (2, [("data", 2 * section)]),
        (2, [("data", 2 * section + 1)]),
        (2, [("zero", 2), ("data", 2 * section - 2)]),
        (2, [("data", 2 * section - 2), ("zero", 2), ("data", 2)]),
        (4, [("zero", 4 * 3 * section), ("data", 6), ("zero", 4 * section), ("data", 1)]),
        (16, content.alternate(16 * (section + 100), [48, 16, 17, 400])),
        (512, [("data", 5000), ("zero", 20000), ("data", 5000)]),
        (65536, [("data", 200000), ("zero", GIB), ("data", 512)]),
    ]
    for block_size, runs in cases:
        for name in ("sha256", "crc32c", "md5"):
            if block_size == 65536 and name == "crc32c":
                # Pure Python.
                continue
            block_map = blockmap.map_of(name, block_size, content.pieces(runs))
            written = blockmap.write(block_map)
            yield {
                "digest": name,
                "block_size": block_size,
                "length": block_map.length,
                "runs": [{"kind": kind, "length": length} for kind, length in runs],
                "root": block_map.root.hex(),
                "map_length": len(written),
                "header": written[:blockmap.HEADER.size].hex(),
                "trailer": written[-blockmap.TRAILER.size:].hex(),
                "sha256": hashlib.sha256(written).hexdigest(),
            }


# Files

# vectors/statistics.json

ABOUT_STATISTICS = (
    "Exact values of the laboratory's statistics; README.md in reference/ describes this file.",
    "signed_rank and mann_whitney: two-sided probabilities; quartiles and mad of the values; ties and zeros occur.",
)

# Darwin's maize: crossed less self-fertilised, eighths of an inch, 15 pairs.
MAIZE = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)


def numbers(seed, count, limit):
    """Whole numbers from -limit to limit, by the generator of POSIX's example of rand."""
    found = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        found.append((seed >> 16) % (2 * limit + 1) - limit)
    return found


def make_statistics():
    """The content of vectors/statistics.json."""
    # A small limit makes ties and zeros.
    samples = [list(MAIZE)]
    samples += [numbers(seed, 1 + seed % 12, limit) for seed in range(1, 25) for limit in (3, 1000)]
    signed = [{"values": values, "p": float(ranktests.signed_rank(values))} for values in samples]
    pairs = [
        (numbers(seed, 1 + seed % 7, limit), numbers(seed + 100, 1 + seed % 5, limit))
        for seed in range(1, 25) for limit in (3, 1000)
    ]
    two = [
        {"first": first, "second": second, "p": float(ranktests.mann_whitney(first, second))}
        for first, second in pairs
    ]
    spread = [
        {"values": values, "quartiles": ranktests.quartiles(values), "mad": ranktests.mad(values)}
        for values in samples if len(values) > 1
    ]
    return {"about": ABOUT_STATISTICS, "signed_rank": signed, "mann_whitney": two, "spread": spread}


FILES = {
    "digests.json": make_digests,
    "blocks.json": make_blocks,
    "blockhash.json": make_block_hashes,
    "dirhash.json": make_directory_hashes,
    "blockmap.json": make_block_maps,
    "statistics.json": make_statistics,
}


def to_json(document):
    """The document as JSON: one element of each list a line."""
    sections = []
    for key, elements in document.items():
        lines = ",\n".join(json.dumps(element, separators=(",", ":")) for element in elements)
        sections.append("%s:[\n%s\n]" % (json.dumps(key), lines))
    return "{%s}\n" % ",\n".join(sections)


def main():
    parser = argparse.ArgumentParser(description="Writes the test vectors.")
    parser.add_argument("--check", action="store_true",
                        help="compare the files with what would be written, and write nothing")
    arguments = parser.parse_args()
    different = []
    for name, make in FILES.items():
        text = to_json(make())
        path = VECTORS / name
        if not arguments.check:
            path.write_text(text, encoding="ascii")
        elif not path.exists() or path.read_text(encoding="ascii") != text:
            different.append(name)
    if different:
        sys.exit("make_vectors.py: not what the reference computes: " + ", ".join(different))


if __name__ == "__main__":
    main()
