"""A bank's own vectors in an agent file: what made them stands before the memories.

Each is the ``embedding`` of its row; ``record`` has the mark of the text that it was made of. One
that came with a memory before waits in ``record`` then, and has its place again without the other.
"""

from typing import Any

import msgspec

from satchel.formats._aletheia.shape import (
    EMBEDDING,
    MINUS_ZEROS,
    RECORD,
    VECTOR_OF,
    Row,
    an_object,
)
from satchel.formats._own_vectors import Vector, minus_zeros, signed
from satchel.ports.carried import Maker
from satchel.type_info import resolved

_OURS = frozenset({EMBEDDING, VECTOR_OF, MINUS_ZEROS})


def maker_in(value: Any) -> Maker | None:
    """Return what made the bank's own vectors in a file; None for what is no such thing."""
    try:
        return msgspec.convert(value, resolved(Maker))
    except msgspec.ValidationError:
        return None


def with_vector(row: Row, vector: Vector) -> Row:
    """Return the row of a memory with a vector of the bank."""
    mark, numbers = vector
    said: Row = {**row.get(RECORD, {}), VECTOR_OF: mark}
    if EMBEDDING in row:
        said[EMBEDDING] = row[EMBEDDING]
    zeros = minus_zeros(numbers)
    said |= {MINUS_ZEROS: zeros} if zeros else {}
    return {**row, EMBEDDING: list(numbers), RECORD: said}


def without_vector(row: Row) -> tuple[Row, Vector | None]:
    """Return the row of a memory as it is without a vector of the bank, and that, if it has one."""
    said = an_object(row.get(RECORD), RECORD)
    mark = said.get(VECTOR_OF)
    if type(mark) is not str:
        return row, None
    vector = mark, signed(row.get(EMBEDDING), said.get(MINUS_ZEROS))
    rest = {name: part for name, part in said.items() if name not in _OURS}
    made = {name: part for name, part in row.items() if name not in (EMBEDDING, RECORD)}
    made |= {EMBEDDING: said[EMBEDDING]} if EMBEDDING in said else {}
    return {**made, RECORD: rest} if rest else made, vector
