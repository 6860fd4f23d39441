"""Standard input where a command takes a file."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.cli._console import state
from satchel.ports.registry import formats
from satchel.runtime.files import OpenFile
from satchel.runtime.scratch import CHUNK


@contextmanager
def stdin_as_file(source: Path) -> Iterator[Path | OpenFile]:
    """Lay stdin out in a temporary file where ``-`` was named: a file is read more than once."""
    if str(source) != "-":
        yield source
        return
    with tempfile.TemporaryFile() as held:  # without a name: whoever is killed leaves none
        while data := sys.stdin.buffer.read(CHUNK):
            held.write(data)
        held.flush()
        with OpenFile(os.dup(held.fileno()), source) as file:
            yield file


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
        from satchel.transfer.live_products import connector_for

        connector_for(text, None)
    return Path(text)
