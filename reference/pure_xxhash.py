"""XXH32, XXH64, XXH3-64 and XXH3-128 with seed 0 and the default secret.

Written from the xxHash specification (doc/xxhash_spec.md of the xxHash
project). Every function returns the canonical form: big-endian bytes, the
high half of XXH3-128 first. All arithmetic is modulo 2^32 or 2^64.
"""

import struct

MASK32 = 0xFFFFFFFF
MASK64 = 0xFFFFFFFFFFFFFFFF

PRIME32_1 = 0x9E3779B1
PRIME32_2 = 0x85EBCA77
PRIME32_3 = 0xC2B2AE3D
PRIME32_4 = 0x27D4EB2F
PRIME32_5 = 0x165667B1

PRIME64_1 = 0x9E3779B185EBCA87
PRIME64_2 = 0xC2B2AE3D27D4EB4F
PRIME64_3 = 0x165667B19E3779F9
PRIME64_4 = 0x85EBCA77C2B2AE63
PRIME64_5 = 0x27D4EB2F165667C5

PRIME_MX1 = 0x165667919E3779F9
PRIME_MX2 = 0x9FB21C651E98DF25

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def read32(data, offset):
    return int.from_bytes(data[offset:offset + 4], "little")


def read64(data, offset):
    return int.from_bytes(data[offset:offset + 8], "little")


def rotate_left32(word, bits):
    return (word << bits | word >> (32 - bits)) & MASK32


def rotate_left64(word, bits):
    return (word << bits | word >> (64 - bits)) & MASK64


def swap_bytes32(word):
    return int.from_bytes(word.to_bytes(4, "little"), "big")


def swap_bytes64(word):
    return int.from_bytes(word.to_bytes(8, "little"), "big")


# XXH32


def xxh32(message):
    """XXH32: four bytes."""
    stripes_end = len(message) // 16 * 16
    if len(message) < 16:
        accumulator = PRIME32_5
    else:
        lanes = [(PRIME32_1 + PRIME32_2) & MASK32, PRIME32_2, 0, -PRIME32_1 & MASK32]
        for stripe in struct.iter_unpack("<4I", message[:stripes_end]):
            lanes = [xxh32_round(lane, word) for lane, word in zip(lanes, stripe)]
        accumulator = sum(
            rotate_left32(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))
        )
    accumulator = (accumulator + len(message)) & MASK32

    rest = message[stripes_end:]
    while len(rest) >= 4:
        accumulator = (accumulator + read32(rest, 0) * PRIME32_3) & MASK32
        accumulator = rotate_left32(accumulator, 17) * PRIME32_4 & MASK32
        rest = rest[4:]
    for byte in rest:
        accumulator = (accumulator + byte * PRIME32_5) & MASK32
        accumulator = rotate_left32(accumulator, 11) * PRIME32_1 & MASK32

    accumulator ^= accumulator >> 15
    accumulator = accumulator * PRIME32_2 & MASK32
    accumulator ^= accumulator >> 13
    accumulator = accumulator * PRIME32_3 & MASK32
    accumulator ^= accumulator >> 16
    return accumulator.to_bytes(4, "big")


def xxh32_round(accumulator, word):
    accumulator = (accumulator + word * PRIME32_2) & MASK32
    return rotate_left32(accumulator, 13) * PRIME32_1 & MASK32


# XXH64


def xxh64(message):
    """XXH64: eight bytes."""
    stripes_end = len(message) // 32 * 32
    if len(message) < 32:
        accumulator = PRIME64_5
    else:
        lanes = [(PRIME64_1 + PRIME64_2) & MASK64, PRIME64_2, 0, -PRIME64_1 & MASK64]
        for stripe in struct.iter_unpack("<4Q", message[:stripes_end]):
            lanes = [xxh64_round(lane, word) for lane, word in zip(lanes, stripe)]
        accumulator = sum(
            rotate_left64(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))
        )
        for lane in lanes:
            accumulator ^= xxh64_round(0, lane)
            accumulator = (accumulator * PRIME64_1 + PRIME64_4) & MASK64
    accumulator = (accumulator + len(message)) & MASK64

    rest = message[stripes_end:]
    while len(rest) >= 8:
        accumulator ^= xxh64_round(0, read64(rest, 0))
        accumulator = (rotate_left64(accumulator, 27) * PRIME64_1 + PRIME64_4) & MASK64
        rest = rest[8:]
    if len(rest) >= 4:
        accumulator ^= read32(rest, 0) * PRIME64_1 & MASK64
        accumulator = (rotate_left64(accumulator, 23) * PRIME64_2 + PRIME64_3) & MASK64
        rest = rest[4:]
    for byte in rest:
        accumulator ^= byte * PRIME64_5 & MASK64
        accumulator = rotate_left64(accumulator, 11) * PRIME64_1 & MASK64

    return xxh64_avalanche(accumulator).to_bytes(8, "big")


def xxh64_round(accumulator, word):
    accumulator = (accumulator + word * PRIME64_2) & MASK64
    return rotate_left64(accumulator, 31) * PRIME64_1 & MASK64


def xxh64_avalanche(word):
    word ^= word >> 33
    word = word * PRIME64_2 & MASK64
    word ^= word >> 29
    word = word * PRIME64_3 & MASK64
    return word ^ word >> 32


# XXH3: five ranges of length, each with its own method


def xxh3_64(message):
    """XXH3-64: eight bytes."""
    length = len(message)
    if length == 0:
        value = xxh64_avalanche(secret_pair(56))
    elif length <= 3:
        value = xxh3_64_1_to_3(message)
    elif length <= 8:
        value = xxh3_64_4_to_8(message)
    elif length <= 16:
        value = xxh3_64_9_to_16(message)
    elif length <= 128:
        value = xxh3_64_17_to_128(message)
    elif length <= 240:
        value = xxh3_64_129_to_240(message)
    else:
        value = merge(accumulate_long(message), length * PRIME64_1 & MASK64, 11)
    return value.to_bytes(8, "big")


def xxh3_128(message):
    """XXH3-128: sixteen bytes."""
    length = len(message)
    if length == 0:
        low, high = xxh64_avalanche(secret_pair(64)), xxh64_avalanche(secret_pair(80))
    elif length <= 3:
        low, high = xxh3_128_1_to_3(message)
    elif length <= 8:
        low, high = xxh3_128_4_to_8(message)
    elif length <= 16:
        low, high = xxh3_128_9_to_16(message)
    elif length <= 128:
        low, high = xxh3_128_17_to_128(message)
    elif length <= 240:
        low, high = xxh3_128_129_to_240(message)
    else:
        lanes = accumulate_long(message)
        low = merge(lanes, length * PRIME64_1 & MASK64, 11)
        high = merge(lanes, ~(length * PRIME64_2) & MASK64, len(SECRET) - 75)
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


def avalanche(word):
    word ^= word >> 37
    word = word * PRIME_MX1 & MASK64
    return word ^ word >> 32


def secret_pair(offset):
    """Two consecutive 64-bit words of the secret, combined by exclusive or."""
    return read64(SECRET, offset) ^ read64(SECRET, offset + 8)


def folded_product(a, b):
    """The two halves of the 128-bit product, combined by exclusive or."""
    product = a * b
    return product & MASK64 ^ product >> 64


# XXH3, 1 to 16 bytes


def combine_1_to_3(message):
    first, middle, last = message[0], message[len(message) >> 1], message[-1]
    return last | len(message) << 8 | first << 16 | middle << 24


def xxh3_64_1_to_3(message):
    secret = read32(SECRET, 0) ^ read32(SECRET, 4)
    return xxh64_avalanche(secret ^ combine_1_to_3(message))


def xxh3_128_1_to_3(message):
    combined = combine_1_to_3(message)
    low = read32(SECRET, 0) ^ read32(SECRET, 4) ^ combined
    high = read32(SECRET, 8) ^ read32(SECRET, 12)
    high ^= rotate_left32(swap_bytes32(combined), 13)
    return xxh64_avalanche(low), xxh64_avalanche(high)


def xxh3_64_4_to_8(message):
    first, last = read32(message, 0), read32(message, len(message) - 4)
    value = secret_pair(8) ^ (last | first << 32)
    value ^= rotate_left64(value, 49) ^ rotate_left64(value, 24)
    value = value * PRIME_MX2 & MASK64
    value ^= (value >> 35) + len(message)
    value = value * PRIME_MX2 & MASK64
    return value ^ value >> 28


def xxh3_128_4_to_8(message):
    first, last = read32(message, 0), read32(message, len(message) - 4)
    value = secret_pair(16) ^ (first | last << 32)
    product = value * (PRIME64_1 + (len(message) << 2))
    low, high = product & MASK64, product >> 64 & MASK64
    high = (high + (low << 1)) & MASK64
    low ^= high >> 3
    low ^= low >> 35
    low = low * PRIME_MX2 & MASK64
    low ^= low >> 28
    return low, avalanche(high)


def xxh3_64_9_to_16(message):
    low = secret_pair(24) ^ read64(message, 0)
    high = secret_pair(40) ^ read64(message, len(message) - 8)
    value = len(message) + swap_bytes64(low) + high + folded_product(low, high)
    return avalanche(value & MASK64)


def xxh3_128_9_to_16(message):
    first, last = read64(message, 0), read64(message, len(message) - 8)
    product = (secret_pair(32) ^ first ^ last) * PRIME64_1
    other = secret_pair(48) ^ last
    low = ((product & MASK64) + ((len(message) - 1) << 54)) & MASK64
    high = ((product >> 64) + other + (other & MASK32) * (PRIME32_2 - 1)) & MASK64
    low ^= swap_bytes64(high)
    product = (low | high << 64) * PRIME64_2
    return avalanche(product & MASK64), avalanche(product >> 64 & MASK64)


# XXH3, 17 to 240 bytes


def mix_16(message, offset, secret_offset):
    """Mixes 16 bytes of the message with 16 bytes of the secret."""
    return folded_product(
        read64(message, offset) ^ read64(SECRET, secret_offset),
        read64(message, offset + 8) ^ read64(SECRET, secret_offset + 8),
    )


def mix_32(low, high, message, offset1, offset2, secret_offset):
    """Mixes two pieces of 16 bytes into the two accumulators of XXH3-128."""
    low = (low + mix_16(message, offset1, secret_offset)) & MASK64
    high = (high + mix_16(message, offset2, secret_offset + 16)) & MASK64
    low ^= (read64(message, offset2) + read64(message, offset2 + 8)) & MASK64
    high ^= (read64(message, offset1) + read64(message, offset1 + 8)) & MASK64
    return low, high


def xxh3_64_17_to_128(message):
    length = len(message)
    accumulator = length * PRIME64_1
    for i in range((length - 1) // 32 + 1):
        accumulator += mix_16(message, i * 16, i * 32)
        accumulator += mix_16(message, length - i * 16 - 16, i * 32 + 16)
    return avalanche(accumulator & MASK64)


def xxh3_128_17_to_128(message):
    length = len(message)
    low, high = length * PRIME64_1 & MASK64, 0
    for i in reversed(range((length - 1) // 32 + 1)):
        low, high = mix_32(low, high, message, i * 16, length - i * 16 - 16, i * 32)
    return finish_128(low, high, length)


def xxh3_64_129_to_240(message):
    length = len(message)
    accumulator = length * PRIME64_1
    for i in range(8):
        accumulator += mix_16(message, i * 16, i * 16)
    accumulator = avalanche(accumulator & MASK64)
    for i in range(8, length // 16):
        accumulator += mix_16(message, i * 16, (i - 8) * 16 + 3)
    accumulator += mix_16(message, length - 16, 119)
    return avalanche(accumulator & MASK64)


def xxh3_128_129_to_240(message):
    length = len(message)
    low, high = length * PRIME64_1 & MASK64, 0
    for i in range(4):
        low, high = mix_32(low, high, message, i * 32, i * 32 + 16, i * 32)
    low, high = avalanche(low), avalanche(high)
    for i in range(4, length // 32):
        low, high = mix_32(low, high, message, i * 32, i * 32 + 16, (i - 4) * 32 + 3)
    # The last two pieces enter in the opposite order.
    low, high = mix_32(low, high, message, length - 16, length - 32, 103)
    return finish_128(low, high, length)


def finish_128(low, high, length):
    sums = low + high
    products = low * PRIME64_1 + high * PRIME64_4 + length * PRIME64_2
    return avalanche(sums & MASK64), -avalanche(products & MASK64) & MASK64


# XXH3, 241 bytes and more

STRIPE_LENGTH = 64
STRIPES_PER_BLOCK = (len(SECRET) - STRIPE_LENGTH) // 8


def accumulate_long(message):
    """Runs the whole message through the eight accumulators."""
    lanes = [
        PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3,
        PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1,
    ]
    # The last stripe, full or not, is taken from the last 64 bytes instead.
    stripe_count = (len(message) - 1) // STRIPE_LENGTH
    for number in range(stripe_count):
        position = number % STRIPES_PER_BLOCK
        accumulate(lanes, message, number * STRIPE_LENGTH, position * 8)
        if position == STRIPES_PER_BLOCK - 1:
            scramble(lanes)
    accumulate(lanes, message, len(message) - STRIPE_LENGTH, len(SECRET) - 71)
    return lanes


def accumulate(lanes, message, offset, secret_offset):
    words = struct.unpack_from("<8Q", message, offset)
    secret = struct.unpack_from("<8Q", SECRET, secret_offset)
    for i in range(8):
        mixed = words[i] ^ secret[i]
        lanes[i ^ 1] = (lanes[i ^ 1] + words[i]) & MASK64
        lanes[i] = (lanes[i] + (mixed & MASK32) * (mixed >> 32)) & MASK64


def scramble(lanes):
    secret = struct.unpack_from("<8Q", SECRET, len(SECRET) - STRIPE_LENGTH)
    for i in range(8):
        lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ secret[i]) * PRIME32_1 & MASK64


def merge(lanes, initial, secret_offset):
    secret = struct.unpack_from("<8Q", SECRET, secret_offset)
    result = initial
    for i in range(0, 8, 2):
        result += folded_product(lanes[i] ^ secret[i], lanes[i + 1] ^ secret[i + 1])
    return avalanche(result & MASK64)
