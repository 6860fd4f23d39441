"""Artifacts that come in a tool's arguments."""

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager

from satchel.disk.reading import OpenFile
from satchel.disk.spool import Private
from satchel.errors import MalformedError

MOST_BYTES = 64 << 20


@contextmanager
def received(artifact: str) -> Iterator[OpenFile]:
    """Give an artifact that came in base64 as an open file, private and soon gone.

    Raises:
        MalformedError: If it is no base64, or too large.
    """
    if len(artifact) > MOST_BYTES * 4 // 3 + 4:
        raise MalformedError(f"at most {MOST_BYTES:,} bytes", field="artifact")
    try:
        data = base64.b64decode(artifact, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("not base64", field="artifact") from None
    with Private() as private:
        private.file.write_bytes(data)
        with OpenFile.named(private.file) as file:
            yield file
