"""Standard input and output in place of files."""

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
    """Copy stdin to a temporary file for the path ``-``, as files are read more than once."""
    if str(source) != "-":
        yield source
        return
    with tempfile.TemporaryFile() as held:  # unnamed, so that a killed process leaves no file
        while data := sys.stdin.buffer.read(CHUNK):
            held.write(data)
        held.flush()
        with OpenFile(os.dup(held.fileno()), source) as file:
            yield file


NAME = "-"


@contextmanager
def output_file(output: Path, format_: str | None = None) -> Iterator[Path]:
    """Yield the file to write; for the path ``-``, it is copied to standard output afterwards.

    Everything else that the command prints goes to standard error then. An unfinished file is not
    printed.

    Args:
        output: The given path.
        format_: The given format; a folder is packed.
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
    """Return the file to write; None for standard output."""
    return None if output is None or str(output) == NAME else output


def path_or_address(text: str) -> Path:
    """Return a path or address as a path; addresses are validated first.

    Raises:
        UsageError: If it is an address that would name another folder as a path.
    """
    if "://" in text:
        from satchel.transfer.live_products import connector_for

        connector_for(text, None)
    return Path(text)
