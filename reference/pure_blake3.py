"""BLAKE3 in its plain hash mode with 32 bytes of output.

Written from section 2 of the paper: J. O'Connor, J.-P. Aumasson, S. Neves and
Z. Wilcox-O'Hearn, "BLAKE3: one function, fast everywhere" (2020). The tree is
built by recursion, as the paper draws it, rather than with the stack of an
incremental hasher, so that this oracle shares no shortcut with the code it
checks. Keyed hashing, key derivation and long output are not here.

It hashes about a megabyte a second.
"""

import functools
import struct

CHUNK_LENGTH = 1024
BLOCK_LENGTH = 64

# Flags: which part of the tree a compression belongs to.
CHUNK_START = 1
CHUNK_END = 2
PARENT = 4
ROOT = 8

# The initial value of SHA-256: the fractional parts of the square roots of
# the first eight primes.
INITIAL_VALUE = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
    0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)

# The message words are reordered by this permutation after each round.
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
ROUNDS = 7

# A round mixes the four columns of the 4 × 4 state, then its four diagonals.
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))

MASK = 0xFFFFFFFF


def blake3(message):
    """The 32-byte BLAKE3 hash of `message`."""
    chaining_value = subtree(memoryview(message), 0, ROOT)
    return struct.pack("<8I", *chaining_value)


def subtree(message, first_chunk, root):
    """The chaining value of the subtree over `message`.

    `first_chunk` is the index of its first chunk in the whole input; `root`
    is ROOT for the whole input and 0 otherwise.
    """
    if len(message) <= CHUNK_LENGTH:
        return chunk(bytes(message), first_chunk, root)
    left_chunks = 1
    while left_chunks * 2 * CHUNK_LENGTH < len(message):
        left_chunks *= 2
    split = left_chunks * CHUNK_LENGTH
    left = subtree(message[:split], first_chunk, 0)
    right = subtree(message[split:], first_chunk + left_chunks, 0)
    return compress(INITIAL_VALUE, left + right, 0, BLOCK_LENGTH, PARENT | root)


# The contents of the vectors repeat themselves: most chunks occur again in another message.
@functools.cache
def chunk(message, index, root):
    """The chaining value of one chunk of at most 1024 bytes."""
    chaining_value = INITIAL_VALUE
    block_count = max(1, -(-len(message) // BLOCK_LENGTH))
    for number in range(block_count):
        block = message[number * BLOCK_LENGTH:(number + 1) * BLOCK_LENGTH]
        words = struct.unpack("<16I", block.ljust(BLOCK_LENGTH, b"\0"))
        flags = 0
        if number == 0:
            flags |= CHUNK_START
        if number == block_count - 1:
            flags |= CHUNK_END | root
        chaining_value = compress(chaining_value, words, index, len(block), flags)
    return chaining_value


def compress(chaining_value, words, counter, length, flags):
    """The compression function, truncated to its first eight words.

    Those are all that a chaining value or 32 bytes of output need.
    """
    state = list(chaining_value)
    state += INITIAL_VALUE[:4]
    state += (counter & MASK, counter >> 32, length, flags)
    for _ in range(ROUNDS):
        for number, (a, b, c, d) in enumerate(COLUMNS + DIAGONALS):
            mix(state, a, b, c, d, words[2 * number], words[2 * number + 1])
        words = [words[position] for position in PERMUTATION]
    return tuple(state[i] ^ state[i + 8] for i in range(8))


def mix(state, a, b, c, d, x, y):
    """The quarter round G, on four words of the state and two of the message."""
    va, vb, vc, vd = state[a], state[b], state[c], state[d]
    # Rotations to the right; as a function they would take half of the time of all vectors.
    va = (va + vb + x) & MASK
    vd ^= va
    vd = vd >> 16 | (vd << 16 & MASK)
    vc = (vc + vd) & MASK
    vb ^= vc
    vb = vb >> 12 | (vb << 20 & MASK)
    va = (va + vb + y) & MASK
    vd ^= va
    vd = vd >> 8 | (vd << 24 & MASK)
    vc = (vc + vd) & MASK
    vb ^= vc
    vb = vb >> 7 | (vb << 25 & MASK)
    state[a], state[b], state[c], state[d] = va, vb, vc, vd
