"""The code that a memory speaks of, in few words: signatures, and who calls them."""

from itertools import islice

from satchel.code_graph.facts import CALLED, TYPES, CodeNode
from satchel.code_graph.mentions import CodeMention, mentions
from satchel.code_graph.queries import CodeGraph
from satchel.ports.code_context import CodeContext

MOST_SHOWN = 5
"""Symbols and files of one memory."""

MOST_CALLERS, MOST_INSIDE = 5, 12
"""Callers of a symbol that are named; symbols of a type or a file."""

MOST_COUNTED = 300
"""Callers that are counted."""

_DOC = 160


def contexts(graph: CodeGraph, text: str, most: int = MOST_SHOWN) -> list[CodeContext]:
    """Return the code that a text speaks of, the clearest mention first."""
    return [
        _of_file(graph, one) if one.node is None else _of_symbol(graph, one, one.node)
        for one in mentions(graph, text, most)
    ]


def _of_symbol(graph: CodeGraph, mention: CodeMention, node: CodeNode) -> CodeContext:
    symbol = node.symbol
    calls = list(islice(graph.callers(node), MOST_COUNTED))
    certain = sorted(
        (call.path, call.use.line, call.caller) for call in calls if call.meaning.is_certain
    )
    callers = [
        f"{path if caller is None else caller.symbol.qualified} ({path}:{line})"
        for path, line, caller in certain[:MOST_CALLERS]
    ]
    inside = [each.symbol for each in graph.methods(node)] if symbol.kind in TYPES else []
    return CodeContext(
        id=node.id,
        kind=symbol.kind,
        name=symbol.qualified,
        path=node.path,
        how=mention.how,
        line=symbol.first,
        language=node.facts.language,
        signature=symbol.signature,
        doc=_beginning(symbol.doc),
        complexity=symbol.complexity,
        callers=callers,
        more_callers=len(certain) - len(callers),
        may_call=len(calls) - len(certain) if symbol.kind in CALLED else 0,
        inside=[each.signature or each.name for each in inside[:MOST_INSIDE]],
        more_inside=max(0, len(inside) - MOST_INSIDE),
    )


def _of_file(graph: CodeGraph, mention: CodeMention) -> CodeContext:
    nodes = graph.in_file(mention.tree, mention.path)
    top = [node.symbol for node in nodes if "." not in node.symbol.qualified]
    return CodeContext(
        id=f"{mention.tree.name}/{mention.path}",
        kind="file",
        name=mention.path.rpartition("/")[2],
        path=mention.path,
        how=mention.how,
        language=nodes[0].facts.language if nodes else "",
        inside=[each.signature or each.name for each in top[:MOST_INSIDE]],
        more_inside=max(0, len(top) - MOST_INSIDE),
    )


def _beginning(doc: str) -> str:
    """Return the first sentence or so."""
    first = doc.partition("\n\n")[0].replace("\n", " ")
    return first if len(first) <= _DOC else first[: _DOC - 1].rstrip() + "…"
