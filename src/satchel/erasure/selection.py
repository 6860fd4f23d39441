"""Options of erase, redact and prune, and the selection of records: by ID or by conditions."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from satchel.bank.memory import key_of
from satchel.config.options import SERVER, DryRun, OnProgress, SigningOptions, Texts
from satchel.errors import UnknownMemoryError, UsageError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.transaction import ERASABLE
from satchel.ledger.view import View
from satchel.model.records import Edge, Entry, FileVersion, Model, Semantic, SessionEvent, Source
from satchel.model.values import (
    ID_PREFIX,
    LEAST_DIGITS,
    id_digits,
    is_id,
    require_one,
)
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, Options, PathText
from satchel.runtime.scratch import Scratch
from satchel.screening.redaction import KINDS

_MOST_SHOWN = 5


def _member(path: str) -> Callable[[VerifiedRecord], Iterable[Any]]:
    """Return a function that reads one member of a record; None if it is missing."""
    names = path.split(".")

    def read(logged: VerifiedRecord) -> Iterable[Any]:
        value: Any = logged.model
        for name in names:
            value = getattr(value, name, None)
        return () if value is None else (value,)

    return read


def _tags(logged: VerifiedRecord) -> Iterable[Any]:
    return getattr(logged.model, "tags", ())


def _key(logged: VerifiedRecord) -> Iterable[Any]:
    key = key_of(logged.model) if isinstance(logged.model, Entry) else None
    return () if key is None else (key,)


CONDITIONS: dict[str, Callable[[VerifiedRecord], Iterable[Any]]] = {
    "user": _member("scope.user"),
    "agent": _member("scope.agent"),
    "run": _member("scope.run"),
    "app": _member("scope.app"),
    "session": _member("session"),
    "type": lambda logged: (logged.record.type,),
    "kind": _member("kind"),
    "tag": _tags,
    "key": _key,
    "actor": _member("actor"),
    "path": _member("path"),
    "provider": _member("origin.provider"),
    "account": _member("origin.source"),
    "origin": _member("origin.id"),
}
"""Readers of the members that conditions can use; ``import`` is read from the log."""

IMPORT = "import"


def conditions_of(expressions: Sequence[str]) -> dict[str, list[str]]:
    """Return conditions from texts ``NAME=VALUE``; a repeated name matches any of its values.

    Raises:
        UsageError: If one is malformed, or its name is unknown.
    """
    conditions = dict[str, list[str]]()
    for expression in expressions:
        name, equals, value = expression.partition("=")
        if not equals or not value or name not in {*CONDITIONS, IMPORT}:
            raise UsageError(
                f"not a condition: {expression[:80]!r}",
                field="where",
                hint=f"Write NAME=VALUE, with one of {', '.join([*CONDITIONS, IMPORT])}.",
            )
        conditions.setdefault(name, []).append(value)
    return conditions


class EraseSelection:
    """The selected records.

    Args:
        view: View of the bank.
        ids: IDs or prefixes.
        where: Conditions by name, all of which must match; each with alternative values.

    Raises:
        UsageError: If nothing is selected, an ID is ambiguous, or is not of a memory.
        UnknownMemoryError: If there is no such record.
    """

    def __init__(self, view: View, ids: Sequence[str], where: Mapping[str, Sequence[str]]) -> None:
        if not ids and not where:
            raise UsageError(
                "no memories to erase were named",
                field="id",
                hint="Pass IDs, or add --where user=NAME.",
            )
        self.ids = frozenset(_named(view, prefix) for prefix in ids)
        self._conditions = {name: frozenset(values) for name, values in where.items()}
        self._imports = self._conditions.pop(IMPORT, None)
        self._sources = dict[int, str | None]()
        self._view = view
        types = self._conditions.get("type", frozenset())
        if unknown := types - ERASABLE:
            raise UsageError(
                f"records of type {min(unknown)!r} are not erased",
                field="where",
                hint=f"Only these can be erased: {', '.join(sorted(ERASABLE))}.",
            )

    def takes(self, logged: VerifiedRecord) -> bool:
        """Return whether a record is selected."""
        if logged.record.id in self.ids:
            return True
        if not self._conditions and self._imports is None:
            return False
        if any(
            values.isdisjoint(CONDITIONS[name](logged)) for name, values in self._conditions.items()
        ):
            return False
        return self._imports is None or self._is_of_import(logged)

    def _is_of_import(self, logged: VerifiedRecord) -> bool:
        batch = logged.row.batch
        if batch not in self._sources:
            source = self._view.source_of(logged)
            is_source = source is not None and isinstance(source.model, Source)
            self._sources[batch] = source.record.id if is_source and source is not None else None
        identity = self._sources[batch]
        imports = self._imports or ()
        return identity is not None and any(
            identity.removeprefix(ID_PREFIX).startswith(prefix.removeprefix(ID_PREFIX))
            for prefix in imports
        )


def _named(view: View, name: str) -> str:
    """Return the full ID for an ID or prefix, also of erased records."""
    digits = id_digits(name)
    if digits is None:
        raise UsageError(
            f"not a record ID: {name[:80]!r}",
            field="id",
            hint=f"Pass the ID, or a prefix of at least {LEAST_DIGITS} digits.",
        )
    whole = ID_PREFIX + digits
    ids = [whole] if is_id(whole) else view.ids_with_prefix(digits, limit=_MOST_SHOWN)
    positions = view.places(ids)
    require_one(positions, name, "id")
    if not positions:
        raise UnknownMemoryError(
            f"there is no record {name[:80]!r} in this bank",
            field="id",
            hint="See: satchel list --all. To use another bank: --bank NAME.",
        )
    (row,) = view.rows(list(positions.values()))
    if row.type not in ERASABLE:
        raise UsageError(
            f"this is the ID of a {row.type} record, not of a memory",
            field="id",
            hint="The log could not be read without it.",
        )
    return row.id


_TOGETHER = 1_000
_DERIVES = "derives_from"


class EraseReason(StrEnum):
    """Why a record is erased."""

    CHOSEN = "chosen"
    VERSION = "version"
    """It superseded an erased record, or was superseded by one."""

    JOINS = "joins"
    """It is an edge to an erased record."""

    DERIVED = "derived"
    """It derives from an erased record, or is part of it."""


class DerivedRecords(Scratch):
    """The selected records and those that depend on them, in a temporary SQLite database."""

    def __init__(self) -> None:
        super().__init__(
            "CREATE TABLE record(id TEXT PRIMARY KEY, type TEXT) WITHOUT ROWID;"
            "CREATE TABLE link(end TEXT, id TEXT, why TEXT, PRIMARY KEY (end, id)) WITHOUT ROWID;"
            "CREATE TABLE gone(id TEXT PRIMARY KEY, why TEXT, depth INTEGER) WITHOUT ROWID;"
            "CREATE INDEX gone_depth ON gone(depth);",
            cache_kib=8192,
        )

    def add(self, model: Model) -> None:
        """Add an existing record, and what it depends on."""
        identity = model.id or ""
        type_ = str(model.__struct_config__.tag)
        self._db.execute("INSERT OR IGNORE INTO record VALUES (?, ?)", (identity, type_))
        links = [
            (end, dependent, why)
            for end, dependent, why in _links(model, identity)
            if end != dependent
        ]
        if links:
            self._db.executemany("INSERT OR IGNORE INTO link VALUES (?, ?, ?)", links)

    def choose(self, ids: Iterable[str]) -> None:
        """Select records, whether already erased or not."""
        self._db.executemany(
            "INSERT OR IGNORE INTO gone VALUES (?, 'chosen', 0)", ((identity,) for identity in ids)
        )

    def spread(self, versions: Callable[[str], Iterable[str]], *, cascade: bool) -> None:
        """Select everything that depends on the selected records.

        Args:
            versions: Returns the IDs of all versions of a memory.
            cascade: Whether to select derived records, too.
        """
        depth = 0
        reasons = (
            EraseReason.JOINS,
            EraseReason.VERSION,
            EraseReason.DERIVED if cascade else EraseReason.VERSION,
        )
        while True:
            wave = self._ids("SELECT id FROM gone WHERE depth = ?", depth)
            depth, has_ids = depth + 1, False
            for ids in wave:
                has_ids = True
                others = {version for identity in ids for version in versions(identity)}.difference(
                    ids
                )
                self._db.executemany(
                    "INSERT OR IGNORE INTO gone VALUES (?, 'version', ?)",
                    ((version, depth) for version in sorted(others)),
                )
            if not has_ids:
                return
            self._db.execute(
                "INSERT OR IGNORE INTO gone SELECT link.id, link.why, ? FROM gone"
                " JOIN link ON link.end = gone.id WHERE gone.depth = ? AND link.why IN (?, ?, ?)",
                (depth, depth - 1, *reasons),
            )

    def counts(self) -> dict[EraseReason, int]:
        """Return the number of existing selected records by reason."""
        sql = "SELECT why, count(*) FROM gone JOIN record USING (id) GROUP BY why"
        return {EraseReason(why): number for why, number in self._db.execute(sql)}

    def types(self) -> dict[str, int]:
        """Return the number of existing selected records by type."""
        sql = "SELECT type, count(*) FROM gone JOIN record USING (id) GROUP BY type ORDER BY type"
        return dict(self._db.execute(sql).fetchall())

    def left(self, most: int) -> tuple[int, list[str]]:
        """Return the number of derived records that are kept, and the first IDs."""
        sql = (
            "SELECT DISTINCT link.id FROM gone JOIN link ON link.end = gone.id"
            " JOIN record ON record.id = link.id"
            " WHERE link.why = 'derived' AND link.id NOT IN (SELECT id FROM gone)"
        )
        ids, number = list[str](), 0
        for (identity,) in self._db.execute(f"{sql} ORDER BY 1"):
            number += 1
            if len(ids) < most:
                ids.append(identity)
        return number, ids

    def ids_to_erase(self) -> Iterator[list[str]]:
        """Yield the IDs of existing selected records, dependent ones first.

        After an interruption, all remaining ones still depend on something that remains.
        """
        return self._ids("SELECT id FROM gone JOIN record USING (id) ORDER BY depth DESC, id")

    def _ids(self, sql: str, *values: object) -> Iterator[list[str]]:
        rows = self._db.cursor().execute(sql, values)
        while batch := rows.fetchmany(_TOGETHER):
            yield [identity for (identity,) in batch]


def _links(model: Model, identity: str) -> Iterator[tuple[str, str, EraseReason]]:
    """Yield the dependencies of a record: the target, the dependent record and the reason."""
    if isinstance(model, Entry):
        events = model.source_event_ids if isinstance(model, Semantic) else ()
        sources = [source.id for source in model.sources]
        for end in (*model.parent_ids, *events, *_records(sources)):
            yield end, identity, EraseReason.DERIVED
    elif isinstance(model, Edge):
        for end in _records((model.source, model.target)):
            yield end, identity, EraseReason.JOINS
        if model.kind == _DERIVES and len(_records((model.source, model.target))) > 1:
            yield model.target, model.source, EraseReason.DERIVED
    elif isinstance(model, SessionEvent):
        for end in _records((model.session, model.parent)):
            yield end, identity, EraseReason.DERIVED
    elif isinstance(model, FileVersion) and model.previous is not None:
        yield model.previous, identity, EraseReason.VERSION
        yield identity, model.previous, EraseReason.VERSION


def _records(ends: Sequence[str | None]) -> list[str]:
    return [end for end in ends if end is not None and end.startswith(ID_PREFIX)]


_MOST_IDS = 10_000
_MOST = 1000
_MOST_CONDITIONS = 20
_IN_MEMORY = Absent(why="The original is returned; nothing is written.")


def _conditions(value: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
    """Return conditions by name, each with its values.

    Raises:
        UsageError: If a value is not a text or a list of texts, or a list is empty: a condition
            that is dropped would select more.
    """
    pairs = list[str]()
    for name, values in value.items():
        texts = [values] if isinstance(values, str) else values
        if (
            not isinstance(texts, list | tuple)
            or not texts
            or not all(isinstance(text, str) for text in texts)
        ):
            raise UsageError(
                f"the condition {name[:80]!r} needs a text or a list of texts",
                field="where",
                hint='Write {"user": "ada"} or {"user": ["ada", "bob"]}.',
            )
        pairs += [f"{name}={text}" for text in texts]
    return conditions_of(pairs)


Ids = Annotated[
    Texts, Option("IDs or ID prefixes.", argument=True, metavar="ID", max_items=_MOST_IDS)
]
Where = Annotated[
    Mapping[str, str | Sequence[str]],
    Option(
        f"Condition by {', '.join(CONDITIONS)} or import. Repeatable: every name must match; a"
        " name that is repeated, one of its values.",
        metavar="NAME=VALUE",
        max_length=_MOST_CONDITIONS,
        parse=_conditions,
        examples=[{"user": "ada"}],
    ),
]
LogReason = Annotated[
    str | None,
    Option("Reason, for the log. The reason itself is not erased.", max_length=1000),
]


@dataclass(frozen=True, slots=True)
class EraseOptions(Options):
    """What to erase."""

    ids: Ids = ()
    _: KW_ONLY
    where: Where = field(default_factory=dict)
    cascade: Annotated[
        bool, Option("Include everything that derives from it, or is part of it.")
    ] = False
    reason: LogReason = None
    scan: Annotated[
        bool,
        Option("Search all bytes for remnants afterwards.", flag="--scan/--no-scan"),
    ] = True
    receipt: Annotated[
        PathText | None,
        Option(
            "Write a copy of the signed report to this file; it is stored in any case.",
            metavar="FILE",
            values="file",
            http=SERVER,
        ),
    ] = None
    dry_run: DryRun = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class RedactOptions(Options):
    """What to redact, and how."""

    ids: Ids = ()
    _: KW_ONLY
    where: Where = field(default_factory=dict)
    kinds: Annotated[
        Texts,
        Option(
            f"Only this kind of data: {', '.join(KINDS)}. Repeatable.",
            flag="--data-kind",
            max_items=_MOST,
        ),
    ] = ()
    texts: Annotated[
        Texts,
        Option("These words, wherever they occur. Repeatable.", flag="--text", max_items=_MOST),
    ] = ()
    fields: Annotated[
        Texts,
        Option(
            "This member as a whole: a JSON pointer such as /metadata/phone. Repeatable.",
            flag="--field",
            max_items=_MOST,
        ),
    ] = ()
    detector: Annotated[
        str | None,
        Option(
            "Also use this detector of personal data: presidio.",
            max_length=40,
            examples=["presidio"],
        ),
    ] = None
    recover_for: Annotated[
        Texts,
        Option(
            "Store the original encrypted for this key: a name or did:key. Repeatable.",
            values="key",
            http=SERVER,
        ),
    ] = ()
    recover_to: Annotated[
        Texts,
        Option(
            "Store the original as an age file for this recipient: age1..., a file of recipients,"
            " or an identity stored here. Repeatable.",
            http=SERVER,
        ),
    ] = ()
    dry_run: DryRun = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True)
class RecoverOptions(SigningOptions):
    """The memory to recover, and the output."""

    memory: Annotated[
        str, Option("ID of the memory, or an ID prefix.", argument=True, metavar="ID")
    ]
    _: KW_ONLY
    output: Annotated[
        PathText | None,
        Option(
            "New private file to write; - for standard output, which is the default.",
            short="-o",
            values="file",
            python=_IN_MEMORY,
        ),
    ] = absent_options.field(default=None, init=False)
    overwrite: Annotated[bool, Option("Replace the file if it exists.", python=_IN_MEMORY)] = (
        absent_options.field(default=False, init=False)
    )
    sealed: Annotated[
        bool,
        Option("Write the age file itself, still encrypted.", python=_IN_MEMORY),
    ] = absent_options.field(default=False, init=False)
    signing_key: Annotated[
        str | None,
        Option(
            "Name of a key that it was encrypted for. Default: an identity stored here, then the"
            " configured key.",
            values="key",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneMemoryOptions(Options):
    """Which old versions to erase."""

    superseded_before: Annotated[
        str,
        Option(
            "Time before which they were superseded: 2026-01-31, or an age: 12h, 90d, 8w, 2y.",
            metavar="TIME",
            max_length=64,
            examples=["90d"],
        ),
    ]
    include_deleted: Annotated[
        bool,
        Option("Include memories that were deleted, expired or rejected before then."),
    ] = False
    reason: LogReason = None
    dry_run: DryRun = False
    progress: OnProgress = None
