"""``satchel evaluate``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from satchel.cli._console import count, line, message, print_text, table
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.evaluation import operations
from satchel.evaluation.statistics import Table, cell_text
from satchel.ports.operations import Option, Options, PathText

if TYPE_CHECKING:
    from satchel.evaluation.containment import ContainmentResult
    from satchel.evaluation.continuity import Fidelity, TransferScore
    from satchel.evaluation.paper import Paper
    from satchel.evaluation.recall import Evaluation, FramedResult


class PageResult(Protocol):
    """Result of writing a page."""

    @property
    def page(self) -> PathText | None:
        """The file."""


def show_recall(result: "Evaluation") -> None:
    """Print the measures of recall."""
    rows: list[list[object]] = []
    groups = {"main": result.main, "all": result.all, **result.kinds}
    for name, measures in groups.items():
        budgets = [f"{measures.budget[key]:.3f}" for key in ("1024", "4096")]
        at = [f"{measures.recall[key]:.3f}" for key in ("5", "10", "20")]
        gain = [f"{measures.ndcg['10']:.3f}", f"{measures.hit['10']:.3f}"]
        rows.append(
            [name, measures.questions, *at, *gain, *budgets, f"{measures.session_hit_1:.3f}"]
        )
    columns = ["group", "questions", "R@5", "R@10", "R@20", "NDCG@10", "Hit@10"]
    table([*columns, "R@1,024 tokens", "R@4,096 tokens", "session Hit@1"], rows)
    corpus = [count(result.conversations, "conversation"), count(result.turns, "turn")]
    again = f"; reranked by {result.reranker}" if result.reranker else ""
    message(f"{', '.join(corpus)}; vectors: {result.vectors or 'none'}{again}")
    if result.left_out:
        message(f"skipped: {count(result.left_out, 'question')} whose turns are missing")
    _notes(result.notes)


def show_framed(result: "FramedResult", page: PageResult) -> None:
    """Print how much evidence reaches a model."""
    from satchel.evaluation.pages import framed_rows

    _show_page(page)
    _show(framed_rows(result))
    message(f"{count(result.questions, 'question')}; tokens by {result.tokenizer or result.model}")
    _notes(result.notes)


def show_containment(result: "ContainmentResult") -> None:
    """Print which texts break out."""
    from satchel.evaluation.pages import contained_rows

    _show(contained_rows(result))
    for one in result.escapes:
        line(f"{one.kind}: ", one.line)
    message(count(result.whole.escapes, "escape"))


def show_transfer(result: "TransferScore", page: PageResult) -> None:
    """Print a score of transfer continuity."""
    from satchel.evaluation.pages import transfer_rows

    _show_page(page)
    _show(transfer_rows(result))
    message(f"{result.source} to {result.target}; {result.budget:,} tokens by {result.tokenizer}")
    _notes(result.notes)


def show_fidelity(result: "Fidelity", page: PageResult) -> None:
    """Print rehydration fidelity by budget."""
    from satchel.evaluation.pages import fidelity_rows

    _show_page(page)
    _show(fidelity_rows(result))
    message(f"the whole memory takes {result.full:,} tokens by {result.tokenizer}")
    message(f"similarity of answers by {result.embedder}")
    if result.left_out:
        message(f"skipped: {result.left_out} that the source does not answer")
    _notes(result.notes)


def show_paper(result: "Paper", page: PageResult) -> None:
    """Print all tables of the paper."""
    _show_page(page)
    for each in result.tables:
        _show(each, titled=True)
    line("Example", style="bold")
    print_text(result.example)
    _notes(result.notes)


def _show_page(page: PageResult) -> None:
    if page.page is not None:
        message(f"page: {page.page}")


def _notes(notes: list[str]) -> None:
    for note in notes:
        message("note: ", note)


def _show(result: Table, *, titled: bool = False) -> None:
    """Print a table, with its note."""
    if titled:
        line(result.title, style="bold")
    table(result.columns, [[cell_text(cell) for cell in row] for row in result.rows])
    if result.note:
        message(result.note)
    if titled:
        line()


evaluate = Group("Measure recall, continuity and containment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions(Options):
    """Path of a page with plots."""

    page: Annotated[
        PathText | None,
        Option("Write a page with plots to this file: self-contained HTML.", values="file"),
    ] = None
    overwrite: Annotated[bool, Option("Replace the file if it exists.")] = False


def add_to(root: Group) -> None:
    """Add the commands of this module."""
    root.add(evaluate, name="evaluate")


def _name_page(values: dict[str, Any], page: PageOptions) -> None:
    values.update(page=page.page, overwrite=page.overwrite)


def _add_paged(operation: Any, show: Any, label: str) -> None:
    command(evaluate, operation, show, label=label, extra=PageOptions, prepare=_name_page)


command(evaluate, operations.measure_recall, show_recall, label="asking")
_add_paged(operations.measure_framed, show_framed, "framing")
command(evaluate, operations.measure_containment, show_containment, label="judging")
_add_paged(operations.measure_transfer, show_transfer, "asking")
_add_paged(operations.measure_fidelity, show_fidelity, "asking")
_add_paged(operations.measure_paper, show_paper, "measuring")
