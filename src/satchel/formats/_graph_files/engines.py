"""Which engine a graph's file is of, and which of its versions wrote it."""

from importlib.util import find_spec
from typing import NamedTuple

from satchel.errors import MalformedError, MissingExtraError

_HEADER = 12
"""Bytes that tell it: four letters, and the number of the storage version."""


class Engine(NamedTuple):
    """An engine that may be installed."""

    module: str
    title: str
    letters: bytes
    """What its files start with."""

    extra: str
    newest: int
    """The newest storage version that it reads."""


ENGINES = (
    Engine("ladybug", "LadybugDB", b"LBUG", "graph", 49),
    Engine("kuzu", "Kuzu", b"KUZU", "kuzu", 39),
)
"""Both of them: LadybugDB 0.22 also reads versions from 40 on, Kuzu 0.11 its own."""

_LAST_OF = {40: "0.15.3", 41: "0.17.1"}
"""Older storage versions of LadybugDB, with a release that writes them."""


class Found(NamedTuple):
    """What a file says of itself."""

    engine: Engine
    storage: int

    def require_readable(self, name: str) -> None:
        """Refuse what is newer than the engine, and an engine that is not installed.

        Raises:
            MalformedError: If the file is newer.
            MissingExtraError: If there is no such engine here.
        """
        engine = self.engine
        if self.storage > engine.newest:
            raise MalformedError(
                f"the file is of storage version {self.storage} of {engine.title}, and"
                f" {engine.newest} is the newest supported",
                file=name,
                byte=len(engine.letters),
            )
        if find_spec(engine.module) is None:
            raise MissingExtraError(
                f"this file needs {engine.title}",
                file=name,
                hint=f'Install it: python -m pip install "satchel[{engine.extra}]"',
            )

    def log_hint(self) -> str:
        """Return what to do about a log that another version left."""
        release = _LAST_OF.get(self.storage, "the version that wrote it")
        return (
            "The latest writes are in the .wal file next to it. Open it once for writing with"
            f" {self.engine.module} {release} and close it, then read it again."
        )


def found_in(head: bytes) -> Found | None:
    """Return which engine's file starts with some bytes; None where it is neither's."""
    for engine in ENGINES:
        if head.startswith(engine.letters) and len(head) >= _HEADER:
            return Found(engine, int.from_bytes(head[len(engine.letters) : _HEADER], "little"))
    return None
