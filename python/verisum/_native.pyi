"""The native part. What is documented here is exported by `verisum`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, final, overload, type_check_only

from typing_extensions import Buffer

from verisum._errors import DigestError, FileError, HostError

__all__ = [
    "ArrowStream",
    "BlockMap",
    "Digests",
    "FileRow",
    "Hash",
    "HashFiles",
    "Hosts",
    "ImageSum",
    "algorithms",
    "hash_files",
    "hash_many",
    "image_sum",
    "new",
]

@type_check_only
class _Array(Protocol):
    """NumPy's arrays, which have the buffer protocol but say so only to newer Pythons."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Data: TypeAlias = Buffer | _Array
_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]

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

@final
class Digests:
    """Digests of one length: a sequence of `bytes`, and a read-only buffer of unsigned bytes.

    The buffer has the shape `(len(self), digest_size)`: `numpy.asarray(digests)` is a view, not a copy.
    """

    @property
    def digest_size(self) -> int:
        """Length of each digest in bytes."""

    def hex(self) -> list[str]:
        """All of them in lowercase hexadecimal."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: SupportsIndex, /) -> bytes: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def new(name: str, data: _Data | None = None, *, usedforsecurity: bool = True) -> Hash:
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
        DigestError: The digest is not to be had.
        TypeError: A buffer is none.
        BufferError: A buffer is not contiguous (NumPy: `ValueError`).
    """

@final
class FileRow:
    """A file and its digests, or why it has none.

    A file that could not be read never looks like one that could: all but `host`, `path`, `path_bytes` and `error` raise
    its error. Of a file of a host `size` and `mtime_ns` are None where the host does not tell them, and `ctime_ns`,
    `inode`, `device`, `links` and `stored` always; of a file of this machine none of them ever is.
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
        """Whether it changed while it was read: the digests may fit no state of it then."""

@final
class Hosts:
    """How other machines are reached, and what hashes there.

    Args:
        way: Use only this program to hash: ``coreutils``, ``openssl``, ``verisum`` …; without it the best that a host
            has.
        push: A program `verisum-serve` or `verisum`, which is copied to hosts that lack it for the time of the run.
        ssh_config: Configuration file of ssh, instead of your own.
        timeout: Give up a host that does not answer for this many seconds.

    Raises:
        OSError: The program to push cannot be read.
        ValueError: There is no such way, or the time is not from 1 to 86400 seconds.
    """

    def __new__(
        cls,
        *,
        way: str | None = None,
        push: _Path | None = None,
        ssh_config: _Path | None = None,
        timeout: int = 30,
    ) -> Hosts: ...

@final
class HashFiles:
    """The rows of `hash_files`: an iterator, and a source of Arrow record batches.

    Files are read and hashed on threads of their own while rows are taken. If nobody takes them, reading waits: memory
    does not grow with the number of files. Dropping or closing it ends the work.
    """

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The names of the digests of each row."""

    def close(self) -> None:
        """Ends the work. There are no more rows then."""

    def to_arrow(self, *, batch_rows: int = 16384) -> ArrowStream:
        """The rows that are left, as Arrow record batches of this many rows."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def __iter__(self) -> HashFiles: ...
    def __next__(self) -> FileRow: ...
    def __enter__(self) -> HashFiles: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
        /,
    ) -> None: ...

@final
class ArrowStream:
    """Rows of files as Arrow record batches, by the Arrow PyCapsule interface.

    `pyarrow.table(stream)`, `polars.DataFrame(stream)` and DuckDB read it once, without a copy. Columns:

    - `path`: text; null where the path is no UTF-8.
    - `path_bytes`: binary; null where `path` is not.
    - `error`: text; null where there are digests. All columns below are null where there is an error.
    - `size`: bytes that were hashed, uint64.
    - `mtime`, `ctime`: timestamps in nanoseconds, UTC; null where 64 bits do not reach.
    - `device`, `inode`: uint64.
    - `changed`: whether the file changed while it was read.
    - `host`: text; null for this machine. What a host does not tell of a file is null.
    - a column for each digest, with its name: binary of fixed length.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

def hash_files(
    paths: _Path | Iterable[_Path],
    algorithms: Sequence[str] | None = None,
    *,
    ordered: bool = False,
    threads: int = 0,
    one_file_system: bool = False,
    follow_links: bool = False,
    exclude: Sequence[str] | None = None,
    limit: int | None = None,
    hosts: Hosts | None = None,
) -> HashFiles:
    """Hashes the regular files of trees: many at once, on all cores, every digest in one read.

    What cannot be listed, opened or read is a row with an `error`, and the others go on. Ctrl-C ends the wait for a row
    within 100 ms.

    Text is an address as on the command line: ``ssh://[USER@]HOST[:PORT]/PATH`` always, ``[USER@]HOST:PATH`` and
    ``local:PATH`` unless a file of this machine has that name. Bytes and objects of `pathlib` are always paths of this
    machine. A host needs ssh and nothing of verisum; it computes one digest, and of the options only `hosts` is for it.
    Which program hashes there goes to the logger ``verisum``.

    Args:
        paths: A file or directory, or several. Links among them are followed.
        algorithms: The names of digests, as for `new`; SHA-256 if there is none.
        ordered: Give the rows root by root, by the bytes of the paths; otherwise as files are finished, which is faster.
        threads: How many threads read and hash; 0 for as many as there are cores.
        one_file_system: Do not enter directories of other file systems.
        follow_links: Follow links to files and directories below the roots too.
        exclude: What is left out, by patterns as in `.gitignore`.
        limit: The most bytes to read in a second.
        hosts: How other machines are reached.

    Raises:
        DigestError: A digest is not to be had.
        ValueError: A pattern or an address cannot be understood, no algorithm is named, or an option or a second digest
            is not for files on other machines.
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
    progress: Callable[[int], object] | None = None,
) -> ImageSum:
    """Computes the block hash of a disk image as a guest sees it, on all cores. Holes are not read.

    It is the value that `verisum image sum` prints. Ctrl-C ends it.

    Args:
        path: A file of any format that verisum reads, a block device, a pipe, or the address of an NBD export.
        algorithm: The name of a digest, as for `new`. It changes the value.
        block_size: Length of the blocks in bytes, even and not 0. It changes the value.
        exact: Do not complete the last sector of 512 bytes with zeros.
        threads: How many threads hash; 0 for as many as there are cores.
        progress: Called about 25 times a second with the number of bytes hashed so far, and with all at the end. What
            it raises ends the work and comes through.

    Raises:
        DigestError: The digest is not to be had.
        ImageError: The image cannot be opened, read or understood. It is an `OSError`.
        ValueError: The block size is odd or 0, or there are too many threads.
    """

@final
class BlockMap:
    """A block map, as `verisum image map` writes it: the digest of every block of an image.

    Opening checks all of it but the digests, which are checked when they are read.

    Raises:
        ImageError: The file cannot be read, is no block map, or is damaged.
    """

    def __new__(cls, path: _Path) -> BlockMap: ...
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

def algorithms() -> list[tuple[str, int, int, str]]:
    """The digests that can be had here: name, length and block length in bytes, and what they are good for."""
