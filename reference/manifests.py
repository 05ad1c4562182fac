"""Lists of checksums in the formats that verisum reads and writes, written and checked in Python.

    manifests.py write FORMAT DIGEST[,DIGEST…] NAME…    prints a list of these files
    manifests.py check FORMAT LIST                      checks a list; exit code 1 if anything is wrong

The formats are gnu, bsd, sfv, hashdeep, mtree, bagit and json, the digests those of hashlib and crc32.
"""

import hashlib
import json
import os
import re
import sys
import zlib

TAGS = {"md5": "MD5", "sha1": "SHA1", "sha256": "SHA256", "sha512": "SHA512", "blake2b512": "BLAKE2b"}
LENGTHS = {8: "crc32", 32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}
ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}


def digest(algorithm, data):
    """The digest of bytes in lowercase hexadecimal."""
    if algorithm == "crc32":
        return "%08x" % zlib.crc32(data)
    return hashlib.new("blake2b" if algorithm == "blake2b512" else algorithm, data).hexdigest()


def escaped(name):
    """A name as the coreutils print it, and the backslash that then begins the line."""
    text = re.sub(rb"[\\\n\r]", lambda match: ESCAPES[match[0]], name)
    return (b"\\" if text != name else b"", text)


def unescaped(name):
    """Undoes that."""
    return re.sub(rb"\\(.)", lambda match: {b"n": b"\n", b"r": b"\r"}.get(match[1], match[1]), name)


def write(form, algorithms, names):
    """The bytes of a list."""
    out = []
    if form == "sfv":
        out.append(b"; a comment\n")
    if form == "hashdeep":
        columns = ",".join(algorithms).encode()
        out.append(b"%%%%%%%% HASHDEEP-1.0\n%%%%%%%% size,%s,filename\n## \n" % columns)
    if form == "mtree":
        out.append(b"#mtree\n")
    for name in names:
        with open(name, "rb") as file:
            data = file.read()
        values = {algorithm: digest(algorithm, data) for algorithm in algorithms}
        slash, text = escaped(name)
        if form == "gnu":
            out += [b"%s%s  %s\n" % (slash, value.encode(), text) for value in values.values()]
        elif form == "bsd":
            for algorithm, value in values.items():
                out.append(b"%s%s (%s) = %s\n" % (slash, TAGS[algorithm].encode(), text, value.encode()))
        elif form == "sfv":
            prefix = b"./" if name[:1] in b";#" else b""
            out.append(b"%s%s %s\n" % (prefix, name, values["crc32"].upper().encode()))
        elif form == "hashdeep":
            out.append(b"%d,%s,%s\n" % (len(data), ",".join(values.values()).encode(), name))
        elif form == "mtree":
            # Every byte may be written in octal.
            path = b"./" + b"".join(b"/" if byte == 47 else b"\\%03o" % byte for byte in name)
            keys = b" ".join(b"%sdigest=%s" % (key.encode(), value.encode()) for key, value in values.items())
            out.append(b"%s type=file size=%d %s\n" % (path, len(data), keys))
        elif form == "bagit":
            path = re.sub(rb"%(?=0[AaDd]|25)", b"%25", name).replace(b"\n", b"%0A").replace(b"\r", b"%0D")
            out.append(b"%s  %s\n" % (list(values.values())[0].encode(), path))
        elif form == "json":
            record = {"path": name.decode("utf-8", "replace"), "size": len(data), "digests": values}
            if record["path"].encode() != name:
                record["path_bytes_hex"] = name.hex()
            out.append(json.dumps(record).encode() + b"\n")
    return b"".join(out)


def read(form, data):
    """Yields (name, algorithm, value) for each digest of a list."""
    columns = []
    for line in data.split(b"\n"):
        if not line or line.startswith((b"#", b";")):
            continue
        is_escaped = form in ("gnu", "bsd") and line.startswith(b"\\")
        line = line[1:] if is_escaped else line
        name = None
        if form == "gnu":
            value, name = line[: line.index(b" ")].decode(), line[line.index(b" ") + 2 :]
            pairs = [(LENGTHS[len(value)], value)]
        elif form == "bsd":
            match = re.fullmatch(rb"(\S+) \((.*)\) = ([0-9a-f]+)", line, re.DOTALL)
            name = match[2]
            pairs = [(next(key for key, tag in TAGS.items() if tag.encode() == match[1]), match[3].decode())]
        elif form == "sfv":
            name, value = line.rsplit(b" ", 1)
            pairs = [("crc32", value.decode().lower())]
        elif form == "hashdeep":
            if line.startswith(b"%%%% size"):
                columns = line[5:].decode().split(",")
            if line.startswith(b"%%%%"):
                continue
            *values, name = line.split(b",", len(columns) - 1)
            pairs = [(key, value.decode()) for key, value in zip(columns[1:], values[1:])]
        elif form == "mtree":
            path, *keys = line.split(b" ")
            name = re.sub(rb"\\(\d\d\d)", lambda match: bytes([int(match[1], 8)]), path)
            keys = [key.decode().split("=") for key in keys]
            pairs = [(key[:-6], value) for key, value in keys if key.endswith("digest")]
        elif form == "bagit":
            value, name = line.split(b"  ", 1)
            name = re.sub(rb"%(0[AaDd]|25)", lambda match: bytes.fromhex(match[1].decode()), name)
            pairs = [(LENGTHS[len(value)], value.decode())]
        elif form == "json":
            record = json.loads(line)
            name = record["path"].encode()
            if "path_bytes_hex" in record:
                name = bytes.fromhex(record["path_bytes_hex"])
            pairs = record["digests"].items()
        name = unescaped(name) if is_escaped else name
        for algorithm, value in pairs:
            yield name, algorithm, value


def check(form, data):
    """Whether every file of a list is there and has its digests."""
    is_right = False
    for name, algorithm, value in read(form, data):
        try:
            with open(name, "rb") as file:
                found = digest(algorithm, file.read())
        except OSError as error:
            print(f"{name}: {error}")
            return False
        if found != value:
            print(f"{name}: {algorithm} is {found}")
            return False
        is_right = True
    return is_right


def main():
    """The program."""
    command, form, argument, *names = sys.argv[1:]
    if command == "write":
        sys.stdout.buffer.write(write(form, argument.split(","), [os.fsencode(name) for name in names]))
        return 0
    with open(argument, "rb") as file:
        return 0 if check(form, file.read()) else 1


if __name__ == "__main__":
    sys.exit(main())
