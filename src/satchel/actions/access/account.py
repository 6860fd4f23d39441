"""The file that gives somebody everything a bank holds about them: Markdown, or JSON.

What a memory says is never structure. In Markdown it stands in indented blocks, each of its lines
behind four spaces of ours, and the headings are made of our own words and numbers; in JSON it is
text. In both, only signs that can be seen stand as themselves, so nothing drives a terminal.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol
from unicodedata import category

import msgspec

Write = Callable[[str], object]
"""Takes text, piece by piece."""


class Said(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was said of a record later."""

    place: int
    at: str
    state: str
    by: str | None = None
    reason: str | None = None
    actor: str | None = None


class Arrival(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The import that a record came with."""

    place: int
    provider: str
    format: str
    digest: str | None = None
    trust: str | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One record, with everything that is known of it."""

    place: int
    """In the log of the bank."""

    id: str
    type: str
    state: str
    """``current``, what retired it, or ``arriving`` for a part of an import that is not done."""

    arrived: str
    """When, in UTC."""

    held: bool = False
    """Whether it is in quarantine."""

    named_in: list[str] = []
    """Where in it, as JSON pointers; none when it joins a record that is."""

    ends: dict[str, str] = {}
    """Of an edge: what stands at its ends, in short."""

    came_with: Arrival | None = None
    said_of_it: list[Said] = []
    record: dict[str, Any]


class Grave(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record whose text is gone."""

    id: str
    place: int | None = None
    """None for one that was erased elsewhere, before it could come here."""

    type: str | None = None
    erased_at: str
    reason: str | None = None
    by: str | None = None


class Account(Protocol):
    """A file that is written as it is read."""

    def begin(self, facts: dict[str, Any]) -> None:
        """Say who is asked for and where."""
        ...

    def tell(self, told: Told) -> None:
        """Add a record."""
        ...

    def bury(self, grave: Grave) -> None:
        """Add what was erased; all records come before."""
        ...

    def end(self, facts: dict[str, Any]) -> None:
        """Say how much it was."""
        ...


class Markdown:
    """A file for people."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._records = 0
        self._graves = 0

    def begin(self, facts: dict[str, Any]) -> None:
        """Say who is asked for and where."""
        self._write("# Everything that a memory bank holds about a person\n")
        self._block(facts.items())
        self._write("\n## Records\n")

    def tell(self, told: Told) -> None:
        """Add a record."""
        self._records += 1
        held = ", in quarantine" if told.held else ""
        self._write(f"\n### {self._records}. {told.type}, {told.state}{held}\n")
        facts = msgspec.to_builtins(told)
        record = facts.pop("record")
        names = ("place", "id", "arrived", "named_in", "ends", "came_with", "said_of_it")
        about = [(name.replace("_", " "), facts[name]) for name in names if facts.get(name)]
        own = [(name, part) for name, part in record.items() if name not in ("id", "nonce", "type")]
        self._block([*about, ("", None), *own])

    def bury(self, grave: Grave) -> None:
        """Add what was erased."""
        if not self._graves:
            self._write(
                "\n## Erased\n\nOf these records only the place in the log is left. Whether "
                "they were about this person can no longer be determined.\n\n"
            )
        self._graves += 1
        facts = msgspec.to_builtins(grave)
        self._write(f"    {'; '.join(f'{name} {_shown(part)}' for name, part in facts.items())}\n")

    def end(self, facts: dict[str, Any]) -> None:
        """Say how much it was."""
        if not self._records:
            self._write("\nNone.\n")
        self._write("\n## In all\n")
        self._block(facts.items())

    def _block(self, facts: Iterable[tuple[str, Any]]) -> None:
        self._write("\n")
        for name, part in facts:
            first, *more = _lines(part)
            self._write(f"    {_shown(name)}: {first}\n" if name else "    \n")
            for line in more:
                self._write(f"      {line}\n")


class Json:
    """A file for programs: one object."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._records = 0
        self._graves = 0

    def begin(self, facts: dict[str, Any]) -> None:
        """Say who is asked for and where."""
        self._write(f'{{"asked":{_as_json(facts)},\n"records":[')

    def tell(self, told: Told) -> None:
        """Add a record."""
        self._write(f"{',' if self._records else ''}\n{_as_json(msgspec.to_builtins(told))}")
        self._records += 1

    def bury(self, grave: Grave) -> None:
        """Add what was erased."""
        before = "," if self._graves else '],\n"erased":['
        self._write(f"{before}\n{_as_json(msgspec.to_builtins(grave))}")
        self._graves += 1

    def end(self, facts: dict[str, Any]) -> None:
        """Say how much it was."""
        before = "" if self._graves else '],\n"erased":['
        self._write(f'{before}],\n"in_all":{_as_json(facts)}}}\n')


def _lines(part: Any) -> list[str]:
    """Return a value as the lines that it is shown in."""
    if isinstance(part, str):
        return [_shown(line) for line in part.split("\n")]
    if isinstance(part, list) and part and all(isinstance(one, dict) for one in part):
        return ["", *(_as_json(one) for one in part)]
    return ["" if part is None else _as_json(part)]


def _shown(text: object) -> str:
    """Return text in which only what can be seen stands as itself."""
    said = str(text)
    if said.isprintable():
        return said
    return "".join(one if _is_seen(one) else one.encode("unicode_escape").decode() for one in said)


def _as_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(one if _is_seen(one) else json.dumps(one)[1:-1] for one in text)


def _is_seen(character: str) -> bool:
    return character.isprintable() or category(character) == "Zs"
