"""The versions that a folder of Flyte's has, as the history of its paths.

Flyte snapshots each write as ``versions/<encoded path>/<time>_<sha>.txt``; its audit says who wrote
it and why. What is taken over is what proves itself: the bytes have the digest in the name.
"""

import hashlib
import json
import os
import re
from typing import Any, NamedTuple

from satchel.errors import MemoryStoreError
from satchel.files.keeping.audit import LOG
from satchel.files.keeping.manifest import FileRow, Rows, Version
from satchel.files.keeping.tree import Tree
from satchel.files.paths import decoded, open_to_all

_NAME = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d)-(\d\d)-([\d.]+)([+-]\d\d)-(\d\d)_([0-9a-f]{64})(?:_\w+)?\.txt"
)
_MOST_LOG = 64 << 20


class _Snapshot(NamedTuple):
    order: tuple[int, str]
    at: str
    sha: str
    data: bytes
    actor: str
    reason: str


def adopt_versions(rows: Rows, tree: Tree) -> list[str]:
    """Take over the versions in a folder whose store is new; return what could not be."""
    repairs, events = list[str](), _events(tree)
    for folder in tree.names("versions"):
        path = decoded(folder)
        try:
            if path is None or open_to_all(path) != path:
                raise MemoryStoreError("the name is not an encoded path")  # noqa: TRY301 - one way
            found = _snapshots(tree, folder, events, repairs)
            state = tree.read(path)
        except MemoryStoreError as error:
            repairs.append(f"versions/{ascii(folder)[1:-1]} was not adopted: {error.message}")
            continue
        _keep(rows, path, sorted(found), state)
    return repairs


def _snapshots(
    tree: Tree, folder: str, events: dict[str, tuple[int, dict[str, Any]]], repairs: list[str]
) -> list[_Snapshot]:
    found = []
    for name in tree.names(f"versions/{folder}"):
        place, matched = f"versions/{folder}/{name}", _NAME.fullmatch(name)
        data = tree.read(place) if matched else None
        if matched is None or data is None or hashlib.sha256(data).hexdigest() != matched[6]:
            repairs.append(f"{ascii(place)[1:-1]} was not adopted: not a version of a file")
            continue
        number, event = events.get(place, (0, {}))
        who, why = str(event.get("actor", "")), str(event.get("reason", ""))
        at = f"{matched[1]}:{matched[2]}:{matched[3]}{matched[4]}:{matched[5]}"
        found.append(_Snapshot((number, name), at, matched[6], data, who[:1000], why[:10_000]))
    return found


def _keep(rows: Rows, path: str, found: list[_Snapshot], state: bytes | None) -> None:
    """Have these as the first versions of a path, the last of them as what it is, if it is."""
    for number, one in enumerate(found, 1):
        revision = rows.fact("revision", 0) + 1
        rows.state("revision", revision)
        op = "create" if number == 1 else "update"
        spoken = (one.at, one.actor, one.reason)
        rows.keep(one.sha, one.data)
        rows.add(Version(path, number, revision, op, one.sha, len(one.data), *spoken, ""))
        if number == len(found) and state == one.data:
            rows.put(FileRow(path, one.sha, len(state), number, revision, *spoken, 0))


def _events(tree: Tree) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return the events of the audit that name a version's file, each with its place."""
    found = dict[str, tuple[int, dict[str, Any]]]()
    try:
        with tree.opened(LOG, os.O_RDONLY) as handle:
            data = os.pread(handle, _MOST_LOG, 0)
    except FileNotFoundError:
        return found
    for number, line in enumerate(data.splitlines(), 1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("version_file"), str):
            found[event["version_file"]] = (number, event)
    return found
