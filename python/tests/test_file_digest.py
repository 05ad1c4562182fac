"""`file_digest` of every kind of file object."""

import hashlib
import io
import socket
from pathlib import Path

import pytest

import verisum

DATA = bytes(range(256)) * 10_000
WANT = hashlib.sha256(DATA).hexdigest()


class OnlyReads:
    """What some file systems of fsspec give."""

    def __init__(self) -> None:
        self.rest = DATA

    def read(self, size: int, /) -> bytes:
        piece, self.rest = self.rest[: min(size, 1000)], self.rest[min(size, 1000) :]
        return piece


def test_file_objects(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    for buffering in (0, -1):
        with open(path, "rb", buffering=buffering) as file:
            assert verisum.file_digest(file, "sha256").hexdigest() == WANT
            assert verisum.file_digest(file, "sha256").hexdigest() == hashlib.sha256().hexdigest()
            file.seek(256)
            assert verisum.file_digest(file, lambda: verisum.new("sha256", DATA[:256])).hexdigest() == WANT
    assert verisum.file_digest(io.BytesIO(DATA), "sha256").hexdigest() == WANT
    assert verisum.file_digest(OnlyReads(), "sha256").hexdigest() == WANT


def test_what_would_wait_is_refused() -> None:
    one, other = socket.socketpair()
    with one, other, one.makefile("rb", buffering=0) as file:
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            verisum.file_digest(file, "sha256")


def test_what_is_no_file_object_is_refused() -> None:
    for path in ("path", b"path", Path("path"), 3):
        with pytest.raises(TypeError, match=r"open\(path, 'rb'\)"):
            verisum.file_digest(path, "sha256")  # type: ignore[arg-type]


def test_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text")
    with open(path) as file, pytest.raises(TypeError):
        verisum.file_digest(file, "sha256")  # type: ignore[arg-type]
