"""Digests of file objects."""

from __future__ import annotations

from verisum._native import Hash, new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Protocol

    from typing_extensions import Buffer

    class Readable(Protocol):
        """A file object that was opened to read bytes."""

        def read(self, size: int, /) -> bytes | None: ...


_PIECE = 1 << 20


def file_digest(fileobj: Readable, digest: str | Callable[[], Hash], /) -> Hash:
    """Hashes a file object from where it stands to its end.

    Args:
        fileobj: What `open` gives in binary mode, `io.BytesIO`, `socket.makefile`, or any object of fsspec.
        digest: The name of a digest, or what makes a hash object.

    Returns:
        The hash object; more can be added to it.

    Raises:
        BlockingIOError: The file object has no bytes now, and would not wait for them.
        TypeError: It is no file object, such as a path, or was opened for text.
    """
    if not (hasattr(fileobj, "read") or hasattr(fileobj, "readinto")):
        raise TypeError(f"not a file object opened to read bytes: {fileobj!r}; open(path, 'rb') gives one")
    hash = new(digest) if isinstance(digest, str) else digest()
    readinto: Callable[[Buffer], int | None] | None = getattr(fileobj, "readinto", None)
    if readinto is None:
        while piece := fileobj.read(_PIECE):
            hash.update(piece)
        if piece is None:
            raise BlockingIOError("the file object is not ready to be read")
        return hash
    buffer = memoryview(bytearray(_PIECE))
    while (count := readinto(buffer)) != 0:
        if count is None:
            raise BlockingIOError("the file object is not ready to be read")
        hash.update(buffer[:count])
    return hash
