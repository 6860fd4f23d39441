"""Export of a bank's current memory: the selection, the records, the options and the result.

One verified pass over the bank. Records that refer to others (edges, promotions, sources) are
buffered on disk until it is known whether those are included. A parent that is not included becomes
a withheld item with the proof that it was logged, so that the recipient can verify the rest.
Source: docs/spec/3-artifact.md, docs/spec/7-disclosure-redaction-erasure.md.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec
from msgspec import structs

from satchel.artifact.body import FileScope, SourceAgent
from satchel.artifact.encodings import ArtifactBuilder
from satchel.crypto.encryption import NOBODY, Lock
from satchel.crypto.keys import ENDING, SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Config, Edge, Entry, FileVersion, Redaction, Status
from satchel.model.values import ID_PREFIX, Component, is_id, now, read_time
from satchel.ports.format import Format
from satchel.ports.record_set import Loss, Report
from satchel.ports.rows import Filter
from satchel.receipts.receipt import ReceiptBody, TransferPlan
from satchel.runtime.scratch import Scratch, Spool
from satchel.screening.records import SecretScreener
from satchel.transfer.folders import connector_for
from satchel.transfer.outputs import chosen_format

_TOGETHER = 256
_BESIDE_ENTRIES = frozenset({"graph_node", "session_event", "file_version"})


class MemorySelection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memory to export; a member that is not set selects all.

    Memories that are not current or are quarantined are never selected. Expired memories are, with
    their expiry, which the recipient can apply.
    """

    components: tuple[str, ...] = ()
    """Any of these."""

    tags: tuple[str, ...] = ()
    """Any of these."""

    since: str | None = None
    """First moment, inclusive, of the event or else the creation."""

    until: str | None = None
    """Last moment, exclusive."""

    owner: str | None = None
    """The user that owns it, or the agent if there is no user."""

    as_of: int | None = None
    """State of the bank when its log had this many records."""

    ids: tuple[str, ...] = ()
    """Full IDs of memories, sorted; only these are selected."""

    @property
    def is_whole(self) -> bool:
        """Whether all current memory is selected."""
        return self == WHOLE

    def wants(self, logged: VerifiedRecord) -> bool:
        """Return whether a record is selected; edges depend on their ends."""
        model, row = logged.model, logged.row
        if isinstance(model, Entry):
            if self.ids and not self._has(row.id):
                return False
            if self.components and row.type not in self.components:
                return False
            if self.tags and not set(self.tags) & set(model.tags):
                return False
        elif row.type not in _BESIDE_ENTRIES or self.components or self.tags or self.ids:
            return False
        if self.owner is not None and (row.agent if row.user is None else row.user) != self.owner:
            return False
        if self.since is not None and (row.moment is None or row.moment < self.since):
            return False
        return self.until is None or (row.moment is not None and row.moment < self.until)

    def _has(self, identity: str) -> bool:
        at = bisect_left(self.ids, identity)
        return at < len(self.ids) and self.ids[at] == identity


WHOLE = MemorySelection()
"""All current memory."""


class ExportedIds(Scratch):
    """IDs of the exported records, and of the parents that they name; on disk when many.

    SQLite's temporary database keeps small sets in memory and spills large ones by itself.
    """

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE chosen(id BLOB PRIMARY KEY) WITHOUT ROWID;"
            "CREATE TABLE parent(id BLOB PRIMARY KEY) WITHOUT ROWID;",
            cache_kib=4096,
        )

    def add(self, identity: str, parents: Iterable[str] = ()) -> None:
        """Add a record and the parents that it names."""
        self._db.execute("INSERT OR IGNORE INTO chosen VALUES (?)", [_raw(identity)])
        for parent in parents:
            self._db.execute("INSERT OR IGNORE INTO parent VALUES (?)", [_raw(parent)])

    def __contains__(self, identity: object) -> bool:
        raw = _raw(str(identity))
        return self._scalar("SELECT 1 FROM chosen WHERE id = ?", [raw]) is not None

    def absent_parents(self) -> Iterator[list[str]]:
        """Yield the IDs of parents that are not exported, in batches."""
        last: Any = b""
        sql = (
            "SELECT id FROM parent WHERE id > ? AND NOT EXISTS"
            " (SELECT 1 FROM chosen WHERE chosen.id = parent.id) ORDER BY id LIMIT ?"
        )
        while rows := self._db.execute(sql, [last, _TOGETHER]).fetchall():
            last = rows[-1][0]
            yield [f"blake3:{raw.hex()}" for (raw,) in rows]

    def _scalar(self, sql: str, values: list[Any]) -> Any:
        return self._db.execute(sql, values).fetchone()


def _raw(identity: str) -> bytes:
    try:
        return bytes.fromhex(identity.removeprefix(ID_PREFIX))
    except ValueError:  # an end of an edge may be any text
        return identity.encode("utf-8", "surrogatepass")


Progress = Callable[[int, int, str | None], None]
"""Called with the number of records done, the total, and the ID of the last one."""


class RecordSelector(Protocol):
    """Selects memory."""

    @property
    def as_of(self) -> int | None:
        """State of the bank when its log had this many records; None for the current one."""
        ...

    def wants(self, logged: VerifiedRecord) -> bool:
        """Return whether a record is selected."""
        ...


_ABOUT_THE_LOG = frozenset({"bank", "config"})
"""Records that show, in a sealed file, who owns the log and may sign its head."""

_TELL_EVERY = 1000
_EXAMPLES = 3


@dataclass(slots=True)
class ExportCounts:
    """Counts of an export from a bank."""

    entries: int = 0
    others: int = 0
    """Nodes, session events and file versions."""

    expired: int = 0
    """Expired entries."""

    edges_left: int = 0
    """Edges with an end that is not exported."""

    withheld: int = 0
    """Parents that are in the log, but not exported."""

    absent: int = 0
    """Parents that are not in the bank."""

    absent_examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportDestination:
    """Destination of the records of an export."""

    builder: ArtifactBuilder
    """Receives the records."""

    report: Report
    """Counts what cannot be exported."""

    sealed: bool
    """Whether an artifact is written, with the log's keys and proofs of withheld records."""

    screening: SecretScreener = field(default_factory=SecretScreener)
    """Screens each record."""


def collect_records(
    view: View,
    selector: RecordSelector,
    outgoing: ExportDestination,
    progress: Progress | None = None,
) -> ExportCounts:
    """Add the selected memory to a builder, in log order.

    Args:
        view: Of the bank.
        selector: The selection.
        outgoing: The destination.
        progress: Called with the progress.

    Raises:
        VerificationError: If a record is not what was logged, or is hidden.
    """
    with ExportedIds() as chosen:
        collector = _RecordCollector(view, selector, outgoing, chosen)
        try:
            end = view.head.size if selector.as_of is None else min(selector.as_of, view.head.size)
            for number, logged in enumerate(view.scan(Filter(as_of=selector.as_of))):
                collector.consider(logged)
                if progress is not None and number % _TELL_EVERY == 0:
                    progress(logged.seq, end, logged.record.id)
            if progress is not None:
                progress(end, end, None)
            collector.add_pending()
            if outgoing.sealed:
                collector.withhold()
                collector.prove_redactions()
        finally:
            collector.close()
    return collector.found


class _RecordCollector:
    """One pass over a bank."""

    def __init__(
        self, view: View, selector: RecordSelector, outgoing: ExportDestination, chosen: ExportedIds
    ) -> None:
        self.found = ExportCounts()
        self._view = view
        self._selector = selector
        self._builder = outgoing.builder
        self._report = outgoing.report
        self._chosen = chosen
        self._sealed = outgoing.sealed
        self._screening = outgoing.screening
        self._waiting = Spool()
        self._sources: dict[str, int] = {}
        self._batches: set[int] = set()
        self._endings: list[str] = []
        self._forms: set[str] = set()
        """IDs of exported redacted memories."""

        self._redacted: dict[str, None] = {}
        """IDs of exported redactions and of what they redact."""

        self._now = now()

    def consider(self, logged: VerifiedRecord) -> None:
        """Add a record, buffer it, or skip it."""
        record, model = logged.record, logged.model
        if isinstance(model, Edge) or record.type == "source" or _promotes(model):
            self._waiting.write(record.body + b"\n")
            if record.type == "source":
                self._sources[record.id] = logged.seq
        elif isinstance(model, Redaction):
            if self._view.redaction(model.entry) is not None:
                self._waiting.write(record.body + b"\n")
        elif record.type in _ABOUT_THE_LOG:
            if self._sealed:
                self._builder.add(record)
                if isinstance(model, Config) and model.action in ENDING:
                    self._endings.append(record.id)
        elif self._selector.wants(logged):
            self._add(logged)

    def add_pending(self) -> None:
        """Add the buffered records whose references were added."""
        for line in self._waiting.lines():
            value = msgspec.json.decode(line)
            record = Sealed(value["id"], value["type"], line.removesuffix(b"\n"))
            if record.type == "source":
                goes = self._sources[record.id] in self._batches
            elif record.type == "edge":
                goes = self._joins(value)
                if not goes and not self._sealed:
                    followed = self._followed(record, value)
                    goes, record = followed is not None, followed or record
                self.found.edges_left += not goes
            elif record.type == "redaction":
                goes = value["entry"] in self._forms
                if goes and self._sealed:
                    self._redacted |= {record.id: None, value["entry"]: None}
            else:
                goes = value["target"] in self._chosen
            if goes:
                self._builder.add(record)

    def prove_redactions(self) -> None:
        """Add proofs that the redactions are in the log; without them no redacted form is valid.

        Proofs of the records that ended keys are included: they show which signatures were made
        before.
        """
        ids = [*self._redacted, *self._endings] if self._redacted else []
        for start in range(0, len(ids), _TOGETHER):
            for proof in self._view.proofs(ids[start : start + _TOGETHER]).values():
                self._builder.add_item("proofs", msgspec.to_builtins(proof))

    def withhold(self) -> None:
        """Add a proof that it was logged for each parent that is not exported."""
        for ids in self._chosen.absent_parents():
            proofs = self._view.proofs(ids)
            for identity in ids:
                proof = proofs.get(identity)
                if proof is not None:
                    self._builder.add_item("withheld", msgspec.to_builtins(proof))
                    self.found.withheld += 1
                    continue
                self.found.absent += 1
                if len(self.found.absent_examples) < _EXAMPLES:
                    self.found.absent_examples.append(identity)

    def close(self) -> None:
        """Free the space on disk."""
        self._waiting.close()

    def _add(self, logged: VerifiedRecord) -> None:
        record, model = logged.record, logged.model
        screened = self._screening(model)
        changed = screened is not model
        self._builder.add(seal(screened, unknown=record.unknown) if changed else record)
        if logged.row.batch:
            self._batches.add(logged.row.batch)
        if isinstance(model, Entry):
            if model.nonce is None and not changed:
                self._forms.add(record.id)
            self.found.entries += 1
            self._chosen.add(record.id, model.parent_ids)
            self.found.expired += model.expires_at is not None and model.expires_at <= self._now
            return
        self.found.others += 1
        self._chosen.add(record.id)
        if isinstance(model, FileVersion) and model.blob is not None:
            self._report.lost("blob", "bytes outside the log are not exported", example=record.id)

    def _joins(self, edge: dict[str, Any]) -> bool:
        """Return whether both ends of an edge are exported; a name that is not an ID is always."""
        ends = [edge["source"], edge["target"]]
        exported = [end in self._chosen for end in ends]
        return any(exported) and all(
            is_exported or not is_id(end) for end, is_exported in zip(ends, exported, strict=True)
        )

    def _followed(self, record: Sealed, edge: dict[str, Any]) -> Sealed | None:
        """Return an edge between the successors of its ends; None if there is none."""
        ends = {side: self._successor(edge[side]) for side in ("source", "target")}
        if ends["source"] == ends["target"] or not self._joins(ends):
            return None
        found = structs.replace(cast("Edge", record.model), id=None, nonce=None, **ends)
        return seal(found, unknown=record.unknown)

    def _successor(self, end: str) -> str:
        if end in self._chosen or not is_id(end):
            return end
        return next((one for one in self._view.versions(end) if one in self._chosen), end)


def _promotes(model: Any) -> bool:
    return isinstance(model, Status) and model.state == "promoted"


def scope_of(selection: MemorySelection) -> FileScope:
    """Return the scope that a statement has for a selection."""
    if selection.is_whole:
        return FileScope(kind="full")
    return FileScope(kind="filter", filter=msgspec.json.decode(msgspec.json.encode(selection)))


def head_members(view: View) -> dict[str, Any]:
    """Return the members of a statement that describe the log."""
    return {"bank": view.head.bank, "head": msgspec.json.decode(view.signed)}


OTHERWISE = "pam"
"""Format of a file whose suffix is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """Options of an export."""

    format: str | None = None
    """By the output's name by default, otherwise ``OTHERWISE``."""

    selection: MemorySelection = WHOLE
    key: SigningKey | None = None
    """Signs an artifact; None writes it unsigned."""

    lock: Lock = NOBODY
    """Recipients that the file is encrypted to; none means unencrypted."""

    overwrite: bool = False
    fail_on_loss: bool = False
    scrub_secrets: bool = False
    """Replace secrets with placeholders; otherwise they are only counted."""

    entities: bool = True
    """Include entities, in formats where they are optional."""

    embeddings: bool = False
    """Include the bank's vectors and those that came with memories, if the format has them."""

    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost; ``all`` for any."""

    receipt: Path | None = None
    """File for a copy of the receipt; it must not exist."""

    sidecar: bool = False
    """Write what the format cannot hold to a file next to the output."""

    keeps_receipt: bool = True
    """False for a step of a larger transfer, which has its own receipt."""

    dry_run: bool = False
    """Report what would be written and lost, and write nothing."""

    source_agent: SourceAgent | None = None
    progress: Progress | None = None


class Export(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of an export: records read, written, read back and lost."""

    bank: str
    name: str | None = None
    epoch: int
    size: int
    """Number of records in the bank's log when it was read."""

    root: str
    selection: MemorySelection
    output: str
    format: str
    records: dict[str, int]
    """Number of objects in each section, as read from the bank."""

    entries: int
    losses: list[Loss]
    notes: list[str]
    secrets: dict[str, int] = {}
    """Number of likely keys, tokens, passwords and card numbers, by kind."""

    secrets_kept: int = 0
    """How many of them were exported unchanged."""

    dry_run: bool = False
    written: int | None = None
    """Memories that a live product stored; None for a file."""

    known: int | None = None
    """Memories that it already had, with the same content."""

    output_digest: str | None = None
    output_bytes: int | None = None
    sidecar: str | None = None
    """The file next to the output that holds what its format cannot."""

    signed_by: str | None = None
    read_back: str | None = None
    """Outcome of the verification of a sealed output, read back from the disk."""

    plan: TransferPlan | None = None
    """What would be done; of a dry run only."""

    receipt: str | None = None
    """ID of the receipt; ``satchel receipt show`` prints it."""

    receipt_problem: str | None = None
    """Why this machine could not store the receipt; the output is complete all the same."""

    account: ReceiptBody | None = None
    """Body of the receipt."""

    unaccepted: int = 0
    """Number of values lost, or that would be lost, without being accepted."""

    @property
    def lost(self) -> int:
        """Number of values that were lost."""
        return sum(loss.count for loss in self.losses)


def export_format(output: Path, name: str | None) -> tuple[str, Format]:
    """Return the format of an export: by its name, else by suffix, else an artifact.

    Raises:
        UsageError: If the format cannot be written.
    """
    return chosen_format(output, name, otherwise=OTHERWISE)


def is_signed(output: Path, name: str | None) -> bool:
    """Return whether an export is signed by default.

    Raises:
        UsageError: If the format cannot be written.
    """
    if connector_for(str(output), name) is not None:
        return False
    return export_format(output, name)[1].info.traits.sealed


def selection(  # noqa: PLR0913 - each filter on its own
    *,
    components: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
    since: str | None = None,
    until: str | None = None,
    owner: str | None = None,
    as_of: int | None = None,
    ids: tuple[str, ...] = (),
) -> MemorySelection:
    """Return the selection for the given filters.

    Args:
        components: Types of memory.
        tags: Tags; a memory needs one of them.
        since: First moment, as a date or time.
        until: Last moment, exclusive.
        owner: A user or an agent.
        as_of: Number of records in the log.
        ids: IDs of current memories, or prefixes of them.

    Raises:
        UsageError: If a type or time is invalid, or IDs are combined with ``as_of``.
    """
    unknown = sorted(set(components) - set(Component))
    if unknown:
        raise UsageError(
            f"unknown type {unknown[0]!r}",
            field="component",
            hint=f"Known: {', '.join(Component)}.",
        )
    if as_of is not None and as_of < 1:
        raise UsageError("the number of records must be at least 1", field="as_of")
    if as_of is not None and ids:
        raise UsageError("IDs select current memories only: drop as_of", field="as_of")
    return MemorySelection(
        components=tuple(sorted(set(components))),
        tags=tuple(sorted(set(tags))),
        since=_moment(since, "since"),
        until=_moment(until, "until"),
        owner=owner,
        as_of=as_of,
        ids=tuple(sorted(set(ids))),
    )


def _moment(text: str | None, field: str) -> str | None:
    if text is None:
        return None
    moment = read_time(text)
    if moment is None:
        raise UsageError(
            f"{text!r} is not a date or time", field=field, hint="Write it as 2026-01-31."
        )
    return moment
