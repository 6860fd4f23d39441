"""The code that goes along with recalled memories, within what they leave of a budget."""

from satchel.code_graph.mentions import contexts
from satchel.code_graph.queries import CodeGraph
from satchel.errors import StoreError
from satchel.inference.tokenizers import estimated_tokens
from satchel.ledger.view import View
from satchel.model.text import memory_text
from satchel.ports.code_context import CodeAttachment, CodeContext
from satchel.recall.query import RecallResult


def code_along(
    view: View, found: RecallResult, budget: int | None, notes: list[str]
) -> CodeAttachment:
    """Return the code that memories speak of, each symbol once, with the best memory.

    Args:
        view: The bank.
        found: What was recalled.
        budget: Tokens for memories and code together; None for any number.
        notes: What went wrong is added here: recall is not to fail for what can be made again.
    """
    left = None if budget is None else budget - found.tokens
    try:
        return _along(CodeGraph(view.side), found, left)
    except StoreError as error:
        notes.append(f"{error.message}. {error.hint}")
        return CodeAttachment()


def _along(graph: CodeGraph, found: RecallResult, left: int | None) -> CodeAttachment:
    shown, seen, total, over = dict[str, list[CodeContext]](), set[str](), 0, 0
    for hit in found.hits:
        for one in contexts(graph, memory_text(hit.entry)):
            if one.id in seen:
                continue
            tokens = estimated_tokens("\n".join(one.lines()))
            if left is not None and tokens > left - total:
                over += 1
                continue
            seen.add(one.id)
            total += tokens
            shown.setdefault(hit.logged.record.id, []).append(one)
    return CodeAttachment(shown, total, over)
