"""Who owns a bank, and how many of them must sign a decision about it, from Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from satchel.api.lazy import lazy
from satchel.api.operations import call, method
from satchel.api.parts import BankPart

if TYPE_CHECKING:
    from satchel.actions.keys import ownership, proposing
    from satchel.actions.keys.ownership import OwnedBank
    from satchel.errors import ThresholdError
    from satchel.ports.operations import PathText
else:
    ownership = lazy("satchel.actions.keys.ownership")
    proposing = lazy("satchel.actions.keys.proposing")


class Owners(BankPart):
    """The owners of a bank; ``Bank.owners`` gives it. Only they may use it.

    If more owners must sign, whose keys are elsewhere, a call ends in a ``ThresholdError``.
    ``propose`` writes what they have to sign to a file, each of them signs it with ``sign``, and
    ``enact`` records it in the log.
    """

    @contextmanager
    def _owned(self) -> Iterator[OwnedBank]:
        with self._context() as bank:
            yield ownership.OwnedBank(bank.settings, bank.store, bank.id)

    list = method(ownership.list_owners, context=_owned)
    add = method(ownership.add_owner, context=_owned)
    set_threshold = method(ownership.set_threshold, context=_owned)
    sign = method(ownership.sign_proposal, context=_owned)
    enact = method(ownership.enact_proposal, context=_owned)

    @call
    def propose(self, refused: ThresholdError, path: PathText) -> None:
        """Write what more owners have to sign to a new file.

        Args:
            refused: The error that a call ended in.
            path: The file.

        Raises:
            TargetExistsError: If the file exists.
        """
        proposing.write_proposal(self._opened.settings, Path(path), refused.drawn)
