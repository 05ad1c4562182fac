"""Cyclic redundancy checks that the standard library lacks.

All are "reflected": bits enter with the least significant first. The register
starts as all ones and is inverted at the end, but for that of Jones, which
starts as zero and stays as it is. The names and
parameters are those of the catalogue of parametrised CRC algorithms
(reveng.sourceforge.io/crc-catalogue). CRC-32 itself is `zlib.crc32`.
"""


class Crc:
    """One reflected CRC, computed a byte at a time."""

    def __init__(self, width, polynomial, ones=None):
        """`polynomial` is in the usual notation: highest power first, the leading 1 left out."""
        self.width = width
        self.ones = (1 << width) - 1 if ones is None else ones
        reversed_polynomial = int(format(polynomial, "0%db" % width)[::-1], 2)
        self.table = [byte_remainder(byte, reversed_polynomial) for byte in range(256)]

    def __call__(self, message):
        """The check of `message`, big-endian."""
        register = self.ones
        for byte in message:
            register = register >> 8 ^ self.table[(register ^ byte) & 0xFF]
        return (register ^ self.ones).to_bytes(self.width // 8, "big")


def byte_remainder(byte, reversed_polynomial):
    """What eight steps of the shift register make of one byte."""
    register = byte
    for _ in range(8):
        carry = register & 1
        register >>= 1
        if carry:
            register ^= reversed_polynomial
    return register


# Castagnoli's polynomial: iSCSI, ext4, btrfs.
crc32c = Crc(32, 0x1EDC6F41)
# The polynomial of ECMA-182, as the xz format uses it.
crc64_xz = Crc(64, 0x42F0E1EBA9EA3693)
# NVM Express, NVM command set specification, 64-bit guard.
crc64_nvme = Crc(64, 0xAD93D23594C93659)
# David T. Jones, as checkit and Redis use it.
crc64_jones = Crc(64, 0xAD93D23594C935A9, ones=0)
