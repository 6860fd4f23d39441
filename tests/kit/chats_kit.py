"""What is in an export of a chat product, for tests."""

import io
import re
import zipfile
from typing import Any

from satchel.conformance.subject import parsed


def values_in(data: bytes) -> list[Any]:
    """Return the JSON values in an export: one file, or an archive of them."""
    if not data.startswith(b"PK"):
        return parsed(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [value for name in archive.namelist() for value in parsed(archive.read(name))]


_QUESTION = re.compile(r"Prompted&nbsp;([^<&]+)<br>[^<]*:\d\d")


def activities_in(data: bytes) -> list[Any]:
    """Return the same of Gemini's activities; of a page, the questions."""
    page = data.lstrip().startswith(b"<html")
    return [_QUESTION.findall(data.decode(errors="replace"))] if page else values_in(data)
