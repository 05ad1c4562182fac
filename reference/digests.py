"""The digests of verisum, as functions from bytes to bytes.

`DIGESTS` maps a name to a function that takes the whole message and returns
its digest: for numbers (CRC, Adler, xxHash) the canonical big-endian bytes.
The names are those of `verisum digests`.

**Verification code.** One number of 32 bits that stands for a whole digest,
so that a table can hold it and every implementation can be checked against
the table in a moment. Message n, for n from 0 to 255, has n bytes, and its
byte i is (7·i + n) mod 256. The code is the first four bytes, as eight
hexadecimal digits, of

    SHA-256( digest(message 0) ‖ digest(message 1) ‖ … ‖ digest(message 255) )

Messages end at 255 bytes, so a code does not reach BLAKE3's second chunk
(1,025 bytes) or XXH3's first scramble (1,025 bytes): it tells digests and
gross errors apart, and vectors/digests.json covers the long inputs.
"""

import hashlib
import zlib

import pure_blake3
import pure_crc
import pure_xxhash


def from_hashlib(name):
    """A digest that OpenSSL or the standard library computes."""

    def digest(message):
        return hashlib.new(name, message, usedforsecurity=False).digest()

    return digest


def extendable(name, size):
    """An extendable-output function, cut to `size` bytes.

    The sizes are the defaults that OpenSSL had until version 3.3: they give
    only half of the collision resistance that the names promise.
    """

    def digest(message):
        return hashlib.new(name, message, usedforsecurity=False).digest(size)

    return digest


def number32(function):
    """A check that the standard library returns as a number."""

    def digest(message):
        return function(message).to_bytes(4, "big")

    return digest


def null(message):
    """The digest of zero length, for measuring everything but the hashing."""
    del message
    return b""


DIGESTS = {
    "adler32": number32(zlib.adler32),
    "blake2b512": from_hashlib("blake2b"),
    "blake2s256": from_hashlib("blake2s"),
    "blake3": pure_blake3.blake3,
    "crc32": number32(zlib.crc32),
    "crc32c": pure_crc.crc32c,
    "crc64-jones": pure_crc.crc64_jones,
    "crc64-nvme": pure_crc.crc64_nvme,
    "crc64-xz": pure_crc.crc64_xz,
    "md5": from_hashlib("md5"),
    "md5-sha1": from_hashlib("md5-sha1"),
    "null": null,
    "ripemd160": from_hashlib("ripemd160"),
    "sha1": from_hashlib("sha1"),
    "sha224": from_hashlib("sha224"),
    "sha256": from_hashlib("sha256"),
    "sha3-224": from_hashlib("sha3_224"),
    "sha3-256": from_hashlib("sha3_256"),
    "sha3-384": from_hashlib("sha3_384"),
    "sha3-512": from_hashlib("sha3_512"),
    "sha384": from_hashlib("sha384"),
    "sha512": from_hashlib("sha512"),
    "sha512-224": from_hashlib("sha512_224"),
    "sha512-256": from_hashlib("sha512_256"),
    "shake128": extendable("shake_128", 16),
    "shake256": extendable("shake_256", 32),
    "sm3": from_hashlib("sm3"),
    "xxh3-128": pure_xxhash.xxh3_128,
    "xxh3-64": pure_xxhash.xxh3_64,
    "xxh32": pure_xxhash.xxh32,
    "xxh64": pure_xxhash.xxh64,
}


def available(name):
    """Whether this Python can compute the digest.

    Some builds of OpenSSL leave ripemd160, sm3, md5 or md5-sha1 out.
    """
    try:
        DIGESTS[name](b"")
    except ValueError:
        return False
    return True


def output_bits(name):
    """The length of the digest in bits."""
    return 8 * len(DIGESTS[name](b""))


def verification_code(name):
    """The verification code of a digest: eight hexadecimal digits."""
    digest = DIGESTS[name]
    outputs = b"".join(digest(verification_message(n)) for n in range(256))
    return hashlib.sha256(outputs).hexdigest()[:8]


def verification_message(n):
    """Message `n` of the verification code."""
    return bytes((7 * i + n) % 256 for i in range(n))
