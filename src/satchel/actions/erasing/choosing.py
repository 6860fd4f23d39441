"""Which records a person wants erased: by id, or by what they say of themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from satchel.actions.memories.values import key_of
from satchel.errors import UnknownMemoryError, UsageError
from satchel.ledger.erasure.targets import ERASABLE
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.parts import is_id
from satchel.memory.records import Source

_LEAST_DIGITS, _MOST_SHOWN = 6, 5
_DIGITS = frozenset("0123456789abcdef")
_PREFIX = "blake3:"


def _member(path: str) -> Callable[[Logged], Iterable[Any]]:
    """Return what reads one member of a record; without it on the way, there is none."""
    names = path.split(".")

    def read(logged: Logged) -> Iterable[Any]:
        value: Any = logged.model
        for name in names:
            value = getattr(value, name, None)
        return () if value is None else (value,)

    return read


def _tags(logged: Logged) -> Iterable[Any]:
    return getattr(logged.model, "tags", ())


def _key(logged: Logged) -> Iterable[Any]:
    key = key_of(logged.model) if isinstance(logged.model, Entry) else None
    return () if key is None else (key,)


CONDITIONS: dict[str, Callable[[Logged], Iterable[Any]]] = {
    "user": _member("scope.user"),
    "agent": _member("scope.agent"),
    "run": _member("scope.run"),
    "app": _member("scope.app"),
    "session": _member("session"),
    "type": lambda logged: (logged.record.type,),
    "kind": _member("kind"),
    "tag": _tags,
    "key": _key,
    "actor": _member("actor"),
    "path": _member("path"),
    "provider": _member("origin.provider"),
    "account": _member("origin.source"),
    "origin": _member("origin.id"),
}
"""What a condition can be on, and how a record is asked; ``import`` is told by the log."""

IMPORT = "import"


def conditions_of(said: Sequence[str]) -> dict[str, list[str]]:
    """Return conditions from ``NAME=VALUE``; one name twice wants any of its values.

    Raises:
        UsageError: If one is not of that form, or on what records do not say.
    """
    found = dict[str, list[str]]()
    for one in said:
        name, equals, value = one.partition("=")
        if not equals or not value or name not in {*CONDITIONS, IMPORT}:
            raise UsageError(
                f"not a condition: {one[:80]!r}",
                field="where",
                hint=f"Write NAME=VALUE, with one of {', '.join([*CONDITIONS, IMPORT])}.",
            )
        found.setdefault(name, []).append(value)
    return found


class Choice:
    """What is asked for.

    Args:
        view: Of the bank.
        ids: Ids, or the first digits of them.
        where: Conditions by name, all of which have to hold; one of the values each.

    Raises:
        UsageError: If nothing is asked for, or an id could be that of several, or of no memory.
        UnknownMemoryError: If there is no such record.
    """

    def __init__(self, view: View, ids: Sequence[str], where: Mapping[str, Sequence[str]]) -> None:
        if not ids and not where:
            raise UsageError(
                "nothing to erase is given",
                field="id",
                hint="Pass IDs, or add --where user=NAME.",
            )
        self.ids = frozenset(_named(view, one) for one in ids)
        self._asked = {name: frozenset(values) for name, values in where.items()}
        self._imports = self._asked.pop(IMPORT, None)
        self._sources = dict[int, str | None]()
        self._view = view
        types = self._asked.get("type", frozenset())
        if unknown := types - ERASABLE:
            raise UsageError(
                f"records of type {min(unknown)!r} are not erased",
                field="where",
                hint=f"Only these can be erased: {', '.join(sorted(ERASABLE))}.",
            )

    def takes(self, logged: Logged) -> bool:
        """Tell whether a record is asked for."""
        if logged.record.id in self.ids:
            return True
        if not self._asked and self._imports is None:
            return False
        if any(values.isdisjoint(CONDITIONS[name](logged)) for name, values in self._asked.items()):
            return False
        return self._imports is None or self._came_with(logged)

    def _came_with(self, logged: Logged) -> bool:
        batch = logged.row.batch
        if batch not in self._sources:
            source = self._view.source_of(logged)
            is_one = source is not None and isinstance(source.model, Source)
            self._sources[batch] = source.record.id if is_one and source is not None else None
        identity = self._sources[batch]
        wanted = self._imports or ()
        return identity is not None and any(
            identity.removeprefix(_PREFIX).startswith(one.removeprefix(_PREFIX)) for one in wanted
        )


def _named(view: View, wanted: str) -> str:
    """Return the id that a person means, also of what is erased already."""
    digits = wanted.removeprefix(_PREFIX).lower()
    if is_id(_PREFIX + digits):
        found = [_PREFIX + digits]
    elif len(digits) < _LEAST_DIGITS or not _DIGITS.issuperset(digits):
        raise UsageError(
            f"not a record ID: {wanted[:80]!r}",
            field="id",
            hint=f"Pass the ID, or a prefix of at least {_LEAST_DIGITS} digits.",
        )
    else:
        found = view.nominated(digits, limit=_MOST_SHOWN)
    places = view.places(found)
    if len(places) > 1:
        raise UsageError(
            f"several IDs start with {wanted!r}",
            field="id",
            hint=f"Choose one: {', '.join(sorted(places))}",
        )
    if not places:
        raise UnknownMemoryError(
            f"there is no record {wanted[:80]!r} in this bank",
            field="id",
            hint="See: satchel list --all. To use another bank: --bank NAME.",
        )
    (row,) = view.rows(list(places.values()))
    if row.type not in ERASABLE:
        raise UsageError(
            f"this is the id of a {row.type} record, not of a memory",
            field="id",
            hint="The log could not be read without it.",
        )
    return row.id
