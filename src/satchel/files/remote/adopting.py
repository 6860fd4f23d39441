"""A remote store that something else wrote, in the page's layout: one object for each file."""

from dataclasses import replace

from satchel.errors import MemoryStoreError
from satchel.files.keeping import audit
from satchel.files.keeping.adopted_versions import adopt_versions
from satchel.files.keeping.committing import Committing
from satchel.files.keeping.manifest import Rows
from satchel.files.keeping.tree import LARGEST, is_plain
from satchel.files.paths import OWN
from satchel.files.remote.objects import Objects


def adopt_remote(objects: Objects, store: Committing) -> bool:
    """Copy all of it into a working copy, and take its files in; tell whether there was any."""
    found = False
    for name in objects.names():
        if name.startswith(OWN):
            continue
        if not is_plain(name):
            store.repairs.append(f"skipped, since it is not a valid path: {ascii(name)[1:-1]}")
            continue
        taken = objects.get(name)
        if taken is None or len(taken.data) > LARGEST:
            continue
        try:
            store.tree.place(name, taken.data)
        except MemoryStoreError as error:
            store.repairs.append(f"skipped: {error}")
            continue
        found = True
    if found:
        with store.manifest.committing() as rows:
            if rows.one("SELECT count(*) FROM event") == 0:
                audit.adopt(rows, store.tree)
            if rows.one("SELECT count(*) FROM version") == 0:
                _adopt_history(rows, store)
    return found


def _adopt_history(rows: Rows, store: Committing) -> None:
    """Take over the versions; a place that has some keeps those that are written from now on."""
    before = rows.fact("revision", 0)
    store.repairs += adopt_versions(rows, store.tree)
    after = rows.fact("revision", 0)
    rows.state("adopted_revision", after)
    if after > before:
        replace(store.policy, keep_versions=True).write(rows)
