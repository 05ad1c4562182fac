"""The native part. What is documented here is exported by `verisum`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, SupportsIndex, TypeAlias, TypeVar, final, overload, type_check_only

from typing_extensions import Buffer, Self

from verisum._errors import DigestError, Error, FileError, HostError

__all__ = [
    "Accepted",
    "Amount",
    "ArrowStream",
    "Bag",
    "BlockMap",
    "Catalog",
    "CatalogRun",
    "CatalogTree",
    "Check",
    "CheckRow",
    "Comparison",
    "CopiedFile",
    "Copy",
    "CopySummary",
    "Difference",
    "Digests",
    "Directory",
    "Excludes",
    "FileRow",
    "FileState",
    "Finding",
    "Forecast",
    "ForgottenTree",
    "Hash",
    "HashFiles",
    "Hosts",
    "ImageBitmap",
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
    "PlaceRead",
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
    "SecondLook",
    "SharedContent",
    "Side",
    "StoreCosts",
    "TagFinding",
    "TagStatus",
    "Tagging",
    "TreeOverview",
    "TroubledFile",
    "__version__",
    "accept",
    "adopt",
    "algorithms",
    "check",
    "compare",
    "copy",
    "create_bag",
    "hash_files",
    "hash_many",
    "hash_place",
    "image_info",
    "image_repair",
    "image_sum",
    "image_verify",
    "judge",
    "judge_comparison",
    "list_place",
    "list_tags",
    "new",
    "overview",
    "place_address",
    "read_again",
    "rehash",
    "repair",
    "retag",
    "scrub",
    "state_after",
    "status",
    "storage_failed",
    "tag",
    "untag",
    "verdicts",
    "verify",
]

@type_check_only
class _Array(Protocol):
    """NumPy's arrays, which have the buffer protocol but say so only to newer Pythons."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@type_check_only
class _Filesystem(Protocol):
    """A filesystem of fsspec."""

    @property
    def find(self) -> Any: ...
    @property
    def cat_file(self) -> Any: ...

@type_check_only
class _OfFilesystem(Protocol):
    """What fsspec gives for a part of a filesystem, or a file that is not open yet."""

    @property
    def fs(self) -> Any: ...

@type_check_only
class _FileObject(Protocol):
    """A file object."""

    @property
    def read(self) -> Any: ...

_Store: TypeAlias = _Filesystem | _OfFilesystem | _FileObject
_Data: TypeAlias = Buffer | _Array
_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Progress: TypeAlias = Callable[[int, int], object]
_Verdict: TypeAlias = Literal[
    "ok",
    "new",
    "touched",
    "modified",
    "moved",
    "missing",
    "busy",
    "unverifiable",
    "io-error",
    "record-damaged",
    "suspicious",
    "flaky",
    "rot",
]
_State: TypeAlias = Literal[
    "ok", "busy", "unverifiable", "io-error", "suspicious", "flaky", "rot", "missing", "held", "record-damaged"
]

_T_co = TypeVar("_T_co", covariant=True)

@type_check_only
class _Iterator(Generic[_T_co]):
    """What work has whose results come one by one."""

    def close(self) -> None:
        """Ends the work. Nothing more comes then."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> _T_co: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class Hash:
    """A message that is being hashed, with the interface of hashlib's objects. Made by `new`.

    Several threads may use one object. The GIL is released for more than 2047 bytes.
    """

    @property
    def name(self) -> str:
        """The digest's name, as verisum writes it: ``sha3-256`` where hashlib has ``sha3_256``."""

    @property
    def digest_size(self) -> int:
        """Length of the digest in bytes."""

    @property
    def block_size(self) -> int:
        """Length in bytes of the blocks that a message is taken in, for HMAC; 0 where it is not known."""

    def update(self, data: _Data, /) -> None:
        """Adds bytes to the message. `update(a); update(b)` is `update(a + b)`.

        Ctrl-C ends it within 100 ms; then nothing of `data` is added.

        Raises:
            TypeError: `data` has no bytes.
            BufferError: `data` is not contiguous (NumPy: `ValueError`).
        """

    def digest(self) -> bytes:
        """The digest of the bytes so far, `digest_size` bytes. More may be added afterwards."""

    def hexdigest(self) -> str:
        """The digest of the bytes so far, in lowercase hexadecimal."""

    def copy(self) -> Hash:
        """Another message that begins with the bytes so far."""

    def __copy__(self) -> Hash: ...

__version__: str

@final
class Digests(Sequence[bytes]):
    """Digests of one length: a sequence of `bytes`, and a read-only buffer of unsigned bytes.

    The buffer has the shape `(len(self), digest_size)`: `numpy.asarray(digests)` is a view, not a copy.
    """

    @property
    def digest_size(self) -> int:
        """Length of each digest in bytes."""

    def hex(self) -> list[str]:
        """All of them in lowercase hexadecimal."""

    def count(self, value: Any) -> int:
        """How many of them are this digest."""

    def index(self, value: Any, start: int = 0, stop: int = ...) -> int:
        """The first place of a digest.

        Raises:
            ValueError: None of them is this digest.
        """

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> bytes: ...
    @overload
    def __getitem__(self, index: slice, /) -> Digests: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def new(name: str, data: _Data = b"", *, usedforsecurity: bool = True) -> Hash:
    """Starts a message.

    Args:
        name: A digest: one of `algorithms_available` or another spelling of it (`SHA3_256`, `sha-256`), `blake2b-N`
            for BLAKE2b of N bits, or `openssl:NAME` for one that only OpenSSL has. `shake128` and `shake256` have a
            fixed length here, 16 and 32 bytes.
        data: The first bytes of the message.
        usedforsecurity: Taken for hashlib's sake; it changes nothing.

    Raises:
        DigestError: It is not known, or not to be had on this machine. It is a `ValueError`.
    """

@overload
def hash_many(
    buffers: Iterable[_Data], algorithm: str = "sha256", *, threads: int = 0, packed: Literal[False] = False
) -> list[bytes]: ...
@overload
def hash_many(
    buffers: Iterable[_Data], algorithm: str = "sha256", *, threads: int = 0, packed: Literal[True]
) -> Digests:
    """Hashes independent buffers: side by side in one core's SIMD lanes, and on several cores.

    Buffers of about the same length are the fastest. They cannot be resized before it returns. The GIL is released
    while hashing, and Ctrl-C ends it within 100 ms.

    Args:
        buffers: Contiguous buffers: `bytes`, `memoryview`, NumPy arrays; or the rows of an array.
        algorithm: The name of a digest, as for `new`.
        threads: How many threads hash; 0 for as many as there are cores.
        packed: Give all digests in one buffer of shape `(n, digest_size)`.

    Returns:
        The digests in the order of the buffers.

    Raises:
        DigestError: There is no such digest, or this machine lacks it.
        TypeError: A buffer is none.
        BufferError: A buffer is not contiguous (NumPy: `ValueError`).
    """

@final
class FileRow:
    """A file and its digests, or why it has none.

    A file that could not be read never looks like one that could: all but `host`, `path`, `path_bytes` and `error` raise
    its error. Of a file of a host, `ctime_ns`, `device`, `links` and `stored` are None; `size`, `mtime_ns` and `inode` are
    None if the host does not tell them. Of a file of this machine, none of these is None.
    """

    # Only files of hosts can lack something: `Any` spares those of this machine a check of each field.

    @property
    def host(self) -> str | None:
        """The host that it is on, as that was named; None for this machine."""

    @property
    def path(self) -> str:
        """Its path, below the root as that was given; `os.fsencode` gives the bytes again where they are no UTF-8. On a
        host the path there."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def error(self) -> FileError | HostError | DigestError | None:
        """Why it has no digests; None where it has."""

    @property
    def size(self) -> int | Any:
        """How many bytes were hashed."""

    @property
    def digests(self) -> tuple[bytes, ...]:
        """Its digests, in the order of the algorithms."""

    @property
    def digest(self) -> bytes:
        """The digest of the first algorithm."""

    @property
    def hexdigest(self) -> str:
        """The digest of the first algorithm, in lowercase hexadecimal."""

    @property
    def mtime_ns(self) -> int | Any:
        """When its bytes last changed, in nanoseconds since 1970; on a host in whole seconds where that tells no more."""

    @property
    def ctime_ns(self) -> int | Any:
        """When its inode last changed, in nanoseconds since 1970."""

    @property
    def inode(self) -> int | Any:
        """The number of its inode."""

    @property
    def device(self) -> int | Any:
        """The number of the device that it is on, as `os.stat` gives it."""

    @property
    def links(self) -> int | Any:
        """How many names it has."""

    @property
    def stored(self) -> int | Any:
        """Bytes of storage that it takes: fewer than `size` where it has holes."""

    @property
    def changed(self) -> bool:
        """Whether it changed during every try to read it: the digests may fit no state of it then."""

    @property
    def evidence(self) -> Literal["read", "recorded"]:
        """What its digests are known by: it was read, or with `recorded` the store recorded them."""

    @property
    def recorded_ns(self) -> int | None:
        """When the store recorded them, in nanoseconds since 1970; None if the file was read, or the store does not tell."""

@final
class Hosts:
    """How other machines and buckets are reached, and what hashes there.

    Credentials of buckets are those of the environment (``AWS_ACCESS_KEY_ID`` …) and of the files of the AWS tools, as
    for the command; they are read when a function is called. It can be pickled.

    Args:
        way: Use only this program to hash: ``coreutils``, ``openssl``, ``verisum`` …; without it the best that a host
            has.
        push: A program `verisum-serve` or `verisum`, which is put on hosts that lack it during the run.
        ssh_config: Configuration file of ssh, instead of your own.
        timeout: Give up on a host or a store that does not answer for this many seconds.
        endpoint: URL of the store, instead of ``AWS_ENDPOINT_URL`` or that of AWS.
        region: Region of the store, instead of ``AWS_REGION``.
        profile: Profile of the AWS tools whose keys to use, instead of those of the environment.
        no_sign_request: Ask the store without credentials, as for public buckets.
        requests_per_second: Send at most so many requests to a store in a second.
        inventory: The manifest of an S3 Inventory of the bucket, in a file or at ``s3://BUCKET/KEY``. It stands for listing
            the bucket.
        checksum_report: The manifest of the completion report of a *Compute checksum* job, in a file or at
            ``s3://BUCKET/KEY``. `compare`, `copy` and `scrub` take checksums from it.
        prices: A list of prices in TOML, for `costs`.

    Raises:
        OSError: The program to push or the list of prices cannot be read.
        ValueError: There is no such way, a number is out of its range, `prices` is no list of prices, or `profile` is given
            with `no_sign_request`.
    """

    def __new__(
        cls,
        *,
        way: str | None = None,
        push: _Path | None = None,
        ssh_config: _Path | None = None,
        timeout: int = 30,
        endpoint: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        no_sign_request: bool = False,
        requests_per_second: float | None = None,
        inventory: _Path | None = None,
        checksum_report: _Path | None = None,
        prices: _Path | None = None,
    ) -> Hosts: ...
    def costs(self) -> StoreCosts:
        """What the functions that got this object asked stores for so far. A copy made by pickle counts for itself."""

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, Any]]: ...

@final
class StoreCosts:
    """Requests to stores, and what they cost."""

    @property
    def requests(self) -> dict[str, int]:
        """How many requests there were of each class: ``list``, ``get``, ``head``, ``attributes``, ``put``, ``delete``; none
        that is 0. A request that is sent again counts again."""

    @property
    def received(self) -> int:
        """Bytes of objects and answers."""

    @property
    def sent(self) -> int:
        """Bytes of objects that were written."""

    @property
    def amount(self) -> float | None:
        """What that costs; None without a list of prices."""

    @property
    def currency(self) -> str | None:
        """The currency of the list of prices."""

@final
class HashFiles(_Iterator[FileRow]):
    """The rows of `hash_files`: an iterator, and a source of Arrow record batches.

    Files are read and hashed on threads of their own while rows are taken. If nobody takes them, reading waits: memory
    does not grow with the number of files. Dropping or closing it ends the work.
    """

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The names of the digests of each row."""

    def to_arrow(self, *, batch_rows: int = 16384) -> ArrowStream:
        """All rows, as Arrow record batches of this many rows.

        Raises:
            ValueError: Rows were already read, or it was closed.
        """

    def to_parquet(self, path: _Path, *, progress: Callable[[int], object] | None = None) -> int:
        """Writes all rows to a Parquet file, with the columns of `to_arrow`.

        The file appears when all of it is on the disk, or not at all; one of that name is replaced then. Ctrl-C ends it
        within 100 ms and leaves nothing behind.

        Args:
            path: The file to write.
            progress: Called about 25 times a second with the number of rows so far, and with all at the end. What it
                raises ends the work and comes through; before the file is there, there will be none.

        Returns:
            How many rows there were, those with an error among them.

        Raises:
            FileError: The file cannot be written. It is an `OSError`.
            ValueError: Rows were already read, or it was closed.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class ArrowStream:
    """Rows of files as Arrow record batches, by the Arrow PyCapsule interface.

    `pyarrow.table(stream)`, `polars.DataFrame(stream)` and DuckDB read it without a copy. It can be read once: after that
    it raises `ValueError`, as it does if rows were taken one by one. Columns:

    - `path`: text; null where the path is no UTF-8.
    - `path_bytes`: binary; null where `path` is not.
    - `error`: text; null where there are digests. All columns below are null where there is an error.
    - `size`: bytes that were hashed, uint64.
    - `mtime`, `ctime`: timestamps in nanoseconds, UTC; null where 64 bits do not reach.
    - `device`, `inode`: uint64.
    - `changed`: whether the file changed while it was read.
    - `host`: text; null for this machine. What a host does not tell of a file is null.
    - `evidence`: text: ``read`` or ``recorded``, as `FileRow.evidence`.
    - a column for each digest, with its name: binary of fixed length.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

def hash_files(
    paths: _Path | _Store | Iterable[_Path | _Store],
    algorithms: str | Iterable[str] | None = None,
    *,
    ordered: bool = False,
    threads: int = 0,
    one_file_system: bool = False,
    follow_links: bool = False,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    requests: int | None = None,
    recorded: bool = False,
    hosts: Hosts | None = None,
) -> HashFiles:
    """Hashes the regular files of trees: many at once, on all cores, every digest in one read.

    What cannot be listed, opened or read is a row with an `error`, and the others go on. Ctrl-C ends the wait for a row
    within 100 ms.

    Text is an address as on the command line: ``ssh://[USER@]HOST[:PORT]/PATH``, ``s3://BUCKET/PREFIX`` and the like always,
    ``[USER@]HOST:PATH`` and ``local:PATH`` unless a file of this machine has that name. Bytes and objects of `pathlib`
    are always paths of this machine. A host needs ssh and nothing of verisum; it computes one digest.
    Which program hashes there goes to the logger ``verisum``.

    Hosts and buckets take `exclude`, `limit` and `requests` too. On a host, each file counts as one read, and verisum waits
    before it asks for the file; a second connection lists the files. Buckets also take `threads` and `recorded`. With files that
    fsspec opens, each of these options raises `ValueError`, because Python reads those files.

    Args:
        paths: A file or directory, or several; a pipe or a device is a row with an error. Links among them are
            followed. Also whatever fsspec opens: a filesystem with all its files, a part of one (`filesystem.get_mapper("photos")`), what `fsspec.open` gives, or a file
            object from where it stands. These are read through Python and hashed side by side; their rows have the
            store's protocol as `host`, and they come last.
        algorithms: The name of a digest, as for `new`, or several names; SHA-256 if there is none.
        ordered: Give the rows root by root, by the bytes of the paths; otherwise as files are finished, which is faster.
        threads: How many threads read and hash; 0 for as many as there are cores. In buckets: how many requests at a time; 0
            for 16.
        one_file_system: Do not enter directories of other file systems.
        follow_links: Follow links to files and directories below the roots too.
        exclude: What is left out, by patterns as in `.gitignore`.
        limit: The most bytes to read in a second.
        requests: The most files, and pieces of large files, to read in a second.
        recorded: Take the digests that a store recorded when objects were uploaded, and read only objects without such a
            digest. This does not find rot in the store.
        hosts: How other machines and buckets are reached.

    Raises:
        DigestError: A digest is not to be had.
        ValueError: A pattern or an address cannot be understood, no algorithm is named, an option or a second digest
            is not for files on other machines, or `recorded` is given for files that are not in buckets.
    """

@final
class Side:
    """A file on one side of a comparison."""

    @property
    def size(self) -> int | None:
        """Its length in bytes, where the place tells it."""

    @property
    def mtime_ns(self) -> int | None:
        """When its bytes last changed, in nanoseconds since 1970, where the place tells it."""

    @property
    def digest(self) -> bytes | None:
        """Its digest; None where it was not read."""

    @property
    def error(self) -> str | None:
        """Why it could not be read."""

    @property
    def as_recorded(self) -> Literal["yes", "no", "changed"] | None:
        """Of files that differ: whether it has a content that is recorded of its name; ``changed``: it has not, and was
        written to since it was recorded. None where nothing tells."""

@final
class Difference:
    """A file that is not the same in all trees, or of which that is not known."""

    @property
    def name(self) -> str:
        """Its path below the trees; of two files that were compared, and of what could not be listed, the path of it."""

    @property
    def name_bytes(self) -> bytes:
        """The bytes of its name."""

    @property
    def outcome(self) -> Literal["differs", "missing", "extra", "unreadable", "unknown", "unlisted"]:
        """``missing``: the first tree has it and another has not; ``extra``: the first has it not; ``unknown``: one tree
        has it, and another could not be listed whole; ``unlisted``: it could not be listed."""

    @property
    def class_(self) -> Literal["mismatch", "unchecked"]:
        """Whether the trees differ there, or that is not known."""

    @property
    def a(self) -> Side | None:
        """The file in the first tree."""

    @property
    def b(self) -> Side | None:
        """The file in the second tree."""

    @property
    def c(self) -> Side | None:
        """The file in the third tree, if there is one."""

    @property
    def evidence(self) -> Literal["listed", "recorded", "read"] | None:
        """What it is known by: names and lengths, a digest that a store recorded, or reading. None for ``unlisted``."""

    @property
    def recorded_ns(self) -> int | None:
        """When the store recorded the digest, in nanoseconds since 1970."""

    @property
    def as_recorded(self) -> Literal["a", "b", "both", "neither", "not-a", "not-b", "unknown"] | None:
        """Which of two files that differ has the recorded content, by the catalogue, the lists and the files' own tags;
        ``not-a``, ``not-b``: no more is known; ``unknown``: nothing is recorded. Of three trees see the sides."""

    @property
    def odd(self) -> Literal["a", "b", "c"] | None:
        """Of three files, the one that is not as both others are."""

    @property
    def error(self) -> FileError | HostError | None:
        """Why it could not be listed."""

@final
class Comparison(_Iterator[Difference]):
    """The differences of two or three trees, by name: an iterator."""

    @property
    def summary(self) -> dict[str, int] | None:
        """How many files are ``same``, ``differ``, ``missing``, ``extra``, ``unreadable``, ``unknown`` and ``unlisted``,
        and of how many that differ nothing is recorded, ``unrecorded``; None until all differences were taken."""

    @property
    def settled(self) -> dict[str, int] | None:
        """How verisum decided whether a file is the same in all trees, with a count for each way. None until all
        differences were taken.

        ``sizes``, ``times``, ``records`` (of the catalogue) and ``store`` (digests that a store recorded) decide without
        reading; ``one_read`` compares a record with what was read of the other side, ``read`` reads all sides."""

    @property
    def class_(self) -> Literal["clean", "mismatch", "unchecked"] | None:
        """What that means as a whole: the command ends with 0, 1 or 3. None until all differences were taken."""

    def finish(self) -> dict[str, int]:
        """Takes all differences that are left, and gives the summary."""

def compare(
    a: _Path,
    b: _Path,
    algorithm: str | None = None,
    *,
    c: _Path | None = None,
    quick: bool = False,
    read: bool = False,
    catalog: _Path | None = None,
    sums: _Path | Iterable[_Path] | None = None,
    hosts: Hosts | None = None,
    progress: _Progress | None = None,
) -> Comparison:
    """Compares two or three trees, each on this machine or on another one, as `verisum compare` does.

    All are listed; files of the same size are read, and their digests compared where they are. Of files that differ the
    catalogue, the lists and the files' own tags say which is the recorded one. Memory does not grow with the trees:
    names that it does not take wait in a temporary file in ``TMPDIR``. Ctrl-C ends it within 100 ms.

    Args:
        a: A directory or file, or an address, as for `hash_files`.
        b: Another one.
        algorithm: The name of a digest, also that of lists that do not tell theirs; without it SHA-256.
        c: A third one, to see which of three is the odd one out.
        quick: Do not read files of one size and time of modification, or whose digests the catalogue has.
        read: Read every file: do not take the digest that a store recorded for what is in the bucket.
        catalog: A catalogue that knows one of the trees. Without it no catalogue is asked; the command asks its own.
        sums: Lists of checksums that say of files which differ how they should be.
        hosts: How other machines are reached.
        progress: Called about 25 times a second, while you wait for a difference, with the files and bytes read so far
            on all sides. What it raises ends the work and comes through.

    Raises:
        DigestError: The digest is not to be had.
        CatalogError: The catalogue cannot be read. It comes while differences are taken, as the others below.
        FileError: A list cannot be read.
        HostError: A host cannot be reached.
        ValueError: An address cannot be understood, or `quick` is given with `read` or a third tree.
    """

@final
class FileState:
    """What a file was when it was read."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def mtime_ns(self) -> int:
        """When its bytes last changed, in nanoseconds since 1970."""

    @property
    def ctime_ns(self) -> int | None:
        """When its inode last changed, in nanoseconds since 1970; None for a file of another machine."""

    @property
    def inode(self) -> int | None:
        """The number of its inode; None where a host does not tell it."""

    @property
    def digest(self) -> bytes:
        """Its digest."""

    @property
    def hexdigest(self) -> str:
        """Its digest in lowercase hexadecimal."""

@final
class Finding:
    """A file that is not as it was recorded."""

    @property
    def path(self) -> str:
        """Its path, which begins with that of the tree."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def verdict(self) -> _Verdict:
        """What the evidence says."""

    @property
    def class_(self) -> Literal["clean", "change", "unchecked", "corrupt"]:
        """What that means: ``corrupt`` for rot, suspicious and flaky; ``unchecked`` where the content was not
        compared."""

    @property
    def held(self) -> bool:
        """Whether the record stays as it was until the file is accepted."""

    @property
    def restored(self) -> bool:
        """Whether it was bad, and its content is the recorded one again."""

    @property
    def algorithm(self) -> str:
        """The name of the digest."""

    @property
    def recorded(self) -> FileState | None:
        """What was recorded."""

    @property
    def found(self) -> FileState | None:
        """What was found, if it could be read."""

    @property
    def second_read_same(self) -> bool | None:
        """Whether a second read, past the page cache where that can be, gave the same; None if there was none."""

    @property
    def since_ms(self) -> int | None:
        """When an earlier run found it so first, in milliseconds since 1970."""

    @property
    def moved_from(self) -> str | None:
        """Where a moved file was before."""

    @property
    def error(self) -> str | None:
        """Why it could not be read."""

@final
class Forecast:
    """When everything will have been verified, at the rate and on the schedule of the runs so far."""

    @property
    def seconds(self) -> float:
        """How long it takes to verify everything once."""

    @property
    def needed(self) -> float | None:
        """How many times the budget must be to keep `max_age`, if that was given; up to 1, it is kept."""

    @property
    def assumed_daily(self) -> bool:
        """Whether a run a day is assumed, for want of runs."""

@final
class ScrubSummary:
    """How a run went."""

    @property
    def tree(self) -> str:
        """The tree's path or address."""

    @property
    def class_(self) -> Literal["clean", "change", "unchecked", "corrupt"]:
        """What the run means: the command ends with 1 for ``corrupt`` and with 3 for ``unchecked``."""

    @property
    def counts(self) -> dict[str, int]:
        """How many files have each verdict."""

    @property
    def files(self) -> int:
        """Records of the tree."""

    @property
    def bytes(self) -> int:
        """The sum of their lengths."""

    @property
    def read_files(self) -> int:
        """Files that were read to their end."""

    @property
    def read_bytes(self) -> int:
        """Bytes that were read of them: none of holes."""

    @property
    def seconds(self) -> float:
        """How long the run took."""

    @property
    def complete(self) -> bool:
        """Whether everything due was verified."""

    @property
    def interrupted(self) -> bool:
        """Whether it was ended early."""

    @property
    def waiting(self) -> int:
        """New and changed files for which there was no time."""

    @property
    def given_up(self) -> int:
        """Files that were not read because their device fails."""

    @property
    def not_tried(self) -> int:
        """Files that are known to be bad and were not tried again, for whatever reason."""

    @property
    def mount_points(self) -> int:
        """Mount points that were not entered."""

    @property
    def stalest_verification_ms(self) -> int | None:
        """When the stalest file was last verified, in milliseconds since 1970; 0 for never."""

    @property
    def unlisted(self) -> int:
        """Directories that could not be listed."""

    @property
    def still_missing(self) -> int:
        """Files that are missing since an earlier run."""

    @property
    def held(self) -> int:
        """Changed files whose record was not replaced."""

    @property
    def alarm(self) -> bool:
        """Whether so much changed that nothing was taken over."""

    @property
    def repaired(self) -> list[RepairedFile]:
        """The bad files that were to be repaired from `repair_from`, and what became of them."""

    @property
    def repair(self) -> RepairSummary | None:
        """What that repair came to; None where nothing was to be repaired, or so much changed that it was left alone."""

    @property
    def forecast(self) -> Forecast | None:
        """When everything will have been verified; None without a budget."""

@final
class Scrub(_Iterator[Finding]):
    """A scrub that goes on: an iterator of the files that are not as recorded.

    If nobody takes them, it waits. Closing or dropping it, Ctrl-C, and an exception of the callback end the run in good
    order: what was done is kept, and the next run goes on from there.
    """

    @property
    def summary(self) -> ScrubSummary | None:
        """How the run went; None until all findings were taken."""

    def finish(self) -> ScrubSummary:
        """Takes all findings that are left, and gives the summary."""

def scrub(
    tree: _Path,
    *,
    catalog: _Path,
    algorithm: str = "sha256",
    threads: int = 0,
    max_age: float | timedelta | None = None,
    budget: float | timedelta | None = None,
    sample: float = 1.0,
    shuffle: bool = False,
    since: float | datetime | None = None,
    cross_file_systems: bool = False,
    stop_after: int = 100,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    archive: bool = False,
    missing_fails: bool = False,
    replaced_root: bool = False,
    alarm_changed: float | None = None,
    repair_from: _Path | Iterable[_Path] | None = None,
    keep_bad: _Path | None = None,
    parity: _Path | None = None,
    hosts: Hosts | None = None,
    progress: _Progress | None = None,
) -> Scrub:
    """Compares a tree with its catalogue, records what is new or changed, and verifies what is due, as `verisum scrub`
    does.

    Trees of the catalogue that lie inside this one are scrubbed apart. The process keeps its priority. A tree on another
    machine does not take `cross_file_systems` and `repair_from`; on a host, `threads` and `stop_after` have no effect.

    Args:
        tree: A directory, or an address, as for `hash_files`.
        catalog: The catalogue's file. It is made if it is not there.
        algorithm: The name of the digest of new files. Others keep that of their record.
        threads: How many threads read and hash; 0 for as many as there are cores. In buckets: how many requests at a time; 0
            for 16.
        max_age: Let no verification get older than this, in seconds; with 0, all files are verified.
        budget: Time budget in seconds, for the walk and the reads. A run always finishes its walk and the files that it has
            begun, and reads for at least a tenth of this time.
        sample: Verify a random share of the files that are due, more than 0 and at most 1.
        shuffle: Random order among files that are about equally stale.
        since: Verify only files that were not verified since: seconds since 1970, or a `datetime`.
        cross_file_systems: Enter file systems that are mounted below.
        stop_after: Stop reading a device after so many errors of its storage; 0 for never.
        exclude: What is left out, by patterns as in `.gitignore`.
        limit: The most bytes to read in a second.
        archive: Nothing is meant to change: modified and missing files are failures until they are accepted.
        missing_fails: Missing files are failures until they are accepted.
        replaced_root: Accept that the recorded tree is now on another file system, with other inodes.
        alarm_changed: Keep all records if more than this share of the files changed or are gone; without it, if it
            is more than half of them and at least 100.
        repair_from: Copies of the tree; bad files are repaired from them and from parity beside them afterwards, as
            `repair` does, and missing ones stay missing. An empty list is for all trees of the catalogue. For trees of this machine.
        keep_bad: Move bad files to this directory, as for `repair`. Only with `repair_from`.
        parity: The directory of the tree's parity, if it is not beside the files. Only with `repair_from`.
        hosts: How other machines are reached.
        progress: Called about 25 times a second, while you wait for a finding, with the files and bytes hashed so far.
            What it raises ends the run and comes through.

    Raises:
        DigestError: The digest is not to be had.
        ValueError: A value is none that the option takes, or an option is not for trees on other machines.
        CatalogError: The catalogue cannot be used; `operation` is ``lock`` if another run uses it. Like the next two, it
            comes while findings are taken.
        FileError: The tree cannot be looked at, or is not the one that was recorded.
        HostError: A host cannot be reached.
    """

@final
class CopiedFile:
    """What came of a file, link or device that was to be copied."""

    @property
    def path(self) -> str:
        """Its path in the source."""

    @property
    def name(self) -> str:
        """Its path below the target; empty for the target itself."""

    @property
    def outcome(self) -> str:
        """``copied``; ``linked`` to a file that was copied before; ``current`` if it was there already, ``touched`` if only
        its times, owner or mode were set; ``made`` for a link or device; ``failed``; ``differs`` if other bytes were read
        back; or the verdict on a file that is not as recorded, ``rot`` or ``suspicious``."""

    @property
    def is_problem(self) -> bool:
        """Whether somebody should know: it failed, or its data is not what it should be."""

    @property
    def size(self) -> int:
        """The length of a file in bytes."""

    @property
    def hexdigests(self) -> dict[str, str]:
        """The digests of the bytes that are at the target now, by their names; none of what was not read."""

    @property
    def mismatch(self) -> tuple[str, str] | None:
        """The digest that was recorded or written, and that of what was read, where they differ."""

    @property
    def error(self) -> Error | None:
        """Why it could not be copied."""

@final
class CopySummary:
    """What a copy came to, in files unless another unit is named."""

    @property
    def copied(self) -> int:
        """That were copied."""

    @property
    def bytes(self) -> int:
        """Their bytes, with those of holes."""

    @property
    def compared(self) -> int:
        """Of these, that were compared with a record."""

    @property
    def linked(self) -> int:
        """Names that were given to copied files."""

    @property
    def current(self) -> int:
        """Files and links that were there already."""

    @property
    def touched(self) -> int:
        """Whose times, owner or mode alone were set."""

    @property
    def made(self) -> int:
        """Symbolic links and special files."""

    @property
    def directories(self) -> int:
        """Directories that were gone through."""

    @property
    def bad(self) -> int:
        """That are not as recorded, copied or not."""

    @property
    def differ(self) -> int:
        """Copies that were read back with other bytes, and removed."""

    @property
    def failed(self) -> int:
        """What could not be copied."""

    @property
    def reduced(self) -> int:
        """Entries some of whose owners, modes or attributes the target did not take."""

    @property
    def left_out(self) -> int:
        """Links and special files that the target cannot hold."""

    @property
    def unlisted(self) -> int:
        """Files that were at the target already and are not in the list."""

    @property
    def recorded(self) -> int | None:
        """Copies that the catalogue of the target has now; None without `record`."""

    @property
    def stopped(self) -> bool:
        """Whether it was ended early."""

    @property
    def gave_up(self) -> bool:
        """Whether that was because many files in a row failed because of the place that they are in or go to."""

@final
class Copy(_Iterator[CopiedFile]):
    """A copy that goes on: an iterator of what came of each file, in no order.

    If nobody takes them, it waits. Closing or dropping it, and Ctrl-C, end it after the files in progress.
    """

    @property
    def summary(self) -> CopySummary | None:
        """What it came to; None until all files were taken."""

    def finish(self) -> CopySummary:
        """Takes all files that are left, and gives the summary."""

def copy(
    source: _Path,
    target: _Path,
    *,
    algorithm: str | None = None,
    verify: Literal["reread", "written", "none"] = "reread",
    catalog: _Path | None = None,
    allow_bad: bool = False,
    update: bool = False,
    tag: bool = False,
    reflink: Literal["never", "auto", "always"] = "never",
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    threads: int = 0,
    sums: _Path | None = None,
    record: _Path | None = None,
    hosts: Hosts | None = None,
    progress: _Progress | None = None,
) -> Copy:
    """Copies a tree or a file, as `verisum copy` does: each file gets its name only when it is proved good.

    Args:
        source: A directory or file of this machine, or the address of a tree as text, as for `hash_files`. Of files of
            a host or a bucket the regular ones are copied, with their times.
        target: The directory or file that becomes the copy, or an address. ``update``, ``one_file_system`` and ``reflink``
            are for this machine, ``tag`` and ``record`` are for a target on this machine. Where the source has an address
            too, files wait in the folder for temporary files.
        algorithm: The digest; None for that of a file's record, and SHA-256 where it has none.
        verify: ``written`` brings copies to the disk. ``reread`` also reads them back past the page cache. ``none`` leaves
            them to the system.
        catalog: The catalogue with the records of the source; tags are read in any case.
        allow_bad: Also copy files that are not as recorded.
        update: Compare the records of both sides, where both have one, instead of sizes and times.
        tag: Write tags to the copies.
        reflink: Whether copies may share storage with the originals.
        one_file_system: Do not enter file systems that are mounted below.
        exclude: Patterns of what is left out.
        limit: The most bytes to read in a second.
        threads: How many; 0 for one for each core.
        sums: Add the digests of the copies to this list, which `check` reads with the target as `base`.
        record: A catalogue that is to know the copies. It is made if it is not there, and so is the target's tree in it.
            Files that the target has already and that ``catalog`` does not know are read.
        hosts: How hosts and buckets are reached.
        progress: Called with files and bytes that were read.

    Raises:
        FileError: From the iterator: the source cannot be opened or reached, the target cannot be made, or one is in the other.
        CatalogError: From the iterator: a catalogue cannot be read, or written.
    """

@final
class ParityFinding:
    """Something that is not as it was when parity was made, or was repaired."""

    @property
    def path(self) -> str:
        """The path of the file below the tree; of a file of the parity, and of what cannot be looked at, its whole path."""

    @property
    def outcome(self) -> str:
        """``damaged``, ``missing``, ``changed``, ``touched``, ``busy``, ``unreadable``, ``repaired``, ``finished`` or ``not-repaired``;
        of parity also ``lost``."""

    @property
    def bytes(self) -> int | None:
        """How many bytes lie in parts that are damaged, or were computed from parity."""

    @property
    def ranges(self) -> list[tuple[int, int]] | None:
        """Which bytes were computed from parity, begin and end of each run; None where it was not repaired."""

    @property
    def mendable(self) -> bool | None:
        """Whether there is parity enough to mend it; None where it is neither damaged nor missing."""

    @property
    def kept_unread(self) -> int | None:
        """How many bytes of the copy that `keep_bad` kept are zeros because storage did not give them; None where it was
        not repaired."""

    @property
    def unread_sets(self) -> int | None:
        """How many sets have other parts of it, and were not read because `sets` does not name them; None where it was not
        repaired."""

    @property
    def of_parity(self) -> bool:
        """Whether it is a file of the parity itself."""

    @property
    def error(self) -> Error | None:
        """Why it could not be read or repaired."""

@final
class ParityRun(_Iterator[ParityFinding]):
    """What goes on with parity: an iterator of its findings.

    If nobody takes them, it waits. Closing or dropping it, and Ctrl-C, end it; no file is left half written.
    """

    @property
    def summary(self) -> dict[str, int] | None:
        """Its totals, by the names that `verisum parity --json` gives them; None until all findings were taken.

        Of a dry run ``mendable`` and ``parity_mendable`` count what a repair would, and nothing is ``repaired``.
        """

    @property
    def bad_sets(self) -> list[int] | None:
        """After `Parity.verify`, the sets in which something is bad, for the `sets` of `Parity.repair`; None until all
        findings were taken."""

    def finish(self) -> dict[str, int]:
        """Takes all findings that are left, and gives the totals."""

@final
class Parity:
    """Parity of a tree, so that damage is mended without another copy; or the PAR2 files of other programs.

    Args:
        tree: A directory, or a PAR2 file, which can be verified and repaired with.
        place: The directory of the parity files, or a place in a bucket (``s3://BUCKET/PREFIX``); None for the usual
            directory in the tree.
        hosts: How buckets are reached.
    """

    def __new__(cls, tree: _Path, place: _Path | None = None, *, hosts: Hosts | None = None) -> Self: ...
    def create(
        self,
        *,
        redundancy: float = 0.05,
        set_bytes: int | None = None,
        threads: int = 0,
        progress: _Progress | None = None,
    ) -> ParityRun:
        """Makes parity of all files.

        Args:
            redundancy: The share of parity, above 0 and at most 1.
            set_bytes: The most bytes of data in a set, 4 KiB to 256 MiB; None for what suits the tree.
            threads: How many; 0 for one for each core.
            progress: Called with files and bytes that were read.

        Raises:
            FileError: From the iterator: there is parity already, or it cannot be written.
        """

    def update(
        self,
        *,
        accept_damage: bool = False,
        accept_changes: bool = False,
        threads: int = 0,
        progress: _Progress | None = None,
    ) -> ParityRun:
        """Renews the parity of files that are new, were written to or are gone.

        Args:
            accept_damage: Take damaged files that share a set with changed ones as they are now.
            accept_changes: Go on even if all files are gone, or more than half of them (and at least 100) changed or
                are gone.
            threads: How many; 0 for one for each core.
            progress: Called with files and bytes that were read.

        Raises:
            FileError: From the iterator: there is no parity, or it cannot be written.
        """

    def verify(self, *, threads: int = 0, progress: _Progress | None = None) -> ParityRun:
        """Reads all files that have parity, and the parity. It changes nothing.

        Args:
            threads: How many; 0 for one for each core.
            progress: Called with files and bytes that were read.

        Raises:
            FileError: From the iterator: the tree cannot be read, or there is no parity.
        """

    def repair(
        self,
        *,
        dry_run: bool = False,
        changed: bool = False,
        keep_bad: _Path | None = None,
        only: _Path | Iterable[_Path] | None = None,
        sets: Sequence[int] | None = None,
        in_place: bool = False,
        threads: int = 0,
        progress: _Progress | None = None,
    ) -> ParityRun:
        """Mends damaged and missing files, and damaged parity.

        Args:
            dry_run: Tell what could be mended, and change nothing.
            changed: Also restore files that somebody wrote to since their parity was made.
            keep_bad: Keep a copy of each bad file in this directory.
            only: Mend only these files, by their paths below the tree, and read only what they need.
            sets: Read only these sets, which `bad_sets` names. Without `in_place`, the rest of the files that are bad in
                them is read too.
            in_place: Write what is lost into the bad files themselves, where they are as long as they were.
            threads: How many; 0 for one for each core.
            progress: Called with files and bytes that were read.

        Raises:
            FileError: From the iterator: there is no parity, or it cannot be written.
        """

@final
class RepairedFile:
    """A file that was to be repaired."""

    @property
    def path(self) -> str:
        """Its path."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def outcome(self) -> Literal["repaired", "mendable", "ok", "no-source", "refused", "failed"]:
        """What became of it: ``mendable`` with `dry_run`; ``ok`` if it is as recorded; ``no-source`` if no source has its
        content; ``refused`` if it must not be repaired; ``failed`` if it could not be, and is as it was."""

    @property
    def was(self) -> str:
        """Its state before, as in `Catalog`."""

    @property
    def size(self) -> int | None:
        """Its recorded length in bytes, or what it is since the repair; None where neither is known, as of lists."""

    @property
    def algorithm(self) -> str:
        """The name of the digest."""

    @property
    def digest(self) -> bytes:
        """The recorded digest."""

    @property
    def hexdigest(self) -> str:
        """The same in hexadecimal digits."""

    @property
    def needs_keep_bad(self) -> bool:
        """Whether it is ``mendable`` only with `keep_bad`, which was not given: somebody may have written what it is now."""

    @property
    def source(self) -> str | None:
        """The path or address of the copy whose content it has, or could have."""

    @property
    def also_from(self) -> list[str]:
        """What else it took blocks from."""

    @property
    def bad_copies(self) -> list[str]:
        """The copies whose content is not the recorded one either, of those that were read."""

    @property
    def bytes(self) -> int:
        """How many bytes it took, or would take."""

    @property
    def ranges(self) -> list[tuple[int, int]] | None:
        """Which of its bytes are others now, in blocks of 4 KiB, begin and end of each run; None if it was not repaired, or
        that is not known."""

    @property
    def before_hexdigest(self) -> str | None:
        """The digest that it had before, in hexadecimal digits; None if it was not repaired, or could not be read."""

    @property
    def kept_unread(self) -> int:
        """How many bytes of the copy that `keep_bad` kept are zeros because storage did not give them."""

    @property
    def has_usual_permissions(self) -> bool:
        """Whether it was missing and no source told its permissions and owner, which are those of any new file."""

    @property
    def other_names(self) -> int:
        """How many more names the bad content has, which were not repaired."""

    @property
    def tried(self) -> list[tuple[str, str]]:
        """The copies that were looked at if none is good, and what is wrong with each."""

    @property
    def error(self) -> str | None:
        """Why it was refused or failed."""

@final
class RepairSummary:
    """What a repair came to, in files unless another unit is named."""

    @property
    def repaired(self) -> int:
        """That have their recorded content again."""

    @property
    def mendable(self) -> int:
        """That could be repaired, with `dry_run`."""

    @property
    def ok(self) -> int:
        """That were found to be as recorded."""

    @property
    def no_source(self) -> int:
        """Whose content no source has."""

    @property
    def left(self) -> int:
        """That were refused or failed."""

    @property
    def bytes(self) -> int:
        """Bytes that were written, or would be."""

    @property
    def interrupted(self) -> bool:
        """Whether it was ended early."""

@final
class Repair(_Iterator[RepairedFile]):
    """A repair that goes on: an iterator of the files that were to be repaired.

    If nobody takes them, it waits. Closing or dropping it, and Ctrl-C, end it after the file in progress.
    """

    @property
    def summary(self) -> RepairSummary | None:
        """What it came to; None before the end."""

    def finish(self) -> RepairSummary:
        """Takes all files that are left, and gives the summary."""

def repair(
    path: _Path,
    *,
    catalog: _Path | None = None,
    sums: _Path | Iterable[_Path] | None = None,
    tags: bool = False,
    trust: _Path | None = None,
    algorithm: str | None = None,
    sources: _Path | Iterable[_Path] | None = None,
    source_catalog: _Path | None = None,
    dry_run: bool = False,
    keep_bad: _Path | None = None,
    except_missing: bool = False,
    cross_file_systems: bool = False,
    in_place: bool = False,
    parity: _Path | None = None,
    hosts: Hosts | None = None,
    progress: _Progress | None = None,
) -> Repair:
    """Gives bad, missing and unreadable files their recorded content again, from other copies, as `verisum repair` does.

    Only bytes with the recorded digest take a file's place, after they were written and read back.

    Args:
        path: A directory or file of this machine that the catalogue has; with `sums`, `tags` or `trust` any directory.
        catalog: The catalogue's file. It, `sums`, `tags` or `trust` says what the files should be.
        sums: Lists of checksums with names below `path`. Lines that are of no use go to the logger ``verisum``.
        tags: Whether the files' own tags say what they should be.
        trust: A directory, or an address as for `hash_files`, whose content is right: `path` gets it wherever it differs.
            If files there cannot be read, the first of their errors is raised after the others were repaired.
        algorithm: The digest, if the lists of `sums` do not tell.
        sources: Copies of `path`: directories or files, or addresses, as for `hash_files`. Without any, all trees of the
            catalogue are searched.
        source_catalog: A catalogue that knows the sources, by their path or address or by their path on their host:
            what was renamed there is found by its content.
        dry_run: Tell what could be repaired and from where, and change nothing.
        keep_bad: Move bad files to this directory instead of removing them. To another file system they are copied.
            Suspicious and held files are repaired only with it.
        except_missing: Leave missing files missing.
        cross_file_systems: Also repair files on file systems that are mounted below.
        in_place: Write only the bad blocks, into the file itself. The file must have a mebibyte or more, and parity or a
            block map must tell the digests of its blocks. With `catalog` only.
        parity: The parity of `path` that `Parity(path, DIR)` made in this directory. Without it, parity beside the files is
            used. What cannot be used goes to the logger ``verisum``.
        hosts: How other machines are reached.
        progress: Called about 25 times a second, while you wait for a file, with the files and bytes done so far.

    Raises:
        ValueError: Not one of `catalog`, `sums`, `tags` and `trust` is given, `source_catalog` is given without `sources`, `sums`
            or `tags` without `sources` and `parity`, or `algorithm` without `sums`.
        DigestError: There is no such digest.
        CatalogError: The catalogue cannot be used; `operation` is ``lock`` if another run uses it. Like the next two, it
            comes while files are taken.
        FileError: The path is not in the catalogue, is not the tree that was recorded, `keep_bad` or `parity` cannot be
            used, or `source_catalog` knows none of the sources.
        HostError: A host cannot be reached.
    """

@final
class CatalogTree:
    """A tree of a catalogue."""

    @property
    def path(self) -> str:
        """Its path or address."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def files(self) -> int:
        """How many files are recorded."""

    @property
    def bytes(self) -> int:
        """The sum of their lengths."""

    @property
    def troubles(self) -> dict[str, int]:
        """How many files are in each state but ``ok``."""

    @property
    def stalest_verification_ms(self) -> int | None:
        """When the stalest file was last verified, in milliseconds since 1970; 0 for never."""

@final
class CatalogRun:
    """A run over a tree."""

    @property
    def started_ms(self) -> int:
        """When it began, in milliseconds since 1970."""

    @property
    def finished_ms(self) -> int | None:
        """When it ended, in milliseconds since 1970."""

    @property
    def how(self) -> Literal["complete", "incomplete", "in progress", "interrupted", "failed", "killed"]:
        """How it ended."""

    @property
    def error(self) -> str | None:
        """Why it failed."""

    @property
    def seconds(self) -> float:
        """How long it took."""

    @property
    def read_files(self) -> int:
        """How many files it read."""

    @property
    def read_bytes(self) -> int:
        """How long they were, with their holes."""

    @property
    def counts(self) -> dict[str, int]:
        """How many files had each verdict, and as ``unlisted`` what could not be looked at; none that is 0."""

@final
class Record:
    """What is recorded of a file: what it was when it was last found good."""

    @property
    def tree(self) -> str:
        """The path or address of its tree."""

    @property
    def path(self) -> str:
        """Its path, which begins with that of the tree."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def size(self) -> int:
        """Its length in bytes."""

    @property
    def mtime_ns(self) -> int:
        """When its bytes last changed, in nanoseconds since 1970."""

    @property
    def ctime_ns(self) -> int | None:
        """When its inode last changed, in nanoseconds since 1970; None for a file of another machine."""

    @property
    def inode(self) -> int | None:
        """The number of its inode; None where a host does not tell it."""

    @property
    def algorithm(self) -> str:
        """The name of the digest."""

    @property
    def digest(self) -> bytes:
        """The digest."""

    @property
    def hexdigest(self) -> str:
        """The digest in lowercase hexadecimal."""

    @property
    def first_seen_ms(self) -> int:
        """When it was first recorded, in milliseconds since 1970."""

    @property
    def last_changed_ms(self) -> int:
        """When its content was last found to be new, in milliseconds since 1970."""

    @property
    def last_verified_ms(self) -> int:
        """When its content was last compared with the record, in milliseconds since 1970; 0 for never."""

    @property
    def state(self) -> _State:
        """``ok``, or what the last run found."""

@final
class Records(_Iterator[Record]):
    """Records of a catalogue: an iterator, and a source of Arrow record batches.

    All are of one moment, whatever a scrub writes meanwhile. The columns are those of a lake: `place` and `path` (below
    the place; both text, null where `place_bytes` and `path_bytes` have bytes that are no UTF-8), `size`, `mtime`,
    `ctime`, `inode`, `algorithm`, `digest` (binary), `state`, `first_seen`, `changed`, `verified` (null for never).
    """

    def to_arrow(self, *, batch_rows: int = 16384) -> ArrowStream:
        """All records, as Arrow record batches of this many rows.

        Raises:
            ValueError: Records were already read, or it was closed.
        """

    def to_parquet(self, path: _Path, *, progress: Callable[[int], object] | None = None) -> int:
        """Writes all records to a Parquet file, with the columns of `to_arrow`.

        The file appears when all of it is on the disk, or not at all; one of that name is replaced then. Ctrl-C ends it
        within 100 ms and leaves nothing behind.

        Args:
            path: The file to write.
            progress: Called about 25 times a second with the number of records so far, and with all at the end. What it
                raises ends the work and comes through; before the file is there, there will be none.

        Returns:
            How many records there were.

        Raises:
            CatalogError: The catalogue cannot be read.
            FileError: The file cannot be written. It is an `OSError`.
            ValueError: Records were already read, or it was closed.
        """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Problem:
    """A file that is not as recorded, and what was last seen of it."""

    @property
    def tree(self) -> str:
        """The path or address of its tree."""

    @property
    def path(self) -> str:
        """Its path, which begins with that of the tree."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def state(self) -> _State:
        """What the last run found."""

    @property
    def algorithm(self) -> str:
        """The name of the digest."""

    @property
    def recorded(self) -> FileState:
        """What was recorded."""

    @property
    def found(self) -> FileState | None:
        """What was last read, if anything."""

    @property
    def since_ms(self) -> int:
        """When it was first found so, in milliseconds since 1970."""

    @property
    def seen_ms(self) -> int:
        """When it was last found so, in milliseconds since 1970."""

    @property
    def error(self) -> str | None:
        """Why it could not be read."""

@final
class Problems(_Iterator[Problem]):
    """Files of a catalogue that are not as recorded: an iterator, tree by tree, those of one state together."""

@final
class Catalog:
    """A catalogue, opened to read, while others may write. `relocate` and `forget` write to it.

    Methods take a tree by its path or address, as for `hash_files`; `rows` and `problems` also a directory in one.

    Raises:
        CatalogError: It is not there, is damaged, or is no catalogue. It is an `OSError`.
    """

    def __new__(cls, path: _Path) -> Catalog: ...
    @property
    def path(self) -> str:
        """Where it is."""

    def trees(self) -> list[CatalogTree]:
        """The trees, by path."""

    def runs(self, tree: _Path, *, most: int = 1000) -> list[CatalogRun]:
        """The runs over a tree, newest first; a catalogue remembers 1,000.

        Raises:
            CatalogError: There is no such tree.
        """

    def rows(
        self,
        tree: _Path | None = None,
        *,
        state: _State | None = None,
        changed_since: float | datetime | None = None,
    ) -> Records:
        """The records of all files, or of those in a tree or a directory of one.

        Args:
            tree: Only files in there.
            state: Only files in this state.
            changed_since: Only files whose content was found to be new since then: seconds since 1970, or a
                `datetime`.

        Raises:
            CatalogError: Nothing is recorded of the tree.
            ValueError: There is no such state.
        """

    @property
    def algorithms(self) -> dict[str, int]:
        """How many records have each digest."""

    @property
    def rehash_target(self) -> str | None:
        """The digest that the records of this machine's trees are to have, as `rehash` says; None if they keep theirs."""

    def export(self, lake: _Path) -> dict[str, int]:
        """Writes what changed since the last export to a lake of Parquet files, as `verisum catalog export --format
        parquet` does.

        Args:
            lake: A directory, which is made if it is not there.

        Returns:
            How many rows were ``changed`` or ``gone``, how many files are ``unchanged``, and how many ``damaged``
            records were left out.

        Raises:
            FileError: The lake cannot be written.
        """

    @staticmethod
    def import_lake(path: _Path, lake: _Path) -> dict[str, int]:
        """Adds records of the files of a lake to the catalogue at `path`, unless it has records of them. It adds all or
        nothing. If there is no catalogue, it makes one.

        Returns:
            How many files were ``added``, how many were ``known``, and how many of those are ``differing``.

        Raises:
            CatalogError: The catalogue cannot be used.
            FileError: The lake cannot be read.
        """

    def export_list(self, file: _Path, *, format: str = "gnu", tree: _Path | None = None) -> dict[str, int]:
        """Writes the records as a list of checksums, as `verisum catalog export --format` does.

        Args:
            file: The list; an existing file is replaced.
            format: ``gnu``, ``bsd``, ``sfv``, ``hashdeep``, ``mtree``, ``bagit``, ``s3`` or ``json``.
            tree: List the files below this directory, with names from there. None: all, with whole paths.

        Returns:
            How many ``files`` are in the list, and how many are not: ``damaged`` records, and ``unlistable`` names.

        Raises:
            CatalogError: The format has no place for a digest, or `tree` is not in the catalogue.
            FileError: The list cannot be written.
            ValueError: There is no such format.
        """

    @staticmethod
    def import_list(path: _Path, list: _Path, tree: _Path, *, algorithm: str | None = None) -> dict[str, int]:
        """Adds records of the files of a list of checksums to the catalogue at `path`, as `verisum catalog import` does,
        unless it has records of them. It adds all or nothing. The next scrub verifies them. If there is no catalogue, it
        makes one.

        Args:
            path: The catalogue.
            list: The list, in any format that `check` reads.
            tree: The directory where its names begin.
            algorithm: The digest, if the list does not tell.

        Returns:
            How many files were ``added``, how many were ``known``, how many of those are ``differing``, how many of all
            files are ``absent``: not there, and how many lines have ``unknown_digests`` only, and were skipped.

        Raises:
            CatalogError: The catalogue cannot be used, or the list not be believed.
            FileError: The list cannot be read.
        """

    @staticmethod
    def check(path: _Path) -> list[str]:
        """Reads a whole catalogue and looks for damage, as `verisum catalog check` does. Ctrl-C ends it within 100 ms.

        Returns:
            What is wrong, a text for each problem; none if the catalogue is sound.

        Raises:
            CatalogError: There is no catalogue, or it cannot be read.
        """

    def backup(self, to: _Path) -> None:
        """Copies the catalogue as it is at one moment, also while a scrub runs, as `verisum catalog backup` does. The copy
        appears whole or not at all. Ctrl-C ends it within 100 ms.

        Args:
            to: The copy; another catalogue or an empty file of this name is replaced.

        Raises:
            CatalogError: The copy cannot be written, or would replace something else.
        """

    @staticmethod
    def restore(path: _Path, backup: _Path) -> None:
        """Replaces the catalogue at `path`, which may be damaged or lost, by a copy of a backup, as `verisum catalog
        restore` does. The backup is checked first, and stays as it is. Ctrl-C ends it within 100 ms, and nothing is
        replaced then.

        Raises:
            CatalogError: The backup is damaged (`operation` is ``check``), somebody uses the catalogue, or something else is
                in its place. A `Catalog` of this process uses it until it is deleted.
        """

    def relocate(self, tree: _Path, to: _Path, *, unmounted: bool = False) -> CatalogTree:
        """Moves the records of a tree to a new path, as `verisum catalog relocate` does. It reads no file: the next scrub
        compares the files there with the records.

        Args:
            tree: The tree as the catalogue knows it; it need not be there.
            to: Where the tree is now: a directory, or the address of a tree on another machine for one that was on another
                machine.
            unmounted: Relocate even if `to` is not there, because its file system is not mounted.

        Returns:
            The tree with its new path.

        Raises:
            CatalogError: There is no such tree, `to` cannot be its path, or another run uses the catalogue.
        """

    def forget(self, tree: _Path, *, yes: bool = False, dry_run: bool = False) -> ForgottenTree:
        """Removes the records of a tree, as `verisum catalog forget` does: all or nothing. Its files stay as they are.

        Args:
            tree: The tree as the catalogue knows it; it need not be there.
            yes: Forget the tree even if files of it are bad, missing or held.
            dry_run: Change nothing.

        Raises:
            CatalogError: There is no such tree, files wait for somebody and `yes` is not given, or another run uses the
                catalogue.
        """

    def problems(self, tree: _Path | None = None) -> Problems:
        """The files that are not as recorded: bad, missing, held, or not to be read.

        Raises:
            CatalogError: Nothing is recorded of the tree.
        """

@final
class ForgottenTree:
    """A tree whose records were removed, or with `dry_run` would be."""

    @property
    def path(self) -> str:
        """Its path or address."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def records(self) -> int:
        """How many records it had."""

    @property
    def waiting(self) -> int:
        """How many files of it were bad, missing or held: `forget` wants `yes` if there are any."""

@final
class Accepted:
    """A file that was accepted, or could not be."""

    @property
    def path(self) -> str:
        """Its path."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def was(self) -> _State:
        """What it had been found to be."""

    @property
    def algorithm(self) -> str:
        """The name of the digest."""

    @property
    def recorded(self) -> FileState:
        """What was recorded."""

    @property
    def now(self) -> FileState | None:
        """What is recorded now; None if the file is gone, and its record with it."""

    @property
    def error(self) -> str | None:
        """Why it was not accepted; None if it was."""

def accept(
    path: _Path,
    *,
    catalog: _Path,
    dry_run: bool = False,
    only_missing: bool = False,
    cross_file_systems: bool = False,
    hosts: Hosts | None = None,
) -> list[Accepted]:
    """Accepts a bad or missing file as it is now, as `verisum accept` does: what is there becomes the record, and what is
    gone is forgotten.

    Args:
        path: A file; or a directory, for all problem files below it.
        catalog: The catalogue's file.
        dry_run: Change nothing.
        only_missing: Accept only that files are gone, and nothing that is bad or held.
        cross_file_systems: Also accept files on file systems that are mounted below the tree.
        hosts: How other machines are reached.

    Raises:
        CatalogError: The catalogue cannot be used.
        FileError: The tree is not there.
        HostError: A host cannot be reached.
    """

def rehash(catalog: _Path, to: str | None) -> int:
    """Sets the digest that the records of this machine's trees are to have, as `verisum catalog rehash` does. Scrubs give
    it to each file that they read and find good.

    Args:
        catalog: The catalogue's file.
        to: The name of a digest; None for no more changes.

    Returns:
        How many records have another digest yet.

    Raises:
        CatalogError: The catalogue cannot be used.
        DigestError: The digest is not to be had.
    """

@final
class Bag:
    """A BagIt bag that was made."""

    @property
    def files(self) -> int:
        """How many files it holds."""

    @property
    def bytes(self) -> int:
        """How many bytes they have."""

def create_bag(
    directory: _Path,
    algorithms: str | Iterable[str] | None = None,
    *,
    info: Sequence[tuple[str, str]] | None = None,
    threads: int = 0,
    progress: _Progress | None = None,
) -> Bag:
    """Turns a directory into a BagIt bag (RFC 8493), in place, as `verisum bag create` does: all that is in it moves to
    ``data``. What fails is undone, also by Ctrl-C. `check` verifies bags.

    Args:
        directory: The directory.
        algorithms: Digests, one manifest each; SHA-512 if there is none.
        info: Labels and values for ``bag-info.txt``.
        threads: How many threads hash; 0 for as many as there are cores.
        progress: Called about 25 times a second with the files and bytes read so far.

    Raises:
        DigestError: A digest is not to be had.
        FileError: It is a bag already, holds what no bag can hold, or cannot be read or written.
        ValueError: A label or a value is no line of text.
    """

@final
class TagFinding:
    """What came of a file with or without a tag; from `list_tags`, a tag."""

    @property
    def path(self) -> str:
        """The file's path."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def outcome(self) -> str:
        """``tagged``, ``updated``, ``refreshed``, ``current``, ``removed``, ``untagged``, ``damaged-tag``,
        ``not-written``, or a verdict as that of a scrub. From `list_tags`: ``current``, ``outdated`` (the file has
        another time), ``resized``, ``untimed``, ``damaged`` or ``unknown``."""

    @property
    def class_(self) -> Literal["clean", "change", "unchecked", "corrupt"]:
        """What that means."""

    @property
    def algorithm(self) -> str | None:
        """The digest of the tag, if there was one before."""

    @property
    def digest(self) -> bytes | None:
        """What was recorded before."""

    @property
    def hexdigest(self) -> str | None:
        """The same in lowercase hexadecimal."""

    @property
    def size(self) -> int | None:
        """The length that was recorded, in bytes."""

    @property
    def verified_ms(self) -> int | None:
        """When the content was last found to have that digest, in milliseconds since 1970."""

    @property
    def found(self) -> bytes | None:
        """The digest of what was read, where the file is not as recorded."""

    @property
    def error(self) -> Error | None:
        """Why it could not be looked at, read or tagged."""

@final
class Tagging(_Iterator[TagFinding]):
    """Work on tags: an iterator of what came of each file, in no order."""

    @property
    def summary(self) -> dict[str, int] | None:
        """How many files came to each outcome; None until all findings were taken."""

    @property
    def class_(self) -> Literal["clean", "change", "unchecked", "corrupt"] | None:
        """The worst of them; None until all findings were taken."""

    def finish(self) -> dict[str, int]:
        """Takes all findings that are left, and gives the summary."""

def tag(
    paths: _Path | Iterable[_Path],
    algorithm: str = "sha256",
    *,
    new_only: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    progress: _Progress | None = None,
) -> Tagging:
    """Records the digest of each file in its extended attributes, as `verisum tag` does. Files whose tag is up to date
    by length and time are not read; bad data never replaces a tag.

    Args:
        paths: Files and directories of this machine.
        algorithm: The digest of new tags; a tagged file keeps its own.
        new_only: Leave tagged files alone, also those that were written to.
        dry_run: Tell what would be done, and change nothing.
        threads: How many threads read and hash; 0 for as many as there are cores.
        one_file_system: Do not enter directories of other file systems.
        exclude: What is left out, by patterns as in `.gitignore`.
        limit: The most bytes to read in a second.
        progress: Called with files and bytes that were read.

    Raises:
        DigestError: The digest is not to be had.
        ValueError: No path is named, or tags have no place for the digest.
    """

def verify(
    paths: _Path | Iterable[_Path],
    *,
    stamp: bool = False,
    max_age: float | timedelta | None = None,
    sample: float = 1.0,
    threads: int = 0,
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    progress: _Progress | None = None,
) -> Tagging:
    """Reads tagged files and compares them with their tags, as `verisum verify` does.

    Args:
        paths: Files and directories of this machine.
        stamp: Write the time of verification into the tags of good files.
        max_age: Read only files whose last verification is older than this: seconds, or a `timedelta`.
        sample: The share of these that is read, by chance.
        threads, one_file_system, exclude, limit, progress: As for `tag`.
    """

def untag(
    paths: _Path | Iterable[_Path],
    algorithm: str | None = None,
    *,
    dry_run: bool = False,
    threads: int = 0,
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
) -> Tagging:
    """Removes tags: all, or those of one digest. The other arguments are those of `tag`."""

def retag(
    paths: _Path | Iterable[_Path],
    old: str,
    new: str,
    *,
    dry_run: bool = False,
    threads: int = 0,
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    progress: _Progress | None = None,
) -> Tagging:
    """Gives files whose content is as their tag of one digest says a tag of another instead, as `verisum retag` does. Both
    digests are computed in one read; what is not as its tag says keeps that.

    Args:
        paths: Files and directories of this machine.
        old: The digest to replace.
        new: The digest that takes its place.
        dry_run: Read the files, tell what would be done, and change nothing.
        threads, one_file_system, exclude, limit, progress: As for `tag`.

    Raises:
        DigestError: A digest is not to be had.
        ValueError: Tags have no place for one, or the two are the same.
    """

def adopt(
    paths: _Path | Iterable[_Path],
    *,
    verify: bool = False,
    dry_run: bool = False,
    threads: int = 0,
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    progress: _Progress | None = None,
) -> Tagging:
    """Makes tags of the digests that other tools, such as cshatag, keep in files' attributes, as `verisum adopt` does. Their
    attributes stay.

    Args:
        paths: Files and directories of this machine.
        verify: Read each file, and adopt only digests that match. Otherwise the first `verify` shows whether they do.
        dry_run: Tell what would be done, and change nothing.
        threads, one_file_system, exclude, limit, progress: As for `tag`.
    """

@final
class TagStatus:
    """What the tags of trees say, by count."""

    @property
    def current(self) -> int:
        """Tags with the length and the time of their files."""

    @property
    def outdated(self) -> int:
        """Tags with another time than their files."""

    @property
    def resized(self) -> int:
        """Tags with the time of their files, and another length."""

    @property
    def untimed(self) -> int:
        """Tags without a time: only reading shows whether they fit."""

    @property
    def damaged(self) -> int:
        """Tags that are not what was written once."""

    @property
    def unknown(self) -> int:
        """Tags of a later version of verisum."""

    @property
    def untagged(self) -> int:
        """Files without a tag."""

    @property
    def unreadable(self) -> int:
        """Files and directories that could not be looked at."""

    @property
    def tagged_bytes(self) -> int:
        """Bytes of all files with a tag."""

    @property
    def untagged_bytes(self) -> int:
        """Bytes of all files without one."""

    @property
    def by_digest(self) -> dict[str, int]:
        """Tags by the name of their digest."""

    @property
    def adoptable(self) -> dict[str, int]:
        """Files without a tag that have one of another tool, by the name of that."""

    @property
    def unverified(self) -> int:
        """Tags that were never compared with the content."""

    @property
    def stale(self) -> int:
        """With `older_than`: tags that were last verified longer ago, or never; otherwise 0."""

    @property
    def oldest_verified_ms(self) -> int | None:
        """The oldest verification, in milliseconds since 1970; None if there was none."""

def status(
    paths: _Path | Iterable[_Path],
    *,
    older_than: float | timedelta | None = None,
    threads: int = 0,
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
) -> TagStatus:
    """Counts tags without reading data, as `verisum status` does.

    Args:
        paths: Files and directories of this machine.
        older_than: Count tags as stale whose last verification is older than this: seconds, or a `timedelta`.
        threads, one_file_system, exclude: As for `tag`.
    """

def list_tags(
    paths: _Path | Iterable[_Path],
    *,
    threads: int = 0,
    one_file_system: bool = False,
    exclude: str | Sequence[str] | None = None,
) -> Tagging:
    """Gives each tag of each file, without reading data. The arguments are those of `tag`."""

@final
class CheckRow:
    """A file of a list and what was found of it, or a line that names none."""

    @property
    def outcome(
        self,
    ) -> Literal[
        "ok",
        "size-only",
        "failed",
        "missing",
        "unreadable",
        "extra",
        "bad-line",
        "unreadable-line",
        "unknown-digest",
        "unreadable-list",
        "nothing-verified",
    ]:
        """``size-only``: it is listed without a digest, and has the length; ``extra``: it is in no list;
        ``unreadable-line``: longer than any that is read; ``unknown-digest``: nothing here computes the line's digest;
        ``nothing-verified``: the list has no file that could be verified."""

    @property
    def class_(self) -> Literal["clean", "mismatch", "unchecked"]:
        """What that means: the command ends with 0, 1 or 3."""

    @property
    def name(self) -> str:
        """The file's name, as the list has it; empty where a line or a list has none."""

    @property
    def name_bytes(self) -> bytes:
        """The bytes of its name."""

    @property
    def list(self) -> str | None:
        """The list; None for a file that is in none."""

    @property
    def line(self) -> int | None:
        """The line, from 1; None for a file or a list that is in none."""

    @property
    def host(self) -> str | None:
        """The host that it is on; None for this machine."""

    @property
    def digests(self) -> tuple[tuple[str, bytes, bytes | None], ...]:
        """The algorithm of each digest, what is listed, and what the file has, if it was computed."""

    @property
    def listed_size(self) -> int | None:
        """The length that is listed, where the file has another one."""

    @property
    def found_size(self) -> int | None:
        """The length that the file has instead."""

    @property
    def evidence(self) -> Literal["read", "recorded"] | None:
        """On another machine: whether the file was read, or with `recorded` the store recorded its digests. None where it
        has none, and on this machine."""

    @property
    def recorded_ns(self) -> int | None:
        """When the store recorded them, in nanoseconds since 1970, if it did and tells that."""

    @property
    def error(self) -> FileError | None:
        """Why it was not checked."""

@final
class Check(_Iterator[CheckRow]):
    """Files that are compared with lists: an iterator of what was found, in the order of the lists."""

    @property
    def summary(self) -> dict[str, int] | None:
        """How many files were ``verified``, ``size_only``, ``present`` (only there, without a row), ``failed``,
        ``missing``, ``unreadable``, ``extra`` and ``left_out``; how many lines were ``bad_lines``, ``comments`` and of
        ``unknown_digests``; and ``unreadable_lists``. None until all rows were taken."""

    @property
    def class_(self) -> Literal["clean", "mismatch", "unchecked"] | None:
        """What that means as a whole; None until all rows were taken."""

    def finish(self) -> dict[str, int]:
        """Takes all rows that are left, and gives the summary."""

def check(
    lists: _Path | Iterable[_Path],
    place: str | None = None,
    *,
    algorithm: str | None = None,
    base: _Path | None = None,
    strict_tree: _Path | None = None,
    zero: bool = False,
    ignore_missing: bool = False,
    strict: bool = False,
    threads: int = 0,
    exclude: str | Sequence[str] | None = None,
    limit: int | None = None,
    recorded: bool = False,
    hosts: Hosts | None = None,
    progress: _Progress | None = None,
) -> Check:
    """Checks files against lists of checksums, of every format that `verisum check` reads, and BagIt bags.

    A list that cannot be read is a row, and the others go on. Block hashes of images are computed as
    their lines say; those of snapshots are not. Ctrl-C ends it within 100 ms.

    Args:
        lists: A list or the directory of a bag, or several.
        place: The address of a tree on another machine where the names begin, as for `hash_files`: ``web1:/srv``. Then
            there is one list, and of the options only `algorithm`, `zero`, `ignore_missing`, `strict`, `hosts` and
            `progress` are for it; in a bucket also `threads` (requests at a time), `limit` and `recorded`.
        algorithm: The digest, if the list does not tell.
        base: The directory where the names in the lists begin; without it, the working directory.
        strict_tree: Also report files below this directory that no list has.
        zero: Lines end with NUL, and names are not escaped.
        ignore_missing: Leave missing files out.
        strict: Lines that are improperly formatted are a mismatch.
        threads: How many threads read and hash; 0 for as many as there are cores.
        exclude: What of the lists and of `strict_tree` is left out, by patterns as in `.gitignore`: it is neither read nor
            missing. A path in a pattern begins where the names in the lists do, or at `strict_tree`.
        limit: The most bytes to read in a second.
        recorded: Take the digests that a store recorded when objects were uploaded, and read only objects without such a
            digest. This does not find rot in the store.
        hosts: How other machines are reached.
        progress: Called about 25 times a second, while you wait for a row, with the files and bytes read so far. What
            it raises ends the work and comes through.

    Raises:
        DigestError: The digest is not to be had.
        HostError: The host cannot be reached. It comes while rows are taken.
        ValueError: No list is named, the place is no address, or an option is not for other machines.
    """

@final
class Amount:
    """So many files, and the sum of their lengths."""

    @property
    def files(self) -> int:
        """How many files."""

    @property
    def bytes(self) -> int:
        """The sum of their lengths in bytes."""

    def __eq__(self, other: object, /) -> bool: ...

@final
class RecordedRepair:
    """A repair that a catalogue remembers."""

    @property
    def path(self) -> str:
        """The file, by its whole path or address."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def repaired_ms(self) -> int:
        """When, in milliseconds since 1970."""

    @property
    def was(self) -> _State:
        """What the file had been found to be."""

    @property
    def source(self) -> str:
        """The path or address of the file whose content it took."""

    @property
    def bytes(self) -> int:
        """How many bytes were written."""

    @property
    def algorithm(self) -> str:
        """The name of the digests below."""

    @property
    def before_hexdigest(self) -> str | None:
        """The digest that it had; None where it was not there or could not be read."""

    @property
    def hexdigest(self) -> str:
        """The digest that it has since: the recorded one."""

@final
class TreeOverview:
    """A tree of an overview."""

    @property
    def catalog(self) -> str:
        """The path of the catalogue that has it."""

    @property
    def path(self) -> str:
        """Its path or address."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def files(self) -> int:
        """How many files are recorded in it."""

    @property
    def bytes(self) -> int:
        """The sum of their lengths."""

    @property
    def troubles(self) -> dict[str, int]:
        """How many files are in each state but ``ok``."""

    @property
    def wanted(self) -> int:
        """How many files want their recorded content again."""

    @property
    def mendable(self) -> int:
        """Of how many of those its own catalogue knows a copy."""

    @property
    def stalest_verification_ms(self) -> int | None:
        """When its stalest file was verified, in milliseconds since 1970; 0 for never, None without files."""

    @property
    def stale(self) -> Amount:
        """What was not verified within `max_age`."""

    @property
    def only(self) -> Amount:
        """What has content that no other recorded file has."""

    @property
    def runs(self) -> list[CatalogRun]:
        """Its last runs, newest first. One that goes on still is not told from one that was killed: see `Catalog.runs`."""

    @property
    def repairs(self) -> list[RecordedRepair]:
        """Its last repairs, the latest first."""

    @property
    def forecast(self) -> Forecast | None:
        """When all of it will have been verified, if that can be said."""

@final
class Directory:
    """A directory of an overview, or a part of it."""

    @property
    def catalog(self) -> str:
        """The path of the catalogue that has it."""

    @property
    def path(self) -> str:
        """Its whole path or address."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def part(self) -> Literal["all", "own", "others"]:
        """Which part of it: all files below it, those right in it, or those of `others` of its directories, which are told
        of together."""

    @property
    def others(self) -> int:
        """How many directories that are."""

    @property
    def files(self) -> int:
        """How many files are in that part."""

    @property
    def bytes(self) -> int:
        """The sum of their lengths."""

    @property
    def stalest_verification_ms(self) -> int | None:
        """When the stalest file of that part was verified, in milliseconds since 1970; 0 for never, None where nothing
        could be."""

@final
class TroubledFile:
    """A file of an overview that is not as recorded."""

    @property
    def catalog(self) -> str:
        """The path of the catalogue that has it."""

    @property
    def path(self) -> str:
        """Its whole path or address."""

    @property
    def path_bytes(self) -> bytes:
        """The bytes of its path."""

    @property
    def state(self) -> _State:
        """What the last run found."""

    @property
    def algorithm(self) -> str:
        """The name of the digest; empty for a file without a record."""

    @property
    def recorded(self) -> FileState | None:
        """What was recorded. None for a file that no scrub could read."""

    @property
    def last_verified_ms(self) -> int:
        """When it was last found good, in milliseconds since 1970; 0 for never."""

    @property
    def found(self) -> FileState | None:
        """What was last read, if anything."""

    @property
    def since_ms(self) -> int | None:
        """When it was first found so, in milliseconds since 1970."""

    @property
    def error(self) -> str | None:
        """Why it could not be read."""

    @property
    def copy(self) -> str | None:
        """The path or address of a sound file that has its recorded content, as a catalogue says."""

    @property
    def copy_catalog(self) -> str | None:
        """The path of the catalogue that knows the copy."""

@final
class SharedContent:
    """Content that several files have."""

    @property
    def algorithm(self) -> str:
        """The name of the digest."""

    @property
    def hexdigest(self) -> str:
        """The digest in lowercase hexadecimal."""

    @property
    def size(self) -> int:
        """The length of one file in bytes."""

    @property
    def files(self) -> int:
        """How many files have it."""

    @property
    def path(self) -> str:
        """One of them."""

@final
class Overview:
    """What state catalogues are in. Made by `overview`."""

    @property
    def class_(self) -> Literal["clean", "unchecked", "corrupt"]:
        """What it means as a whole: `verisum report` ends with 0, 3 or 1. What is only missing is clean."""

    @property
    def now_ms(self) -> int:
        """The moment that ages are counted from, in milliseconds since 1970."""

    @property
    def trees(self) -> list[TreeOverview]:
        """The trees, by catalogue and path."""

    @property
    def ages(self) -> dict[str, Amount]:
        """How long ago files were verified: classes from ``less than a day`` to ``never verified``, in this order. What is
        missing is in none."""

    @property
    def digests(self) -> dict[str, Amount]:
        """What is recorded by each digest."""

    @property
    def months(self) -> dict[str, Amount]:
        """What was first recorded in each month, as ``2026-05``; of what is still recorded."""

    @property
    def stale(self) -> Amount:
        """What was not verified within `max_age`."""

    @property
    def stalest_verification_ms(self) -> int | None:
        """When the stalest file was verified, in milliseconds since 1970; 0 for never, None without files."""

    @property
    def damaged(self) -> int:
        """How many records are not as they were written."""

    @property
    def directories(self) -> list[Directory]:
        """Directories that together have all files once, the largest first."""

    @property
    def stalest(self) -> list[Directory]:
        """Directories whose own files have not been verified for the longest time, stalest first."""

    @property
    def troubled(self) -> list[TroubledFile]:
        """Files that are bad, missing or could not be compared, the worst first."""

    @property
    def only(self) -> Amount:
        """Content that one file alone has: the only copies. Of sound files that are not empty, as those below."""

    @property
    def one_tree(self) -> Amount:
        """Content that several files of one tree have: how many contents, and their bytes once."""

    @property
    def several_trees(self) -> Amount:
        """Content that several trees have: how many contents, and their bytes once."""

    @property
    def extra(self) -> Amount:
        """Files beyond the first of each content, and the room that they take."""

    @property
    def duplicates(self) -> list[SharedContent]:
        """Where the most room is taken by copies, most first."""

def overview(
    catalogs: _Path | Iterable[_Path],
    *,
    max_age: float | timedelta | None = None,
    now: float | datetime | None = None,
    directories: int = 48,
    troubled: int = 500,
    duplicates: int = 12,
    runs: int = 16,
    repairs: int = 100,
) -> Overview:
    """What state catalogues are in: what `verisum report` and `verisum catalog status` tell, as objects.

    Each catalogue is read as it is at one moment, and no file of its trees. Memory grows with directories, about 70 bytes
    each, not with files. Ctrl-C ends the wait within 100 ms.

    Args:
        catalogs: A catalogue, or several.
        max_age: What was verified longer ago is `stale`: seconds, or a `timedelta`.
        now: The moment that ages are counted from: seconds since 1970, or a `datetime`; without it, this one.
        directories: How many directories are told at most.
        troubled: How many files in trouble are told at most.
        duplicates: How many contents with several copies are told at most.
        runs: How many runs of each tree are told at most.
        repairs: How many repairs of each tree are told at most.

    Raises:
        CatalogError: A catalogue is not there, is damaged, or is none. It is an `OSError`.
        ValueError: No catalogue is named.
    """

@final
class ImageSum:
    """The block hash of a disk image."""

    @property
    def digest(self) -> bytes:
        """The block hash."""

    @property
    def hexdigest(self) -> str:
        """The block hash in lowercase hexadecimal."""

    @property
    def algorithm(self) -> str:
        """The name of its digest."""

    @property
    def block_size(self) -> int:
        """Length of its blocks in bytes."""

    @property
    def length(self) -> int:
        """How many bytes the guest sees, padding included."""

    @property
    def padded(self) -> int:
        """How many zeros were added to complete the last sector."""

    @property
    def modified(self) -> bool:
        """Whether somebody may have written to the image meanwhile."""

def image_sum(
    path: _Path,
    algorithm: str = "sha256",
    *,
    block_size: int = 65536,
    exact: bool = False,
    threads: int = 0,
    hosts: Hosts | None = None,
    progress: Callable[[int], object] | None = None,
) -> ImageSum:
    """Computes the block hash of a disk image as a guest sees it, on all cores. Holes are not read.

    It is the value that `verisum image sum` prints. Ctrl-C ends it.

    Args:
        path: A file of any format that verisum reads, a block device, a pipe, or the address of an NBD export. Text may
            also be the address of an object in a bucket (``s3://BUCKET/KEY``); only data is read of it.
        algorithm: The name of a digest, as for `new`. It changes the value.
        block_size: Length of the blocks in bytes, even and not 0. It changes the value.
        exact: Do not complete the last sector of 512 bytes with zeros.
        threads: How many threads hash; 0 for as many as there are cores.
        hosts: How buckets are reached.
        progress: Called about 25 times a second with the number of bytes hashed so far, and with all at the end. What
            it raises ends the work and comes through.

    Raises:
        DigestError: The digest is not to be had.
        HostError: The bucket cannot be reached.
        ImageError: The image cannot be opened, read or understood. It is an `OSError`.
        ValueError: The block size is odd or 0, or there are too many threads.
    """

@final
class ImageLayer:
    """A file that a disk image consists of."""

    @property
    def role(self) -> str:
        """What it is to the image: ``image``, ``backing file``, ``data file`` or ``extent``."""

    @property
    def name(self) -> str:
        """Its path, or the address of a server."""

    @property
    def format(self) -> str:
        """The name of its format, such as ``qcow2``."""

    @property
    def size(self) -> int | None:
        """How many bytes a guest sees of it, if that is known."""

    @property
    def file_size(self) -> int | None:
        """Length of the file in bytes, if it is one."""

    @property
    def stored(self) -> int | None:
        """How many bytes it takes on disk, if it is a file."""

    @property
    def cluster_size(self) -> int | None:
        """Length of its clusters in bytes, if its format has them."""

    @property
    def properties(self) -> dict[str, str | int | bool]:
        """What else its format says of it; the names depend on the format."""

    @property
    def warnings(self) -> list[str]:
        """What its user should know, such as that it was not closed."""

@final
class ImageSnapshot:
    """A snapshot inside a disk image."""

    @property
    def id(self) -> str:
        """Its identifier."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def taken_ms(self) -> int:
        """When it was taken, in milliseconds since 1970, by whole seconds."""

    @property
    def size(self) -> int:
        """How many bytes the guest saw then."""

    @property
    def state_size(self) -> int:
        """Length of the machine's state in it, in bytes."""

@final
class ImageBitmap:
    """A dirty bitmap inside a disk image."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def granularity(self) -> int:
        """For how many bytes of the image a bit stands."""

    @property
    def enabled(self) -> bool:
        """Whether it is kept up to date."""

    @property
    def in_use(self) -> bool:
        """Whether the image was not closed, so that the bitmap says nothing."""

@final
class ImageInfo:
    """What is known of a disk image without reading its content."""

    @property
    def size(self) -> int | None:
        """How many bytes a guest sees; None if that is not known."""

    @property
    def padded(self) -> int | None:
        """How many of them are zeros that complete the last sector; None if a part cannot be opened."""

    @property
    def data(self) -> int | None:
        """How many are stored as they are; None as above."""

    @property
    def compressed(self) -> int | None:
        """How many are stored compressed; None as above."""

    @property
    def zero(self) -> int | None:
        """How many are known to be zeros; None as above."""

    @property
    def layers(self) -> list[ImageLayer]:
        """The image, then its backing files from the top down, each followed by the files that hold its data."""

    @property
    def snapshots(self) -> list[ImageSnapshot]:
        """The snapshots inside."""

    @property
    def bitmaps(self) -> list[ImageBitmap]:
        """The dirty bitmaps inside."""

    @property
    def errors(self) -> list[str]:
        """Why some of this is not known: a backing file is not there, or the image is encrypted."""

def image_info(path: _Path) -> ImageInfo:
    """Describes a disk image without reading its content, as ``verisum image info`` does.

    Args:
        path: A file of any format that verisum reads, a block device, or the address of an NBD export.

    Raises:
        ImageError: Nothing is known of it: it cannot be opened or read, or is a pipe or a block map. It is an
            `OSError`.
    """

@final
class BlockMap:
    """A block map, as `verisum image map` writes it: the digest of every block of an image.

    Opening checks all of it but the digests, which are checked when they are read.

    Raises:
        ImageError: The file cannot be read, is no block map, or is damaged.
    """

    def __new__(cls, path: _Path) -> BlockMap: ...
    @staticmethod
    def create(
        path: _Path,
        image: _Path,
        algorithm: str = "sha256",
        *,
        block_size: int = 65536,
        exact: bool = False,
        threads: int = 0,
        hosts: Hosts | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> BlockMap:
        """Hashes an image and writes the map of it, as `verisum image map` does; the other arguments are those of
        `image_sum`. The map appears whole or not at all. Ctrl-C ends it.

        Args:
            path: The map to write. An older map of this name is replaced, and nothing else.

        Raises:
            ImageError: The image cannot be read, or the map cannot be written.
        """

    def update(
        self,
        path: _Path,
        image: _Path,
        ranges: Sequence[tuple[int, int]],
        *,
        exact: bool = False,
        threads: int = 0,
        hosts: Hosts | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> BlockMap:
        """Writes the map of an image that has changed since this map was made: only what may have changed is read.

        Args:
            path: The map to write; it may be this one's file.
            image: The image as it is now, which is no pipe.
            ranges: Where it may have changed, as pairs of begin and end in bytes.

        Raises:
            ImageError: The image or this map cannot be read, or the new map cannot be written.
            ValueError: A range ends before it begins, or behind the end of the image as it was and as it is.
        """

    @property
    def algorithm(self) -> str:
        """The name of the digest."""

    @property
    def digest_size(self) -> int:
        """Length of each digest in bytes."""

    @property
    def block_size(self) -> int:
        """Length of the blocks in bytes; the last may be shorter."""

    @property
    def length(self) -> int:
        """Length of the image in bytes, as it was hashed."""

    @property
    def data_blocks(self) -> int:
        """How many blocks are not all zeros."""

    @property
    def root(self) -> bytes:
        """The block hash of the image, as the map states it."""

    def __len__(self) -> int:
        """How many blocks the image has."""

    def digests(self, start: int = 0, stop: int | None = None) -> Digests:
        """The digests of the blocks from `start` up to `stop`, those of zeros too: a buffer of shape
        `(stop - start, digest_size)`.

        Raises:
            ImageError: The map is damaged there.
            IndexError: There are no such blocks.
            ValueError: They take more than 4 GiB; take them in several calls.
        """

    def check(self) -> None:
        """Reads all of the map.

        Raises:
            ImageError: Its digests do not give its root.
        """

    def differences(self, other: BlockMap, /) -> list[tuple[int, int]]:
        """The byte ranges, begin and end, in which the images of two maps differ, as whole blocks.

        Raises:
            ImageError: The maps have different digests or block sizes, or one is damaged.
        """

@final
class ImageRepair:
    """What a repair of an image came to. All ranges are begin and end in bytes."""

    @property
    def dry_run(self) -> bool:
        """Whether nothing was written."""

    @property
    def repaired(self) -> list[tuple[int, int, str]]:
        """What was written anew, or could be with `dry_run`: begin, end, and the copy that gave it."""

    @property
    def left(self) -> list[tuple[int, int]]:
        """What no copy has."""

    @property
    def bad_copies(self) -> list[str]:
        """The copies in which a bad block of the image is not as the map says either."""

    @property
    def unreadable_copies(self) -> list[tuple[str, str]]:
        """The copies that could not be opened, or not be read where a block was wanted, and why."""

    @property
    def bytes_repaired(self) -> int:
        """How many bytes `repaired` has."""

    @property
    def bytes_left(self) -> int:
        """How many bytes `left` has."""

    @property
    def bytes_fetched(self) -> int:
        """How many bytes were read from the copies."""

    @property
    def bytes_after_end(self) -> int:
        """How many bytes the image has after its recorded end. They are left alone."""

    @property
    def recovered_blocks(self) -> int:
        """How many blocks were written from the journal of a repair that was interrupted; in a dry run, would be."""

    @property
    def noted(self) -> Literal["confirmed", "different"] | None:
        """What the catalogue was told: the image is as recorded again, or it is not, and its state stays. None where
        nothing was written, or the catalogue does not know the image."""

    @property
    def class_(self) -> Literal["clean", "mismatch"]:
        """Whether the image is what the map says now; with `dry_run`, whether it could be."""

def image_repair(
    image: _Path,
    map: _Path,
    sources: _Path | Iterable[_Path],
    *,
    dry_run: bool = False,
    overwrite: bool = False,
    catalog: _Path | None = None,
    threads: int = 0,
    hosts: Hosts | None = None,
    progress: Callable[[int], object] | None = None,
) -> ImageRepair:
    """Writes bad blocks of a raw image or a block device anew, from other copies, as `verisum image repair` does.

    Only bytes with the digest of the map are written, and what was written is read back. The bytes go to a journal beside
    the map first: if a repair is interrupted, the next one finishes it.

    Ctrl-C ends it within 100 ms while it hashes. While it writes, it first writes what it has fetched, at most 64 MiB.
    It waits for the answer of a host or store.

    Args:
        image: A raw image file or a block device, which is changed in place.
        map: The block map of the image as it should be, by `BlockMap.create`.
        sources: Copies of the image, which are tried in this order for each block: images in any format, devices,
            addresses of NBD exports, or addresses of raw images on hosts and in buckets, as for `hash_files`.
        dry_run: Find what could be repaired and from where, and write nothing.
        overwrite: Also repair an image of which hardly anything is as the map says: less than a tenth of its blocks with
            data. Without it that is refused, for it may be another image.
        catalog: A catalogue that knows the image as a file, where the repair is recorded.
        threads: How many threads hash; 0 for as many as there are cores.
        hosts: How other machines are reached.
        progress: Called about 25 times a second with the number of bytes of the image hashed so far, and with all at
            the end. What it raises ends the work and comes through.

    Raises:
        ImageError: The image, the map or a copy cannot be opened, read or understood. Or the image is not raw, is in
            use, or seems to be another one. Or what was written reads back as something else. It is an `OSError`.
        CatalogError: The catalogue cannot be used.
        HostError: A host cannot be reached.
        ValueError: No copy is named, or an address cannot be understood.
    """

@final
class ImageVerification:
    """How a disk image compares with its block map."""

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Where they differ: begin and end in bytes, ascending. Whole blocks, except at the end."""

    @property
    def differing(self) -> int:
        """How many bytes `ranges` has."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""

    @property
    def block_size(self) -> int:
        """Length of the blocks of the map in bytes."""

    @property
    def length(self) -> int:
        """How many bytes the guest sees, padding included."""

    @property
    def map_length(self) -> int:
        """How many bytes the image of the map has."""

    @property
    def modified(self) -> bool:
        """Whether somebody may have written to the image meanwhile."""

    @property
    def class_(self) -> Literal["clean", "mismatch"]:
        """Whether the image is what the map says."""

def image_verify(
    image: _Path,
    map: _Path,
    *,
    threads: int = 0,
    hosts: Hosts | None = None,
    progress: Callable[[int], object] | None = None,
) -> ImageVerification:
    """Compares every block of a disk image with its block map, as `verisum image verify` does.

    It hashes the image on all cores; holes are not read. Ctrl-C ends it.

    Args:
        image: A file of any format that verisum reads, a block device, a pipe, or the address of an NBD export. Text may
            also be the address of an object in a bucket (``s3://BUCKET/KEY``); only data is read of it.
        map: The block map of the image as it should be, by `BlockMap.create`.
        threads: How many threads hash; 0 for as many as there are cores.
        hosts: How buckets are reached.
        progress: Called about 25 times a second with the number of bytes hashed so far, and with all at the end. What
            it raises ends the work and comes through.

    Raises:
        HostError: The bucket cannot be reached.
        ImageError: The image or the map cannot be opened, read or understood, or the map is damaged. It is an `OSError`.
        ValueError: There are too many threads.
    """

def algorithms() -> list[tuple[str, int, int, str]]:
    """The digests that can be had here: name, length and block length in bytes, and what they are good for."""

# For `verisum.dask`: places on other machines, and the tables by which a scrub judges.

@final
class PlaceRead:
    """What came of a file of a place that was read."""

    @property
    def digest(self) -> bytes | None: ...
    @property
    def size(self) -> int | None: ...
    @property
    def mtime_ns(self) -> int | None: ...
    @property
    def changed(self) -> bool: ...
    @property
    def missing(self) -> bool: ...
    @property
    def error(self) -> str | None:
        """Why it has no digest."""

def place_address(text: str) -> str:
    """The URL by which lakes know a tree on another machine. Raises `ValueError` for what is none."""

def list_place(
    address: str, hosts: Hosts | None = None
) -> tuple[list[tuple[bytes, int | None, int | None]], list[tuple[bytes, str]]]:
    """The files below an address with length and time of modification, in the order of the paths' bytes; and what could
    not be listed, with the reasons. Raises `HostError` where the place cannot be reached."""

def hash_place(
    address: str,
    files: Sequence[tuple[bytes, int | None, int | None]],
    algorithm: str,
    hosts: Hosts | None = None,
    *,
    settled: bool = False,
) -> list[PlaceRead | None]:
    """Reads files below an address, and gives what came of each, in their order; None for one without an answer. With
    `settled` each is looked at before and after. Raises `HostError` where the place cannot be reached."""

@final
class Excludes:
    """What a walk leaves out, by patterns as for `hash_files`."""

    def __new__(cls, patterns: Sequence[str]) -> Excludes: ...
    def leaves_out(self, path: bytes, is_directory: bool) -> bool:
        """Whether an entry is left out, by its path below the root."""

    def leaves_out_file(self, path: bytes) -> bool:
        """Whether a file is left out, by itself or because a directory that it is in is."""

@final
class SecondLook:
    """A second read of a file, past the page cache where the system lets it."""

    @property
    def digest(self) -> bytes: ...
    @property
    def mtime_ns(self) -> int: ...
    @property
    def ctime_ns(self) -> int: ...
    @property
    def born_ms(self) -> int | None:
        """When the file was made, where its file system keeps that."""

    @property
    def settled(self) -> bool:
        """Whether nobody wrote to it meanwhile."""

    @property
    def source(self) -> str:
        """Where the bytes came from: ``direct``, ``cache-dropped`` or ``cached``."""

def read_again(path: str, algorithm: str) -> SecondLook:
    """Reads all of a file. Raises `OSError` with the number of the system's error."""

def verdicts() -> list[tuple[str, str]]:
    """The names of all verdicts, each with its class: ``clean``, ``change``, ``unchecked`` or ``corrupt``."""

def judge(evidence: str) -> str:
    """The verdict on a file that was not compared with a record. The evidence is ``unrecorded``, ``gone``,
    ``unsettled``, ``record-damaged``, ``unreadable`` or ``storage-failed``."""

def judge_comparison(
    *,
    same_digest: bool,
    same_mtime: bool,
    same_ctime: bool | None,
    same_file: bool | None,
    time_tells: bool,
    second: str | None = None,
) -> str | None:
    """The verdict on a file that was compared with its record; None where a second read must come first. `second` is
    what that gave: ``same``, ``different`` or ``failed``."""

def state_after(before: str, found: str) -> tuple[str, str, bool]:
    """What follows from finding a file to be `found` while its record was in the state `before`.

    Gives the verdict, the new state of the record, and whether what was read takes the place of the record."""

def storage_failed(errno: int) -> bool:
    """Whether the number of an error says that the storage failed."""
