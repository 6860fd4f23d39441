"""``satchel file import`` and ``export``: the memories of Anthropic's memory stores."""

from pathlib import Path
from typing import Annotated

from satchel.actions.filing.exchanging import export_memories, import_memories
from satchel.files.exchange.memory_stores import Moved
from satchel.surfaces.cli._console import line, message, print_json, state
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._stdout import output_file
from satchel.surfaces.cli._tree import Argument, Option
from satchel.surfaces.cli.filing._options import Actor, Key, files


@files.command("import")
def import_command(
    source: Annotated[Path, Argument(help="JSON with memories, as the API lists them.")],
    actor: Actor = "import",
    key: Key = None,
    as_json: Json = False,
) -> int:
    """Take in the memories of one of Anthropic's memory stores; exit status 1 if some stay out.

    The file is what `memory_stores.memories.list(view="full")` gives, as a list, a page, or one a
    line. A file that is there with other text is not replaced: it is named.

    Example: `satchel file import memories.json`
    """
    return _told(import_memories(state.settings, source, key, actor=actor), as_json)


@files.command("export")
def export_command(
    output: Annotated[Path, Argument(help="The file to write; - for standard output.")],
    force: Annotated[bool, Option("--overwrite", help="Replace what is there.")] = False,
    key: Key = None,
    as_json: Json = False,
) -> int:
    """Write the files as memories of Anthropic's memory stores; exit status 1 if some do not fit.

    Example: `satchel file export memories.json`
    """
    with output_file(output) as path:
        told = export_memories(state.settings, path, key, overwrite=force)
    return _told(told, as_json)


def _told(told: Moved, as_json: bool) -> int:
    if as_json:
        print_json(vars(told))
        return int(bool(told.lost))
    line(f"{len(told.moved):,} moved, {len(told.unchanged):,} there already")
    for problem in told.lost:
        message(f"  left out: {problem}")
    return int(bool(told.lost))
