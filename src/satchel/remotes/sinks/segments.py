"""A sink of files: each holds a stretch of a bank's log and is named after it.

``BANK/FIRST-LAST-ID.jsonl``: the last name says how far the sink is, so there is nothing besides
that could disagree. A file is there whole or not at all, and is never changed.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from satchel.disk.private import private_folder
from satchel.disk.writing import PRIVATE_FILE, target_error, writing
from satchel.errors import TargetError, UsageError
from satchel.ports.outward.sink import COLUMNS, SCHEMA_VERSION, Position, SinkRow

_DIGITS, _ID_DIGITS = 15, 16
_PREFIX = "blake3:"
_NAME = re.compile(r"^(\d{15})-(\d{15})-([0-9a-f]{16})\.v(\d+)\.(jsonl|parquet)$")
_INTEGERS = frozenset({"seq", "batch"})

Encode = Callable[[Sequence[SinkRow]], bytes]
"""Gives the content of a file."""


class Files(Protocol):
    """Where files are put."""

    name: str

    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names of the files in a folder."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Put a file; it is there whole and durable when this returns."""
        ...


class SegmentSink:
    """Rows in files.

    Args:
        files: Where they are put.
        encode: Gives their content.
        ending: Of their names.
    """

    def __init__(self, files: Files, encode: Encode, ending: str) -> None:
        self.name = files.name
        self._files = files
        self._encode = encode
        self._ending = ending
        self._last: dict[str, Position] = {}

    def last(self, bank: str) -> Position | None:
        """Return the last row of a bank, from the names of the files."""
        if bank not in self._last:
            found = [match for name in self._files.listed(_folder(bank)) if (match := _of(name))]
            for match in found:
                if int(match[4]) != SCHEMA_VERSION:
                    what = f"the sink has column version {match[4]}"
                    raise TargetError(what, file=self.name)
            if found:
                newest = max(found, key=lambda match: int(match[2]))
                self._last[bank] = Position(int(newest[2]), _PREFIX + newest[3])
        return self._last.get(bank)

    def write(self, bank: str, rows: Sequence[SinkRow]) -> None:
        """Put a file with the rows."""
        if not rows:
            return
        digits = rows[-1].id.removeprefix(_PREFIX)[:_ID_DIGITS]
        stretch = f"{rows[0].seq:0{_DIGITS}d}-{rows[-1].seq:0{_DIGITS}d}-{digits}"
        path = f"{_folder(bank)}/{stretch}.v{SCHEMA_VERSION}.{self._ending}"
        self._files.put(path, self._encode(rows))
        self._last[bank] = Position(rows[-1].seq, _PREFIX + digits)

    def close(self) -> None:
        """Nothing is held."""


def _of(name: str) -> "re.Match[str] | None":
    return _NAME.match(name)


def _folder(bank: str) -> str:
    # The id's digits alone: no name of a bank becomes a path.
    return bank.removeprefix(_PREFIX)


class LocalFiles:
    """Files in a folder of this machine.

    Args:
        folder: The folder; made, for its owner only, when it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names in a folder."""
        try:
            yield from [found.name for found in (self._folder / folder).iterdir()]
        except FileNotFoundError:
            return
        except OSError as error:
            raise target_error(self._folder / folder, error) from error

    def put(self, path: str, data: bytes) -> None:
        """Write a file atomically."""
        target = self._folder / path
        if not self._folder.exists():
            private_folder(self._folder)
        private_folder(target.parent)
        with writing(target, mode=PRIVATE_FILE) as stream:
            stream.write(data)


class ObjectFiles:
    """Objects in object storage.

    Args:
        address: ``s3://BUCKET/PREFIX``, ``gs://``, ``az://``, or ``memory://`` to try it. Who may
            write is told by the environment, as that storage's own tools have it.

    Raises:
        UsageError: If the driver is not installed, or the address cannot be meant.
    """

    def __init__(self, address: str) -> None:
        try:
            import obstore
            from obstore.exceptions import BaseError
            from obstore.store import MemoryStore, from_url
        except ImportError:
            raise UsageError(
                "a sink in object storage needs an extra",
                hint="Install it: pip install 'satchel[objectstore]'",
            ) from None
        self.name = address.partition("?")[0]
        self._obstore: Any = obstore
        self._error = BaseError
        try:
            is_memory = address.startswith("memory:")
            self._store: Any = MemoryStore() if is_memory else from_url(address)
        except (BaseError, ValueError) as error:
            raise UsageError(f"not an object storage address: {error}", field="target") from None

    def listed(self, folder: str) -> Iterator[str]:
        """Yield the names of the objects under a prefix."""
        try:
            for some in self._obstore.list(self._store, prefix=f"{folder}/"):
                for found in some:
                    yield found["path"].rpartition("/")[2]
        except self._error as error:
            raise self._failed(error) from error

    def put(self, path: str, data: bytes) -> None:
        """Put an object, which is whole or not there."""
        try:
            self._obstore.put(self._store, path, data)
        except self._error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> TargetError:
        what = (str(error).splitlines() or ["no reason given"])[0]
        return TargetError(f"object storage error: {what}", file=self.name)


def as_jsonl(rows: Sequence[SinkRow]) -> bytes:
    """Return rows as JSON lines; a column without a value is left out."""
    lines = (
        {name: value for name, value in msgspec.structs.asdict(row).items() if value is not None}
        for row in rows
    )
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for line in lines
    )


def as_parquet(rows: Sequence[SinkRow]) -> bytes:
    """Return rows as a Parquet file; its metadata says ``satchel.schema``.

    Raises:
        UsageError: If what writes Parquet is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "a sink of Parquet files needs an extra",
            hint="Install it: pip install 'satchel[parquet]'",
        ) from None
    fields = [(name, pa.int64() if name in _INTEGERS else pa.string()) for name in COLUMNS]
    schema = pa.schema(fields, metadata={"satchel.schema": str(SCHEMA_VERSION)})
    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    held = io.BytesIO()
    parquet.write_table(pa.table(columns, schema=schema), held)
    return held.getvalue()
