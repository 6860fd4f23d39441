"""The code that a memory speaks of, in few words: signatures, and who calls them."""

from itertools import islice

import msgspec

from satchel.code_graph.asking import CodeGraph
from satchel.code_graph.facts import CALLED, TYPES, Node
from satchel.code_graph.mentions import Mention, mentions

MOST_SHOWN = 5
"""Symbols and files of one memory."""

MOST_CALLERS, MOST_INSIDE = 5, 12
"""Callers of a symbol that are named; symbols of a type or a file."""

MOST_COUNTED = 100
"""Callers that are counted."""

_DOC = 160


class CodeContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A symbol or a file that a memory names, as the code is now."""

    id: str
    """As ``Code.id``; of a file, ``TREE/PATH``."""

    kind: str
    """As ``Code.kind``; ``file`` for a file."""

    name: str
    path: str
    how: str
    """How the memory names it: ``file``, ``qualified``, ``name``; ``word`` where it looks like any
    other word."""

    line: int = 1
    language: str = ""
    signature: str = ""
    doc: str = ""
    """What is said of it, the beginning."""

    complexity: int = 0
    callers: list[str] = []
    """Where it is called from, ``NAME (PATH:LINE)``; none that is not certain."""

    more_callers: int = 0
    may_call: int = 0
    """How many calls may be of it, where only the name fits."""

    inside: list[str] = []
    """Signatures of what a type or a file holds."""

    more_inside: int = 0

    def lines(self) -> list[str]:
        """Return it as lines for a person, or a model."""
        head = self.signature or self.name
        first = self.path if self.kind == "file" else f"{head}  ({self.path}:{self.line})"
        said = [first]
        if self.doc:
            said.append(f"  {self.doc}")
        said += [f"  {each}" for each in self.inside]
        if self.more_inside:
            said.append(f"  and {self.more_inside:,} more")
        if self.callers:
            more = f", and {self.more_callers:,} more" if self.more_callers else ""
            said.append(f"  called by {', '.join(self.callers)}{more}")
        if self.may_call:
            said.append(f"  {self.may_call:,} more calls of that name, not known whose")
        return said


def contexts(graph: CodeGraph, text: str, most: int = MOST_SHOWN) -> list[CodeContext]:
    """Return the code that a text speaks of, the clearest mention first."""
    return [
        _of_file(graph, one) if one.node is None else _of_symbol(graph, one, one.node)
        for one in mentions(graph, text, most)
    ]


def _of_symbol(graph: CodeGraph, mention: Mention, node: Node) -> CodeContext:
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


def _of_file(graph: CodeGraph, mention: Mention) -> CodeContext:
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
