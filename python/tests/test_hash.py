"""The hash objects against hashlib's."""

import array
import copy
import hashlib
import hmac
import mmap
import os
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import verisum
from verisum._native import algorithms

# Our name and hashlib's, where both have the digest. Those of OpenSSL are not in every hashlib.
BOTH = {
    name: other
    for name, other in {
        "md5": "md5",
        "sha1": "sha1",
        "sha224": "sha224",
        "sha256": "sha256",
        "sha384": "sha384",
        "sha512": "sha512",
        "sha512-224": "sha512_224",
        "sha512-256": "sha512_256",
        "sha3-224": "sha3_224",
        "sha3-256": "sha3_256",
        "sha3-384": "sha3_384",
        "sha3-512": "sha3_512",
        "shake128": "shake_128",
        "shake256": "shake_256",
        "blake2b512": "blake2b",
        "blake2s256": "blake2s",
        "md5-sha1": "md5-sha1",
        "sm3": "sm3",
        "ripemd160": "ripemd160",
    }.items()
    if other in hashlib.algorithms_available
}
GUARANTEED = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3-256", "shake128", "blake2b512"]


def reference(name: str, data: bytes) -> bytes:
    other = hashlib.new(BOTH[name], data)
    if BOTH[name].startswith("shake"):
        return bytes.fromhex(other.hexdigest(verisum.new(name).digest_size))  # type: ignore[call-arg]
    return other.digest()


def test_hashlib_has_what_this_is_compared_with() -> None:
    assert set(GUARANTEED) <= set(BOTH)
    assert set(BOTH) <= verisum.algorithms_available


@pytest.mark.parametrize("name", BOTH)
def test_the_attributes_are_hashlibs(name: str) -> None:
    ours, theirs = verisum.new(name), hashlib.new(BOTH[name])
    assert ours.block_size == theirs.block_size
    if theirs.digest_size:
        assert ours.digest_size == theirs.digest_size
    assert len(ours.digest()) == ours.digest_size
    assert ours.hexdigest() == ours.digest().hex()
    assert re.match(rf"<{name} verisum\.Hash object @ 0x[0-9a-f]+>", repr(ours))


@pytest.mark.parametrize("name", BOTH)
@settings(deadline=None, max_examples=30)
@given(pieces=st.lists(st.binary(max_size=700), max_size=8))
def test_pieces_have_the_digest_of_the_whole(name: str, pieces: list[bytes]) -> None:
    ours = verisum.new(name)
    so_far = b""
    for piece in pieces:
        ours.update(piece)
        so_far += piece
        # A digest in the middle changes nothing.
        assert ours.digest() == reference(name, so_far)
    assert ours.digest() == reference(name, so_far)
    assert verisum.new(name, so_far).digest() == ours.digest()


@pytest.mark.parametrize("name", BOTH)
def test_known_messages(name: str) -> None:
    data = bytes(i * 7 % 251 for i in range(100_000))
    for length in (0, 1, 55, 56, 63, 64, 65, 111, 127, 128, 129, 2047, 2048, 65_536, 100_000):
        assert verisum.new(name, data[:length]).digest() == reference(name, data[:length]), length


@pytest.mark.parametrize("name", sorted(verisum.algorithms_available))
def test_a_copy_goes_its_own_way(name: str) -> None:
    first = verisum.new(name, b"a" * 100)
    second, third = first.copy(), copy.copy(first)
    assert isinstance(second, verisum.Hash)
    second.update(b"b" * 5000)
    assert first.digest() == third.digest() == verisum.new(name, b"a" * 100).digest()
    assert second.digest() == verisum.new(name, b"a" * 100 + b"b" * 5000).digest() != first.digest()


def test_the_table_is_that_of_the_command() -> None:
    rows = {name: (length, block, what) for name, length, block, what in algorithms()}
    assert set(rows) == verisum.algorithms_available
    assert rows["sha256"] == (32, 64, "cryptographic")
    assert rows["crc32c"] == (4, 1, "error-detecting")
    for name, (length, block, _) in rows.items():
        made = verisum.new(name)
        assert (made.name, made.digest_size, made.block_size) == (name, length, block)


def test_other_spellings() -> None:
    for spelling in ("SHA256", "sha-256", "SHA2_256"):
        assert verisum.new(spelling).name == "sha256"
    assert verisum.new("sha3_256").name == "sha3-256"
    assert verisum.new("blake2b-256", b"x").digest() == hashlib.blake2b(b"x", digest_size=32).digest()
    assert verisum.new("blake2b-256").block_size == 128
    assert verisum.new("openssl:sha256", b"x").digest() == hashlib.sha256(b"x").digest()


def test_unknown_digests_are_told_by_name() -> None:
    for name in ("nosuch", "", "a\0b", "openssl:nosuch"):
        with pytest.raises(ValueError) as raised:
            verisum.new(name)
        assert isinstance(raised.value, verisum.DigestError)
        assert raised.value.operation == "find"
        assert name in str(raised.value)
    with pytest.raises(TypeError):
        verisum.new(1)  # type: ignore[arg-type]


def test_an_error_survives_pickling() -> None:
    with pytest.raises(verisum.Error) as raised:
        verisum.new("nosuch")
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is verisum.DigestError
    assert (str(again), again.operation, again.path, again.errno) == (
        str(raised.value),
        "find",
        None,
        None,
    )


def test_what_has_no_bytes_is_refused() -> None:
    for nothing in ("text", 7, None, [1, 2], object()):
        with pytest.raises(TypeError):
            verisum.new("sha256").update(nothing)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            verisum.new("sha256", nothing)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Strings must be encoded"):
        verisum.new("sha256", "text")  # type: ignore[arg-type]


def test_any_contiguous_buffer_is_taken() -> None:
    data = bytes(range(256)) * 16
    want = hashlib.sha256(data).digest()
    buffers: list[Any] = [
        bytearray(data),
        memoryview(data),
        memoryview(data).cast("I"),
        array.array("q", data),
        np.frombuffer(data, "u2").reshape(32, 64),
    ]
    for buffer in buffers:
        assert verisum.new("sha256", buffer).digest() == want
    assert verisum.new("sha256", memoryview(b"")).digest() == hashlib.sha256().digest()
    assert verisum.new("sha256", np.frombuffer(data, "u2")).digest() == want


def test_what_is_not_contiguous_is_refused() -> None:
    buffers: list[Any] = [memoryview(b"abcdef")[::2], np.zeros((8, 8))[:, ::2]]
    for buffer in buffers:
        hash_ = verisum.new("sha256", b"before")
        with pytest.raises((BufferError, ValueError)):
            hash_.update(buffer)
        assert hash_.digest() == hashlib.sha256(b"before").digest()


def test_what_was_released_is_refused() -> None:
    view = memoryview(b"abc")
    view.release()
    with pytest.raises(ValueError):
        verisum.new("sha256", view)


def test_a_buffer_cannot_be_resized_while_it_is_hashed() -> None:
    data = bytearray(256 << 20)
    hash_ = verisum.new("sha256")
    started = threading.Event()

    def work() -> None:
        started.set()
        hash_.update(data)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    refused = False
    while thread.is_alive() and not refused:
        try:
            data.append(0)
            data.pop()
        except BufferError:
            refused = True
    thread.join()
    assert refused
    data.append(0)
    del data[-1]
    assert hash_.digest() == hashlib.sha256(data).digest()


def test_threads_may_share_an_object() -> None:
    piece = b"x" * 70_000
    hash_ = verisum.new("sha1")

    def work() -> None:
        for _ in range(50):
            hash_.update(piece)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert hash_.hexdigest() == hashlib.sha1(piece * 400).hexdigest()


def test_more_than_4_gib(tmp_path: Path) -> None:
    length = (4 << 30) + 5
    path = tmp_path / "long"
    with open(path, "wb") as file:
        file.truncate(length)
        os.pwrite(file.fileno(), b"end", length - 3)
    with open(path, "rb") as again, mmap.mmap(again.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert verisum.new("crc32c", mapped).digest() == verisum.file_digest(again, "crc32c").digest()
        assert verisum.hash_many([mapped], "xxh3-64") == [verisum.new("xxh3-64", mapped).digest()]


@pytest.mark.parametrize("name", ["md5", "sha1", "sha256", "sha512", "sha3-256", "blake2b512"])
def test_hmac_takes_it(name: str) -> None:
    def start(data: bytes = b"") -> Any:
        return verisum.new(name, data)

    ours = hmac.new(b"key", b"message", start)
    assert ours.hexdigest() == hmac.new(b"key", b"message", BOTH[name]).hexdigest()


def test_it_cannot_be_made_or_pickled() -> None:
    with pytest.raises(TypeError):
        verisum.Hash()
    with pytest.raises(TypeError):
        pickle.dumps(verisum.new("sha256"))
