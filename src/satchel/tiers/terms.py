"""Which earlier facts may be like a new one: those that have its rarest words.

For each word the newest facts that have it are kept beside the log, a few of them, and in how many
it is. A new fact is compared with those that its rarest words name: as many in a bank of a million
as in one of a thousand. The values are made again from the log where they are missing; an erasure
takes them away with what it erases, since they tell words.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from blake3 import blake3

from satchel.ledger.erasure.targets import DERIVED
from satchel.ledger.view import View
from satchel.seal.records import PREFIX

TERMS = f"{DERIVED}terms/"
THROUGH = f"{DERIVED}through"
"""Name of the value that says how many records of the log were looked at."""

NEWEST = 10
"""Facts that are kept for a word."""

RAREST = 4
"""Words of a fact by which others are looked for."""

COMPARED = 10
"""Facts that one is compared with at most."""

_COUNT, _ID = 4, 32
_MOST_HELD = 50_000
_DIGEST = 6


@dataclass(slots=True)
class _Holders:
    """The facts that have a word."""

    count: int = 0
    newest: list[str] = field(default_factory=list)
    """Their ids, the newest last."""

    def add(self, identity: str) -> bool:
        """Add a fact, and tell whether it was new here."""
        if identity in self.newest:
            return False
        self.count += 1
        self.newest.append(identity)
        del self.newest[:-NEWEST]
        return True

    def packed(self) -> bytes:
        ids = (bytes.fromhex(one.removeprefix(PREFIX)) for one in self.newest)
        return self.count.to_bytes(_COUNT, "big") + b"".join(ids)


class TermIndex:
    """The words of a bank's facts, as far as they were asked for."""

    def __init__(self) -> None:
        self._held = dict[str, _Holders]()
        self._changed = set[str]()

    @property
    def changes(self) -> int:
        """How many values are different from what is kept."""
        return len(self._changed)

    def forget(self) -> None:
        """Read everything anew: somebody else may have changed it."""
        self._held.clear()
        self._changed.clear()

    def add(self, view: View, identity: str, terms: Iterable[str]) -> None:
        """Take a fact in, by its id and its words."""
        for term in terms:
            if self._of(view, term).add(identity):
                self._changed.add(term)

    def candidates(self, view: View, terms: Iterable[str]) -> list[str]:
        """Return the ids of facts that have the rarest of some words; those with most first."""
        held = [(one.count, term, one) for term in terms if (one := self._of(view, term)).count]
        found = Counter[str]()
        for _, _, one in sorted(held)[:RAREST]:
            found.update(reversed(one.newest))
        # Sorting is stable: of those with as many words, the newest of the rarest come first.
        return sorted(found, key=found.__getitem__, reverse=True)[:COMPARED]

    def take_changes(self) -> dict[str, bytes | None]:
        """Return the values to keep, which then count as kept."""
        changed, self._changed = self._changed, set()
        values: dict[str, bytes | None] = {_name(one): self._held[one].packed() for one in changed}
        if len(self._held) > _MOST_HELD:
            self._held.clear()
        return values

    def _of(self, view: View, term: str) -> _Holders:
        held = self._held.get(term)
        if held is None:
            value = view.side(_name(term)).get(_name(term), b"")
            held = self._held[term] = _unpacked(value)
        return held


def _name(term: str) -> str:
    return TERMS + blake3(term.encode()).hexdigest(length=_DIGEST)


def _unpacked(value: bytes) -> _Holders:
    ids = range(_COUNT, len(value) - _ID + 1, _ID)
    return _Holders(
        int.from_bytes(value[:_COUNT], "big"), [PREFIX + value[at : at + _ID].hex() for at in ids]
    )
