"""What was erased and must stay away, whatever a store has of it."""

from bisect import bisect_left
from collections.abc import Sequence

from satchel.errors import VerificationError
from satchel.ledger.heads import TrustedHead
from satchel.ports.rows import Row


class Erased:
    """What was erased from a bank, by its log and by what this machine remembers.

    Args:
        found: The bank as it is read.
        removed: Sorted places that were erased on this machine, as its witness has them.
    """

    def __init__(self, found: TrustedHead, removed: Sequence[int]) -> None:
        self._fold, self._size = found.fold, found.head.size
        # From where the log was taken up again it has other records, which nobody removed.
        given_up = found.verdict.given_up
        end = given_up.size if given_up is not None else self._size
        self.removed = removed[: bisect_left(removed, end)]

    def __contains__(self, row: object) -> bool:
        """Tell whether the log says of a row's record that it was erased."""
        return isinstance(row, Row) and self._fold.is_erased(row.id, self._size)

    def require_reason(self, row: Row) -> None:
        """Require that the log says why a row is empty.

        Raises:
            VerificationError: If it does not.
        """
        if row not in self:
            raise VerificationError(
                f"record {row.seq} is empty, but no erasure is logged",
                hint="The store was changed by another program. See: satchel doctor.",
            )

    def require_kept(self, row: Row) -> None:
        """Refuse the bytes of a record that was erased, by the log or on this machine.

        Raises:
            VerificationError: If it was.
        """
        if self._fold.has_erasures and row in self:
            raise VerificationError(
                f"record {row.seq} was erased, but has its bytes again",
                hint="The store was changed by another program. See: satchel doctor --repair.",
            )
        at = bisect_left(self.removed, row.seq) if self.removed else 0
        redacted = self._fold.redacted(row.id, self._size)
        if redacted is None and at < len(self.removed) and self.removed[at] == row.seq:
            raise VerificationError(
                f"record {row.seq} was erased or redacted on this machine, and the rolled-back "
                "store has it again",
                hint="An owner can erase it again: satchel bank accept-loss.",
            )
