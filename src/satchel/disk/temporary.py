"""Private files of the moment, gone whatever happens."""

import tempfile
from pathlib import Path, PurePosixPath
from typing import Self

_NAME = "body"
_LONGEST_SUFFIX = 32


class Private:
    """A folder that only this process can read, with a file in it. A context manager.

    Args:
        name: What somebody called the file; only what its suffix says is kept of it.
    """

    def __init__(self, name: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="satchel-")
        self.folder = Path(self._folder.name)
        suffix = "".join(PurePosixPath(name).suffixes)[-_LONGEST_SUFFIX:]
        plain = suffix.isascii() and suffix.replace(".", "").replace("_", "").isalnum()
        self.file = self.folder / (_NAME + (suffix if plain else ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove it, with what is in it."""
        self._folder.cleanup()
