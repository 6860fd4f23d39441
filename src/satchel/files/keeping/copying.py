"""Copying what was committed out to the folder, in the page's layout."""

import os
from contextlib import suppress

from satchel.files.keeping.manifest import Rows, Version
from satchel.files.keeping.meta import MemoryMeta, sidecar, version_name
from satchel.files.keeping.tree import Tree
from satchel.files.paths import TRANSCRIPT, encoded


def version_file(version: Version) -> str:
    """Return the path of the file that a version is copied to."""
    return f"versions/{encoded(version.path)}/{version_name(version.at, version.sha)}"


def copy_out(rows: Rows, tree: Tree, path: str) -> None:
    """Have a path in the folder, and its sidecar, as the manifest says."""
    row = rows.file(path)
    about = f"meta/{encoded(path)}.json"
    if row is None:
        tree.remove(path)
        if path != TRANSCRIPT:
            _remove_own(tree, about)
        return
    data = rows.content(row.sha)
    if data is None:
        if row.away:  # what was there is an older state
            tree.remove(path)
        return
    tree.place(path, data)
    if path != TRANSCRIPT:
        tree.place(about, sidecar(MemoryMeta.of(row), tree.read(about)))


def copy_version(rows: Rows, tree: Tree, version: Version) -> None:
    """Have a version in the folder."""
    data = rows.content(version.sha)
    if data is not None:
        tree.place(version_file(version), data)


def _remove_own(tree: Tree, path: str) -> None:
    with suppress(OSError), tree.within(path) as (folder, name):
        os.unlink(name, dir_fd=folder)
