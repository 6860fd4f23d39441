"""Contents of archives of Cognee."""

import gzip
import io
import tarfile
from typing import Any

from chats_kit import values_in

from satchel.artifact.encodings import GZIP_MAGIC
from satchel.conformance.subject import parsed


def files_in(data: bytes) -> list[Any]:
    """Return the JSON values in an archive, file by file, in their order."""
    if data.startswith(GZIP_MAGIC):
        data = gzip.decompress(data)
    if data.startswith(b"PK"):
        return values_in(data)
    found = list[Any]()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            found += parsed(file.read()) if file is not None else []
    return found
