"""How a source tree is kept beside a bank's log, in unlogged values that any store has.

What is known of a tree can be made again from the tree, so none of it is in the log. It is spread
over parts, by a hash of the path or the name, so that a change to one file rewrites a few small
values and a question reads a few:

- ``code/head/TREE``: what the tree is, and how many parts it has;
- ``code/files/TREE/PART``: by path, how each file is known to be unchanged;
- ``code/facts/TREE/PART``: by path, what each file says;
- ``code/names/TREE/PART``: by name, in which parts of the facts it is defined, and used.

TREE and PART are four and three hex digits.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from zlib import crc32

import msgspec

from satchel.code_graph.facts import Facts
from satchel.code_graph.spoken import HEADS
from satchel.disk.stamp import Stamp
from satchel.errors import StoreError
from satchel.type_info import resolved

FILES, FACTS, NAMES = "files", "facts", "names"

MAKE = 1
"""Changed whenever the same file would give other facts: then all are read again."""

FILES_A_PART, MOST_PARTS = 8, 4096

Side = Callable[[str], Mapping[str, bytes]]
"""Gives unlogged values of a bank by the beginning of their names."""

_T = TypeVar("_T")


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a tree as a whole."""

    name: str
    root: str
    """Where it was read."""

    kind: str
    """As ``CodeSource.kind``."""

    number: int
    parts: int
    """A power of two."""

    make: int
    round: int
    """Goes up with everything that is written, so that two who index see each other."""

    whole: bool
    """False while somebody writes it, or was killed while doing so."""

    files: int = 0
    symbols: int = 0
    at: str = ""
    """When it was last found to be so."""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """How a file is known to be unchanged."""

    stamp: Stamp | None
    digest: bytes
    language: str
    symbols: int
    finding: str = ""


Names = dict[str, tuple[list[int], list[int]]]
"""By name: the parts in which it is defined, and those in which it is used."""


def heads(side: Side, *, damaged: bool = False) -> list[Head]:
    """Return the trees of a bank, by name.

    Args:
        side: Gives what is kept.
        damaged: Whether what is damaged is left out, by who is going to make it again.

    Raises:
        StoreError: If what is kept is damaged.
    """
    found = list[Head]()
    for value in side(HEADS).values():
        try:
            found.append(_decoded(value, Head, msgspec.json))
        except StoreError:
            if not damaged:
                raise
    return sorted(found, key=lambda head: head.name)


def head_name(number: int) -> str:
    """Return the name of the value that holds a tree's head."""
    return f"{HEADS}{number:04x}"


def part_name(sort: str, number: int, part: int) -> str:
    """Return the name of the value that holds one part of a tree."""
    return f"code/{sort}/{number:04x}/{part:03x}"


def all_names(side: Side, number: int) -> list[str]:
    """Return the names of all values of a tree."""
    found = [head_name(number)]
    for sort in (FILES, FACTS, NAMES):
        found += side(f"code/{sort}/{number:04x}/")
    return found


def part_of(text: str, parts: int) -> int:
    """Return which part a path or a name belongs to."""
    return crc32(text.encode("utf-8", "surrogatepass")) & (parts - 1)


def parts_for(files: int) -> int:
    """Return how many parts a tree of so many files is spread over."""
    wanted = max(1, files // FILES_A_PART)
    return min(MOST_PARTS, 1 << (wanted - 1).bit_length())


def files_of(side: Side, head: Head) -> dict[str, Known]:
    """Return how all files of a tree are known."""
    found = dict[str, Known]()
    for value in side(f"code/{FILES}/{head.number:04x}/").values():
        found |= _decoded(value, dict[str, Known])
    return found


def known_in(side: Side, head: Head, part: int) -> dict[str, Known]:
    """Return how the files of one part are known."""
    found: dict[str, Known] = _one(side, part_name(FILES, head.number, part), dict[str, Known])
    return found


def raw_facts(side: Side, head: Head, part: int) -> dict[str, msgspec.Raw]:
    """Return what the files of a part say, each of them encoded still."""
    name = part_name(FACTS, head.number, part)
    found: dict[str, msgspec.Raw] = _one(side, name, dict[str, msgspec.Raw])
    return found


def names_in(side: Side, head: Head, part: int) -> Names:
    """Return one part of the names."""
    found: Names = _one(side, part_name(NAMES, head.number, part), Names)
    return found


def every_name(side: Side, head: Head) -> Iterator[tuple[str, tuple[list[int], list[int]]]]:
    """Yield all names, and where they are."""
    for value in side(f"code/{NAMES}/{head.number:04x}/").values():
        yield from _decoded(value, Names).items()


def facts_from(raw: bytes | msgspec.Raw) -> Facts:
    """Return what a file says.

    Raises:
        StoreError: If it is damaged.
    """
    return _decoded(bytes(raw), Facts)


def encoded(value: Any) -> bytes | None:
    """Return a part as it is kept; an empty one is not."""
    return msgspec.msgpack.encode(value) if value else None


def encoded_head(head: Head) -> bytes:
    """Return a head as it is kept."""
    return msgspec.json.encode(head)


def _one(side: Side, name: str, kind: Any) -> Any:
    value = side(name).get(name)
    return {} if value is None else _decoded(value, kind)


def _decoded(value: bytes, kind: type[_T], form: Any = msgspec.msgpack) -> _T:
    try:
        found: _T = form.decode(value, type=resolved(kind))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(
            "the stored code index is damaged; memories are not affected",
            hint="Rebuild it: satchel code index PATH --rebuild",
        ) from error
    return found
