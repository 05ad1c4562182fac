"""`hash_many` against one message at a time."""

import hashlib
import sys
import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import verisum

NAMES = sorted(verisum.algorithms_available)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=20)
@given(messages=st.lists(st.binary(max_size=300), max_size=40))
def test_each_has_its_digest(name: str, messages: list[bytes]) -> None:
    want = [verisum.new(name, message).digest() for message in messages]
    assert verisum.hash_many(messages, name) == want


@pytest.mark.parametrize("threads", [0, 1, 2, 7])
@pytest.mark.parametrize("name", ["sha256", "md5", "blake3", "crc32c", "sha512"])
def test_much_is_hashed_on_threads(name: str, threads: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, 3_000_000, "u1").tobytes()
    cuts = [0, 0, 1, 4096, 8192, 12_288, 1_000_000, 1_000_007, 2_900_000, 3_000_000]
    messages = [data[a:b] for a, b in zip(cuts, cuts[1:])] + [data[i : i + 4096] for i in range(500)]
    want = [verisum.new(name, message).digest() for message in messages]
    assert verisum.hash_many(messages, name, threads=threads) == want
    packed = verisum.hash_many(iter(messages), name, threads=threads, packed=True)
    assert list(packed) == want


def test_the_digests_are_a_view() -> None:
    packed = verisum.hash_many([b"a", b"b", b"c"], packed=True)
    table = np.asarray(packed)
    assert table.shape == (3, 32) and table.dtype == np.dtype("u1") and not table.flags.writeable
    assert [row.tobytes() for row in table] == list(packed)
    again = np.asarray(packed)
    assert np.shares_memory(table, again)
    assert memoryview(packed).nbytes == 96
    assert packed[-1] == packed[2] == hashlib.sha256(b"c").digest()
    assert packed.hex()[1] == hashlib.sha256(b"b").hexdigest()
    assert (len(packed), packed.digest_size) == (3, 32)
    for index in (3, -4, sys.maxsize, -sys.maxsize - 1):
        with pytest.raises(IndexError):
            packed[index]
    # The view keeps them alive.
    del packed, again
    assert table[0].tobytes() == hashlib.sha256(b"a").digest()


def test_digests_are_a_sequence() -> None:
    want = verisum.hash_many([b"a", b"b", b"c", b"a"])
    packed = verisum.hash_many([b"a", b"b", b"c", b"a"], packed=True)
    assert isinstance(packed, Sequence)
    assert list(reversed(packed)) == want[::-1] and want[1] in packed and b"" not in packed
    assert (packed.count(want[0]), packed.count(7)) == (2, 0)
    assert (packed.index(want[0]), packed.index(want[0], 1), packed.index(want[0], -1)) == (0, 3, 3)
    for value, bounds in ((b"", ()), (want[0], (1, 3)), (want[0], (1, -1))):
        with pytest.raises(ValueError):
            packed.index(value, *bounds)
    for part in (slice(None), slice(1, 3), slice(None, None, -2), slice(9, 1), slice(-3, None)):
        assert list(packed[part]) == want[part]
    assert np.asarray(packed[1:3]).shape == (2, 32)
    match packed:
        case [first, *_]:
            assert first == want[0]
        case _:
            raise AssertionError("no sequence")


def test_nothing_is_no_digests() -> None:
    assert verisum.hash_many([]) == []
    packed = verisum.hash_many([], packed=True)
    assert np.asarray(packed).shape == (0, 32)
    assert verisum.hash_many([b""]) == [hashlib.sha256().digest()]


def test_rows_of_an_array() -> None:
    table = np.arange(40_000, dtype="u2").reshape(100, 400)
    assert verisum.hash_many(table) == [hashlib.sha256(row.tobytes()).digest() for row in table]
    with pytest.raises((BufferError, ValueError)):
        verisum.hash_many(table.T)


def test_one_that_is_no_buffer_fails_all() -> None:
    with pytest.raises(TypeError):
        verisum.hash_many([b"a", "b"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        verisum.hash_many(7)  # type: ignore[call-overload]
    with pytest.raises(verisum.DigestError):
        verisum.hash_many([b"a"], "nosuch")


def test_an_exception_of_the_iterator_comes_through() -> None:
    def broken() -> Iterator[bytes]:
        yield b"a"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        verisum.hash_many(broken())


def test_buffers_are_held_while_they_are_hashed() -> None:
    buffers = [bytearray(4 << 20) for _ in range(32)]
    done = threading.Event()

    def work() -> None:
        verisum.hash_many(buffers, "sha512", threads=1)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    refused = False
    while not done.is_set() and not refused:
        try:
            buffers[-1].append(0)
            buffers[-1].pop()
        except BufferError:
            refused = True
    thread.join()
    assert refused
    buffers[-1].append(0)
