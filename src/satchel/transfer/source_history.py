"""What memories said before they came here, as a live source tells it.

Older versions arrive before the current one, and wait until it is decided what becomes of that:
where it is new, they come with it, each superseded by the next; where the bank has gone its own
way, they are left out with it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from satchel.crypto.sealed_records import Sealed
from satchel.model.records import State
from satchel.model.values import resolved
from satchel.ports.rows import Row
from satchel.runtime.scratch import ScratchMap
from satchel.transfer.import_stage import ImportStage
from satchel.transfer.known_records import KnownRecords


class SourceEnd(NamedTuple):
    """That a record which arrives is not current at the source."""

    state: State
    at: str | None
    """When that happened; None where the source does not say."""


class OlderVersion(NamedTuple):
    """An older version that waits."""

    row: Row
    key: bytes
    """What it says, as it is recognised again."""

    ended: SourceEnd


Endings = Mapping[str, SourceEnd]
"""By id of the record."""

NONE: Endings = {}
"""Nothing but what is current."""


class _Times(msgspec.Struct, gc=False):
    created_at: str = ""
    updated_at: str = ""


_times = msgspec.json.Decoder(resolved(_Times)).decode


class _Plan(Protocol):
    """What the plan of an import does for older versions."""

    stage: ImportStage
    known: KnownRecords
    done: Any
    seen: ScratchMap

    def say(self, target: str, state: State, by: str | None, at: str | None = None) -> None: ...

    def current(self, slot: bytes | None) -> Sealed | None: ...


class OlderVersions:
    """Older versions that wait, by the name of their slot.

    Args:
        plan: That decides about the current ones.
    """

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._waiting = dict[bytes, list[OlderVersion]]()

    @property
    def waits(self) -> bool:
        """Whether there is one."""
        return bool(self._waiting)

    def wait(self, slot: bytes, version: OlderVersion) -> None:
        """Let one wait, after those that were before it."""
        self._waiting.setdefault(slot, []).append(version)

    def bring(self, slot: bytes | None, there: str | None, *, then: str | None) -> None:
        """Bring the older versions of a memory that comes, as far as they are new.

        Args:
            slot: What they are versions of.
            there: What the bank has of it, which the first that is new replaces.
            then: What replaces the last of them; None where nothing does.
        """
        plan, last, at = self._plan, there, None
        waiting = self._waiting.pop(slot, []) if slot is not None else []
        floor = plan.current(slot) if waiting and there is not None else None
        for version in waiting:
            plan.seen.add(version.key)
            if version.key in plan.known or (floor and not _is_newer(version.row, floor)):
                plan.done.known += 1
                continue
            if last is not None:
                plan.say(last, "superseded", version.row.id, at)
            plan.done.past += 1
            plan.stage.add(version.row)
            last, at = version.row.id, version.ended.at
        if last is not None and then is not None:
            plan.say(last, "superseded", then, at)

    def leave(self, slot: bytes | None, *, known: bool = False) -> None:
        """Leave the older versions of a memory that does not come."""
        for version in self._waiting.pop(slot, []) if slot is not None else []:
            self._plan.seen.add(version.key)
            if known or version.key in self._plan.known:
                self._plan.done.known += 1
            else:
                self._plan.done.skipped += 1

    def end(self, slot: bytes, current: Sealed | None, *, overwrite: bool) -> None:
        """Decide about a memory that was deleted at the source, whose versions all wait.

        Args:
            slot: What they are versions of.
            current: What the bank has of it.
            overwrite: Whether that is to go too.
        """
        plan, last = self._plan, self._waiting[slot][-1]
        if current is None and last.key not in plan.known:
            self.bring(slot, None, then=None)
            plan.say(last.row.id, "deleted", None, last.ended.at)
            return
        if current is not None and overwrite:
            plan.done.vanished += 1
            plan.say(current.id, "deleted", None, last.ended.at)
        self.leave(slot, known=current is None)


def _is_newer(row: Row, than: Sealed) -> bool:
    """Tell whether a version was made after another."""
    one, other = _times(row.body or b""), _times(than.body)
    return (one.updated_at or one.created_at) > (other.updated_at or other.created_at)
