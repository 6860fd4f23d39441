"""Code as people and programs are shown it: symbols, and what joins them."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from satchel.code_graph.asking import Called, Imported, Inherits
from satchel.code_graph.facts import Node

EdgeKind = Literal["CALLS", "REFERENCES", "INHERITS", "IMPORTS", "METHOD_OF", "DEFINED_IN"]


class Code(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One symbol."""

    id: str
    """Its tree, path, qualified name and kind; stays the same as long as they do."""

    name: str
    """Qualified: ``Config.load``."""

    kind: str
    tree: str
    path: str
    """Of its file, from the top of the tree."""

    line: int
    last_line: int
    language: str
    signature: str = ""
    doc: str = ""
    complexity: int = 0
    """1 and the number of places where it branches; absent for what is not called."""


class Edge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What joins a symbol or a file to others."""

    kind: EdgeKind
    source: str
    """Id of the symbol that it goes out from; ``TREE/PATH`` for a file."""

    name: str
    """What it leads to, as written."""

    targets: list[str] = []
    """Ids of the symbols that are meant, or the files; several of one name in one place."""

    candidates: list[str] = []
    """Ids of the symbols that may be meant: only the name fits."""

    how: str = ""
    """How it was found: ``self``, ``file``, ``folder``, ``import``, ``package``, ``type`` (as it is
    declared), ``index`` (another tool says so); ``name`` with candidates; ``outside`` of the tree;
    absent where it is not known."""

    line: int = 0
    times: int = 1
    of: Code | None = None
    """The symbol at the end that was not asked for, where it is known."""

    @property
    def is_certain(self) -> bool:
        """Whether it is known what is meant."""
        return bool(self.targets)


def code_of(node: Node) -> Code:
    """Return a symbol as it is shown."""
    symbol = node.symbol
    return Code(
        id=node.id,
        name=symbol.qualified,
        kind=symbol.kind,
        tree=node.tree,
        path=node.path,
        line=symbol.first,
        last_line=symbol.last,
        language=node.facts.language,
        signature=symbol.signature,
        doc=symbol.doc,
        complexity=symbol.complexity,
    )


def call_of(call: Called, *, of: Node | None) -> Edge:
    """Return a call, or another place that names something, as it is shown.

    Args:
        call: The place.
        of: The symbol at the end that was not asked for.
    """
    ids = [node.id for node in call.meaning.nodes]
    certain = call.meaning.is_certain
    caller = call.caller
    return Edge(
        kind="CALLS" if call.use.is_call else "REFERENCES",
        source=caller.id if caller is not None else f"{call.tree}/{call.path}",
        name=call.use.text,
        targets=ids if certain else [],
        candidates=[] if certain else ids,
        how=call.meaning.how,
        line=call.use.line,
        times=call.use.times,
        of=None if of is None else code_of(of),
    )


def inheritance_of(one: Inherits, *, of: Node | None) -> Edge:
    """Return what a type inherits from, or what inherits from it."""
    ids = [node.id for node in one.meaning.nodes]
    certain = one.meaning.is_certain
    return Edge(
        kind="INHERITS",
        source=one.node.id,
        name=one.text,
        targets=ids if certain else [],
        candidates=[] if certain else ids,
        how=one.meaning.how,
        line=one.node.symbol.first,
        of=None if of is None else code_of(of),
    )


def import_of(one: Imported) -> Edge:
    """Return an import; its targets are files."""
    name = f"{one.imported.module} {one.imported.name}".strip()
    return Edge(
        kind="IMPORTS",
        source=f"{one.tree}/{one.path}",
        name=name,
        targets=[f"{one.tree}/{path}" for path in one.files],
        how="import" if one.files else "outside",
        line=one.imported.line,
    )


def belonging(kind: Literal["METHOD_OF", "DEFINED_IN"], node: Node, target: str) -> Edge:
    """Return that a symbol is a method of a type, or stands in a file."""
    return Edge(
        kind=kind,
        source=node.id,
        name=target.rpartition("#")[2].partition(":")[0],
        targets=[target],
        how="file",
        line=node.symbol.first,
        of=code_of(node),
    )


def certain_first(edges: Iterable[Edge]) -> list[Edge]:
    """Return edges in the order in which they are told: what is certain, then by place."""
    return sorted(edges, key=lambda edge: (not edge.is_certain, edge.source, edge.line))
