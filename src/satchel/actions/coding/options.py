"""Options of the operations on code."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated

from satchel.actions.options import DryRun, OnProgress, PathOptions
from satchel.ports.operations import Option, Options, PathText

Progress = Callable[[int, int], None]

MOST = 1000
"""Symbols or edges of one answer."""

NOT_SERVED = {
    "http": "Code is read and queried on its own machine; `recall` shows it with memories.",
    "mcp": "`recall` shows code with the memories that mention it.",
}


@dataclass(frozen=True, slots=True)
class CodeIndexOptions(PathOptions):
    """Which source tree to index."""

    path: Annotated[
        PathText,
        Option("Folder of source files, or a SCIP index (.scip).", argument=True, values="file"),
    ]
    _: KW_ONLY
    name: Annotated[str | None, Option("Name of the source tree. Default: that of the folder.")] = (
        None
    )
    rebuild: Annotated[bool, Option("Read all of it again, not only what has changed.")] = False
    progress: OnProgress = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeQueryOptions(Options):
    """A question about code: at most one relation; the other options narrow it."""

    name: Annotated[str | None, Option("Symbols with this name; may contain *, ? and [a-z].")] = (
        None
    )
    file: Annotated[
        str | None, Option("Symbols of this file: its path, or the last part of it.")
    ] = None
    kind: Annotated[str | None, Option("Only symbols of this kind, such as class.")] = None
    callers_of: Annotated[str | None, Option("Where this symbol is called.")] = None
    callees_of: Annotated[str | None, Option("What this symbol calls.")] = None
    methods_of: Annotated[str | None, Option("Methods of this type.")] = None
    inherits: Annotated[str | None, Option("Types that inherit from this one.")] = None
    imports: Annotated[str | None, Option("Files that import this module, name or file.")] = None
    limit: Annotated[
        int, Option("Maximum number of symbols or relations.", minimum=1, maximum=MOST)
    ] = 50

    @property
    def relations(self) -> list[str]:
        """The options that name a relation."""
        names = ("callers_of", "callees_of", "methods_of", "inherits", "imports")
        return [name for name in names if getattr(self, name) is not None]


@dataclass(frozen=True, slots=True)
class CodeShowOptions(Options):
    """Which symbol to show."""

    symbol: Annotated[str, Option("Symbol: its ID, PATH#NAME, or its name.", argument=True)]
    _: KW_ONLY
    limit: Annotated[int, Option("Maximum number of callers.", minimum=1, maximum=20_000)] = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTreesOptions(Options):
    """Nothing: all source trees are listed."""


@dataclass(frozen=True, slots=True)
class CodeDropOptions(Options):
    """Which source tree to remove."""

    name: Annotated[str, Option("Name of the source tree. See: satchel code trees.", argument=True)]
    _: KW_ONLY
    dry_run: DryRun = False
