"""The native part. What is documented here is exported by `verisum`."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, final, overload, type_check_only

from typing_extensions import Buffer

__all__ = ["Digests", "Hash", "algorithms", "hash_many", "new"]

@type_check_only
class _Array(Protocol):
    """NumPy's arrays, which have the buffer protocol but say so only to newer Pythons."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Data: TypeAlias = Buffer | _Array

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

def algorithms() -> list[tuple[str, int, int, str]]:
    """The digests that can be had here: name, length and block length in bytes, and what they are good for."""
