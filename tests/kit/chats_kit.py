"""What is in an export of a chat product, for tests."""

import io
import zipfile
from typing import Any

from satchel.conformance.subject import parsed


def values_in(data: bytes) -> list[Any]:
    """Return the JSON values in an export: one file, or an archive of them."""
    if not data.startswith(b"PK"):
        return parsed(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if not name.endswith(".md")]
        return [value for name in names for value in parsed(archive.read(name))]
