"""The optional arguments of the Python API."""

from collections.abc import Sequence
from datetime import date, datetime
from os import PathLike
from typing import Literal, TypedDict

FilePath = str | PathLike[str]
Roots = Sequence[FilePath]
"""Folders that a path may lead into, each absolute; an empty list allows none."""


Time = str | datetime | date
"""``2026-03-01T09:30:00+01:00``, a day, or a ``datetime`` with its zone; without one, UTC."""

ComponentName = Literal["episodic", "identity", "procedural", "semantic", "working"]


class CodeQueryArguments(TypedDict, total=False):
    """What ``Bank.code.query`` asks for: one relation at most, the others narrow."""

    name: str | None
    """Of symbols; may hold ``*``, ``?`` and ``[a-z]``."""

    file: str | None
    """The path of a file, or the end of one; likewise."""

    kind: str | None
    callers_of: str | None
    callees_of: str | None
    methods_of: str | None
    inherits: str | None
    """Types that inherit from this."""

    imports: str | None
    """Files that import this: a module, something in it, or a file."""

    limit: int
    """How many symbols or edges; 50 when not given."""
