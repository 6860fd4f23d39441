"""Report everything that a bank holds about a person, for those with a right to access.

The whole log is read twice, without an index: first for records that name the person anywhere, then
for edges between these. Retired, quarantined and incomplete records are included.
"""

import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal, Protocol
from unicodedata import category

import msgspec
from msgspec.structs import replace

from satchel.bank.machine_keys import require_owner
from satchel.bank.open_bank import OpenBank
from satchel.config.options import (
    NOT_FOR_MODELS,
    OnProgress,
    OutputOptions,
    PathOptions,
    PathPermission,
    file_to_write,
)
from satchel.errors import UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Edge, Erasure, Model, Source, Status
from satchel.model.values import now
from satchel.ports.operations import Option, operation, texts
from satchel.ports.rows import PENDING, Filter
from satchel.stores.text_search import Mentions

Write = Callable[[str], object]
"""Receives text in parts."""


class StatusEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A later status of a record."""

    place: int
    at: str
    state: str
    by: str | None = None
    reason: str | None = None
    actor: str | None = None


class ImportOrigin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The import of a record."""

    place: int
    provider: str
    format: str
    digest: str | None = None
    trust: str | None = None


class RecordReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record with its history and source."""

    place: int
    """Position in the log of the bank."""

    id: str
    type: str
    state: str
    """``current``, its final state, or ``arriving`` for a part of an incomplete import."""

    arrived: str
    """Time in UTC."""

    held: bool = False
    """Whether it is quarantined."""

    named_in: list[str] = []
    """JSON pointers to the names; none for an edge to a record with names."""

    ends: dict[str, str] = {}
    """Of an edge: short descriptions of its ends."""

    came_with: ImportOrigin | None = None
    said_of_it: list[StatusEntry] = []
    record: dict[str, Any]


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An erased record."""

    id: str
    place: int | None = None
    """None for one that was erased elsewhere before it was imported here."""

    type: str | None = None
    erased_at: str
    reason: str | None = None
    by: str | None = None


class ReportWriter(Protocol):
    """A report that is written while the log is read."""

    def begin(self, facts: dict[str, Any]) -> None:
        """Write the header: the names and the bank."""
        ...

    def add_record(self, record: RecordReport) -> None:
        """Add a record."""
        ...

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Add an erased record, after all other records."""
        ...

    def end(self, facts: dict[str, Any]) -> None:
        """Write the counts."""
        ...


class MarkdownReport:
    """A report in Markdown."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._records = 0
        self._tombstones = 0

    def begin(self, facts: dict[str, Any]) -> None:
        """Write the header: the names and the bank."""
        self._write("# Everything that a memory bank holds about a person\n")
        self._block(facts.items())
        self._write("\n## Records\n")

    def add_record(self, report: RecordReport) -> None:
        """Add a record."""
        self._records += 1
        held = ", in quarantine" if report.held else ""
        self._write(f"\n### {self._records}. {report.type}, {report.state}{held}\n")
        facts = msgspec.to_builtins(report)
        members = facts.pop("record")
        names = ("place", "id", "arrived", "named_in", "ends", "came_with", "said_of_it")
        about = [(name.replace("_", " "), facts[name]) for name in names if facts.get(name)]
        own = [
            (name, part) for name, part in members.items() if name not in ("id", "nonce", "type")
        ]
        self._block([*about, ("", None), *own])

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Add an erased record."""
        if not self._tombstones:
            self._write(
                "\n## Erased\n\nOnly the log position of these records remains. Whether "
                "they were about this person can no longer be determined.\n\n"
            )
        self._tombstones += 1
        facts = msgspec.to_builtins(tombstone)
        self._write(f"    {'; '.join(f'{name} {_shown(part)}' for name, part in facts.items())}\n")

    def end(self, facts: dict[str, Any]) -> None:
        """Write the counts."""
        if not self._records:
            self._write("\nNone.\n")
        self._write("\n## In all\n")
        self._block(facts.items())

    def _block(self, facts: Iterable[tuple[str, Any]]) -> None:
        self._write("\n")
        for name, part in facts:
            first, *more = _lines(part)
            self._write(f"    {_shown(name)}: {first}\n" if name else "    \n")
            for line in more:
                self._write(f"      {line}\n")


class JsonReport:
    """A report as one JSON object."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._records = 0
        self._tombstones = 0

    def begin(self, facts: dict[str, Any]) -> None:
        """Write the header: the names and the bank."""
        self._write(f'{{"asked":{_as_json(facts)},\n"records":[')

    def add_record(self, report: RecordReport) -> None:
        """Add a record."""
        self._write(f"{',' if self._records else ''}\n{_as_json(msgspec.to_builtins(report))}")
        self._records += 1

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Add an erased record."""
        before = "," if self._tombstones else '],\n"erased":['
        self._write(f"{before}\n{_as_json(msgspec.to_builtins(tombstone))}")
        self._tombstones += 1

    def end(self, facts: dict[str, Any]) -> None:
        """Write the counts."""
        before = "" if self._tombstones else '],\n"erased":['
        self._write(f'{before}],\n"in_all":{_as_json(facts)}}}\n')


def _lines(part: Any) -> list[str]:
    """Return a value as lines of text."""
    if isinstance(part, str):
        return [_shown(line) for line in part.split("\n")]
    if isinstance(part, list) and part and all(isinstance(item, dict) for item in part):
        return ["", *(_as_json(item) for item in part)]
    return ["" if part is None else _as_json(part)]


def _shown(text: object) -> str:
    """Return text with invisible characters escaped."""
    content = str(text)
    if content.isprintable():
        return content
    return "".join(
        character if _is_seen(character) else character.encode("unicode_escape").decode()
        for character in content
    )


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(
        character if _is_seen(character) else json.dumps(character)[1:-1] for character in text
    )


def _is_seen(character: str) -> bool:
    return character.isprintable() or category(character) == "Zs"


_ERASURES = Filter(types=frozenset({"erasure"}), retired=True, held=True)
_TOGETHER = 256
_SHORT = 80
_MOST_SOURCES = 1_000

Progress = Callable[[int, int], None]
"""Called with the number of records read, and twice the total."""


class PersonReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts of a report."""

    bank: str
    asked: list[str]
    records: int
    """Number of reported records, including edges."""

    joining: int
    """Number of edges that do not name the person, but connect records that do."""

    erased: int
    """Number of erased records of the bank, about anyone."""

    blobs_not_searched: int
    """Number of blobs with contents of files, which are not read."""

    output: str | None = None
    """The written file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonReportOptions(PathOptions, OutputOptions):
    """The person to report about, and the output."""

    about: Annotated[
        str | Sequence[str],
        Option("Name, user ID or address. Repeatable: any of them counts.", metavar="NAME"),
    ]
    to: Annotated[Literal["markdown", "json"], Option("Format of the report.")] = "markdown"
    progress: OnProgress = None


@operation(
    PersonReportOptions,
    name="everything",
    example='satchel everything --about "Ada Lovelace" --about ada@example.com -o ada.md',
    absent={**NOT_FOR_MODELS, "http": "The report is a file on the machine of the store."},
)
def report_everything(
    bank: OpenBank, options: PersonReportOptions, *, permission: PathPermission | None = None
) -> PersonReport:
    """Report everything a bank holds about a person, in one private file.

    The whole log is read: memories, edges, turns of conversations, versions that were replaced or
    deleted, what is in quarantine, with where each came from; and what was erased, when and why.

    Args:
        bank: The bank.
        options: The person and the output.
        permission: Allowed paths; by default those of the options.

    Raises:
        UsageError: If there is no name, or an empty one.
        VerificationError: If the store is not what was signed.
        TargetError: If the file cannot be written.
    """
    require_owner(bank.settings, "everything")
    if options.output is None:
        raise UsageError("a report is written to a file", field="output")
    with (
        file_to_write(bank.settings, options.output, permission or options.permission) as outlet,
        outlet.writing(overwrite=options.overwrite) as stream,
    ):
        done = write_person_report(
            bank,
            texts(options.about),
            lambda text: stream.write(text.encode()),
            as_json=options.to == "json",
            progress=options.progress,
        )
    return replace(done, output=str(options.output))


def write_person_report(
    bank: OpenBank,
    names: Sequence[str],
    write: Write,
    *,
    as_json: bool = False,
    progress: Progress | None = None,
) -> PersonReport:
    """Write everything that a bank holds about a person, from one consistent view.

    Uses 16 bytes of memory for each record that names the person, and one for each other record.

    Args:
        bank: The bank.
        names: Names, user IDs and addresses of the person; any of them matches.
        write: Receives the report in parts.
        as_json: Write JSON instead of Markdown.
        progress: Called with the progress.

    Raises:
        UsageError: If there is no name, or an empty one.
        VerificationError: If the store is not what was signed; the report is incomplete then.
    """
    require_owner(bank.settings, "everything")
    mentions = Mentions(names)
    report: ReportWriter = JsonReport(write) if as_json else MarkdownReport(write)
    with bank.ledger.reading() as view, bank.store.reading() as reader:
        report.begin(_header(bank, view, names))
        matches = _PersonMatches(mentions, view.head.size)
        steps = _Steps(progress, 2 * view.head.size)
        for logged in _all(view, steps):
            matches.check(logged)
        matches.close()
        for logged in _all(view, steps):
            if matches.has(logged):
                report.add_record(matches.report_of(view, logged))
        erased = _add_tombstones(view, report)
        result = PersonReport(
            bank=bank.id,
            asked=list(names),
            records=matches.records,
            joining=matches.joining,
            erased=erased,
            blobs_not_searched=sum(1 for _ in reader.blobs.listed(bank.id)),
        )
    facts = msgspec.to_builtins(result)
    report.end({name.replace("_", " "): facts[name] for name in list(facts)[2:]})
    return result


def _header(bank: OpenBank, view: View, names: Sequence[str]) -> dict[str, Any]:
    head = view.head
    facts: dict[str, Any] = {"about": list(names), "bank": bank.name or "", "id": bank.id}
    facts |= {"log": f"{head.size} records under {head.root}", "signed": f"{head.at} by {head.key}"}
    facts |= {"written": now(), "looked for": "as words, anywhere in a record"}
    return {**facts, "notes": list(view.notes)} if view.notes else facts


class _Steps:
    """Counts records for the progress."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def one(self) -> None:
        """Count a record."""
        self._done += 1
        if self._progress is not None and self._done % _TOGETHER == 0:
            self._progress(self._done, self._total)


def _all(view: View, steps: _Steps) -> Iterator[VerifiedRecord]:
    """Yield the whole log, including records that are not visible yet."""
    for logged in view.scan():
        steps.one()
        yield logged
    for source in view.open_imports():
        for logged in view.pending(source):
            steps.one()
            yield logged


class _PersonMatches:
    """Records that name the person, by position and ID, with their imports."""

    def __init__(self, mentions: Mentions, size: int) -> None:
        self.records = 0
        self.joining = 0
        self._mentions = mentions
        self._matched = bytearray(size)
        self._ids: Sequence[int] = array("Q")
        self._sources = dict[int, VerifiedRecord]()

    def check(self, logged: VerifiedRecord) -> None:
        """Add a record if it names the person."""
        if self._mentions.places_in(_spoken(logged)):
            self._matched[logged.seq] = 1
            assert isinstance(self._ids, array)  # noqa: S101 - until it is closed
            self._ids.append(_short(logged.record.id))

    def close(self) -> None:
        """Sort the IDs for lookups."""
        self._ids = array("Q", sorted(self._ids))

    def has(self, logged: VerifiedRecord) -> bool:
        """Return whether a record names the person, or is an edge to one that does."""
        if self._matched[logged.seq]:
            self.records += 1
            return True
        model = logged.model
        if isinstance(model, Edge) and (
            self._includes(model.source) or self._includes(model.target)
        ):
            self.records += 1
            self.joining += 1
            return True
        return False

    def report_of(self, view: View, logged: VerifiedRecord) -> RecordReport:
        """Return a record with its history and source."""
        row = logged.row
        source = self._source(view, row.batch) if row.batch else None
        statuses = view.statuses_of(row.id) + (view.statuses_of(source.record.id) if source else [])
        return RecordReport(
            place=row.seq,
            id=row.id,
            type=row.type,
            state=_state(view, logged),
            arrived=row.at,
            held=row.hold,
            named_in=self._mentions.places_in(_spoken(logged)),
            ends=_ends(view, logged.model),
            came_with=_arrival(source),
            said_of_it=[
                _status_entry(status) for status in sorted(statuses, key=lambda status: status.seq)
            ],
            record=logged.record.value,
        )

    def _includes(self, identity: str) -> bool:
        if not identity.startswith("blake3:"):
            return False
        try:
            key = _short(identity)
        except ValueError:
            return False
        at = bisect_left(self._ids, key)
        return at < len(self._ids) and self._ids[at] == key

    def _source(self, view: View, position: int) -> VerifiedRecord:
        if position not in self._sources:
            if len(self._sources) >= _MOST_SOURCES:
                self._sources.clear()
            self._sources |= view.log_records_at([position])
        return self._sources[position]


def _spoken(logged: VerifiedRecord) -> dict[str, Any]:
    """Return the content of a record without derived values."""
    own = ("id", "nonce", "type", "signatures")
    return {name: part for name, part in logged.record.value.items() if name not in own}


def _short(identity: str) -> int:
    """Return 64 bits of an ID; a collision could only add an edge to the report."""
    return int(identity[7:23], 16)


def _state(view: View, logged: VerifiedRecord) -> str:
    if logged.row.retired == PENDING:
        return "arriving"
    retirement = view.retirement(logged.row)
    return "current" if retirement is None else retirement.state


def _ends(view: View, model: Model) -> dict[str, str]:
    if not isinstance(model, Edge):
        return {}
    ends = {"source": model.source, "target": model.target}
    records = view.get([end for end in ends.values() if end.startswith("blake3:")])
    return {
        name: text[:_SHORT]
        for name, end in ends.items()
        if (logged := records.get(end)) is not None and (text := _name(logged.model))
    }


def _name(model: Model) -> str | None:
    """Return a short description of a record."""
    members = (getattr(model, name, None) for name in ("name", "text", "observation", "path"))
    return next((text for text in members if isinstance(text, str) and text), None)


def _status_entry(logged: VerifiedRecord) -> StatusEntry:
    model = logged.model
    assert isinstance(model, Status)  # noqa: S101 - the log folds no others
    return StatusEntry(
        place=logged.seq,
        at=logged.row.at,
        state=model.state,
        by=model.by,
        reason=model.reason,
        actor=model.actor,
    )


def _arrival(source: VerifiedRecord | None) -> ImportOrigin | None:
    if source is None or not isinstance(source.model, Source):
        return None
    model = source.model
    return ImportOrigin(
        place=source.seq,
        provider=model.provider,
        format=model.format,
        digest=model.digest,
        trust=model.trust,
    )


def _add_tombstones(view: View, report: ReportWriter) -> int:
    """Add all erased records, and return their number."""
    erasures, count = view.scan(_ERASURES), 0
    while batch := list(islice(erasures, _TOGETHER)):
        models = [(logged, logged.model) for logged in batch if isinstance(logged.model, Erasure)]
        positions = view.places([model.entry for _, model in models])
        types = {row.id: row.type for row in view.rows(list(positions.values()))}
        for logged, model in models:
            count += 1
            report.add_tombstone(
                Tombstone(
                    id=model.entry,
                    place=positions.get(model.entry),
                    type=types.get(model.entry),
                    erased_at=logged.row.at,
                    reason=model.reason,
                    by=model.by,
                )
            )
    return count
