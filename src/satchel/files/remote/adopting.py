"""A remote store that something else wrote, in the page's layout: one object for each file."""

from satchel.errors import MemoryStoreError
from satchel.files.keeping import audit
from satchel.files.keeping.committing import Committing
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
            store.repairs.append(f"left out, since it cannot be a path: {ascii(name)[1:-1]}")
            continue
        taken = objects.get(name)
        if taken is None or len(taken.data) > LARGEST:
            continue
        try:
            store.tree.place(name, taken.data)
        except MemoryStoreError as error:
            store.repairs.append(f"left out: {error}")
            continue
        found = True
    if found:
        with store.manifest.committing() as rows:
            if rows.one("SELECT count(*) FROM event") == 0:
                audit.adopt(rows, store.tree)
    return found
