"""The positions of redacted and erased records, kept beside the witness of a bank.

A store restored from before a removal has the full text again; this is how it is known that it
must not be shown. One file a bank, replaced whole: canonical JSON, LF, its checksum, LF.
"""

import os
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.disk.kept import opened
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import MalformedError
from satchel.ledger.witness_files.lines import damage
from satchel.memory.parts import Id
from satchel.seal.encoding.jcs import canonical_checked, decode_canonical
from satchel.type_info import resolved


class GivenUp(NamedTuple):
    """That a log goes on from an earlier place than was witnessed, by an owner's decision.

    From there on it has other records, which were never removed.
    """

    epoch: int
    """Of the head that was witnessed."""

    size: int
    """Where the log goes on."""


class _Removed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["satchel-removed/1"]
    bank: Id
    positions: list[Annotated[int, Meta(ge=0)]]


def read_removed(path: Path, bank: str) -> tuple[tuple[int, ...], os.stat_result]:
    """Return the sorted positions in a file, and what the file was when they were read.

    Raises:
        OSError: If it cannot be read, ``FileNotFoundError`` if there is none.
        PathRefusedError: If something else is in its place.
        WitnessError: If it is damaged.
    """
    with opened(path, os.O_RDONLY) as handle:
        found = os.fstat(handle)
        with os.fdopen(os.dup(handle), "rb") as stream:
            data = stream.read(found.st_size)
    body, _, checksum = data.removesuffix(b"\n").rpartition(b"\n")
    if not data.endswith(b"\n") or _checksum(body) != checksum:
        raise damage("the positions of removed records were changed after they were noted")
    try:
        removed = msgspec.convert(decode_canonical(body), resolved(_Removed))
    except (MalformedError, msgspec.ValidationError) as error:
        raise damage(f"not the positions of removed records: {error}") from None
    if removed.bank != bank:
        raise damage(f"the positions are of another bank: {removed.bank}")
    return tuple(removed.positions), found


def write_removed(path: Path, bank: str, positions: set[int]) -> None:
    """Replace the positions in a file.

    Raises:
        TargetError: If the system refuses; the file is as it was.
    """
    removed = _Removed(format="satchel-removed/1", bank=bank, positions=sorted(positions))
    body = canonical_checked(msgspec.to_builtins(removed))
    with writing(path, mode=PRIVATE_FILE) as stream:
        stream.write(body + b"\n" + _checksum(body) + b"\n")


def _checksum(body: bytes) -> bytes:
    return blake3(body).hexdigest().encode()
