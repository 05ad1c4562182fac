"""Arrow without a copy: who takes rows has the very memory that they were written to."""

import ctypes
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import verisum


class Array(ctypes.Structure):
    """`struct ArrowArray` of the C data interface."""


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class Schema(ctypes.Structure):
    """`struct ArrowSchema`, which nobody here looks into."""

    _fields_ = [("opaque", ctypes.c_void_p * 9)]


class Stream(ctypes.Structure):
    """`struct ArrowArrayStream`."""

    _fields_ = [
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Schema))),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Array))),
        ("get_last_error", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


def stream_of(capsule: object) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = pointer(capsule, b"arrow_array_stream")
    return address


def addresses(array: Array) -> list[int]:
    """Where the buffers of all columns begin; 0 for those that are not there."""
    return [
        column.contents.buffers[number] or 0
        for column in array.children[: array.n_children]
        for number in range(column.contents.n_buffers)
    ]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for number in range(100):
        (tmp_path / f"{number:02}").write_bytes(b"%d" % number)
    return tmp_path


def test_pyarrow_and_polars_have_the_memory_of_the_rows(tree: Path) -> None:
    capsule = verisum.hash_files(tree, ["sha256", "crc32c"], ordered=True).__arrow_c_stream__()
    address = stream_of(capsule)
    stream = Stream.from_address(address)
    schema, array = Schema(), Array()
    assert stream.get_schema(address, schema) == 0
    assert stream.get_next(address, array) == 0
    ours = addresses(array)
    imported: Any = pa.RecordBatch
    batch = imported._import_from_c(ctypes.addressof(array), ctypes.addressof(schema))
    assert batch.num_rows == 100
    theirs = [buffer.address if buffer else 0 for column in batch.columns for buffer in column.buffers()]
    # Where nothing is null Arrow has no buffer, or one that nobody looks at.
    assert len(ours) == len(theirs)
    assert all(a == b or b == 0 for a, b in zip(ours, theirs, strict=True))
    named = dict(zip(batch.schema.names, batch.columns, strict=True))
    digests, sizes = named["sha256"].buffers()[1], named["size"].buffers()[1]
    assert {digests.address, sizes.address, named["path"].buffers()[2].address} <= set(ours)
    assert digests.size >= 3200
    # The digests are there without a detour.
    first = ctypes.string_at(digests.address, 32)
    assert first == verisum.new("sha256", b"0").digest()
    frame: Any = pl.from_arrow(batch)
    assert frame["size"].to_numpy(allow_copy=False).ctypes.data == sizes.address
    # The memory lives as long as whoever has it.
    del batch, named, capsule
    assert frame["size"].to_list() == [1] * 10 + [2] * 90
