"""Whether there is a store, or a file: one name for both, as callers have it."""

import asyncio
from collections.abc import Generator
from typing import Any, overload

from satchel.errors import SatchelError
from satchel.files.calling import Both
from satchel.files.looking import Looking
from satchel.files.namespace import namespace
from satchel.files.paths import open_to_all
from satchel.files.places import place_of


class Existence(int):
    """Whether there is a store: true or false as it is, and also when it is awaited.

    Flyte's form is ``await MemoryStore.exists(...)``. Where no event loop runs, nobody can await,
    and the answer is a plain ``bool``.
    """

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return bool(self)

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__


class Existing:
    """Whether a key has a store, asked of the class; whether a file is there, of a store."""

    @overload
    def __get__(self, instance: None, owner: type[Looking]) -> Both[Any, Existence]: ...

    @overload
    def __get__(self, instance: Looking, owner: type[Looking]) -> Both[Any, bool]: ...

    def __get__(
        self, instance: Looking | None, owner: type[Looking]
    ) -> Both[Any, Existence] | Both[Any, bool]:
        function: Any = _path_exists if instance is not None else _key_asked
        return Both(function, instance or owner)


def _key_asked(cls: type[Looking], *args: Any, **named: Any) -> Existence | bool:
    found = _key_exists(cls, *args, **named)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return found
    return Existence(found)


def _key_exists(
    cls: type[Looking],
    key: str,
    org: str | None = None,
    project: str | None = None,
    domain: str | None = None,
    storage_root: str | None = None,
) -> bool:
    del cls
    return place_of(namespace(org, project, domain, storage_root).path(key)).exists()


def _path_exists(store: Looking, rel_path: str = "", **named: Any) -> bool:
    if "key" in named:
        return _key_exists(type(store), **named)
    try:
        path = open_to_all(rel_path)
        if store._store.tree.kind(path) == "file":  # noqa: SLF001 - its own
            return True
        with store._store.manifest.looking() as rows:  # noqa: SLF001 - likewise
            row = rows.file(path)
    except SatchelError:
        return False
    return row is not None and bool(row.away)
