#!/usr/bin/env python3
"""Tags: checksums of files in extended attributes, in every form verisum knows.

Written from docs/tags.md, with the standard library only. The functions turn
records into the bytes of attributes and back; as a program it reads, writes
and judges the tags of one file, as the tests of the Rust code need it:

    tags.py write FAMILY ALGORITHM FILE    tag the file (verisum, shatag, plain)
    tags.py read FAMILY FILE               print what the tags say, as JSON
    tags.py state FILE                     print the shatag state of the file
    tags.py foreign KIND FILE              tag the file as another tool would:
                                           fork, hash, hashrat, checkit, xrootd
"""

import binascii
import collections
import json
import os
import struct
import sys
import time

from digests import DIGESTS

# The numbers of the digests in `user.verisum`, in order from 1.
NUMBERED = (
    "sha256 sha512 sha1 md5 blake3 xxh3-64 xxh3-128 xxh64 xxh32 crc32 crc32c "
    "crc64-nvme crc64-xz adler32 sha224 sha384 sha512-224 sha512-256 sha3-224 "
    "sha3-256 sha3-384 sha3-512 shake128 shake256 blake2b512 blake2s256 sm3 "
    "ripemd160 whirlpool md5-sha1 md4 crc64-jones"
).split()

HEADER = struct.Struct("<BBHIQqq")
NO_TIME = 0xFFFFFFFF
NO_SIZE = 0xFFFFFFFFFFFFFFFF

#: size in bytes or None; mtime in nanoseconds or None; verified in seconds or None.
Record = collections.namedtuple("Record", "algorithm digest size mtime verified")


class Damaged(ValueError):
    """The bytes are not those of a tag."""


def encode(record):
    """The bytes of `user.verisum`."""
    seconds, nanoseconds = (0, NO_TIME) if record.mtime is None else divmod(record.mtime, 10**9)
    size = NO_SIZE if record.size is None else record.size
    number = NUMBERED.index(record.algorithm) + 1

    def header(check):
        return HEADER.pack(1, number, check, nanoseconds, size, seconds, record.verified or 0)

    return header(check_of(header(0) + record.digest)) + record.digest


def decode(tag):
    """The record of the bytes of `user.verisum`."""
    if len(tag) < HEADER.size:
        raise Damaged("too short")
    version, number, check, nanoseconds, size, seconds, verified = HEADER.unpack_from(tag)
    if check != check_of(tag):
        raise Damaged("check")
    if version != 1 or not 1 <= number <= len(NUMBERED):
        raise NotImplementedError("a later version")
    # The two highest bits say how exact the time is.
    mtime = None if nanoseconds == NO_TIME else seconds * 10**9 + nanoseconds % 2**30
    size = None if size == NO_SIZE else size
    return Record(NUMBERED[number - 1], tag[HEADER.size :], size, mtime, verified or None)


def check_of(tag):
    """The check of a tag: all bytes but those that hold it."""
    return binascii.crc_hqx(tag[:2] + tag[4:], 0xFFFF)


def shatag_time(mtime):
    """A time of modification in nanoseconds as cshatag writes it: seconds without a sign."""
    seconds, nanoseconds = divmod(mtime, 10**9)
    return "%010d.%09d" % (seconds % 2**64, nanoseconds)


def parse_shatag_time(text):
    """The time in nanoseconds and how far it may be off."""
    seconds, _, fraction = text.rstrip("\0\n").partition(".")
    unit = 10 ** (9 - len(fraction))
    whole = (int(seconds) + 2**63) % 2**64 - 2**63
    return whole * 10**9 + int(fraction or 0) * unit, 100 if unit == 1 else max(unit, 1000)


def shatag_state(stored_sum, stored_time, actual_sum, mtime):
    """One of the five states: new, ok, corrupt, timechange, outdated."""
    if stored_sum is None or stored_time is None:
        return "new"
    recorded, tolerance = parse_shatag_time(stored_time)
    if tolerance == 100:
        same_time = recorded // 100 == mtime // 100
    else:
        same_time = abs(recorded - mtime) < tolerance
    same_sum = stored_sum[:64] == actual_sum
    if same_sum:
        return "ok" if same_time else "timechange"
    return "corrupt" if same_time else "outdated"


def get(path, name):
    """The value of an attribute; None if there is none."""
    try:
        return os.getxattr(path, name)
    except OSError:
        return None


def digest_of(path, algorithm):
    """The digest of a file."""
    with open(path, "rb") as file:
        return DIGESTS[algorithm](file.read())


def write(family, algorithm, path):
    """Tags a file."""
    stat = os.stat(path)
    digest = digest_of(path, algorithm)
    if family == "verisum":
        record = Record(algorithm, digest, stat.st_size, stat.st_mtime_ns, int(time.time()))
        os.setxattr(path, "user.verisum", encode(record))
    elif family == "shatag":
        os.setxattr(path, "user.shatag.sha256", digest.hex().encode())
        os.setxattr(path, "user.shatag.ts", shatag_time(stat.st_mtime_ns).encode())
    else:
        os.setxattr(path, "user.checksum." + algorithm, digest.hex().encode())


def read(family, path):
    """What the tags of a file say, as plain values."""
    if family == "verisum":
        tag = get(path, "user.verisum")
        if tag is None:
            return None
        record = decode(tag)
        return record._replace(digest=record.digest.hex())._asdict()
    if family == "shatag":
        stored = get(path, "user.shatag.sha256")
        stamp = get(path, "user.shatag.ts")
        return {"sum": stored and stored.decode(), "time": stamp and stamp.decode()}
    names = [name for name in os.listxattr(path) if name.startswith("user.checksum.")]
    return {name[len("user.checksum.") :]: get(path, name).decode() for name in names}


def state(path):
    """The shatag state of a file."""
    stored = read("shatag", path)
    actual = digest_of(path, "sha256").hex()
    return shatag_state(stored["sum"], stored["time"], actual, os.stat(path).st_mtime_ns)


def foreign(kind, path):
    """Tags a file as another tool would."""
    stat = os.stat(path)
    stamp = shatag_time(stat.st_mtime_ns).encode()
    with open(path, "rb") as file:
        message = file.read()
    if kind == "fork":
        os.setxattr(path, "user.shatag.md5", DIGESTS["md5"](message).hex().encode() + b"\0")
        os.setxattr(path, "user.shatag.ts", stamp)
    elif kind == "hash":
        os.setxattr(path, "user.hash", DIGESTS["sha256"](message) + stamp)
    elif kind == "hashrat":
        text = "%d:%d:%s\0" % (int(time.time()) + 1, len(message), DIGESTS["sha1"](message).hex())
        os.setxattr(path, "user.hashrat:sha1", text.encode())
    elif kind == "checkit":
        os.setxattr(path, "user.crc64", struct.pack("=Q", int.from_bytes(DIGESTS["crc64-jones"](message), "big")))
    elif kind == "xrootd":
        value = DIGESTS["adler32"](message)
        head = struct.pack(">16sqi3xB", b"adler32", int(stat.st_mtime), 1, len(value))
        os.setxattr(path, "user.XrdCks.adler32", head + value.ljust(64, b"\0"))
    else:
        raise SystemExit("unknown kind: " + kind)


def main(arguments):
    """The program."""
    verb, rest = arguments[0], arguments[1:]
    if verb == "read":
        print(json.dumps(read(*rest)))
    elif verb == "state":
        print(state(*rest))
    else:
        {"write": write, "foreign": foreign}[verb](*rest)


if __name__ == "__main__":
    main(sys.argv[1:])
