"""``satchel evaluate recall``: how well recall does on questions whose answers are known."""

from pathlib import Path
from typing import Annotated

from satchel.surfaces.cli._console import count, message, print_json, progress, state, table
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Group, Option


def add_to(group: Group) -> None:
    """Add the command of this module."""
    group.command("recall")(recall_command)


def recall_command(
    data: Annotated[Path, Argument(help="A set of questions: a file, or a folder.")],
    model: Annotated[
        str | None,
        Option(
            "--model", help="static-idf, static, minilm, onnx or openai; else inference.embedder."
        ),
    ] = None,
    no_vectors: Annotated[
        bool, Option("--no-vectors", help="By words alone, as in a bank without vectors.")
    ] = False,
    any_time: Annotated[
        bool, Option("--any-time", help="Ignore a time named in a question.")
    ] = False,
    reranker: Annotated[
        str | None,
        Option(
            "--reranker",
            help="Rerank the first thirty with lexical, sentence-transformers:MODEL,"
            " fastembed:MODEL or onnx:FOLDER.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure recall on conversations with questions, and the turns that answer them.

    Reads LoCoMo's JSON, a folder with BEAM's chat.json and probing_questions.json (or a folder of
    such), QMSum's JSON lines (one bank a file), and a plain form: docs/guides/recalling.md. Your
    banks are not touched.

    Example: `satchel evaluate recall locomo10.json`
    """
    from satchel.actions.evaluating.evaluating import evaluate_recall

    with progress("asking", True, records=True) as tell:
        found = evaluate_recall(
            state.settings,
            data,
            model=model,
            vectors=not no_vectors,
            any_time=any_time,
            reranker=reranker,
            progress=tell,
        )
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = []
    groups = {"what counts": found.main, "all": found.all, **found.kinds}
    for name, one in groups.items():
        budgets = [f"{one.budget[key]:.3f}" for key in ("1024", "4096")]
        at = [f"{one.recall[key]:.3f}" for key in ("5", "10", "20")]
        gain = [f"{one.ndcg['10']:.3f}", f"{one.hit['10']:.3f}"]
        rows.append([name, one.questions, *at, *gain, *budgets, f"{one.session_hit_1:.3f}"])
    columns = ["", "questions", "R@5", "R@10", "R@20", "NDCG@10", "Hit@10"]
    table([*columns, "1,024 tokens", "4,096 tokens", "session Hit@1"], rows)
    what = [count(found.conversations, "conversation"), count(found.turns, "turn")]
    again = f"; reranked by {found.reranker}" if found.reranker else ""
    message(f"{', '.join(what)}; vectors: {found.vectors or 'none'}{again}")
    if found.left_out:
        message(f"{count(found.left_out, 'question')} left out: they name no turn that is there")
    for note in found.notes:
        message("note: ", note)
