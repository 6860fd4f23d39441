"""What has to go from a bank, from Python: memories for good."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from satchel.actions.erasing.choosing import conditions_of
from satchel.actions.erasing.erasing import Erased, EraseOptions, erase
from satchel.actions.opened import OpenBank
from satchel.api.asked import known
from satchel.api.lifetime import Lifetime


class EraseArguments(TypedDict, total=False):
    """Optional arguments of ``Bank.erase``."""

    where: Mapping[str, str | Sequence[str]]
    """Conditions by name, such as ``{"user": "ada"}``: all have to hold, one of the values each."""

    cascade: bool
    """Whether everything goes that was drawn from what is erased, or is part of it."""

    reason: str | None
    """For whoever reads the log; it is not erased itself."""

    scan: bool
    """Whether all that can be reached is looked through afterwards; it is when not given."""

    receipt: Path | None
    """A file for a copy of the signed report."""

    dry_run: bool


class Removing:
    """What a bank lets go of."""

    _opened: OpenBank
    _lifetime: Lifetime

    def erase(self, ids: str | Sequence[str] = (), **said: Unpack[EraseArguments]) -> Erased:
        """Erase memories for good, current ones too, with their versions and links.

        Args:
            ids: Ids of memories, edges, turns or files; or their first digits.
            **said: See ``EraseArguments``.

        Returns:
            What went, what was looked through afterwards, and what could not be reached;
            ``exit_status`` is 1 when a piece of it is left.

        Raises:
            UsageError: If nothing is asked for, or an id could be that of several.
            UnknownMemoryError: If there is no such record.
            StoreError: If the store cannot be written. Done again, it goes on from there.
        """
        options = known("erase", said, EraseArguments)
        asked: Mapping[str, str | Sequence[str]] = said.get("where", {})
        pairs = [
            f"{name}={value}"
            for name, values in asked.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
        options |= {"where": conditions_of(pairs), "ids": [ids] if isinstance(ids, str) else ids}
        with self._lifetime.use():
            return erase(self._opened, EraseOptions(**options))
