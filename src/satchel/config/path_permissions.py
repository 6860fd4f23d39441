"""Where a path may lead: anywhere for a person at this machine, into roots for everybody else.

Whoever names a file for another (a program, a request, a model) says in which folders it may be, or
the operator has said it, or it is refused before anything is looked at. What the operator has said
holds for all, and nothing that a call says can widen it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from satchel.config.settings import Settings
from satchel.crypto.encrypted_files import plain_file
from satchel.errors import ContainmentError
from satchel.runtime.atomic_files import target_error
from satchel.runtime.contained_folder import ContainedFolder
from satchel.runtime.input import OpenFile
from satchel.runtime.output import Outlet
from satchel.runtime.private_files import make_folders
from satchel.runtime.roots import PathInput, Roots, absolute_root, refuse_control


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPermission:
    """What a call says of where its path may lead."""

    allowed_roots: Iterable[PathInput] | None = None
    """Folders that it may be in; of no folder when empty. Within what the operator has set."""

    allow_uncontained: bool = False
    """That it may be anywhere, where the operator has set nothing."""


OWN = PathPermission(allow_uncontained=True)
"""Of a person who types the path at this machine."""


@contextmanager
def file_to_read(
    settings: Settings, path: PathInput | OpenFile, permission: PathPermission = OWN
) -> Iterator[OpenFile]:
    """Open a file that somebody names, decrypted where it is encrypted.

    Raises:
        ContainmentError: If nothing says where it may be, or it is not there.
        PathRefusedError: If roots are set, and there is a link on the way, or the file has a second
            name.
        UnreadableError: If it cannot be opened.
        EncryptionError: If nothing here decrypts it.
    """
    with (
        stored_file(settings, path, permission) as file,
        plain_file(file, settings.unlocking) as plain,
    ):
        yield plain


@contextmanager
def stored_file(
    settings: Settings, path: PathInput | OpenFile, permission: PathPermission = OWN
) -> Iterator[OpenFile]:
    """Open a file that somebody names as it is; one that was opened already is given back.

    Raises:
        SatchelError: As ``file_to_read``, but for what is encrypted.
    """
    if isinstance(path, OpenFile):
        yield path
        return
    roots = _roots(settings, path, permission)
    with OpenFile.named(Path(path)) if roots is None else roots.open_file(path) as file:
        yield file


@contextmanager
def file_to_write(
    settings: Settings,
    path: PathInput | Outlet,
    permission: PathPermission = OWN,
    *,
    makes: bool = False,
) -> Iterator[Outlet]:
    """Open the folder of a file that is to be written; one that was opened is given as it is.

    With ``makes``, the folder is made for its owner only where it is missing, below a root.

    Raises:
        ContainmentError: If nothing says where it may be, or it is not there.
        PathRefusedError: If roots are set, and there is a link on the way.
        TargetError: If there is no such folder.
    """
    if isinstance(path, Outlet):
        yield path
        return
    roots = _roots(settings, path, permission)
    if roots is None and makes:
        try:
            make_folders(Path(path).parent)
        except OSError as error:
            raise target_error(Path(path).parent, error) from error
    with (
        Outlet.named(Path(path)) if roots is None else roots.open_outlet(path, makes=makes)
    ) as outlet:
        yield outlet


@contextmanager
def folder_to_read(
    settings: Settings, path: PathInput, permission: PathPermission = OWN
) -> Iterator[ContainedFolder]:
    """Open a folder that somebody names, to read what is in it.

    Raises:
        ContainmentError: If nothing says where it may be, or it is not there.
        PathRefusedError: If it is a link or no folder; if roots are set, also if there is a link on
            the way.
        UnreadableError: If it cannot be opened.
    """
    roots = _roots(settings, path, permission)
    folder = ContainedFolder(Path(path).resolve()) if roots is None else roots.open_folder(path)
    with folder:
        yield folder


def is_contained(settings: Settings, permission: PathPermission = OWN) -> bool:
    """Tell whether there are folders that nothing that is read or written may be outside of."""
    said = (settings.options.portability.roots, settings.roots, permission.allowed_roots)
    return any(roots is not None for roots in said)


def require_uncontained(settings: Settings, place: str, permission: PathPermission = OWN) -> None:
    """Refuse the place of a live product where it would have to be in some folders.

    What a product opens there, it opens by name.

    Raises:
        ContainmentError: If nothing says where it may be, or roots are set.
    """
    if _roots(settings, place, permission) is not None:
        raise ContainmentError(
            "a live product cannot be restricted to folders, so it is not opened when roots "
            "are set",
            file=repr(place),
            hint="Export from it into a root, or do this without roots.",
        )


def _roots(settings: Settings, path: PathInput, permission: PathPermission) -> Roots | None:
    """Return the folders that a path may be in; None for any."""
    lists: list[Iterable[PathInput]] = []
    if settings.options.portability.roots is not None:
        lists.append(settings.options.portability.roots)
    if settings.roots is not None:
        lists.append([absolute_root(root) for root in settings.roots])
    if permission.allowed_roots is not None:
        said = permission.allowed_roots
        roots = [said] if isinstance(said, str | os.PathLike) else said
        lists.append([absolute_root(root) for root in roots])
    if lists:
        return Roots(*lists)
    if permission.allow_uncontained:
        if permission is not OWN:
            refuse_control(path)
        return None
    raise ContainmentError(
        "no allowed folders are set for this path",
        file=repr(path),
        hint="Portability path containment is required. Provide one of: allowed_roots=[...],"
        " SATCHEL_PORTABILITY_ROOTS (or ASTROCYTE_PORTABILITY_ROOTS) env var, or, for a path that"
        " comes from no model and no request, allow_uncontained=True.",
    )
