"""Read AMA archives from a program: the header, and the memories one by one."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from satchel.config.options import PathPermission, file_to_read
from satchel.config.settings import load_settings
from satchel.crypto.canonical import decode_foreign
from satchel.errors import InputError
from satchel.formats._ama import AmaArchive, AmaHeader, Row, entry_of
from satchel.ports.format import Location
from satchel.runtime.files import Closable

__all__ = ["AmaHeader", "AmaMemories", "AmaMemory", "iter_ama_memories", "read_ama_header"]

Roots = Sequence[str | Path] | None
"""Folders that a path must be in."""


class AmaMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an archive, as written; a null member counts as absent."""

    id: str
    text: str
    fact_type: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    occurred_at: str | None = None
    created_at: str | None = None
    source: str | None = None
    entities: list[dict[str, Any]] | None = None
    embedding: list[float] | None = None
    bank_id: str | None = None
    extra: dict[str, Any] = {}
    """Members that Astrocyte does not define."""


_MEMBERS = frozenset(AmaMemory.__struct_fields__) - {"extra"}


class AmaMemories(Closable):
    """Iterator over the memories of an archive, in constant memory.

    The file is closed at its end, at the end of a ``with`` block, or by ``close``. A malformed line
    raises its error; the next call of ``next`` continues with the line after it. At the end of the
    file, the number of lines is compared with the count in the header.
    """

    def __init__(self, path: str | Path, permission: PathPermission) -> None:
        self._stack = ExitStack()
        self._name = str(path)
        settings = load_settings()
        try:
            file = self._stack.enter_context(file_to_read(settings, path, permission))
            stream = self._stack.enter_context(Location(file.path, held=file).open())
            self._archive: AmaArchive | None = AmaArchive(
                stream, self._name, settings.options.limits
            )
        except BaseException:
            self._stack.close()
            raise
        self.header: AmaHeader = self._archive.header
        """The first line."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AmaMemory:
        """Return the next memory.

        Raises:
            MalformedError: If the line is not a memory; at the end, if the count is wrong.
            LimitError: If the line is too long.
        """
        archive = self._archive
        row = None if archive is None else archive.read()
        if archive is None or row is None:
            self.close()
            problem = archive.count_problem() if archive is not None else None
            raise problem or StopIteration
        try:
            return _memory(row, self.header.bank_id)
        except InputError as error:
            raise error.located(file=self._name, line=archive.line) from None

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._archive = None
        self._stack.close()

    def __del__(self) -> None:
        if hasattr(self, "_stack"):
            self.close()


def read_ama_header(
    path: str | Path, *, allowed_roots: Roots = None, allow_uncontained: bool = False
) -> AmaHeader:
    """Return the first line of an archive.

    Args:
        path: The file; plain or gzip.
        allowed_roots: Folders that it must be in.
        allow_uncontained: Whether the path may be anywhere, as the caller chose it.

    Raises:
        PathRefusedError: If the path may not be read. The file is not opened then.
        InputError: If the file cannot be read, or is not an archive.
    """
    memories = iter_ama_memories(
        path, allowed_roots=allowed_roots, allow_uncontained=allow_uncontained
    )
    with memories:
        return memories.header


def iter_ama_memories(
    path: str | Path, *, allowed_roots: Roots = None, allow_uncontained: bool = False
) -> AmaMemories:
    """Return an iterator over the memories of an archive, for a single pass.

    Args and Raises: as ``read_ama_header``. Errors in later lines are raised by the iteration.
    """
    permission = PathPermission(allowed_roots=allowed_roots, allow_uncontained=allow_uncontained)
    return AmaMemories(path, permission)


def _memory(row: Row, bank: str) -> AmaMemory:
    entry_of(row, bank)  # refuses what has the wrong type
    value = decode_foreign(row)
    known = {name: part for name, part in value.items() if name in _MEMBERS}
    extra = {name: part for name, part in value.items() if name not in _MEMBERS}
    return AmaMemory(**known, extra=extra)
