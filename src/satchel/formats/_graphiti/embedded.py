"""A graph of Graphiti in a file of Kuzu, as the rows that its JSON has.

There each fact is a node, joined to the entities on both sides by links of its own; times are
without a zone and mean UTC; attributes are JSON in a text.
"""

from collections.abc import Generator, Iterator
from contextlib import closing

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.disk.spool import Spool
from satchel.formats._graph_files.rows import GraphRow, rows_of
from satchel.formats._graph_files.wanted import GRAPHITI
from satchel.formats._graphiti.rows import time_text
from satchel.formats._graphiti.shape import FACTS, LINKS, SOURCE, TARGET, Row
from satchel.memory.times import read_time
from satchel.ports.format import Reading
from satchel.ports.place import Place

_TIMES = ("created_at", "valid_at", "invalid_at", "expired_at", "reference_time")
_JOINTS = "relates_to"
_FACT, _START, _END = b"f", b"s", b"e"


def tables_in(place: Place, reading: Reading) -> Generator[tuple[str, Row], None, None]:
    """Yield the rows of a graph, each with its table; facts come when both ends are known.

    Raises:
        InputError: As ``formats._graph_files.rows.rows_of``.
    """
    joints, facts = Keyed(), Spool()
    with closing(facts), closing(joints), closing(rows_of(place, reading, GRAPHITI)) as rows:
        yield from _apart(rows, joints, facts)
        for line in facts.lines():
            row = msgspec.json.decode(line)
            for name, side in ((SOURCE, _START), (TARGET, _END)):
                found = joints.get(_key(side, row["uuid"]))
                if found is not None:
                    row[name] = found.decode()
            yield FACTS, row


def _apart(
    rows: Generator[GraphRow, None, None], joints: Keyed, facts: Spool
) -> Iterator[tuple[str, Row]]:
    """Yield what is no fact; facts and their links are laid aside."""
    for found in rows:
        row = _plain(found.row)
        if found.array == FACTS:
            joints.add(_key(_FACT, row["uuid"]))
            facts.write(msgspec.json.encode(row) + b"\n")
        elif found.array == _JOINTS:
            start, end = str(row["source_id"]), str(row["target_id"])
            if _key(_FACT, end) in joints:
                joints.add(_key(_START, end), start.encode())
            else:
                joints.add(_key(_END, start), end.encode())
        else:
            if found.array in LINKS:
                row[SOURCE], row[TARGET] = row.pop("source_id"), row.pop("target_id")
            yield found.array, row


def _plain(row: Row) -> Row:
    """Return a row as it would be in JSON."""
    for name in _TIMES:
        when = row.get(name)
        moment = read_time(when) if type(when) is str else None
        if moment is not None:
            row[name] = time_text(moment)
    return row


def _key(side: bytes, name: str) -> bytes:
    return side + b"/" + name.encode()
