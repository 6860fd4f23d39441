"""Many rows in one statement, as a table of Arrow's that the engine reads where it lies.

Rows that are given as parameters are turned into the engine's values one by one, and looked
through once more for the types in them: measured, 7 times the work of writing them. What the
engine does with a table is written to its log as anything else is, and can be taken back.
"""

from collections.abc import Sequence
from typing import Any

from satchel.errors import MissingExtraError
from satchel.stores.ladybug.schema import Column, Columns, Values

MANY = 32
"""Rows from which on they are put into a table; a table for a few takes longer than they do."""


def arrow_table(rows: Sequence[Any], columns: Columns | Column) -> Any:
    """Return a table with one column, ``x``, that holds the rows.

    Args:
        rows: Values, or what has values under names.
        columns: The type of the values, or the names with the types of their values.

    Raises:
        MissingExtraError: If Arrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError(
            "writing many rows to this store needs Arrow",
            hint='Install it: python -m pip install "satchel[graph]"',
        ) from error
    types = {
        "STRING": pa.string(),
        "INT64": pa.int64(),
        "BLOB": pa.binary(),
        "BOOL": pa.bool_(),
    }
    if isinstance(columns, str):
        kind = types[columns]
    else:
        kind = pa.struct([(name, types[column]) for name, column in columns.items()])
    return pa.table({"x": pa.array(rows, type=kind)})


def statement_for(connection: Any, cypher: str, values: Values) -> Any:
    """Return a prepared statement that is not kept by its connection, as those of texts are.

    It holds the table that it reads, so to keep it would be to keep all that was ever written.

    Raises:
        RuntimeError: If the engine does not take it.
    """
    from ladybug import PreparedStatement

    prepared = PreparedStatement(connection, cypher, values)
    if not prepared.is_success():
        raise RuntimeError(prepared.get_error_message())
    return prepared
