"""The imports that a carried bank arrives in: one for each of the bank that it comes from.

A record that came with an import stays with that import's source record, since what it earns in
trust, and undoing it, hang on that. What came with none gets one that names the bank. All of them
carry a mark, by which one that was cut short is found again.
"""

from typing import Any

from satchel.errors import UsageError
from satchel.ledger.epochs import BankStanding
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.parts import TrustClass
from satchel.memory.records import Source, Status
from satchel.memory.times import now
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal

_PROVIDER, _FORMAT, _MARK = "satchel", "bank", "carried"
_OWN = ""
"""Stands for the import of what came with none."""


class Arrivals:
    """Which source record each record stays with in the target, for one moment of the origin.

    Args:
        view: The origin.
        there: The target.
        how: The options, which have to be those of one that was cut short.

    Raises:
        UsageError: If one was begun with other options.
    """

    def __init__(self, view: View, there: View, how: dict[str, Any]) -> None:
        head = view.head
        self.external = view.standing is BankStanding.UNTRUSTED
        """Whether what the origin says of trust counts for nothing."""

        self.new: list[Sealed] = []
        """Source records that are to be added before the next records."""

        self.promoted: list[Sealed] = []
        """What gives whole imports a higher trust, to be added once they are complete."""

        self._moment = {"bank": head.bank, "size": head.size, "root": head.root, **how}
        self._batches = dict[str, str]()
        for name in there.open_imports():
            mark = mark_of(there.get([name])[name])
            if mark.get("bank") == head.bank and _is_moment(mark, view):
                self._go_on(name, mark, how)
        if _OWN not in self._batches:
            self._begin(_OWN, TrustClass.EXTERNAL if self.external else None)

    @property
    def size(self) -> int:
        """How long the origin's log was at the moment that is carried."""
        return int(self._moment["size"])

    @property
    def names(self) -> list[str]:
        """The ids of the source records in the target, each once."""
        return list(dict.fromkeys(self._batches.values()))

    def name_for(self, view: View, there: View, logged: Logged) -> str:
        """Return the id of the source record that a record stays with in the target."""
        place = logged.row.batch
        if not place or self.external:
            return self._batches[_OWN]
        source = view.told_at([place])[place]
        name = source.record.id
        if name not in self._batches:
            self._take(there, name, source)
            said = view.said_of(name, self.size)
            again = (_promoted(one, self._batches[name]) for one in said)
            self.promoted += [record for record in again if record is not None]
        return self._batches[name]

    def _take(self, there: View, name: str, source: Logged) -> None:
        if name in there.open_imports():  # one that was cut short
            self._batches[name] = name
        elif there.places([name]):
            assert isinstance(source.model, Source)  # noqa: S101 - the fold takes no others
            self._begin(name, source.model.trust)
        else:
            self._batches[name] = name
            self.new.append(source.record)

    def _begin(self, name: str, trust: TrustClass | None) -> None:
        """Have a source record made for what came with an import of the origin, or with none."""
        mark = {**self._moment, **({"import": name} if name else {})}
        container = {_MARK: mark}
        record = seal(
            Source(provider=_PROVIDER, format=_FORMAT, trust=trust, container=container, at=now())
        )
        self._batches[name] = record.id
        self.new.append(record)

    def _go_on(self, name: str, mark: dict[str, Any], how: dict[str, Any]) -> None:
        """Go on with the moment of one that was cut short."""
        if {key: mark.get(key) for key in how} != how:
            options = f"--on-conflict {mark.get('on_conflict')}"
            options += " --retired" if mark.get("retired") else ""
            raise UsageError(
                "an earlier run was interrupted, and was started with other options",
                hint=f"Run it again with the original options: {options}.",
            )
        self._batches[str(mark.get("import", _OWN))] = name
        self._moment = {key: mark[key] for key in self._moment}


def is_begun(there: View, origin: str) -> bool:
    """Tell whether a bank was begun to be carried into another, and that was cut short."""
    sources = there.get(there.open_imports()).values()
    return any(mark_of(source).get("bank") == origin for source in sources)


def mark_of(logged: Logged) -> dict[str, Any]:
    """Return what the source record of a carrying says of where it comes from."""
    model = logged.model
    if not isinstance(model, Source) or (model.provider, model.format) != (_PROVIDER, _FORMAT):
        return {}  # what a file says around its records is kept in the same place
    mark = model.container.get(_MARK)
    return mark if isinstance(mark, dict) else {}


def _is_moment(mark: dict[str, Any], view: View) -> bool:
    """Tell whether a mark is of a moment of this bank: what is in a log may say anything."""
    size = mark.get("size")
    sound = isinstance(size, int) and 0 < size <= view.head.size
    return sound and isinstance(mark.get("root"), str)


def _promoted(logged: Logged, target: str) -> Sealed | None:
    """Return that a whole import was given a higher trust, said of the one here."""
    model = logged.model
    if not isinstance(model, Status) or model.state != "promoted":
        return None
    if model.target == target:
        return logged.record
    return seal(Status(target=target, state="promoted", reason=model.reason, actor=model.actor))
