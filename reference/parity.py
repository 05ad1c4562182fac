"""Parity files: a reader that checks everything, and recovers a file from them.

Written from docs/parity.md, slowly and plainly. The code is computed from its
formula, one product at a time, and lost blocks by elimination; the program
uses transforms and the inverse of a Cauchy matrix, and shares no line with it.

    python3 reference/parity.py DIR/.verisum-parity DIR PATH OUTPUT

writes to OUTPUT what the file PATH of the tree DIR was when its parity was
made, as long as no set that it is in lost more blocks than it has parity.
"""

import argparse
import os
import struct
import sys
import zlib

from pure_blake3 import blake3

MAGIC = b"verisum parity 1"
END_MAGIC = b"verisum parity e"
LABEL_LENGTH = 96
TRAILER_LENGTH = 32
SEAL_LENGTH = 32
PART_DIGEST_LENGTH = 16

# The field: polynomials over GF(2) modulo this one, and the basis in which
# bit i of an element stands for BASIS[i].
POLYNOMIAL = 0x1002D
BASIS = (
    0x0001, 0xACCA, 0x3C0E, 0x163E, 0xC582, 0xED2E, 0x914C, 0x4012,
    0x6C98, 0x10D8, 0x6A72, 0xB900, 0xFDB8, 0xFB34, 0xFF38, 0x991E,
)
ORDER = 65535


class Damaged(Exception):
    """What is read is no parity, or not whole."""


def make_tables():
    """The powers of the polynomial x, as elements, and their logarithms."""
    as_element = {}
    for element in range(ORDER + 1):
        value = 0
        for bit in range(16):
            if element >> bit & 1:
                value ^= BASIS[bit]
        as_element[value] = element
    powers, logarithms = [], [None] * (ORDER + 1)
    power = 1
    for exponent in range(ORDER):
        element = as_element[power]
        powers.append(element)
        logarithms[element] = exponent
        power <<= 1
        if power > ORDER:
            power ^= POLYNOMIAL
    return powers, logarithms


POWERS, LOGARITHMS = make_tables()


def multiply(a, b):
    if a == 0 or b == 0:
        return 0
    return POWERS[(LOGARITHMS[a] + LOGARITHMS[b]) % ORDER]


def divide(a, b):
    if a == 0:
        return 0
    return POWERS[(LOGARITHMS[a] - LOGARITHMS[b]) % ORDER]


def coefficient(run, row, index):
    """How much of data block `index` is in parity block `row`.

    Data block i has the point run + i. Its run of points is interpolated, and
    the interpolation evaluated at the point `row`: Lagrange's formula.
    """
    point = run + index
    first = point - point % run
    above, below = 1, 1
    for other in range(first, first + run):
        if other != point:
            above = multiply(above, row ^ other)
            below = multiply(below, point ^ other)
    return divide(above, below)


def symbols(block):
    """The 16-bit elements of a block: in 64 bytes, 32 low ones, then 32 high ones."""
    found = []
    for group in range(0, len(block), 64):
        for i in range(group, group + 32):
            found.append(block[i] | block[i + 32] << 8)
    return found


def block_of(elements):
    block = bytearray()
    for group in range(0, len(elements), 32):
        part = elements[group : group + 32]
        block += bytes(element & 0xFF for element in part)
        block += bytes(element >> 8 for element in part)
    return bytes(block)


def add_product(total, factor, elements):
    """total += factor * elements"""
    if factor:
        logarithm = LOGARITHMS[factor]
        for i, element in enumerate(elements):
            if element:
                total[i] ^= POWERS[(LOGARITHMS[element] + logarithm) % ORDER]


def solve(run, data, parity):
    """Fills in the lost data blocks (None), given parity blocks by their number."""
    lost = [index for index, block in enumerate(data) if block is None]
    if len(parity) < len(lost):
        raise Damaged(f"{len(lost)} blocks are lost, and {len(parity)} parity blocks are left")
    rows = sorted(parity)[: len(lost)]
    known = [symbols(block) if block is not None else None for block in data]
    matrix, right = [], []
    for row in rows:
        rest = symbols(parity[row])
        for index, elements in enumerate(known):
            if elements is not None:
                add_product(rest, coefficient(run, row, index), elements)
        matrix.append([coefficient(run, row, index) for index in lost])
        right.append(rest)
    # Gauss and Jordan.
    for column in range(len(lost)):
        pivot = next(row for row in range(column, len(lost)) if matrix[row][column])
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        right[column], right[pivot] = right[pivot], right[column]
        inverse = divide(1, matrix[column][column])
        matrix[column] = [multiply(inverse, value) for value in matrix[column]]
        right[column] = [multiply(inverse, value) for value in right[column]]
        for row in range(len(lost)):
            factor = matrix[row][column]
            if row != column and factor:
                add_product(matrix[row], factor, matrix[column])
                add_product(right[row], factor, right[column])
    for index, elements in zip(lost, right):
        data[index] = block_of(elements)
    return data


def expect(condition, what):
    if not condition:
        raise Damaged(what)


class Numbers:
    """Numbers of seven bits a byte, the lowest first."""

    def __init__(self, content):
        self.content, self.at = content, 0

    def next(self):
        number, shift = 0, 0
        while True:
            expect(self.at < len(self.content), "the list ends early")
            byte = self.content[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def bytes(self, length):
        expect(self.at + length <= len(self.content), "the list ends early")
        self.at += length
        return self.content[self.at - length : self.at]


def read_list(content, count):
    numbers, pieces, path, seconds = Numbers(content), [], b"", 0
    for _ in range(count):
        shared, own = numbers.next(), numbers.next()
        expect(shared <= len(path), "a path shares more than there is")
        path = path[:shared] + numbers.bytes(own)
        names = path.split(b"/")
        expect(not {b"", b".", b".."} & set(names) and b"\0" not in path, "a path leads elsewhere")
        piece = {"path": path}
        for key in ("size", "offset", "length", "moved", "nanoseconds", "mode", "owner", "group"):
            piece[key] = numbers.next()
        moved = piece.pop("moved")
        seconds += (moved >> 1) ^ -(moved & 1)
        piece["seconds"] = seconds
        expect(piece["offset"] + piece["length"] <= piece["size"], "a piece is beyond its file")
        pieces.append(piece)
    expect(numbers.at == len(content), "the list goes on")
    return pieces


def read_head(content):
    """A head as a dictionary."""
    expect(content[:16] == MAGIC, "no parity")
    expect(blake3(content[:-SEAL_LENGTH]) == content[-SEAL_LENGTH:], "the head is damaged")
    block, parity = struct.unpack_from("<II", content, 16)
    number, length, pieces, parts, listed, stored, whole = struct.unpack_from("<7Q", content, 24)
    expect(whole == len(content), "the head has another length")
    listing = zlib.decompress(content[LABEL_LENGTH : LABEL_LENGTH + stored])
    expect(len(listing) == listed, "the list has another length")
    digests = content[LABEL_LENGTH + stored : -SEAL_LENGTH]
    cut = [digests[i : i + PART_DIGEST_LENGTH] for i in range(0, len(digests), PART_DIGEST_LENGTH)]
    expect(len(cut) == parts + parity, "there are digests too many or too few")
    head = {
        "number": number,
        "block": block,
        "length": length,
        "pieces": read_list(listing, pieces),
        "parts": cut[:parts],
        "parity": cut[parts:],
        "head_length": whole,
    }
    expect(sum(piece["length"] for piece in head["pieces"]) == length, "the pieces are not the data")
    return head


def read_set(content):
    """The head of a set, the first or else the last, and its parity blocks that are whole."""
    head = None
    for length in (content[72:80], content[-TRAILER_LENGTH:][16:24]):
        length = int.from_bytes(length, "little")
        for start in (0, len(content) - TRAILER_LENGTH - length):
            try:
                head = head or read_head(content[start : start + length])
            except Damaged:
                continue
    expect(head is not None, "both heads are damaged")
    blocks = {}
    for index, digest in enumerate(head["parity"]):
        start = head["head_length"] + index * head["block"]
        block = content[start : start + head["block"]]
        if blake3(block)[:PART_DIGEST_LENGTH] == digest:
            blocks[index] = block
    return head, blocks


def parts_of(head):
    """Each part: its piece, its block, its place there, its length, its place in the file, its digest."""
    digests, start = iter(head["parts"]), 0
    for piece in head["pieces"]:
        done = 0
        while done < piece["length"]:
            block, within = divmod(start + done, head["block"])
            length = min(head["block"] - within, piece["length"] - done)
            yield piece, block, within, length, piece["offset"] + done, next(digests)
            done += length
        start += piece["length"]


def data_blocks(head, tree):
    """The data blocks of a set as the tree has them; None for one that is not as recorded."""
    count = -(-head["length"] // head["block"])
    blocks = [bytearray(head["block"]) for _ in range(count)]
    for piece, block, within, length, offset, digest in parts_of(head):
        try:
            with open(os.path.join(tree, piece["path"]), "rb") as file:
                file.seek(offset)
                part = file.read(length)
        except OSError:
            part = b""
        if blake3(part)[:PART_DIGEST_LENGTH] != digest:
            blocks[block] = None
        elif blocks[block] is not None:
            blocks[block][within : within + length] = part
    return blocks


def record_of(piece):
    """What a piece says of its file: whether it is all of it, and its length and time."""
    return piece["length"] == piece["size"], piece["size"], piece["seconds"], piece["nanoseconds"]


def recover(place, tree, path):
    """The bytes that a file was when its parity was made."""
    tree = os.fsencode(tree)
    found, newest = {}, None
    for name in sorted(os.listdir(place), reverse=True):
        if not name.endswith(".parity"):
            continue
        with open(os.path.join(place, name), "rb") as file:
            head, parity = read_set(file.read())
        record = next((record_of(piece) for piece in head["pieces"] if piece["path"] == path), None)
        if record is None or newest is not None and (record != newest or newest[0]):
            continue
        newest = record
        data = data_blocks(head, tree)
        if None in data:
            run = 1
            while run < len(head["parity"]):
                run *= 2
            data = solve(run, data, parity)
        for piece, block, within, length, offset, digest in parts_of(head):
            if piece["path"] == path:
                part = bytes(data[block][within : within + length])
                expect(blake3(part)[:PART_DIGEST_LENGTH] == digest, "a part is not what was recorded")
                found[offset] = part
    expect(newest is not None, "no set has this file")
    content = b"".join(found[offset] for offset in sorted(found))
    expect(len(content) == newest[1], "a part of the file has no parity")
    return content


def main():
    parser = argparse.ArgumentParser(description="Recovers a file from its parity.")
    parser.add_argument("place", help="the directory of the parity files")
    parser.add_argument("tree", help="the directory at the top of the tree")
    parser.add_argument("path", help="the path of the file from there")
    parser.add_argument("output", help="the file to write, which must not be there")
    arguments = parser.parse_args()
    try:
        content = recover(arguments.place, arguments.tree, os.fsencode(arguments.path))
    except Damaged as error:
        sys.exit(f"parity.py: {error}")
    with open(arguments.output, "xb") as file:
        file.write(content)


if __name__ == "__main__":
    main()
