#!/usr/bin/env python3
"""The hashes that file systems index directories with, and candidates for it.

    python3 reference/dirhash.py half_md4 foo0 file_name_00001
    python3 reference/dirhash.py tea --seed 11223344-5566-7788-99aa-bbccddeeff00 foo0

`HASHES` maps a name to a row. A row's function takes the bytes of the name and
16 bytes of seed, of which it uses the first `seed_bits`, and returns the hash
and the minor hash (0 where there is none).

ext4's values are those of libext2fs and debugfs. The kernel does one thing
more: it moves the value fffffffe, which marks the end of a directory, to
fffffffc (`kernel_key`).

**Verification code.** Name n, for n from 0 to 255, has n bytes, and its byte i
is (7·i + n) mod 256; its seed is 16 zero bytes if n is even, else byte i of it
is (5·i + n) mod 256. Each hash gives 12 bytes: the hash as 8 little-endian
bytes, then the minor hash as 4. The code is the first four bytes, as eight
hexadecimal digits, of SHA-256 over the 256 results.
"""

import argparse
import collections
import hashlib
import os
import struct
import uuid
import zlib

from pure_crc import crc32c as crc32c_table_of
from seeded_xxh3 import xxh3_64_seeded

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF

DEFAULT_STATE = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)
DELTA = 0x9E3779B9


def rotate_left(word, bits, width=32):
    mask = (1 << width) - 1
    return (word << bits | word >> (width - bits)) & mask


def signed_byte(byte):
    return byte - 256 if byte > 127 else byte


def characters(name, signed):
    return [signed_byte(byte) for byte in name] if signed else list(name)


# ext4


def legacy(name, signed):
    previous, current = 0x37ABE8F9, 0x12A3FE2D
    for c in characters(name, signed):
        following = (previous + (current ^ (c * 7152373 & MASK32))) & MASK32
        if following & 0x80000000:
            following = (following - 0x7FFFFFFF) & MASK32
        previous, current = current, following
    return current << 1 & MASK32


def pack(rest, words, signed):
    """Words of the rest of a name; what is missing is its length, four times."""
    pad = len(rest) | len(rest) << 8
    pad |= pad << 16
    pad &= MASK32
    packed = []
    chars = characters(rest[:4 * words], signed)
    for start in range(0, len(chars), 4):
        value = pad
        for c in chars[start:start + 4]:
            value = ((value << 8) + c) & MASK32
        packed.append(value)
    return packed + [pad] * (words - len(packed))


def pieces(name, length):
    return [name[start:] for start in range(0, len(name), length)]


HALF_MD4_ROUNDS = (
    (lambda x, y, z: z ^ (x & (y ^ z)), 0, (0, 1, 2, 3, 4, 5, 6, 7), (3, 7, 11, 19)),
    (lambda x, y, z: (x & y) + ((x ^ y) & z), 0x5A827999, (1, 3, 5, 7, 0, 2, 4, 6), (3, 5, 9, 13)),
    (lambda x, y, z: x ^ y ^ z, 0x6ED9EBA1, (3, 7, 2, 6, 1, 5, 0, 4), (3, 9, 11, 15)),
)


def half_md4_transform(state, words):
    s = list(state)
    for function, constant, order, shifts in HALF_MD4_ROUNDS:
        for step in range(8):
            target = -step % 4
            others = [s[(target + k) % 4] for k in (1, 2, 3)]
            total = s[target] + function(*others) + words[order[step]] + constant
            s[target] = rotate_left(total & MASK32, shifts[step % 4])
    return tuple((a + b) & MASK32 for a, b in zip(state, s))


def tea_rounds(state, words, rounds):
    x, y = state
    a, b, c, d = words
    total = 0
    for _ in range(rounds):
        total = (total + DELTA) & MASK32
        x = (x + ((((y << 4) + a) & MASK32) ^ ((y + total) & MASK32) ^ (((y >> 5) + b) & MASK32))) & MASK32
        y = (y + ((((x << 4) + c) & MASK32) ^ ((x + total) & MASK32) ^ (((x >> 5) + d) & MASK32))) & MASK32
    return (state[0] + x) & MASK32, (state[1] + y) & MASK32


def ext4_state(seed):
    return struct.unpack("<4I", seed) if any(seed) else DEFAULT_STATE


def half_md4(name, seed, signed):
    state = ext4_state(seed)
    for rest in pieces(name, 32):
        state = half_md4_transform(state, pack(rest, 8, signed))
    return state[1], state[2]


def tea(name, state, signed):
    for rest in pieces(name, 16):
        state = tea_rounds(state, pack(rest, 4, signed), 16)
    return state


def of_ext4(function, signed):
    """Clears the bit that marks in the index that a hash goes on in the next leaf."""

    def hashed(name, seed):
        if function is legacy:
            return legacy(name, signed) & ~1, 0
        if function is tea:
            major, minor = tea(name, ext4_state(seed)[:2], signed)
        else:
            major, minor = half_md4(name, seed, signed)
        return major & ~1, minor

    return hashed


def ext4_siphash(name, seed):
    value = siphash(name, seed, 2, 4)
    return value >> 32 & ~1, value & MASK32


def kernel_key(value):
    """What the kernel's index holds for a hash of ext4."""
    return 0xFFFFFFFC if value & ~1 == 0xFFFFFFFE else value & ~1


# SipHash, by Aumasson and Bernstein


def siphash(name, seed, compressions, finalisations, width=64):
    """`width` is 64, or 32 for HalfSipHash."""
    mask = (1 << width) - 1
    size = width // 8
    k0, k1 = (int.from_bytes(seed[i * size:(i + 1) * size], "little") for i in range(2))
    if width == 64:
        shifts = (13, 32, 16, 21, 17, 32)
        v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    else:
        shifts = (5, 16, 8, 7, 13, 16)
        v = [k0, k1, k0 ^ 0x6C796765, k1 ^ 0x74656462]

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[1] = rotate_left(v[1], shifts[0], width) ^ v[0]
            v[0] = rotate_left(v[0], shifts[1], width)
            v[2] = (v[2] + v[3]) & mask
            v[3] = rotate_left(v[3], shifts[2], width) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = rotate_left(v[3], shifts[3], width) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = rotate_left(v[1], shifts[4], width) ^ v[2]
            v[2] = rotate_left(v[2], shifts[5], width)

    whole = len(name) // size * size
    words = [int.from_bytes(name[i:i + size], "little") for i in range(0, whole, size)]
    last = int.from_bytes(name[whole:], "little") | (len(name) & 0xFF) << (width - 8)
    for word in words + [last]:
        v[3] ^= word
        rounds(compressions)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(finalisations)
    return v[1] ^ v[3] if width == 32 else v[0] ^ v[1] ^ v[2] ^ v[3]


# CRCs: the register, without the inversions that published CRCs begin and end with


def crc32c_register(register, name):
    for byte in name:
        register = register >> 8 ^ crc32c_table_of.table[(register ^ byte) & 0xFF]
    return register


def reflected_table64(polynomial):
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        table.append(value)
    return table


ZFS_TABLE = reflected_table64(0xC96C5795D7870F42)


def crc64_big_endian(register, message):
    """ECMA-182's polynomial, the most significant bit first."""
    for byte in message:
        register ^= byte << 56
        for _ in range(8):
            register = (register << 1 ^ (0x42F0E1EBA9EA3693 if register >> 63 else 0)) & MASK64
    return register


# Other file systems


def xfs(name, _seed):
    value = 0
    for byte in name:
        value = byte ^ rotate_left(value, 7)
    return value, 0


def f2fs(name, _seed):
    if name in (b".", b".."):
        return 0, 0
    state = DEFAULT_STATE[:2]
    for rest in pieces(name, 16) or [b""]:
        state = tea_rounds(state, pack(rest, 4, False), 16)
    return state[0], 0


def ocfs2(signed):
    def hashed(name, seed):
        if name in (b".", b".."):
            return 0, 0
        return tea(name, struct.unpack("<2I", seed[:8]), signed)

    return hashed


def r5(name):
    value = 0
    for byte in name:
        c = signed_byte(byte)
        value = (value + (c << 4) + (c >> 4)) * 11 & MASK32
    return value


def ubifs(name, _seed):
    value = r5(name) & 0x1FFFFFFF
    return (value + 3 if value <= 2 else value), 0


def reiserfs_tea(name, _seed):
    """Bytes are signed, and joined with `or`: a byte from 80 on sets all bits above it."""
    pad = len(name) | len(name) << 8
    pad |= pad << 16
    state = (0x9464A485, 0x542E1A94)
    rest = name
    while len(rest) >= 16:
        state = tea_rounds(state, [little_endian_word(rest[i:i + 4]) for i in range(0, 16, 4)], 6)
        rest = rest[16:]
    words = []
    while len(rest) >= 4:
        words.append(little_endian_word(rest[:4]))
        rest = rest[4:]
    partial = pad
    for byte in rest:
        partial = (partial << 8 | signed_byte(byte)) & MASK32
    words.append(partial)
    words += [pad] * (4 - len(words))
    state = tea_rounds(state, words[:4], 10)
    return state[0] ^ state[1], 0


def little_endian_word(group):
    word = 0
    for i, byte in enumerate(group):
        word |= (signed_byte(byte) << 8 * i) & MASK32
    return word


def reiserfs_yura(name, _seed):
    """The name as a decimal number; then what lies between its end and 256, counted as digits."""
    value = 0
    for byte in name:
        value = (value * 10 + signed_byte(byte) - 48) & MASK32
    value += sum(range(max(40, len(name)), 256))
    return value << 7 & MASK32, 0


def zfs(bits):
    def hashed(name, seed):
        value = int.from_bytes(seed[:8], "little")
        for byte in name:
            value = value >> 8 ^ ZFS_TABLE[(value ^ byte) & 0xFF]
        return value & ~((1 << 64 - bits) - 1), 0

    return hashed


def ufs(name, _seed):
    value = 33554467
    for byte in name:
        value = (value * 0x01000193 & MASK32) ^ byte
    return value, 0


# The table

Row = collections.namedtuple("Row", "bits seed_bits function")

HASHES = {
    "legacy": Row(32, 0, of_ext4(legacy, True)),
    "half_md4": Row(32, 128, of_ext4(half_md4, True)),
    "tea": Row(32, 128, of_ext4(tea, True)),
    "legacy_unsigned": Row(32, 0, of_ext4(legacy, False)),
    "half_md4_unsigned": Row(32, 128, of_ext4(half_md4, False)),
    "tea_unsigned": Row(32, 128, of_ext4(tea, False)),
    "siphash": Row(32, 128, ext4_siphash),
    "btrfs": Row(32, 0, lambda name, seed: (crc32c_register(0xFFFFFFFE, name), 0)),
    "xfs": Row(32, 0, xfs),
    "f2fs": Row(32, 0, f2fs),
    "ocfs2": Row(32, 128, ocfs2(True)),
    "ocfs2_unsigned": Row(32, 128, ocfs2(False)),
    "reiserfs_r5": Row(32, 0, lambda name, seed: (r5(name), 0)),
    "reiserfs_tea": Row(32, 0, reiserfs_tea),
    "reiserfs_yura": Row(32, 0, reiserfs_yura),
    "ubifs": Row(29, 0, ubifs),
    "zfs": Row(64, 64, zfs(28)),
    "zfs48": Row(64, 64, zfs(48)),
    "gfs2": Row(32, 0, lambda name, seed: (zlib.crc32(name), 0)),
    "bcachefs_crc32c": Row(32, 64, lambda name, seed: (crc32c_register(MASK32, seed[:8] + name), 0)),
    "bcachefs_crc64": Row(63, 64, lambda name, seed: (crc64_big_endian(MASK64, seed[:8] + name) >> 1, 0)),
    "bcachefs_siphash": Row(63, 64, lambda name, seed: (siphash(name, seed[:8] + bytes(8), 2, 4) >> 1, 0)),
    "ufs": Row(32, 0, ufs),
    "siphash13": Row(64, 128, lambda name, seed: (siphash(name, seed, 1, 3), 0)),
    "siphash24": Row(64, 128, lambda name, seed: (siphash(name, seed, 2, 4), 0)),
    "halfsiphash24": Row(32, 64, lambda name, seed: (siphash(name, seed, 2, 4, 32), 0)),
    "xxh3": Row(64, 64, lambda name, seed: (xxh3_64_seeded(name, int.from_bytes(seed[:8], "little")), 0)),
    "crc32c_seeded": Row(32, 32, lambda name, seed: (crc32c_register(int.from_bytes(seed[:4], "little"), name), 0)),
}


def verification_code(hash_name):
    function = HASHES[hash_name].function
    results = hashlib.sha256()
    for n in range(256):
        name = bytes((7 * i + n) % 256 for i in range(n))
        seed = bytes((5 * i + n) % 256 for i in range(16)) if n % 2 else bytes(16)
        value, minor = function(name, seed)
        results.update(struct.pack("<QI", value, minor))
    return results.hexdigest()[:8]


def main():
    parser = argparse.ArgumentParser(description="Prints the directory hashes of names.")
    parser.add_argument("hash", choices=HASHES)
    parser.add_argument("--seed", type=lambda text: uuid.UUID(text).bytes, default=bytes(16))
    parser.add_argument("names", nargs="+", metavar="NAME")
    arguments = parser.parse_args()
    row = HASHES[arguments.hash]
    digits = (row.bits + 3) // 4
    for name in arguments.names:
        value, minor = row.function(os.fsencode(name), arguments.seed)
        print("0x%0*x (minor 0x%08x) %s" % (digits, value, minor, name))


if __name__ == "__main__":
    main()
