"""Questions to a bank's code graph."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import msgspec

from satchel.actions.coding.options import NOT_SERVED, CodeQueryOptions, CodeShowOptions
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
from satchel.ports.operations import operation

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


@operation(
    CodeQueryOptions,
    name="code query",
    example="satchel code query --callers-of Config.load",
    absent=NOT_SERVED,
)
def query_code(bank: OpenBank, options: CodeQueryOptions) -> CodeFound:
    """Query the indexed code: symbols, callers, callees, methods, subtypes, imports.

    A symbol is named as in a program: load, Config.load, app.config.Config.load; or by its ID.
    Certain relations come first; where only the name matches, the answer says so.

    Raises:
        UnknownCodeError: If the bank has no code, or not what the question is about.
        UsageError: If nothing is asked for, or two relations are.
        StoreError: If the index is damaged.
    """
    _require_question(options)
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        graph = _graph(view)
        relation = next(iter(options.relations), None)
        if relation is None:
            return _symbols(graph, options)
        return _RELATIONS[relation](graph, getattr(options, relation), options)


def _require_question(options: CodeQueryOptions) -> None:
    if options.kind is not None and options.kind not in KINDS:
        hint = f"Choose from: {', '.join(sorted(KINDS))}."
        raise UsageError(f"unknown kind {options.kind!r}", field="kind", hint=hint)
    if len(options.relations) > 1:
        hint = f"Drop all but one of: {', '.join(options.relations)}."
        raise UsageError("only one relation can be queried at a time", hint=hint)
    if not options.relations and options.name is options.file is options.kind is None:
        raise UsageError(
            "no query given", hint="Give --name, --file, --kind, --callers-of or the like."
        )


@operation(
    CodeShowOptions,
    name="code show",
    example="satchel code show Config.load",
    items="symbols",
    absent=NOT_SERVED,
)
def show_code(bank: OpenBank, options: CodeShowOptions) -> list[CodeShown]:
    """Show a symbol: its signature, what it calls, its callers, and memories that mention it.

    All symbols that match are shown.

    Raises:
        UnknownCodeError: If there is none.
    """
    require_owner(bank.settings, "code")
    with bank.ledger.reading() as view:
        graph = _graph(view)
        found = _meant(graph, options.symbol)
        return [_shown(view, graph, node, options.limit) for node in found]


def _graph(view: View) -> CodeGraph:
    graph = CodeGraph(view.side)
    if not graph.trees:
        raise UnknownCodeError(
            "no code is indexed in this bank", hint="Index a folder: satchel code index PATH"
        )
    return graph


def _meant(graph: CodeGraph, said: str) -> list[Node]:
    found = graph.find(said)
    if not found:
        raise UnknownCodeError(
            f"no symbol {said[:200]!r} in the code of this bank",
            hint="Search for it: satchel code query --name '*PART*'",
        )
    return found


def _symbols(graph: CodeGraph, options: CodeQueryOptions) -> CodeFound:
    files = list[str]()
    if options.file is not None:
        nodes, files = list[Node](), list[str]()
        for tree, path in graph.files(options.file):
            files.append(f"{tree.name}/{path}")
            nodes += graph.in_file(tree, path)
        found: Iterable[Node] = nodes
        if options.name is not None:
            named = {node.id for node in graph.symbols(options.name)}
            found = (node for node in nodes if node.id in named)
    else:
        found = graph.symbols(options.name or "*")
    kept = (node for node in found if options.kind in {None, node.symbol.kind})
    some = islice(kept, MOST_LOOKED_AT)
    shown, more = _cut(sorted(some, key=_by_place), options.limit)
    return CodeFound(
        symbols=[code_of(node) for node in shown],
        files=files[: options.limit],
        more=more,
        complete=graph.complete,
    )


def _by_place(node: Node) -> tuple[str, str, int]:
    return node.tree, node.path, node.number


def _cut(some: Iterable[_Some], limit: int) -> tuple[list[_Some], int]:
    found = list(islice(some, MOST_LOOKED_AT))
    return found[:limit], max(0, len(found) - limit)


def _edges(
    graph: CodeGraph, meant: list[Node], edges: Iterator[Edge], options: CodeQueryOptions
) -> CodeFound:
    kept = (edge for edge in edges if _is_kept(edge, options))
    shown, more = _cut(certain_first(islice(kept, MOST_LOOKED_AT)), options.limit)
    return CodeFound(
        meant=[code_of(node) for node in meant], edges=shown, more=more, complete=graph.complete
    )


def _is_kept(edge: Edge, options: CodeQueryOptions) -> bool:
    return options.kind is None or (edge.of is not None and edge.of.kind == options.kind)


def _callers(graph: CodeGraph, said: str, options: CodeQueryOptions) -> CodeFound:
    meant = _meant(graph, said)
    edges = (call_of(call, of=call.caller) for node in meant for call in graph.callers(node))
    return _edges(graph, meant, edges, options)


def _callees(graph: CodeGraph, said: str, options: CodeQueryOptions) -> CodeFound:
    meant = _meant(graph, said)
    edges = (_callee(call) for node in meant for call in graph.callees(node))
    return _edges(graph, meant, edges, options)


def _callee(call: Called) -> Edge:
    nodes = call.meaning.nodes
    return call_of(call, of=nodes[0] if len(nodes) == 1 and call.meaning.is_certain else None)


def _methods(graph: CodeGraph, said: str, options: CodeQueryOptions) -> CodeFound:
    meant = [node for node in _meant(graph, said) if is_type(node)]
    if not meant:
        raise UnknownCodeError(f"{said[:200]!r} is not a type, so it has no methods")
    edges = (
        belonging("METHOD_OF", method, node.id) for node in meant for method in graph.methods(node)
    )
    return _edges(graph, meant, edges, options)


def _heirs(graph: CodeGraph, said: str, options: CodeQueryOptions) -> CodeFound:
    meant = _meant(graph, said)
    edges = (inheritance_of(one, of=one.node) for node in meant for one in graph.heirs(node))
    return _edges(graph, meant, edges, options)


def _importing(graph: CodeGraph, said: str, options: CodeQueryOptions) -> CodeFound:
    if language_of_file(said) is not None and not any(True for _ in graph.files(said)):
        raise UnknownCodeError(f"no file {said[:200]!r} in the code of this bank")
    return _edges(graph, [], (import_of(one) for one in graph.importing(said)), options)


_RELATIONS: dict[str, Callable[[CodeGraph, str, CodeQueryOptions], CodeFound]] = {
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
