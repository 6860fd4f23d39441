"""Contents of files of notes, unchanged."""

import io
import re
import zipfile
from typing import Any

_ITEM = r"^(?:- )?\[\S+\] - (.*(?:\n(?:  .*|(?=\n  )))*)"


def files_in(data: bytes) -> list[Any]:
    """Return the files of a folder of notes by path, or the text of one."""
    if not data.startswith(b"PK"):
        return [data.decode()]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [{name: archive.read(name).decode() for name in sorted(archive.namelist())}]


def lines_in(data: bytes) -> list[Any]:
    """Return the memories in a text for Claude's import, without their prefixes."""
    found = re.findall(
        r"^(?:- )?\[\S+\] - (.*(?:\n(?:  .*|(?=\n  )))*)", data.decode(), re.MULTILINE
    )
    return [text.replace("\n  ", "\n") for text in found]
