"""Questions to a bank's code graph."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import msgspec

from satchel.actions.opened import OpenBank
from satchel.actions.permitted.owning import require_owner
from satchel.code_graph.asking import Called, CodeGraph, is_type
from satchel.code_graph.facts import KINDS, Node
from satchel.code_graph.languages.known import language_of_file
from satchel.code_graph.mentions import mentions
from satchel.code_graph.shown import (
    Code,
    Edge,
    belonging,
    call_of,
    certain_first,
    code_of,
    import_of,
    inheritance_of,
)
from satchel.errors import UnknownCodeError, UsageError
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.showing import text_of

MOST = 1000
"""Symbols or edges of one answer."""

MOST_LOOKED_AT = 20_000
"""Edges that are looked at for one answer."""

_MOST_MEMORIES, _NOMINATED, _GIST = 10, 50, 120
_MENTIONS = 50
_Some = TypeVar("_Some")


class MentionedBy(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that names a symbol."""

    id: str
    text: str
    """Its beginning."""


class CodeFound(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a question."""

    meant: list[Code] = []
    """The symbols that the question is about; several where its words fit several."""

    symbols: list[Code] = []
    files: list[str] = []
    """As ``TREE/PATH``."""

    edges: list[Edge] = []
    """What is certain first."""

    more: int = 0
    """Symbols or edges that are not in the answer, of those that were looked at."""

    complete: bool = True
    """Whether everything was looked at; a very common name may be in too many files."""


class CodeShown(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A symbol with all that is known of it."""

    code: Code
    edges: list[Edge] = []
    """That go out from it: DEFINED_IN, METHOD_OF, INHERITS, CALLS and REFERENCES."""

    callers: list[Edge] = []
    """CALLS and REFERENCES that lead to it, what is certain first."""

    more_callers: int = 0
    methods: list[Code] = []
    heirs: list[Edge] = []
    memories: list[MentionedBy] = []
    """Memories that name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A question. One of the members that name a relation at most; the others narrow.

    Raises:
        UsageError: If it cannot be meant.
    """

    name: str | None = None
    """Of symbols; may hold ``*``, ``?`` and ``[a-z]``."""

    file: str | None = None
    """The path of a file, or the end of one; likewise."""

    kind: str | None = None
    callers_of: str | None = None
    callees_of: str | None = None
    methods_of: str | None = None
    inherits: str | None = None
    """Types that inherit from this."""

    imports: str | None = None
    """Files that import this: a module, something in it, or a file."""

    limit: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST:
            raise UsageError(f"a limit is 1 to {MOST}", field="limit")
        if self.kind is not None and self.kind not in KINDS:
            hint = f"There are: {', '.join(sorted(KINDS))}."
            raise UsageError(f"there is no kind {self.kind!r}", field="kind", hint=hint)
        if len(self.relations) > 1:
            raise UsageError("one relation at a time", hint=f"Not {' and '.join(self.relations)}.")
        if not self.relations and self.name is None and self.file is None and self.kind is None:
            raise UsageError(
                "what is asked for?", hint="Say --name, --file, --kind, --callers-of and so on."
            )

    @property
    def relations(self) -> list[str]:
        """The members that name a relation."""
        names = ("callers_of", "callees_of", "methods_of", "inherits", "imports")
        return [name for name in names if getattr(self, name) is not None]


def query_code(bank: OpenBank, wanted: Wanted) -> CodeFound:
    """Answer a question about a bank's code.

    Raises:
        UnknownCodeError: If the bank has no code, or not what the question is about.
        StoreError: If what is kept of it is damaged.
    """
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        graph = _graph(view)
        relation = next(iter(wanted.relations), None)
        if relation is None:
            return _symbols(graph, wanted)
        return _RELATIONS[relation](graph, getattr(wanted, relation), wanted)


def show_code(bank: OpenBank, said: str, *, limit: int = 20) -> list[CodeShown]:
    """Return what is known of a symbol; of all of them where several fit what is said.

    Args:
        bank: The bank.
        said: An id; ``PATH#NAME``; or a name with as much before it as one likes.
        limit: How many callers of each at most.

    Raises:
        UnknownCodeError: If there is none.
    """
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        graph = _graph(view)
        return [_shown(view, graph, node, limit) for node in _meant(graph, said)]


def _graph(view: View) -> CodeGraph:
    graph = CodeGraph(view.side)
    if not graph.trees:
        raise UnknownCodeError(
            "this bank knows no code yet", hint="Read some: satchel code index PATH"
        )
    return graph


def _meant(graph: CodeGraph, said: str) -> list[Node]:
    found = graph.find(said)
    if not found:
        raise UnknownCodeError(
            f"there is no symbol {said[:200]!r} in the code of this bank",
            hint="Look for it: satchel code query --name '*PART*'",
        )
    return found


def _symbols(graph: CodeGraph, wanted: Wanted) -> CodeFound:
    files = list[str]()
    if wanted.file is not None:
        nodes, files = list[Node](), list[str]()
        for tree, path in graph.files(wanted.file):
            files.append(f"{tree.name}/{path}")
            nodes += graph.in_file(tree, path)
        found: Iterable[Node] = nodes
        if wanted.name is not None:
            named = {node.id for node in graph.symbols(wanted.name)}
            found = (node for node in nodes if node.id in named)
    else:
        found = graph.symbols(wanted.name or "*")
    kept = (node for node in found if wanted.kind in {None, node.symbol.kind})
    some = islice(kept, MOST_LOOKED_AT)
    shown, more = _cut(sorted(some, key=_by_place), wanted.limit)
    return CodeFound(
        symbols=[code_of(node) for node in shown],
        files=files[: wanted.limit],
        more=more,
        complete=graph.complete,
    )


def _by_place(node: Node) -> tuple[str, str, int]:
    return node.tree, node.path, node.number


def _cut(some: Iterable[_Some], limit: int) -> tuple[list[_Some], int]:
    found = list(islice(some, MOST_LOOKED_AT))
    return found[:limit], max(0, len(found) - limit)


def _edges(graph: CodeGraph, meant: list[Node], edges: Iterator[Edge], wanted: Wanted) -> CodeFound:
    kept = (edge for edge in edges if _is_kept(edge, wanted))
    shown, more = _cut(certain_first(islice(kept, MOST_LOOKED_AT)), wanted.limit)
    return CodeFound(
        meant=[code_of(node) for node in meant], edges=shown, more=more, complete=graph.complete
    )


def _is_kept(edge: Edge, wanted: Wanted) -> bool:
    return wanted.kind is None or (edge.of is not None and edge.of.kind == wanted.kind)


def _callers(graph: CodeGraph, said: str, wanted: Wanted) -> CodeFound:
    meant = _meant(graph, said)
    edges = (call_of(call, of=call.caller) for node in meant for call in graph.callers(node))
    return _edges(graph, meant, edges, wanted)


def _callees(graph: CodeGraph, said: str, wanted: Wanted) -> CodeFound:
    meant = _meant(graph, said)
    edges = (_callee(call) for node in meant for call in graph.callees(node))
    return _edges(graph, meant, edges, wanted)


def _callee(call: Called) -> Edge:
    nodes = call.meaning.nodes
    return call_of(call, of=nodes[0] if len(nodes) == 1 and call.meaning.is_certain else None)


def _methods(graph: CodeGraph, said: str, wanted: Wanted) -> CodeFound:
    meant = [node for node in _meant(graph, said) if is_type(node)]
    if not meant:
        raise UnknownCodeError(f"{said[:200]!r} is no type, so it has no methods")
    edges = (
        belonging("METHOD_OF", method, node.id) for node in meant for method in graph.methods(node)
    )
    return _edges(graph, meant, edges, wanted)


def _heirs(graph: CodeGraph, said: str, wanted: Wanted) -> CodeFound:
    meant = _meant(graph, said)
    edges = (inheritance_of(one, of=one.node) for node in meant for one in graph.heirs(node))
    return _edges(graph, meant, edges, wanted)


def _importing(graph: CodeGraph, said: str, wanted: Wanted) -> CodeFound:
    if language_of_file(said) is not None and not any(True for _ in graph.files(said)):
        raise UnknownCodeError(f"there is no file {said[:200]!r} in the code of this bank")
    return _edges(graph, [], (import_of(one) for one in graph.importing(said)), wanted)


_RELATIONS: dict[str, Callable[[CodeGraph, str, Wanted], CodeFound]] = {
    "callers_of": _callers,
    "callees_of": _callees,
    "methods_of": _methods,
    "inherits": _heirs,
    "imports": _importing,
}


def _shown(view: View, graph: CodeGraph, node: Node, limit: int) -> CodeShown:
    owner = graph.owner(node)
    edges = [belonging("DEFINED_IN", node, f"{node.tree}/{node.path}")]
    if owner is not None and is_type(owner):
        edges.append(belonging("METHOD_OF", node, owner.id))
    edges = [msgspec.structs.replace(edge, of=None) for edge in edges]
    edges += [inheritance_of(one, of=None) for one in graph.bases(node)]
    edges += [call_of(call, of=None) for call in graph.callees(node)]
    callers = certain_first(
        call_of(call, of=call.caller) for call in islice(graph.callers(node), MOST_LOOKED_AT)
    )
    return CodeShown(
        code=code_of(node),
        edges=edges,
        callers=callers[:limit],
        more_callers=max(0, len(callers) - limit),
        methods=[code_of(each) for each in graph.methods(node)] if is_type(node) else [],
        heirs=[inheritance_of(one, of=one.node) for one in graph.heirs(node)]
        if is_type(node)
        else [],
        memories=_memories(view, graph, node),
    )


def _memories(view: View, graph: CodeGraph, node: Node) -> list[MentionedBy]:
    """Return the memories that name a symbol: its words nominate them, its name decides."""
    found = list[MentionedBy]()
    for logged, _ in view.candidates(node.symbol.name, limit=_NOMINATED):
        if len(found) >= _MOST_MEMORIES or not isinstance(logged.model, Entry):
            continue
        text = text_of(logged.model)
        named = mentions(graph, text, _MENTIONS)
        if any(one.node is not None and one.node.id == node.id for one in named):
            found.append(MentionedBy(id=logged.record.id, text=text[:_GIST]))
    return found
