"""The shape of an agent file, version 1, and what its rows have to be.

A row may have ``record``: what the record says that the row itself has no member for. Members that
nobody knows are kept and written back.
"""

from typing import Any

from satchel.errors import MalformedError

NAME = "aletheia"
"""The provider that records from it name."""

VERSION = 1
"""The version that is written."""

NEWEST = 4
"""The last version that is read: that of the Rust program."""

Row = dict[str, Any]

RECORD = "record"
HEAD = ("version", "exportedAt", "generator")
KNOWN = (
    *HEAD,
    "nous",
    "workspace",
    "memory",
    "knowledge",
    "sessions",
    "distillation",
    "exportMetadata",
)
"""The members of a file; of these, ``generator``, ``knowledge`` and ``exportMetadata`` are not the
specification's own."""

MAKER = "embeddings"
"""Before the memories: what made the bank's own vectors that stand beside them."""

EMBEDDING, VECTOR_OF, MINUS_ZEROS = "embedding", "vector_of", "minus_zeros"
"""A vector; in ``record`` the mark of the text that it was made of, and which zeros have a sign."""

WORKING, SUMMARY, NOTE = "working_state", "thread_summary", "note"
KINDS = (WORKING, SUMMARY, NOTE)
"""What is kept beside the messages of a conversation, as the log has it."""

NAMED = "namedOnly"
"""Around the memory: paths of binary files of which the file has the names alone."""

MOST_NAMED = 1000

PARTS, PART = "parts", "part"
"""Of a file's version that is only a part of the file: how many there are, and which it is."""

BINARY = "binary"
"""Set where a file is not text."""


def require_version(value: Any, line: int, *, any_version: bool) -> None:
    """Require a version that is known, or any where that is asked for.

    Raises:
        MalformedError: If it is no such version.
    """
    if type(value) is int and (1 <= value <= NEWEST or any_version):
        return
    problem = f"version {str(value)[:40]!r} is not supported; supported: 1 to {NEWEST}"
    raise MalformedError(problem, line=line, field="version")


def text_in(row: Row, name: str) -> str:
    """Return a text that has to be there.

    Raises:
        MalformedError: If it is not, or empty.
    """
    found = row.get(name)
    if type(found) is not str or not found:
        what = "is not text" if found is not None and type(found) is not str else "is missing"
        raise MalformedError(f"`{name}` {what}", field=name)
    return found


def an_object(value: Any, name: str) -> Row:
    """Return an object; an empty one for null.

    Raises:
        MalformedError: If it is something else.
    """
    if value is None:
        return {}
    if type(value) is not dict:
        raise MalformedError(f"`{name}` is not an object", field=name)
    return value


def a_list(value: Any, name: str) -> list[Any]:
    """Return a list; an empty one for null.

    Raises:
        MalformedError: If it is something else.
    """
    if value is None:
        return []
    if type(value) is not list:
        raise MalformedError(f"`{name}` is not a list", field=name)
    return value


def a_row(value: Any) -> Row:
    """Return a row.

    Raises:
        MalformedError: If it is no object.
    """
    if type(value) is not dict:
        raise MalformedError("not an object")
    return value


def source_of(nous: Any) -> str:
    """Return whose ids a file has: its agent's, or those of the one that this was a copy of."""
    if type(nous) is not dict:
        return ""
    return str(nous.get("cameFrom") or nous.get("id") or "")
