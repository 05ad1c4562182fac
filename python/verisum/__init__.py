"""Checksums for people who keep data for years.

>>> import verisum
>>> verisum.new("sha256", b"abc").hexdigest()[:16]
'ba7816bf8f01cfea'
>>> [digest.hex()[:8] for digest in verisum.hash_many([b"one", b"two"], "blake3")]
['d33fb48a', 'dc770fff']

Hash objects are those of hashlib. `hash_many` hashes independent buffers side by side, on all cores.
`hash_files` hashes the files of trees, and gives a row for each.
`check` compares files with lists, `compare` two trees, and `scrub` a tree with its `Catalog`; `accept`
takes a file as it is now, and `repair` gives bad ones their recorded content again. `copy` copies trees
with proof, and `Parity` mends damage without another copy. `tag` and `verify` keep digests in the files'
attributes, and `create_bag` makes BagIt bags.
`image_sum` computes the block hash of a disk image, `image_info` describes it, `BlockMap` reads the digests of its
blocks, `image_verify` compares an image with them, and `image_repair` writes bad ones anew. `overview` tells what
state catalogues are in.
"""

from __future__ import annotations

# `collections.abc` has it from there, and is not imported yet.
from _collections_abc import Sequence as _Sequence

from verisum._errors import CatalogError, DigestError, Error, FileError, HostError, ImageError
from verisum._filelike import file_digest
from verisum._native import __version__ as _version
from verisum._native import (
    Accepted,
    Amount,
    ArrowStream,
    Bag,
    BlockMap,
    Catalog,
    CatalogRun,
    CatalogTree,
    Check,
    CheckRow,
    Comparison,
    CopiedFile,
    Copy,
    CopySummary,
    Difference,
    Digests,
    Directory,
    FileRow,
    FileState,
    Finding,
    Forecast,
    ForgottenTree,
    Hash,
    HashFiles,
    Hosts,
    ImageBitmap,
    ImageInfo,
    ImageLayer,
    ImageRepair,
    ImageSnapshot,
    ImageSum,
    ImageVerification,
    Overview,
    Parity,
    ParityFinding,
    ParityRun,
    Problem,
    Problems,
    Record,
    RecordedRepair,
    Records,
    Repair,
    RepairedFile,
    RepairSummary,
    Scrub,
    ScrubSummary,
    SharedContent,
    Side,
    StoreCosts,
    TagFinding,
    Tagging,
    TagStatus,
    TreeOverview,
    TroubledFile,
    accept,
    adopt,
    check,
    compare,
    copy,
    create_bag,
    hash_files,
    hash_many,
    image_info,
    image_repair,
    image_sum,
    image_verify,
    list_tags,
    new,
    overview,
    rehash,
    repair,
    retag,
    scrub,
    status,
    tag,
    untag,
    verify,
)

_Sequence.register(Digests)

# `typing` takes longer to import than all of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    algorithms_available: frozenset[str]
    """The names of all digests that this machine can compute. Others may be had as `openssl:NAME`."""

__version__ = _version

__all__ = [
    "Accepted",
    "Amount",
    "ArrowStream",
    "Bag",
    "BlockMap",
    "Catalog",
    "CatalogError",
    "CatalogRun",
    "CatalogTree",
    "Check",
    "CheckRow",
    "Comparison",
    "CopiedFile",
    "Copy",
    "CopySummary",
    "Difference",
    "DigestError",
    "Digests",
    "Directory",
    "Error",
    "FileError",
    "FileRow",
    "FileState",
    "Finding",
    "Forecast",
    "ForgottenTree",
    "Hash",
    "HashFiles",
    "HostError",
    "Hosts",
    "ImageBitmap",
    "ImageError",
    "ImageInfo",
    "ImageLayer",
    "ImageRepair",
    "ImageSnapshot",
    "ImageSum",
    "ImageVerification",
    "Overview",
    "Parity",
    "ParityFinding",
    "ParityRun",
    "Problem",
    "Problems",
    "Record",
    "RecordedRepair",
    "Records",
    "Repair",
    "RepairSummary",
    "RepairedFile",
    "Scrub",
    "ScrubSummary",
    "SharedContent",
    "Side",
    "StoreCosts",
    "TagFinding",
    "TagStatus",
    "Tagging",
    "TreeOverview",
    "TroubledFile",
    "accept",
    "adopt",
    "algorithms_available",
    "check",
    "compare",
    "copy",
    "create_bag",
    "file_digest",
    "hash_files",
    "hash_many",
    "image_info",
    "image_repair",
    "image_sum",
    "image_verify",
    "list_tags",
    "new",
    "overview",
    "rehash",
    "repair",
    "retag",
    "scrub",
    "status",
    "tag",
    "untag",
    "verify",
]


def __getattr__(name: str) -> frozenset[str]:
    # Looking for them loads OpenSSL, which an import should not wait for.
    if name == "algorithms_available":
        from verisum._native import algorithms

        found = frozenset(name for name, *_ in algorithms())
        globals()[name] = found
        return found
    raise AttributeError(f"module 'verisum' has no attribute {name!r}")
