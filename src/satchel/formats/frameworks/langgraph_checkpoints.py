"""The database of LangGraph's ``SqliteSaver``: threads, their checkpoints and forks, read only.

What is packed in it is read as data: the library's own way of unpacking imports modules and calls
what a file names. Items of a store in the same file are read as well. What the engine keeps to go
on with a run (versions of channels, pending writes) is no memory; it is counted.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from satchel.disk.databases.foreign import Database
from satchel.errors import EmptyInputError, InputError, MalformedError, UsageError
from satchel.formats._database import columns_of, opened, other_tables, parsed
from satchel.formats._frameworks.checkpoints.packed import unpacked
from satchel.formats._frameworks.checkpoints.threads import Point, Thread
from satchel.formats._frameworks.items import VECTORS
from satchel.formats._frameworks.store_tables import STORE, TABLES, items_in
from satchel.formats._tables import tables_of
from satchel.memory.parts import Component
from satchel.memory.records import Model
from satchel.ports.format import Info, Reading, Traits, Writing
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.seal.records import Sealed

_CHECKPOINTS, _WRITES = "checkpoints", "writes"
_NEEDED = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id")
_PACKED = ("type", "checkpoint", "metadata")
_BOOKKEEPING = ("channel_versions", "versions_seen", "updated_channels", "pending_sends")
_KNOWN = frozenset({_CHECKPOINTS, _WRITES}) | TABLES


class LangGraphCheckpoints:
    """The format."""

    info: ClassVar[Info] = Info(
        title="LangGraph checkpoints, SQLite database",
        suffixes=(),
        spec="langgraph-checkpoint-sqlite 3.1.2 SqliteSaver; langgraph-checkpoint 4.3.2",
        checked="2026-11-22",
        traits=Traits(components=frozenset({Component.SEMANTIC}), writes=False),
        beside=frozenset({VECTORS}),
    )

    def recognises(self, place: Place) -> bool:
        return {_CHECKPOINTS, _WRITES} <= tables_of(place)

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        reading.linked = reading.chained = True
        with opened(place, reading) as database:
            columns_of(database, _CHECKPOINTS, (*_NEEDED, *_PACKED), place.name)
            count = 0
            if database.columns(STORE):
                for entry in items_in(database, place.name, reading):
                    count += 1
                    yield entry
            for event in _events(database, place.name, reading):
                count += 1
                yield event
            _tell(database, reading)
            if count == 0 and not reading.report.left_out:
                raise EmptyInputError("the file contains no checkpoints", file=place.name)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        del records, target, writing
        raise UsageError(
            "LangGraph checkpoints are read-only",
            field="format",
            hint="To write memories into a LangGraph store: --format langgraph.",
        )


def _events(database: Database, file: str, reading: Reading) -> Iterator[Model]:
    """Yield the events of all threads, one thread after the other."""
    order = "thread_id, checkpoint_ns, checkpoint_id"
    sql = f"SELECT {', '.join((*_NEEDED, *_PACKED))} FROM {_CHECKPOINTS} ORDER BY {order}"  # noqa: S608 - our own
    thread, whose = None, None
    for number, (name, space, identity, parent, *packed) in enumerate(database.rows(sql)):
        found = list[Model]()
        try:
            point = _point(identity, parent, packed, reading)
            if type(name) is not str or type(space) is not str:
                raise MalformedError("a thread without a name", field="thread_id")
            if thread is None or whose != (name, space):
                thread, whose = Thread(name, space, point), (name, space)
                found.append(thread.start)
            found += thread.events(point)
        except InputError as error:
            error.field = f"{_CHECKPOINTS}/{number}" + (f"/{error.field}" if error.field else "")
            error.line = error.byte = None
            reading.refuse(error.located(file=file))  # type: ignore[arg-type]
        else:
            yield from found


def _point(identity: Any, parent: Any, packed: list[Any], reading: Reading) -> Point:
    kind, data, metadata = packed
    if type(identity) is not str:
        raise MalformedError("a checkpoint without an id", field="checkpoint_id")
    try:
        found = unpacked(kind, data)
    except InputError as error:
        error.field = "checkpoint"
        raise
    values = found.get("channel_values") if type(found) is dict else None
    if type(values) is not dict:
        raise MalformedError("a checkpoint without `channel_values`", field="checkpoint")
    for name in _BOOKKEEPING:
        if found.get(name):
            reason = "internal state for resuming a run"
            reading.report.lost(name, reason, example=identity[:80])
    return Point(
        id=identity,
        parent=parent if type(parent) is str else None,
        values=values,
        time=found.get("ts"),
        said=_metadata(metadata),
    )


def _metadata(value: Any) -> dict[str, Any]:
    if type(value) is bytes:
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise MalformedError("`metadata` is not UTF-8", field="metadata") from None
    said = parsed(value, "metadata")
    if said is None:
        return {}
    if type(said) is not dict:
        raise MalformedError("`metadata` is not an object", field="metadata")
    return {name: part for name, part in said.items() if part not in ({}, None)}


def _tell(database: Database, reading: Reading) -> None:
    """Say what there is besides, and stays behind."""
    if database.columns(_WRITES):
        ((count,),) = list(database.rows(f"SELECT count(*) FROM {_WRITES}"))  # noqa: S608 - our own
        if count:
            reason = "steps of a run; their results are in the checkpoints"
            reading.report.lost(_WRITES, reason, count=count)
    for table in other_tables(database, _KNOWN):
        reading.report.lost("table", "not a checkpointer table", example=table[:80])


FORMAT = LangGraphCheckpoints()
"""What the registry finds."""
