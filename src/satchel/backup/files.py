"""Memory files in a backup: the manifest of each key, which has the contents, versions and audit.

The folder that people see is a copy of it, made again when the files are opened.
"""

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from satchel.backup.manifests import FilesIndex, FilesPart, put_index, read_index
from satchel.backup.pieces.packs import PIECE_BYTES, Packs
from satchel.disk.private import private_folder
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import TargetExistsError, VerificationError
from satchel.files.keeping.manifest import FILE_NAME
from satchel.files.memory_store import MemoryStore
from satchel.files.paths import OWN
from satchel.stores.sqlite.copying import copy_database
from satchel.stores.sqlite.errors import translated
from satchel.stores.sqlite.opening import deferred, open_for_reading

_BUSY_MS = 30_000


def keys_in(folder: Path) -> Iterator[str]:
    """Yield the keys that have memory files below a folder, sorted."""
    if folder.is_dir():
        for one in sorted(folder.iterdir()):
            if (one / OWN / FILE_NAME).is_file():
                yield one.name


def take_files(folder: Path, key: str, packs: Packs) -> FilesPart:
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
    return FilesPart(key=key, size=size, index=put_index(packs, FilesIndex(packs=refs)))


def require_free(part: FilesPart, folder: Path, *, over: bool) -> None:
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


def put_files(part: FilesPart, packs: Packs, folder: Path, *, over: bool) -> Path | None:
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
        with writing(own / FILE_NAME, overwrite=False, mode=PRIVATE_FILE) as stream:
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
