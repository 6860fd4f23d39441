"""Looking into a file without changing anything: what it is, what it holds, whose it is."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from satchel.actions.config import Settings
from satchel.actions.paths.folders import input_to_read
from satchel.actions.verifying import VerifyOptions, verify
from satchel.disk.reading import OpenFile
from satchel.errors import EmptyInputError
from satchel.memory.entries import Entry
from satchel.memory.records import Model
from satchel.memory.times import now
from satchel.ports.format import Format, Reading
from satchel.ports.place import Place
from satchel.ports.registry import formats
from satchel.ports.report import Loss
from satchel.screen.records import screened
from satchel.seal.artifact.body import Progress
from satchel.seal.records import Sealed

_MOST = 20
_MAX_DISTINCT = 10_000


class Overview(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a file holds."""

    file: str
    format: str
    title: str
    bytes: int
    records: dict[str, int]
    """Records of each type."""

    users: dict[str, int] = {}
    """Entries of each owner, the twenty with most."""

    agents: dict[str, int] = {}
    runs: int = 0
    """How many runs or sessions entries name."""

    tags: dict[str, int] = {}
    kept_as_written: dict[str, int] = {}
    """Source fields that have no member of their own; kept, and written back to the same format."""

    earliest: str | None = None
    latest: str | None = None
    undated: int = 0
    expired: int = 0
    secrets: dict[str, int] = {}
    """Keys, tokens, passwords and cards in the records, of each kind; how many, never which."""

    container: dict[str, Any] = {}
    """Fields around the records, or the statement of a sealed file."""

    outcome: str | None = None
    """The verdict on a sealed file, without looking at every record."""

    notes: list[str] = []
    losses: list[Loss] = []
    """What an import of it would lose or ignore: files and lines that this format does not read."""


def inspect(
    path: Path | OpenFile,
    settings: Settings,
    source_format: str | None = None,
    *,
    on_progress: Progress | None = None,
) -> Overview:
    """Read a file and return what is in it.

    Args:
        path: The file.
        settings: Whose keys count, and the limits.
        source_format: The name of its format; None to recognise it.
        on_progress: Called with bytes done and bytes there are.

    Raises:
        PathRefusedError: If roots are set, and the file is not in them.
        InputError: If it cannot be read or is malformed.
        UnknownFormatError: If no format recognises it.
    """
    with input_to_read(settings, path) as file:
        return _inspected(file, settings, source_format, on_progress)


def _inspected(
    file: OpenFile, settings: Settings, source_format: str | None, on_progress: Progress | None
) -> Overview:
    place = Place(file.path, on_progress, held=file)
    name = source_format or formats.recognise(place)
    reader = formats[name]
    outcome = None
    if reader.info.traits.sealed:
        options = VerifyOptions(remember=False, on_progress=on_progress)
        outcome = verify(file, settings, options).outcome.value
    reading = Reading(limits=settings.options.limits)
    tally = _Tally()
    for model in _models(reader, place, reading):
        tally.add(model)
    if not tally.records:
        raise EmptyInputError("the file contains no memories", file=place.name)
    return Overview(
        file=place.name,
        format=name,
        title=reader.info.title,
        bytes=file.status.st_size,
        container=reading.container,
        outcome=outcome,
        notes=reading.report.notes,
        losses=list(reading.report.losses.values()),
        **tally.facts(),
    )


def _models(reader: Format, place: Place, reading: Reading) -> Iterator[Model]:
    for item in reader.read(place, reading):
        yield item.model if isinstance(item, Sealed) else item


class _Tally:
    """Counts, in bounded memory."""

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._tags: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        self._secrets: Counter[str] = Counter()
        self._runs: set[str] = set()
        self._earliest: str | None = None
        self._latest: str | None = None
        self._undated = 0
        self._expired = 0
        self._now = now()

    def add(self, model: Model) -> None:
        self.records[str(model.__struct_config__.tag)] += 1
        self._secrets.update(finding.kind for finding in screened(model))
        if isinstance(model, Entry):
            self._owner(model)
            self._when(model)
            _count(self._tags, model.tags)
            if model.origin is not None:
                _count(self._kept, model.origin.as_written)

    def _owner(self, entry: Entry) -> None:
        if entry.scope is None:
            return
        _count(self._users, [entry.scope.user] if entry.scope.user else [])
        _count(self._agents, [entry.scope.agent] if entry.scope.agent else [])
        if entry.scope.run and len(self._runs) < _MAX_DISTINCT:
            self._runs.add(entry.scope.run)

    def _when(self, entry: Entry) -> None:
        if entry.created_at is None:
            self._undated += 1
        else:
            self._earliest = min(self._earliest or entry.created_at, entry.created_at)
            self._latest = max(self._latest or entry.created_at, entry.created_at)
        self._expired += entry.expires_at is not None and entry.expires_at < self._now

    def facts(self) -> dict[str, Any]:
        return {
            "records": dict(self.records),
            "users": dict(self._users.most_common(_MOST)),
            "agents": dict(self._agents.most_common(_MOST)),
            "runs": len(self._runs),
            "tags": dict(self._tags.most_common(_MOST)),
            "kept_as_written": dict(self._kept.most_common(_MOST)),
            "earliest": self._earliest,
            "latest": self._latest,
            "undated": self._undated,
            "expired": self._expired,
            "secrets": dict(self._secrets.most_common()),
        }


def _count(counter: Counter[str], names: Any) -> None:
    for name in names:
        if name in counter or len(counter) < _MAX_DISTINCT:
            counter[name] += 1
