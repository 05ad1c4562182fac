"""The content of the test vectors: a short rule that any language can follow.

A message is a list of runs, each `(kind, length)`. A byte of a "data" run at
offset i of the message (not of the run) is i mod 251 + 1, which is never
zero; every byte of a "zero" run is zero. 251 is prime, so no two blocks or
vector lanes near each other hold the same data.
"""

PRIME = 251
DATA_CYCLE = bytes(i + 1 for i in range(PRIME))
CYCLE = bytes(range(PRIME))

# A piece of content at most this long is in memory at once.
PIECE_LENGTH = 1024 * 1024


def cycle(length):
    """The messages of vectors/digests.json: byte i is i mod 251."""
    return (CYCLE * (length // PRIME + 1))[:length]


def data(offset, length):
    """A piece of a data run that begins at `offset` of the message."""
    start = offset % PRIME
    return (DATA_CYCLE * ((start + length) // PRIME + 1))[start:start + length]


def pieces(runs):
    """The content of `runs`, a piece at a time."""
    offset = 0
    for kind, run_length in runs:
        end = offset + run_length
        while offset < end:
            length = min(PIECE_LENGTH, end - offset)
            yield data(offset, length) if kind == "data" else bytes(length)
            offset += length


def total_length(runs):
    return sum(length for _, length in runs)


def alternate(length, run_lengths, first="data"):
    """Data and zeros in turn, by the repeating `run_lengths`, cut at `length`."""
    runs = []
    kind = first
    offset = 0
    while offset < length:
        run_length = min(run_lengths[len(runs) % len(run_lengths)], length - offset)
        runs.append((kind, run_length))
        offset += run_length
        kind = "zero" if kind == "data" else "data"
    return runs
