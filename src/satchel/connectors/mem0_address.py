"""Where a local Mem0 is, as a person writes it."""

import re
from dataclasses import dataclass
from pathlib import Path

from satchel.connectors._qdrant import QdrantFolder
from satchel.connectors.address import Kind
from satchel.errors import UnreadableError, UsageError

SCHEME = "mem0:"

USUAL = "mem0"
"""The collection that Mem0 makes when it is not told another."""

_KIND = Kind(
    SCHEME,
    "Mem0 store",
    frozenset({"collection", "history", "dimensions"}),
    "mem0:///path/to/folder?collection=NAME&history=FILE",
)
_MOST_DIMENSIONS = 65_536
_OTHERS = re.compile("_entities$|-entities$|^mem0migrations$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mem0Address:
    """Where a local Mem0 is.

    ``mem0:///path/to/folder?collection=NAME&history=FILE&dimensions=N``, or the path alone.
    """

    folder: Path
    """With Qdrant's files in it, or in ``qdrant`` in it."""

    collection: str | None = None
    history: Path | None = None
    dimensions: int | None = None
    """Of the vectors of a collection that is made."""

    @classmethod
    def read(cls, text: str) -> "Mem0Address":
        """Return the address that a person wrote.

        Raises:
            UsageError: If it is none.
        """
        folder, members = _KIND.read(text)
        return cls(
            folder=folder,
            collection=members.get("collection"),
            history=Path(members["history"]).expanduser() if members.get("history") else None,
            dimensions=_dimensions(members.get("dimensions")),
        )

    @property
    def qdrant(self) -> Path:
        """The folder with Qdrant's files."""
        if (self.folder / "meta.json").exists():
            return self.folder
        return self.folder / "qdrant"

    def found_history(self) -> Path | None:
        """Return the file with the history, where it is known or found."""
        if self.history is not None:
            return self.history
        near = (self.folder / "history.db", self.qdrant.parent / "history.db")
        return next((path for path in near if path.is_file()), None)


def _dimensions(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) <= _MOST_DIMENSIONS):
        raise UsageError(
            f"vectors must have 1 to {_MOST_DIMENSIONS} dimensions", field="dimensions"
        )
    return int(text)


def chosen(folder: QdrantFolder, address: Mem0Address, *, writes: bool) -> str:
    """Return the name of the collection that is meant."""
    names = sorted(name for name in folder.collections if not _OTHERS.search(name))
    wanted = address.collection
    if wanted is not None:
        if wanted not in folder.collections and not writes:
            raise UnreadableError(
                f"no collection named {wanted!r}",
                file=str(folder.path),
                hint=f"Choose from: {', '.join(names)}." if names else "None exist.",
            )
        return wanted
    if USUAL in names or not names:
        return USUAL
    if len(names) > 1:
        raise UsageError(
            f"several collections exist: {', '.join(names)}",
            file=str(folder.path),
            hint=f"Choose one: mem0:///folder?collection={names[0]}",
        )
    return names[0]
