"""``satchel embed`` and ``satchel duplicates``."""

from typing import Annotated

from satchel.actions.opened import opened_bank
from satchel.surfaces.cli._console import (
    count,
    facts,
    gist,
    line,
    message,
    print_json,
    progress,
    short,
    state,
)
from satchel.surfaces.cli._options import InBank, Json
from satchel.surfaces.cli._tree import Group, Option

_LEAST, _MOST = 0.92, 1000


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("embed")(embed_command)
    app.command("duplicates")(duplicates_command)


def embed_command(
    bank: InBank = None,
    model: Annotated[
        str | None,
        Option(
            "--model", help="static-idf, static, minilm, onnx or openai; else inference.embedder."
        ),
    ] = None,
    rebuild: Annotated[
        bool, Option("--rebuild", help="Make all of them again, then drop the old ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make the vectors that memories lack: numbers that stand for what a memory means.

    The built-in models need no network. What was made when it is interrupted is gone on with.

    Example: `satchel embed --bank assistant`
    """
    from satchel.actions.inferring.embedding import embed_bank

    with (
        opened_bank(state.settings, bank, writes=True) as opened,
        progress("embedding", True, records=True) as tell,
    ):
        done = embed_bank(opened, model, rebuild=rebuild, progress=tell)
    if as_json:
        print_json(done)
        return
    rows: list[tuple[str, object]] = [
        ("made", count(done.made, "vector")),
        ("there already", f"{done.kept:,}"),
        ("model", f"{done.model}, {done.dimensions:,} numbers, generation {done.generation}"),
    ]
    if done.dropped:
        rows.append(("dropped", f"{done.dropped:,} of the generation before"))
    facts(rows)
    for note in done.notes:
        message("note: ", note)


def duplicates_command(
    bank: InBank = None,
    similarity: Annotated[
        float, Option("--similarity", help="The lowest that counts, from 0.5 to 1.")
    ] = _LEAST,
    limit: Annotated[int, Option("--limit", help="Pairs to show at most.")] = _MOST,
    as_json: Json = False,
) -> None:
    """List memories that say what an earlier one says, for you to look at; nothing is changed.

    Memories that differ in a number, a negation or a name are never listed.

    Example: `satchel duplicates --bank assistant`
    """
    from satchel.actions.inferring.duplicates import duplicates

    with (
        opened_bank(state.settings, bank) as opened,
        progress("comparing", True, records=True) as tell,
    ):
        found = duplicates(opened, least=similarity, most=limit, progress=tell)
    if as_json:
        print_json(found)
        return
    for pair in found.pairs:
        line(f"{pair.similarity:.3f}  {short(pair.id)}  ", gist(pair.text))
        line(f"   like  {short(pair.like)}  ", gist(pair.like_text))
    left = found.found - len(found.pairs)
    more = f"; {left:,} are not shown: --limit" if left else ""
    message(f"{count(found.found, 'memory')} of {found.memories:,} say what another says{more}")
