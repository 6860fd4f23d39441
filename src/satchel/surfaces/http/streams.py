"""Bytes on their way in and out: private files of the moment, gone whatever happens."""

import tempfile
from pathlib import Path, PurePosixPath

from anyio import open_file
from fastapi import Request

from satchel.errors import EmptyInputError

_NAME = "body"
_LONGEST_SUFFIX = 32


class Private:
    """A folder that only this process can read, with a file in it.

    Args:
        name: What somebody called the file; only what its suffix says is kept of it.
    """

    def __init__(self, name: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="satchel-")
        self.folder = Path(self._folder.name)
        suffix = "".join(PurePosixPath(name).suffixes)[-_LONGEST_SUFFIX:]
        plain = suffix.isascii() and suffix.replace(".", "").replace("_", "").isalnum()
        self.file = self.folder / (_NAME + (suffix if plain else ""))

    def close(self) -> None:
        """Remove it, with what is in it."""
        self._folder.cleanup()


async def received(request: Request, name: str) -> Private:
    """Return a request's body as a file.

    Raises:
        EmptyInputError: If there is none.
    """
    private, size = Private(name), 0
    try:
        async with await open_file(private.file, "wb") as file:
            async for part in request.stream():
                size += len(part)
                await file.write(part)
    except BaseException:
        private.close()
        raise
    if size == 0:
        private.close()
        raise EmptyInputError("the body is empty")
    return private
