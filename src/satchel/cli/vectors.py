"""``satchel embed`` and ``satchel duplicates``."""

from satchel.cli._console import count, excerpt, line, message, print_facts, short
from satchel.cli._operations import command, open_to_read, open_to_write
from satchel.cli._tree import Group
from satchel.recall.duplicates import Duplicates, duplicates
from satchel.recall.vector_updates import EmbedResult, embed_bank


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(app, embed_bank, show_embedded, bank=open_to_write, label="embedding")
    command(app, duplicates, show_duplicates, bank=open_to_read, label="comparing")


def show_embedded(result: EmbedResult) -> None:
    """Print how many vectors were computed."""
    model = f"{result.model}, {result.dimensions:,} dimensions, generation {result.generation}"
    rows: list[tuple[str, object]] = [
        ("computed", count(result.made, "vector")),
        ("unchanged", f"{result.kept:,}"),
        ("model", model),
    ]
    if result.dropped:
        rows.append(("dropped", f"{result.dropped:,} of the previous generation"))
    print_facts(rows)
    for note in result.notes:
        message("note: ", note)


def show_duplicates(result: Duplicates) -> None:
    """Print each duplicate below the memory that it repeats."""
    for pair in result.pairs:
        line(f"{pair.similarity:.3f}  {short(pair.memory.id)}  ", excerpt(pair.memory.text))
        line(f"   like  {short(pair.like.id)}  ", excerpt(pair.like.text))
    left = result.found - len(result.pairs)
    more = f"; {left:,} are not shown: --limit" if left else ""
    message(f"{result.found:,} of {count(result.memories, 'memory')} repeat another one{more}")
