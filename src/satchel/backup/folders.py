"""The files of an agent in a backup: one after the other, cut where the next backup cuts as well.

Small files share a piece, which ends after a file whose path says so. So a file that changes, comes
or goes has the piece written anew that it is in, and no other. What they are called, and what is
said of their agent, is a piece of its own: an index says where things are, never what they are.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.backup.manifests import AgentIndex, AgentPart, put_index, read_index
from satchel.backup.pieces.packs import MOST_BYTES, Digest, Packs
from satchel.disk.contained import parts_of
from satchel.errors import PathRefusedError, VerificationError
from satchel.type_info import resolved

_FULL = 1 << 20
"""Bytes after which a piece ends with the file that it is in."""

_ONE_OF = 32
"""Of so many small files one ends its piece, on average."""


class KeptFile(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A file in a backup."""

    path: str
    size: Annotated[int, Meta(ge=0, le=MOST_BYTES)]
    digest: Digest
    """BLAKE3 of what is in it."""


class Told(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of an agent besides its memory."""

    said: dict[str, Any] = {}
    """What the configuration says of it, secrets replaced."""

    files: list[KeptFile] = []
    """In the order in which they stand in the packs."""

    links: dict[str, str] = {}
    """Symbolic links, and what they lead to; they are not put back."""

    left: dict[str, str] = {}
    """Files that are not in it, and why."""


def keep_agent(
    packs: Packs,
    identity: str,
    bank: str | None,
    files: Iterable[tuple[str, bytes]],
    around: Callable[[], Told],
) -> AgentPart:
    """Keep the files of an agent, and return what names them.

    Args:
        packs: Where to.
        identity: Its id.
        bank: Id of the bank with its memory.
        files: Paths, and what is in them; always in the same order.
        around: Gives what else is to be kept, once all files were taken.

    Raises:
        TargetError: If something cannot be written.
    """
    kept, refs, held = list[KeptFile](), [], bytearray()
    for path, data in files:
        if held and len(data) >= _FULL:
            refs.append(packs.put(bytes(held)))
            held.clear()
        kept.append(KeptFile(path, len(data), blake3(data).hexdigest()))
        held += data
        if len(held) >= _FULL or (held and _ends_a_piece(path)):
            refs.append(packs.put(bytes(held)))
            held.clear()
    if held:
        refs.append(packs.put(bytes(held)))
    told = packs.put(msgspec.json.encode(msgspec.structs.replace(around(), files=kept)))
    return AgentPart(
        id=identity,
        bank=bank,
        files=len(kept),
        size=sum(one.size for one in kept),
        index=put_index(packs, AgentIndex(told=told, packs=refs)),
    )


def told_of(part: AgentPart, packs: Packs) -> Told:
    """Return what a backup keeps of an agent.

    Raises:
        VerificationError: If it is not what was kept, or a path leads out of a folder.
        EncryptionError: If nothing here opens it.
    """
    data = packs.get(read_index(packs, part.index, AgentIndex).told)
    try:
        told = msgspec.json.decode(data, type=resolved(Told))
        for one in told.files:
            parts_of(one.path)
    except (msgspec.DecodeError, PathRefusedError) as error:
        raise VerificationError(f"the files of the agent {part.id}: {error}") from None
    is_it = (len(told.files), sum(one.size for one in told.files)) == (part.files, part.size)
    if not is_it or len({one.path for one in told.files}) != part.files:
        raise VerificationError(f"the files of the agent {part.id} differ from those of the backup")
    return told


def files_of(part: AgentPart, told: Told, packs: Packs) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an agent; each is held to its hash.

    Raises:
        VerificationError: If one is not what was kept.
        EncryptionError: If nothing here opens them.
    """
    refs = iter(read_index(packs, part.index, AgentIndex).packs)
    held, place = b"", 0
    for one in told.files:
        if one.size and place == len(held):
            ref = next(refs, None)
            held, place = b"" if ref is None else packs.get(ref), 0
        data = held[place : place + one.size]
        place += one.size
        if len(data) != one.size or blake3(data).hexdigest() != one.digest:
            raise VerificationError(f"a file of the agent {part.id} does not match its digest")
        yield one.path, data
    if place != len(held) or next(refs, None) is not None:
        raise VerificationError(f"the backup has unexpected data for the agent {part.id}")


def _ends_a_piece(path: str) -> bool:
    return blake3(path.encode()).digest()[0] % _ONE_OF == 0
