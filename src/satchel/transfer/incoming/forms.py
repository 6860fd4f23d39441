"""Redacted forms that arrive, each right behind the redaction without which it could not stand."""

from collections.abc import Sequence

import msgspec

from satchel.ports.rows import Row
from satchel.transfer.incoming.planned import Planned
from satchel.type_info import resolved

_KIND = "redaction"


class _Said(msgspec.Struct, gc=False):
    entry: str


_decode = msgspec.json.Decoder(resolved(_Said)).decode


class Forms:
    """What was said last of a form that is to follow.

    Args:
        done: Where redactions are counted: as left behind, until their form is taken.
    """

    def __init__(self, done: Planned) -> None:
        self._done = done
        self._last: Row | None = None

    def leave(self, row: Row) -> None:
        """Count a record of a kind that stays where it is, and keep in mind one of ours."""
        left = self._done.left
        left[row.type] = left.get(row.type, 0) + 1
        self._last = row if row.type == _KIND else None

    def with_its_own(self, row: Row) -> Sequence[Row]:
        """Return a record that is taken; a form with the redaction that was waiting for it."""
        last, self._last = self._last, None
        if last is None or _decode(last.body or b"").entry != row.id:
            return [row]
        left = self._done.left
        left[_KIND] -= 1
        if not left[_KIND]:
            del left[_KIND]
        self._done.others += 1
        return [last, row]
