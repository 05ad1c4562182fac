"""XXH3-64 with a seed and the default secret; `pure_xxhash` has it without.

The seed is added to the first word of each pair of the secret and subtracted
from the second; from 241 bytes on that makes a secret of its own.
"""

import pure_xxhash as plain
from pure_xxhash import MASK64, PRIME64_1, PRIME_MX2, SECRET, avalanche, folded_product, read32, read64


def xxh3_64_seeded(message, seed):
    """The value as a number."""
    length = len(message)
    if length == 0:
        return plain.xxh64_avalanche(seed ^ plain.secret_pair(56))
    if length <= 3:
        secret = (read32(SECRET, 0) ^ read32(SECRET, 4)) + seed & MASK64
        return plain.xxh64_avalanche(secret ^ plain.combine_1_to_3(message))
    if length <= 8:
        return from_4_to_8(message, seed)
    if length <= 16:
        low = (plain.secret_pair(24) + seed & MASK64) ^ read64(message, 0)
        high = (plain.secret_pair(40) - seed & MASK64) ^ read64(message, length - 8)
        value = length + plain.swap_bytes64(low) + high + folded_product(low, high)
        return avalanche(value & MASK64)
    if length <= 128:
        accumulator = length * PRIME64_1
        for i in range((length - 1) // 32 + 1):
            accumulator += mix(message, i * 16, i * 32, seed)
            accumulator += mix(message, length - i * 16 - 16, i * 32 + 16, seed)
        return avalanche(accumulator & MASK64)
    if length <= 240:
        accumulator = length * PRIME64_1
        for i in range(8):
            accumulator += mix(message, i * 16, i * 16, seed)
        accumulator = avalanche(accumulator & MASK64)
        for i in range(8, length // 16):
            accumulator += mix(message, i * 16, (i - 8) * 16 + 3, seed)
        accumulator += mix(message, length - 16, 119, seed)
        return avalanche(accumulator & MASK64)
    return long(message, seed)


def from_4_to_8(message, seed):
    seed ^= plain.swap_bytes32(seed & 0xFFFFFFFF) << 32
    first, last = read32(message, 0), read32(message, len(message) - 4)
    value = (plain.secret_pair(8) - seed & MASK64) ^ (last | first << 32)
    value ^= plain.rotate_left64(value, 49) ^ plain.rotate_left64(value, 24)
    value = value * PRIME_MX2 & MASK64
    value ^= (value >> 35) + len(message)
    value = value * PRIME_MX2 & MASK64
    return value ^ value >> 28


def mix(message, offset, secret_offset, seed):
    return folded_product(
        read64(message, offset) ^ (read64(SECRET, secret_offset) + seed & MASK64),
        read64(message, offset + 8) ^ (read64(SECRET, secret_offset + 8) - seed & MASK64),
    )


def long(message, seed):
    secret = b"".join(
        ((read64(SECRET, i) + seed) & MASK64).to_bytes(8, "little")
        + ((read64(SECRET, i + 8) - seed) & MASK64).to_bytes(8, "little")
        for i in range(0, len(SECRET), 16)
    )
    original = plain.SECRET
    # The functions for long messages read the module's secret.
    plain.SECRET = secret
    try:
        lanes = plain.accumulate_long(message)
        return plain.merge(lanes, len(message) * PRIME64_1 & MASK64, 11)
    finally:
        plain.SECRET = original
