"""Standard input where a command takes a file."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.disk.reading import OpenFile
from satchel.disk.spool import CHUNK


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
