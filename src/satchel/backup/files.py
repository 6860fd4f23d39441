"""Memory files in a backup: the manifest of each key, which has the contents, versions and audit.

The folder that people see is a copy of it, made again when the files are opened.
"""

import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import msgspec
from blake3 import blake3
from msgspec import Meta

from satchel.backup.manifests import (
    AgentBackup,
    AgentIndex,
    FilesBackup,
    FilesIndex,
    put_index,
    read_index,
)
from satchel.backup.packs import MOST_BYTES, PIECE_BYTES, Digest, Packs
from satchel.errors import PathRefusedError, TargetExistsError, VerificationError
from satchel.files.manifest import FILE_NAME
from satchel.files.memory_store import MemoryStore
from satchel.files.paths import OWN
from satchel.model.values import resolved
from satchel.runtime.contained_folder import parts_of
from satchel.runtime.files import PRIVATE_FILE, atomic_write
from satchel.runtime.private_files import private_folder
from satchel.stores.sqlite.connection import copy_database, deferred, open_for_reading
from satchel.stores.sqlite.statements import translated

_BUSY_MS = 30_000


def keys_in(folder: Path) -> Iterator[str]:
    """Yield the keys that have memory files below a folder, sorted."""
    if folder.is_dir():
        for one in sorted(folder.iterdir()):
            if (one / OWN / FILE_NAME).is_file():
                yield one.name


def take_files(folder: Path, key: str, packs: Packs) -> FilesBackup:
    """Keep the memory files of a key as they are at one moment; others may write meanwhile.

    Args:
        folder: Where the keys are.
        key: Which.
        packs: Where to.

    Raises:
        StoreError: If they cannot be read.
        TargetError: If they cannot be kept.
    """
    path = folder / key / OWN / FILE_NAME
    refs, size = [], 0
    with tempfile.TemporaryDirectory(prefix="satchel-backup-") as held:
        copy = Path(held) / FILE_NAME
        source = open_for_reading(path, busy_ms=_BUSY_MS, vfs=None).connection
        with closing(source), translated(str(path), source), deferred(source):
            copy_database(source, copy, progress=None, vfs=None)
        with copy.open("rb") as stream:
            # Pages keep their places, so pieces that no change touched are known already.
            while piece := stream.read(PIECE_BYTES // 4):
                refs.append(packs.put(piece))
                size += len(piece)
    return FilesBackup(key=key, size=size, index=put_index(packs, FilesIndex(packs=refs)))


def require_free(part: FilesBackup, folder: Path, *, over: bool) -> None:
    """Require that memory files can be put back below a folder.

    Raises:
        VerificationError: If their key can be no name of a folder.
        TargetExistsError: If there are files of the key, and they are not to give way.
    """
    if "/" in part.key or "\0" in part.key or part.key.startswith("."):
        raise VerificationError(f"the backup has files of an invalid key: {part.key!r}")
    place = folder / part.key
    if os.path.lexists(place) and not over:
        raise TargetExistsError(
            f"memory files of {part.key!r} already exist",
            file=str(place),
            hint="To replace them (they are renamed, not deleted): --overwrite.",
        )


def put_files(part: FilesBackup, packs: Packs, folder: Path, *, over: bool) -> Path | None:
    """Put memory files back; they appear whole, or not at all.

    Args:
        part: The files of a key.
        packs: Where they are kept.
        folder: Where the keys are.
        over: Whether files that are there give way to them.

    Returns:
        Where what was there is now; None where nothing was.

    Raises:
        TargetExistsError: If there are files of the key, and they are not to give way.
        VerificationError: If what was kept does not hold.
        TargetError: If they cannot be written.
    """
    require_free(part, folder, over=over)
    place = folder / part.key
    private_folder(folder)
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=folder.parent) as held:
        staged = Path(held) / "files"
        own = private_folder(staged / OWN)
        with atomic_write(own / FILE_NAME, overwrite=False, mode=PRIVATE_FILE) as stream:
            for ref in read_index(packs, part.index, FilesIndex).packs:
                stream.write(packs.get(ref))
        with MemoryStore(root=staged) as store:  # copies out what the manifest says
            found = store.verify_audit()
            if not found.ok:
                problem = "; ".join(found.problems[:3])
                raise VerificationError(
                    f"the memory files of {part.key!r} do not verify: {problem}"
                )
        aside = None
        if os.path.lexists(place):
            beside = private_folder(folder.parent / ".before-restore")
            aside = beside / f"{part.key[:64]}-{secrets.token_hex(4)}"
            place.rename(aside)
        staged.rename(place)
    return aside


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


class AgentContents(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    around: Callable[[], AgentContents],
) -> AgentBackup:
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
    return AgentBackup(
        id=identity,
        bank=bank,
        files=len(kept),
        size=sum(one.size for one in kept),
        index=put_index(packs, AgentIndex(told=told, packs=refs)),
    )


def read_agent_contents(part: AgentBackup, packs: Packs) -> AgentContents:
    """Return what a backup keeps of an agent.

    Raises:
        VerificationError: If it is not what was kept, or a path leads out of a folder.
        EncryptionError: If nothing here opens it.
    """
    data = packs.get(read_index(packs, part.index, AgentIndex).told)
    try:
        told = msgspec.json.decode(data, type=resolved(AgentContents))
        for one in told.files:
            parts_of(one.path)
    except (msgspec.DecodeError, PathRefusedError) as error:
        raise VerificationError(f"the files of the agent {part.id}: {error}") from None
    is_it = (len(told.files), sum(one.size for one in told.files)) == (part.files, part.size)
    if not is_it or len({one.path for one in told.files}) != part.files:
        raise VerificationError(f"the files of the agent {part.id} differ from those of the backup")
    return told


def files_of(part: AgentBackup, told: AgentContents, packs: Packs) -> Iterator[tuple[str, bytes]]:
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
