"""What can be done to the files of a store, each as one change of a commit."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from satchel.errors import MemoryStoreError
from satchel.files.keeping.group import Group, State
from satchel.files.keeping.manifest import Version
from satchel.files.keeping.meta import MemoryMeta
from satchel.files.keeping.policy import Policy
from satchel.files.paths import checked, open_to_all


@dataclass(kw_only=True)
class Asked:
    """Who wants a change, why, and what has to hold for it."""

    op: str = "write"
    said: Any
    actor: str = "agent"
    reason: str = ""
    expected_sha: str | None = None
    expected_version: int | None = None
    trusted: bool = False
    """Whether read-only prefixes do not hold: for promotion and restoring by whoever may."""

    def target(self, group: Group) -> str:
        """Return the path, which may be written."""
        path = open_to_all(self.said)
        if not self.trusted:
            group.policy.read_only.refuse(path)
        return path

    def found(self, group: Group, path: str) -> State:
        """Return what is there, which is as expected."""
        state = group.state(path)
        group.demand(path, state, self.expected_sha, self.expected_version)
        return state


@dataclass(kw_only=True)
class Write(Asked):
    """Bytes that a path has from now on."""

    data: bytes

    def apply(self, group: Group) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        self.found(group, path)
        return group.put(path, self.data, self)


@dataclass(kw_only=True)
class Remake(Asked):
    """Bytes that follow from those that are there."""

    make: Callable[[str, bytes | None], bytes]
    """Of the path and its bytes; may raise ``MemoryStoreError``."""

    def apply(self, group: Group) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        state = self.found(group, path)
        return group.put(path, self.make(path, state.data), self)


@dataclass(kw_only=True)
class Delete(Asked):
    """Nothing at a path from now on."""

    op: str = "delete"
    recursive: bool = False

    def apply(self, group: Group) -> list[str]:
        """See ``Change``; gives the paths that are gone."""
        path = self.target(group)
        paths = _all_of(group, path, self) if self.recursive else [path]
        if paths == [path] and self.found(group, path).data is None:
            raise MemoryStoreError("no such file", path=path)
        for one in paths:
            group.take_away(one, self)
        return paths


@dataclass(kw_only=True)
class Rename(Asked):
    """Another path for a file, or for a folder with all that is in it."""

    op: str = "rename"
    new: Any
    overwrite: bool = False

    def apply(self, group: Group) -> list[str]:
        """See ``Change``; gives the new paths."""
        old = self.target(group)
        new = open_to_all(self.new)
        if not self.trusted:
            group.policy.read_only.refuse(new)
        if new == old or new.startswith(old + "/"):
            raise MemoryStoreError("a file or folder cannot be moved into itself", path=new)
        paths = _all_of(group, old, self)
        if paths != [old] and not self.overwrite and group.files_in(new):
            raise MemoryStoreError("the new path already exists", path=new)
        moved = []
        for path in paths:
            state = self.found(group, path) if paths == [old] else group.state(path)
            if state.data is None:
                raise MemoryStoreError("no such file", path=path)
            target = checked(new + path[len(old) :])
            if not self.overwrite and group.state(target).data is not None:
                raise MemoryStoreError("the new path already exists", path=target)
            group.take_away(path, self, op="renamed", other=target)
            group.put(target, state.data, self, op="rename", other=path)
            moved.append(target)
        return moved


@dataclass(kw_only=True)
class Restore(Asked):
    """A former state of a path, again."""

    op: str = "restore"
    version: int

    def apply(self, group: Group) -> MemoryMeta:
        """See ``Change``."""
        path = self.target(group)
        self.found(group, path)
        version = group.rows.version(path, self.version)
        return group.put(
            path, content_of(group.content, path, self.version, version), self, op="restore"
        )


@dataclass(kw_only=True)
class Promote(Asked):
    """A proposal that becomes what only promotion may write."""

    op: str = "promote"
    new: Any
    keep: bool = False
    """Leave the proposal where it is."""

    def apply(self, group: Group) -> MemoryMeta:
        """See ``Change``."""
        path, target = open_to_all(self.said), open_to_all(self.new)
        state = self.found(group, path)
        if state.data is None:
            raise MemoryStoreError("no such proposal", path=path)
        if target == path:
            raise MemoryStoreError("a proposal cannot be promoted to its own path", path=path)
        meta = group.put(target, state.data, self, op="promote", other=path)
        if not self.keep:
            group.take_away(path, self, op="promoted", other=target)
        return meta


@dataclass(kw_only=True)
class TakeIn(Asked):
    """What was changed in the folder by something else, as the state of its path."""

    op: str = "sync"

    def apply(self, group: Group) -> str | None:
        """See ``Change``; tells what was done, None where there was nothing to do."""
        path = open_to_all(self.said)
        row = group.rows.file(path)
        if row is not None and row.away and group.tree.read(path) is None:
            return None
        state = group.state(path)
        if state.data is None:
            if row is None:
                return None
            group.take_away(path, self, op="sync")
            return "deleted"
        if not state.outside:
            return None
        group.put(path, state.data, self, op="sync")
        return "created" if row is None else "changed"


@dataclass(kw_only=True)
class Erase(Asked):
    """No bytes left of anything that a path ever held."""

    op: str = "erase"

    def apply(self, group: Group) -> int:
        """See ``Change``; gives how many states there were."""
        path = open_to_all(self.said)
        self.found(group, path)
        states = group.rows.last_version(path)
        if not states and group.state(path).data is None:
            raise MemoryStoreError("no such file ever existed", path=path)
        group.erase(path, self)
        return states


@dataclass(kw_only=True)
class NewPolicy(Asked):
    """Other rules for the store."""

    op: str = "policy"
    policy: Policy

    def apply(self, group: Group) -> None:
        """See ``Change``."""
        before = Policy.read(group.rows)
        facts: dict[str, object] = {
            "read_only_prefixes": list(self.policy.read_only.paths),
            "audit": self.policy.audit,
            "keep_versions": self.policy.keep_versions,
        }
        group.note("policy", self, **facts)  # also when it switches the audit off, or on
        self.policy.write(group.rows)
        if before is not None and not before.audit:
            group.policy = self.policy
            group.note("policy", self, **facts)


def content_of(
    content: Callable[[str, str], bytes | None], path: str, number: int, version: Version | None
) -> bytes:
    """Return the bytes of a version.

    Raises:
        MemoryStoreError: If there is no such version, it is of a deletion, or its bytes are gone.
    """
    if version is None:
        raise MemoryStoreError(f"the file has no version {number}", path=path)
    if not version.sha:
        raise MemoryStoreError(f"version {number} is a deletion", path=path)
    data = content(version.sha, path)
    if data is None:
        raise MemoryStoreError(
            f"the text of version {number} was not stored",
            path=path,
            hint="A store created with keep_versions=True stores every version.",
        )
    return data


def edited(old: str, new: str, count: int) -> Callable[[str, bytes | None], bytes]:
    """Return what replaces a text that is there exactly so many times."""

    def make(path: str, data: bytes | None) -> bytes:
        if not old:
            raise MemoryStoreError("the text to replace is empty", path=path)
        if data is None:
            raise MemoryStoreError("no such file", path=path)
        text = decoded_text(path, data)
        found = text.count(old)
        if found != count:
            raise MemoryStoreError(
                f"the text to replace occurs {found:,} times, not {count:,}", path=path
            )
        return encoded_text(path, text.replace(old, new))

    return make


def appended(text: str) -> Callable[[str, bytes | None], bytes]:
    """Return what adds a text at the end; a file that is not there is begun."""
    return lambda path, data: (data or b"") + encoded_text(path, text)


def encoded_text(path: object, text: Any) -> bytes:
    """Return a text as UTF-8, nothing else changed.

    Raises:
        MemoryStoreError: If it is no text.
    """
    where = path if isinstance(path, str) else None
    if not isinstance(text, str):
        raise MemoryStoreError(f"the content must be text, not {type(text).__name__}", path=where)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MemoryStoreError(f"the content is not Unicode: {error.reason}", path=where) from None


def decoded_text(path: str, data: bytes) -> str:
    """Return bytes as text, nothing changed.

    Raises:
        MemoryStoreError: If they are not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MemoryStoreError(
            "the file is not UTF-8", path=path, byte=error.start, hint="Use read_bytes."
        ) from None


def encoded_json(path: object, value: Any) -> bytes:
    """Return a value as JSON, in the page's form: indented, keys sorted.

    Dates, paths, UUIDs and the like become text, as there; what would lose its meaning is refused.

    Raises:
        MemoryStoreError: If JSON has no form for it.
    """
    where = path if isinstance(path, str) else None
    try:
        text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise MemoryStoreError(f"cannot be written as JSON: {error}", path=where) from None
    return encoded_text(path, text)


def _plain(value: Any) -> str:
    from datetime import date, time
    from decimal import Decimal
    from pathlib import PurePath
    from uuid import UUID

    if isinstance(value, date | time | Decimal | PurePath | UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__}")


def _all_of(group: Group, path: str, change: Asked) -> list[str]:
    """Return the files that a path means: itself, or all in the folder that it is."""
    if group.tree.kind(path) != "folder":
        row = group.rows.file(path)
        if row is not None or group.tree.kind(path) == "file":
            return [path]
    paths = group.files_in(path)
    if not paths:
        raise MemoryStoreError("no such file or folder", path=path)
    if change.expected_sha is not None or change.expected_version is not None:
        raise MemoryStoreError("a folder has no sha and no version", path=path)
    for one in paths:
        if not change.trusted:
            group.policy.read_only.refuse(one)
    return paths
