"""Rows as the tables hold them, and filters as the server is asked for them."""

from collections.abc import Iterator, Sequence
from typing import Any

from satchel.errors import InputError
from satchel.ports.rows import Filter, Row, derive_row
from satchel.seal.records import shape_of
from satchel.stores.postgres.statements import ID_PREFIX, raw_id, raw_slot, raw_text, same

LARGE = 1 << 14
"""Bytes of a record from which on it is fetched alone."""

COLUMNS = (
    *("seq", "id", "type", "at", "body", "batch", "retired", "hold", "slot", "kind"),
    *("user", "agent", "run", "app", "session", "moment", "expires_at"),
)
RECORD_TYPES = (
    *("bigint", "bigint", "bytea", "text", "text", "bytea", "bigint", "bigint", "boolean"),
    *(["bytea"] * 9),
)
"""Of the columns of the table: the bank's number comes first."""

_SAID = ("kind", "user", "agent", "run", "app", "session", "moment", "expires_at")
"""Columns with what people wrote, kept as bytes."""

_LONG = frozenset(("body", *_SAID))
_NAMES = {name: f'record."{name}"' for name in COLUMNS}
SELECT = "SELECT " + ", ".join(_NAMES.values()) + " FROM record"  # noqa: S608 - our own names
SELECT_SMALL = (
    f"SELECT octet_length(body) > {LARGE}, "  # noqa: S608 - our own names
    + ", ".join(
        f"CASE WHEN octet_length(body) > {LARGE} THEN NULL ELSE {column} END"
        if name in _LONG
        else column
        for name, column in _NAMES.items()
    )
    + " FROM record"
)
"""Rows without what is long of a large one; the first column says which those are."""

_CURRENT = "record.retired IS NULL"


def row_of(found: Sequence[Any]) -> Row:
    """Return a row of the table.

    Raises:
        UnicodeDecodeError: If a text in it is none.
    """
    values = dict(zip(COLUMNS, found, strict=True))
    for name in _SAID:
        if values[name] is not None:
            values[name] = values[name].decode()
    values["id"] = ID_PREFIX + values["id"].hex()
    if values["slot"] is not None:
        values["slot"] = values["slot"].hex()
    return Row(**values)


def values_of(row: Row, number: int) -> tuple[Any, ...]:
    """Return what the table holds of a row."""
    said = (raw_text(getattr(row, name)) for name in _SAID)
    return (
        *(number, row.seq, raw_id(row.id), row.type, row.at, row.body, row.batch, row.retired),
        *(row.hold, raw_slot(row.slot), *said),
    )


def words_of(body: bytes) -> str:
    """Return the words of a record; none of a damaged one, which others are indexed without."""
    try:
        return derive_row(shape_of(body), seq=0, at="", body=body).text or ""
    except InputError:
        return ""


def clauses(wanted: Filter) -> Iterator[tuple[str, list[Any]]]:
    """Yield the conditions of a filter, each with its values."""
    if wanted.types is not None:
        yield "record.type = ANY (%s::text[])", [sorted(wanted.types)]
    if wanted.kinds is not None:
        yield "record.kind = ANY (%s::bytea[])", [[raw_text(kind) for kind in wanted.kinds]]
    for name in ("user", "agent", "run", "app", "session"):
        value = raw_text(getattr(wanted, name))
        if value is not None:
            yield same(_NAMES[name]), [value, value]
    if wanted.slot is not None:
        yield "record.slot = %s", [raw_slot(wanted.slot)]
    if wanted.since is not None:
        yield "record.moment >= %s", [raw_text(wanted.since)]
    if wanted.until is not None:
        yield "record.moment < %s", [raw_text(wanted.until)]
    yield from _standing(wanted)


def _standing(wanted: Filter) -> Iterator[tuple[str, list[Any]]]:
    """Yield the conditions on what rows are, and were."""
    then = [] if wanted.as_of is None else [wanted.as_of]
    if then:
        yield "record.seq < %s", then
    if not wanted.retired:
        yield (f"({_CURRENT} OR record.retired >= %s)" if then else _CURRENT), then
    if not wanted.held and not then:
        yield "NOT record.hold", []
