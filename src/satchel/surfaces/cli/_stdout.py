"""Standard output where a command takes the name of a file to write."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.ports.registry import formats
from satchel.surfaces.cli._console import state

NAME = "-"


@contextmanager
def output_file(output: Path, format_: str | None = None) -> Iterator[Path]:
    """Give the file to write; what is in it goes to standard output where ``-`` was named.

    Whatever else the command prints goes to standard error then. Nothing is printed of a file that
    was not finished.

    Args:
        output: As it was named.
        format_: The format, where one was named; a folder is packed.
    """
    if str(output) != NAME:
        yield output
        return
    state.data_on_stdout = True
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        is_folder = (
            format_ is not None and format_ in formats and formats[format_].info.traits.folder
        )
        path = Path(folder) / ("stdout.zip" if is_folder else "stdout")
        yield path
        if path.is_file():
            with path.open("rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.flush()


def file_or_none(output: Path | None) -> Path | None:
    """Return the file to write; None for standard output, named or not."""
    return None if output is None or str(output) == NAME else output


def path_or_address(text: str) -> Path:
    """Return what was named as a path; an address is judged before it is made one.

    Raises:
        UsageError: If it is an address of a folder that a path would take for another one.
    """
    if "://" in text:
        from satchel.actions.moving.connecting import connector_for

        connector_for(text, None)
    return Path(text)
